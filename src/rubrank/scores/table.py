"""`ScoreTable`: the scores of rollouts on criteria, the output of grading and the input of fusion.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml")
    table["query-7"].scores                      (rollouts, criteria) of one group; NaN = not scored
    table["query-7"].reason(0, "WordCount")      why: "212 words found, at least 300 required"
    table.fuse().reward                          one reward per rollout, gated by the criteria's layers
    table.write("scores.parquet")                read_scores(...) returns the same table, reasons included

Every group has its own criteria, because queries may have their own rubrics. If one matrix is needed, its columns are
all criteria in the order in which they first appear, with NaN for criteria that are not in the group's rubric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

import rubrank
from rubrank._choices import Penalties
from rubrank.errors import InvalidInput, UnknownName, counted
from rubrank.scores.arrays import read_attributes
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.frames import Framed
from rubrank.scores.outcomes import least_difference, was_compared
from rubrank.scores.output import write_scores
from rubrank.tables.html import Shaded, write_cell
from rubrank.verifiers.distribution import Distribution

if TYPE_CHECKING:
    from rubrank.judges.judgments import Judgments, Provenance

_MOST_CELLS = 100_000_000  # in the matrix for fusion: 800 MB


@dataclass(frozen=True, eq=False)
class GroupScores:
    """One group: the scores of G rollouts on the K criteria of its rubric."""

    id: str
    criteria: tuple[CriterionData, ...]
    scores: np.ndarray
    """(G, K); NaN = not scored."""
    reasons: tuple[tuple[str, ...], ...]
    """G × K: why each score is what it is, or why it is missing."""
    outcomes: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Criterion → (G, G), for those on which responses were compared instead of scored: 1 = row beats column, 0.5 =
    tie, NaN = not compared."""
    probabilities: Mapping[str, tuple[Distribution, ...]] = field(default_factory=dict)
    """Criterion → for each rollout (value, probability) pairs, if judges report how sure they are; () = unknown."""
    digests: tuple[str, ...] = ()
    """For each rollout a short digest of the response that was scored, to find it again; () = not known."""
    rollout_ids: tuple[str, ...] = ()
    """The ids by which the table told its rollouts apart; () = it had none."""

    def __repr__(self) -> str:
        return f"GroupScores({self.id!r}, {len(self.scores)} rollouts, criteria: {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    @cached_property
    def not_asked(self) -> np.ndarray:
        """(G, K): True where no judge was asked, because a hard gate has stopped the rollout."""
        # Imported here, because it loads all of rollouts and texts.
        from rubrank.verifiers.verifier import NOT_ASKED

        not_asked = np.zeros(self.scores.shape, dtype=bool)
        for i, k in np.argwhere(np.isnan(self.scores)) if self.reasons else ():
            not_asked[i, k] = self.reasons[i][k].startswith(NOT_ASKED)
        return not_asked

    @cached_property
    def missing(self) -> np.ndarray:
        """(G, K): True where a score or comparison was asked for and is not there."""
        missing = np.isnan(self.scores) & ~self.not_asked
        for k, name in enumerate(self.names):
            if name in self.outcomes:
                missing[:, k] &= ~was_compared(self.outcomes[name])
        return missing

    def score(self, rollout: int, criterion: str) -> float:
        """One score."""
        return float(self.scores[rollout, self._column(criterion)])

    def reason(self, rollout: int, criterion: str) -> str:
        """Why a rollout has its score, or why the score is missing."""
        return self.reasons[rollout][self._column(criterion)]

    def _column(self, criterion: str) -> int:
        if criterion not in self.names:
            raise UnknownName.of(f"group {self.id!r}", "criterion", criterion, self.names)
        return self.names.index(criterion)


@dataclass(frozen=True)
class CriterionSummary:
    """Statistics of one criterion over all groups whose rubric has it."""

    name: str
    rollouts: int
    """Rollouts of these groups."""
    mean: float
    """Of the scores; NaN without any."""
    tie_rate: float
    """Share of the pairs within groups that tie; NaN without a pair."""
    missing: int
    """Scores that were asked for and are not there; comparisons, and rollouts stopped by a hard gate, do not count."""
    groups: int
    all_tied: int
    """Groups in which it tells no rollouts apart."""


