"""Score files: a table that brings the rubric it was graded by.

    FileRubrics.of(rubrics, FuseOptions(weight={"Facts": 3}), None)     the file's criteria, but for the weight of Facts
        .names, .gates                                             all criteria in their order; those that gate
        .batch(groups, names, attributes)                          these groups, as `ScoreTable.batch` makes them

Weights, margins, directions and layers come from the file, for every query those of its own rubric. Options override
what they say about a criterion by name, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from rubrank.errors import BadTable, InvalidInput, UnknownName
from rubrank.fusion.options import FuseOptions
from rubrank.fusion.stream.names import REASONS, RUBRIC, SCORES, Rubrics
from rubrank.fusion.stream.readers import JsonLines, Parquet
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.scores.writing import OUTCOMES

_LINES = 4096  # rollouts in a block


@dataclass(frozen=True, eq=False)
class FileRubrics:
    """The rubrics of a file, as options have left them."""

    rubrics: Rubrics

    @classmethod
    def of(cls, rubrics: Rubrics, options: FuseOptions, wanted: Sequence[str] | None) -> FileRubrics:
        """`wanted`: the criteria to take; None: all of them."""
        whole = cls(rubrics)
        for name in wanted or ():
            if name not in whole.names:
                raise UnknownName.of("the file's rubric", "criterion", name, whole.names)
        plain, changes = whole if wanted is None else whole.only(wanted), options.changes()
        for name, change in changes.items():
            if name not in plain.names:
                raise UnknownName.of("the file's rubric", f"criterion of --{_flag(change)}", name, plain.names)
        graded = cls(tuple(tuple(replace(c, **changes.get(c.name, {})) for c in rubric) for rubric in plain.rubrics))
        graded._check()
        return graded

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All criteria, in the order in which they first appear."""
        return tuple(self._specs)

    @cached_property
    def gates(self) -> tuple[str, ...]:
        """The criteria that gate."""
        return tuple(name for name, specs in self._specs.items() if any(c.layer != "quality" for c in specs))

    @cached_property
    def _specs(self) -> dict[str, set[CriterionData]]:
        specs: dict[str, set[CriterionData]] = {}
        for rubric in self.rubrics:
            for criterion in rubric:
                specs.setdefault(criterion.name, set()).add(criterion)
        return specs

    def _check(self) -> None:
        for name, specs in self._specs.items():
            layers = sorted({c.layer for c in specs})
            if len(layers) > 1:
                got = " and ".join(layers)
                raise InvalidInput("ScoreTable", f"layer of {name!r}", "the same in all rubrics", got, "")
        if len(self.gates) == len(self.names):
            allowed = 'some in the layer "quality"'
            raise InvalidInput("ScoreTable", "criteria", allowed, "gates only", "Add something to rank by.")

    def batch(
        self, groups: Sequence[GroupScores], columns: Sequence[CriterionData], attributes: Any, names: Sequence[str]
    ) -> ScoreBatch:
        """Some groups; columns in the order of the whole file, so that sums come out the same bit for bit."""
        table = ScoreTable(tuple(groups))
        batch = table.batch(attributes=attributes, attribute_names=names, columns=columns)
        batch.check_domains()
        return batch

    def columns_of(self, rubrics: Sequence[int] | None = None) -> list[CriterionData]:
        """What groups with these rubrics need, all by default: their criteria, and something to rank by."""
        first: dict[str, CriterionData] = {}
        for rubric in self.rubrics:
            for criterion in rubric:
                first.setdefault(criterion.name, criterion)
        needed = set(first if rubrics is None else (c.name for number in rubrics for c in self.rubrics[number]))
        if needed <= set(self.gates):
            needed.add(next(name for name in first if name not in self.gates))
        return [criterion for name, criterion in first.items() if name in needed]

    def number(self, path: Path, label: Any, found: set[Any]) -> int:
        """The number of a group's rubric, of what its rows say."""
        first = next(iter(found))
        if len(found) == 1 and first in range(len(self.rubrics)):
            return int(first)
        where, got = f"the rubric of group {label!r}", " and ".join(sorted(map(str, found)))
        allowed = f"one number from 0 to {len(self.rubrics) - 1}"
        raise BadTable(str(path), where, allowed, got, "Write the file with ScoreTable.write.")

    def only(self, names: Sequence[str]) -> FileRubrics:
        """Without the other criteria."""
        kept = set(names)
        return FileRubrics(tuple(tuple(c for c in rubric if c.name in kept) for rubric in self.rubrics))


def _flag(change: dict[str, Any]) -> str:
    flags = {"direction": "lower", "layer": str(change.get("layer", "")).replace("_", "-")}
    first = next(iter(change))
    return flags.get(first, first)


class LongScores(JsonLines):
    """A score file in Parquet with one row per score, read as if it were JSON lines: one object per rollout."""

    unit = "rollout"

    def __init__(self, path: Path, rubrics: Rubrics = ()) -> None:
        super().__init__(path)
        self.rubrics = rubrics
        self._cells = Parquet(path)

    def position(self) -> float:
        """The share of the rows that has been read."""
        return self._cells.position()

    def _blocks(self, end: Callable[[bytes], int]) -> Iterator[bytes]:
        return self.objects()

    def objects(self) -> Iterator[bytes]:
        """Blocks of lines, one JSON object for each rollout."""
        cells = (cell for frame in self._cells.frames() for cell in frame.iter_rows(named=True))
        lines: list[str] = []
        for (group, rollout, rubric), some in groupby(cells, itemgetter("group", "rollout", RUBRIC)):
            found = list(some)
            scores = {cell["criterion"]: cell["score"] for cell in found}
            reasons = {cell["criterion"]: cell["reason"] for cell in found}
            row = {"group": group, "rollout": rollout, RUBRIC: rubric, SCORES: scores, REASONS: reasons}
            if found[0].get(OUTCOMES):
                row[OUTCOMES] = found[0][OUTCOMES]
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
            if len(lines) == _LINES:
                yield "".join(lines).encode()
                lines = []
        if lines:
            yield "".join(lines).encode()
