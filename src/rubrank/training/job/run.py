"""Run a plan with TRL's GRPOTrainer, which has the training loop.

    result = run(make_plan(load_job("config.yaml")))
    result.first["eval_rubrank/score"], result.last["eval_rubrank/score"]

The order of the prompts is laid out for the whole run (`data.py`), and the trainer takes the prompts in this order. So
all stages share one trainer, one optimizer and one series of checkpoints.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.training.evolution import make_callback
from rubrank.training.job.benchmarks import make_benchmark_callback
from rubrank.training.job.checks import describe_error, load_components
from rubrank.training.job.config import Job
from rubrank.training.job.data import STAGE, make_dataset
from rubrank.training.job.folder import MODEL, write_config
from rubrank.training.job.plan import Plan
from rubrank.training.job.policy import (
    find_model_path,
    has_weights,
    make_lora_config,
    make_quantization,
    overrule_launcher,
)
from rubrank.training.job.trl_config import make_arguments

_MOST_CRITERIA = 6  # criteria in the line that is printed for a step


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    steps: int
    records: Path
    model: Path
    log: tuple[Mapping[str, float], ...]
    """Everything that was logged, in order."""
    first: Mapping[str, float]
    """The evaluation before the run; empty without held-out prompts."""
    last: Mapping[str, float]
    """The last evaluation; empty without held-out prompts."""


@only_our_errors
def run(plan: Plan, callbacks: Sequence[Any] = ()) -> RunResult:
    """Train, evaluate and save. callbacks: more callbacks for the trainer."""
    trainer = make_trainer(plan, callbacks)
    if trainer.is_world_process_zero():
        write_config(plan.job, plan.fingerprint, plan.branch)
        if plan.checkpoint is None:
            # Drop the records of a run that did not reach its first checkpoint.
            plan.reward.engine.rewind(0)
    try:
        trainer.train(
            resume_from_checkpoint=None if plan.checkpoint is None else str(plan.checkpoint)
        )
        last_step = trainer.state.global_step
        is_evaluated = any(
            line["step"] == last_step and "eval_loss" in line for line in trainer.state.log_history
        )
        if plan.held_out and not is_evaluated:
            trainer.evaluate()
    finally:
        plan.reward.engine.finish_records()
    save_policy(trainer, plan.job.output / MODEL)
    trainer.save_state()
    log = tuple(trainer.state.log_history)
    evaluated = [line for line in log if any(name.startswith("eval_") for name in line)]
    first = [line for line in evaluated if line["step"] == 0]
    return RunResult(
        trainer.state.global_step,
        plan.job.records,
        plan.job.output / MODEL,
        log,
        first[0] if first else {},
        evaluated[-1] if evaluated else {},
    )


def save_policy(trainer: Any, folder: Path) -> None:
    """Save all weights, even if they are sharded over processes; raises if none were written."""
    if trainer.is_fsdp_enabled:
        # With SHARDED_STATE_DICT, which checkpoints may use, transformers silently saves no model.
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(folder))
    if trainer.is_world_process_zero() and not has_weights(folder):
        remedy = (
            "The last checkpoint has them: gather them there "
            "(ZeRO: zero_to_fp32.py; FSDP: accelerate merge-weights)."
        )
        raise InvalidInput("train", "model", "saved with its weights", f"none in {folder}", remedy)


def check_can_save(job: Job, trainer: Any) -> None:
    """Raise before training if the launcher's settings would not save weights at the end."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    if plugin is None:
        return
    zero = plugin.deepspeed_config.get("zero_optimization", {})
    if zero.get("stage") == 3 and not zero.get("stage3_gather_16bit_weights_on_model_save"):
        name = "stage3_gather_16bit_weights_on_model_save"
        remedy = "In accelerate's file it is zero3_save_16bit_model: true."
        raise job.invalid(f"DeepSpeed's {name}", "true, to save the policy", "false", remedy)


def make_trainer(plan: Plan, callbacks: Sequence[Any] = ()) -> Any:
    """The trainer, with the model loaded."""
    from transformers import PrinterCallback, set_seed
    from trl import GRPOTrainer

    overrule_launcher(plan.job)
    components = load_components(plan.job)
    own_callbacks = [plan.reward.callback, _make_printer()]
    if plan.reward.evolution is not None:
        own_callbacks.append(make_callback(plan.reward))
    set_seed(plan.job.config.seed)  # adapters are initialised before the trainer sets its seed
    try:
        trainer = GRPOTrainer(
            model=find_model_path(plan.job),
            reward_funcs=plan.reward,
            args=make_arguments(plan),
            train_dataset=add_stages(plan, make_dataset(plan.rows, plan.chat).select(plan.order)),
            eval_dataset=make_dataset(plan.held_out, plan.chat) if plan.held_out else None,
            callbacks=[*own_callbacks, *callbacks],
            peft_config=make_lora_config(plan.job),
            quantization_config=make_quantization(plan.job),
            tools=components.tools,
            environment_factory=components.environments,
            rollout_func=components.rollout,
        )
    except InvalidInput:
        raise
    except (ImportError, TypeError, ValueError) as error:  # settings that do not go together
        allowed = "what TRL's GRPOTrainer takes"
        raise plan.job.invalid("the config", allowed, describe_error(error)) from error
    check_can_save(plan.job, trainer)
    trainer.remove_callback(PrinterCallback)
    if (benchmarks := make_benchmark_callback(plan.job, trainer)) is not None:
        trainer.add_callback(benchmarks)
    return trainer


def add_stages(plan: Plan, dataset: Any) -> Any:
    """The dataset with a column for the stage of every prompt, if there are several stages."""
    if len(plan.stages) < 2:
        return dataset
    names = [
        stage.name
        for stage in plan.stages
        for source in stage.sources
        for _ in range(source.prompts)
    ]
    return dataset.add_column(STAGE, names)


def _make_printer() -> Any:
    """A callback that prints one short line for everything that is logged."""
    from transformers import TrainerCallback

    class LinePrinter(TrainerCallback):
        """Prints in the first process, to stderr."""

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
        ) -> None:
            if state.is_world_process_zero and logs:
                line = format_line(logs, state.global_step, state.max_steps)
                print(line, file=sys.stderr, flush=True)

    return LinePrinter()


def format_line(logs: Mapping[str, Any], step: int, steps: int) -> str:
    """One line about a step, such as "step 12 of 40: reward 0.53, score 0.6, tokens 31, NoComma 0.62".

    At most six criteria are shown; evaluations are marked as "held out".
    """
    is_evaluation = any(name.startswith("eval_") for name in logs)
    values = {name.removeprefix("eval_"): value for name, value in logs.items()}
    labels = {"reward": "reward", "rubrank/score": "score", "completions/mean_length": "tokens"}
    criteria = [name for name in values if name.startswith("rubrank/") and name.endswith("/mean")]
    for name in criteria[:_MOST_CRITERIA]:
        labels[name] = name.removeprefix("rubrank/").removesuffix("/mean")
    labels |= {name: name for name in values if name.startswith("benchmark/")}
    numbers = [
        f"{label} {float(values[name]):.3g}" for name, label in labels.items() if name in values
    ]
    text = ", ".join(numbers) or f"{float(logs.get('train_runtime', 0.0)):.0f} s"
    suffix = ", held out" if is_evaluation else ""
    return f"step {step} of {steps}{suffix}: {text}"
