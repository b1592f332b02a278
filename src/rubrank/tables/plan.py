"""The second reading of a table: chunks of whole groups, each fused by a rule that was checked before."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rubrank.aggregators.rlvr2 import RLVR2
from rubrank.errors import InvalidInput, UnknownName
from rubrank.fused import FusedBatch
from rubrank.gate import Gate
from rubrank.tables.names import LINE, SCORES, WIDE, Columns, Progress
from rubrank.tables.readers import JsonLines, Reader
from rubrank.tables.survey import Layout, cells_of, joined, numbers, survey

_BY_NAME = ("weights", "margins", "directions")


@dataclass
class Plan:
    """A rule bound to the columns of a table, and what is to be written."""

    layout: Layout
    rule: RLVR2
    any_order: bool
    prefix: str = ""
    utilities: bool = False
    read: dict[str, Any] | None = None
    """The columns to read; None: all of them."""
    lines: bool = False
    """Keep the text of each line, to write it as it was."""

    def add_columns(self, prefix: str, utilities: bool, kind: str | None) -> None:
        """Settle what an output of this format will hold; None: there is none."""
        self.prefix, self.utilities = prefix, utilities
        from_lines = isinstance(self.layout.reader, JsonLines)
        self.lines = self.layout.wide or (from_lines and kind == "jsonl")
        if kind is None:
            return
        if from_lines and kind != "jsonl" and self.layout.different > WIDE:
            got = f"{self.layout.different:,} of them"
            remedy = "Write JSON lines, which hold only those of each row."
            raise InvalidInput("fuse_file", "criteria", f"at most {WIDE} for a table with columns", got, remedy)
        if not self.lines:
            self.read = self.layout.schema if from_lines else None
        for name in self.added_names():
            if name in self.layout.schema:
                remedy = "Give the new columns a prefix: --prefix new_ (prefix='new_')."
                raise InvalidInput("fuse_file", "added columns", "new to the table", f"{name!r} again", remedy)

    def added_names(self) -> list[str]:
        """The columns that the output has beside those of the input."""
        names = ["reward", *(["ranking"] if self.rule.gate else []), "no_signal"]
        if self.utilities:
            names += [f"utility.{name}" for name in fused_names(self.rule, self.layout.names)]
        return [self.prefix + name for name in names]

    def chunks(self, progress: Progress | None = None) -> Iterator[pl.DataFrame]:
        """The rows of the table, a group (or with pool="batch" a batch) never cut."""
        pending: list[pl.DataFrame] = []
        everything = self.any_order or (self.rule.pool == "batch" and self.layout.batch is None)
        for frame in self.layout.reader.frames(self.read, lines=self.lines):
            pending.append(frame)
            first, last = self._unit(pending[0].head(1))[0], self._unit(frame.tail(1))[0]
            if not everything and first != last:
                rows = pl.concat(pending)
                cut = int((self._unit(rows) == last).arg_max() or 0)
                yield rows.head(cut)
                pending = [rows.tail(len(rows) - cut)]
            if progress:
                progress("fusing", self.layout.reader.position())
        yield pl.concat(pending)

    def _unit(self, frame: pl.DataFrame) -> pl.Series:
        """What must not be cut."""
        batch = self.layout.batch
        return joined(frame, (batch,)) if batch and self.rule.pool == "batch" else self.layout.labels(frame)

    def fuse(self, chunk: pl.DataFrame) -> Iterator[tuple[np.ndarray, FusedBatch]]:
        """Row numbers within the chunk, and what became of these rows; all rows in all."""
        parts: Iterable[np.ndarray] = (np.arange(len(chunk)),)
        if self.rule.pool == "batch" and self.layout.batch:
            parts = _equal_rows(joined(chunk, (self.layout.batch,)).to_list())
        for rows in parts:
            part = chunk if len(rows) == len(chunk) else chunk[rows]
            if self.layout.wide:
                yield from ((rows[some], fused) for some, fused in self._fuse_wide(part))
            else:
                yield rows, self._fuse_dense(part)

    def _fuse_dense(self, part: pl.DataFrame) -> FusedBatch:
        text = self.layout.reader.text_is_number
        scores = [numbers(cells_of(part, leaf), text).to_numpy() for leaf in self.layout.criteria]
        rule = replace(self.rule, criteria=self.layout.names)
        return rule(np.stack(scores, 1), groups=self._labels(part), attributes=self._attributes(part))

    def _fuse_wide(self, part: pl.DataFrame) -> Iterator[tuple[np.ndarray, FusedBatch]]:
        """Groups with the same criteria together, without a column for everybody else's."""
        cells = [json.loads(line).get(SCORES) or {} for line in part[LINE]]
        labels = self.layout.labels(part).to_list()
        rubrics: dict[Hashable, dict[str, None]] = {}
        for label, scores in zip(labels, cells, strict=True):
            rubrics.setdefault(None if self.rule.pool == "batch" else label, {}).update(dict.fromkeys(scores))
        keys = [tuple(sorted(rubrics.get(label, rubrics.get(None, ())))) for label in labels]
        for rows in _equal_rows(keys):
            rubric = [name for name in keys[rows[0]] if name in self._known]
            # A group without any score gets its rewards too, all alike: any criterion will do.
            rule = self._rule_for([*(rubric or self._some), *self._gate_only])
            scores = np.array([[_float(cells[i].get(name)) for name in rule.criteria or ()] for i in rows])
            some = part[rows]
            yield rows, rule(scores, groups=self._labels(some), attributes=self._attributes(some))

    @cached_property
    def _known(self) -> set[str]:
        """Criteria that a row may bring along; the gate's are there in any case."""
        return set(self.layout.names) - _gate_names(self.rule)

    @cached_property
    def _some(self) -> list[str]:
        return fused_names(self.rule, self.layout.names)[:1]

    @cached_property
    def _gate_only(self) -> list[str]:
        return sorted(_gate_names(self.rule))

    def _rule_for(self, names: Sequence[str]) -> RLVR2:
        """The rule for some of the criteria."""
        fused = set(fused_names(self.rule, names))
        parts: dict[str, Any] = {
            parameter: {name: v for name, v in _by_name(self.rule, parameter).items() if name in fused} or None
            for parameter in _BY_NAME
        }
        return replace(self.rule, criteria=names, **parts)

    def for_rubric_of(self, group: pl.DataFrame) -> Plan:
        """Without the criteria of other groups' rubrics, which change nothing and would only be in the way."""
        if self.layout.wide:
            return self
        text, always = self.layout.reader.text_is_number, _gate_names(self.rule)
        scored = [
            leaf
            for leaf in self.layout.criteria
            if leaf[-1] in always or numbers(cells_of(group, leaf), text).is_not_nan().any()
        ]
        if all(leaf[-1] in always for leaf in scored):
            return self
        rule = self._rule_for([leaf[-1] for leaf in scored])
        return replace(self, layout=replace(self.layout, criteria=tuple(scored)), rule=rule)

    def _labels(self, part: pl.DataFrame) -> Any:
        labels = self.layout.labels(part)
        return labels.to_numpy() if self.layout.integer_labels else labels.to_list()

    def _attributes(self, part: pl.DataFrame) -> np.ndarray | None:
        text = self.layout.reader.text_is_number
        values = [numbers(cells_of(part, leaf), text).to_numpy() for leaf in self.layout.attributes]
        return np.stack(values, 1) if values else None

    def added(self, fused: FusedBatch) -> pl.DataFrame:
        """The columns that a fusion adds."""
        sizes = np.diff(fused.fusion.batch.starts)
        values: dict[str, Any] = {"reward": fused.reward}
        if self.rule.gate:
            values["ranking"] = fused.ranking
        values["no_signal"] = fused.fusion.batch.per_rollout(np.repeat(fused.no_signal, sizes))
        if self.utilities:
            scored = ~np.isnan(fused.fusion.batch.per_rollout(fused.fusion.batch.scores_MK))
            for k, name in enumerate(fused.criteria):
                values[f"utility.{name}"] = pl.Series(
                    np.where(scored[:, k], fused.utilities[:, k], np.nan), nan_to_null=True
                )
        return pl.DataFrame({self.prefix + name: value for name, value in values.items()})


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _equal_rows(keys: Sequence[Hashable]) -> Iterable[np.ndarray]:
    """The positions of each different key, in the order in which the keys appear."""
    found: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    return [np.array(rows) for rows in found.values()]


