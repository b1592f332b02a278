"""`ScoreBatch`, the input of every rule: a batch of groups, with rows sorted by group.

    >>> from rubrank import ScoreBatch
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> batch.N, batch.K
    (1, 2)

`ScoreTable.batch` makes one from graded rollouts, `ScoreBatch.of_arrays` from plain arrays. The scores stay as given,
so that an explanation can print them; `oriented_MK`, `unit_MK` and `clean_MC` are views with directions and scales
applied. `shape` and `order` record the caller's shape and order of rows, and `per_rollout` restores them for results.

Array names end in the letters of their axes: M rollouts, N groups, K ranked criteria, C gate criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, counted
from rubrank.scores.arrays import (
    align_with_scores,
    check_names,
    constant_rows,
    is_named_frame,
    move_gates,
    read_attributes,
    read_criteria,
    read_frame,
    read_per_criterion,
    sort_rows,
    with_directions,
    with_domains,
)
from rubrank.scores.criterion import SLACK, CriterionData
from rubrank.scores.outcomes import Cells, check_comparisons, was_compared, win_rates
from rubrank.scores.probabilities import ProbabilityCells, read_probabilities


# Not frozen, because creating a frozen dataclass takes several times as long. Treat it as immutable all the same.
@dataclass(eq=False)
class ScoreBatch:
    """A batch of groups as rules see it: group g is rows starts[g] .. starts[g + 1]. No group is empty."""

    scores_MK: np.ndarray
    """As given; NaN = not scored, or not in the group's rubric."""
    starts: np.ndarray
    criteria: tuple[CriterionData, ...]
    """One for each column. If rubrics differ between groups (see `own`), as the first group has it."""
    weights_NK: np.ndarray
    """(N, K), or (1, K) if all groups have the same weights."""
    margins_NK: np.ndarray
    given_labels: tuple[Hashable, ...] | None = None
    own: tuple[tuple[CriterionData, ...], ...] | None = None
    """The criteria of each group's own rubric: scales, directions, points and dependencies may differ between groups.
    None: all groups have `criteria`."""
    outcomes: Cells = field(default_factory=dict)
    """(group, criterion) → (G, G), where responses were compared instead of scored."""
    probabilities: ProbabilityCells = field(default_factory=dict)
    """(group, criterion) → a distribution over levels for each rollout, where judges report how sure they are."""
    gates_MC: np.ndarray | None = None
    """Scores of gate criteria, as given; NaN = missing. Low-quality criteria may be among the ranked ones too."""
    gate_criteria: tuple[CriterionData, ...] = ()
    attributes_MD: np.ndarray | None = None
    attribute_names: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    """Of the caller's array without the criteria; None: (M,)."""
    order: np.ndarray | None = None
    """Row i is the caller's row order[i]; None: the same order."""
    named: bool = True
    """Did the caller name the criteria? If not, random draws depend on column numbers."""
    declared: bool = True
    """Are the scores known to lie in their domains? If not, `unit_MK` checks them on first use."""
    changed_unit_MK: np.ndarray | None = None
    """Set by `with_unit`: `unit_MK` is this instead of the scaled scores."""

    @classmethod
    def of_arrays(
        cls,
        scores: ArrayLike,
        *,
        groups: Any = None,
        criteria: Sequence[str | CriterionData] | None = None,
        weights: Any = None,
        margins: Any = None,
        directions: Any = None,
        domains: Any = None,
        global_quality: Sequence[str | int] = (),
        low_quality: Sequence[str | int] = (),
        gates: ArrayLike | None = None,
        gate_criteria: Sequence[str | CriterionData] | None = None,
        attributes: ArrayLike | None = None,
        attribute_names: Sequence[str] | None = None,
        outcomes: Any = None,
        probabilities: Any = None,
        own: Sequence[Sequence[CriterionData]] | None = None,
        owner: str = "ScoreBatch",
    ) -> ScoreBatch:
        """A batch from plain arrays.

        scores: (G, K), (N, G, K), or (M, K) with `groups`: a row per rollout, a column per criterion, NaN = not scored.
        groups: for (M, K) the label of each row's group, in any order; for (N, G, K) optionally N labels.
        criteria: names, or data with domains, directions, points, edges … For a frame, the columns that are criteria,
            or "all" of them; its groups and attributes may be names of columns, too.
        weights: > 0; (K,), (N, K), or by name. margins: differences of at most this much are ties; the same forms.
        directions: "higher" or "lower" is better, for each criterion. domains: by name, the lowest and highest score,
            (0, 1) by default; for rules that add scores up.
        global_quality, low_quality: columns, by name or number, that a gate reads: 1 = clean. Low-quality columns are
            ranked by rules without a gate.
        gates: (…, C), scores of more gate criteria. gate_criteria: their names or data; a name alone makes a
            global-quality criterion, which stops rollouts below 1.
        attributes: (…, D) numbers ≥ 0. outcomes: see `rubrank.scores.outcomes`.
        probabilities: how sure scores are, by criterion: {value: probability} or None for each rollout.
        """
        if is_named_frame(scores):
            frame = read_frame(owner, scores, groups, criteria, attributes)
            scores = frame.scores
            groups = frame.groups
            criteria = frame.criteria
            attributes = frame.attributes
            attribute_names = attribute_names or frame.attribute_names
        rows = sort_rows(owner, scores, groups)
        data = read_criteria(owner, "criteria", criteria, rows.scores_MK.shape[1], "quality")
        is_named = criteria is not None
        if directions is not None:
            data = with_directions(owner, data, directions, is_named)
        if domains is not None:
            data = with_domains(owner, data, domains, is_named)
        names = None
        if is_named:
            names = [criterion.name for criterion in data]
            if weights is None:
                weights = np.array([criterion.weight for criterion in data], dtype=float)
            if margins is None:
                margins = np.array([criterion.margin for criterion in data], dtype=float)
        ones, zeros = constant_rows(len(data))
        batch = cls(
            rows.scores_MK,
            rows.starts,
            data,
            ones,
            zeros,
            rows.labels,
            shape=rows.shape,
            order=rows.order,
            named=is_named,
            declared=False,
        )
        if weights is not None:
            batch.weights_NK = read_per_criterion(owner, "weights", weights, names, batch)
        if margins is not None:
            batch.margins_NK = read_per_criterion(owner, "margins", margins, names, batch)
        if own is not None:
            if len(own) != batch.N:
                allowed = f"{batch.N}, one per group"
                raise InvalidInput(owner, "own", allowed, str(len(own)), "List them in order.")
            batch.own = tuple(map(tuple, own))
        for name, value in (("outcomes", outcomes), ("probabilities", probabilities)):
            if value is not None and not isinstance(value, Mapping):
                got = type(value).__name__
                raise InvalidInput(owner, name, "a mapping from criteria", got, "See help(fuse).")
        if outcomes:
            batch.outcomes = check_comparisons(owner, outcomes, batch, names)
        if probabilities:
            batch.probabilities = read_probabilities(owner, probabilities, batch, names)
        if attributes is not None:
            batch.attributes_MD = read_attributes(owner, batch, attributes)
            if attribute_names is not None and len(attribute_names):
                D = batch.attributes_MD.shape[1]
                check_names(owner, "attribute_names", attribute_names, D, "attribute")
                batch.attribute_names = tuple(attribute_names)
        if gates is not None:
            gates = np.asarray(gates, dtype=float)
            remedy = "One column per gate."
            batch.gates_MC = align_with_scores(owner, batch, gates, "gates", "C", remedy)
            batch.gate_criteria = read_criteria(
                owner, "gate_criteria", gate_criteria, batch.gates_MC.shape[1], "global_quality"
            )
        if global_quality or low_quality:
            return move_gates(owner, batch, global_quality, low_quality)
        return batch

    def __repr__(self) -> str:
        size = f"{counted(len(self.scores_MK), 'rollout')} in {counted(self.N, 'group')}"
        return f"ScoreBatch({size}, {counted(self.K, 'criterion')})"

    @property
    def N(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    @property
    def K(self) -> int:
        """Number of ranked criteria."""
        return self.scores_MK.shape[1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """One label for each group; their numbers when the caller gave none."""
        return tuple(range(self.N)) if self.given_labels is None else self.given_labels

    # ---------------------------------------------------------------------------------------------- the caller's shape

    def per_rollout(self, values: np.ndarray) -> np.ndarray:
        """(M, …) sorted by group → the caller's order and shape."""
        if self.order is not None:
            unsorted = np.empty_like(values)
            unsorted[self.order] = values
            values = unsorted
        return values if self.shape is None else values.reshape(self.shape + values.shape[1:])

    def per_group(self, values: np.ndarray) -> np.ndarray:
        """(N, …) → (…) if the caller gave a single group without labels."""
        has_labels = self.order is not None or self.given_labels is not None
        is_stacked = self.shape is not None and len(self.shape) > 1  # (N, G, K), even if N is 1
        if has_labels or is_stacked or self.N != 1:
            return values
        return values[0]

    # ---------------------------------------------------------------------------------------------------------- views

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N,): rollouts in each group."""
        return np.diff(self.starts)

    @property
    def largest(self) -> int:
        """Rollouts in the largest group."""
        if self.shape is not None and len(self.shape) == 2:
            return self.shape[1]
        return int(self.sizes.max(initial=0))

    @cached_property
    def group_of_row(self) -> np.ndarray:
        """(M,): the number of each row's group."""
        return np.repeat(np.arange(self.N), self.sizes)

    @cached_property
    def lower_NK(self) -> np.ndarray | None:
        """(N, K) or (1, K): is lower better? None if higher is better everywhere."""
        if self.own is None and all(c.direction == "higher" for c in self.criteria):
            return None
        is_lower = self.read(lambda criterion: criterion.direction == "lower")
        return is_lower if is_lower.any() else None

    @cached_property
    def oriented_MK(self) -> np.ndarray:
        """The scores, with reversed signs where lower is better, so that higher is always better."""
        if self.lower_NK is None:
            return self.scores_MK
        return self.scores_MK * self._by_row(np.where(self.lower_NK, -1.0, 1.0))

    @cached_property
    def unit_MK(self) -> np.ndarray:
        """Scores scaled from 0 to 1 by their domains, higher is better, NaN = missing: the input of cardinal rules.

        If responses were compared instead of scored, the score of a rollout is its mean outcome.
        """
        if self.changed_unit_MK is not None:
            return self.changed_unit_MK
        low = self.read(lambda c: c.domain.low)
        high = self.read(lambda c: c.domain.high)
        if not self.declared:
            self._check_domains(low, high)
        unit = _to_unit_scale(self.scores_MK, self._by_row(low), self._by_row(high))
        if self.lower_NK is not None:
            unit = np.where(self._by_row(self.lower_NK), 1.0 - unit, unit)
        for (g, k), outcomes_GG in self.outcomes.items():
            unit[self.starts[g] : self.starts[g + 1], k] = win_rates(outcomes_GG)
        return unit

    @property
    def scored_unit_MK(self) -> np.ndarray:
        """`unit_MK` of the scores themselves, for rules with thresholds; `with_unit` may have changed `unit_MK`."""
        if self.changed_unit_MK is None:
            return self.unit_MK
        return replace(self, changed_unit_MK=None).unit_MK

    @cached_property
    def clean_MC(self) -> np.ndarray:
        """The scores of the gate criteria, scaled from 0 to 1 = clean."""
        if self.gates_MC is None:
            return np.zeros((len(self.scores_MK), 0))
        low = self._by_row(self.read(lambda c: c.domain.low, self.gate_criteria))
        high = self._by_row(self.read(lambda c: c.domain.high, self.gate_criteria))
        is_lower = self._by_row(self.read(lambda c: c.direction == "lower", self.gate_criteria))
        share = _to_unit_scale(self.gates_MC, low, high)
        return np.where(is_lower, 1.0 - share, share)

    @cached_property
    def missing_MK(self) -> np.ndarray:
        """Is there neither a score nor a comparison?"""
        if self.changed_unit_MK is not None:
            return np.isnan(self.changed_unit_MK)
        missing = np.isnan(self.scores_MK)
        for (g, k), outcomes_GG in self.outcomes.items():
            missing[self.starts[g] : self.starts[g + 1], k] = ~was_compared(outcomes_GG)
        return missing

    @cached_property
    def complete(self) -> bool:
        """Does every rollout have a score on every criterion?"""
        return not self.missing_MK.any()

    @cached_property
    def scored_NK(self) -> np.ndarray:
        """(N, K): does any rollout of the group have a score, or a comparison, on the criterion?"""
        if self.complete:
            return np.ones((self.N, self.K), bool)
        return np.logical_or.reduceat(~self.missing_MK, self.starts[:-1], axis=0)

    @cached_property
    def gates_in_rubric_NC(self) -> np.ndarray:
        """(N, C): is the gate criterion in the group's rubric?"""
        in_rubric = np.ones((self.N, len(self.gate_criteria)), bool)
        if self.own is not None:
            for g, rubric in enumerate(self.own):
                names = {criterion.name for criterion in rubric}
                in_rubric[g] = [gate.name in names for gate in self.gate_criteria]
        return in_rubric

    @cached_property
    def informative_NK(self) -> np.ndarray:
        """Does a criterion tell the rollouts of a group apart?"""
        if not self.N:
            return np.zeros((0, self.K), bool)
        values = self.scores_MK
        if self.outcomes:
            values = values.copy()
        for (g, k), outcomes_GG in self.outcomes.items():
            values[self.starts[g] : self.starts[g + 1], k] = win_rates(outcomes_GG)
        highest = np.fmax.reduceat(values, self.starts[:-1], axis=0)
        lowest = np.fmin.reduceat(values, self.starts[:-1], axis=0)
        return np.asarray(highest > lowest)

    def read(
        self, of: Callable[[CriterionData], Any], columns: tuple[CriterionData, ...] | None = None
    ) -> np.ndarray:
        """(N, K), or (1, K) if all groups have the same criteria: `of(criterion)` for every group and criterion."""
        columns = self.criteria if columns is None else columns
        common = [of(criterion) for criterion in columns]
        if self.own is None:
            return np.array([common])
        number = {criterion.name: k for k, criterion in enumerate(columns)}
        rows: dict[int, list[Any]] = {}
        for rubric in self.own:
            if id(rubric) not in rows:  # groups share rubrics, so each is read once
                row = common.copy()
                for criterion in rubric:
                    if criterion.name in number:
                        row[number[criterion.name]] = of(criterion)
                rows[id(rubric)] = row
        return np.array([rows[id(rubric)] for rubric in self.own])

    def _by_row(self, values_NK: np.ndarray) -> np.ndarray:
        """(N, K) → (M, K); (1, K) is left to broadcasting."""
        return values_NK.take(self.group_of_row, axis=0) if len(values_NK) > 1 else values_NK

    def check_domains(self) -> None:
        """Raise if a score lies outside its criterion's domain."""
        self._check_domains(self.read(lambda c: c.domain.low), self.read(lambda c: c.domain.high))

    def _check_domains(self, low: np.ndarray, high: np.ndarray) -> None:
        outside = (self.scores_MK < self._by_row(low) - SLACK) | (
            self.scores_MK > self._by_row(high) + SLACK
        )
        if outside.any():
            i, k = np.argwhere(outside)[0]
            g = self.group_of_row[i] if len(low) > 1 else 0
            where = f"scores of {self.names[k]!r}"
            allowed = f"from {low[g, k]:g} to {high[g, k]:g}, its domain"
            remedy = f"Give its scale: `domain.{self.names[k]}=LOW:HIGH`."
            if not self.declared:  # from plain arrays
                remedy = f"Give its scale: domains={{{self.names[k]!r}: (LOW, HIGH)}}."
                if not self.named:
                    remedy = "Name the criteria and give their scales: criteria=NAMES, domains={NAME: (LOW, HIGH)}."
            raise InvalidInput("ScoreBatch", where, allowed, f"{self.scores_MK[i, k]:g}", remedy)

    # ------------------------------------------------------------------------------------------------- other batches

    def with_unit(self, unit_MK: np.ndarray) -> ScoreBatch:
        """A copy of the batch with other scores from 0 to 1 in `unit_MK`; the scores as given stay."""
        return replace(self, changed_unit_MK=unit_MK)

    def with_scores(self, unit_MK: np.ndarray) -> ScoreBatch:
        """A copy with other scores (from 0 to 1, higher is better), put on the scales of the criteria, for ranking.

        Observed outcomes and probabilities stay where the scores of a group did not change.
        """
        low = self._by_row(self.read(lambda criterion: criterion.domain.low))
        high = self._by_row(self.read(lambda criterion: criterion.domain.high))
        share_MK = unit_MK
        if self.lower_NK is not None:
            share_MK = np.where(self._by_row(self.lower_NK), 1.0 - unit_MK, unit_MK)
        is_same_MK = (unit_MK == self.scored_unit_MK) | np.isnan(unit_MK)
        is_same_NK = np.ones((self.N, self.K), bool)
        if self.N:
            is_same_NK = np.logical_and.reduceat(is_same_MK, self.starts[:-1])
        # Scores that stay are not computed anew: rounding could break ties. Rollouts that were compared have no score
        # to stay; they get one unless the whole group stays, which then keeps its outcomes.
        is_scored_MK = ~np.isnan(self.scores_MK)
        stays_MK = is_same_MK & (is_scored_MK | is_same_NK[self.group_of_row])
        return replace(
            self,
            scores_MK=np.where(stays_MK, self.scores_MK, low + share_MK * (high - low)),
            changed_unit_MK=None,
            outcomes={
                cell: outcomes for cell, outcomes in self.outcomes.items() if is_same_NK[cell]
            },
            probabilities={
                cell: values for cell, values in self.probabilities.items() if is_same_NK[cell]
            },
        )

    def without_penalties(self) -> ScoreBatch:
        """The batch without its ranked low-quality criteria, for rules with a gate: the gate reads those."""
        columns = [k for k, criterion in enumerate(self.criteria) if criterion.layer == "quality"]
        return self if len(columns) == self.K else self.columns(columns)

    def columns(self, columns: Sequence[int]) -> ScoreBatch:
        """The batch with only these ranked criteria, given by number."""
        indices = list(columns)
        unit_MK = self.changed_unit_MK
        new_column = {k: position for position, k in enumerate(indices)}
        return replace(
            self,
            scores_MK=np.ascontiguousarray(self.scores_MK[:, indices]),
            criteria=tuple(self.criteria[k] for k in indices),
            weights_NK=np.ascontiguousarray(self.weights_NK[:, indices]),
            margins_NK=np.ascontiguousarray(self.margins_NK[:, indices]),
            changed_unit_MK=None if unit_MK is None else np.ascontiguousarray(unit_MK[:, indices]),
            outcomes={
                (g, new_column[k]): cell
                for (g, k), cell in self.outcomes.items()
                if k in new_column
            },
            probabilities={
                (g, new_column[k]): cell
                for (g, k), cell in self.probabilities.items()
                if k in new_column
            },
        )

    def part(self, first: int, end: int) -> ScoreBatch:
        """The groups from `first` up to `end`, as a separate batch."""
        rows = slice(int(self.starts[first]), int(self.starts[end]))
        groups = slice(first, end)
        return replace(
            self,
            scores_MK=self.scores_MK[rows],
            starts=self.starts[first : end + 1] - self.starts[first],
            weights_NK=self.weights_NK[groups] if len(self.weights_NK) > 1 else self.weights_NK,
            margins_NK=self.margins_NK[groups] if len(self.margins_NK) > 1 else self.margins_NK,
            given_labels=self.labels[groups],
            own=None if self.own is None else self.own[groups],
            outcomes={
                (g - first, k): cell for (g, k), cell in self.outcomes.items() if first <= g < end
            },
            probabilities={
                (g - first, k): cell
                for (g, k), cell in self.probabilities.items()
                if first <= g < end
            },
            gates_MC=None if self.gates_MC is None else self.gates_MC[rows],
            attributes_MD=None if self.attributes_MD is None else self.attributes_MD[rows],
            shape=None,
            order=None,
            changed_unit_MK=None if self.changed_unit_MK is None else self.changed_unit_MK[rows],
        )


def _to_unit_scale(scores: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    # Divide instead of multiplying by the inverse: 49 · (1/49) is below 1, so a full score would not reach 1.
    return np.asarray((scores - low) / (high - low))
