"""The benchmarks, one module each; see `rubrank.evaluation.benchmark` for the contract."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rubrank.errors import UnknownName, only_our_errors
from rubrank.evaluation.benchmark import Benchmark

# In the order of the paper's table.
BENCHMARKS = {
    "sysbench": "sysbench.SysBench",
    "advancedif": "advancedif.AdvancedIF",
    "ifeval": "instructions.IFEval",
    "ifbench": "instructions.IFBench",
    "multichallenge": "multichallenge.MultiChallenge",
    "simpleqa": "simpleqa.SimpleQA",
    "chinese-simpleqa": "simpleqa.ChineseSimpleQA",
    "longbench-v2": "longbench.LongBench",
    "longproc": "longproc.LongProc",
    "helmet": "helmet.Helmet",
    "frames": "frames.Frames",
    "aa-lcr": "aa_lcr.AALCR",
    "gpqa": "gpqa.GPQA",
    "mmlu-pro": "mmlu_pro.MMLUPro",
    "arena-hard-v2": "arena_hard.ArenaHard",
    "eqbench3": "eqbench.EQBench",
}
SUITES = {"rlvr2": tuple(BENCHMARKS)}


def benchmark_class(name: str) -> type[Benchmark]:
    """The class of a benchmark."""
    key = name.lower().replace("_", "-")
    if key not in BENCHMARKS:
        raise UnknownName.of("rubrank eval", "benchmark", name, BENCHMARKS)
    module, _, attribute = BENCHMARKS[key].partition(".")
    benchmark: type[Benchmark] = getattr(import_module(f"rubrank.evaluation.benchmarks.{module}"), attribute)
    return benchmark


@only_our_errors
def find_benchmark(name: str, **settings: Any) -> Benchmark:
    """A benchmark with its settings."""
    return benchmark_class(name)(**settings)
