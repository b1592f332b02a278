"""Files as frames of rows: JSON lines and CSV in blocks of whole records, Parquet in slices of rows."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import in_our_words_of, not_utf8, unpacked, unpacked_suffix
from rubrank.errors import BadTable
from rubrank.fusion.stream.names import ATTRIBUTES, GROUP_NAMES, LINE, REASONS, ROW, RUBRIC, SCORES, WIDE, Leaf, Rubrics

BLOCK, SLICE = 4 << 20, 65_536  # bytes of text, rows of Parquet
_LONGEST = 16 * BLOCK  # bytes of a record of CSV; a longer one is a quote that nothing closes
_LARGEST = 2**1023


class Reader(Protocol):
    """A file as frames of rows, in order, each with the column `ROW`."""

    path: Path
    unit: str
    """What rows are called in messages, and how they are counted: "line" of the file, or "row" without the header."""
    text_is_number: bool
    """Does a text such as "0.5" stand for a number?"""
    rubrics: Rubrics
    """Of a score file, by the numbers in its column `rubric`; other tables have none."""

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Some columns (None: all), and the text of each row as `LINE` if `lines`."""
        ...

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """The columns that a survey should read; None: all."""
        ...

    def position(self) -> float:
        """The share of the file that has been read."""
        ...


class _TextFile:
    """A file of records, perhaps compressed, read in blocks of whole ones."""

    def __init__(self, path: Path, rubrics: Rubrics = (), at: Path | None = None) -> None:
        self.path, self.rubrics, self._at = path, rubrics, at or path
        self._has_header = bool(rubrics)
        self._size = max(self._at.stat().st_size, 1)
        self._raw: IO[bytes] | None = None

    def position(self) -> float:
        """The share of the bytes that has been read."""
        return 1.0 if self._raw is None or self._raw.closed else self._raw.tell() / self._size

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """Everything: the bytes are read in any case."""
        return None

    def _blocks(self, end: Callable[[bytes], int]) -> Iterator[bytes]:
        """`end(data)` is where the last whole record ends; 0: nowhere yet."""
        with self._at.open("rb") as self._raw:
            file = unpacked(self._raw, self._at)
            rest = b""
            if self._has_header:
                file.readline()
            while data := self._read(file):
                rest = (rest + data).removeprefix(b"\xef\xbb\xbf")
                if cut := end(rest):
                    yield rest[:cut]
                    rest = rest[cut:]
                self._check_length(rest)
            if rest:
                yield rest

    def _check_length(self, rest: bytes) -> None:
        """Of what is read of the next record."""

    def _read(self, file: IO[bytes]) -> bytes:
        with in_our_words_of(self.path, BadTable):
            return file.read(BLOCK)


class JsonLines(_TextFile):
    """One JSON object a line; lines may have different keys."""

    unit = "line"
    text_is_number = False

    def __init__(self, path: Path, rubrics: Rubrics = (), at: Path | None = None) -> None:
        super().__init__(path, rubrics, at)
        self._block, self._first = b"", 1
        self.apart: list[tuple[int, Any]] = []
        """Line and scores, of the block that was read last, if their criteria are too many for columns."""

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Lines as rows; a key that is absent is null."""
        self._first = 2 if self._has_header else 1
        for block in self._blocks(lambda data: data.rfind(b"\n") + 1):
            self._block, self.apart = block, []
            count = block.count(b"\n") + (not block.endswith(b"\n"))
            if block.strip():
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
            return frame.with_columns(pl.Series(ROW, range(self._first, self._first + count), pl.Int64))
        texts = self._texts()
        rows = [i for i, text in enumerate(texts, self._first) if text.strip()]  # polars skips the others
        frame = frame.with_columns(pl.Series(ROW, rows, pl.Int64))
        return frame.with_columns(pl.Series(LINE, [texts[i - self._first] for i in rows])) if lines else frame

    def _texts(self) -> list[str]:
        try:
            return self._block.removesuffix(b"\n").decode().split("\n")
        except UnicodeDecodeError as error:
            row = self._first + self._block.count(b"\n", 0, error.start)
            raise not_utf8(self.path, f"line {row}", BadTable) from None

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

    def _carefully(self, schema: Mapping[str, Any] | None, wide: bool = False) -> pl.DataFrame:
        """Line by line: says which line is broken, knows NaN, and gives every key one type."""
        found = [(i, self._object(i, text)) for i, text in enumerate(self._texts(), self._first) if text.strip()]
        if wide:
            self.apart = [(i, row.pop(SCORES, None)) for i, row in found]
            for _, row in found if self.rubrics else ():
                row.pop(REASONS, None)  # as many; they stay in the text of the line
        rows = _uniform([row for _, row in found], schema)
        text = "\n".join(json.dumps(row) for row in rows)
        try:
            return _parse_lines(text.encode(), schema)
        except PolarsError as error:
            where = f"lines {found[0][0]} to {found[-1][0]}"
            reason = str(error).splitlines()[0]
            raise BadTable(str(self.path), where, "of one type for each key", reason, "") from None

    def _object(self, row: int, text: str) -> dict[str, Any]:
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
    """NaN is a missing score; infinity becomes a text, which no number column accepts, as does what exceeds doubles."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return str(value)
    if isinstance(value, dict):
        return {key: _without_special(inner) for key, inner in value.items()}
    return [_without_special(inner) for inner in value] if isinstance(value, list) else value


