"""The benchmarks by name, grouped in modules by how they are graded, and where their data comes from.

    benchmark = find_benchmark("ifeval", compat="fixed")
    load_items(benchmark, Path("benchmarks"))              if the file is missing, the error names the command
    load_items(benchmark, Path("benchmarks"), hub=True)    loads a missing file from the Hugging Face hub

`rubrank.evaluation.benchmark` has the contract of a benchmark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rubrank._files import data_suffix, read_text
from rubrank._plain import shorten
from rubrank.errors import InvalidInput, UnknownName, import_optional, only_our_errors
from rubrank.evaluation.benchmark import Benchmark, DataFile, Row
from rubrank.tables.sources import read_rows

# In the order of the paper's table.
BENCHMARKS = {
    "sysbench": "conversations.SysBench",
    "advancedif": "conversations.AdvancedIF",
    "ifeval": "checked_answers.IFEval",
    "ifbench": "checked_answers.IFBench",
    "multichallenge": "conversations.MultiChallenge",
    "simpleqa": "judged_questions.SimpleQA",
    "chinese-simpleqa": "judged_questions.ChineseSimpleQA",
    "longbench-v2": "checked_answers.LongBench",
    "longproc": "longproc.LongProc",
    "helmet": "helmet.Helmet",
    "frames": "judged_questions.Frames",
    "aa-lcr": "judged_questions.AALCR",
    "gpqa": "checked_answers.GPQA",
    "mmlu-pro": "checked_answers.MMLUPro",
    "arena-hard-v2": "open_ended.ArenaHard",
    "eqbench3": "open_ended.EQBench",
}
SUITES = {"rlvr2": tuple(BENCHMARKS)}
_ENDINGS = ("", ".gz", ".zst")
_SPLITS = ("test", "eval", "validation", "train")
"""In order of preference: the first split that a data set has is used."""


def benchmark_class(name: str) -> type[Benchmark]:
    """Return the class of a benchmark. Raises UnknownName if there is none of this name."""
    key = name.lower().replace("_", "-")
    if key not in BENCHMARKS:
        raise UnknownName.of("rubrank eval", "benchmark", name, BENCHMARKS)
    module, _, attribute = BENCHMARKS[key].partition(".")
    benchmark: type[Benchmark] = getattr(
        import_module(f"rubrank.evaluation.benchmarks.{module}"), attribute
    )
    return benchmark


@only_our_errors
def find_benchmark(name: str, **settings: Any) -> Benchmark:
    """Return a benchmark with its settings."""
    return benchmark_class(name)(**settings)


# --------------------------------------------------------------------------------------------------- outputs and data


def read_outputs(path: str | Path) -> Iterator[Row]:
    """Yield the rows of a file of outputs; a JSON object with `rows` is read as these rows."""
    path = Path(path)
    if data_suffix(path) == ".json" and path.is_file():
        try:
            data = json.loads(read_text(path))
        except (ValueError, RecursionError):
            data = None  # `read_rows` below says what is wrong with the file
        if isinstance(data, Mapping) and isinstance(data.get("rows"), list):
            yield from data["rows"]
            return
    yield from read_rows(path)


def find_file(data: DataFile, folder: Path | None) -> Path | None:
    """Find the data file in a folder, compressed or not; None if it is missing."""
    if folder is None:
        return None
    if folder.is_file():
        return folder
    for ending in _ENDINGS:
        path = folder / f"{data.name}{ending}"
        if path.is_file():
            return path
    return None


def load_items(benchmark: Benchmark, folder: Path | None, *, hub: bool = False) -> Iterator[Row]:
    """Load the items of a benchmark. Raises InvalidInput, with the command that gets the data, if they are missing."""
    data = benchmark.data
    path = find_file(data, folder)
    if path is not None:
        return iter(read_outputs(path))
    if hub and data.hub is not None:
        return iter(load_from_hub(data.hub, data.hub_file, benchmark.name))
    place = folder or Path("the data folder")
    hint = ", or load it from the hub: `hub=true`" if data.hub and not hub else ""
    remedy = f"Get it: {data.get}{hint}."
    allowed = f"in {place / data.name}"
    raise InvalidInput(f"benchmark {benchmark.name}", "data", allowed, "no such file", remedy)


def load_from_hub(name: str, file: str | None, benchmark: str) -> Iterable[Row]:
    """Load the rows of a data set on the hub, from the split that contains the questions.

    file: read only this file. A data set with several configurations cannot be loaded as a whole.
    """
    datasets = import_optional("datasets", f"benchmark {benchmark}: hub")
    try:
        dataset: Any = datasets.load_dataset(name, data_files=file)
    except Exception as error:  # the hub client raises errors of many packages
        text = shorten(" ".join(str(error).split()) or type(error).__name__, 240)
        allowed = f"a hub that gives {name}"
        remedy = f"Get it: huggingface-cli download --repo-type dataset {name}."
        raise InvalidInput(f"benchmark {benchmark}", "hub", allowed, text, remedy) from None
    split = next((split for split in _SPLITS if split in dataset), None)
    if split is None:
        allowed = f"with one of {', '.join(_SPLITS)}"
        raise InvalidInput(
            f"benchmark {benchmark}", f"splits of {name}", allowed, ", ".join(dataset)
        )
    return (dict(row) for row in dataset[split])


def describe_benchmarks(folder: Path | None) -> list[dict[str, Any]]:
    """Describe every benchmark, and whether its data file is in the folder."""
    descriptions = []
    for name in BENCHMARKS:
        benchmark = benchmark_class(name)
        path = find_file(benchmark.data, folder)
        if path is not None:
            place = str(path)
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            place = "missing" if folder else "no data folder given"
            checksum = None
        descriptions.append(
            {
                "name": name,
                "title": benchmark.title,
                "capability": benchmark.capability,
                "metric": benchmark.headline,
                "judge": benchmark.judge,
                "licence": benchmark.licence,
                "data": place,
                "sha256": checksum,
                "get": benchmark.data.get,
                "hub": benchmark.data.hub,
                "settings": {key: setting.default for key, setting in benchmark.settings.items()},
            }
        )
    return descriptions
