"""Score files: a table that brings the rubric it was graded by.

    Graded.of(rubrics, RLVR2(weights={"Facts": 3}), None)     the file's criteria, but for the weight of Facts
        .names, .gate                                         all criteria in their order; the gate that layers make
        .fuse(groups, names, attributes)                      what `ScoreTable.fuse` makes of these groups

Weights, margins, directions and layers come from the file, for every query those of its own rubric. A rule overrides
what it says about a criterion by name, and nothing else. `ScoreTable` does the fusing, so that a file in chunks and the
whole table in memory give the same rewards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import BadTable, InvalidInput, UnknownName
from rubrank.fusion.gate import Gate
from rubrank.fusion.result import FusedBatch
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.stream.names import REASONS, RUBRIC, SCORES, Rubrics
from rubrank.fusion.stream.readers import JsonLines, Parquet
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import OUTCOMES
from rubrank.scores.table import GroupScores, ScoreTable

_FIELDS = {"weights": "weight", "margins": "margin", "directions": "direction"}
_LAYERS = ("global_quality", "low_quality")
_TINY = 5e-324
_LINES = 4096  # rollouts in a block


def by_name(rule: RLVR2, parameter: str) -> Mapping[str, Any]:
    """Weights, margins or directions of a rule for a table."""
    given = getattr(rule, parameter)
    if given is None or isinstance(given, Mapping):
        return given or {}
    remedy = "The order of columns is the file's: write {name: value}."
    raise InvalidInput("RLVR2", parameter, "given by name for a table", f"a {type(given).__name__}", remedy)


@dataclass(frozen=True, eq=False)
class _Part(ScoreTable):
    """Some groups of a table, fused as they are within the whole."""

    columns: tuple[str, ...] = ()
    specs: dict[str, set[CriterionData]] = field(default_factory=dict)
    """What the criteria are; those that none of these groups is asked, as other groups have them."""

    @cached_property
    def criteria(self) -> tuple[str, ...]:
        """The columns, in the order of the whole table."""
        return self.columns

    @cached_property
    def _specs(self) -> dict[str, set[CriterionData]]:
        return self.specs


@dataclass(frozen=True, eq=False)
class Graded:
    """The rubrics of a file, as a rule has left them."""

    rubrics: Rubrics
    rule: RLVR2
    """Without weights, margins and directions, which are the rubrics'; with their gate."""
    sorts: bool = False
    """Would the whole table be sorted, rather than counted? The two ways differ in the last bit."""

    @classmethod
    def of(cls, rubrics: Rubrics, rule: RLVR2, wanted: Sequence[str] | None) -> Graded:
        """`wanted`: the criteria to take; None: all of them."""
        names = dict.fromkeys(criterion.name for rubric in rubrics for criterion in rubric)
        for name in wanted or ():
            if name not in names:
                raise UnknownName.of("the file's rubric", "criterion", name, names)
        plain = cls(rubrics, replace(rule, weights=None, margins=None, directions=None, gate=None))
        plain = plain if wanted is None else plain.only(wanted)
        changes = _changes(rule, plain.names)
        mine = tuple(
            tuple(replace(c, **changes[c.name]) if c.name in changes else c for c in rubric) for rubric in plain.rubrics
        )
        graded = replace(plain, rubrics=mine)
        return replace(graded, rule=replace(graded.rule, gate=graded._gate(rule.gate)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All criteria, in the order in which they first appear."""
        return tuple(self._specs)

    @property
    def gates(self) -> tuple[str, ...]:
        """The criteria that gate."""
        return _gated(self.rule.gate)

    @cached_property
    def _specs(self) -> dict[str, set[CriterionData]]:
        return _specs_of(self.rubrics)

    def _gate(self, given: Gate | None) -> Gate | None:
        """What the layers say, with the other options of a gate that was given; raises if they contradict."""
        whole = _Part((), columns=self.names, specs=self._specs)
        whole.to_fuse()  # is there anything to rank by?
        layers = whole.gate()
        if layers is None:
            return given  # one without criteria is refused like that of any table
        named = {layer: getattr(layers, layer) for layer in _LAYERS}
        return replace(given or Gate(), **named)

    def fuse(self, groups: Sequence[GroupScores], columns: Sequence[str], attributes: np.ndarray | None) -> FusedBatch:
        """Some groups, with these columns."""
        rubrics = {id(group.criteria): group.criteria for group in groups}
        own = _specs_of(tuple(rubrics.values()))
        specs = {name: own.get(name) or self._specs[name] for name in columns}
        part = _Part(tuple(groups), columns=tuple(columns), specs=specs)
        settled = {"criteria", "outcomes", *_FIELDS}  # by the file
        options = {f.name: getattr(self.rule, f.name) for f in fields(self.rule) if f.name not in settled}
        if not self.sorts:
            return part.fuse(attributes=attributes, **options)
        # Any margin makes for the way that the whole table takes; this one is too small to tie anybody.
        fused = part.fuse(attributes=attributes, margins=np.maximum(part.per_group("margin", 0.0), _TINY), **options)
        fused.fusion.margins[fused.fusion.margins == _TINY] = 0.0
        return fused

    def within(self, largest: int) -> Graded:
        """For a table whose largest group has so many rollouts."""
        from rubrank.fusion.models.kernels import SMALL

        ranked = (c for name, specs in self._specs.items() if name not in self.gates for c in specs)
        return replace(self, sorts=largest > SMALL or any(c.margin > 0.0 for c in ranked))

    def number(self, path: Path, label: Any, found: set[Any]) -> int:
        """The number of a group's rubric, of what its rows say."""
        first = next(iter(found))
        if len(found) == 1 and first in range(len(self.rubrics)):
            return int(first)
        where, got = f"the rubric of group {label!r}", " and ".join(sorted(map(str, found)))
        allowed = f"one number from 0 to {len(self.rubrics) - 1}"
        raise BadTable(str(path), where, allowed, got, "Write the file with ScoreTable.write.")

    def only(self, names: Sequence[str]) -> Graded:
        """Without the other criteria; those of the gate must be among the names."""
        kept = set(names)
        return replace(self, rubrics=tuple(tuple(c for c in rubric if c.name in kept) for rubric in self.rubrics))

    def columns_of(self, rubrics: Sequence[int]) -> list[str]:
        """The columns that groups with these rubrics need: their criteria, all gates, and something to rank by."""
        needed = {criterion.name for number in rubrics for criterion in self.rubrics[number]} | set(self.gates)
        if needed == set(self.gates):
            needed.add(next(name for name in self.names if name not in needed))
        return sorted(needed, key=self._number.__getitem__)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}


def _gated(gate: Gate | None) -> tuple[str, ...]:
    return () if gate is None else tuple(str(name) for layer in _LAYERS for name in getattr(gate, layer))


def _specs_of(rubrics: Rubrics) -> dict[str, set[CriterionData]]:
    specs: dict[str, set[CriterionData]] = {}
    for rubric in rubrics:
        for criterion in rubric:
            specs.setdefault(criterion.name, set()).add(criterion)
    return specs


def _changes(rule: RLVR2, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What a rule says about each criterion. Names of weights and the like are checked with the table's columns."""
    found: dict[str, dict[str, Any]] = {}
    for parameter, singular in _FIELDS.items():
        for name, value in by_name(rule, parameter).items():
            found.setdefault(name, {})[singular] = value
    for layer in _LAYERS:
        for name in getattr(rule.gate or Gate(), layer):
            if name not in names:
                raise UnknownName.of("Gate", "criterion", name, names)
            found.setdefault(name, {})["layer"] = layer
    return found


class LongScores(JsonLines):
    """A score file in Parquet with one row a score, read as if it were JSON lines: one object a rollout."""

    unit = "rollout"

    def __init__(self, path: Path, rubrics: Rubrics = ()) -> None:
        super().__init__(path)
        self.rubrics = rubrics
        self._cells = Parquet(path)

    def position(self) -> float:
        """The share of the rows that has been read."""
        return self._cells.position()

    def _blocks(self, end: Callable[[bytes], int]) -> Iterator[bytes]:
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