def _as_one_type(value: Any, kinds: set[type]) -> Any:
    if value is None or kinds == {bool}:
        return value
    return float(value) if float in kinds or abs(value) >= 2**63 else int(value)


class Csv(_TextFile):
    """Separated by commas, or tabs, with a header; every cell is kept as the text it is."""

    unit = "row"
    text_is_number = True

    def __init__(self, path: Path, rubrics: Rubrics = (), at: Path | None = None) -> None:
        super().__init__(path, rubrics, at)
        self._separator = "\t" if unpacked_suffix(self._at) == ".tsv" else ","
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
            records = block.lstrip(b"\r\n")  # polars takes its columns from the first line
            row += block.count(b"\n", 0, len(block) - len(records))
            if not records:
                continue
            frame = self._frame(records, names, row)
            row += len(frame)
            frame = frame.filter(~pl.all_horizontal(pl.exclude(ROW).is_null()))  # blank lines
            if len(frame):
                yield frame if schema is None else frame.select(*schema, ROW)

    def _check_length(self, rest: bytes) -> None:
        if len(rest) > _LONGEST:
            got = f"one of more than {_LONGEST >> 20} MB that begins {rest[:40].decode(errors='replace')!r}"
            raise BadTable(str(self.path), "a row", "one line, or quoted", got, "Close its quotes, or double them.")

    def _header(self, block: bytes) -> tuple[list[str], bytes]:
        end = _end_of_first_record(block)
        try:
            header = block[:end].decode()
        except UnicodeDecodeError:
            raise not_utf8(self.path, "the header", BadTable) from None
        names = next(csv.reader(io.StringIO(header), delimiter=self._separator), [])
        twice = next((name for i, name in enumerate(names) if name in names[:i] or not name), None)
        if twice is not None:
            got = "an empty one" if not twice else f"{twice!r} twice"
            raise BadTable(str(self.path), "the header", "different names", got, "")
        return names, block[end:]

    def _frame(self, block: bytes, names: list[str], row: int) -> pl.DataFrame:
        schema = dict.fromkeys(names, pl.String)
        try:
            frame = pl.read_csv(
                block,
                has_header=False,
                schema=schema,
                infer_schema=False,
                raise_if_empty=False,
                separator=self._separator,
            )
        except PolarsError as error:
            self._check_bytes(block, row)
            self._check_cells(block, len(names), row)
            reason = str(error).splitlines()[0]
            where = f"the rows from {row} on"
            raise BadTable(str(self.path), where, "CSV in UTF-8", reason, "Check its quotes.") from None
        if frame[names[-1]].null_count():  # polars fills a row with too few cells up
            self._check_cells(block, len(names), row)
        return frame.with_columns(pl.Series(ROW, range(row, row + len(frame)), pl.Int64))

    def _check_bytes(self, block: bytes, row: int) -> None:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            before = block.count(b"\n", 0, error.start)
            raise not_utf8(self.path, f"row {row + before}", BadTable) from None

    def _check_cells(self, block: bytes, wanted: int, row: int) -> None:
        """Raise at the first row that has more or fewer cells than the header."""
        cells = _cells_per_record(block, self._separator)
        wrong = np.flatnonzero((cells != wanted) & (cells > 0))
        if len(wrong):
            where, got = f"row {row + wrong[0]}", str(cells[wrong[0]])
            remedy = "Quote cells that contain a comma, and leave a cell without a score empty."
            raise BadTable(str(self.path), where, f"of {wanted} cells, as the header", got, remedy)


