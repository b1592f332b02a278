"""`rubrank eval run`: run a model on the benchmarks of a suite, through Inspect's eval sets.

Logs go to OUTPUT/logs/BENCHMARK, where Inspect finds the finished part of an interrupted run. Scored runs go to
OUTPUT/BENCHMARK.json, which `rubrank eval table` and `compare` read. A benchmark that cannot start (no data, no judge)
is skipped with a message, one that does not finish is reported as failed, and the rest of the suite goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, RubrankError, UnknownName, import_optional
from rubrank.evaluation.benchmark import Benchmark, Row
from rubrank.evaluation.benchmarks import SUITES, benchmark_class, find_benchmark, load_items
from rubrank.evaluation.judge import FileJudge, open_judge
from rubrank.evaluation.runs import EvalRun, make_run, write_run
from rubrank.evaluation.table import CapabilityTable, capability_table
from rubrank.grading.progress import Bar

_LOCAL = "hf/"
"""Prefix of the models that Inspect runs in this process."""
_REPEAT_SETTINGS = ("repeats", "attempts")
"""Settings of benchmarks that say how often each item is answered."""


@dataclass(frozen=True)
class RunOptions:
    """The options of `rubrank eval run`."""

    model: str
    """Inspect's name of the model: hf/PATH, openai-api/PROVIDER/NAME …"""
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
    """Samples in flight; for a local model, samples generated together."""
    repeats: int | None = None
    """Answers to each item; None: the benchmark's default."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the benchmarks, such as compat; each benchmark takes those that it has."""
    hub: bool = False
    """Load data that is not below `data` from the hub."""

    def sampling(self) -> dict[str, Any]:
        """Return the sampling options, as recorded beside the numbers."""
        return {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}

    def generation(self) -> dict[str, Any]:
        """Return the sampling options as arguments of Inspect."""
        arguments = {name: value for name, value in self.sampling().items() if value is not None}
        if self.temperature == 0.0 and self.model.startswith(_LOCAL):
            # Transformers refuses a temperature of 0; greedy decoding is its own option there.
            del arguments["temperature"]
            arguments["model_args"] = {"do_sample": False}
        if self.base_url:
            arguments["model_base_url"] = self.base_url
        return arguments

    def benchmarks(self) -> tuple[str, ...]:
        """Return the names of the benchmarks to run. Raises UnknownName for an unknown suite or benchmark."""
        if self.suite not in SUITES:
            raise UnknownName.of("eval run", "suite", self.suite, SUITES)
        if self.only is None:
            return SUITES[self.suite]
        names = [name.strip() for name in self.only.split(",") if name.strip()]
        return tuple(find_benchmark(name).name for name in names)


@dataclass(frozen=True)
class SuiteResult:
    """The result of a suite."""

    table: CapabilityTable | None
    """None if no benchmark was finished."""
    skipped: tuple[str, ...]
    """Messages about benchmarks that could not start: no data, no judge."""
    failed: tuple[str, ...]
    """Messages about benchmarks that were started and not finished."""


def run_suite(options: RunOptions, model: Any = None) -> SuiteResult:
    """Run every benchmark that can be run. The judge is checked before anything is sampled.

    model: an Inspect model; by default the one that `options.model` names.
    """
    import_optional("inspect_ai", "eval run", "'rubrank[eval]'")
    names = options.benchmarks()
    check_settings(options.settings, names)
    judge: FileJudge | None = None
    judge_name = ""
    if options.judge:
        judge, judge_name = open_judge(options.judge)
    # 1. Read the data of every benchmark; those that cannot start are skipped.
    ready: list[tuple[Benchmark, list[Row]]] = []
    skipped = []
    for name in names:
        try:
            benchmark = configure_benchmark(name, options)
            if benchmark.judge and judge is None:
                remedy = "Name a file of judges: `judge=FILE`."
                raise InvalidInput(f"benchmark {name}", "judge", "given", "none", remedy)
            ready.append((benchmark, _read_items(benchmark, options)))
        except RubrankError as error:
            skipped.append(str(error))
    # 2. Check the judge. Otherwise one that is down would be noticed only when the first sample is scored, and Inspect
    # would then sample again.
    if judge is not None and any(benchmark.judge for benchmark, _ in ready):
        judge.check()
    # 3. Run the benchmarks one after another.
    runs = []
    failed = []
    for benchmark, items in ready:
        try:
            runs.append(_run_benchmark(benchmark, items, options, judge, judge_name, model))
        except RubrankError as error:
            failed.append(str(error))
    table = capability_table(runs) if runs else None
    return SuiteResult(table, tuple(skipped), tuple(failed))


