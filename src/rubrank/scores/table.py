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
from typing import Any, Literal

import numpy as np

import rubrank
from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.judging import Judgments
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import Layer

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


@dataclass(frozen=True)
class CriterionSummary:
    """One criterion over all groups that ask for it."""

    name: str
    rollouts: int
    """That were asked."""
    mean: float
    """Of the scores; NaN without any."""
    tie_rate: float
    """Share of the pairs within groups that tie; NaN without a pair."""
    missing: int
    groups: int
    """That ask for it."""
    all_tied: int
    """Groups in which it tells nobody apart."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """All groups; `len(table)` counts rollouts."""

    groups: tuple[GroupScores, ...]
    judging: Judgments | None = None
    """What the judges said and took, where some were asked; not written to files."""

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
        from rubrank.scores.summary import summarise

        return summarise(self)

    def part(self, groups: Sequence[GroupScores]) -> ScoreTable:
        """A table of some of the groups."""
        return ScoreTable(tuple(groups))

    # ------------------------------------------------------------------------------------------------------- fusion

    def to_fuse(self) -> dict[str, Any]:
        """Arguments for `rubrank.fuse`: the criteria that are ranked by, with their weights, margins and directions.

        Those of the layers "low_quality" and "global_quality" are for a gate, and left out: see `fuse`.
        """
        names = [name for name in self.criteria if self._layer(name) == "quality"]
        if not names:
            raise InvalidInput(
                "ScoreTable", "criteria", 'some in the layer "quality"', "gates only", "Add something to rank by."
            )
        columns = [self._number[name] for name in names]
        directions = [self._direction(name) for name in names]
        scores = self.scores[:, columns]
        for k, direction in enumerate(directions):
            if direction is None:  # differs from query to query: turned round where lower is better
                scores[:, k] *= self._signs(names[k])
        return {
            "scores": scores,
            "groups": self.group_ids,
            "criteria": names,
            "weights": self.per_group("weight", 1.0)[:, columns],
            "margins": self.per_group("margin", 0.0)[:, columns],
            "directions": [direction or "higher" for direction in directions],
            "outcomes": self._outcomes(),
        }

    def _outcomes(self) -> dict[str, dict[str, np.ndarray]]:
        """Criterion → group → who beat whom."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for group in self.groups:
            for name, outcomes in group.outcomes.items():
                found.setdefault(name, {})[group.id] = outcomes
        return found

    def batch(self, *, attributes: Any = None, attribute_names: Sequence[str] = ()) -> ScoreBatch:
        """The table as aggregation rules take it; see `rubrank.fusion.rule`."""
        from rubrank.scores.batching import score_batch_of

        return score_batch_of(self, attributes, tuple(attribute_names))

    def gate(self, **options: Any) -> Any:
        """The gate that the layers make, for scores as `fuse` hands them over; None without such criteria."""
        hard = [name for name in self.criteria if self._layer(name) == "global_quality"]
        soft = [name for name in self.criteria if self._layer(name) == "low_quality"]
        return rubrank.Gate(global_quality=hard, low_quality=soft, **options) if hard or soft else None

    def fuse(self, *, attributes: Any = None, **options: Any) -> rubrank.FusedBatch:
        """Fuse and gate by the rubric's weights, margins, directions and layers; `.reward` is in the order of rows.

        options: those of `rubrank.RLVR2`, such as adjust, span, model; `gate` to replace the one that the layers make.
        """
        rule, scores = self._rule(options), self._with_gates()
        fused = rule(scores, groups=self.group_ids, attributes=attributes, outcomes=self._outcomes())
        if rule.gate is None or rule.gate.missing == "pass":
            return fused
        gated = rule.gate(fused.fusion.ranking_M, fused.all_scores_MC, fused.names, self._asked())
        return replace(fused, gated=gated)  # a query that does not ask for a gate does not fail it

    def _asked(self) -> np.ndarray:
        """(rollouts, criteria): does the query ask for it?"""
        return ~np.isnan(self._matrix(lambda group: np.zeros((len(group.scores), len(group.names)))))

    def _rule(self, options: dict[str, Any]) -> rubrank.RLVR2:
        ranked = self.to_fuse()
        at = [self._number[name] for name in ranked["criteria"]]
        weights, margins = np.ones((len(self.groups), len(self.criteria))), self.per_group("margin", 0.0)
        weights[:, at] = ranked["weights"]
        directions = ["higher"] * len(self.criteria)
        for k, direction in zip(at, ranked["directions"], strict=True):
            directions[k] = direction
        given = {"weights": weights, "margins": margins, "directions": directions, "gate": self.gate(), **options}
        return rubrank.RLVR2(criteria=self.criteria, **given)

    def _with_gates(self) -> np.ndarray:
        """All columns as fusion takes them: the gates' from 0 to 1 = clean."""
        ranked = self.to_fuse()
        scores = self._matrix(lambda group: _cleaned(group))
        scores[:, [self._number[name] for name in ranked["criteria"]]] = ranked["scores"]
        return scores

    def _matrix(self, of: Any) -> np.ndarray:
        if len(self) * len(self.criteria) > _MOST_CELLS:
            raise InvalidInput(
                "ScoreTable", "rollouts × criteria", f"at most {_MOST_CELLS:,} for one matrix",
                f"{len(self):,} × {len(self.criteria):,}", "Take parts: table.part(table.groups[:500]).",
            )  # fmt: skip
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
                "ScoreTable", f"layer of {name!r}", "the same in all rubrics", " and ".join(sorted(layers)),
                "Rename one of the criteria.",
            )  # fmt: skip
        return layers.pop()

    def _direction(self, name: str) -> Literal["higher", "lower"] | None:
        directions = {criterion.direction for criterion in self._specs[name]}
        return directions.pop() if len(directions) == 1 else None

    def _signs(self, name: str) -> np.ndarray:
        lower = [any(c.name == name and c.direction == "lower" for c in group.criteria) for group in self.groups]
        sizes = [len(group.scores) for group in self.groups]
        return np.repeat(np.where(lower, -1.0, 1.0), sizes)

    # -------------------------------------------------------------------------------------------------------- files

    def write(self, path: str | Path) -> None:
        """Write as Parquet (.parquet) or JSON Lines (.jsonl, .jsonl.gz), with reasons and the criteria's data."""
        from rubrank.scores.files import write_scores

        write_scores(self, Path(path))


def read_scores(path: str | Path) -> ScoreTable:
    """The table that `ScoreTable.write` wrote."""
    from rubrank.scores.files import read_scores as read

    return read(Path(path))


def _cleaned(group: GroupScores) -> np.ndarray:
    columns = [
        criterion.cleanness(group.scores[:, k]) if criterion.layer != "quality" else group.scores[:, k]
        for k, criterion in enumerate(group.criteria)
    ]
    return np.stack(columns, axis=1) if columns else group.scores