def _cells_per_record(block: bytes, separator: str) -> np.ndarray:
    """How many cells each record has; 0 is a blank line."""
    data = np.frombuffer(block.rstrip(b"\r\n") + b"\n", np.uint8)
    outside = np.cumsum(data == ord('"'), dtype=np.uint8) % 2 == 0  # of quotes
    ends = np.flatnonzero((data == ord("\n")) & outside)
    commas = np.flatnonzero((data == ord(separator)) & outside)
    length = np.diff(ends, prepend=-1) - 1
    blank = (length == 0) | ((length == 1) & (data[ends - 1] == ord("\r")))
    return np.where(blank, 0, np.diff(np.searchsorted(commas, ends), prepend=0) + 1)


def _end_of_csv_record(data: bytes) -> int:
    """After the last line end that is not inside quotes: before it, quotes come in pairs."""
    cut = data.rfind(b"\n") + 1
    if not data.count(b'"', 0, cut) % 2:
        return cut
    found = np.frombuffer(data, np.uint8)
    outside = np.cumsum(found == ord('"'), dtype=np.uint8) % 2 == 0
    ends = np.flatnonzero((found == ord("\n")) & outside)
    return int(ends[-1]) + 1 if len(ends) else 0


def _end_of_first_record(data: bytes) -> int:
    end = data.find(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end) + 1
    return end or len(data)


class Parquet:
    """Columns with types; read in slices of rows, and only the columns that are needed."""

    unit = "row"
    text_is_number = False

    def __init__(
        self,
        path: Path,
        rubrics: Rubrics = (),
        files: Sequence[Path] = (),
        numbers: Sequence[Mapping[int, int]] = (),
    ) -> None:
        """files: those of a folder or pattern; numbers: for each of them, its rubrics' numbers in all of them."""
        self.path, self.rubrics = path, rubrics
        self._done = 0.0
        try:
            self._lazy = _scanned(files or [path], numbers)
            self.schema = dict(self._lazy.collect_schema())
            self._rows: int = self._lazy.select(pl.len()).collect().item()
        except (PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise BadTable(str(path), "the table", "a Parquet file", reason, "") from None

    def frames(self, schema: Mapping[str, Any] | None = None, *, lines: bool = False) -> Iterator[pl.DataFrame]:
        """Rows as they are."""
        for start in range(0, self._rows, SLICE):
            part = self._lazy.slice(start, SLICE)
            try:
                frame = (part if schema is None else part.select(*schema)).collect()
            except PolarsError as error:
                where = f"rows {start + 1} to {start + SLICE}"
                raise BadTable(
                    str(self.path), where, "readable", str(error).splitlines()[0], "Copy it again."
                ) from None
            self._done = min(1.0, (start + SLICE) / self._rows)
            yield frame.with_columns(pl.Series(ROW, range(start + 1, start + len(frame) + 1), pl.Int64))

    def worth_a_look(self, named: set[str]) -> Mapping[str, Any] | None:
        """Numbers, and what was named: texts of responses need not be read to know that they are no scores."""
        keep = {SCORES, ATTRIBUTES, *GROUP_NAMES, *named}
        keep |= set() if keep & set(GROUP_NAMES) & set(self.schema) else {"prompt"}
        return {n: t for n, t in self.schema.items() if n in keep or t.is_numeric() or t == pl.Boolean} or None

    def position(self) -> float:
        """The share of the rows that has been read."""
        return self._done


def _scanned(files: Sequence[Path], numbers: Sequence[Mapping[int, int]]) -> pl.LazyFrame:
    """All files as one: a column that has different types gets the wider one, and is null where it is not."""
    frames = [pl.scan_parquet(file, glob=False) for file in files]
    renumbered = any(new != old for number in numbers for old, new in number.items())
    if not renumbered and all(frame.collect_schema() == frames[0].collect_schema() for frame in frames[1:]):
        return pl.scan_parquet(list(files), glob=False)
    for i, number in enumerate(numbers):
        known = pl.col(RUBRIC).replace_strict(list(number), list(number.values()), default=None)
        frames[i] = frames[i].with_columns(known.alias(RUBRIC)) if number else frames[i]
    return pl.concat(frames, how="diagonal_relaxed")
