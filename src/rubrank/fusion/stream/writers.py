"""The rows of a table with the columns added to them, as JSON lines, CSV or Parquet."""

from __future__ import annotations

import gzip
import json
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import polars as pl

from rubrank._files import output_at, replacing
from rubrank.fusion.stream.names import FORMATS, LINE, ROW, format_of
from rubrank.fusion.stream.plan import TablePlan

Added: TypeAlias = Sequence[tuple[np.ndarray, pl.DataFrame]]
"""Row numbers, and the new columns of these rows."""
_Rows = TypeVar("_Rows", pl.DataFrame, pl.Series)


class Writer(Protocol):
    """Takes the rows of a table with the columns added to them."""

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Write some rows; each part of what is added says which of them it is for."""
        ...


class JsonLinesWriter:
    """Lines as they were, with the new keys at their end."""

    def __init__(self, file: IO[bytes], plan: TablePlan) -> None:
        self._file, self._plan = file, plan

    def write(self, rows: pl.DataFrame, added: Added) -> None:
        """Append lines."""
        if self._plan.lines:
            if len({tuple(part.columns) for _, part in added}) == 1:
                added = [(np.arange(len(rows)), _in_order(added))]
            lines = _in_order([(some, _with_keys(rows[LINE][some], part)) for some, part in added])
            self._file.write("".join(lines.to_list()).encode())
        else:
            frame = _side_by_side(rows, _in_order(added), self._plan)
            self._file.write(frame.write_ndjson().encode())


def _with_keys(lines: pl.Series, added: pl.DataFrame) -> pl.Series:
    """Each line before its closing brace, the keys that have a value, the brace."""
    heads = lines.str.strip_chars_end().str.strip_suffix("}").str.strip_chars_end()
    keys = [
        pl.when(pl.col(name).is_null()).then(pl.lit("")).otherwise(pl.format(",{}:{}", pl.lit(json.dumps(name)), name))
        for name in added.columns
    ]
    return added.select(pl.concat_str(heads.alias(LINE), *keys, pl.lit("}\n"))).to_series()


def _in_order(parts: Sequence[tuple[np.ndarray, _Rows]]) -> _Rows:
    """What belongs to some rows each, in the order of all rows."""
    rows = np.concatenate([rows for rows, _ in parts])
    if len(parts) == 1 and (np.diff(rows) > 0).all():
        return parts[0][1]
    return pl.concat([part for _, part in parts])[np.argsort(rows)]


class CsvWriter:
    """Texts as they were; a nested column becomes the JSON of it."""

    def __init__(self, file: IO[bytes], plan: TablePlan) -> None:
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

    def __init__(self, path: Path, plan: TablePlan) -> None:
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


def _output_schema(plan: TablePlan) -> dict[str, Any]:
    flags = {plan.prefix + "no_signal": pl.Boolean}
    return {**plan.layout.schema, **{name: flags.get(name, pl.Float64) for name in plan.added_names()}}


def _side_by_side(rows: pl.DataFrame, added: pl.DataFrame, plan: TablePlan, typed: bool = True) -> pl.DataFrame:
    """The columns of the file in their order, then ours; the texts of a CSV as what they stand for if `typed`."""
    columns = [column for column in rows.get_columns() if column.name not in (ROW, LINE)]
    if typed and plan.layout.reader.text_is_number:
        columns = [_typed(column, plan.layout.schema[column.name]) for column in columns]
    return pl.DataFrame([*columns, *added.get_columns()])


def _typed(column: pl.Series, dtype: Any) -> pl.Series:
    if dtype == pl.Boolean:
        lower = column.str.to_lowercase()
        return lower.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return column if dtype == pl.String else column.cast(dtype, strict=False)


@contextmanager
def writer_to(target: Path, plan: TablePlan) -> Iterator[Writer]:
    """A writer in the format of the target, which is replaced at the end; an error leaves it as it was."""
    kind = format_of(target, "output")
    with replacing(target) as temporary:
        if kind == "parquet":
            parquet = ParquetWriter(temporary, plan)
            try:
                yield parquet
            finally:
                parquet.close()
            return
        with temporary.open("wb") as raw, _packed(raw, target) as file:
            yield JsonLinesWriter(file, plan) if kind == "jsonl" else CsvWriter(file, plan)


def _packed(file: IO[bytes], target: Path) -> AbstractContextManager[Any]:
    """Compressed if the name of the target says so."""
    if target.suffix.lower() == ".gz":
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)
    return nullcontext(file)


def checked_target(source: Any, output: Path, force: bool) -> Path:
    """Where to write; what is there already is looked after."""
    return output_at(output, FORMATS, inputs=(source,), force=force, verb="fuse")