@dataclass(frozen=True, eq=False)
class ScoreTable(Framed):
    """All groups; `len(table)` counts rollouts."""

    groups: tuple[GroupScores, ...]
    judging: Judgments | None = None
    """Replies and costs of the judges, if there were any; not written to files."""
    read: Provenance | None = None
    """The provenance that was read from a file."""

    @property
    def provenance(self) -> Provenance | None:
        """The part of the judging that is written to files: positions, and which replies were used."""
        return self.read if self.judging is None else self.judging.provenance

    def __len__(self) -> int:
        return sum(len(group.scores) for group in self.groups)

    def __iter__(self) -> Iterator[GroupScores]:
        return iter(self.groups)

    def __getitem__(self, id: str) -> GroupScores:
        """The group of that id."""
        if id not in self._by_id:
            example = next(iter(self._by_id), None)
            allowed = f"of one of its {len(self.groups)} groups, such as {example!r}"
            raise InvalidInput("ScoreTable", "id", allowed, repr(id), "See .groups.")
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, GroupScores]:
        return {group.id: group for group in self.groups}

    @cached_property
    def criteria(self) -> tuple[str, ...]:
        """All names, in the order in which they first appear."""
        return tuple(self._variants)

    @cached_property
    def _rubrics(self) -> list[tuple[CriterionData, ...]]:
        """The distinct rubrics of the groups, by identity: most groups share one, and hashing each is slow."""
        return list({id(group.criteria): group.criteria for group in self.groups}.values())

    @cached_property
    def _variants(self) -> dict[str, dict[CriterionData, None]]:
        """Name → the different versions of the criterion in the rubrics, in order (a dict as an ordered set)."""
        variants: dict[str, dict[CriterionData, None]] = {}
        for rubric in self._rubrics:
            for criterion in rubric:
                variants.setdefault(criterion.name, {})[criterion] = None
        return variants

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.criteria)}

    @property
    def group_ids(self) -> list[str]:
        """The group of every row."""
        return [group.id for group in self.groups for _ in range(len(group.scores))]

    @property
    def rollout_numbers(self) -> list[int]:
        """The number of every row within its group, from 0."""
        return [i for group in self.groups for i in range(len(group.scores))]

    @cached_property
    def scores(self) -> np.ndarray:
        """(rollouts, all criteria): NaN if a score is missing, or the criterion is not in the group's rubric."""
        if len(self) * len(self.criteria) > _MOST_CELLS:
            allowed = f"at most {_MOST_CELLS:,} for one matrix"
            got = f"{len(self):,} × {len(self.criteria):,}"
            remedy = "Take parts: table.part(table.groups[:500])."
            raise InvalidInput("ScoreTable", "rollouts × criteria", allowed, got, remedy)
        matrix = np.full((len(self), len(self.criteria)), np.nan)
        start = 0
        for group in self.groups:
            end = start + len(group.scores)
            matrix[start:end, [self._column_of[name] for name in group.names]] = group.scores
            start = end
        return matrix

    def part(self, groups: Sequence[GroupScores]) -> ScoreTable:
        """A table of some of the groups."""
        return ScoreTable(tuple(groups))

    def only(self, names: Sequence[str]) -> ScoreTable:
        """The table with some of its criteria."""
        for name in names:
            if name not in self.criteria:
                raise UnknownName.of(
                    "ScoreTable", "criterion", name, self.criteria, field="criteria"
                )
        groups = []
        for group in self.groups:
            columns = [k for k, name in enumerate(group.names) if name in names]
            groups.append(
                replace(
                    group,
                    criteria=tuple(group.criteria[k] for k in columns),
                    scores=group.scores[:, columns],
                    reasons=tuple(tuple(reasons[k] for k in columns) for reasons in group.reasons),
                    outcomes={
                        name: outcomes for name, outcomes in group.outcomes.items() if name in names
                    },
                    probabilities={
                        name: cell for name, cell in group.probabilities.items() if name in names
                    },
                )
            )
        return replace(self, groups=tuple(groups))

    def with_changes(self, changes: Mapping[str, Mapping[str, Any]]) -> ScoreTable:
        """The table with changed data of some criteria in all rubrics, such as {"Facts": {"weight": 3}}."""
        for name in changes:
            if name not in self.criteria:
                raise UnknownName.of("ScoreTable", "criterion", name, self.criteria)
        if not changes:
            return self
        # Groups share rubrics, and each rubric is changed once.
        changed_rubrics = {}
        for rubric in self._rubrics:
            changed = tuple(replace(c, **changes.get(c.name, {})) for c in rubric)
            changed_rubrics[id(rubric)] = changed
        groups = []
        for group in self.groups:
            groups.append(replace(group, criteria=changed_rubrics[id(group.criteria)]))
        return replace(self, groups=tuple(groups))

    def specifications(self) -> list[CriterionData]:
        """The data of every column, from the first rubric that has it; raises if layers differ between rubrics."""
        for name, variants in self._variants.items():
            layers = sorted({criterion.layer for criterion in variants})
            if len(layers) > 1:
                got = " and ".join(layers)
                raise InvalidInput(
                    "ScoreTable", f"layer of {name!r}", "the same in all rubrics", got, ""
                )
        return [next(iter(variants)) for variants in self._variants.values()]

    def variants(self, name: str) -> set[CriterionData]:
        """The different versions of a criterion in the rubrics."""
        return set(self._variants[name])

    # ------------------------------------------------------------------------------------------------------- fusion

    def batch(
        self,
        *,
        attributes: Any = None,
        attribute_names: Sequence[str] = (),
        columns: Sequence[CriterionData] = (),
        penalties: Penalties = "rank",
    ) -> ScoreBatch:
        """The table as input of a rule: ranked criteria and gate criteria in separate arrays.

        Criteria of the layer "watch" are in neither: no rule sees them.
        columns: criteria that come first, in this order, even if no group has them.
        penalties: "rank": rules without "+" rank low-quality criteria; "ignore": only gates read them.
        """
        if penalties not in get_args(Penalties):
            raise UnknownName.of("ScoreTable.batch", "penalties", penalties, get_args(Penalties))
        criterion_of = {
            criterion.name: criterion for criterion in (*columns, *self.specifications())
        }
        criteria = list(criterion_of.values())
        ranked_layers = ("quality", "low_quality") if penalties == "rank" else ("quality",)
        ranked = [c for c in criteria if c.layer in ranked_layers]
        gates = [c for c in criteria if c.layer in ("low_quality", "global_quality")]
        if all(c.layer != "quality" for c in criteria) and self.groups:
            allowed = 'some in the layer "quality"'
            raise InvalidInput(
                "ScoreTable", "criteria", allowed, "gates only", "Add something to rank by."
            )
        column_of = {criterion.name: k for k, criterion in enumerate(ranked)}
        outcomes = {}
        probabilities = {}
        for g, group in enumerate(self.groups):
            for name, outcomes_GG in group.outcomes.items():
                if name in column_of:
                    outcomes[g, column_of[name]] = outcomes_GG
            for name, distributions in group.probabilities.items():
                if name in column_of:
                    probabilities[g, column_of[name]] = distributions
        sizes = [len(group.scores) for group in self.groups]
        weights_NK = self._columns(self._per_group("weight", 1.0), ranked, 1.0)
        margins_NK = self._columns(self._per_group("margin", 0.0), ranked, 0.0)
        has_one_rubric = len(set(self._rubrics)) <= 1 and len(criteria) == len(self.criteria)
        batch = ScoreBatch(
            scores_MK=self._columns(self.scores, ranked, np.nan),
            starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            criteria=tuple(ranked),
            weights_NK=_merge_equal_rows(weights_NK),
            margins_NK=_merge_equal_rows(margins_NK),
            given_labels=tuple(group.id for group in self.groups),
            group_rubrics=None
            if has_one_rubric
            else tuple(group.criteria for group in self.groups),
            outcomes=outcomes,
            probabilities=probabilities,
            attribute_names=tuple(attribute_names),
        )
        if gates:
            batch.gates_MC = self._columns(self.scores, gates, np.nan)
            batch.gate_criteria = tuple(gates)
        if attributes is not None:
            batch.attributes_MD = read_attributes("ScoreTable.batch", batch, attributes)
        return batch

    def _columns(
        self, values: np.ndarray, criteria: Sequence[CriterionData], absent: float
    ) -> np.ndarray:
        """The columns of these criteria; a column that the table does not have is filled with `absent`."""
        columns = np.full((len(values), len(criteria)), absent)
        for k, criterion in enumerate(criteria):
            if criterion.name in self._column_of:
                columns[:, k] = values[:, self._column_of[criterion.name]]
        return columns

    def _per_group(self, field: str, default: float) -> np.ndarray:
        """(groups, criteria): a field of every criterion; the default if it is not in the group's rubric."""
        values = np.full((len(self.groups), len(self.criteria)), default)
        for g, group in enumerate(self.groups):
            for criterion in group.criteria:
                values[g, self._column_of[criterion.name]] = getattr(criterion, field)
        return values

    def fuse(
        self,
        *,
        gate: rubrank.Gate | None = None,
        attributes: Any = None,
        attribute_names: Sequence[str] = (),
        **options: Any,
    ) -> rubrank.Fused:
        """Fuse and gate by the rubric's weights, margins, directions and layers; `.reward` is in the order of rows.

        gate: options of the gate. options: those of `rubrank.RLVR2`, such as adjust, span, model. With attributes,
        adjust="remove" is the default.
        """
        if attributes is not None:
            options.setdefault("adjust", "remove")
        rule = rubrank.Gated(rubrank.RLVR2(**options), gate or rubrank.Gate())
        return rule(self.batch(attributes=attributes, attribute_names=attribute_names))

    # ------------------------------------------------------------------------------------------------------ summary

    def summary(self) -> tuple[CriterionSummary, ...]:
        """Each criterion: mean, tie rate, missing scores, groups in which all tie."""
        totals = {name: _CriterionTotals() for name in self.criteria}
        for group in self.groups:
            for k, criterion in enumerate(group.criteria):
                total = totals[criterion.name]
                total.missing += int(group.missing[:, k].sum())
                if criterion.name in group.outcomes:
                    total.add_comparisons(group.outcomes[criterion.name])
                else:
                    total.add_scores(group.scores[:, k], criterion.margin)
        return tuple(total.summarise(name) for name, total in totals.items())

    def __repr__(self) -> str:
        missing = sum(int(group.missing.sum()) for group in self.groups)
        return (
            f"ScoreTable({counted(len(self), 'rollout')} in {counted(len(self.groups), 'group')}, "
            f"{counted(len(self.criteria), 'criterion')}, {counted(missing, 'score')} missing)"
        )

    def to_polars(self) -> Any:
        """A polars frame: group, rollout, and one column for each criterion; null where a score is missing."""
        import polars as pl

        columns = {
            name: pl.Series(self.scores[:, k], nan_to_null=True)
            for k, name in enumerate(self.criteria)
        }
        return pl.DataFrame({"group": self.group_ids, "rollout": self.rollout_numbers, **columns})

    def _colour_column(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Scores from orange, the worst of their scale, to blue, the best."""
        if name not in self._variants:
            return [write_cell(value) for value in values]
        criterion = next(iter(self._variants[name]))
        cells: list[Any] = []
        for value in values:
            if value is None:
                cells.append("–")
            else:
                share = float(criterion.cleanness(np.array(value)))
                cells.append(Shaded(write_cell(value), 2.0 * share - 1.0))
        return cells

    def write(self, path: str | Path) -> None:
        """Write as Parquet (.parquet) or JSON Lines (.jsonl, .jsonl.gz), with reasons and the criteria's data."""
        write_scores(self, Path(path))


def _merge_equal_rows(values_NK: np.ndarray) -> np.ndarray:
    """(1, K) if all groups have the same values."""
    if len(values_NK) > 0 and (values_NK == values_NK[0]).all():
        return np.ascontiguousarray(values_NK[:1])
    return values_NK


@dataclass
class _CriterionTotals:
    """Counts and sums of one criterion, added up group by group."""

    rollouts: int = 0
    scored: int = 0
    missing: int = 0
    total: float = 0.0
    pairs: int = 0
    ties: int = 0
    groups: int = 0
    all_tied: int = 0

    def add_scores(self, scores: np.ndarray, margin: float) -> None:
        """Add the scores of one group."""
        sorted_scores = np.sort(scores[~np.isnan(scores)])
        n = len(sorted_scores)
        # For each score, count the later ones that are within the margin.
        highest_tied = sorted_scores + least_difference(
            sorted_scores, sorted_scores + margin, np.array(margin)
        )
        tied = np.searchsorted(sorted_scores, highest_tied, side="right") - np.arange(1, n + 1)
        self.scored += n
        self.total += float(sorted_scores.sum())
        self._add_group(len(scores), n * (n - 1) // 2, int(tied.sum()))

    def add_comparisons(self, outcomes_GG: np.ndarray) -> None:
        """Add a group whose responses were compared: it has ties, but no mean."""
        pairs = outcomes_GG[np.triu_indices(len(outcomes_GG), 1)]
        pairs = pairs[~np.isnan(pairs)]
        self._add_group(len(outcomes_GG), len(pairs), int((pairs == 0.5).sum()))

    def _add_group(self, rollouts: int, pairs: int, ties: int) -> None:
        self.rollouts += rollouts
        self.pairs += pairs
        self.ties += ties
        self.groups += 1
        self.all_tied += 0 < pairs == ties

    def summarise(self, name: str) -> CriterionSummary:
        """The figures of a criterion."""
        return CriterionSummary(
            name,
            self.rollouts,
            self.total / self.scored if self.scored else np.nan,
            self.ties / self.pairs if self.pairs else np.nan,
            self.missing,
            self.groups,
            self.all_tied,
        )
