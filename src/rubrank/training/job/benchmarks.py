"""Benchmarks during a run: the policy answers their items every n steps, and the code of `rubrank eval` scores them.

    evaluate: {every: 20, benchmarks: [ifeval], limit: 32, data: benchmarks/}

They run before the first step, every n steps and at the end. The numbers go to the trainer's log (`benchmark/ifeval`,
in points out of 100) and to OUTPUT/evaluations/step-000020/ifeval.json, which `rubrank eval table`, `compare` and
`rubrank report` read. Answers are greedy: no random number is drawn, so that benchmarks do not change the run.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from rubrank.evaluation.benchmark import Benchmark, Row
from rubrank.evaluation.benchmarks import find_benchmark, load_items
from rubrank.evaluation.generation import ask_items, make_generator
from rubrank.evaluation.judge import open_judge
from rubrank.evaluation.runs import score_rows, write_run
from rubrank.evaluation.table import points
from rubrank.training.job.config import Evaluate, Job

FOLDER = "evaluations"


def check_evaluation(job: Job) -> None:
    """Raise InvalidInput for an unknown benchmark, missing data, or a missing judge, before the model is loaded."""
    settings = job.config.evaluate
    if settings is not None:
        _load_items(job, settings)
        if settings.judges:
            open_judge(job.path(settings.judges))


def _load_items(job: Job, settings: Evaluate) -> list[tuple[Benchmark, list[Row]]]:
    """Return the benchmarks of the config with their items; raises for one that needs a judge if there is none."""
    benchmarks = []
    for name in settings.benchmarks:
        benchmark = find_benchmark(name)
        if benchmark.judge and settings.judges is None:
            allowed = "benchmarks that need no judge"
            remedy = "Name a file of judges with evaluate.judges, or leave the benchmark out."
            raise job.invalid("evaluate.benchmarks", allowed, got=repr(name), remedy=remedy)
        items = islice(load_items(benchmark, job.path(settings.data)), settings.limit)
        benchmarks.append((benchmark, list(items)))
    return benchmarks


def make_benchmark_callback(job: Job, trainer: Any) -> Any:
    """Make the trainer's callback that runs the benchmarks; None if the config has none.

    Raises InvalidInput if weights are sharded: only the first process generates, and it needs all of them.
    """
    from transformers import Trainer, TrainerCallback

    settings = job.config.evaluate
    if settings is None:
        return None
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        allowed = "left out, unless every device holds all weights"
        raise job.invalid("evaluate", allowed, "weights that are sharded over processes")
    judge, judge_name = open_judge(job.path(settings.judges)) if settings.judges else (None, "")
    benchmarks = _load_items(job, settings)
    every = settings.every

    def evaluate(step: int) -> None:
        """Let the policy answer all items; score, write and log the results."""
        generate = make_generator(
            trainer.accelerator.unwrap_model(trainer.model),
            trainer.processing_class,
            max_tokens=settings.max_tokens,
            batch=settings.batch,
        )
        sampling = {
            "step": step,
            "limit": settings.limit,
            "max_tokens": settings.max_tokens,
            "temperature": 0.0,
        }
        logs = {}
        for benchmark, items in benchmarks:
            rows = ask_items(benchmark, items, generate)
            run = score_rows(
                rows, benchmark, judge=judge, model=f"step {step}", judge_name=judge_name
            )
            file = job.output / FOLDER / f"step-{step:06d}" / f"{benchmark.name}.json"
            write_run(replace(run, sampling=sampling), file)
            logs[f"benchmark/{benchmark.name}"] = points(run)
        Trainer.log(trainer, logs)  # TRL's own `log` would clear the means of the current step

    class BenchmarkCallback(TrainerCallback):
        """Evaluates before the first step, every n steps, and after the last."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 0 and state.is_world_process_zero:
                evaluate(0)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            step = state.global_step
            is_due = step % every == 0 or step == state.max_steps
            if is_due and state.is_world_process_zero:
                evaluate(step)

    return BenchmarkCallback()