def _gate_names(rule: RLVR2) -> set[Any]:
    gate = rule.gate or Gate()
    return {*gate.global_quality, *gate.low_quality}


def _by_name(rule: RLVR2, parameter: str) -> Mapping[str, Any]:
    given = getattr(rule, parameter)
    if given is None or isinstance(given, Mapping):
        return given or {}
    remedy = "The order of columns is the file's: write {name: value}."
    raise InvalidInput("RLVR2", parameter, "given by name for a table", f"a {type(given).__name__}", remedy)


def fused_names(rule: RLVR2, names: Sequence[str]) -> list[str]:
    """The criteria that are ranked: all but the gate's."""
    gated = _gate_names(rule)
    return [name for name in names if name not in gated]


def make_plan(reader: Reader, rule: RLVR2, columns: Columns, any_order: bool, progress: Progress | None) -> Plan:
    """Read the table once, and make sure that the rule suits it."""
    layout = survey(reader, rule, columns, any_order, progress)
    rule = replace(rule, attribute_names=[leaf[-1] for leaf in layout.attributes] or None)
    _check_rule(layout, rule)
    return Plan(layout, rule, any_order, read=layout.needed(), lines=layout.wide)


def _check_rule(layout: Layout, rule: RLVR2) -> None:
    """Every name and number of the rule, before the first fit."""
    gated = _gate_names(rule)
    for name in gated:
        if name not in layout.names:
            raise UnknownName.of("Gate", "criterion", name, layout.names)
    fused = fused_names(rule, layout.names)
    for parameter in _BY_NAME:
        for name in _by_name(rule, parameter):
            if name in gated:
                remedy = "The gate reads its scores as they are: 1 = good."
                raise InvalidInput("RLVR2", parameter, "for criteria that are fused", f"{name!r}, a gate's", remedy)
            if name not in fused:
                raise UnknownName.of("RLVR2", f"{parameter} key", name, fused)
    # One rollout without scores goes through everything that can object to a number or a model.
    D = len(layout.attributes)
    names = layout.names[: WIDE if layout.wide else None]
    trial = replace(rule, weights=None, margins=None, directions=None, gate=None) if layout.wide else rule
    replace(trial, criteria=names)(np.full((1, len(names)), np.nan), attributes=np.ones((1, D)) if D else None)
