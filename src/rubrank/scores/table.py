"""Scores of rollouts on criteria: what grading gives and fusion takes.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml")
    table["query-7"].scores                      (rollouts, criteria) of one group; NaN = not scored
    table["query-7"].reason(0, "WordCount")      why: "212 words found, at least 300 asked"
    table.fuse().reward                          one reward a rollout, gated by the criteria's layers
    table.write("scores.parquet")                read_scores(...) gives the same table back, reasons included

Every group has criteria of its own: queries may bring their own rubrics, of any length. Where one matrix is wanted, the
columns are all names in the order in which they first appear, and what a query does not ask is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

import rubrank
from rubrank._choices import Penalties
from rubrank.errors import InvalidInput, UnknownName, counted
from rubrank.judges.judgments import Judgments, Provenance
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.batching import score_batch_of
from rubrank.scores.criterion import CriterionData
from rubrank.scores.frames import Framed
from rubrank.scores.output import write_scores
from rubrank.scores.summary import CriterionSummary, summarise
from rubrank.verifiers.domain import Layer

_MOST_CELLS = 100_000_000  # of the one matrix that fusion takes: 800 MB


@dataclass(frozen=True, eq=False)
class GroupScores:
    """One group: G rollouts × K criteria of its own."""

    id: str
    criteria: tuple[CriterionData, ...]
    scores: np.ndarray
    """(G, K); NaN = not scored."""
    reasons: tuple[tuple[str, ...], ...]
    """G × K: what each score, or its absence, is due to."""
    outcomes: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Criterion → (G, G) of those on which responses were compared instead of scored: 1 = row beats column, 0.5 = tie,
    NaN = not compared."""

    def __repr__(self) -> str:
        return f"GroupScores({self.id!r}, {len(self.scores)} rollouts, criteria: {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    def score(self, rollout: int, criterion: str) -> float:
        """One score."""
        return float(self.scores[rollout, self._column(criterion)])

    def reason(self, rollout: int, criterion: str) -> str:
        """Why it has that score, or none."""
        return self.reasons[rollout][self._column(criterion)]

    def _column(self, criterion: str) -> int:
        if criterion not in self.names:
            raise UnknownName.of(f"group {self.id!r}", "criterion", criterion, self.names)
        return self.names.index(criterion)


