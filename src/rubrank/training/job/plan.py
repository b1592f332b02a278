"""The plan of a run: checks everything that can be checked before a model is loaded, and describes the run.

    plan = make_plan(load_job("config.yaml"))
    print(plan.describe())
        config.yaml: 1,000 steps, 16 prompts × 8 rollouts a batch, seed 0, to out
        policy      Qwen/Qwen3-0.6B, LoRA r = 16, prompts as messages
        chat        steps 0–699: chat.jsonl 70% (7,840 prompts from 5,000 rows, 1.6 passes), …

Cheap checks come first: keys, installed packages, numbers that must fit, files and their columns, the rubric of every
row, the model's config and tokenizer, the output folder; last a health check of every judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._plain import validate_model
from rubrank.errors import only_our_errors
from rubrank.grading.plan import combine_rubrics
from rubrank.judges.judge import load_judges
from rubrank.options import EngineOptions
from rubrank.records.writer import Recording
from rubrank.rubrics.files import presets
from rubrank.training.controls import Control, make_control
from rubrank.training.engine import RewardEngine
from rubrank.training.job.benchmarks import check_evaluation
from rubrank.training.job.checks import (
    check_environments,
    check_installed,
    check_known,
    import_modules,
    load_components,
)
from rubrank.training.job.config import PRESETS, Job
from rubrank.training.job.data import (
    BatchSplit,
    JobData,
    StagePlan,
    count_processes,
    lay_out,
    mix_stage,
    plan_stages,
    read_data,
    split_batch,
)
from rubrank.training.job.folder import Branch, find_start
from rubrank.training.job.policy import (
    check_model,
    choose_dtype,
    describe_precision_change,
)
from rubrank.training.job.trl_config import check_arguments, make_arguments, try_arguments

if TYPE_CHECKING:
    from rubrank.training.frameworks.trl import RubricReward


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that `run` needs."""

    job: Job
    split: BatchSplit
    processes: int
    stages: tuple[StagePlan, ...]
    controls: tuple[Control, ...]
    chat: bool
    """Whether prompts are passed to the model as messages."""
    checkpoint: Path | None
    """Where the run begins; None: at step 0."""
    branch: Branch | None
    """The run from which this one branches off."""
    reward: Any = field(repr=False)
    """The `RubricReward`, with its rubric, judges and rule."""
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    order: np.ndarray = field(repr=False)
    """Indices into `rows`, in the order in which the run takes them."""
    held_out: tuple[Mapping[str, Any], ...] = field(repr=False)
    fingerprint: Mapping[str, Any] = field(repr=False)
    """Numbers of rows, and digests of the data and the rubric, which a resumed run must have as well."""

    def describe(self) -> str:
        """The plan in words, one line for each decision."""
        return describe_plan(self)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON data."""
        config = self.job.config
        judges = self.reward.engine.judges
        return {
            "config": config.model_dump(mode="json"),
            "steps": config.steps,
            "processes": self.processes,
            "batch": asdict(self.split),
            "chat": self.chat,
            "stages": [asdict(stage) for stage in self.stages],
            "attributes": [
                {"name": control.name, "adjust": str(control.adjust), "start": control.start}
                for control in self.controls
            ],
            "held_out": len(self.held_out),
            "judges": [] if judges is None else [judge.name for judge in judges.judges],
            "resume": None if self.checkpoint is None else str(self.checkpoint),
            "branch": None if self.branch is None else asdict(self.branch),
            "output": str(self.job.output),
        }


@only_our_errors
def make_plan(job: Job, *, resume: bool = False, branch: Path | None = None) -> Plan:
    """Check everything; raises for the first thing that is wrong.

    branch: a checkpoint of another run, which is continued with other control settings.
    """
    # Settings and packages
    config = job.config
    processes = count_processes()
    import_modules(job)
    check_installed(job)
    split = split_batch(config.training, config.held_out, processes, job.where)
    _check_steps(job)
    check_evaluation(job)
    # Reward and data
    reward = _make_reward(job)
    data = read_data(job)
    rubrics = []
    for source in (*data.training_sources.values(), *data.held_out_sources):
        for number, row in enumerate(source.rows, start=1):
            rubrics.append((row["rubric"], f"{source.path}: row {number}"))
    reward.engine.check_rubrics(rubrics)
    _check_adjusted_criteria(job, reward.engine, data)
    # Trainer and model
    check_arguments(job)
    all_rows = (*data.rows, *data.held_out_rows)
    check_environments(job, load_components(job).environments, all_rows)
    chat = check_model(job, all_rows)
    # The order of the prompts, the output folder, and last the judges, whose health check takes longest
    stages = [mix_stage(stage, config.training.updates_per_batch, data) for stage in config.stages]
    order = lay_out(stages, data.counts, config.training.prompts_per_batch, config.seed)
    fingerprint = data.make_fingerprint(reward.engine.rubric)
    checkpoint, run_branch = find_start(job, fingerprint, resume, branch)
    judges = reward.engine.judges
    if judges is not None and not judges.cache_only:
        from rubrank.judges.client.runtime import check_judges

        check_judges(judges)
    plan = Plan(
        job=job,
        split=split,
        processes=processes,
        stages=plan_stages(job, stages, data.counts),
        controls=reward.engine.controls,
        chat=chat,
        checkpoint=checkpoint,
        branch=run_branch,
        reward=reward,
        rows=data.rows,
        order=order,
        held_out=data.held_out_rows,
        fingerprint=fingerprint,
    )
    # GRPOConfig joins the distributed run. Without a launcher it would wait for processes that nobody started.
    if processes == 1 or "LOCAL_RANK" in os.environ:
        try_arguments(job, make_arguments(plan))
    return plan


# -------------------------------------------------------------------------------------------------------------- checks


def _check_steps(job: Job) -> None:
    """Raise for numbers of steps that do not fit together."""
    config = job.config
    updates = config.training.updates_per_batch
    steps = {f"steps of stage {stage.name!r}": stage.steps for stage in config.stages}
    steps["training.save_steps"] = config.training.save_steps
    for parameter, number in steps.items():
        if number % updates:
            allowed = f"a multiple of training.updates_per_batch ({updates})"
            remedy = (
                "A batch of rollouts belongs to one stage, and cannot be resumed in its middle."
            )
            raise job.invalid(parameter, allowed, str(number), remedy)
    warm_up = config.training.warmup_steps
    if warm_up > config.steps:
        allowed = f"≤ {config.steps}, the steps of the run"
        raise job.invalid("training.warmup_steps", allowed, str(warm_up))
    if warm_up and config.training.lr_scheduler_type == "constant":
        allowed = "0 with lr_scheduler_type: constant"
        remedy = "Use lr_scheduler_type: constant_with_warmup."
        raise job.invalid("training.warmup_steps", allowed, str(warm_up), remedy)
    for attribute in config.attributes:
        if attribute.start_step(config.steps) >= config.steps:
            allowed = f"before the end of the run, at step {config.steps}"
            parameter = f"start of {attribute.name!r}"
            raise job.invalid(parameter, allowed, repr(attribute.start), "Such as 70%.")


def _check_adjusted_criteria(job: Job, engine: RewardEngine, data: JobData) -> None:
    """Raise if `adjust_criteria` names a criterion that no row has."""
    names = job.config.adjust_criteria
    if not isinstance(names, tuple) or not names:
        return
    distinct_rubrics = {repr(row["rubric"]): row["rubric"] for row in data.rows}
    rubrics = [combine_rubrics(engine.rubric, rubric, "") for rubric in distinct_rubrics.values()]
    criterion_names = {criterion.name for rubric in rubrics for criterion in rubric.criteria}
    check_known(job, "adjust_criteria", names, criterion_names)


# -------------------------------------------------------------------------------------------------------------- reward


def _make_reward(job: Job) -> RubricReward:
    """Make the reward function; raises InvalidInput for options that it refuses."""
    from rubrank.training.frameworks.trl import RubricReward

    config = job.config
    options = {
        name: getattr(config, name)
        for name in EngineOptions.model_fields
        if name in config.model_fields_set
    }
    options["rubric"] = _find_file(job, config.rubric)
    if config.judges is not None:
        source = _find_file(job, config.judges)
        judges = load_judges(source, folder=None if isinstance(source, str) else job.path("."))
        # Replies are cached in the run's folder, so that a resumed run does not pay for them again.
        cache = judges.cache or str(job.output / "replies.sqlite")
        options["judges"] = judges.model_copy(update={"cache": cache})
    if "attributes" in config.model_fields_set:
        options["attributes"] = [
            make_control(config, attribute, config.steps) for attribute in config.attributes
        ]
    records = config.records
    options["records"] = Recording(
        job.records,
        every=records.every,
        texts=records.texts,
        background=True,
        rotate=records.rotate,
        most_bytes=_to_bytes(records.most_mb),
        most_bytes_a_day=_to_bytes(records.most_mb_a_day),
    )
    if config.cache is not None:
        options["cache"] = job.path(config.cache)
    reward = RubricReward(**options)
    reward.engine.check_scaling(
        job.where, "training.scale_rewards", config.training.scale_rewards != "none"
    )
    if config.evolve is not None:
        _start_evolution(job, reward)
    return reward


def _start_evolution(job: Job, reward: RubricReward) -> None:
    """Let the rubrics of the run evolve. Replies of the writers are cached in its folder, like those of judges."""
    from rubrank.drafting.evolution import EvolveOptions, RubricEvolution
    from rubrank.drafting.writers import load_writers
    from rubrank.training.evolution import LOG_NAME, start_evolution

    options = validate_model(
        EvolveOptions, job.config.evolve, f"{job.where}: evolve", "docs/drafting.md"
    )
    writers = load_writers(_find_file(job, options.writers))
    writers = writers.model_copy(
        update={"cache": writers.cache or str(job.output / "writers.sqlite")}
    )
    prompts = None if options.prompts is None else str(job.path(options.prompts))
    options = options.model_copy(update={"writers": writers, "prompts": prompts})
    start_evolution(reward, RubricEvolution(options, reward.engine.judges, job.output / LOG_NAME))


def _to_bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else round(1e6 * megabytes)


def _find_file(job: Job, value: Any) -> Any:
    """Return the path of a file relative to the config; the name of a preset, and data, stay as they are."""
    if isinstance(value, str) and value not in presets():
        return str(job.path(value))
    return value


# -------------------------------------------------------------------------------------------------------- description

# Settings whose defaults are smaller than the paper's.
_SIZES = ("prompts_per_batch", "max_completion_length")
_POOLS = {"run": "the run", "batch": "each batch", "group": "each group by itself, as in the paper"}


def describe_plan(plan: Plan) -> str:
    """Describe the plan in words, one line for each decision."""
    config = plan.job.config
    training = config.training
    lines = [*_describe_policy(plan), *_describe_prompts(plan), *_describe_reward(plan)]
    algorithm = f"{training.loss_type}, ratios by {training.importance_sampling_level}"
    if algorithm == "grpo, ratios by sequence":
        algorithm = "GSPO"
    optimizer = f"{training.optim} at {training.learning_rate:g} ({training.lr_scheduler_type})"
    clipping = f"clip {training.epsilon:g} / {training.epsilon_high:g}, β = {training.beta:g}"
    limit = f"at most {training.max_completion_length:,} tokens"
    lines.append(("trainer", f"{algorithm}, {optimizer}, {clipping}, {limit}"))
    portions = (
        f"{plan.split.per_device} rollouts at a time, {plan.split.accumulation} times for an update"
    )
    lines.append(("devices", f"processes: {plan.processes}, {portions}"))
    loggers = ", ".join(config.report_to) or "none"
    lines.append(("logs", f"{loggers}; a checkpoint every {training.save_steps} steps"))
    sizes = [
        f"{name} {getattr(training, name):,} (paper: {PRESETS['paper'][name]:,})"
        for name in _SIZES
        if name not in training.model_fields_set
    ]
    if sizes:
        hint = "smaller than the paper's; `preset: paper` has its sizes"
        lines.append(("defaults", f"{', '.join(sizes)}: {hint}"))
    if plan.checkpoint is not None:
        lines.append(("resumes", f"from {plan.checkpoint}"))
    if plan.branch is not None:
        changes = [
            f"{name} {change['before']!r} → {change['now']!r}"
            for name, change in plan.branch.changed.items()
        ]
        run = Path(plan.branch.checkpoint).parent
        lines.append(("branch", f"of {run}: {', '.join(changes) or 'nothing changed'}"))
    batch = f"{training.prompts_per_batch} prompts × {training.num_generations} rollouts"
    title = f"{plan.job.where}: {config.steps:,} steps, {batch} a batch, seed {config.seed}, to {plan.job.output}"
    return "\n".join([title, *(f"{label:<12}{text}" for label, text in lines)])


def _describe_policy(plan: Plan) -> Iterator[tuple[str, str]]:
    model = plan.job.config.model
    weights = "all weights" if model.lora is None else f"LoRA r = {model.lora.r}"
    prompts = "prompts as messages" if plan.chat else "prompts as texts"
    yield "policy", f"{model.path}, {weights}, {choose_dtype(plan.job)}, {prompts}"
    if precision := describe_precision_change(plan.job):
        yield "precision", precision


def _describe_prompts(plan: Plan) -> Iterator[tuple[str, str]]:
    config = plan.job.config
    for stage in plan.stages:
        sources = [
            f"{source.path} {source.share:.0%} ({source.prompts:,} prompts from {source.rows:,} rows, "
            f"{source.prompts / source.rows:.1f} passes)"
            for source in stage.sources
        ]
        yield stage.name, f"steps {stage.first:,}–{stage.last:,}: {'; '.join(sources)}"
    if config.held_out is not None:
        rollouts = config.held_out.rollouts or config.training.num_generations
        prompts = f"{len(plan.held_out):,} prompts × {rollouts}"
        yield "held out", f"{prompts} every {config.held_out.every} steps"
    if config.evaluate is not None:
        names = ", ".join(config.evaluate.benchmarks)
        items = config.evaluate.limit or "all"
        yield "benchmarks", f"{names}, {items} items, every {config.evaluate.every} steps"


def _describe_reward(plan: Plan) -> Iterator[tuple[str, str]]:
    config = plan.job.config
    engine = plan.reward.engine
    shared_criteria = 0 if engine.rubric is None else len(engine.rubric.criteria)
    own_rubrics = sum(row["rubric"] is not None for row in plan.rows)
    criteria = f"{shared_criteria} criteria for all, {own_rubrics:,} of {len(plan.rows):,} rows have their own"
    judges = "no judge"
    adjusted = "no criterion: none is judged, and adjust_criteria names none"
    if engine.judges is not None:
        judges = f"judges {', '.join(judge.name for judge in engine.judges.judges)}"
        adjusted = "judged criteria"
    yield "reward", f"{config.rule}; {criteria}; {judges}"
    for control in plan.controls:
        yield "attribute", f"{control.name}: {control.adjust} from step {control.start:,} on"
    if config.adjust_criteria == "all":
        adjusted = "all criteria"
    elif config.adjust_criteria is not None:
        adjusted = ", ".join(config.adjust_criteria)
    if plan.controls:
        yield "control", f"estimated over {_POOLS[config.pool or 'run']}; of {adjusted}"
    if plan.reward.evolution is not None:
        options = plan.reward.evolution.options
        limits = f"at most {options.most_items} items for a prompt, {options.most_queries} prompts at a time"
        yield "evolve", f"every {options.every} steps, {limits}"
