"""Score tables in files: one row a rollout, in chunks of whole groups, so that a million rows need little memory.

    uid,Facts,Style,tokens          {"uid": "q1", "scores": {"Facts": 1, "Style": 3}, "attributes": {"tokens": 312}}
    q1,1,3,312                      {"uid": "q1", "scores": {"Facts": 0, "Style": 5}, "attributes": {"tokens": 845}}
    q1,0,5,845

    >>> from rubrank.table import Columns, fuse_file
    >>> fuse_file("scores.csv", "rewards.csv", RLVR2(weights={"Facts": 2}))            # doctest: +SKIP

A file is read twice. The first reading (`survey`) finds the columns and everything that can be wrong with a name, a
cell or the order of rows; only then does the second one fuse and write, to a temporary file that takes the place of the
output at the very end. JSON lines and CSV are cut into blocks of whole records, Parquet into slices of rows; what is
kept of all rows is one label for each group, to tell a group that comes back.

Top to bottom: what callers use, the readers of each format, the survey, the fusion of a chunk, the writers.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import queue
import threading
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank.aggregators.rlvr2 import RLVR2
from rubrank.errors import BadTable, InvalidInput, UnknownName
from rubrank.fused import FusedBatch, FusedGroup
from rubrank.gate import Gate

GROUP_NAMES = ("group", "group_id", "uid", "prompt_id", "query_id")
"""Columns that say which group a rollout belongs to, the first one present is taken."""
_NUMBERED = """id index idx row rollout rollout_id rollout_index sample sample_id response_id request_id turn seed rank
    step global_step epoch iteration batch batch_id time timestamp"""
_EARLIER = "reward rewards return advantage ranking no_signal logprob logprobs"
_LENGTHS = """token tokens n_tokens num_tokens token_count total_tokens prompt_tokens completion_tokens reasoning_tokens
    length response_length answer_length reasoning_length chars n_chars words n_words"""
BOOKKEEPING = frozenset(" ".join((_NUMBERED, _EARLIER, _LENGTHS)).split())
"""Numeric columns that are no criteria unless they are named: numbers of things, earlier rewards, lengths."""
SCORES, ATTRIBUTES = "scores", "attributes"  # columns that may hold one field for each criterion or attribute
FORMATS = (".jsonl", ".ndjson", ".csv", ".parquet", ".jsonl.gz", ".ndjson.gz", ".csv.gz")
PREVIEW = 10
"""How many groups a summary shows."""
WIDE = 256
"""Different criteria from which a table would be mostly empty: then each group is fused with its own."""

_ROW, _LINE = "\0row", "\0line"  # columns of our own beside the file's: where a row came from, and its text
_BLOCK, _SLICE = 4 << 20, 65_536  # bytes of text, rows of Parquet
_UNSCORED = ("", "nan", "null", "none", "na", "n/a")  # texts of a CSV cell without a score, in any case
_LONGEST_NUMBER = 40  # characters; longer texts are not tried as numbers
_EXACT = 2**53

Leaf: TypeAlias = tuple[str, ...]
"""Where a column is: ("Facts",) or ("scores", "Facts")."""
Added: TypeAlias = "Sequence[tuple[np.ndarray, pl.DataFrame]]"
_Rows = TypeVar("_Rows", pl.DataFrame, pl.Series)
Progress: TypeAlias = Callable[[str, float], None]
"""Called with "reading" or "fusing" and the share of the file that is done."""


# ---------------------------------------------------------------------------------------------------- what callers use


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a table holds what; what is left out is found by the rules of docs/cli.md.

    group: one column, or several that name a group together ("1/2").
    batch: rows with the same value here belong to one batch; it becomes the first part of the group's name.
    criteria, attributes: names of columns, or of fields of the columns `scores` and `attributes`.
    """

    group: Sequence[str] = ()
    batch: str | None = None
    criteria: Sequence[str] | None = None
    attributes: Sequence[str] = ()


@dataclass
class Summary:
    """What a file held and what became of it."""

    path: Path
    criteria: tuple[str, ...]
    """Fused criteria; those of a gate are not among them."""
    left_out: tuple[str, ...]
    """Numeric columns that were taken for bookkeeping."""
    rollouts: int = 0
    groups: int = 0
    no_signal: int = 0
    """Groups whose rewards are all equal."""
    scored: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: rollouts with a score."""
    deciding: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: groups in which it tells somebody apart."""
    reward_sum: float = 0.0
    first: list[FusedGroup] = field(default_factory=list)
    """The first groups, as many as `PREVIEW`."""


