"""`rubrank eval run`: the benchmarks whose data is there, on a model, through Inspect's eval sets.

Logs go to OUTPUT/logs/BENCHMARK, where Inspect finds what an interrupted run has finished; scored runs to
OUTPUT/BENCHMARK.json, which `rubrank eval table` and `compare` read. A benchmark without data is one message, and the
rest of the suite goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.evaluation.benchmark import Benchmark, ItemScore
from rubrank.evaluation.benchmarks import SUITES, find_benchmark
from rubrank.evaluation.data import items_of
from rubrank.evaluation.files import write_run
from rubrank.evaluation.judging import judge_of
from rubrank.evaluation.scoring import EvalRun, Judge
from rubrank.evaluation.table import CapabilityTable, capability_table


@dataclass(frozen=True)
class RunOptions:
    """What `rubrank eval run` was asked for."""

    model: str
    """As Inspect names models: hf/PATH, openai-api/PROVIDER/NAME …"""
    suite: str = "rlvr2"
    only: str | None = None
    limit: int | None = None
    data: Path | None = None
    judge: Path | None = None
    output: Path = Path("out/eval")
    base_url: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int = 0
    batch: int | None = None
    """Samples under way at once; of a local model, how many are generated together."""

    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks that are meant."""
        if self.suite not in SUITES:
            raise UnknownName.of("eval run", "--suite", self.suite, SUITES)
        names = SUITES[self.suite]
        if self.only is None:
            return names
        wanted = [name.strip() for name in self.only.split(",") if name.strip()]
        return tuple(find_benchmark(name).name for name in wanted)


def run_suite(options: RunOptions, model: Any = None) -> tuple[CapabilityTable | None, list[str]]:
    """Run what can be run; the table of it (None: nothing could), and what could not and why."""
    _installed()
    names = options.benchmarks()
    asked, judge_name = judge_of(options.judge) if options.judge else (None, "")
    runs, problems = [], []
    for name in names:
        try:
            benchmark = find_benchmark(name)
            if benchmark.judge and asked is None:
                raise InvalidInput(f"benchmark {name}", "judge", "given", "none", "Name one with --judge judges.yaml.")
            runs.append(_run_one(benchmark, options, asked, judge_name, model))
        except RubrankError as error:
            problems.append(str(error))
    return (capability_table(runs) if runs else None), problems


def _run_one(benchmark: Benchmark, options: RunOptions, judge: Judge | None, judge_name: str, model: Any) -> EvalRun:
    from inspect_ai import eval_set
    from inspect_ai.log import read_eval_log

    from rubrank.evaluation.inspect import benchmark_task, scores_of

    items = list(islice(items_of(benchmark, options.data), options.limit))
    repeats = int(benchmark.options.get("repeats", benchmark.options.get("attempts", 1)))
    sampling = {
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
    }
    given: dict[str, Any] = {name: value for name, value in sampling.items() if value is not None}
    if options.base_url:
        given["model_base_url"] = options.base_url
    success, logs = eval_set(
        benchmark_task(benchmark, items, judge=judge, epochs=repeats),
        log_dir=str(options.output / "logs" / benchmark.name),
        model=model or options.model,
        display="plain",
        max_connections=options.batch,
        max_samples=options.batch,
        log_buffer=1,  # a killed run has lost nothing that was answered
        **given,
    )
    whole = [read_eval_log(log.location) for log in logs]
    scores = [score for log in whole for score in scores_of(log)]
    if not success or not scores:
        raise RubrankError(f"benchmark {benchmark.name}: not finished; run the same command again to go on")
    run = scored_run(benchmark, scores, model=options.model, judge=judge_name)
    run = replace(run, sampling={**sampling, "repeats": repeats, "limit": options.limit})
    write_run(run, options.output / f"{benchmark.name}.json")
    return run


def scored_run(benchmark: Benchmark, scores: Sequence[ItemScore], *, model: str, judge: str) -> EvalRun:
    """Scores that were made elsewhere, as a run."""
    there = [score for score in scores if not score.missing]
    metrics = benchmark.metrics(there) if there else {benchmark.headline: float("nan")}
    return EvalRun(benchmark.name, model, dict(benchmark.options), tuple(scores), metrics, judge)


def _installed() -> None:
    try:
        import inspect_ai  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "eval run", "inspect_ai", "installed", "no such package", "pip install 'rubrank[eval]'."
        ) from None
