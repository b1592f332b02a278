"""Benchmarks on the way: the policy as it is, every n steps, scored by the code of `rubrank eval`.

    evaluate: {every: 20, benchmarks: [ifeval], limit: 32, data: benchmarks/}

Before the first step, every n steps and at the end; numbers go where the trainer logs (`benchmark/ifeval`, in points
out of 100) and to OUTPUT/evaluations/step-000020/ifeval.json, which `rubrank eval table`, `compare` and
`rubrank report` read. Answers are greedy: nothing is drawn, and the run goes on as without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.evaluation.asking import ask_items
from rubrank.evaluation.benchmark import Benchmark, Row
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.data import items_of
from rubrank.evaluation.files import write_run
from rubrank.evaluation.generating import answers_of
from rubrank.evaluation.judging import judge_of
from rubrank.evaluation.scoring import Judge, score_rows
from rubrank.evaluation.table import points
from rubrank.training.job.config import Evaluate, Job

FOLDER = "evaluations"


def check_evaluation(job: Job) -> None:
    """Benchmarks are known, their data is there, and those that need a judge have one."""
    wanted = job.config.evaluate
    if wanted is not None:
        _items(job, wanted)
        if wanted.judges:
            judge_of(job.path(wanted.judges))


def _items(job: Job, wanted: Evaluate) -> list[tuple[Benchmark, list[Row]]]:
    found = []
    for name in wanted.benchmarks:
        benchmark = find_benchmark(name)
        if benchmark.judge and wanted.judges is None:
            remedy = "Name a file of judges with evaluate.judges, or leave the benchmark out."
            raise InvalidInput(job.where, "evaluate.benchmarks", "such that programs decide", repr(name), remedy)
        found.append((benchmark, list(islice(items_of(benchmark, job.path(wanted.data)), wanted.limit))))
    return found


def evaluating(job: Job, trainer: Any) -> Any:
    """The trainer's callback; None where the config asks for nothing."""
    wanted = job.config.evaluate
    if wanted is None:
        return None
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        got = "weights that are divided over processes"
        raise InvalidInput(job.where, "evaluate", "left out, or a policy that is whole on its device", got, "")
    judge, judge_name = judge_of(job.path(wanted.judges)) if wanted.judges else (None, "")
    return _callback(_Looking(job.output, wanted, trainer, _items(job, wanted), judge, judge_name))


@dataclass(frozen=True)
class _Looking:
    """What is asked of the policy, and where the numbers go."""

    output: Path
    wanted: Evaluate
    trainer: Any
    items: Sequence[tuple[Benchmark, list[Row]]]
    judge: Judge | None
    judge_name: str

    def look(self, step: int) -> None:
        """Ask, score, write, log."""
        from transformers import Trainer

        wanted, model = self.wanted, self.trainer.accelerator.unwrap_model(self.trainer.model)
        ask = answers_of(model, self.trainer.processing_class, max_tokens=wanted.max_tokens, batch=wanted.batch)
        logs = {}
        for benchmark, items in self.items:
            rows = ask_items(benchmark, items, ask)
            run = score_rows(rows, benchmark, judge=self.judge, model=f"step {step}", judge_name=self.judge_name)
            sampling = {"step": step, "limit": wanted.limit, "max_tokens": wanted.max_tokens, "temperature": 0.0}
            write_run(replace(run, sampling=sampling), _file(self.output, step, benchmark.name))
            logs[f"benchmark/{benchmark.name}"] = points(run)
        Trainer.log(self.trainer, logs)  # TRL's own would empty the means of the step under way


def _callback(looking: _Looking) -> Any:
    """Before the first step, every n steps, and after the last."""
    from transformers import TrainerCallback

    class Evaluating(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 0 and state.is_world_process_zero:
                looking.look(0)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            due = state.global_step % looking.wanted.every == 0 or state.global_step == state.max_steps
            if due and state.is_world_process_zero:
                looking.look(state.global_step)

    return Evaluating()


def _file(output: Path, step: int, name: str) -> Path:
    return output / FOLDER / f"step-{step:06d}" / f"{name}.json"