def fuse_file(
    path: str | Path,
    output: str | Path | IO[bytes] | None = None,
    rule: RLVR2 | None = None,
    *,
    columns: Columns | None = None,
    any_order: bool = False,
    utilities: bool = False,
    prefix: str = "",
    force: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Fuse every group of a table; the output is the table with its rewards.

    output: a path, whose suffix says its format; an open binary file, which gets JSON lines; or None.
    rule: weights, margins and directions by name; its `criteria` and `attribute_names` come from the file.
    any_order: rows of a group may stand apart; everything is read into memory.
    utilities: write the column "utility.<criterion>" for each criterion too.
    prefix: put before the name of every column that is added.
    force: replace an output that exists; never the input.
    """
    reader = open_table(path)
    target = _checked_target(reader.path, output, force) if isinstance(output, str | Path) else None
    if isinstance(reader, Csv):
        reader.typed = output is not None and (target is None or _format(target, "output") != "csv")
    plan = _plan(reader, rule or RLVR2(), columns or Columns(), any_order, progress)
    plan.add_columns(prefix, utilities, None if output is None else target or Path("-.jsonl"))
    if target is not None:
        with _in_place_of(target) as temporary, _writer(temporary, target.name, plan) as writer:
            return _fuse_all(plan, writer, progress)
    return _fuse_all(plan, None if output is None else JsonLinesWriter(output, plan), progress)  # type: ignore[arg-type]


def explain_file(
    path: str | Path,
    group: str,
    rule: RLVR2 | None = None,
    *,
    columns: Columns | None = None,
    any_order: bool = False,
    progress: Progress | None = None,
) -> FusedGroup:
    """Everything about one group of a table; `group` is its label as text. Parameters as for `fuse_file`."""
    plan = _plan(open_table(path), rule or RLVR2(), columns or Columns(), any_order, progress)
    known: list[str] = []
    for chunk in plan.chunks():
        texts = plan.layout.labels(chunk).cast(pl.String)
        if not (texts == group).any():
            known += texts.unique(maintain_order=True).to_list()
            continue
        if plan.rule.pool == "group":
            chunk = chunk.filter(texts == group)
            plan = plan.for_rubric_of(chunk)
        for _, fused in plan.fuse(chunk):
            for label in fused.labels:
                if str(label) == group:
                    return fused[label]
    near = get_close_matches(group, known, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else "Copy a label from the table."
    allowed = f"one of its {len(known):,} groups, such as {', '.join(map(repr, known[:3]))}"
    raise UnknownName(str(path), "group", allowed, repr(group), remedy)


def open_table(path: str | Path) -> Reader:
    """The reader for a file, by its suffix."""
    path = Path(path)
    kind = _format(path, "the table")
    if not path.is_file():
        got = "a directory" if path.is_dir() else "no such file"
        raise BadTable(str(path), "the table", "a file", got, "Check its path.")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise BadTable(
            str(path), "the table", "readable", error.strerror or str(error), "Check its permissions."
        ) from None
    if empty:
        raise BadTable(str(path), "the table", "at least one row", "an empty file", "Check what wrote it.")
    return {"jsonl": JsonLines, "csv": Csv, "parquet": Parquet}[kind](path)


# --------------------------------------------------------------------------------------------------------- the readers


class Reader(Protocol):
    """A file as frames of rows, in order, each with the column `_ROW`."""

    path: Path
    unit: str
    """What rows are called in messages, and how they are counted: "line" of the file, or "row" without the header."""
    text_is_number: bool
    """Does a text such as "0.5" stand for a number?"""

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Some columns (None: all), and the text of each row as `_LINE` if `lines`."""
        ...

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """The columns that a survey should read; None: all."""
        ...

    def position(self) -> float:
        """The share of the file that has been read."""
        ...


class _TextFile:
    """A file of records, perhaps compressed, read in blocks of whole ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = max(path.stat().st_size, 1)
        self._raw: IO[bytes] | None = None

    def position(self) -> float:
        """The share of the bytes that has been read."""
        return 1.0 if self._raw is None or self._raw.closed else self._raw.tell() / self._size

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """Everything: the bytes are read in any case."""
        return None

    def _blocks(self, end: Callable[[bytes], int]) -> Iterator[bytes]:
        """`end(data)` is where the last whole record ends; 0: nowhere yet."""
        with self.path.open("rb") as self._raw:
            packed = self.path.suffix.lower() == ".gz"
            file: Any = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
            rest = b""
            while data := self._read(file):
                rest = (rest + data).removeprefix(b"\xef\xbb\xbf")
                if cut := end(rest):
                    yield rest[:cut]
                    rest = rest[cut:]
            if rest:
                yield rest

    def _read(self, file: IO[bytes]) -> bytes:
        try:
            return file.read(_BLOCK)
        except (OSError, EOFError, zlib.error) as error:
            raise BadTable(str(self.path), "the table", "readable to its end", str(error), "Copy it again.") from None


class JsonLines(_TextFile):
    """One JSON object a line; lines may have different keys."""

    unit = "line"
    text_is_number = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._block, self._first = b"", 1
        self.wide: dict[str, Facts] = {}
        """What a survey found about criteria that are too many for columns."""

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Lines as rows; a key that is absent is null."""
        self._first = 1
        for block in self._blocks(lambda data: data.rfind(b"\n") + 1):
            self._block = block
            count = self._block.count(b"\n") + (not self._block.endswith(b"\n"))
            if self._block.strip():
                yield self._frame(schema, count, lines)
            self._first += count

    def cells(self, rows: Sequence[int], leaf: Leaf) -> list[Any]:
        """What lines of the block that was read last hold under a key."""
        texts = self._block.split(b"\n") if rows else []
        values = [json.loads(texts[row - self._first]) for row in rows]
        for key in leaf:
            values = [value.get(key) if isinstance(value, dict) else None for value in values]
        return values

    def _frame(self, schema: Mapping[str, Any] | None, count: int, lines: bool) -> pl.DataFrame:
        try:
            wide = schema is None and self._is_wide()
            frame = self._carefully(schema, wide=True) if wide else _parse_lines(self._block, schema)
        except PolarsError:
            frame = self._carefully(schema)
        if len(frame) == count and not lines:
            return frame.with_columns(pl.Series(_ROW, range(self._first, self._first + count), pl.Int64))
        texts = self._texts()
        rows = [
            i for i, text in enumerate(texts, self._first) if text and not text.isspace()
        ]  # polars skips the others
        frame = frame.with_columns(pl.Series(_ROW, rows, pl.Int64))
        return frame.with_columns(pl.Series(_LINE, [texts[i - self._first] for i in rows])) if lines else frame

    def _texts(self) -> list[str]:
        try:
            return self._block.removesuffix(b"\n").decode().split("\n")
        except UnicodeDecodeError as error:
            row = self._first + self._block.count(b"\n", 0, error.start)
            raise self._broken(row, "UTF-8", "other bytes", "Convert the file to UTF-8.") from None

    def _is_wide(self) -> bool:
        """Do the lines name so many criteria that a column for each would be mostly empty? A sample tells."""
        lines = self._block.split(b"\n")
        found: set[str] = set()
        for line in lines[:: len(lines) // 512 + 1]:
            try:
                found.update(json.loads(line)[SCORES])
            except (ValueError, TypeError, KeyError):
                continue
        return len(found) > WIDE

    def _look_at_wide(self, row: int, scores: Any) -> None:
        for name, value in scores.items() if isinstance(scores, dict) else ():
            facts = self.wide.setdefault(name, Facts())
            good = value is None or (isinstance(value, bool | int | float) and not math.isinf(value))
            facts.filled += value is not None
            facts.numbers += good and value is not None
            if not good:
                facts.bad = facts.bad or (row, repr(value)[:50])
            elif value is not None and not 0.0 <= value <= 1.0:
                facts.outside = facts.outside or (row, repr(value))

    def _carefully(self, schema: Mapping[str, Any] | None, wide: bool = False) -> pl.DataFrame:
        """Line by line: says which line is broken, knows NaN, and gives every key one type."""
        rows = [self._object(i, text) for i, text in enumerate(self._texts()) if text.strip()]
        for i, row in enumerate(rows if wide else ()):
            self._look_at_wide(self._first + i, row.pop(SCORES, None))
        rows = _uniform(rows, schema)
        text = "\n".join(json.dumps(row) for row in rows)
        try:
            return _parse_lines(text.encode(), schema)
        except PolarsError as error:
            where = f"lines {self._first} to {self._first + len(rows) - 1}"
            reason = str(error).splitlines()[0]
            raise BadTable(str(self.path), where, "of one type for each key", reason, "Make them alike.") from None

    def _object(self, i: int, text: str) -> dict[str, Any]:
        row = self._first + i
        try:
            value = json.loads(text)
        except ValueError as error:
            remedy = "Repair the line, or remove it if the file was cut off there."
            raise self._broken(row, "one JSON object", str(error), remedy) from None
        if not isinstance(value, dict):
            raise self._broken(row, "one JSON object", f"{text[:40]!r}", 'Write {"group": …, "scores": {…}}.')
        return value

    def _broken(self, row: int, allowed: str, got: str, remedy: str) -> BadTable:
        return BadTable(str(self.path), f"line {row}", allowed, got, remedy)


def _parse_lines(block: bytes, schema: Mapping[str, Any] | None) -> pl.DataFrame:
    # The length of inference matters only without a schema: then every line is looked at, as keys differ.
    return pl.read_ndjson(block, schema=dict(schema) if schema else None, infer_schema_length=None)


def _uniform(rows: list[dict[str, Any]], types: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Objects in which each key has one type: yes/no beside numbers become numbers, other mixtures become text.

    types: of other lines too, so far as they are known.
    """
    columns: dict[str, list[Any]] = {key: [] for row in rows for key in row}
    for key, values in columns.items():
        values.extend(_without_special(row.get(key)) for row in rows)
        wanted = (types or {}).get(key, pl.Null())
        kinds = {type(value) for value in values} - {type(None)}
        if kinds == {dict} and key in (SCORES, ATTRIBUTES):
            inner_types = {f.name: f.dtype for f in wanted.fields} if isinstance(wanted, pl.Struct) else None
            inner = iter(_uniform([value for value in values if value is not None], inner_types))
            values[:] = [value if value is None else next(inner) for value in values]
        elif kinds <= {bool, int, float}:
            kinds |= ({float} if wanted.is_float() else {int}) if wanted.is_numeric() else set()
            values[:] = [_as_one_type(value, kinds) for value in values]
        elif len(kinds) > 1:
            values[:] = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return (
        [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)] if columns else rows
    )


def _without_special(value: Any) -> Any:
    """NaN is a missing score; infinity becomes a text, which no number column accepts."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {key: _without_special(inner) for key, inner in value.items()}
    return [_without_special(inner) for inner in value] if isinstance(value, list) else value


def _as_one_type(value: Any, kinds: set[type]) -> Any:
    if value is None or kinds == {bool}:
        return value
    return float(value) if float in kinds or abs(value) >= 2**63 else int(value)


class Csv(_TextFile):
    """Comma-separated with a header; every cell is kept as the text it is."""

    unit = "row"
    text_is_number = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.typed = False
        """Are types wanted, because the output is another format?"""
        self.labels: tuple[str, ...] = ()
        """Columns whose types are wanted anyway: the number 7 and the text 7 are different groups."""

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Rows of texts; an empty cell is null."""
        names: list[str] | None = None
        row = 1
        for block in self._blocks(_end_of_csv_record):
            if names is None:
                names, block = self._header(block)
            if block.strip():
                frame = self._frame(block, names, row)
                yield frame if schema is None else frame.select(*schema, _ROW)
                row = frame[_ROW][-1] + 1 if len(frame) else row

    def _header(self, block: bytes) -> tuple[list[str], bytes]:
        end = _end_of_first_record(block)
        names = next(csv.reader(io.StringIO(block[:end].decode(errors="replace"))), [])
        twice = next((name for i, name in enumerate(names) if name in names[:i] or not name), None)
        if twice is not None:
            got = "an empty one" if not twice else f"{twice!r} twice"
            raise BadTable(str(self.path), "the header", "different names", got, "Name every column once.")
        return names, block[end:]

    def _frame(self, block: bytes, names: list[str], row: int) -> pl.DataFrame:
        schema = dict.fromkeys(names, pl.String)
        try:
            frame = pl.read_csv(block, has_header=False, schema=schema, infer_schema=False, raise_if_empty=False)
        except PolarsError as error:
            raise self._why(block, names, row, str(error).splitlines()[0]) from None
        frame = frame.with_columns(pl.Series(_ROW, range(row, row + len(frame)), pl.Int64))
        return frame.filter(~pl.all_horizontal(pl.exclude(_ROW).is_null()))  # blank lines

    def _why(self, block: bytes, names: list[str], row: int, reason: str) -> BadTable:
        for i, cells in enumerate(csv.reader(io.StringIO(block.decode(errors="replace"), newline=""))):
            if cells and len(cells) != len(names):
                allowed, got = f"of {len(names)} cells, as the header", str(len(cells))
                return BadTable(str(self.path), f"row {row + i}", allowed, got, "Quote cells that contain a comma.")
        return BadTable(str(self.path), f"the rows from {row} on", "CSV in UTF-8", reason, "Check its quotes.")


def _end_of_csv_record(data: bytes) -> int:
    """After the last line end that is not inside quotes: before it, quotes come in pairs."""
    cut = data.rfind(b"\n") + 1
    while cut and data.count(b'"', 0, cut) % 2:
        cut = data.rfind(b"\n", 0, cut - 1) + 1
    return cut


def _end_of_first_record(data: bytes) -> int:
    end = data.find(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end) + 1
    return end or len(data)


class Parquet:
    """Columns with types; read in slices of rows, and only the columns that are needed."""

    unit = "row"
    text_is_number = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done = 0.0
        try:
            self._lazy = pl.scan_parquet(path, glob=False)
            self.schema = dict(self._lazy.collect_schema())
            self._rows: int = self._lazy.select(pl.len()).collect().item()
        except (PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise BadTable(str(path), "the table", "a Parquet file", reason, "Check what wrote it.") from None

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Rows as they are."""
        for start in range(0, self._rows, _SLICE):
            part = self._lazy.slice(start, _SLICE)
            try:
                frame = (part if schema is None else part.select(*schema)).collect()
            except PolarsError as error:
                where = f"rows {start + 1} to {start + _SLICE}"
                raise BadTable(
                    str(self.path), where, "readable", str(error).splitlines()[0], "Copy it again."
                ) from None
            self._done = min(1.0, (start + _SLICE) / self._rows)
            yield frame.with_columns(pl.Series(_ROW, range(start + 1, start + len(frame) + 1), pl.Int64))

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """Numbers, and what was named: texts of responses need not be read to know that they are no scores."""
        keep = {SCORES, ATTRIBUTES, *GROUP_NAMES, *named}
        return {n: t for n, t in self.schema.items() if n in keep or t.is_numeric() or t == pl.Boolean} or None

    def position(self) -> float:
        """The share of the rows that has been read."""
        return self._done


# ---------------------------------------------------------------------------------------------------------- the survey


@dataclass
class Facts:
    """What the cells of one column are like; places are (row, what is there)."""

    filled: int = 0
    numbers: int = 0
    plain: int = 0
    """Texts written the way JSON writes a number: as numbers they lose nothing."""
    whole: int = 0
    booleans: int = 0
    bad: tuple[int, str] | None = None
    """The first cell that is no finite number."""
    unmeasured: tuple[int, str] | None = None
    """The first cell that is no attribute: missing, or negative."""
    outside: tuple[int, str] | None = None
    """The first score outside [0, 1]."""

    def look(self, reader: Reader, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> None:
        """Take in the cells of one frame."""
        if raw.dtype == pl.String and isinstance(reader, JsonLines):
            value = _real_numbers(reader, rows, raw, leaf)
        else:
            value = _numbers(raw, reader.text_is_number)
        nothing_else = value.null_count() == raw.null_count()
        filled = value.is_not_nan().fill_null(False) if nothing_else else _filled(raw, reader.text_is_number)
        wrong = filled & (value.is_null() | value.is_infinite().fill_null(False) | _inexact(raw))
        self.filled += int(filled.sum())
        self.numbers += int((filled & value.is_not_null()).sum())
        self.bad = self.bad or _first(rows, raw, wrong)
        missing = ~filled | value.is_nan().fill_null(False)
        self.unmeasured = self.unmeasured or _first(rows, raw, missing | (value < 0.0).fill_null(False))
        self.outside = self.outside or _first(rows, raw, ((value < 0.0) | (value > 1.0)).fill_null(False))
        if isinstance(reader, Csv) and (reader.typed or leaf[0] in reader.labels):
            self.plain += int(raw.str.contains(r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$").sum())
            self.whole += int(raw.str.contains(r"^(0|-?[1-9]\d{0,17})$").sum())
            self.booleans += int(raw.str.to_lowercase().is_in(["true", "false"]).sum())


def _real_numbers(reader: JsonLines, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> pl.Series:
    """The numbers of a key that is now a number and now a text, and has become text on reading: the file tells."""
    value = _numbers(raw, True)
    like_number = value.is_finite().fill_null(False)
    sample = rows.filter(like_number).head(100).to_list()
    texts = [row for row, cell in zip(sample, reader.cells(sample, leaf), strict=True) if isinstance(cell, str)]
    if len(texts) == len(sample):
        return _numbers(raw, False)
    return value.to_frame("x").select(pl.when(like_number & ~rows.is_in(texts)).then("x")).to_series()


def _numbers(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Cells as doubles; null where there is no number."""
    if raw.dtype.is_numeric() or raw.dtype == pl.Boolean:
        return raw.cast(pl.Float64)
    if raw.dtype != pl.String or not text_is_number:
        return pl.Series(raw.name, [None], pl.Float64).new_from_index(0, len(raw))
    short = raw.to_frame("x").select(pl.when(pl.col("x").str.len_bytes() <= _LONGEST_NUMBER).then("x")).to_series()
    if (quick := short.cast(pl.Float64, strict=False)).null_count() == raw.null_count():
        return quick  # nothing but numbers, as almost always
    clean = short.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return clean.cast(pl.Float64, strict=False)


def _filled(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Is anything in the cell?"""
    if raw.dtype == pl.String and text_is_number:
        start = raw.str.slice(0, 8).str.strip_chars().str.to_lowercase()
        return raw.is_not_null() & ~start.is_in(_UNSCORED).fill_null(False)
    return raw.is_not_null()


def _inexact(raw: pl.Series) -> pl.Series:
    """Integers that doubles merge with their neighbours."""
    if raw.dtype in (pl.Int64, pl.UInt64, pl.Int128):
        return ((raw > _EXACT) | (raw < -_EXACT)).fill_null(False)
    return raw.is_null() & raw.is_not_null()


def _first(rows: pl.Series, raw: pl.Series, mask: pl.Series) -> tuple[int, str] | None:
    at = mask.arg_max() if mask.any() else None
    if at is None:
        return None
    value = raw[at]
    return rows[at], "nothing" if value is None else repr(value) if len(repr(value)) < 50 else f"{repr(value)[:47]}…"


class Runs:
    """The order of labels in a file; a label that comes back is an error."""

    def __init__(self) -> None:
        self._labels: list[pl.Series] = []
        self._rows: list[pl.Series] = []

    def add(self, labels: pl.Series, rows: pl.Series) -> None:
        """Note where a new label begins."""
        begins = (labels != labels.shift()).fill_null(True)
        if self._labels and self._labels[-1][-1] == labels[0]:
            begins[0] = False
        if begins.any():
            self._labels.append(labels.filter(begins))
            self._rows.append(rows.filter(begins))

    def check(self, reader: Reader, what: str) -> None:
        """Raise if a label has more than one run."""
        labels, rows = pl.concat(self._labels), pl.concat(self._rows)
        again = ~labels.is_first_distinct()
        if again.any():
            at = again.arg_max() or 0
            label, unit = labels[at], reader.unit
            first = rows[(labels == label).arg_max() or 0]
            raise BadTable(
                str(reader.path),
                f"the rows of {what} {label!r}",
                "next to each other",
                f"one that begins at {unit} {first} and comes back at {unit} {rows[at]}",
                "Sort the file, or pass --any-order (any_order=True), which reads it into memory.",
            )


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what."""

    reader: Reader
    schema: dict[str, Any]
    """All columns of the file."""
    groups: tuple[str, ...]
    batch: str | None
    criteria: tuple[Leaf, ...]
    attributes: tuple[Leaf, ...]
    left_out: tuple[str, ...]
    integer_labels: bool
    wide: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of the criteria."""
        return tuple(leaf[-1] for leaf in self.criteria)

    def labels(self, frame: pl.DataFrame) -> pl.Series:
        """The group of every row: a number if all labels are whole numbers, else a text."""
        if self.integer_labels:
            return frame.get_column(self.groups[0]).cast(pl.Int64)
        return _joined(frame, (*((self.batch,) if self.batch else ()), *self.groups))

    def needed(self) -> dict[str, Any]:
        """The columns that a fusion needs, with their types as they are to be read."""
        wanted = [*((name,) for name in (*self.groups, self.batch) if name), *self.attributes]
        wanted += [] if self.wide else self.criteria
        schema: dict[str, Any] = {}
        for outer, *inner in wanted:
            if not inner:
                schema[outer] = self.schema[outer]
        for outer in {leaf[0] for leaf in wanted if len(leaf) == 2}:
            known = {f.name: f.dtype for f in getattr(self.schema.get(outer), "fields", ())}
            names = [leaf[1] for leaf in wanted if leaf[0] == outer and len(leaf) == 2]
            schema[outer] = pl.Struct({name: known.get(name, pl.Float64) for name in names})
        return schema


def _joined(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """One text for the cells of some columns; null if one of them is."""
    texts = [frame.get_column(name).cast(pl.String).alias(str(i)) for i, name in enumerate(names)]
    return pl.DataFrame(texts).select(pl.concat_str(pl.all(), separator="/")).to_series().alias("label")


def survey(reader: Reader, rule: RLVR2, columns: Columns, any_order: bool, progress: Progress | None) -> Layout:
    """Read a table once: find its columns, and everything wrong with them."""
    facts: dict[Leaf, Facts] = {}
    schema: dict[str, Any] = {}
    groups: tuple[str, ...] = ()
    group_runs, batch_runs = Runs(), Runs()
    for frame in reader.frames(reader.worth_a_look(_named(columns))):
        if not groups:
            groups = _group_columns(reader, columns, frame.columns)
            if isinstance(reader, Csv):
                reader.labels = groups
        schema = _merged(schema, {n: t for n, t in frame.schema.items() if n != _ROW})
        _note_facts(reader, frame, facts)
        _note_runs(reader, frame, groups, columns.batch, group_runs, batch_runs)
        if progress:
            progress("reading", reader.position())
    if not groups:
        raise BadTable(str(reader.path), "the table", "at least one row", "none", "Check what wrote it.")
    if isinstance(reader, JsonLines):
        facts |= {(SCORES, name): found for name, found in reader.wide.items()}
    layout = _layout(reader, rule, columns, facts, getattr(reader, "schema", schema), groups)
    if not any_order:
        group_runs.check(reader, "group")
        if columns.batch and rule.pool == "batch":
            batch_runs.check(reader, "batch")
    return layout


def _note_facts(reader: Reader, frame: pl.DataFrame, facts: dict[Leaf, Facts]) -> None:
    rows = frame[_ROW]
    here = set(_leaves(frame.schema))
    late = (1, "nothing") if facts else None  # a key that was absent so far
    for leaf in _leaves(frame.schema):
        facts.setdefault(leaf, Facts(unmeasured=late)).look(reader, rows, _cells(frame, leaf), leaf)
    for leaf in facts:
        if leaf not in here and facts[leaf].unmeasured is None:
            facts[leaf].unmeasured = rows[0], "nothing"


def _named(columns: Columns) -> set[str]:
    return {
        *columns.group,
        *(columns.criteria or ()),
        *columns.attributes,
        *((columns.batch,) if columns.batch else ()),
    }


def _leaves(schema: Mapping[str, Any]) -> Iterator[Leaf]:
    for name, dtype in schema.items():
        if name in (SCORES, ATTRIBUTES) and isinstance(dtype, pl.Struct):
            yield from ((name, inner.name) for inner in dtype.fields)
        elif name not in (_ROW, _LINE) and not dtype.is_nested():
            yield (name,)


def _cells(frame: pl.DataFrame, leaf: Leaf) -> pl.Series:
    column = frame.get_column(leaf[0])
    return column if len(leaf) == 1 else column.struct.field(leaf[1])


def _group_columns(reader: Reader, columns: Columns, present: Sequence[str]) -> tuple[str, ...]:
    known = [name for name in present if name not in (_ROW, _LINE)]
    groups = tuple(columns.group) or tuple(name for name in GROUP_NAMES if name in known)[:1]
    if not groups:
        allowed = f"a column {', '.join(map(repr, GROUP_NAMES))}"
        remedy = "Say which one names the group: --group-column NAME."
        raise BadTable(str(reader.path), "the group", allowed, f"columns {', '.join(map(repr, known))}", remedy)
    for name in (*groups, *((columns.batch,) if columns.batch else ())):
        if name not in known:
            raise UnknownName.of(str(reader.path), "the group or batch column", name, known)
    return groups


def _note_runs(
    reader: Reader, frame: pl.DataFrame, groups: Sequence[str], batch: str | None, group_runs: Runs, batch_runs: Runs
) -> None:
    names = (*((batch,) if batch else ()), *groups)
    for name in names:
        cells = frame.get_column(name) if name in frame.columns else pl.Series([None] * len(frame))
        if cells.dtype.is_nested() or cells.null_count():
            row, got = _first(frame[_ROW], cells, cells.is_null()) or (frame[_ROW][0], f"a {cells.dtype}")
            allowed = "a number or a text"
            where = f"{reader.unit} {row}, column {name!r}"
            raise BadTable(str(reader.path), where, allowed, got, "Every rollout belongs to a group.")
    group_runs.add(_joined(frame, names), frame[_ROW])
    if batch:
        batch_runs.add(_joined(frame, (batch,)), frame[_ROW])


def _merged(known: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of both, with types that hold both."""
    return {**known, **{name: _either(known[name], t) if name in known else t for name, t in new.items()}}


def _either(a: Any, b: Any) -> Any:
    if a == b or b == pl.Null:
        return a
    if a == pl.Null:
        return b
    if isinstance(a, pl.Struct) and isinstance(b, pl.Struct):
        return pl.Struct(_merged({f.name: f.dtype for f in a.fields}, {f.name: f.dtype for f in b.fields}))
    if isinstance(a, pl.List) and isinstance(b, pl.List):
        return pl.List(_either(a.inner, b.inner))
    simple = {pl.Int64, pl.Float64, pl.Boolean}
    if a in simple and b in simple:
        return pl.Float64 if pl.Float64 in (a, b) else pl.Int64
    return pl.String


def _layout(
    reader: Reader,
    rule: RLVR2,
    columns: Columns,
    facts: dict[Leaf, Facts],
    schema: dict[str, Any],
    groups: tuple[str, ...],
) -> Layout:
    attributes = tuple(_find(reader, "attribute", ATTRIBUTES, name, facts) for name in columns.attributes)
    taken = {*groups, columns.batch, *(leaf[0] for leaf in attributes if len(leaf) == 1)}
    criteria, left_out = _choose_criteria(reader, columns, facts, taken)
    _check_cells(reader, rule, facts, criteria, attributes)
    if isinstance(reader, Csv):
        schema = {name: _csv_type(facts[(name,)]) for name in schema}
    single = groups[0] if len(groups) == 1 and columns.batch is None else None
    return Layout(
        reader=reader,
        schema=schema,
        groups=groups,
        batch=columns.batch,
        criteria=criteria,
        attributes=attributes,
        left_out=left_out,
        integer_labels=single is not None and schema[single].is_integer(),
        wide=len(criteria) > WIDE and isinstance(reader, JsonLines) and all(len(leaf) == 2 for leaf in criteria),
    )


def _csv_type(facts: Facts) -> Any:
    """The type of a CSV column outside CSV; a number that would be written differently stays a text, such as 007."""
    if not facts.filled:
        return pl.String
    if facts.whole == facts.filled:
        return pl.Int64
    if facts.plain == facts.filled:
        return pl.Float64
    return pl.Boolean if facts.booleans == facts.filled else pl.String


def _find(reader: Reader, what: str, home: str, name: str, facts: Iterable[Leaf]) -> Leaf:
    """A column by name: a field of its home, or a column of its own."""
    for leaf in ((home, name), (name,)):
        if leaf in facts:
            return leaf
    known = {leaf[-1] for leaf in facts if len(leaf) == 1 or leaf[0] == home}
    raise UnknownName.of(str(reader.path), what, name, known)


def _choose_criteria(
    reader: Reader, columns: Columns, facts: dict[Leaf, Facts], taken: set[str | None]
) -> tuple[tuple[Leaf, ...], tuple[str, ...]]:
    """The criteria, and the numeric columns that were taken for something else."""
    if columns.criteria is not None:
        chosen = [_find(reader, "criterion", SCORES, name, facts) for name in dict.fromkeys(columns.criteria)]
        return tuple(chosen), ()
    nested = tuple(leaf for leaf in facts if leaf[0] == SCORES and len(leaf) == 2)
    if nested:
        return nested, ()
    numeric = [leaf[0] for leaf in facts if len(leaf) == 1 and leaf[0] not in taken and _mostly_numbers(facts[leaf])]
    ours = [name for name in numeric if name.lower() in BOOKKEEPING or name in GROUP_NAMES or "utility." in name]
    chosen = tuple((name,) for name in numeric if name not in ours)
    if not chosen:
        got = f"columns {', '.join(repr(leaf[0]) for leaf in facts)}"
        remedy = "Name them: --criteria Facts,Style."
        raise BadTable(str(reader.path), "the criteria", "at least one column of numbers", got, remedy)
    return chosen, tuple(ours)


def _mostly_numbers(facts: Facts) -> bool:
    """A single "yes" among numbers is a mistake to report, not a reason to leave a criterion out in silence."""
    return facts.numbers > 0 and 2 * facts.numbers >= facts.filled


def _check_cells(
    reader: Reader, rule: RLVR2, facts: dict[Leaf, Facts], criteria: Sequence[Leaf], attributes: Sequence[Leaf]
) -> None:
    low = set(rule.gate.low_quality) if rule.gate else set()
    for leaf in (*criteria, *attributes):
        allowed = "a finite number (whole ones within ±2**53), yes/no as true/false, or empty"
        remedy = "Repair the cell, empty it if there is no score, or name the criteria: --criteria Facts,Style."
        _refuse(reader, leaf, facts[leaf].bad, allowed, remedy)
        if leaf[-1] in low:
            remedy = "Scale it, or flip it if it reports badness."
            _refuse(reader, leaf, facts[leaf].outside, "in [0, 1], 1 = clean, for the low-quality gate", remedy)
    for leaf in attributes:
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        _refuse(reader, leaf, facts[leaf].unmeasured, "a finite number ≥ 0", remedy)


def _refuse(reader: Reader, leaf: Leaf, found: tuple[int, str] | None, allowed: str, remedy: str) -> None:
    if found is not None:
        where = f"{reader.unit} {found[0]}, column {'.'.join(leaf)!r}"
        raise BadTable(str(reader.path), where, allowed, found[1], remedy)


# ---------------------------------------------------------------------------------------------- the fusion, in chunks


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

    def add_columns(self, prefix: str, utilities: bool, target: Path | None) -> None:
        """Settle what the output will hold; `target` says its format."""
        self.prefix, self.utilities = prefix, utilities
        from_lines = isinstance(self.layout.reader, JsonLines)
        self.lines = self.layout.wide or (from_lines and target is not None and _format(target, "output") == "jsonl")
        self.read = self.layout.needed()
        if target is None:
            return
        if not self.lines:
            self.read = self.layout.schema if from_lines else None
        elif self.layout.wide and _format(target, "output") != "jsonl":
            got = f"{len(self.layout.criteria):,} of them"
            remedy = "Write JSON lines, which hold only those of each row."
            raise InvalidInput("fuse_file", "criteria", f"at most {WIDE} for a table with columns", got, remedy)
        for name in self.added_names():
            if name in self.layout.schema:
                remedy = "Give the new columns a prefix: --prefix new_ (prefix='new_')."
                raise InvalidInput("fuse_file", "added columns", "new to the table", f"{name!r} again", remedy)

    def added_names(self) -> list[str]:
        """The columns that the output has beside those of the input."""
        names = ["reward", *(["ranking"] if self.rule.gate else []), "no_signal"]
        if self.utilities:
            names += [f"utility.{name}" for name in _fused_names(self.rule, self.layout.names)]
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
        return _joined(frame, (batch,)) if batch and self.rule.pool == "batch" else self.layout.labels(frame)

    def fuse(self, chunk: pl.DataFrame) -> Iterator[tuple[np.ndarray, FusedBatch]]:
        """Row numbers within the chunk, and what became of these rows; all rows in all."""
        parts: Iterable[np.ndarray] = (np.arange(len(chunk)),)
        if self.rule.pool == "batch" and self.layout.batch:
            parts = _equal_rows(_joined(chunk, (self.layout.batch,)).to_list())
        for rows in parts:
            part = chunk if len(rows) == len(chunk) else chunk[rows]
            if self.layout.wide:
                yield from ((rows[some], fused) for some, fused in self._fuse_wide(part))
            else:
                yield rows, self._fuse_dense(part)

    def _fuse_dense(self, part: pl.DataFrame) -> FusedBatch:
        text = self.layout.reader.text_is_number
        numbers = [_numbers(_cells(part, leaf), text).to_numpy() for leaf in self.layout.criteria]
        rule = replace(self.rule, criteria=self.layout.names)
        return rule(np.stack(numbers, 1), groups=self._labels(part), attributes=self._attributes(part))

    def _fuse_wide(self, part: pl.DataFrame) -> Iterator[tuple[np.ndarray, FusedBatch]]:
        """Groups with the same criteria together, without a column for everybody else's."""
        cells = [json.loads(line).get(SCORES) or {} for line in part[_LINE]]
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
        return _fused_names(self.rule, self.layout.names)[:1]

    @cached_property
    def _gate_only(self) -> list[str]:
        return sorted(_gate_names(self.rule))

    def _rule_for(self, names: Sequence[str]) -> RLVR2:
        """The rule for some of the criteria."""
        fused = _fused_names(self.rule, names)
        given = (self.rule.weights, self.rule.margins, self.rule.directions)
        weights, margins, directions = ({n: v for n, v in (g or {}).items() if n in fused} or None for g in given)  # type: ignore[union-attr]
        return replace(self.rule, criteria=names, weights=weights, margins=margins, directions=directions)

    def for_rubric_of(self, group: pl.DataFrame) -> Plan:
        """Without the criteria of other groups' rubrics, which change nothing and would only be in the way."""
        if self.layout.wide:
            return self
        text, always = self.layout.reader.text_is_number, _gate_names(self.rule)
        scored = [
            leaf
            for leaf in self.layout.criteria
            if leaf[-1] in always or _numbers(_cells(group, leaf), text).is_not_nan().any()
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
        values = [_numbers(_cells(part, leaf), text).to_numpy() for leaf in self.layout.attributes]
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


def _fused_names(rule: RLVR2, names: Sequence[str]) -> list[str]:
    gated = _gate_names(rule)
    return [name for name in names if name not in gated]


def _plan(reader: Reader, rule: RLVR2, columns: Columns, any_order: bool, progress: Progress | None) -> Plan:
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
    fused = _fused_names(rule, layout.names)
    for parameter in ("weights", "margins", "directions"):
        for name in getattr(rule, parameter) or ():
            if name in gated:
                remedy = "The gate reads its scores as they are: 1 = good."
                raise InvalidInput("RLVR2", parameter, "for criteria that are fused", f"{name!r}, a gate's", remedy)
            if name not in fused:
                raise UnknownName.of("RLVR2", f"{parameter} key", name, fused)
    # One rollout without scores goes through everything that can object to a number or a model.
    D = len(layout.attributes)
    names = layout.names[: WIDE if layout.wide else None]
    trial = rule if not layout.wide else replace(rule, weights=None, margins=None, directions=None, gate=None)
    replace(trial, criteria=names)(np.full((1, len(names)), np.nan), attributes=np.ones((1, D)) if D else None)


def _fuse_all(plan: Plan, writer: Writer | None, progress: Progress | None) -> Summary:
    names = tuple(_fused_names(plan.rule, plan.layout.names))
    zeros = np.zeros(len(names), np.int64)
    summary = Summary(plan.layout.reader.path, names, plan.layout.left_out, scored=zeros, deciding=zeros.copy())
    column = {name: k for k, name in enumerate(names)}
    for chunk in plan.chunks(progress):
        parts = list(plan.fuse(chunk))
        for _, fused in parts:
            _count(summary, fused, [column[name] for name in fused.criteria])
        if writer is not None:
            writer.write(chunk, [(rows, plan.added(fused)) for rows, fused in parts])
    return summary


def _in_order(parts: Sequence[tuple[np.ndarray, _Rows]]) -> _Rows:
    """What belongs to some rows each, in the order of all rows."""
    if len(parts) == 1:
        return parts[0][1]
    rows = np.concatenate([rows for rows, _ in parts])
    return pl.concat([part for _, part in parts])[np.argsort(rows)]  # type: ignore[return-value]


def _count(summary: Summary, fused: FusedBatch, columns: list[int]) -> None:
    batch = fused.fusion.batch
    summary.rollouts += len(batch.scores_MK)
    summary.groups += len(fused)
    summary.no_signal += int(fused.no_signal.sum())
    summary.reward_sum += float(fused.reward.sum())
    summary.scored[columns] += (~np.isnan(batch.scores_MK)).sum(0)
    tells = np.add.reduceat(np.abs(fused.fusion.utilities_MK), batch.starts[:-1], axis=0) > 0.0
    summary.deciding[columns] += tells.sum(0)
    for group in fused if len(summary.first) < PREVIEW else ():
        summary.first.append(group)
        if len(summary.first) == PREVIEW:
            break


# --------------------------------------------------------------------------------------------------------- the writers


class Writer(Protocol):
    """Takes the rows of a table with the columns added to them."""

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Write some rows; each part of what is added says which of them it is for."""
        ...


class JsonLinesWriter:
    """Lines as they were, with the new keys at their end."""

    def __init__(self, file: IO[bytes], plan: Plan) -> None:
        self._file, self._plan = file, plan

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Append lines."""
        if self._plan.lines:
            if len({tuple(part.columns) for _, part in added}) == 1:
                added = [(np.arange(len(rows)), _in_order(added))]
            lines = _in_order([(some, _with_keys(rows[_LINE][some], part)) for some, part in added])
            self._file.write("".join(lines.to_list()).encode())
        else:
            frame = _side_by_side(rows, _in_order(added), self._plan)
            self._file.write(frame.write_ndjson().encode())


def _with_keys(lines: pl.Series, added: pl.DataFrame) -> pl.Series:
    """Each line before its closing brace, the keys that have a value, the brace."""
    heads = lines.str.strip_chars_end().str.strip_suffix("}").str.strip_chars_end()
    keys = [
        pl.when(pl.col(name).is_null())
        .then(pl.lit(""))
        .otherwise(pl.format("," + "{}:{}", pl.lit(json.dumps(name)), name))
        for name in added.columns
    ]
    return added.select(pl.concat_str(heads.alias(_LINE), *keys, pl.lit("}\n"))).to_series()


class CsvWriter:
    """Texts as they were; a nested column becomes the JSON of it."""

    def __init__(self, file: IO[bytes], plan: Plan) -> None:
        self._file, self._plan, self._header = file, plan, True

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Append lines, the header before the first."""
        frame = _side_by_side(rows, _in_order(added), self._plan, typed=False)
        frame = frame.with_columns(_as_json(c) for c in frame.get_columns() if c.dtype.is_nested())
        self._file.write(frame.write_csv(include_header=self._header).encode())
        self._header = False


def _as_json(column: pl.Series) -> pl.Series:
    objects = column.alias("x").to_frame().to_struct("x").struct.json_encode()  # {"x":…}
    text = objects.str.slice(5).str.head(-1)
    return text.to_frame("t").select(pl.when(column.is_not_null()).then("t")).to_series().alias(column.name)


class ParquetWriter:
    """Row groups as they come. polars asks for rows where we hand them out, so its writer gets a thread of its own."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self._plan = plan
        self._frames: queue.Queue[pl.DataFrame | None] = queue.Queue(maxsize=2)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._sink, args=(path,), daemon=True)
        self._thread.start()

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Hand rows over; waits while polars is busy with earlier ones."""
        self._put(_side_by_side(rows, _in_order(added), self._plan))

    def close(self) -> None:
        """Wait until everything is written."""
        self._put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _put(self, frame: pl.DataFrame | None) -> None:
        while self._thread.is_alive():
            try:
                self._frames.put(frame, timeout=0.2)
            except queue.Full:
                continue  # is it still alive?
            return
        if self._error is not None:
            raise self._error

    def _sink(self, path: Path) -> None:
        from polars.io.plugins import register_io_source

        try:
            register_io_source(lambda *_: self._taken(), schema=_output_schema(self._plan)).sink_parquet(path)
        except BaseException as error:
            self._error = error

    def _taken(self) -> Iterator[pl.DataFrame]:
        while (frame := self._frames.get()) is not None:
            yield frame


def _output_schema(plan: Plan) -> dict[str, Any]:
    flags = {plan.prefix + "no_signal": pl.Boolean}
    return {**plan.layout.schema, **{name: flags.get(name, pl.Float64) for name in plan.added_names()}}


def _side_by_side(rows: pl.DataFrame, added: pl.DataFrame, plan: Plan, typed: bool = True) -> pl.DataFrame:
    """The columns of the file in their order, then ours; the texts of a CSV as what they stand for if `typed`."""
    columns = [column for column in rows.get_columns() if column.name not in (_ROW, _LINE)]
    if typed and isinstance(plan.layout.reader, Csv):
        columns = [_typed(column, plan.layout.schema[column.name]) for column in columns]
    return pl.DataFrame([*columns, *added.get_columns()])


def _typed(column: pl.Series, dtype: Any) -> pl.Series:
    if dtype == pl.Boolean:
        lower = column.str.to_lowercase()
        return lower.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return column if dtype == pl.String else column.cast(dtype, strict=False)


@contextmanager
def _writer(path: Path, name: str, plan: Plan) -> Iterator[Writer]:
    """A writer to `path` in the format of the file name."""
    kind = _format(Path(name), "output")
    if kind == "parquet":
        parquet = ParquetWriter(path, plan)
        yield parquet
        parquet.close()
        return
    with path.open("xb") as raw:
        packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if name.lower().endswith(".gz") else None
        file: Any = packed or raw
        yield JsonLinesWriter(file, plan) if kind == "jsonl" else CsvWriter(file, plan)
        if packed:
            packed.close()


@contextmanager
def _in_place_of(target: Path) -> Iterator[Path]:
    """A temporary file beside the target, which takes its place at the end, and goes away after an error."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _checked_target(source: Path, output: str | Path, force: bool) -> Path:
    """Where to write; what is there already is looked after."""
    target = Path(output).resolve()
    _format(target, "output")
    if not target.parent.is_dir():
        raise InvalidInput(
            "fuse_file", "output", "in a directory that exists", str(output), "Make the directory first."
        )
    if target.exists() and target.samefile(source):
        raise InvalidInput("fuse_file", "output", "another file than the input", str(output), "Choose another name.")
    if target.is_dir() or (target.exists() and not force):
        remedy = "Choose another name." if target.is_dir() else "Pass --force (force=True) to replace it."
        raise InvalidInput("fuse_file", "output", "a file that does not exist yet", str(output), remedy)
    return target


def _format(path: Path, what: str) -> str:
    """jsonl, csv or parquet, by suffix."""
    name = path.name.lower()
    if not name.endswith(FORMATS):
        remedy = "JSON lines are .jsonl." if name.endswith(".json") else "Convert or rename it."
        raise BadTable(str(path), what, f"a file that ends in {', '.join(FORMATS)}", repr(path.name), remedy)
    stem = name.removesuffix(".gz")
    return "parquet" if stem.endswith(".parquet") else "csv" if stem.endswith(".csv") else "jsonl"
