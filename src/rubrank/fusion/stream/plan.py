"""The second reading of a table: chunks of whole groups, each fused by a rule that was checked before."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.gate import Gate
from rubrank.fusion.result import FusedBatch
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.stream.graded import Graded, by_name
from rubrank.fusion.stream.names import LINE, RUBRIC, SCORES, WIDE, Columns, Progress
from rubrank.fusion.stream.readers import JsonLines, Reader
from rubrank.fusion.stream.survey import Layout, cells_of, joined, numbers, survey
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import OUTCOMES, read_outcomes
from rubrank.scores.table import GroupScores

_BY_NAME = ("weights", "margins", "directions")
ScoresOf: TypeAlias = Callable[[np.ndarray, Sequence[CriterionData]], np.ndarray]
"""The scores of some rows on some criteria."""


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
    graded: Graded | None = None
    """What a score file says about its criteria."""

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
            if self.graded is not None:
                yield from ((rows[some], fused) for some, fused in self._fuse_graded(self.graded, part))
            elif self.layout.wide:
                yield from ((rows[some], fused) for some, fused in self._fuse_wide(part))
            else:
                yield rows, self._fuse_dense(part)

    def _fuse_dense(self, part: pl.DataFrame) -> FusedBatch:
        rule = replace(self.rule, criteria=self.layout.names)
        return rule(self._matrix(part), groups=self._labels(part), attributes=self._attributes(part))

    def _matrix(self, part: pl.DataFrame) -> np.ndarray:
        text = self.layout.reader.text_is_number
        return np.stack([numbers(cells_of(part, leaf), text).to_numpy() for leaf in self.layout.criteria], 1)

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

    def _fuse_graded(self, graded: Graded, part: pl.DataFrame) -> Iterator[tuple[np.ndarray, FusedBatch]]:
        """Groups by their own rubrics: all together, unless that would make a table that is mostly empty."""
        labels, given = self.layout.labels(part).to_list(), part.get_column(RUBRIC).to_list()
        path = self.layout.reader.path
        members = [
            (rows, graded.number(path, labels[rows[0]], {given[i] for i in rows})) for rows in _equal_rows(labels)
        ]
        apart = self.layout.wide and self.rule.pool == "group"
        compared = part.get_column(OUTCOMES).to_list() if OUTCOMES in part.columns else [None] * len(part)
        scores_of = self._from_lines(part) if self.layout.wide else self._from_columns(part)
        for places in _equal_rows([rubric if apart else 0 for _, rubric in members]):
            some = [members[place] for place in places]
            columns = graded.columns_of([rubric for _, rubric in some]) if self.layout.wide else self.layout.names
            groups = [
                GroupScores(
                    str(labels[rows[0]]), graded.rubrics[n], scores_of(rows, graded.rubrics[n]), (),
                    _asked(read_outcomes(compared[i] for i in rows), graded.rubrics[n]),
                )
                for rows, n in some
            ]  # fmt: skip
            every = np.concatenate([rows for rows, _ in some])
            yield every, graded.fuse(groups, columns, self._attributes(part[every]))

    def _from_columns(self, part: pl.DataFrame) -> ScoresOf:
        scores_MK = self._matrix(part)
        at = {name: k for k, name in enumerate(self.layout.names)}
        return lambda rows, asked: scores_MK[rows][:, [at[criterion.name] for criterion in asked]]

    def _from_lines(self, part: pl.DataFrame) -> ScoresOf:
        found = [json.loads(line).get(SCORES) or {} for line in part[LINE]]

        def scores_of(rows: np.ndarray, asked: Sequence[CriterionData]) -> np.ndarray:
            cells = [[_float(found[i].get(criterion.name)) for criterion in asked] for i in rows]
            return np.array(cells).reshape(len(rows), len(asked))

        return scores_of

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
            parameter: {name: v for name, v in by_name(self.rule, parameter).items() if name in fused} or None
            for parameter in _BY_NAME
        }
        return replace(self.rule, criteria=names, **parts)

    def for_rubric_of(self, group: pl.DataFrame) -> Plan:
        """Without the criteria of other groups' rubrics, which change nothing and would only be in the way."""
        if self.layout.wide:
            return self
        compared = read_outcomes(group.get_column(OUTCOMES)) if OUTCOMES in group.columns else {}
        text, always = self.layout.reader.text_is_number, _gate_names(self.rule) | set(compared)
        scored = [
            leaf
            for leaf in self.layout.criteria
            if leaf[-1] in always or numbers(cells_of(group, leaf), text).is_not_nan().any()
        ]
        if all(leaf[-1] in always for leaf in scored):
            return self
        names = [leaf[-1] for leaf in scored]
        graded = None if self.graded is None else self.graded.only(names)
        layout = replace(self.layout, criteria=tuple(scored))
        return replace(self, layout=layout, rule=self._rule_for(names), graded=graded)

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


def fused_names(rule: RLVR2, names: Sequence[str]) -> list[str]:
    """The criteria that are ranked: all but the gate's."""
    gated = _gate_names(rule)
    return [name for name in names if name not in gated]


def _asked(outcomes: dict[str, np.ndarray], rubric: Sequence[CriterionData]) -> dict[str, np.ndarray]:
    names = {criterion.name for criterion in rubric}
    return {name: won for name, won in outcomes.items() if name in names}


def make_plan(reader: Reader, rule: RLVR2, columns: Columns, any_order: bool, progress: Progress | None) -> Plan:
    """Read the table once, and make sure that the rule suits it; a score file's own rubric is behind the rule."""
    graded = Graded.of(reader.rubrics, rule, columns.criteria) if reader.rubrics else None
    if graded is not None:
        columns, rule = replace(columns, criteria=graded.names), replace(rule, gate=graded.rule.gate)
    _check_gate(rule)
    # Low-quality scores of a score file may be on any scale: its criteria say how they are to be read.
    layout = survey(reader, rule if graded is None else replace(rule, gate=None), columns, any_order, progress)
    rule = replace(rule, attribute_names=[leaf[-1] for leaf in layout.attributes] or None)
    _check_rule(layout, rule)
    plan = Plan(layout, rule, any_order, read=layout.needed(), lines=layout.wide)
    return plan if graded is None else _with_rubrics(plan, graded)


def _with_rubrics(plan: Plan, graded: Graded) -> Plan:
    schema, path = plan.layout.schema, plan.layout.reader.path
    if RUBRIC not in schema:
        raise UnknownName.of(str(path), "column", RUBRIC, schema)
    rule = replace(graded.rule, attribute_names=plan.rule.attribute_names)
    read = {**(plan.read or {}), **{name: schema[name] for name in (RUBRIC, OUTCOMES) if name in schema}}
    return replace(plan, rule=rule, read=read, graded=replace(graded, rule=rule).within(plan.layout.largest))


def _check_gate(rule: RLVR2) -> None:
    if rule.gate is not None and not _gate_names(rule):
        allowed = "on a criterion: --global-quality or --low-quality (global_quality=…, low_quality=…)"
        raise InvalidInput("fuse_file", "the gate", allowed, "none", "Name a criterion for the gate.")


def _check_rule(layout: Layout, rule: RLVR2) -> None:
    """Every name and number of the rule, before the first fit."""
    gated = _gate_names(rule)
    for name in gated:
        if name not in layout.names:
            raise UnknownName.of("Gate", "criterion", name, layout.names)
    fused = fused_names(rule, layout.names)
    for parameter in _BY_NAME:
        for name in by_name(rule, parameter):
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
