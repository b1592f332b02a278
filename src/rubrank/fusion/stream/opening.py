"""Any source of scores as a reader of rollouts: what one verb reads, all of them read.

    open_table("scores.csv")            wide: a column for each criterion; read in chunks, whatever its size
    open_table("long.parquet")          long: one row per score (prompt_id, response_id, criterion, score)
    open_table("completions/")          what TRL logged: a folder or pattern of files
    open_table("log.eval")              a log of Inspect; also .json, .tsv, Arrow, `datasets`, frames, rows, and "-"

JSON lines, CSV, TSV (also .gz, .zst) and Parquet are read where they are. Everything else is put into a temporary file
of JSON lines first, so that it can be read twice.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rubrank._files import unpacked_suffix
from rubrank.errors import BadTable, InvalidInput
from rubrank.fusion.stream.graded import LongScores
from rubrank.fusion.stream.long import LongTable, long_names
from rubrank.fusion.stream.names import GROUP_NAMES, Columns
from rubrank.fusion.stream.readers import Csv, JsonLines, Parquet, Reader
from rubrank.fusion.stream.several import joined_csv, joined_scores
from rubrank.rollouts.columns import STEP_NAMES
from rubrank.rollouts.grouping import as_key
from rubrank.rollouts.rows import format_of_source, read_rows
from rubrank.rollouts.sources import STDIN, files_of, is_saved_dataset
from rubrank.scores.files import read_header

_STREAMED: dict[str, Callable[..., Reader]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": Csv,
    ".tsv": Csv,
    ".parquet": Parquet,
}

_Made = TypeVar("_Made", bound=Reader | None)


def open_table(source: Any, columns: Columns | None = None, any_order: bool = False) -> Reader:
    """The reader for a source; a table that is long is read as if it were wide."""
    try:
        reader = _opened(source)
    except BadTable:
        raise
    except InvalidInput as error:
        raise BadTable(error.owner, error.parameter, error.allowed, error.got, error.remedy) from None
    if reader.rubrics:
        return reader
    names = long_names(reader, columns or Columns())
    return reader if names is None else LongTable(reader, names, any_order)


def _opened(source: Any) -> Reader:
    if isinstance(source, str | Path) and not _is_dataset(source):
        files = files_of(source)
        kinds = {unpacked_suffix(file) for file in files}
        if len(files) == 1 and kinds <= _STREAMED.keys():
            return _file(files[0], source)
        if len(files) > 1 and (found := _several(files, Path(source), kinds)) is not None:
            return found
        if kinds == {".parquet"} and not _nested_prompt(files[0]):
            return Parquet(Path(source), files=files)
    return _spooled(source)


def _is_dataset(source: str | Path) -> bool:
    return str(source).startswith("hf:") or (str(source) != STDIN and is_saved_dataset(Path(source)))


def _file(path: Path, source: str | Path) -> Reader:
    with path.open("rb") as file:
        if not file.read(1):
            raise BadTable(str(source), "the table", "at least one row", "an empty file", "")
    kind = _STREAMED[unpacked_suffix(path)]
    header = None if kind is Csv else read_header(path)
    if header is None:
        return _spooled(path) if kind is Parquet and _nested_prompt(path) else kind(path)
    if not header.rubrics:
        raise BadTable(str(source), "the table", "at least one row", "none", "")
    return (LongScores if header.long else kind)(path, header.rubrics)


def _several(files: Sequence[Path], source: Path, kinds: set[str]) -> Reader | None:
    """Files that are read as one table of their own kind; None: they are rows like any others."""
    if kinds & {".jsonl", ".ndjson", ".parquet"}:
        return _with_folder(lambda folder: joined_scores(files, source, folder))
    if kinds <= {".csv", ".tsv"}:
        return _with_folder(lambda folder: joined_csv(files, source, folder))
    return None


def _with_folder(made: Callable[[Callable[[], Path]], _Made]) -> _Made:
    """A reader whose temporary folders go away with it, at the end of the process at the latest."""
    folders: list[Path] = []

    def folder() -> Path:
        folders.append(Path(tempfile.mkdtemp(prefix="rubrank-table-")))
        return folders[-1]

    reader = None
    try:
        reader = made(folder)
        return reader
    finally:
        for one in folders:
            if reader is None:
                shutil.rmtree(one, ignore_errors=True)
            else:
                weakref.finalize(reader, shutil.rmtree, one, ignore_errors=True)


def _nested_prompt(path: Path) -> bool:
    """Is the prompt, as a list of messages, all that could name a group?"""
    schema = Parquet(path).schema
    return not set(GROUP_NAMES) & set(schema) and "prompt" in schema and schema["prompt"].is_nested()


# ------------------------------------------------------------------------------------------------------------ spooling


def _spooled(source: Any) -> Reader:
    """The rows of any source in a temporary file, which goes away with its reader."""
    return _with_folder(lambda folder: _spooled_to(folder() / "rows.jsonl", source))


def _spooled_to(kept: Path, source: Any) -> Reader:
    numbers: dict[str, int] = {}
    with kept.open("w", encoding="utf-8", errors="surrogatepass") as file:
        for row in read_rows(source):
            file.write(json.dumps(_named(row, numbers), default=_json_value) + "\n")
    name = Path(source) if isinstance(source, str | Path) else Path(format_of_source(source))
    if not kept.stat().st_size:
        raise BadTable(str(name), "the table", "at least one row", "none", "")
    return JsonLines(name, at=kept)


def _named(row: Mapping[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """A row with a group of its own where only a prompt in messages names it; (step, prompt) where there is a step."""
    row = {str(key): value for key, value in row.items()}
    prompt = row.get("prompt")
    if isinstance(prompt, str | None) or any(row.get(name) is not None for name in GROUP_NAMES):
        return row
    step = next((row[name] for name in STEP_NAMES if row.get(name) is not None), None)
    key = as_key([step, prompt.tolist() if hasattr(prompt, "tolist") else prompt])
    return {"group": str(numbers.setdefault(key, len(numbers))), **row}


def _json_value(value: Any) -> Any:
    """What JSON does not know: NumPy's numbers and arrays, dates."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | tuple) else str(value)


def shape_of(reader: Reader, source: Any) -> str:
    """In words: "long CSV", "2 Parquet files", "Inspect log"."""
    kind = format_of_source(source) if str(source) != STDIN else "standard input"
    if isinstance(source, str | Path) and kind == "JSON" and _is_log(source):
        kind = "Inspect log"
    return f"long {kind}" if isinstance(reader, LongTable) else kind


def _is_log(source: str | Path) -> bool:
    first = next(iter(read_rows(source)), {})
    return type(first).__name__ == "LogRow"
