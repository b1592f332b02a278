"""A config, checked in everything that can be known before a model is loaded, and what will be done.

    plan = make_plan(load_job("config.yaml"))
    print(plan.describe())
        config.yaml: 1,000 steps of 16 prompts × 8 rollouts, seed 0, to out
        policy      Qwen/Qwen3-0.6B, LoRA r = 16, prompts as messages
        chat        steps 0–699: chat.jsonl 70% (7,840 of 5,000 prompts, 1.6 passes), …

In the order of what it costs: keys, what is installed, numbers that must fit, files and their columns, every row's
rubric, the model's config and tokenizer, the output folder; at last a health check of every judge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.judges.judge import Judges, load_judges
from rubrank.options import EngineOptions
from rubrank.records.writing import Recording
from rubrank.rubrics.rubric import Rubric
from rubrank.training.controls import Control, control_of
from rubrank.training.engine import RewardEngine
from rubrank.training.job.adapters import adapters
from rubrank.training.job.arguments import arguments, check_arguments
from rubrank.training.job.batching import Cut, cut, processes
from rubrank.training.job.config import Job, Stage
from rubrank.training.job.evaluating import check_evaluation
from rubrank.training.job.folder import Branch, start_of
from rubrank.training.job.mixing import MixStage, lay_out
from rubrank.training.job.named import check_environments, import_modules, named
from rubrank.training.job.policy import check_init, check_installed, check_model
from rubrank.training.job.rehearsing import check_known, rehearse
from rubrank.training.job.sources import SOURCE, Read, identity, read_source


@dataclass(frozen=True)
class SourcePlan:
    """What a stage takes of a source."""

    path: str
    rows: int
    share: float
    prompts: int

    @property
    def passes(self) -> float:
        """How often a row comes up."""
        return self.prompts / self.rows


@dataclass(frozen=True)
class StagePlan:
    """A stage: steps from `first` to `last`."""

    name: str
    first: int
    last: int
    sources: tuple[SourcePlan, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be done; `run` does it."""

    job: Job
    cut: Cut
    processes: int
    stages: tuple[StagePlan, ...]
    controls: tuple[Control, ...]
    chat: bool
    checkpoint: Path | None
    branch: Branch | None
    """What the run left another for."""
    reward: Any = field(repr=False)
    """The `RubricReward`, with its rubric, judges and rule."""
    rows: tuple[Mapping[str, Any], ...] = field(repr=False)
    order: np.ndarray = field(repr=False)
    """Which of the rows the run takes, one after the other."""
    held_out: tuple[Mapping[str, Any], ...] = field(repr=False)
    sizes: Mapping[str, Any] = field(repr=False)
    """What was read, for a run that goes on: rows of the sources, and digests of their contents and the rubric's."""

    def describe(self) -> str:
        """For a reader."""
        from rubrank.training.job.describing import describe

        return describe(self)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        config = self.job.config
        return {
            "config": config.model_dump(mode="json"),
            "steps": config.steps,
            "processes": self.processes,
            "batch": asdict(self.cut),
            "chat": self.chat,
            "stages": [asdict(stage) for stage in self.stages],
            "attributes": [{"name": c.name, "adjust": str(c.adjust), "start": c.start} for c in self.controls],
            "held_out": len(self.held_out),
            "judges": [] if self.reward.engine.judges is None else [j.name for j in self.reward.engine.judges.judges],
            "resume": None if self.checkpoint is None else str(self.checkpoint),
            "branch": None if self.branch is None else self.branch.as_dict(),
            "output": str(self.job.output),
        }


