"""GEAR: a criterion earns less credit if its prerequisites are not met.

    "Cites the right law" (p = 0.5) is a strong prerequisite of "Applies it" (p = 1), equal weights
    q = 0.5 and 1 · [0.5 + (1 − 0.5) · 0.2] = 0.6      R = (0.5 + 0.6)/2 = 0.55

    q_i = p_i · Π_{j ∈ parents(i)} [ q_j + (1 − q_j) λ_ji ] in topological order,  R = Σ w q / Σ_{w > 0} w     grade A

λ = 0.6 for a weak prerequisite, 0.2 for a strong one, 0 for a trigger. Edges come with the rubric (`depends`), for each
group its own. p is the score from 0 to 1; for a criterion with negative points p says that the bad thing is there, and
w is negative.
`method`: "recursive" (above); "exact": marginals over all 2^n states of connected criteria (n ≤ 10), which differ from
"recursive" if two parents share an ancestor; "hard": [v_j + (1 − v_j) λ] with the parents' raw verdicts v_j =
1[p_j ≥ verdict].
`rlvr2*gear` ranks by q instead of adding it up.
`normalise`: "positive" divides by the sum of positive weights, "absolute" by the sum of their sizes. `clip` cuts at 0
and 1.
Missing: the criterion is left out of R for that rollout, and as a prerequisite it counts as met. A rollout without any
score gets its group's mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.graph import Graph, build_graphs
from rubrank.fusion.rules.group_math import expand_rows
from rubrank.fusion.rules.healthbench import read_points, share_of_points
from rubrank.scores.batch import ScoreBatch

_MOST_EXACT = 10
_ROWS = 1024  # rollouts at a time: with 1024 states each they take 8 MB


@dataclass(frozen=True)
class GEAR(checks.LocalRule):
    """Graph-gated points."""

    name: ClassVar[str] = "gear"

    weak: float = checks.number(0.6, high=1.0)
    strong: float = checks.number(0.2, high=1.0)
    trigger: float = checks.number(0.0, high=1.0)
    method: Literal["recursive", "exact", "hard"] = checks.choice(
        "recursive", ("recursive", "exact", "hard")
    )
    verdict: float = checks.number(0.5, high=1.0)
    normalise: Literal["positive", "absolute"] = checks.choice("positive", ("positive", "absolute"))
    clip: bool = checks.flag(False)

    @property
    def bounded(self) -> bool:
        """Only if clipped: negative points can outweigh the others."""
        return self.clip

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The points that each rollout has credit for."""
        points_NK, presence_MK = read_points(batch)
        credit_MK = self.credits(batch, presence_MK)
        if not batch.complete:
            credit_MK[batch.missing_MK] = 0.0
        reachable_NK = (
            np.maximum(points_NK, 0.0) if self.normalise == "positive" else np.abs(points_NK)
        )
        value_M = share_of_points(credit_MK, points_NK, reachable_NK, batch, self.clip)
        return Fused(batch, self.name, value_M, points_NK, {"credit": credit_MK})

    def scores(self, batch: ScoreBatch) -> np.ndarray:
        """(M, K): q as a score, for `rlvr2*gear`; 1 − q for a criterion with negative points."""
        points_NK, presence_MK = read_points(batch)
        credit_MK = self.credits(batch, presence_MK)
        scores_MK = np.where(expand_rows(points_NK < 0.0, batch), 1.0 - credit_MK, credit_MK)
        return np.where(batch.missing_MK, np.nan, scores_MK)

    def credits(self, batch: ScoreBatch, presence_MK: np.ndarray) -> np.ndarray:
        """(M, K): q. A missing score counts as p = 1."""
        met_MK = np.where(batch.missing_MK, 1.0, presence_MK) if not batch.complete else presence_MK
        # The walk takes one criterion at a time, so each criterion is contiguous in memory.
        q_KM = np.array(met_MK.T, order="C")
        for graph, columns, groups in build_graphs(batch):
            if len(groups) == batch.N and columns == list(range(batch.K)):
                self._walk(graph, q_KM)
                continue
            rows_N = np.zeros(batch.N, bool)
            rows_N[groups] = True
            part = np.ix_(np.array(columns), np.flatnonzero(rows_N[batch.group_of_row]))
            part_KM = q_KM[part]
            self._walk(graph, part_KM)
            q_KM[part] = part_KM
        return q_KM.T

    def _walk(self, graph: Graph, q_KM: np.ndarray) -> None:
        """Turn p into q, in place."""
        if self.method == "exact":
            for members in graph.components:
                self._exact(graph, members, q_KM)
            return
        above_KM = (q_KM >= self.verdict).astype(float) if self.method == "hard" else q_KM
        for k in graph.order:
            for j, kind in graph.parents[k]:
                leak = self._leak(kind)
                q_KM[k] *= leak + (1.0 - leak) * above_KM[j]

    def _leak(self, kind: str) -> float:
        """λ: the share of the credit that is left if the prerequisite is not met."""
        kinds = {"weak": self.weak, "strong": self.strong, "trigger": self.trigger}
        if kind not in kinds:
            raise InvalidInput(
                self.name, "kind of an edge", f"one of {', '.join(kinds)}", repr(kind), ""
            )
        return kinds[kind]

    def _exact(self, graph: Graph, members: list[int], q_KM: np.ndarray) -> None:
        """Turn p into the exact marginals of connected criteria, in place."""
        n = len(members)
        if n > _MOST_EXACT:
            raise InvalidInput(
                self.name,
                "method",
                f"'recursive' where more than {_MOST_EXACT} criteria are connected",
                f"'exact' with {n}",
                "Exact marginals go over 2^n states.",
            )
        held_nS = (np.arange(2**n) >> np.arange(n)[:, None] & 1).astype(float)
        for start in range(0, q_KM.shape[1], _ROWS):
            p_nM = q_KM[members, start : start + _ROWS]
            weight_MS = np.ones((p_nM.shape[1], 2**n))
            for i, k in enumerate(members):
                left_S = np.ones(2**n)
                for j, kind in graph.parents[k]:
                    leak = self._leak(kind)
                    left_S *= leak + (1.0 - leak) * held_nS[members.index(j)]
                chance_MS = p_nM[i][:, None] * left_S
                weight_MS *= np.where(held_nS[i] > 0.0, chance_MS, 1.0 - chance_MS)
            q_KM[members, start : start + _ROWS] = held_nS @ weight_MS.T
