"""Rules that count points: HealthBench, and GEAR, in which a criterion earns less if its prerequisites are not met.

The last part of the file builds the graph of a rubric's prerequisites:

    criteria = A;  B depends on A (strong);  C depends on A (weak) and B (trigger)
    build_graph(…)      order B, C;  parents of C: (A, "weak"), (B, "trigger")

Letters at the end of a name are the axes of an array: M rollouts, N groups, K criteria; n connected criteria and
their S = 2^n states. (1, K) instead of (N, K): all groups share one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import LocalRule, choice_field, flag_field, number_field
from rubrank.fusion.rules.group_math import expand_rows, fill_unknown, sum_products, zero_missing
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData

_MOST_EXACT_CRITERIA = 10

GearMethod: TypeAlias = Literal["recursive", "exact", "hard"]
GearDivisor: TypeAlias = Literal["positive", "absolute"]
Edges = tuple[tuple[tuple[str, str], ...], ...]
"""For each criterion, the name of each prerequisite and the kind of the edge."""


@dataclass(frozen=True)
class HealthBench(LocalRule):
    """HealthBench: the points that a rollout wins, divided by the points that it could win.

        points 5 (met), 3 (not met), −4 (present)      R = (5 − 4) / (5 + 3) = 0.125

        R = Σ points · presence / Σ_{points > 0} points;  0 if none is positive          grade A

    Points may be negative: "Invents a dosage", −8. A score s always says how good a rollout is (a criterion with
    negative points has "lower" as its direction), so the presence of a bad thing is 1 − s. If a criterion has no
    points, its weight is used. GEAR reads points in the same way.
    `clip=True` (the default) limits R to [0, 1]. With `clip=False`, R is negative if a rollout loses more points than
    it wins.
    Missing: the criterion is left out of both sums for that rollout. A rollout without any score gets the mean of the
    other rollouts of its group. If no rollout of the group has a score, all get 0.5, or 0 with `clip=False`.
    """

    name: ClassVar[str] = "healthbench"

    clip: bool = flag_field(True)

    @property
    def bounded(self) -> bool:
        """Values are from 0 to 1 only if they are clipped."""
        return self.clip

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the share of the points that each rollout wins."""
        points_NK, presence_MK = read_points(batch)
        reachable_NK = np.maximum(points_NK, 0.0)
        value_M = divide_points(
            zero_missing(presence_MK, batch), points_NK, reachable_NK, batch, self.clip
        )
        return Fused(batch, self.name, value_M, points_NK)


class Points(NamedTuple):
    """Points and presence of every criterion."""

    points_NK: np.ndarray
    """(N, K) or (1, K); negative if a response should not have what the criterion describes."""
    presence_MK: np.ndarray
    """(M, K), from 0 to 1: how far a response has what the criterion describes; NaN = missing."""


def read_points(batch: ScoreBatch) -> Points:
    """Read the points from every group's rubric, and how far each rollout has what the criteria describe."""
    rubric_NK = batch.collect_per_group(lambda c: np.nan if c.points is None else c.points)
    rubric_NK = rubric_NK.astype(float)
    points_NK = np.where(np.isnan(rubric_NK), batch.weights_NK, rubric_NK)
    is_negative_NK = points_NK < 0.0
    if not is_negative_NK.any():
        return Points(points_NK, batch.unit_MK)
    presence_MK = np.where(expand_rows(is_negative_NK, batch), 1.0 - batch.unit_MK, batch.unit_MK)
    return Points(points_NK, presence_MK)