@only_our_errors
def make_plan(job: Job, *, resume: bool = False, branch: Path | None = None) -> Plan:
    """Check everything; raises the first thing that is wrong. branch: a checkpoint of another run to continue from."""
    config, world = job.config, processes()
    import_modules(job)
    check_installed(job)
    batch = cut(config.training, config.held_out, world, job.where)
    _check_steps(job)
    check_evaluation(job)
    controls = tuple(control_of(config, attribute, config.steps) for attribute in config.attributes)
    reward = _reward(job, controls)
    data = _data(job)
    reward.engine.check_rubrics(
        (row["rubric"], f"{one.source.path}: row {number}")
        for one in [*data.trained.values(), *data.held_out]
        for number, row in enumerate(one.rows, start=1)
    )
    _check_adjusted(job, reward.engine, data)
    check_arguments(job)
    check_init(job)
    adapters(job)
    check_environments(job, named(job).environments, (*data.rows, *data.held_out_rows))
    chat = check_model(job, (*data.rows, *data.held_out_rows))
    parts = [_part(stage, config.training.updates_per_batch, data) for stage in config.stages]
    order = lay_out(parts, data.counts, config.training.prompts_per_batch, config.seed)
    sizes = data.sizes(reward.engine.rubric)
    start = start_of(job, sizes, resume, branch)
    _check_judges(reward.engine.judges)
    plan = Plan(
        job=job,
        cut=batch,
        processes=world,
        stages=_stages(job, parts, order, data.counts),
        controls=controls,
        chat=chat,
        checkpoint=start.checkpoint,
        branch=start.branch,
        reward=reward,
        rows=data.rows,
        order=order,
        held_out=data.held_out_rows,
        sizes=sizes,
    )
    if world == 1 or "LOCAL_RANK" in os.environ:  # elsewhere it would wait for processes that were not started
        rehearse(job, arguments(plan))
    return plan


# --------------------------------------------------------------------------------------------------------------- checks


def _check_steps(job: Job) -> None:
    updates = job.config.training.updates_per_batch
    for stage in job.config.stages:
        if stage.steps % updates:
            raise InvalidInput(
                job.where,
                f"steps of stage {stage.name!r}",
                f"a multiple of training.updates_per_batch ({updates})",
                str(stage.steps),
                "A batch of rollouts is of one stage.",
            )
    late = [
        attribute for attribute in job.config.attributes if attribute.start_step(job.config.steps) >= job.config.steps
    ]
    if late:
        allowed = f"before the end of the run, at step {job.config.steps}"
        raise InvalidInput(job.where, f"start of {late[0].name!r}", allowed, repr(late[0].start), "Such as 70%.")


def _reward(job: Job, controls: Sequence[Control]) -> Any:
    from rubrank.training.frameworks.trl import RubricReward

    config = job.config
    options = {name: getattr(config, name) for name in EngineOptions.model_fields if name in config.model_fields_set}
    options["rubric"] = _file_or_data(job, config.rubric)
    options["judges"] = _judges(job)
    options["attributes"] = controls
    options["records"] = _recording(job)
    if config.cache is not None:
        options["cache"] = job.path(config.cache)
    reward = RubricReward(**options)
    reward.engine.check_scaling(job.where, "training.scale_rewards", config.training.scale_rewards != "none")
    return reward


def _check_adjusted(job: Job, engine: RewardEngine, data: _Data) -> None:
    """Criteria that are adjusted for attributes are some that queries are asked."""
    wanted = job.config.adjust_criteria
    if not isinstance(wanted, tuple) or not wanted:
        return
    own = {repr(row["rubric"]): row["rubric"] for one in data.trained.values() for row in one.rows}
    known = {criterion.name for rubric in own.values() for criterion in engine.whole_rubric(rubric, "").criteria}
    check_known(job, "adjust_criteria", wanted, known)


def _recording(job: Job) -> Recording:
    wanted = job.config.records
    limits = (None if most is None else round(1e6 * most) for most in (wanted.most_mb, wanted.most_mb_a_day))
    return Recording(job.records, wanted.every, wanted.texts, True, wanted.rotate, *limits)


def _file_or_data(job: Job, given: Any) -> Any:
    """A text is a preset, or a file beside the config."""
    from rubrank.rubrics.files import presets

    return str(job.path(given)) if isinstance(given, str) and given not in presets() else given


