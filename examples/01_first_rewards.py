"""Four responses, four criteria, four scales: from scores to rewards.

Run it: python examples/01_first_rewards.py
"""

from typing import Any

import numpy as np

import rubrank

CRITERIA = ["Keyword", "Facts", "Clarity", "Latency"]

# One row for each response that the policy sampled for one query, one column for each criterion.
scores = np.array(
    [
        # yes/no, three grades, 0 to 10, milliseconds
        [1, 0.5, 7, 2100],
        [1, 1.0, 8, 900],
        [0, 1.0, 9, 850],
        [1, 0.0, 4, 400],
    ]
)


def fuse(table: np.ndarray, **options: Any) -> np.ndarray:
    return rubrank.fuse(table, criteria=CRITERIA, directions={"Latency": "lower"}, **options)


def show(title: str, rewards: np.ndarray) -> None:
    print(f"{title:<52}", *(f"{reward:5.2f}" for reward in rewards))


show("by ranking", fuse(scores))

# Only the order within a column counts: seconds instead of milliseconds, or a judge that spreads its grades, change
# nothing.
rescaled = scores.copy()
rescaled[:, 3] /= 1000
rescaled[:, 2] = np.exp(rescaled[:, 2])
show("the same ordering on other scales", fuse(rescaled))

# Adding up, for comparison: the choice of units is the choice of the winner.
total = (scores * [1, 1, 1, -1]).sum(1)
show("adding up, milliseconds (stretched to 0..1)", (total - total.min()) / np.ptp(total))

# What matters more gets a weight, what is too close to call a margin.
weighted = fuse(scores, weights={"Facts": 3}, margins={"Latency": 100, "Clarity": 1})
show("facts count three times, small differences are ties", weighted)

# A judge that gave no answer is NaN: not compared, neither won nor lost.
missing = scores.copy()
missing[2, 1] = np.nan
show("one judgment missing", fuse(missing))

# A batch: rollouts in any order, each with the label of its query. Comparisons never leave a group.
batch = np.concatenate([scores, scores[:2]])
show("two queries in one batch", fuse(batch, groups=["tides", "tides", "tides", "tides", "lake", "lake"]))