def divide_points(
    presence_MK: np.ndarray,
    points_NK: np.ndarray,
    reachable_NK: np.ndarray,
    batch: ScoreBatch,
    clip: bool,
) -> np.ndarray:
    """Return Σ points · presence / Σ reachable (M,) over the criteria that a rollout has scores on.

    It is 0 if nothing can be won.

    Values are clipped first. Rollouts without scores then get the mean of the clipped values of their group.
    """
    won = sum_products(presence_MK, expand_rows(points_NK, batch))
    reachable = expand_rows(reachable_NK.sum(1), batch)
    if not batch.complete:
        reachable = sum_products(
            (~batch.missing_MK).astype(float), expand_rows(reachable_NK, batch)
        )
    value = np.divide(won, reachable, out=np.zeros(len(won)), where=reachable > 0.0)
    if clip:
        value = np.clip(value, 0.0, 1.0)
    if not batch.complete:
        value[batch.missing_MK.all(1)] = np.nan
    return fill_unknown(value, batch, 0.5 if clip else 0.0)


@dataclass(frozen=True)
class GEAR(LocalRule):
    """GEAR: a criterion earns less credit if its prerequisites are not met.

        "Cites the right law" (p = 0.5) is a strong prerequisite of "Applies it" (p = 1), equal weights
        q = 0.5 and 1 · [0.5 + (1 − 0.5) · 0.2] = 0.6      R = (0.5 + 0.6)/2 = 0.55

        q_i = p_i · Π_{j ∈ parents(i)} [ q_j + (1 − q_j) λ_ji ] in topological order,  R = Σ w q / Σ_{w > 0} w   grade A

    λ = 0.6 for a weak prerequisite, 0.2 for a strong one, 0 for a trigger. Edges come with the rubric (`depends`), for
    each group its own. p is the score from 0 to 1; for a criterion with negative points p says that the bad thing is
    there, and w is negative.
    `method`: "recursive" (above); "exact": marginals over all 2^n states of connected criteria (n ≤ 10), which differ
    from "recursive" if two parents share an ancestor; "hard": [v_j + (1 − v_j) λ] with the parents' raw verdicts v_j =
    1[p_j ≥ verdict].
    `rlvr2*gear` ranks by q instead of adding it up.
    `normalise`: "positive" divides by the sum of positive weights, "absolute" by the sum of their sizes. `clip` cuts at
    0 and 1.
    Missing: the criterion is left out of R for that rollout, and as a prerequisite it counts as met. A rollout without
    any score gets its group's mean.
    """

    name: ClassVar[str] = "gear"

    weak: float = number_field(0.6, high=1.0)
    strong: float = number_field(0.2, high=1.0)
    trigger: float = number_field(0.0, high=1.0)
    method: GearMethod = choice_field("recursive", GearMethod)
    verdict: float = number_field(0.5, high=1.0)
    normalise: GearDivisor = choice_field("positive", GearDivisor)
    clip: bool = flag_field(False)

    @property
    def bounded(self) -> bool:
        """Values are from 0 to 1 only if they are clipped: negative points can outweigh the others."""
        return self.clip

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the points that each rollout has credit for, divided by the points that it could win."""
        points_NK, presence_MK = read_points(batch)
        credit_MK = self._compute_credits(batch, presence_MK)
        if not batch.complete:
            credit_MK[batch.missing_MK] = 0.0
        reachable_NK = np.abs(points_NK)
        if self.normalise == "positive":
            reachable_NK = np.maximum(points_NK, 0.0)
        value_M = divide_points(credit_MK, points_NK, reachable_NK, batch, self.clip)
        return Fused(batch, self.name, value_M, points_NK, {"credit": credit_MK})

    def scores(self, batch: ScoreBatch) -> np.ndarray:
        """Return q (M, K) as scores for `rlvr2*gear`; 1 − q for a criterion with negative points."""
        points_NK, presence_MK = read_points(batch)
        credit_MK = self._compute_credits(batch, presence_MK)
        scores_MK = np.where(expand_rows(points_NK < 0.0, batch), 1.0 - credit_MK, credit_MK)
        return np.where(batch.missing_MK, np.nan, scores_MK)

    def _compute_credits(self, batch: ScoreBatch, presence_MK: np.ndarray) -> np.ndarray:
        """Return q (M, K). A missing score counts as p = 1."""
        p_MK = presence_MK if batch.complete else np.where(batch.missing_MK, 1.0, presence_MK)
        # The methods go through the criteria one by one, so each criterion is contiguous in memory.
        q_KM = np.array(p_MK.T, order="C")
        for graph, columns, groups in build_graphs(batch):
            has_graph_N = np.zeros(batch.N, bool)
            has_graph_N[groups] = True
            rows = np.flatnonzero(has_graph_N[batch.group_of_row])
            cells = np.ix_(np.array(columns), rows)
            selected_KM = q_KM[cells]
            self._apply_graph(graph, selected_KM)
            q_KM[cells] = selected_KM
        return q_KM.T

    def _apply_graph(self, graph: Graph, q_KM: np.ndarray) -> None:
        """Turn p into q, in place."""
        if self.method == "exact":
            for members in graph.components:
                self._compute_exact_marginals(graph, members, q_KM)
            return
        # "recursive" reads the parents' credits, which are final: a parent comes before its children in the order.
        parent_KM = (q_KM >= self.verdict).astype(float) if self.method == "hard" else q_KM
        for k in graph.order:
            for j, kind in graph.parents[k]:
                leak = self._find_leak(kind)
                q_KM[k] *= leak + (1.0 - leak) * parent_KM[j]

    def _find_leak(self, kind: str) -> float:
        """Return λ: the share of the credit that is left if the prerequisite is not met."""
        leaks = {"weak": self.weak, "strong": self.strong, "trigger": self.trigger}
        if kind not in leaks:
            allowed = f"one of {', '.join(leaks)}"
            raise InvalidInput(self.name, "kind of an edge", allowed=allowed, got=repr(kind))
        return leaks[kind]

    def _compute_exact_marginals(self, graph: Graph, members: list[int], q_KM: np.ndarray) -> None:
        """Turn p into the exact marginals of connected criteria, in place; S = 2^n states of n criteria."""
        n = len(members)
        if n > _MOST_EXACT_CRITERIA:
            raise InvalidInput(
                self.name,
                "method",
                allowed=f"'recursive' where more than {_MOST_EXACT_CRITERIA} criteria are connected",
                got=f"'exact' with {n}",
                remedy="Exact marginals go over 2^n states.",
            )
        # Bit i of a state says whether criterion i holds in it.
        holds_nS = (np.arange(2**n) >> np.arange(n)[:, None] & 1).astype(float)
        p_nM = q_KM[members]
        state_probability_MS = np.ones((p_nM.shape[1], 2**n))
        for i, k in enumerate(members):
            credit_left_S = np.ones(2**n)
            for j, kind in graph.parents[k]:
                leak = self._find_leak(kind)
                credit_left_S *= leak + (1.0 - leak) * holds_nS[members.index(j)]
            probability_MS = p_nM[i][:, None] * credit_left_S
            state_probability_MS *= np.where(
                holds_nS[i] > 0.0, probability_MS, 1.0 - probability_MS
            )
        q_KM[members] = holds_nS @ state_probability_MS.T


# ----------------------------------------------------------------------------------------- the graph of prerequisites


@dataclass(frozen=True)
class Graph:
    """The prerequisites of the criteria of one rubric; criteria are numbers."""

    order: tuple[int, ...]
    """The criteria that have parents, each after all of its parents."""
    parents: tuple[tuple[tuple[int, str], ...], ...]
    """For every criterion, the number of each parent and the kind of the edge."""

    @cached_property
    def components(self) -> list[list[int]]:
        """The connected components, each in topological order; criteria without any edge are left out."""
        component_of = list(range(len(self.parents)))
        for k in self.order:
            for j, _ in self.parents[k]:
                merged = component_of[k]
                component_of = [component_of[j] if c == merged else c for c in component_of]
        members_of: dict[int, list[int]] = {}
        roots = [k for k in range(len(self.parents)) if k not in self.order]
        for k in (*roots, *self.order):
            members_of.setdefault(component_of[k], []).append(k)
        return [members for members in members_of.values() if len(members) > 1]


class PlacedGraph(NamedTuple):
    """A graph, the columns of its criteria in the batch, and the groups that have it."""

    graph: Graph
    columns: list[int]
    groups: list[int]


def build_graphs(batch: ScoreBatch) -> list[PlacedGraph]:
    """Return the distinct graphs of a batch; those without edges are left out."""
    rubrics: dict[int, tuple[CriterionData, ...]] = {0: batch.criteria}
    groups = {0: list(range(batch.N))}
    if batch.group_rubrics is not None:  # groups often share a rubric, so each is read once
        rubrics = {id(rubric): rubric for rubric in batch.group_rubrics}
        groups = {id(rubric): [] for rubric in batch.group_rubrics}
        for g, rubric in enumerate(batch.group_rubrics):
            groups[id(rubric)].append(g)
    column_of = {name: k for k, name in enumerate(batch.names)}
    gates = tuple(criterion.name for criterion in batch.gate_criteria)
    graphs: dict[tuple[Any, ...], PlacedGraph] = {}
    for key, rubric in rubrics.items():
        ranked = [criterion for criterion in rubric if criterion.name in column_of]
        names = tuple(criterion.name for criterion in ranked)
        edges = tuple(criterion.depends for criterion in ranked)
        if not any(edges) or not groups[key]:
            continue
        if (names, edges) not in graphs:
            columns = [column_of[name] for name in names]
            graphs[names, edges] = PlacedGraph(build_graph(names, edges, gates), columns, [])
        graphs[names, edges].groups.extend(groups[key])
    return [placed for placed in graphs.values() if placed.graph.order]


@lru_cache(maxsize=4096)
def build_graph(names: tuple[str, ...], depends: Edges, gates: tuple[str, ...] = ()) -> Graph:
    """Return the graph of the named criteria; cached by its arguments.

    gates: names of gate criteria. An edge to one of them is left out, because the gate itself acts on the reward.
    Raises InvalidInput for a cycle, an edge to the criterion itself or to an unknown one, and an edge given twice.
    """
    for name, edges in zip(names, depends, strict=True):
        owner = f"criterion {name!r}"
        parents_of_name = [parent for parent, _ in edges]
        for parent in parents_of_name:
            if parent not in names and parent not in gates:
                raise UnknownName.of(owner, "depends", parent, {*names, *gates})
            if parent == name:
                raise InvalidInput(owner, "depends", allowed="on other criteria", got="itself")
            if parents_of_name.count(parent) > 1:
                raise InvalidInput(
                    owner,
                    "depends",
                    allowed="each criterion once",
                    got=f"{parent!r} twice",
                    remedy="Keep one of the edges.",
                )
    number_of = {name: k for k, name in enumerate(names)}
    parents = tuple(
        tuple((number_of[parent], kind) for parent, kind in edges if parent in number_of)
        for edges in depends
    )
    return Graph(_sort_topologically(names, parents), parents)


def _sort_topologically(
    names: tuple[str, ...], parents: tuple[tuple[tuple[int, str], ...], ...]
) -> tuple[int, ...]:
    """Return the criteria that have parents, each after all of its parents; raises InvalidInput for a cycle."""
    done = {k for k, parents_of_k in enumerate(parents) if not parents_of_k}
    order: list[int] = []
    while len(done) < len(parents):
        ready = [
            k
            for k, parents_of_k in enumerate(parents)
            if k not in done and all(j in done for j, _ in parents_of_k)
        ]
        if not ready:
            unsorted = sorted(names[k] for k in range(len(names)) if k not in done)
            got = f"a cycle among {unsorted}"
            raise InvalidInput("gear", "depends", allowed="without cycles", got=got)
        order += ready
        done.update(ready)
    return tuple(order)
