"""Do criteria agree about who is better?

{"names": ["Facts", "Brevity"], "tau": [[1, -0.31], [-0.31, 1]], "groups": [[80, 61], [61, 70]], "left_out": 0}

τ-b within a group, over pairs that both compare; mean over the groups in which both tell rollouts apart.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rubrank.records.report.grouped import Grouped
from rubrank.records.report.moments import tau_matrix

_SHOWN = 24  # rows of a matrix that one can still read


class Conflicts:
    """Sums by set of criteria: groups with the same criteria share one matrix."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}
        self.used: Counter[str] = Counter()

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        names, K = group.names[: group.K], group.K
        if names not in self.sums:
            self.sums[names] = np.zeros((K, K)), np.zeros((K, K), int)
        found = tau_matrix(group.signs[:K], group.known[:K])
        total, count = self.sums[names]
        total += np.nan_to_num(found)
        count += ~np.isnan(found)
        self.used.update(names)

    def result(self) -> dict[str, Any]:
        """The matrix of the criteria that most groups ask for."""
        names = [name for name, _ in self.used.most_common(_SHOWN)]
        at = {name: k for k, name in enumerate(names)}
        total, count = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2, int)
        for own, (part, number) in self.sums.items():
            mine = [k for k, name in enumerate(own) if name in at]
            place = np.ix_([at[own[k]] for k in mine], [at[own[k]] for k in mine])
            total[place] += part[np.ix_(mine, mine)]
            count[place] += number[np.ix_(mine, mine)]
        tau = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return {"names": names, "tau": tau.tolist(), "groups": count.tolist(), "left_out": len(self.used) - len(names)}
