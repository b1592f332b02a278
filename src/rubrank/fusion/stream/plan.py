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
from rubrank.fusion.options import FuseOptions, has_part, is_local
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, fused_by
from rubrank.fusion.stream.facts import numbers
from rubrank.fusion.stream.graded import FileRubrics
from rubrank.fusion.stream.names import LINE, RUBRIC, SCORES, WIDE, Columns, Progress
from rubrank.fusion.stream.readers import JsonLines, Reader
from rubrank.fusion.stream.survey import Layout, cells_of, joined, survey
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_outcomes
from rubrank.scores.table import GroupScores
from rubrank.scores.writing import OUTCOMES

ScoresOf: TypeAlias = Callable[[np.ndarray, Sequence[CriterionData]], np.ndarray]
"""The scores of some rows on some criteria."""


@dataclass
class TablePlan:
    """A rule bound to the columns of a table, and what is to be written."""

    layout: Layout
    options: FuseOptions
    rule: Rule
    any_order: bool
    prefix: str = ""
    utilities: bool = False
    read: dict[str, Any] | None = None
    """The columns to read; None: all of them."""
    lines: bool = False
    """Keep the text of each line, to write it as it was."""
    graded: FileRubrics | None = None
    """What a score file says about its criteria."""
    alone: bool = False
    """Is it about one group, without the criteria of others?"""
    parted: bool = False
    """Are the groups of a batch fused apart, though the rule learns from all of them (see `pooling.py`)?"""
    asked: tuple[Any, ...] | None = None
    """Where they are: what the whole batch asks for, as `asked_in` says."""

    @property
    def whole(self) -> bool:
        """Must the rule see a whole batch?"""
        return not self.parted and not is_local(self.rule)

    @property
    def gates(self) -> tuple[str, ...]:
        """Criteria that gate."""
        return (*self.options.global_quality, *self.options.low_quality) if self.graded is None else self.graded.gates

    def ranked_names(self, names: Sequence[str]) -> list[str]:
        """The criteria that are ranked: all but the gate's, and penalties where there is no gate."""
        gates = set(self.gates)
        if not self.rule.name.endswith("+") and self.options.penalties == "rank":
            gates -= set(self._penalties)
        return [name for name in names if name not in gates]

    @cached_property
    def _penalties(self) -> set[str]:
        if self.graded is None:
            return set(self.options.low_quality)
        return {c.name for rubric in self.graded.rubrics for c in rubric if c.layer == "low_quality"}

    def add_columns(self, prefix: str, utilities: bool, kind: str | None) -> None:
        """Settle what an output of this format will hold; None: there is none."""
        self.prefix, self.utilities = prefix, utilities
        if utilities and not has_part(self.rule):
            remedy = "Only RLVR² has utilities."
            raise InvalidInput("fuse_file", "utilities", "asked of 'rlvr2'", repr(self.rule.name), remedy)
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
        names = ["reward", *(["ranking"] if self._gated else []), "no_signal"]
        if self.utilities:
            names += [f"utility.{name}" for name in self.ranked_names(self.layout.names)]
        return [self.prefix + name for name in names]

    @property
    def _gated(self) -> bool:
        return bool(self.gates) and self.rule.name.endswith("+")

    def chunks(self, progress: Progress | None = None) -> Iterator[pl.DataFrame]:
        """The rows of the table, a group (or, for a rule that looks at a whole batch, a batch) never cut."""
        pending: list[pl.DataFrame] = []
        everything = self.any_order or (self.whole and self.layout.batch is None)
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
        return joined(frame, (batch,)) if batch and self.whole else self.layout.labels(frame)

    def fuse(self, chunk: pl.DataFrame) -> Iterator[tuple[np.ndarray, Fused]]:
        """Row numbers within the chunk, and what became of these rows; all rows in all."""
        return ((rows, fused_by(self.rule, batch)) for rows, batch in self.batches(chunk))

    def batches(self, chunk: pl.DataFrame) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """Row numbers within the chunk, and these rows as the rule is to see them."""
        return ((rows, self.options.ranked(batch)) for rows, batch in self._batches(chunk))

    def asked_in(self, chunk: pl.DataFrame) -> set[Any]:
        """The criteria of rows that do not all have the same ones: their names, or the numbers of their rubrics."""
        if not self.layout.wide:
            return set()
        if self.graded is not None:
            return set(chunk.get_column(RUBRIC).to_list()) & set(range(len(self.graded.rubrics)))
        return {name for line in chunk[LINE] for name in json.loads(line).get(SCORES) or {}}

    def _batches(self, chunk: pl.DataFrame) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        parts: Iterable[np.ndarray] = (np.arange(len(chunk)),)
        if self.whole and self.layout.batch:
            parts = _equal_rows(joined(chunk, (self.layout.batch,)).to_list())
        for rows in parts:
            part = chunk if len(rows) == len(chunk) else chunk[rows]
            if self.graded is not None:
                yield from ((rows[some], batch) for some, batch in self._graded_batches(self.graded, part))
            elif self.layout.wide:
                yield from ((rows[some], batch) for some, batch in self._wide_batches(part))
            else:
                yield rows, self._plain_batch(self._matrix(part), self.layout.names, part)

    def _plain_batch(self, scores: np.ndarray, names: Sequence[str], part: pl.DataFrame) -> ScoreBatch:
        return plain_batch(self.options, scores, names, self._labels(part), self._attributes(part))

    def _matrix(self, part: pl.DataFrame) -> np.ndarray:
        text = self.layout.reader.text_is_number
        return np.stack([numbers(cells_of(part, leaf), text).to_numpy() for leaf in self.layout.criteria], 1)

    def _wide_batches(self, part: pl.DataFrame) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """Groups with the same criteria together, without columns for the criteria of other groups."""
        cells = [json.loads(line).get(SCORES) or {} for line in part[LINE]]
        labels = self.layout.labels(part).to_list()
        keys = self._criteria_of(labels, cells)
        gates, known = sorted(self.gates), set(self.layout.names) - set(self.gates)
        some_name = [name for name in self.layout.names if name in known][:1]
        for rows in _equal_rows(keys):
            # A group without any score gets its rewards too, all alike: any criterion will do.
            names = [*([name for name in keys[rows[0]] if name in known] or some_name), *gates]
            matrix = np.array([[_float(cells[i].get(name)) for name in names] for i in rows])
            yield rows, self._plain_batch(matrix, names, part[rows])

    def _criteria_of(self, labels: Sequence[Hashable], cells: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
        """For each row the criteria that it is fused by: its group's, or the batch's."""
        if self.asked is not None:
            return [tuple(sorted(self.asked))] * len(labels)
        rubrics: dict[Hashable, dict[str, None]] = {}
        for label, scores in zip(labels, cells, strict=True):
            rubrics.setdefault(None if self.whole else label, {}).update(dict.fromkeys(scores))
        return [tuple(sorted(rubrics.get(label, rubrics.get(None, ())))) for label in labels]

    def _graded_batches(self, graded: FileRubrics, part: pl.DataFrame) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """Groups by their own rubrics: all together, unless that would make a table that is mostly empty."""
        labels, given = self.layout.labels(part).to_list(), part.get_column(RUBRIC).to_list()
        path = self.layout.reader.path
        members = [
            (rows, graded.number(path, labels[rows[0]], {given[i] for i in rows})) for rows in _equal_rows(labels)
        ]
        apart = self.layout.wide and not self.whole and self.asked is None
        compared = part.get_column(OUTCOMES).to_list() if OUTCOMES in part.columns else [None] * len(part)
        scores_of = self._from_lines(part) if self.layout.wide else self._from_columns(part)
        for places in _equal_rows([rubric if apart else 0 for _, rubric in members]):
            some = [members[place] for place in places]
            groups = [
                GroupScores(
                    str(labels[rows[0]]),
                    graded.rubrics[n],
                    scores_of(rows, graded.rubrics[n]),
                    (),
                    _asked(read_outcomes(compared[i] for i in rows), graded.rubrics[n]),
                )
                for rows, n in some
            ]
            every = np.concatenate([rows for rows, _ in some])
            asked = [n for _, n in some] if self.asked is None else self.asked
            columns = graded.columns_of(asked if self.layout.wide or self.alone else None)
            yield every, graded.batch(groups, columns, self._attributes(part[every]), self.options.attribute)

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

    def for_rubric_of(self, group: pl.DataFrame) -> TablePlan:
        """Without the criteria of other groups' rubrics, which change nothing and would only be in the way."""
        if self.layout.wide or self.graded is not None:
            return replace(self, alone=True)
        text, always = self.layout.reader.text_is_number, set(self.gates)
        scored = [
            leaf
            for leaf in self.layout.criteria
            if leaf[-1] in always or numbers(cells_of(group, leaf), text).is_not_nan().any()
        ]
        if all(leaf[-1] in always for leaf in scored):
            return self
        return replace(self, layout=replace(self.layout, criteria=tuple(scored)))

    def _labels(self, part: pl.DataFrame) -> Any:
        labels = self.layout.labels(part)
        return labels.to_numpy() if self.layout.integer_labels else labels.to_list()

    def _attributes(self, part: pl.DataFrame) -> np.ndarray | None:
        text = self.layout.reader.text_is_number
        values = [numbers(cells_of(part, leaf), text).to_numpy() for leaf in self.layout.attributes]
        return np.stack(values, 1) if values else None

    def added(self, fused: Fused) -> pl.DataFrame:
        """The columns that a fusion adds."""
        batch = fused.batch
        values: dict[str, Any] = {"reward": fused.reward}
        if self._gated:
            values["ranking"] = fused.ranking
        values["no_signal"] = batch.per_rollout(fused.no_signal[batch.group_of_row])
        if self.utilities and fused.utilities is not None:
            scored = ~np.isnan(batch.per_rollout(batch.scores_MK))
            for k, name in enumerate(fused.criteria):
                values[f"utility.{name}"] = pl.Series(
                    np.where(scored[:, k], fused.utilities[:, k], np.nan), nan_to_null=True
                )
        return pl.DataFrame({self.prefix + name: value for name, value in values.items()})


def plain_batch(
    options: FuseOptions, scores: np.ndarray, names: Sequence[str], groups: Any, attributes: np.ndarray | None
) -> ScoreBatch:
    """Columns of a table that brings no rubric, with what the options say about them."""
    known, changes = set(names), options.changes()
    return ScoreBatch.of_arrays(
        scores,
        groups=groups,
        criteria=[options.criterion(name) for name in names],
        weights={name: weight for name, weight in options.weight.items() if name in known} or None,
        margins={name: margin for name, margin in options.margin.items() if name in known} or None,
        directions={name: "lower" for name in options.lower if name in known} or None,
        global_quality=[name for name in names if changes.get(name, {}).get("layer") == "global_quality"],
        low_quality=[name for name in names if changes.get(name, {}).get("layer") == "low_quality"],
        attributes=attributes,
        attribute_names=options.attribute if attributes is not None else None,
        owner="fuse_file",
    )


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _equal_rows(keys: Sequence[Hashable]) -> Iterable[np.ndarray]:
    """The positions of each different key, in the order in which the keys appear."""
    found: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    return [np.array(rows) for rows in found.values()]


def _asked(outcomes: dict[str, np.ndarray], rubric: Sequence[CriterionData]) -> dict[str, np.ndarray]:
    names = {criterion.name for criterion in rubric}
    return {name: won for name, won in outcomes.items() if name in names}


def make_plan(
    reader: Reader, options: FuseOptions, columns: Columns, any_order: bool, progress: Progress | None
) -> TablePlan:
    """Read the table once, and make sure that the options suit it; they change what a score file's own rubric says."""
    graded = FileRubrics.of(reader.rubrics, options, columns.criteria) if reader.rubrics else None
    if graded is not None:
        columns = replace(columns, criteria=graded.names)
    if columns.attributes:
        options = options.model_copy(update={"attribute": tuple(columns.attributes)})
    columns = replace(columns, attributes=options.attribute)
    rule = options.found_rule()
    # Low-quality scores of a score file may be on any scale: its criteria say how they are to be read.
    soft = options.low_quality if graded is None else ()
    layout = survey(reader, soft, not is_local(rule), columns, any_order, progress)
    plan = TablePlan(layout, options, rule, any_order, read=layout.needed(), lines=layout.wide, graded=graded)
    options.check_adjusted(layout.names)
    if not plan.gates:
        options.refuse_gate_options()
    if graded is None:
        _check_names(plan)
        return plan
    schema, path = layout.schema, layout.reader.path
    if RUBRIC not in schema:
        raise UnknownName.of(str(path), "column", RUBRIC, schema)
    more = {name: schema[name] for name in (RUBRIC, OUTCOMES) if name in schema}
    return replace(plan, read={**(plan.read or {}), **more})


def _check_names(plan: TablePlan) -> None:
    """Every name and number of the options, before the first fit."""
    layout, options, names = plan.layout, plan.options, plan.layout.names
    for name, change in options.changes().items():
        if name not in names:
            raise UnknownName.of("fuse_file", f"criterion with a {next(iter(change))} of its own", name, names)
    if set(plan.gates) >= set(names):
        raise InvalidInput("fuse_file", "the gate", "on some of the criteria", "all of them", "Keep one to rank by.")
    # One rollout without scores goes through everything that can object to a number or a model.
    some = [*plan.gates, *[name for name in names if name not in plan.gates][: WIDE if layout.wide else None]]
    D = len(layout.attributes)
    trial = plain_batch(options, np.full((1, len(some)), np.nan), some, None, np.ones((1, D)) if D else None)
    if has_part(plan.rule):
        options.found_rule()(trial)