@dataclass(frozen=True, eq=False)
class ScoreTable(Framed):
    """All groups; `len(table)` counts rollouts."""

    groups: tuple[GroupScores, ...]
    judging: Judgments | None = None
    """What the judges said and took, where some were asked; not written to files."""
    read: Provenance | None = None
    """What a file says about its judging."""

    @property
    def provenance(self) -> Provenance | None:
        """What can be said about judging later: positions, and which replies answered; written to files."""
        return self.read if self.judging is None else self.judging.provenance

    def __len__(self) -> int:
        return sum(len(group.scores) for group in self.groups)

    def __iter__(self) -> Iterator[GroupScores]:
        return iter(self.groups)

    def __getitem__(self, id: str) -> GroupScores:
        """The group of that id."""
        if id not in self._by_id:
            such = next(iter(self._by_id), None)
            allowed = f"of one of its {len(self.groups)} groups, such as {such!r}"
            raise InvalidInput("ScoreTable", "id", allowed, repr(id), "See .groups.")
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, GroupScores]:
        return {group.id: group for group in self.groups}

    @cached_property
    def criteria(self) -> tuple[str, ...]:
        """All names, in the order in which they first appear."""
        return tuple(dict.fromkeys(criterion.name for group in self.groups for criterion in group.criteria))

    @cached_property
    def _number(self) -> dict[str, int]:
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
        """(rollouts, all criteria): NaN where a score is missing or not asked for."""
        return self._matrix(lambda group: group.scores)

    def summary(self) -> tuple[CriterionSummary, ...]:
        """Each criterion: mean, tie rate, missing, groups in which all tie."""
        return summarise(self)

    def part(self, groups: Sequence[GroupScores]) -> ScoreTable:
        """A table of some of the groups."""
        return ScoreTable(tuple(groups))

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> ScoreTable:
        """The table with other data of some criteria, such as {"Facts": {"weight": 3}}, in all rubrics."""
        for name in changes:
            if name not in self.criteria:
                raise UnknownName.of("ScoreTable", "criterion", name, self.criteria)
        rubrics: dict[int, tuple[CriterionData, ...]] = {}
        for group in self.groups:
            if id(group.criteria) not in rubrics:
                rubrics[id(group.criteria)] = tuple(replace(c, **changes.get(c.name, {})) for c in group.criteria)
        groups = tuple(replace(group, criteria=rubrics[id(group.criteria)]) for group in self.groups)
        return replace(self, groups=groups)

    def only(self, names: Sequence[str]) -> ScoreTable:
        """The table with some of its criteria."""
        for name in names:
            if name not in self.criteria:
                raise UnknownName.of("ScoreTable", "criterion", name, self.criteria)
        chosen = set(names)
        groups = []
        for group in self.groups:
            columns = [k for k, name in enumerate(group.names) if name in chosen]
            groups.append(
                replace(
                    group,
                    criteria=tuple(group.criteria[k] for k in columns),
                    scores=group.scores[:, columns],
                    reasons=tuple(tuple(reasons[k] for k in columns) for reasons in group.reasons),
                    outcomes={name: matrix for name, matrix in group.outcomes.items() if name in chosen},
                )
            )
        return replace(self, groups=tuple(groups))

    # ------------------------------------------------------------------------------------------------------- fusion

    def batch(
        self,
        *,
        attributes: Any = None,
        attribute_names: Sequence[str] = (),
        columns: Sequence[CriterionData] = (),
        penalties: Penalties = "rank",
    ) -> ScoreBatch:
        """The table as rules take it.

        columns: criteria that come first, in this order, whether or not some group asks for them.
        penalties: criteria of low quality are ranked by rules without "+" ("rank"), or read by gates alone ("ignore").
        """
        if penalties not in get_args(Penalties):
            raise UnknownName.of("ScoreTable.batch", "penalties", penalties, get_args(Penalties))
        return score_batch_of(self, attributes, tuple(attribute_names), columns, penalties == "rank")

    def fuse(
        self,
        *,
        gate: rubrank.Gate | None = None,
        attributes: Any = None,
        attribute_names: Sequence[str] = (),
        **options: Any,
    ) -> rubrank.Fused:
        """Fuse and gate by the rubric's weights, margins, directions and layers; `.reward` is in the order of rows.

        gate: options of the gate. options: those of `rubrank.RLVR2`, such as adjust, span, model; attributes that are
        given are removed where `adjust` does not say otherwise.
        """
        if attributes is not None:
            options.setdefault("adjust", "remove")
        rule = rubrank.Gated(rubrank.RLVR2(**options), gate or rubrank.Gate())
        return rule(self.batch(attributes=attributes, attribute_names=attribute_names))

    def _matrix(self, of: Any) -> np.ndarray:
        if len(self) * len(self.criteria) > _MOST_CELLS:
            raise InvalidInput(
                "ScoreTable",
                "rollouts × criteria",
                f"at most {_MOST_CELLS:,} for one matrix",
                f"{len(self):,} × {len(self.criteria):,}",
                "Take parts: table.part(table.groups[:500]).",
            )
        matrix = np.full((len(self), len(self.criteria)), np.nan)
        number = self._number
        start = 0
        for group in self.groups:
            end = start + len(group.scores)
            matrix[start:end, [number[name] for name in group.names]] = of(group)
            start = end
        return matrix

    def per_group(self, field: str, default: float) -> np.ndarray:
        """(groups, criteria): a number of every criterion; the default where it is not asked."""
        number = self._number
        values = np.full((len(self.groups), len(self.criteria)), default)
        for g, group in enumerate(self.groups):
            for criterion in group.criteria:
                values[g, number[criterion.name]] = getattr(criterion, field)
        return values

    def specifications(self) -> list[CriterionData]:
        """What every column is, as the first query that asks for it has it; layers must agree."""
        first: dict[str, CriterionData] = {}
        for group in self.groups:
            for criterion in group.criteria:
                first.setdefault(criterion.name, criterion)
        for name in first:
            self._layer(name)
        return list(first.values())

    def variants(self, name: str) -> set[CriterionData]:
        """The different forms that a criterion has in the queries' rubrics."""
        return self._specs[name]

    @cached_property
    def _specs(self) -> dict[str, set[CriterionData]]:
        specs: dict[str, set[CriterionData]] = {}
        for group in self.groups:
            for criterion in group.criteria:
                specs.setdefault(criterion.name, set()).add(criterion)
        return specs

    def _layer(self, name: str) -> Layer:
        layers = {criterion.layer for criterion in self._specs[name]}
        if len(layers) > 1:
            raise InvalidInput(
                "ScoreTable",
                f"layer of {name!r}",
                "the same in all rubrics",
                " and ".join(sorted(layers)),
                "",
            )
        return layers.pop()

    # -------------------------------------------------------------------------------------------------------- shown

    def __repr__(self) -> str:
        missing = int(np.isnan(self.scores).sum())
        return (
            f"ScoreTable({counted(len(self), 'rollout')} in {counted(len(self.groups), 'group')}, "
            f"{counted(len(self.criteria), 'criterion')}, {counted(missing, 'score')} missing)"
        )

    def to_polars(self) -> Any:
        """A polars frame: group, rollout, and one column for each criterion; null where a score is missing."""
        import polars as pl

        columns = {name: self.scores[:, k] for k, name in enumerate(self.criteria)}
        frame = pl.DataFrame({"group": self.group_ids, "rollout": self.rollout_numbers, **columns})
        return frame.with_columns(pl.col(*self.criteria).fill_nan(None)) if self.criteria else frame

    # -------------------------------------------------------------------------------------------------------- files

    def write(self, path: str | Path) -> None:
        """Write as Parquet (.parquet) or JSON Lines (.jsonl, .jsonl.gz), with reasons and the criteria's data."""
        write_scores(self, Path(path))
