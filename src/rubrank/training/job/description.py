"""A plan in words, one line for each decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubrank._plain import labelled
from rubrank.training.job.config import PRESETS
from rubrank.training.job.precision import describe_precision_change, model_dtype

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan

_WIDTH = 12
_SIZES = ("prompts_per_batch", "max_completion_length")
_POOLS = {"run": "the run", "batch": "each batch", "group": "each group by itself, as in the paper"}


def describe(plan: Plan) -> str:
    """The lines, for a reader."""
    config = plan.job.config
    training = config.training
    lines: list[tuple[str, str]] = [("policy", _describe_policy(plan))]
    if precision := describe_precision_change(plan.job):
        lines.append(("precision", precision))
    for stage in plan.stages:
        sources = []
        for source in stage.sources:
            passes = f"{source.passes:.1f} passes" if source.passes >= 0.95 else f"{source.passes:.0%} of them"
            use = f"{source.prompts:,} prompts from {source.rows:,} rows, {passes}"
            sources.append(f"{source.path} {source.share:.0%} ({use})")
        lines.append((stage.name, f"steps {stage.first:,}–{stage.last:,}: {'; '.join(sources)}"))
    if config.held_out is not None:
        rollouts = config.held_out.rollouts or training.num_generations
        prompts = f"{len(plan.held_out):,} prompts × {rollouts}"
        lines.append(("held out", f"{prompts} every {config.held_out.every} steps"))
    if config.evaluate is not None:
        names = ", ".join(config.evaluate.benchmarks)
        items = config.evaluate.limit or "all"
        lines.append(("benchmarks", f"{names}, {items} items, every {config.evaluate.every} steps"))
    lines.append(("reward", _describe_reward(plan)))
    for control in plan.controls:
        lines.append(("attribute", f"{control.name}: {control.adjust} from step {control.start:,} on"))
    if plan.controls:
        lines.append(("control", _describe_control(plan)))
    lines.append(("trainer", _describe_trainer(plan)))
    processes = "1 process" if plan.processes == 1 else f"{plan.processes} processes"
    portions = f"{plan.split.per_device} rollouts at a time, {plan.split.accumulation} times for an update"
    lines.append(("devices", f"{processes}, {portions}"))
    loggers = ", ".join(config.report_to) or "none"
    lines.append(("logs", f"{loggers}; a checkpoint every {training.save_steps} steps"))
    default_sizes = [name for name in _SIZES if name not in training.model_fields_set]
    if default_sizes:
        paper = PRESETS["paper"]
        sizes = [f"{name} {getattr(training, name):,} (paper: {paper[name]:,})" for name in default_sizes]
        lines.append(("defaults", f"{', '.join(sizes)}: small, not the paper's; preset paper has those"))
    if plan.checkpoint is not None:
        lines.append(("resumes", f"from {plan.checkpoint}"))
    if plan.branch is not None:
        changes = [f"{name} {before!r} → {now!r}" for name, (before, now) in plan.branch.changed.items()]
        lines.append(("branch", f"of {plan.branch.checkpoint.parent}: {', '.join(changes) or 'nothing changed'}"))
    batch = f"{training.prompts_per_batch} prompts × {training.num_generations} rollouts"
    title = f"{plan.job.where}: {config.steps:,} steps, {batch} a batch, seed {config.seed}, to {plan.job.output}"
    return "\n".join([title, *(labelled(label, text, width=_WIDTH) for label, text in lines)])


def _describe_policy(plan: Plan) -> str:
    model = plan.job.config.model
    weights = "all weights" if model.lora is None else f"LoRA r = {model.lora.r}"
    prompts = "messages" if plan.chat else "texts"
    return f"{model.path}, {weights}, {model_dtype(plan.job)}, prompts as {prompts}"


def _describe_reward(plan: Plan) -> str:
    engine = plan.reward.engine
    shared = 0 if engine.rubric is None else len(engine.rubric.criteria)
    own = sum(row["rubric"] is not None for row in plan.rows)
    judges = "no judge"
    if engine.judges is not None:
        judges = f"judges {', '.join(judge.name for judge in engine.judges.judges)}"
    criteria = f"{shared} criteria for all, {own:,} of {len(plan.rows):,} rows have their own"
    return f"{plan.job.config.rule}; {criteria}; {judges}"


def _describe_control(plan: Plan) -> str:
    config = plan.job.config
    names = config.adjust_criteria
    if names is None and plan.reward.engine.judges is None:
        criteria = "no criterion: none is judged, and adjust_criteria names none"
    elif names is None:
        criteria = "judged criteria"
    elif names == "all":
        criteria = "all criteria"
    else:
        criteria = ", ".join(names)
    return f"estimated over {_POOLS[config.pool or 'run']}; of {criteria}"


def _describe_trainer(plan: Plan) -> str:
    training = plan.job.config.training
    algorithm = f"{training.loss_type}, ratios by {training.importance_sampling_level}"
    if training.importance_sampling_level == "sequence" and training.loss_type == "grpo":
        algorithm = "GSPO"
    optimizer = f"{training.optim} at {training.learning_rate:g} ({training.lr_scheduler_type})"
    clipping = f"clip {training.epsilon:g} / {training.epsilon_high:g}"
    limit = f"at most {training.max_completion_length:,} tokens"
    return f"{algorithm}, {optimizer}, {clipping}, β = {training.beta:g}, {limit}"
