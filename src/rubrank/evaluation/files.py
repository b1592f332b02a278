"""Runs on disk: one JSON file for a benchmark and a model, made by `rubrank eval score` and `run`.

{"kind": "rubrank eval", "version": 1, "benchmark": "sysbench", "model": "a", "metrics": {"ISR": 0.76}, "scores": […]}
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rubrank._files import atomic_write, data_suffix, read_text, require_file
from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import ItemScore, Row
from rubrank.evaluation.scoring import EvalRun
from rubrank.tables.rows import read_rows

_KIND, _VERSION = "rubrank eval", 1


def read_outputs(path: str | Path) -> Iterator[Row]:
    """Rows of a file of outputs; a JSON object with `rows` is taken for these."""
    path = Path(path)
    if data_suffix(path) == ".json" and path.is_file():
        data = _json_of(path)
        if isinstance(data, Mapping) and isinstance(data.get("rows"), list):
            yield from data["rows"]
            return
    yield from read_rows(path)


def _json_of(path: Path) -> Any:
    """None where it is not JSON: reading its rows says what is wrong."""
    try:
        return json.loads(read_text(path))
    except ValueError:
        return None


def write_run(run: EvalRun, path: str | Path) -> None:
    """Write a run; the file appears whole or not at all."""
    data = {"kind": _KIND, "version": _VERSION, **run.summary(), "scores": [asdict(score) for score in run.scores]}
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")


def read_run(path: str | Path) -> EvalRun:
    """A run that `write_run` wrote."""
    source = require_file(path)
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
        if data["kind"] != _KIND:
            raise KeyError("kind")
        given = {one.name: data[one.name] for one in fields(EvalRun) if one.name in data}
        given["scores"] = tuple(map(ItemScore.of, data["scores"]))
        given["metrics"] = {name: math.nan if value is None else value for name, value in data["metrics"].items()}
        given["reasoning_words"] = math.nan if data["reasoning_words"] is None else data["reasoning_words"]
        return EvalRun(**given | {"notes": tuple(data.get("notes", ()))})
    except (ValueError, KeyError, TypeError):
        remedy = "`rubrank eval score` and `rubrank eval run` write such files."
        raise InvalidInput("eval", "run", "a file of a scored run", str(source), remedy) from None


def read_runs(paths: Iterable[str | Path]) -> list[EvalRun]:
    """Runs of files, and of all JSON files in folders but Inspect's own, which stand beside its logs."""
    files: list[Path] = []
    for path in map(Path, paths):
        files += _runs_below(path) if path.is_dir() else [path]
    if not files:
        raise InvalidInput("eval", "runs", "at least one file of a scored run", "none", "")
    return [read_run(file) for file in files]


def _runs_below(folder: Path) -> list[Path]:
    logs = {name.parent for mark in ("*.eval", "eval-set.json", ".eval-set-id") for name in folder.rglob(mark)}
    return [file for file in sorted(folder.rglob("*.json")) if file.parent not in logs]


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
