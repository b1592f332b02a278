"""The same rollouts under several rules: how alike they rank, and who wins.

    {"names": ["rlvr2", "gdpo+"], "groups": 128, "kendall": [[1, 0.83], …], "winner": [[1, 0.9], …], "signs": […],
     "no_signal": [0.05, 0.02], "mean": [0.49, 0.51]}

Compared are the groups that have rewards under every rule. Measures are those of `rubrank replay`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rubrank.records.comparing import matrix, ordered
from rubrank.records.report.grouped import Grouped

_MEASURES = ("kendall", "winner", "signs")


class Rules:
    """Rewards by group and rule. A file may hold a group once for each rule, or the other rules beside the first."""

    def __init__(self) -> None:
        self.rewards: dict[tuple[int | None, str, int], dict[str, np.ndarray]] = {}
        self.seen: Counter[tuple[int | None, str, str]] = Counter()
        self.names: dict[str, None] = {}

    def add(self, group: Grouped) -> None:
        """Keep the rewards of a group."""
        record = group.record
        if not record.size:
            return
        again = self.seen[record.step, record.group, record.rule]  # a query may come again, in a later epoch
        self.seen[record.step, record.group, record.rule] += 1
        found = self.rewards.setdefault((record.step, record.group, again), {})
        found[record.rule] = group.reward
        found.update({rule: np.array(reward) for rule, reward in record.others.items()})
        self.names.update(dict.fromkeys(found))

    def result(self) -> dict[str, Any]:
        """Empty matrices with one rule only."""
        names = list(self.names)
        common = [by for by in self.rewards.values() if len(by) == len(names) and _same_sizes(by)]
        result: dict[str, Any] = {"names": names, "groups": len(common), "all_groups": len(self.rewards)}
        if len(names) < 2 or not common:
            return {**result, **{measure: [] for measure in (*_MEASURES, "no_signal", "mean")}}
        starts = np.concatenate([[0], np.cumsum([len(by[names[0]]) for by in common])])
        rewards = [np.concatenate([by[name] for by in common]) for name in names]
        orders = [ordered(reward, starts) for reward in rewards]
        tells = [sum(int(block.any((1, 2)).sum()) for block in order.blocks) for order in orders]
        return {
            **result,
            **{measure: matrix(orders, measure).tolist() for measure in _MEASURES},
            "no_signal": [1.0 - told / len(common) for told in tells],
            "mean": [float(reward.mean()) for reward in rewards],
        }


def _same_sizes(by: dict[str, np.ndarray]) -> bool:
    return len({len(reward) for reward in by.values()}) == 1
