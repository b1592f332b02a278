"""The benchmarks' own data: a file below a folder first, then, where that is allowed, the hub.

items_of(benchmark, Path("benchmarks"))              one clear message, with the command, where it is not there
items_of(benchmark, Path("benchmarks"), hub=True)    what is not there is loaded by its name on the hub
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, optional_package
from rubrank.evaluation.benchmark import Benchmark, DataFile, Row
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class
from rubrank.evaluation.files import checksum, read_outputs

_ENDINGS = ("", ".gz", ".zst")
_SPLITS = ("test", "eval", "validation", "train")
"""The first of these that a data set has holds what is asked."""


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


def items_of(benchmark: Benchmark, folder: Path | None, *, hub: bool = False) -> Iterator[Row]:
    """The items of a benchmark; one clear message, with the command that gets them, where they are not there."""
    wanted = benchmark.data
    path = find_file(wanted, folder)
    if path is not None:
        return iter(read_outputs(path))
    if hub and wanted.hub is not None:
        return iter(hub_rows(wanted.hub, benchmark.name))
    place = folder or Path("the data folder")
    remedy = f"Get it: {wanted.get}" + (", or load it from the hub: `hub=true`." if wanted.hub and not hub else ".")
    raise InvalidInput(f"benchmark {benchmark.name}", "data", f"in {place / wanted.name}", "no such file", remedy)


def hub_rows(name: str, benchmark: str) -> Iterable[Row]:
    """The rows of a data set on the hub, of the split that holds the questions."""
    datasets = optional_package("datasets", f"benchmark {benchmark}: hub")
    try:
        found: Any = datasets.load_dataset(name)
    except Exception as error:  # the hub has many ways to say no
        said = shortened(" ".join(str(error).split()) or type(error).__name__, 240)
        remedy = f"Get it: huggingface-cli download --repo-type dataset {name}."
        raise InvalidInput(f"benchmark {benchmark}", "hub", f"a hub that gives {name}", said, remedy) from None
    if not isinstance(found, Mapping):
        return (dict(row) for row in found)
    split = next((split for split in _SPLITS if split in found), None)
    if split is None and len(found) != 1:
        allowed = f"such that one is {', '.join(_SPLITS)}"
        raise InvalidInput(f"benchmark {benchmark}", f"splits of {name}", allowed, ", ".join(found), "")
    return (dict(row) for row in found[split or next(iter(found))])


def listing(folder: Path | None) -> list[dict[str, Any]]:
    """Every benchmark with its facts, and whether its data is there."""
    found = []
    for name in BENCHMARKS:
        one = benchmark_class(name)
        path = find_file(one.data, folder)
        found.append(
            {
                "name": name,
                "title": one.title,
                "capability": one.capability,
                "metric": one.headline,
                "judge": one.judge,
                "licence": one.licence,
                "data": str(path) if path else "not there" if folder else "no data folder given",
                "sha256": checksum(path) if path else None,
                "get": one.data.get,
                "hub": one.data.hub,
                "settings": {key: setting.default for key, setting in one.settings.items()},
            }
        )
    return found
