"""What no other criterion can make up for, and every reward in words.

Run it: python examples/03_gate_and_explain.py
"""

import numpy as np

from rubrank import RLVR2, Gate, Gated, ScoreBatch

scores = np.array(
    [
        # Facts, Clarity, NotEmpty, NoRepeats
        [1, 7, 1, 1],
        [1, 9, 1, 0.4],
        [0, 9, 1, 1],
        [1, 8, 0, 1],
        [5, 5, 1, 1],
        [5, 5, 1, 1],
    ]
)
batch = ScoreBatch.of_arrays(
    scores,
    groups=["tides", "tides", "tides", "tides", "lake", "lake"],
    criteria=["Facts", "Clarity", "NotEmpty", "NoRepeats"],
    weights={"Facts": 2},
    global_quality=["NotEmpty"],  # hard: below 1 the reward is 0
    low_quality=["NoRepeats"],  # soft: 1 = clean, 0 halves the reward
)

# A rule, then a gate. A criterion that the gate reads is not ranked by.
result = Gated(RLVR2(), Gate(floor=0.5))(batch)

print("before the gate", result.ranking.round(2))
print("reward         ", result.reward.round(2))

for row in (1, 3):
    print(f"\n{result.explain(row)}")

# Everything between scores and rewards is there, group by group.
for group in result:
    print(f"\n{group.label}: {'; '.join(group.flags) or 'nothing to note'}")
    assert group.effective_weights is not None  # RLVR² has them; other rules give None
    for name, given, effective in zip(group.criteria, group.weights, group.effective_weights, strict=True):
        print(f"  {name:<8} weight {given:g}, {effective:4.0%} of what tells the rollouts apart")

# A group without signal teaches a group-relative trainer nothing: it can be left out of the step.
useful = [group.label for group in result if not group.no_signal]
print(f"\nworth training on: {', '.join(map(str, useful))}")
