"""`rubrank eval run`: the benchmarks whose data is there, on a model, through Inspect's eval sets.

Logs go to OUTPUT/logs/BENCHMARK, where Inspect finds what an interrupted run has finished; scored runs to
OUTPUT/BENCHMARK.json, which `rubrank eval table` and `compare` read. A benchmark without data is one message, and the
rest of the suite goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, RubrankError, UnknownName, optional_package
from rubrank.evaluation.benchmark import Benchmark, Row
from rubrank.evaluation.benchmarks import SUITES, benchmark_class, find_benchmark
from rubrank.evaluation.data import items_of
from rubrank.evaluation.files import write_run
from rubrank.evaluation.judging import FileJudge, judge_of
from rubrank.evaluation.scoring import EvalRun, scored_run
from rubrank.evaluation.table import CapabilityTable, capability_table
from rubrank.grading.progress import Bar

_LOCAL = "hf/"
"""Before the names of models that Inspect runs in this process."""
_REPEATS = ("repeats", "attempts")


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
    repeats: int | None = None
    """Answers to an item; None: as the benchmark has it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the benchmarks, such as compat; each takes those that it has."""
    hub: bool = False
    """Load from the hub what is not below `data`."""

    def sampling(self) -> dict[str, Any]:
        """What stands beside the number."""
        return {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}

    def generation(self) -> dict[str, Any]:
        """The same as Inspect takes it. Transformers has no temperature of 0: that is not to sample."""
        given = {name: value for name, value in self.sampling().items() if value is not None}
        if self.temperature == 0.0 and self.model.startswith(_LOCAL):
            del given["temperature"]
            given["model_args"] = {"do_sample": False}
        return {**given, "model_base_url": self.base_url} if self.base_url else given

    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks that are meant."""
        if self.suite not in SUITES:
            raise UnknownName.of("eval run", "suite", self.suite, SUITES)
        names = SUITES[self.suite]
        if self.only is None:
            return names
        wanted = [name.strip() for name in self.only.split(",") if name.strip()]
        return tuple(find_benchmark(name).name for name in wanted)


def run_suite(options: RunOptions, model: Any = None) -> tuple[CapabilityTable | None, list[str]]:
    """Run what can be run; the table of it (None: nothing could), and what could not and why."""
    optional_package("inspect_ai", "eval run", "'rubrank[eval]'")
    names = options.benchmarks()
    check_settings(options.settings, names)
    asked, judge_name = judge_of(options.judge) if options.judge else (None, "")
    runs, problems = [], []
    for name in names:
        try:
            benchmark = configured(name, options)
            if benchmark.judge and asked is None:
                raise InvalidInput(
                    f"benchmark {name}", "judge", "given", "none", "Name a file of judges: `judge=judges.yaml`."
                )
            runs.append(_run_one(benchmark, options, asked, judge_name, model))
        except RubrankError as error:
            problems.append(str(error))
    return (capability_table(runs) if runs else None), problems


def check_settings(settings: Mapping[str, Any], names: Sequence[str]) -> None:
    """A setting that none of the benchmarks has is a slip."""
    known = {setting for name in names for setting in benchmark_class(name).settings}
    for setting in settings:
        if setting not in known:
            raise UnknownName.of("eval run", "settings", setting, known)


def configured(name: str, options: RunOptions) -> Benchmark:
    """A benchmark with those of the settings that it has; repeats is one of them where it has its own name for it."""
    has = benchmark_class(name).settings
    given = {setting: value for setting, value in options.settings.items() if setting in has}
    if options.repeats is not None:
        given |= {setting: options.repeats for setting in _REPEATS if setting in has}
    return find_benchmark(name, **given)


def _run_one(
    benchmark: Benchmark, options: RunOptions, judge: FileJudge | None, judge_name: str, model: Any
) -> EvalRun:
    from inspect_ai import eval_set
    from inspect_ai.log import read_eval_log

    from rubrank.evaluation.inspect import benchmark_task, scores_of

    items = _ordered(benchmark, islice(items_of(benchmark, options.data, hub=options.hub), options.limit), options)
    own = [int(benchmark.options[name]) for name in _REPEATS if name in benchmark.options]
    repeats = own[0] if own else options.repeats or 1
    spent = judge.cost if judge else 0.0
    with Watch(benchmark.title, len(items) * repeats, judge) as watch:
        success, logs = eval_set(
            benchmark_task(benchmark, items, judge=judge, epochs=repeats, scored=watch.scored),
            log_dir=str(options.output / "logs" / benchmark.name),
            model=model or options.model,
            display="none" if watch.shown else "plain",
            max_connections=options.batch,
            max_samples=options.batch,
            log_buffer=1,  # a killed run has lost nothing that was answered
            **options.generation(),
        )
    whole = [read_eval_log(log.location) for log in logs]
    scores = [score for log in whole for score in scores_of(log)]
    if not success or not scores:
        raise RubrankError(f"benchmark {benchmark.name}: not finished; run the same command again to continue")
    run = scored_run(benchmark, scores, model=options.model, judge=judge_name)
    usage = {**tokens_of(whole), **({"judge_cost": judge.cost - spent} if judge and benchmark.judge else {})}
    run = replace(run, sampling={**options.sampling(), "repeats": repeats, "limit": options.limit}, usage=usage)
    write_run(run, options.output / f"{benchmark.name}.json")
    return run


def _ordered(benchmark: Benchmark, items: Iterable[Row], options: RunOptions) -> list[Row]:
    """For a local model by the length of the prompt: what is generated together is padded to the longest."""
    found = list(items)
    if not options.model.startswith(_LOCAL):
        return found
    return sorted(found, key=lambda item: sum(len(message["content"]) for message in benchmark.prompt(item)))


class Watch(AbstractContextManager["Watch"]):
    """The progress bar of a benchmark: samples, the model's tokens, what judging cost. Only on a terminal."""

    def __init__(self, title: str, total: int, judge: FileJudge | None) -> None:
        self._bar, self._total, self._judge = Bar(title), total, judge
        self._done, self._tokens = 0, 0
        self.shown = sys.stderr.isatty()

    def scored(self, state: Any) -> None:
        """A sample has its score."""
        usage = state.output.usage
        self._done, self._tokens = self._done + 1, self._tokens + (usage.total_tokens if usage else 0)
        self._bar(self._done, self._total)
        cost = f", judging cost {self._judge.cost:.4f}" if self._judge else ""
        self._bar.tell(f"{self._tokens:,} tokens{cost}")

    def __exit__(self, *given: object) -> None:
        self._bar.__exit__(*given)


def tokens_of(logs: Iterable[Any]) -> dict[str, float]:
    """What the model read and wrote."""
    used = [usage for log in logs if log.stats for usage in log.stats.model_usage.values()]
    return {
        "input_tokens": sum(usage.input_tokens for usage in used),
        "output_tokens": sum(usage.output_tokens for usage in used),
    }