def check_settings(settings: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise UnknownName for a setting that none of the benchmarks has."""
    allowed = {setting for name in names for setting in benchmark_class(name).settings}
    for setting in settings:
        if setting not in allowed:
            raise UnknownName.of("eval run", "settings", setting, allowed)


def configure_benchmark(name: str, options: RunOptions) -> Benchmark:
    """Return a benchmark with the settings that apply to it. `repeats` sets its setting `repeats` or `attempts`."""
    allowed = benchmark_class(name).settings
    settings = {setting: value for setting, value in options.settings.items() if setting in allowed}
    if options.repeats is not None:
        settings |= {setting: options.repeats for setting in _REPEAT_SETTINGS if setting in allowed}
    return find_benchmark(name, **settings)


def _read_items(benchmark: Benchmark, options: RunOptions) -> list[Row]:
    """Load the items of a benchmark, at most `options.limit`."""
    items = list(islice(load_items(benchmark, options.data, hub=options.hub), options.limit))
    if options.model.startswith(_LOCAL):
        # Prompts that are generated together are padded to the longest: sort them by length.
        items.sort(
            key=lambda item: sum(len(message["content"]) for message in benchmark.prompt(item))
        )
    return items


def _run_benchmark(
    benchmark: Benchmark,
    items: list[Row],
    options: RunOptions,
    judge: FileJudge | None,
    judge_name: str,
    model: Any,
) -> EvalRun:
    """Run one benchmark through Inspect, and write its scored run. Raises RubrankError if it is not finished."""
    from inspect_ai import eval_set
    from inspect_ai.log import read_eval_log

    from rubrank.evaluation.inspect import benchmark_task, read_scores

    repeats = options.repeats or 1
    for setting in _REPEAT_SETTINGS:
        if setting in benchmark.options:
            repeats = int(benchmark.options[setting])
            break
    cost_before = judge.cost if judge else 0.0
    total = len(items) * repeats
    done = 0
    tokens = 0

    def count_sample(state: Any) -> None:
        nonlocal done, tokens
        done += 1
        if state.output.usage:
            tokens += state.output.usage.total_tokens
        bar(done, total)
        cost = f", judging cost {judge.cost:.4f}" if judge else ""
        bar.tell(f"{tokens:,} tokens{cost}")

    with Bar(benchmark.title) as bar:
        success, logs = eval_set(
            benchmark_task(benchmark, items, judge=judge, epochs=repeats, on_score=count_sample),
            log_dir=str(options.output / "logs" / benchmark.name),
            model=model or options.model,
            display="none" if sys.stderr.isatty() else "plain",  # a terminal shows our own bar
            max_connections=options.batch,
            max_samples=options.batch,
            log_buffer=1,  # a killed run loses no sample that was answered
            **options.generation(),
        )
    full_logs = [read_eval_log(log.location) for log in logs]
    scores = [score for log in full_logs for score in read_scores(log)]
    if not success or not scores:
        raise RubrankError(
            f"benchmark {benchmark.name}: not finished; run the same command again to continue"
        )
    usage: dict[str, float] = {"input_tokens": 0, "output_tokens": 0}
    for log in full_logs:
        if log.stats:
            for model_usage in log.stats.model_usage.values():
                usage["input_tokens"] += model_usage.input_tokens
                usage["output_tokens"] += model_usage.output_tokens
    if judge and benchmark.judge:
        usage["judge_cost"] = judge.cost - cost_before
    run = make_run(
        benchmark, scores, model=options.model, judge=judge_name if benchmark.judge else ""
    )
    run = replace(
        run,
        sampling={**options.sampling(), "repeats": repeats, "limit": options.limit},
        usage=usage,
    )
    write_run(run, options.output / f"{benchmark.name}.json")
    return run
