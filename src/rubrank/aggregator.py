"""The contract of an aggregation rule: scores of a batch of groups → one number for each rollout.

    batch = rubrank.grade("rollouts.jsonl", "rubric.yaml").batch()
    result = find_rule("gdpo+")(batch)
    result.reward                       (rollouts,): what the trainer gets; rows in the order of the table
    result.weights_NK                   what each criterion weighed, where the rule changes weights

A rule is a frozen dataclass whose fields are its constants, called with a `ScoreBatch`. `name` is what it is called in
`aggregators/`, `bounded` says that its values are from 0 to 1. A rule that remembers (`stateful`) gets its memory from
`state()` and `restore(state)`, plain data that JSON can hold, so that a training checkpoint can carry it.

Names are small expressions:  gdpo, gdpo+ (followed by the gate of the rubric's layers), rlvr2*focal (RLVR² with Focal's
weights), rlvr2*focal+ (both). `aggregators/__init__.py` lists all rules and says how to add one.

Letters: M rollouts, N groups, K criteria that are ranked by, C gate criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from rubrank.gate import Gate, Gated
    from rubrank.scores import CriterionData

Outcomes = Mapping[tuple[int, int], np.ndarray]
"""(group, criterion) → (G, G) outcomes that were observed by comparing, instead of scores."""


@dataclass(eq=False)  # not frozen: it is made once a step, on the hot path; never changed once made
class ScoreBatch:
    """A batch of groups as rules see it; rows sorted by group: group g is rows starts[g] .. starts[g + 1]."""

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
    """Each group's criteria as its own rubric has them (points, categories, edges may differ); None: all the same."""
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
        unit = (self.scores_MK - low) / (high - low)
        lower = np.array([c.direction == "lower" for c in self.criteria], bool)
        if lower.any():
            unit[:, lower] = 1.0 - unit[:, lower]
        for (g, k), won in self.outcomes.items():
            unit[self.starts[g] : self.starts[g + 1], k] = win_rates(won)
        return unit

    @cached_property
    def weights_MK(self) -> np.ndarray:
        """The weights, row by row."""
        return self.weights_NK[self.group_of_row] if len(self.weights_NK) > 1 else self.weights_NK

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


@dataclass(eq=False)
class RuleResult:
    """What a rule says about a batch; rows as in the batch."""

    value_M: np.ndarray
    """The rule's own number for each rollout."""
    rule: str
    weights_NK: np.ndarray | None = None
    """The weights that were used, where the rule sets them; (1, K) if the same for all groups."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader may want to know, by name: "pre_norm" of GDPO, "pace" of Focal … arrays or numbers."""
    gate: Gate | None = None
    gated: Gated | None = None

    @property
    def reward(self) -> np.ndarray:
        """(M,): what the trainer gets: the value, or what the gate made of it."""
        return self.value_M if self.gated is None else self.gated.reward


@runtime_checkable
class Rule(Protocol):
    """What every rule can do."""

    name: ClassVar[str]
    bounded: ClassVar[bool]
    """Values from 0 to 1? A gate stretches those of other rules to that, group by group, before it acts."""

    def __call__(self, batch: ScoreBatch) -> RuleResult:
        """One number for each rollout."""
        ...


@runtime_checkable
class Reweighting(Rule, Protocol):
    """A rule that is a weighted sum with weights of its own, which another rule can take over: rlvr2*focal."""

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K) or (1, K), > 0 where a criterion counts."""
        ...


@runtime_checkable
class Stateful(Rule, Protocol):
    """A rule that remembers from batch to batch."""

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that was saved; raises for one of another rule or version."""
        ...
