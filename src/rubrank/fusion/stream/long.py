"""Long tables: one row per score, read as if they were wide.

    prompt_id,response_id,criterion,score          {"prompt_id": "q1", "response_id": "a", "scores": {"Facts": 1, …}}
    q1,a,Facts,1
    q1,a,Style,3

A table is long if it has a column of texts that names criteria and one with their scores. One that could be read as
wide too, because it has other columns of numbers, is refused, and both readings are named: --long says that it is
long, --criteria that it is wide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank._plain import word_list
from rubrank.errors import BadTable, UnknownName
from rubrank.fusion.stream.names import BOOKKEEPING, GROUP_NAMES, LINE, REASONS, ROW, SCORES, Columns
from rubrank.fusion.stream.readers import JsonLines, Reader
from rubrank.rollouts.columns import STEP_NAMES

CRITERION_NAMES = ("criterion", "criterion_name", "criterion_id", "metric", "dimension", "aspect")
SCORE_NAMES = ("score", "value", "rating", "grade", "verdict")
RESPONSE_NAMES = word_list("""
    response_id rollout rollout_id rollout_index sample sample_id completion_id answer_id response completion id
""")
REASON_NAMES = ("reason", "explanation", "rationale")
_ABOUT = {"weight", "points", "margin", "version"}  # numbers that say something about the criterion, or about nothing
_LINES = 4096  # rollouts in a block
_LOOK = 20  # rows by which a column of a CSV is judged
_UNSCORED = ("", "nan", "null", "none", "na", "n/a")


@dataclass(frozen=True)
class LongNames:
    """Which columns of a long table are what."""

    group: tuple[str, ...]
    response: str
    criterion: str
    score: str
    reason: str | None


def long_names(reader: Reader, columns: Columns) -> LongNames | None:
    """The columns of a long table; None: it is wide. Raises where both readings fit."""
    frame = next(iter(reader.frames()), None)
    if frame is None or columns.long is False:
        return None
    schema = {name: dtype for name, dtype in frame.schema.items() if name not in (ROW, LINE)}
    fields = dict(columns.fields)
    criterion, score = (_find(fields, what, usual, schema, reader) for what, usual in _SOUGHT)
    given = columns.long or "criterion" in fields
    if criterion is None or score is None or (SCORES in schema and not given):
        if given:
            missing = "criterion" if criterion is None else "score"
            got = f"columns {', '.join(map(repr, schema))}"
            remedy = f"Say which one it is: --column {missing}=NAME."
            raise BadTable(str(reader.path), f"the {missing} of a long table", "in a column", got, remedy)
        return None
    if not given and (schema[criterion].is_numeric() or _is_wide(columns, schema, criterion)):
        return None
    group = _group(columns, schema)
    response = _find(fields, "response", RESPONSE_NAMES, schema, reader, {*group, criterion, score})
    if not given:
        _refuse_both(reader, schema, criterion, score, {*group, response, *columns.attributes, columns.batch})
    if response is None or not group:
        what, flag = ("response", "--column response=NAME") if group else ("group", "--group-column NAME")
        got = f"columns {', '.join(map(repr, schema))}"
        raise BadTable(str(reader.path), f"the {what} of a long table", "in a column", got, f"Say which: {flag}.")
    reason = _find(fields, "reason", REASON_NAMES, schema, reader)
    return LongNames(group, response, criterion, score, reason)


_SOUGHT = (("criterion", CRITERION_NAMES), ("score", SCORE_NAMES))


def _find(
    fields: Mapping[str, str],
    what: str,
    usual: tuple[str, ...],
    schema: Mapping[str, Any],
    reader: Reader,
    taken: set[str] | None = None,
) -> str | None:
    if what in fields:
        if fields[what] not in schema:
            raise UnknownName.of(str(reader.path), f"the column of {what!r}", fields[what], schema)
        return fields[what]
    return next((name for name in usual if name in schema and name not in (taken or ())), None)


def _is_wide(columns: Columns, schema: Mapping[str, Any], criterion: str) -> bool:
    """Was it said which columns are criteria?"""
    return columns.criteria is not None and all(name in schema for name in columns.criteria)


def _group(columns: Columns, schema: Mapping[str, Any]) -> tuple[str, ...]:
    if columns.group:
        return tuple(name for name in columns.group if name in schema)
    usual = next((name for name in GROUP_NAMES if name in schema), None) or ("prompt" if "prompt" in schema else None)
    step = next((name for name in STEP_NAMES if name in schema and not columns.batch), None)
    return () if usual is None else (usual,) if step is None else (step, usual)


def _refuse_both(reader: Reader, schema: Mapping[str, Any], criterion: str, score: str, used: set[Any]) -> None:
    free = [n for n in schema if n not in {score, criterion, *used} and n.lower() not in BOOKKEEPING | _ABOUT]
    frame = next(iter(reader.frames()))
    others = [name for name in free if _are_numbers(frame.get_column(name), reader.text_is_number)]
    if others:
        wide = ", ".join(map(repr, [*others, score]))
        got = f"two readings: long (a score per row, {criterion!r} names its criterion) and wide (the criteria {wide})"
        remedy = "Say which is meant: --long, or --criteria A,B."
        raise BadTable(str(reader.path), "the table", "long or wide", got, remedy)


def _are_numbers(column: Any, text_is_number: bool) -> bool:
    """Could it be a criterion? Of a CSV, whose cells are texts, some rows tell."""
    if not text_is_number:
        return bool(column.dtype.is_numeric())
    cells = [number for cell in column.head(_LOOK) if (number := _number(cell)) is not None]
    return bool(cells) and all(isinstance(cell, int | float) for cell in cells)


class LongTable(JsonLines):
    """Rows of scores, put together: one object per rollout, in the order in which rollouts first appear."""

    unit = "rollout"

    def __init__(self, cells: Reader, names: LongNames, any_order: bool = False) -> None:
        self._cells, self._names, self._any_order = cells, names, any_order
        super().__init__(cells.path, at=Path())

    def position(self) -> float:
        """The share of the rows that has been read."""
        return self._cells.position()

    def _blocks(self, end: Callable[[bytes], int]) -> Iterator[bytes]:
        lines: list[str] = []
        for row in self._rollouts():
            lines.append(json.dumps(row) + "\n")
            if len(lines) == _LINES:
                yield "".join(lines).encode()
                lines = []
        if lines:
            yield "".join(lines).encode()

    def _rollouts(self) -> Iterator[dict[str, Any]]:
        names = self._names
        kept: dict[tuple[Any, ...], dict[str, Any]] = {}
        label: tuple[Any, ...] | None = None
        for frame in self._cells.frames():
            for row in frame.iter_rows(named=True):
                group = tuple(row[name] for name in names.group)
                if group != label and not self._any_order:  # rows of a group stand together
                    yield from kept.values()
                    kept = {}
                label = group
                self._add(kept, row, group)
        if self._any_order:  # rollouts of a group one after another
            order = {group: i for i, group in enumerate(dict.fromkeys(key[:-1] for key in kept))}
            yield from (kept[key] for key in sorted(kept, key=lambda key: order[key[:-1]]))
        else:
            yield from kept.values()

    def _add(self, kept: dict[tuple[Any, ...], dict[str, Any]], row: dict[str, Any], group: tuple[Any, ...]) -> None:
        names, number = self._names, row.pop(ROW)
        name, response = row[names.criterion], row[names.response]
        if name is None or response is None or str(name).strip() == "":
            what = names.response if response is None else names.criterion
            where = f"{self._cells.unit} {number}, column {what!r}"
            raise BadTable(
                str(self.path), where, "given", "nothing", "Every score belongs to a response and a criterion."
            )
        own = {names.criterion, names.score, names.reason}
        rest = {key: value for key, value in row.items() if key not in own and not isinstance(value, dict)}
        found = kept.setdefault((*group, str(response)), {**rest, SCORES: {}})
        if str(name) in found[SCORES]:
            where = f"{self._cells.unit} {number}"
            got = f"a second {name!r} of response {response!r}"
            raise BadTable(str(self.path), where, "the only score of its response and criterion", got, "")
        found[SCORES][str(name)] = _number(row[names.score])
        if names.reason is not None:
            found.setdefault(REASONS, {})[str(name)] = row[names.reason]


def _number(value: Any) -> Any:
    """A number, where a text stands for one; other texts stay, and are refused as cells."""
    if not isinstance(value, str):
        return None if isinstance(value, float) and math.isnan(value) else value
    text = value.strip().lower()
    if text in _UNSCORED:
        return None
    if text in ("true", "false"):
        return text == "true"
    if not text.isascii() or "_" in text:  # numbers to Python, and to no other reader
        return value
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return value
