"""The same logged scores under other rules: what would change, before a run is changed.

Run it: python examples/12_replay.py
"""

import numpy as np

import rubrank

rng = np.random.default_rng(0)
rollouts = [
    {
        "id": f"q{q}",
        "prompt": "Describe the sea.",
        "responses": [" ".join(["sea"] * int(n)) for n in rng.integers(1, 40, 8)],
    }
    for q in range(20)
]
rubric = [
    {"name": "Long", "verifier": "WordCount", "params": {"low": 20}},
    {"name": "Distinct", "verifier": "DistinctN", "params": {"n": 1}},
    {"name": "Soft", "verifier": "SoftLength", "params": {"shape": "target", "limit": 15, "fade": 15}},
]
table = rubrank.grade(rollouts, rubric, workers=0)

found = rubrank.replay(table, ["rlvr2", "weighted-mean", "borda", "gdpo"])
print("Kendall's tau within groups")
for name, row in zip(found.names, found.kendall, strict=True):
    print(f"{name:14}", row.round(2))
print("share in the variance of the reward")
for rule in found.rules:
    print(f"{rule.rule:14}", dict(zip(found.criteria, rule.effective.round(2).tolist(), strict=True)))
