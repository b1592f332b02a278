"""A plan in words, one line for each thing that is decided."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rubrank._plain import labelled
from rubrank.training.job.config import PRESETS
from rubrank.training.job.precision import describe_precision_change, model_dtype

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan, SourcePlan

_line = partial(labelled, width=12)
_SIZES = ("prompts_per_batch", "max_completion_length")


def describe(plan: Plan) -> str:
    """Lines for a reader."""
    config, training = plan.job.config, plan.job.config.training
    batch = f"{training.prompts_per_batch} prompts × {training.num_generations} rollouts"
    lines = [f"{plan.job.where}: {config.steps:,} steps, {batch} a batch, seed {config.seed}, to {plan.job.output}"]
    lines.append(_line("policy", _policy(plan)))
    precision = describe_precision_change(plan.job)
    if precision:
        lines.append(_line("precision", precision))
    for stage in plan.stages:
        sources = "; ".join(map(_source, stage.sources))
        lines.append(_line(stage.name, f"steps {stage.first:,}–{stage.last:,}: {sources}"))
    if config.held_out is not None:
        rollouts = config.held_out.rollouts or training.num_generations
        lines.append(
            _line("held out", f"{len(plan.held_out):,} prompts × {rollouts} every {config.held_out.every} steps")
        )
    if config.evaluate is not None:
        names, some = ", ".join(config.evaluate.benchmarks), config.evaluate.limit or "all"
        lines.append(_line("benchmarks", f"{names}, {some} items, every {config.evaluate.every} steps"))
    lines.append(_line("reward", _reward(plan)))
    for control in plan.controls:
        lines.append(_line("attribute", f"{control.name}: {control.adjust} from step {control.start:,} on"))
    if plan.controls:
        lines.append(_line("control", _control(plan)))
    lines.append(_line("trainer", _trainer(plan)))
    lines.append(_line("devices", _devices(plan)))
    lines.append(
        _line("logs", f"{', '.join(config.report_to) or 'none'}; a checkpoint every {training.save_steps} steps")
    )
    small = _small_defaults(plan)
    if small:
        lines.append(_line("defaults", small))
    if plan.checkpoint is not None:
        lines.append(_line("resumes", f"from {plan.checkpoint}"))
    if plan.branch is not None:
        changed = [f"{name} {was!r} → {now!r}" for name, (was, now) in plan.branch.changed.items()]
        lines.append(_line("branch", f"of {plan.branch.checkpoint.parent}: {', '.join(changed) or 'nothing changed'}"))
    return "\n".join(lines)


def _small_defaults(plan: Plan) -> str:
    """What was not set, and is smaller than in the paper."""
    training, paper = plan.job.config.training, PRESETS["paper"]
    small = [name for name in _SIZES if name not in training.model_fields_set]
    if not small:
        return ""
    said = ", ".join(f"{name} {getattr(training, name):,} (paper: {paper[name]:,})" for name in small)
    return f"{said}: small, not the paper's; preset paper has those"


def _policy(plan: Plan) -> str:
    model = plan.job.config.model
    how = "all weights" if model.lora is None else f"LoRA r = {model.lora.r}"
    return f"{model.path}, {how}, {model_dtype(plan.job)}, prompts as {'messages' if plan.chat else 'texts'}"


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
    return f"{config.rule}; {shared} criteria for all, {own:,} of {len(plan.rows):,} rows have their own; {judges}"


def _control(plan: Plan) -> str:
    config = plan.job.config
    over = {"run": "the run", "batch": "each batch", "group": "each group by itself, as in the paper"}
    said = f"estimated over {over[config.pool or 'run']}; of "
    if config.adjust_criteria is None and plan.reward.engine.judges is None:
        return f"{said}no criterion: none is judged, and adjust_criteria names none"
    named = config.adjust_criteria
    return said + ("judged criteria" if named is None else "all criteria" if named == "all" else ", ".join(named))


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
