"""The benchmarks' own data: found below a folder, checked, never downloaded unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Benchmark, DataFile, Row
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class
from rubrank.evaluation.files import checksum, read_outputs

_ENDINGS = ("", ".gz")


def find_file(wanted: DataFile, folder: Path | None) -> Path | None:
    """A file below the folder, packed or not; None where it is not there."""
    if folder is None:
        return None
    if folder.is_file():
        return folder
    for ending in _ENDINGS:
        path = folder / f"{wanted.name}{ending}"
        if path.is_file():
            return path
    return None


def items_of(benchmark: Benchmark, folder: Path | None) -> Iterator[Row]:
    """The items of a benchmark; one clear message, with the command that gets them, where they are not there."""
    for wanted in benchmark.data:
        path = find_file(wanted, folder)
        if path is None:
            place = folder or Path("the folder given by --data")
            raise InvalidInput(
                f"benchmark {benchmark.name}",
                "data",
                f"in {place / wanted.name}",
                "no such file",
                f"Get it: {wanted.get}.",
            )
        if wanted.sha256 and path.suffix != ".gz" and checksum(path) != wanted.sha256:
            raise InvalidInput(f"benchmark {benchmark.name}", str(path), "as published", "another checksum", "")
        yield from read_outputs(path)


def listing(folder: Path | None) -> list[dict[str, Any]]:
    """Every benchmark with its facts, and whether its data is there."""
    found = []
    for name in BENCHMARKS:
        one = benchmark_class(name)
        path = find_file(one.data[0], folder)
        found.append(
            {
                "name": name,
                "title": one.title,
                "capability": one.capability,
                "metric": one.headline,
                "judge": one.judge,
                "licence": one.licence,
                "data": str(path) if path else "not there" if folder else "give --data",
                "sha256": checksum(path) if path else None,
                "get": one.data[0].get,
                "settings": {key: setting.default for key, setting in one.settings.items()},
            }
        )
    return found