def _judges(job: Job) -> Judges | None:
    """Their replies are kept in the run's folder, unless they say where: what is made again is not paid again."""
    if job.config.judges is None:
        return None
    given = _file_or_data(job, job.config.judges)
    if not isinstance(given, str | Mapping):
        raise InvalidInput(job.where, "judges", "a file, or what it would hold", repr(given), "See docs/judges.md.")
    judges = load_judges(given, folder=None if isinstance(given, str) else job.path("."))
    return judges.model_copy(update={"cache": judges.cache or str(job.output / "replies.sqlite")})


def _check_judges(judges: Judges | None) -> None:
    from rubrank.judges.clients import check_judges

    if judges is not None and not judges.cache_only:
        check_judges(judges)


@dataclass(frozen=True, eq=False)
class _Data:
    """Everything that was read; a source that several stages name is read once."""

    trained: Mapping[Any, Read]
    held_out: Sequence[Read]

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        return tuple({**row, SOURCE: one.source.path} for one in self.trained.values() for row in one.rows)

    @property
    def held_out_rows(self) -> tuple[Mapping[str, Any], ...]:
        return tuple({**row, SOURCE: one.source.path} for one in self.held_out for row in one.rows)

    @property
    def counts(self) -> list[int]:
        return [len(one.rows) for one in self.trained.values()]

    def sizes(self, rubric: Rubric | None) -> dict[str, Any]:
        every = {
            f"{one.source.path}{f'[:{one.source.limit}]' * bool(one.source.limit)}": one.rows
            for one in (*self.trained.values(), *self.held_out)
        }
        asked = None if rubric is None else _digest(rubric.model_dump(mode="json"))
        return {
            "rows": {name: len(rows) for name, rows in every.items()},
            "contents": {"rubric": asked, "sources": {name: _digest(rows) for name, rows in every.items()}},
        }


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _data(job: Job) -> _Data:
    trained: dict[Any, Read] = {}
    for source in (source for stage in job.config.stages for source in stage.sources):
        if identity(source) not in trained:
            trained[identity(source)] = read_source(job, source)
    held_out = job.config.held_out
    data = _Data(trained, [] if held_out is None else [read_source(job, source) for source in held_out.sources])
    _check_held_out(job, data)
    return data


def _check_held_out(job: Job, data: _Data) -> None:
    seen = {repr(row["prompt"]): one.source.path for one in data.trained.values() for row in one.rows}
    for one in data.held_out:
        for number, row in enumerate(one.rows, start=1):
            if repr(row["prompt"]) in seen:
                got = f"row {number} of {one.source.path}, which is in {seen[repr(row['prompt'])]} too"
                raise InvalidInput(job.where, "held_out", "prompts that are not trained on", got, "Take it out of one.")


# --------------------------------------------------------------------------------------------------------------- stages


def _part(stage: Stage, updates: int, data: _Data) -> MixStage:
    numbers = {key: number for number, key in enumerate(data.trained)}
    sources = tuple(numbers[identity(source)] for source in stage.sources)
    rows = [data.counts[number] for number in sources]
    shares = [rows[i] / sum(rows) if source.share is None else source.share for i, source in enumerate(stage.sources)]
    return MixStage(stage.steps // updates, sources, tuple(shares))


def _stages(job: Job, parts: Sequence[MixStage], order: np.ndarray, counts: Sequence[int]) -> tuple[StagePlan, ...]:
    prompts, first, at = job.config.training.prompts_per_batch, 0, 0
    ends = np.cumsum(counts)
    found = []
    for stage, part in zip(job.config.stages, parts, strict=True):
        taken = np.bincount(
            np.searchsorted(ends, order[at : at + part.batches * prompts], side="right"), minlength=len(counts)
        )
        sources = tuple(
            SourcePlan(source.path, counts[number], share, int(taken[number]))
            for source, number, share in zip(stage.sources, part.sources, part.shares, strict=True)
        )
        found.append(StagePlan(stage.name, first, first + stage.steps - 1, sources))
        first, at = first + stage.steps, at + part.batches * prompts
    return tuple(found)
