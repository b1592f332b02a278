"""A batch of groups as rules see it: scores, weights, gates and attributes, rows sorted by group.

    >>> from rubrank import score_batch
    >>> batch = score_batch([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> batch.N, batch.K
    (1, 2)

Letters: M rollouts, N groups, K criteria that are ranked by, C gate criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rubrank.scores.criterion import CriterionData

Outcomes = Mapping[tuple[int, int], np.ndarray]
"""(group, criterion) → (G, G) outcomes that were observed by comparing, instead of scores."""


@dataclass(eq=False)  # not frozen: it is made once a step, on the hot path; never changed once made
class ScoreBatch:
    """A batch of groups as rules see it; rows sorted by group: group g is rows starts[g] .. starts[g + 1].

    No group is empty. `score_batch` makes one from plain arrays, `ScoreTable.batch` from graded rollouts.
    """

    scores_MK: np.ndarray
    """As given; NaN = not scored, or not asked."""
    starts: np.ndarray
    criteria: tuple[CriterionData, ...]
    """One a column: what holds for all groups (name, domain, direction, layer)."""
    weights_NK: np.ndarray
    """(N, K), or (1, K) where all groups weigh alike."""
    margins_NK: np.ndarray
    labels: tuple[Hashable, ...]
    own: tuple[tuple[CriterionData, ...], ...] | None = None
    """Each group's criteria as its own rubric has them, found by name: points, categories, tiers, edges may differ.
    None: all groups have `criteria`."""
    outcomes: Outcomes = field(default_factory=dict)
    gates_MC: np.ndarray | None = None
    """Gate criteria, from 0 to 1 = clean; NaN = missing."""
    gate_criteria: tuple[CriterionData, ...] = ()
    attributes_MD: np.ndarray | None = None
    attribute_names: tuple[str, ...] = ()

    @property
    def N(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    @property
    def K(self) -> int:
        """Number of criteria that are ranked by."""
        return self.scores_MK.shape[1]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N,): rollouts in each group."""
        return np.diff(self.starts)

    @cached_property
    def group_of_row(self) -> np.ndarray:
        """(M,): the number of each row's group."""
        return np.repeat(np.arange(self.N), self.sizes)

    @cached_property
    def unit_MK(self) -> np.ndarray:
        """Scores from 0 to 1 by their declared domains, more is better, NaN = missing: what cardinal rules take.

        A criterion that was compared, not scored, is worth its mean outcome against those it was compared with.
        """
        low = np.array([c.domain.low for c in self.criteria])
        high = np.array([c.domain.high for c in self.criteria])
        unit = self.scores_MK - low
        unit /= high - low  # not times its inverse: 49 · (1/49) is below 1, and no criterion would be met
        lower = np.array([c.direction == "lower" for c in self.criteria], bool)
        if lower.any():
            unit[:, lower] = 1.0 - unit[:, lower]
        for (g, k), won in self.outcomes.items():
            unit[self.starts[g] : self.starts[g + 1], k] = win_rates(won)
        return unit

    @cached_property
    def complete(self) -> bool:
        """Has every rollout a score on every criterion?"""
        return not self.missing_MK.any()

    @cached_property
    def missing_MK(self) -> np.ndarray:
        """Where there is neither a score nor a comparison."""
        return np.isnan(self.unit_MK)

    @cached_property
    def asked_NK(self) -> np.ndarray:
        """Has anybody in the group been scored on the criterion? What has not never counts there."""
        if self.complete:
            return np.ones((self.N, self.K), bool)
        return np.logical_or.reduceat(~self.missing_MK, self.starts[:-1], axis=0)

    @cached_property
    def gates_asked_MC(self) -> np.ndarray | None:
        """Which gates the query of each rollout asks for; None: all of them."""
        if self.own is None:
            return None
        names = [{criterion.name for criterion in own} for own in self.own]
        asked_NC = np.array([[gate.name in own for gate in self.gate_criteria] for own in names], dtype=bool)
        return asked_NC.reshape(self.N, len(self.gate_criteria))[self.group_of_row]

    def per_group(self, read: Callable[[CriterionData], Any]) -> np.ndarray:
        """(N, K), or (1, K) if all groups have the same criteria: something about each criterion."""
        common = [read(criterion) for criterion in self.criteria]
        if self.own is None:
            return np.array([common])
        number = {name: k for k, name in enumerate(self.names)}
        rows: dict[int, list[Any]] = {}
        for own in self.own:
            if id(own) not in rows:  # queries share rubrics: each is read once
                row = common.copy()
                for criterion in own:
                    if criterion.name in number:
                        row[number[criterion.name]] = read(criterion)
                rows[id(own)] = row
        return np.array([rows[id(own)] for own in self.own])

    def with_unit(self, unit_MK: np.ndarray) -> ScoreBatch:
        """The same batch with other scores from 0 to 1."""
        other = replace(self)
        other.__dict__["unit_MK"] = unit_MK  # in place of the cached one
        return other

    def part(self, first: int, end: int) -> ScoreBatch:
        """The groups from `first` up to `end`, as a batch of their own."""
        rows = slice(int(self.starts[first]), int(self.starts[end]))
        groups = slice(first, end)
        return replace(
            self,
            scores_MK=self.scores_MK[rows],
            starts=self.starts[first : end + 1] - self.starts[first],
            weights_NK=self.weights_NK[groups] if len(self.weights_NK) > 1 else self.weights_NK,
            margins_NK=self.margins_NK[groups] if len(self.margins_NK) > 1 else self.margins_NK,
            labels=self.labels[groups],
            own=None if self.own is None else self.own[groups],
            outcomes={(g - first, k): won for (g, k), won in self.outcomes.items() if first <= g < end},
            gates_MC=None if self.gates_MC is None else self.gates_MC[rows],
            attributes_MD=None if self.attributes_MD is None else self.attributes_MD[rows],
        )

    @cached_property
    def informative_NK(self) -> np.ndarray:
        """Does a criterion tell the rollouts of a group apart?"""
        unit, at = self.unit_MK, self.starts[:-1]
        if not len(at):
            return np.zeros((0, self.K), bool)
        top = np.fmax.reduceat(unit, at, axis=0)
        return np.asarray(top > np.fmin.reduceat(unit, at, axis=0))


def win_rates(outcomes_GG: np.ndarray) -> np.ndarray:
    """(G,): mean outcome against the others compared with; NaN for who was compared with nobody."""
    others = ~np.isnan(outcomes_GG)
    np.fill_diagonal(others, False)
    count = others.sum(1)
    total = np.where(others, outcomes_GG, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
