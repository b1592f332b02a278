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
from rubrank.scores.outcomes import find_compared, outcomes
from rubrank.scores.output import write_scores
from rubrank.tables.html import Framed, Shaded, write_cell
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
        if self.reasons:
            for i, k in np.argwhere(np.isnan(self.scores)):
                not_asked[i, k] = self.reasons[i][k].startswith(NOT_ASKED)
        return not_asked

    @cached_property
    def missing(self) -> np.ndarray:
        """(G, K): True where a score or comparison was asked for and is not there."""
        missing = np.isnan(self.scores) & ~self.not_asked
        for k, name in enumerate(self.names):
            if name in self.outcomes:
                missing[:, k] &= ~find_compared(self.outcomes[name])
        return missing

    def score(self, rollout: int, criterion: str) -> float:
        """Return one score; NaN = not scored."""
        return float(self.scores[rollout, self._find_column(criterion)])

    def reason(self, rollout: int, criterion: str) -> str:
        """Return why a rollout has its score, or why the score is missing."""
        return self.reasons[rollout][self._find_column(criterion)]

    def _find_column(self, criterion: str) -> int:
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
            remedy = "Take parts: table.select_groups(table.groups[:500])."
            raise InvalidInput("ScoreTable", "rollouts × criteria", allowed, got, remedy)
        matrix = np.full((len(self), len(self.criteria)), np.nan)
        start = 0
        for group in self.groups:
            end = start + len(group.scores)
            matrix[start:end, [self._column_of[name] for name in group.names]] = group.scores
            start = end
        return matrix

    def select_groups(self, groups: Sequence[GroupScores]) -> ScoreTable:
        """Return a table of some of the groups."""
        return ScoreTable(tuple(groups))

    def select_criteria(self, names: Sequence[str]) -> ScoreTable:
        """Return the table with some of its criteria; raises UnknownName if it does not have one of them."""
        for name in names:
            if name not in self.criteria:
                raise UnknownName.of(
                    "ScoreTable", "criterion", name, self.criteria, field="criteria"
                )
        groups = []
        for group in self.groups:
            columns = [k for k, name in enumerate(group.names) if name in names]
            reasons = [tuple(reasons[k] for k in columns) for reasons in group.reasons]
            outcomes = {name: cell for name, cell in group.outcomes.items() if name in names}
            probabilities = {
                name: cell for name, cell in group.probabilities.items() if name in names
            }
            selected = replace(
                group,
                criteria=tuple(group.criteria[k] for k in columns),
                scores=group.scores[:, columns],
                reasons=tuple(reasons),
                outcomes=outcomes,
                probabilities=probabilities,
            )
            groups.append(selected)
        return replace(self, groups=tuple(groups))

    def change_criteria(self, changes: Mapping[str, Mapping[str, Any]]) -> ScoreTable:
        """Return the table with changed data of some criteria in all rubrics.

        changes: fields of `CriterionData` by criterion, such as {"Facts": {"weight": 3}}.
        """
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

    def collect_criteria(self) -> list[CriterionData]:
        """Return the data of every criterion, from the first rubric that has it.

        Raises InvalidInput if a criterion is in different layers: a column cannot be ranked and a gate at once.
        """
        for name, variants in self._variants.items():
            layers = sorted({criterion.layer for criterion in variants})
            if len(layers) > 1:
                where = f"layer of {name!r}"
                got = " and ".join(layers)
                raise InvalidInput("ScoreTable", where, "the same in all rubrics", got, "")
        return [next(iter(variants)) for variants in self._variants.values()]

    def find_variants(self, name: str) -> set[CriterionData]:
        """Return the different versions of a criterion in the rubrics."""
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
        """Return the table as input of a rule: ranked criteria and gate criteria in separate arrays.

        Criteria of the layer "watch" are in neither: no rule sees them.
        columns: criteria that come first, in this order, even if no group has them.
        penalties: "rank": rules without "+" rank low-quality criteria; "ignore": only gates read them.
        """
        if penalties not in get_args(Penalties):
            raise UnknownName.of("ScoreTable.batch", "penalties", penalties, get_args(Penalties))
        criterion_of: dict[str, CriterionData] = {}
        for criterion in (*columns, *self.collect_criteria()):
            criterion_of[criterion.name] = criterion
        criteria = list(criterion_of.values())
        ranked_layers = ("quality", "low_quality") if penalties == "rank" else ("quality",)
        ranked = [c for c in criteria if c.layer in ranked_layers]
        gates = [c for c in criteria if c.layer in ("low_quality", "global_quality")]
        if all(c.layer != "quality" for c in criteria) and self.groups:
            allowed = 'some in the layer "quality"'
            remedy = "Add something to rank by."
            raise InvalidInput("ScoreTable", "criteria", allowed, "gates only", remedy)
        column_of = {criterion.name: k for k, criterion in enumerate(ranked)}
        comparisons = {}
        probabilities = {}
        for g, group in enumerate(self.groups):
            for name, outcomes_GG in group.outcomes.items():
                if name in column_of:
                    comparisons[g, column_of[name]] = outcomes_GG
            for name, distributions in group.probabilities.items():
                if name in column_of:
                    probabilities[g, column_of[name]] = distributions
        sizes = [len(group.scores) for group in self.groups]
        group_rubrics = None
        has_one_rubric = len(set(self._rubrics)) <= 1 and len(criteria) == len(self.criteria)
        if not has_one_rubric:
            group_rubrics = tuple(group.criteria for group in self.groups)
        batch = ScoreBatch(
            scores_MK=self._select_columns(ranked),
            starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            criteria=tuple(ranked),
            weights_NK=self._collect_per_group(ranked, "weight", absent=1.0),
            margins_NK=self._collect_per_group(ranked, "margin", absent=0.0),
            given_labels=tuple(group.id for group in self.groups),
            group_rubrics=group_rubrics,
            outcomes=comparisons,
            probabilities=probabilities,
            attribute_names=tuple(attribute_names),
        )
        if gates:
            batch.gates_MC = self._select_columns(gates)
            batch.gate_criteria = tuple(gates)
        if attributes is not None:
            batch.attributes_MD = read_attributes("ScoreTable.batch", batch, attributes)
        return batch

    def _select_columns(self, criteria: Sequence[CriterionData]) -> np.ndarray:
        """Return the scores (rollouts, criteria) on these criteria; NaN on one that no group has."""
        columns = np.full((len(self), len(criteria)), np.nan)
        for k, criterion in enumerate(criteria):
            if criterion.name in self._column_of:
                columns[:, k] = self.scores[:, self._column_of[criterion.name]]
        return columns

    def _collect_per_group(
        self, criteria: Sequence[CriterionData], field: str, absent: float
    ) -> np.ndarray:
        """Return a field of every criterion, (groups, criteria), or (1, criteria) if it is the same in all groups.

        absent: the value for criteria that are not in the group's rubric.
        """
        column_of = {criterion.name: k for k, criterion in enumerate(criteria)}
        values_NK = np.full((len(self.groups), len(criteria)), absent)
        for g, group in enumerate(self.groups):
            for criterion in group.criteria:
                if criterion.name in column_of:
                    values_NK[g, column_of[criterion.name]] = getattr(criterion, field)
        if len(values_NK) > 0 and (values_NK == values_NK[0]).all():
            return np.ascontiguousarray(values_NK[:1])
        return values_NK

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
        """Return for each criterion its mean, tie rate, missing scores, and the groups in which all tie."""
        # For each criterion: rollouts, groups, missing, scored, sum of scores, pairs, ties, groups in which all tie.
        totals = {name: np.zeros(8) for name in self.criteria}
        for group in self.groups:
            size = len(group.scores)
            margins = [criterion.margin for criterion in group.criteria]
            outcomes_GGK = outcomes(group.scores, margins)
            for name, observed_GG in group.outcomes.items():
                outcomes_GGK[:, :, group.names.index(name)] = observed_GG
            pairs_PK = outcomes_GGK[np.triu_indices(size, 1)]
            pairs = (~np.isnan(pairs_PK)).sum(0)
            ties = (pairs_PK == 0.5).sum(0)
            all_tied = (pairs > 0) & (pairs == ties)
            scored = (~np.isnan(group.scores)).sum(0)
            sums = np.nansum(group.scores, 0)
            per_group = np.ones(len(group.names))
            figures = (size * per_group, per_group, group.missing.sum(0))
            columns = np.stack([*figures, scored, sums, pairs, ties, all_tied], 1)
            for name, column in zip(group.names, columns, strict=True):
                totals[name] += column
        summaries = []
        for name, (rollouts, groups, missing, count, total, pairs, ties, tied) in totals.items():
            summary = CriterionSummary(
                name,
                rollouts=int(rollouts),
                mean=total / count if count else np.nan,
                tie_rate=ties / pairs if pairs else np.nan,
                missing=int(missing),
                groups=int(groups),
                all_tied=int(tied),
            )
            summaries.append(summary)
        return tuple(summaries)

    def __repr__(self) -> str:
        missing = sum(int(group.missing.sum()) for group in self.groups)
        return (
            f"ScoreTable({counted(len(self), 'rollout')} in {counted(len(self.groups), 'group')}, "
            f"{counted(len(self.criteria), 'criterion')}, {counted(missing, 'score')} missing)"
        )

    def to_polars(self) -> Any:
        """Return a polars frame: group, rollout, and one column for each criterion; null where a score is missing."""
        import polars as pl

        columns = {
            name: pl.Series(self.scores[:, k], nan_to_null=True)
            for k, name in enumerate(self.criteria)
        }
        return pl.DataFrame({"group": self.group_ids, "rollout": self.rollout_numbers, **columns})

    def _colour_column(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Return the cells of a column for a notebook: orange for the worst of the scale, blue for the best."""
        if name not in self._variants:
            return [write_cell(value) for value in values]
        criterion = next(iter(self._variants[name]))
        cells: list[Any] = []
        for value in values:
            if value is None:
                cells.append("–")
            else:
                share = float(criterion.normalize_scores(np.array(value)))
                cells.append(Shaded(write_cell(value), 2.0 * share - 1.0))
        return cells

    def write(self, path: str | Path) -> None:
        """Write as Parquet (.parquet) or JSON Lines (.jsonl, .jsonl.gz), with reasons and the criteria's data."""
        write_scores(self, Path(path))
