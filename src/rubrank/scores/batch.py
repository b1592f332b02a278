"""`ScoreBatch`, the input of every rule: the scores of a batch of groups as arrays, with rows sorted by group.

    >>> from rubrank import ScoreBatch
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> batch.N, batch.K
    (1, 2)

`ScoreTable.batch` makes one from graded rollouts, `ScoreBatch.of_arrays` from plain arrays. Array names end in the
letters of their axes: M rollouts, N groups, K ranked criteria, C gate criteria, D attributes.

The same scores are needed in several forms. They are computed when a rule first asks for them:

    scores_MK       as given, so that an explanation can print them
    oriented_MK     higher is always better: for rules that compare the rollouts of a group
    unit_MK         from 0 to 1 by the criterion's domain, higher is better: for rules that add scores up
    clean_MC        scores of the gate criteria from 0 to 1 = clean: for the gate

Rules compute one value per row (M, …). `restore_rollout_shape` returns such values in the caller's order and shape.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, counted
from rubrank.scores.arrays import (
    align_with_scores,
    check_names,
    is_named_frame,
    move_gates,
    read_attributes,
    read_criteria,
    read_frame,
    read_per_criterion,
    replace_directions,
    replace_domains,
    sort_rows,
)
from rubrank.scores.criterion import SLACK, CriterionData
from rubrank.scores.outcomes import (
    Cells,
    ProbabilityCells,
    check_comparisons,
    compute_win_rates,
    find_compared,
    read_probabilities,
)

_Cell = TypeVar("_Cell")


# Not frozen, because creating a frozen dataclass takes several times as long. Treat it as immutable: only the function
# that makes a batch may still assign fields, before anything reads a property that depends on them.
@dataclass(eq=False)
class ScoreBatch:
    """A batch of groups as rules see it: group g is rows starts[g] .. starts[g + 1]. No group is empty."""

    scores_MK: np.ndarray
    """As given; NaN = not scored, or not in the group's rubric."""
    starts: np.ndarray
    criteria: tuple[CriterionData, ...]
    """One for each column. If rubrics differ between groups (see `group_rubrics`), as the first group has it."""
    weights_NK: np.ndarray
    """(N, K), or (1, K) if all groups have the same weights."""
    margins_NK: np.ndarray
    """(N, K) or (1, K): differences of at most this much are ties."""
    given_labels: tuple[Hashable, ...] | None = None
    """The caller's label of each group; None if the caller gave none."""
    group_rubrics: tuple[tuple[CriterionData, ...], ...] | None = None
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
    """Of the caller's array without the criteria: (M,) or (N, G). None: (M,)."""
    order: np.ndarray | None = None
    """Row i is the caller's row order[i]; None: the same order."""
    has_names: bool = True
    """Did the caller name the criteria? If not, random draws depend on column numbers."""
    has_declared_domains: bool = True
    """Do the domains come from rubrics, so that the scores are known to lie in them? Those of plain arrays do not, and
    `unit_MK` checks the scores on first use."""
    changed_unit_MK: np.ndarray | None = None
    """Set by `replace_unit_scores`: `unit_MK` is this instead of the scaled scores."""

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
        group_rubrics: Sequence[Sequence[CriterionData]] | None = None,
        owner: str = "ScoreBatch",
    ) -> ScoreBatch:
        """Make a batch from plain arrays. Raises InvalidInput, which names the argument, if one of them is wrong.

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
        group_rubrics: for each group the criteria of its own rubric, if rubrics differ.
        owner: the function that error messages name.
        """
        if is_named_frame(scores):
            scores, groups, criteria, attributes, frame_names = read_frame(
                owner, scores, groups, criteria, attributes
            )
            attribute_names = attribute_names or frame_names
        rows = sort_rows(owner, scores, groups)
        criteria_data = read_criteria(
            owner, "criteria", criteria, rows.scores_MK.shape[1], "quality"
        )
        has_names = criteria is not None
        names = [criterion.name for criterion in criteria_data] if has_names else None
        if directions is not None:
            criteria_data = replace_directions(owner, criteria_data, directions, names)
        if domains is not None:
            criteria_data = replace_domains(owner, criteria_data, domains, names)
        if has_names:
            if weights is None:
                weights = np.array([criterion.weight for criterion in criteria_data], dtype=float)
            if margins is None:
                margins = np.array([criterion.margin for criterion in criteria_data], dtype=float)
        batch = cls(
            scores_MK=rows.scores_MK,
            starts=rows.starts,
            criteria=criteria_data,
            weights_NK=np.ones((1, len(criteria_data))),
            margins_NK=np.zeros((1, len(criteria_data))),
            given_labels=rows.labels,
            shape=rows.shape,
            order=rows.order,
            has_names=has_names,
            has_declared_domains=False,
        )
        # The other arguments are checked against the batch: it knows the groups, their sizes and the order of rows.
        # The checks use no cached property (`unit_MK`, `missing_MK` …) that depends on the fields assigned here.
        if weights is not None:
            batch.weights_NK = read_per_criterion(owner, "weights", weights, names, batch)
        if margins is not None:
            batch.margins_NK = read_per_criterion(owner, "margins", margins, names, batch)
        if group_rubrics is not None:
            if len(group_rubrics) != batch.N:
                allowed = f"{batch.N}, one per group"
                got = str(len(group_rubrics))
                raise InvalidInput(owner, "group_rubrics", allowed, got, "List them in order.")
            batch.group_rubrics = tuple(map(tuple, group_rubrics))
        for name, value in (("outcomes", outcomes), ("probabilities", probabilities)):
            if value is not None and not isinstance(value, Mapping):
                got = type(value).__name__
                raise InvalidInput(owner, name, "a mapping from criteria", got, "See help(fuse).")
        if outcomes:
            batch.outcomes = check_comparisons(owner, outcomes, batch)
        if probabilities:
            batch.probabilities = read_probabilities(owner, probabilities, batch)
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
            C = batch.gates_MC.shape[1]
            batch.gate_criteria = read_criteria(
                owner, "gate_criteria", gate_criteria, C, "global_quality"
            )
        if global_quality or low_quality:
            return move_gates(owner, batch, global_quality, low_quality)
        return batch

    def __repr__(self) -> str:
        size = f"{counted(len(self.scores_MK), 'rollout')} in {counted(self.N, 'group')}"
        return f"ScoreBatch({size}, {counted(self.K, 'criterion')})"

    # --------------------------------------------------------------------------------------------- groups and criteria

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
        """Names of the ranked criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """One label for each group; their numbers if the caller gave none."""
        return tuple(range(self.N)) if self.given_labels is None else self.given_labels

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N,): rollouts in each group."""
        return np.diff(self.starts)

    @property
    def largest_group_size(self) -> int:
        """Rollouts in the largest group."""
        return int(self.sizes.max(initial=0))

    @cached_property
    def group_of_row(self) -> np.ndarray:
        """(M,): the number of each row's group."""
        return np.repeat(np.arange(self.N), self.sizes)

    def collect_per_group(
        self,
        read_field: Callable[[CriterionData], Any],
        criteria: tuple[CriterionData, ...] | None = None,
    ) -> np.ndarray:
        """Return `read_field(criterion)` for every group and criterion: (N, K), or (1, K) if groups do not differ.

        criteria: the columns, such as `gate_criteria`; the ranked criteria by default.
        """
        columns = self.criteria if criteria is None else criteria
        common_row = [read_field(criterion) for criterion in columns]
        if self.group_rubrics is None:
            return np.array([common_row])
        column_of = {criterion.name: k for k, criterion in enumerate(columns)}
        row_of_rubric: dict[int, list[Any]] = {}
        for rubric in self.group_rubrics:
            if id(rubric) not in row_of_rubric:  # groups share rubrics, so each is read once
                row = common_row.copy()
                for criterion in rubric:
                    if criterion.name in column_of:
                        row[column_of[criterion.name]] = read_field(criterion)
                row_of_rubric[id(rubric)] = row
        return np.array([row_of_rubric[id(rubric)] for rubric in self.group_rubrics])

    @cached_property
    def lower_NK(self) -> np.ndarray | None:
        """(N, K) or (1, K): is lower better? None if higher is better everywhere."""
        if self.group_rubrics is None and all(c.direction == "higher" for c in self.criteria):
            return None
        is_lower = self.collect_per_group(lambda criterion: criterion.direction == "lower")
        return is_lower if is_lower.any() else None

    @cached_property
    def domain_limits_NK(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest possible score, each (N, K) or (1, K)."""
        low = self.collect_per_group(lambda criterion: criterion.domain.low)
        high = self.collect_per_group(lambda criterion: criterion.domain.high)
        return low, high

    @cached_property
    def gates_in_rubric_NC(self) -> np.ndarray:
        """(N, C): is the gate criterion in the group's rubric?"""
        in_rubric = np.ones((self.N, len(self.gate_criteria)), bool)
        if self.group_rubrics is not None:
            for g, rubric in enumerate(self.group_rubrics):
                names = {criterion.name for criterion in rubric}
                in_rubric[g] = [gate.name in names for gate in self.gate_criteria]
        return in_rubric

    # --------------------------------------------------------------------------------------------- forms of the scores

    @cached_property
    def oriented_MK(self) -> np.ndarray:
        """The scores, with reversed signs where lower is better, so that higher is always better."""
        if self.lower_NK is None:
            return self.scores_MK
        return self.scores_MK * self._expand_to_rows(np.where(self.lower_NK, -1.0, 1.0))

    @cached_property
    def unit_MK(self) -> np.ndarray:
        """Scores scaled from 0 to 1 by their domains, higher is better, NaN = missing: the input of cardinal rules.

        If responses were compared instead of scored, the score of a rollout is its mean outcome.
        Raises InvalidInput if a score lies outside its domain and domains were not declared.
        """
        if self.changed_unit_MK is not None:
            return self.changed_unit_MK
        if not self.has_declared_domains:
            self.check_domains()
        unit = self._scale_to_unit(self.scores_MK, self.criteria)
        self._fill_compared(unit, compute_win_rates)
        return unit

    @property
    def scored_unit_MK(self) -> np.ndarray:
        """`unit_MK` as the scores give it, even if `replace_unit_scores` has changed it: for rules with thresholds."""
        if self.changed_unit_MK is None:
            return self.unit_MK
        return replace(self, changed_unit_MK=None).unit_MK

    @cached_property
    def clean_MC(self) -> np.ndarray:
        """The scores of the gate criteria, scaled from 0 to 1 = clean."""
        if self.gates_MC is None:
            return np.zeros((len(self.scores_MK), 0))
        return self._scale_to_unit(self.gates_MC, self.gate_criteria)

    def _scale_to_unit(self, scores: np.ndarray, criteria: tuple[CriterionData, ...]) -> np.ndarray:
        """Return the scores on some criteria scaled from 0, the worst of the domain, to 1, the best."""
        low = self._expand_to_rows(self.collect_per_group(lambda c: c.domain.low, criteria))
        high = self._expand_to_rows(self.collect_per_group(lambda c: c.domain.high, criteria))
        is_lower = self.collect_per_group(lambda c: c.direction == "lower", criteria)
        # Divide instead of multiplying by the inverse: 49 · (1/49) is below 1, so a full score would not reach 1.
        share = (scores - low) / (high - low)
        return np.where(self._expand_to_rows(is_lower), 1.0 - share, share)

    def _fill_compared(
        self, values_MK: np.ndarray, compute: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """Replace the values of rollouts that were compared by what is computed from the outcomes, (G, G) → (G,)."""
        for (g, k), outcomes_GG in self.outcomes.items():
            values_MK[self.starts[g] : self.starts[g + 1], k] = compute(outcomes_GG)

    @cached_property
    def missing_MK(self) -> np.ndarray:
        """Is there neither a score nor a comparison?"""
        if self.changed_unit_MK is not None:
            return np.isnan(self.changed_unit_MK)
        is_there = ~np.isnan(self.scores_MK)
        self._fill_compared(is_there, find_compared)
        return ~is_there

    @cached_property
    def complete(self) -> bool:
        """Does every rollout have a score or a comparison on every criterion?"""
        return not self.missing_MK.any()

    @cached_property
    def scored_NK(self) -> np.ndarray:
        """(N, K): does any rollout of the group have a score, or a comparison, on the criterion?"""
        if self.complete:
            return np.ones((self.N, self.K), bool)
        return np.logical_or.reduceat(~self.missing_MK, self.starts[:-1], axis=0)

    @cached_property
    def informative_NK(self) -> np.ndarray:
        """(N, K): does the criterion tell the rollouts of the group apart?"""
        if not self.N:
            return np.zeros((0, self.K), bool)
        values = self.scores_MK.copy()
        self._fill_compared(values, compute_win_rates)
        highest = np.fmax.reduceat(values, self.starts[:-1], axis=0)
        lowest = np.fmin.reduceat(values, self.starts[:-1], axis=0)
        return np.asarray(highest > lowest)

    def check_domains(self) -> None:
        """Raise InvalidInput for the first score outside its criterion's domain."""
        low, high = self.domain_limits_NK
        is_below = self.scores_MK < self._expand_to_rows(low) - SLACK
        is_above = self.scores_MK > self._expand_to_rows(high) + SLACK
        outside = is_below | is_above
        if not outside.any():
            return
        i, k = np.argwhere(outside)[0]
        g = self.group_of_row[i] if len(low) > 1 else 0
        name = self.names[k]
        remedy = f"Give its scale: domains={{{name!r}: (LOW, HIGH)}}, or `domain.{name}=LOW:HIGH` for a file."
        if not self.has_names:
            remedy = "Name the criteria and give their scales: criteria=NAMES, domains={NAME: (LOW, HIGH)}."
        raise InvalidInput(
            "ScoreBatch",
            f"scores of {name!r}",
            f"from {low[g, k]:g} to {high[g, k]:g}, its domain",
            f"{self.scores_MK[i, k]:g}",
            remedy,
        )

    def _expand_to_rows(self, values_NK: np.ndarray) -> np.ndarray:
        """Return (N, K) values as (M, K), a row per rollout; (1, K) values stay as they are, for broadcasting."""
        return values_NK.take(self.group_of_row, axis=0) if len(values_NK) > 1 else values_NK

    # --------------------------------------------------------------------------------------------- shapes of results

    def restore_rollout_shape(self, values: np.ndarray) -> np.ndarray:
        """Return values per row, (M, …) sorted by group, in the order and shape of the caller's scores."""
        if self.order is not None:
            unsorted = np.empty_like(values)
            unsorted[self.order] = values
            values = unsorted
        return values if self.shape is None else values.reshape(self.shape + values.shape[1:])

    def restore_group_shape(self, values: np.ndarray) -> np.ndarray:
        """Return values per group, (N, …); without the first axis if the caller gave a single group without labels."""
        has_labels = self.order is not None or self.given_labels is not None
        is_stacked = self.shape is not None and len(self.shape) > 1  # (N, G, K), even if N is 1
        if has_labels or is_stacked or self.N != 1:
            return values
        return values[0]

    # ------------------------------------------------------------------------------------------------- other batches

    def replace_unit_scores(self, unit_MK: np.ndarray) -> ScoreBatch:
        """Return a copy with another `unit_MK`, for rules that add scores up; the scores as given stay."""
        return replace(self, changed_unit_MK=unit_MK)

    def replace_ranked_scores(self, unit_MK: np.ndarray) -> ScoreBatch:
        """Return a copy with other scores, and so other outcomes of comparisons, for rules that rank.

        unit_MK: from 0 to 1, higher is better, NaN = missing. They are put on the scales of the criteria:

            one score                     unit score as before           another unit score
            scored                        keeps its score                gets the new score
            compared, none of its group   keeps its outcomes             –
              has another unit score
            compared, otherwise           gets its win rate as score     gets the new score
            neither                       stays missing                  gets the new score

        Probabilities, too, stay only if all unit scores of the group on the criterion are as before.
        """
        low, high = self.domain_limits_NK
        low_MK = self._expand_to_rows(low)
        high_MK = self._expand_to_rows(high)
        share_MK = unit_MK
        if self.lower_NK is not None:
            share_MK = np.where(self._expand_to_rows(self.lower_NK), 1.0 - unit_MK, unit_MK)
        rescaled_MK = low_MK + share_MK * (high_MK - low_MK)

        old_unit_MK = self.scored_unit_MK
        is_same_MK = (unit_MK == old_unit_MK) | (np.isnan(unit_MK) & np.isnan(old_unit_MK))
        group_is_same_NK = np.ones((self.N, self.K), bool)
        if self.N:
            group_is_same_NK = np.logical_and.reduceat(is_same_MK, self.starts[:-1])
        # Scores as before are not rescaled: rounding could break ties. If the whole group is as before, a rollout
        # without a score stays without one, because it keeps its outcomes.
        has_score_MK = ~np.isnan(self.scores_MK)
        keeps_score_MK = is_same_MK & (has_score_MK | group_is_same_NK[self.group_of_row])
        outcomes = {cell: value for cell, value in self.outcomes.items() if group_is_same_NK[cell]}
        probabilities = {
            cell: value for cell, value in self.probabilities.items() if group_is_same_NK[cell]
        }
        return replace(
            self,
            scores_MK=np.where(keeps_score_MK, self.scores_MK, rescaled_MK),
            changed_unit_MK=None,
            outcomes=outcomes,
            probabilities=probabilities,
        )

    def drop_penalties(self) -> ScoreBatch:
        """Return the batch without its ranked low-quality criteria, for rules with a gate: the gate reads those."""
        columns = [k for k, criterion in enumerate(self.criteria) if criterion.layer == "quality"]
        return self if len(columns) == self.K else self.select_criteria(columns)

    def select_criteria(self, columns: Sequence[int]) -> ScoreBatch:
        """Return the batch with only these ranked criteria, named by their columns, in this order."""
        columns = list(columns)

        def select_columns(matrix: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(matrix[:, columns])

        changed_unit_MK = self.changed_unit_MK
        if changed_unit_MK is not None:
            changed_unit_MK = select_columns(changed_unit_MK)
        return replace(
            self,
            scores_MK=select_columns(self.scores_MK),
            criteria=tuple(self.criteria[k] for k in columns),
            weights_NK=select_columns(self.weights_NK),
            margins_NK=select_columns(self.margins_NK),
            changed_unit_MK=changed_unit_MK,
            outcomes=_select_cells(self.outcomes, range(self.N), columns),
            probabilities=_select_cells(self.probabilities, range(self.N), columns),
        )

    def select_groups(self, first: int, end: int) -> ScoreBatch:
        """Return the groups from number `first` up to, but not including, `end` as a separate batch."""
        rows = slice(int(self.starts[first]), int(self.starts[end]))

        def select_rows(matrix: np.ndarray | None) -> np.ndarray | None:
            return None if matrix is None else matrix[rows]

        def select_per_group(values_NK: np.ndarray) -> np.ndarray:
            return values_NK[first:end] if len(values_NK) > 1 else values_NK

        group_rubrics = self.group_rubrics
        if group_rubrics is not None:
            group_rubrics = group_rubrics[first:end]
        return replace(
            self,
            scores_MK=self.scores_MK[rows],
            starts=self.starts[first : end + 1] - self.starts[first],
            weights_NK=select_per_group(self.weights_NK),
            margins_NK=select_per_group(self.margins_NK),
            given_labels=self.labels[first:end],
            group_rubrics=group_rubrics,
            outcomes=_select_cells(self.outcomes, range(first, end), range(self.K)),
            probabilities=_select_cells(self.probabilities, range(first, end), range(self.K)),
            gates_MC=select_rows(self.gates_MC),
            attributes_MD=select_rows(self.attributes_MD),
            shape=None,
            order=None,
            changed_unit_MK=select_rows(self.changed_unit_MK),
        )


def _select_cells(
    cells: Mapping[tuple[int, int], _Cell], groups: Sequence[int], columns: Sequence[int]
) -> dict[tuple[int, int], _Cell]:
    """Return the cells of some groups and columns, numbered by their positions in `groups` and `columns`."""
    if not cells:  # most batches have no comparisons and no probabilities
        return {}
    new_group = {g: position for position, g in enumerate(groups)}
    new_column = {k: position for position, k in enumerate(columns)}
    selected = {}
    for (g, k), cell in cells.items():
        if g in new_group and k in new_column:
            selected[new_group[g], new_column[k]] = cell
    return selected
