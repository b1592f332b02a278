"""Responses and a rubric into scores, with reasons; then rewards and a file.

Run it: python examples/10_grade.py
"""

import rubrank

rollouts = [
    {
        "id": "tides",
        "prompt": "Explain tides in at most 12 words. Mention the moon.",
        "responses": [
            "The moon pulls the sea, so the water rises and falls.",
            "Tides happen twice a day.",
            "The moon! " * 12,
            "",
        ],
    }
]
rubric = [
    "EmptyAnswer",  # gates: nothing else can make up for them
    "RepeatSegment",
    {"name": "Short", "verifier": "WordCount", "params": {"high": 12}},
    {"name": "Moon", "verifier": "Keyword", "params": {"keywords": ["moon"]}, "weight": 2},
]

table = rubrank.grade(rollouts, rubric, workers=0)
print(table)
for i in range(4):
    print(f"response {i}: {table['tides'].reason(i, 'Short')}; {table['tides'].reason(i, 'Moon')}")

fused = table.fuse()
print("rewards", fused.reward.round(2))
print(fused.explain(2))

table.write("scores.parquet")  # rubrank fuse scores.parquet reads it
assert (rubrank.read_scores("scores.parquet").fuse().reward == fused.reward).all()
