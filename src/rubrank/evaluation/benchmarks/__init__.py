"""The benchmarks, grouped by how they are graded; `rubrank.evaluation.benchmark` has their contract."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rubrank.errors import UnknownName, only_our_errors
from rubrank.evaluation.benchmark import Benchmark

# In the order of the paper's table.
BENCHMARKS = {
    "sysbench": "conversations.SysBench",
    "advancedif": "conversations.AdvancedIF",
    "ifeval": "instructions.IFEval",
    "ifbench": "instructions.IFBench",
    "multichallenge": "conversations.MultiChallenge",
    "simpleqa": "judged_questions.SimpleQA",
    "chinese-simpleqa": "judged_questions.ChineseSimpleQA",
    "longbench-v2": "multiple_choice.LongBench",
    "longproc": "longproc.LongProc",
    "helmet": "helmet.Helmet",
    "frames": "judged_questions.Frames",
    "aa-lcr": "judged_questions.AALCR",
    "gpqa": "multiple_choice.GPQA",
    "mmlu-pro": "multiple_choice.MMLUPro",
    "arena-hard-v2": "open_ended.ArenaHard",
    "eqbench3": "open_ended.EQBench",
}
SUITES = {"rlvr2": tuple(BENCHMARKS)}


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
