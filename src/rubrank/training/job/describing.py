"""A plan in words, one line for each thing that is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan, SourcePlan

_WIDTH = 12


def describe(plan: Plan) -> str:
    """Lines for a reader."""
    config, training = plan.job.config, plan.job.config.training
    batch = f"{training.prompts_per_batch} prompts × {training.num_generations} rollouts"
    lines = [f"{plan.job.where}: {config.steps:,} steps, {batch} a batch, seed {config.seed}, to {plan.job.output}"]
    lines.append(_line("policy", _policy(plan)))
    for stage in plan.stages:
        sources = "; ".join(map(_source, stage.sources))
        lines.append(_line(stage.name, f"steps {stage.first:,}–{stage.last:,}: {sources}"))
    if config.held_out is not None:
        rollouts = config.held_out.rollouts or training.num_generations
        lines.append(
            _line("held out", f"{len(plan.held_out):,} prompts × {rollouts} every {config.held_out.every} steps")
        )
    lines.append(_line("reward", _reward(plan)))
    for control in plan.controls:
        lines.append(_line("attribute", f"{control.name}: {control.adjust} from step {control.start:,} on"))
    lines.append(_line("trainer", _trainer(plan)))
    lines.append(_line("devices", _devices(plan)))
    lines.append(
        _line("logs", f"{', '.join(config.report_to) or 'none'}; a checkpoint every {training.save_steps} steps")
    )
    if plan.checkpoint is not None:
        lines.append(_line("goes on", f"from {plan.checkpoint}"))
    return "\n".join(lines)


def _line(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}{text}"


def _policy(plan: Plan) -> str:
    model = plan.job.config.model
    how = "all weights" if model.lora is None else f"LoRA r = {model.lora.r}"
    return f"{model.path}, {how}, {model.dtype}, prompts as {'messages' if plan.chat else 'texts'}"


def _source(source: SourcePlan) -> str:
    passes = f"{source.passes:.1f} passes" if source.passes >= 0.95 else f"{source.passes:.0%} of them"
    return f"{source.path} {source.share:.0%} ({source.prompts:,} prompts from {source.rows:,} rows, {passes})"


def _reward(plan: Plan) -> str:
    engine, config = plan.reward.engine, plan.job.config
    shared = 0 if engine.rubric is None else len(engine.rubric.criteria)
    own = sum(row["rubric"] is not None for row in plan.rows)
    judges = (
        "no judge" if engine.judges is None else f"judges {', '.join(judge.name for judge in engine.judges.judges)}"
    )
    return f"{config.rule}; {shared} criteria for all, {own:,} of {len(plan.rows):,} rows bring their own; {judges}"


def _trainer(plan: Plan) -> str:
    t = plan.job.config.training
    is_gspo = t.importance_sampling_level == "sequence" and t.loss_type == "grpo"
    name = "GSPO" if is_gspo else f"{t.loss_type}, ratios by {t.importance_sampling_level}"
    clip = f"clip {t.epsilon:g} / {t.epsilon_high:g}"
    rate = f"{t.optim} at {t.learning_rate:g} ({t.lr_scheduler_type})"
    return f"{name}, {rate}, {clip}, β = {t.beta:g}, at most {t.max_completion_length:,} tokens"


def _devices(plan: Plan) -> str:
    one, cut = plan.processes == 1, plan.cut
    processes = "1 process" if one else f"{plan.processes} processes"
    return f"{processes}, {cut.per_device} rollouts at a time, {cut.accumulation} times for an update"
