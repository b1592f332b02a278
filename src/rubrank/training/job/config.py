"""The config file of a training job, which `rubrank train CONFIG.yaml` reads.

    model: {path: Qwen/Qwen3-0.6B, lora: {r: 16}}
    stages:                                           # one after the other, in one run of the trainer
      - name: chat
        steps: 700
        sources:
          - {path: chat.jsonl, share: 0.7}
          - {path: "hf:owner/name:train", share: 0.3, columns: {prompt: question}}
      - {name: agentic, steps: 300, sources: [{path: agentic.jsonl}]}
    held_out: {every: 50, sources: [{path: held_out.jsonl}]}
    rubric: rubric.yaml
    judges: judges.yaml
    rule: rlvr2+
    attributes:
      - {name: markdown, start: 70%}
    output: out

    job = load_job("config.yaml")        checks every key, and reads no other file

Settings under `training` have the names of TRL's GRPOConfig. Most defaults are the paper's: GSPO, groups of 8, AdamW at
1e-6, clipping at 3e-4 and 4e-4, no KL term. Batches and completions are small by default; `preset: paper` has the
paper's sizes. Everything else that GRPOConfig takes goes under `trl`. Paths are relative to the config file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AllowInfNan,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from rubrank._plain import Strict, validate_model
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.options import EngineOptions, option

PAGE = "train"
_SHARE_TOLERANCE = 1e-6
_SEEDS = 2**32  # the trainer also seeds NumPy, whose seeds are smaller than this


Number: TypeAlias = Annotated[float, AllowInfNan(False)]
"""Pydantic also reads 1e-6, which is a text in YAML, because it has no decimal point."""


class Lora(Strict):
    """Train low-rank adapters (PEFT) instead of all weights; other keys are those of PEFT's LoraConfig."""

    model_config = ConfigDict(frozen=True, extra="allow")

    r: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: Number = Field(default=0.0, ge=0.0, lt=1.0)
    targets: str | tuple[str, ...] = "all-linear"
    """Names of the modules that get adapters."""


class Model(Strict):
    """The policy."""

    path: str = Field(min_length=1)
    """A folder, or a name on the hub."""
    lora: Lora | None = None
    """Left out: all weights are trained."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Type of the weights. On a CPU they are always float32."""
    chat: bool | None = None
    """Whether prompts that are texts become user messages; null: yes if the tokenizer has a chat template."""


class Source(Strict):
    """Prompts of one file, folder or dataset of the hub (hf:owner/name:split)."""

    path: str = Field(min_length=1)
    share: Number | None = Field(default=None, gt=0.0, le=1.0)
    """Share of the prompts of its stage. If no source of a stage has one, shares follow from the numbers of rows."""
    columns: Mapping[Literal["prompt", "rubric"], str] = {}
    """Field (prompt, rubric) → column, if the column does not have one of the usual names."""
    limit: int | None = Field(default=None, ge=1)
    """Number of rows that are used, from the beginning."""


def _check_different(sources: tuple[Source, ...], owner: str) -> None:
    """Raise if two sources read the same rows, even with different shares."""
    without_shares = [source.model_copy(update={"share": None}) for source in sources]
    for number, source in enumerate(without_shares):
        if source in without_shares[:number]:
            raise InvalidInput(owner, "sources", "different", f"{source.path} twice")


class Stage(Strict):
    """A part of the run with its own mixture of sources."""

    steps: int = Field(ge=1)
    sources: tuple[Source, ...] = Field(min_length=1)
    name: str = "all"

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        _check_different(self.sources, f"stage {self.name!r}")
        owner = f"stage {self.name!r}"
        shares = [source.share for source in self.sources if source.share is not None]
        if shares and len(shares) < len(self.sources):
            got = f"{len(shares)} of {len(self.sources)}"
            raise InvalidInput(owner, "share", "given for all sources or none", got)
        if shares and not math.isclose(sum(shares), 1.0, abs_tol=_SHARE_TOLERANCE):
            terms = " + ".join(f"{share:g}" for share in shares)
            raise InvalidInput(owner, "sum of the shares", "1", f"{terms} = {sum(shares):g}")
        return self


class HeldOut(Strict):
    """Prompts that are never trained on: the policy answers them before the run, during it, and at its end."""

    sources: tuple[Source, ...] = Field(min_length=1)
    every: int = Field(default=50, ge=1)
    """Steps between two evaluations."""
    rollouts: int | None = Field(default=None, ge=2)
    """Rollouts of each prompt; by default as in training."""
    batch: int | None = Field(default=None, ge=1)
    """Rollouts that a device generates at a time; by default as many as fit, see `choose_evaluation_batch_size`."""

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if any(source.share is not None for source in self.sources):
            raise InvalidInput(
                "held_out", "share", "left out", "a share", "All held-out prompts are used."
            )
        _check_different(self.sources, "held_out")
        return self


class Evaluate(Strict):
    """Benchmarks during the run; see docs/evaluation.md."""

    benchmarks: tuple[str, ...] = Field(min_length=1)
    data: str
    """Folder of the benchmarks' own data."""
    every: int = Field(default=50, ge=1)
    """Steps between two evaluations; there is also one before the first step and one after the last."""
    limit: int | None = Field(default=32, ge=1)
    """Items of each benchmark that are used, from the beginning; null: all."""
    max_tokens: int = Field(default=512, ge=1)
    batch: int = Field(default=32, ge=1)
    """Prompts that are answered together."""
    judges: str | None = None
    """A file of judges, for benchmarks that need one."""


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "prompts_per_batch": 128,
        "num_generations": 8,
        "max_completion_length": 16384,
        "learning_rate": 1e-6,
        "optim": "adamw_torch",
        "importance_sampling_level": "sequence",
        "loss_type": "grpo",
    },
}
"""Name → settings under `training`; those of the config itself take precedence."""


class Records(Strict):
    """Which records of a run are kept, and where."""

    path: str = "records.jsonl"
    """In the folder of the run; .jsonl.gz and .jsonl.zst are compressed."""
    every: int = Field(default=1, ge=1)
    """Only training steps that are multiples of this number are recorded; evaluations always are."""
    texts: bool = True
    """False: scores and rewards without prompts, responses and reasons."""
    rotate: int = Field(default=0, ge=0)
    """Steps after which a new file begins, records.000100.jsonl; 0: one file."""
    most_mb: Number | None = Field(default=None, gt=0.0)
    """Once the records of the run have this size in megabytes, texts are left out."""
    most_mb_a_day: Number | None = Field(default=None, gt=0.0)
    """Once the records of a day have this size in megabytes, texts are left out until the next day."""

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str) -> str:
        if Path(value).is_absolute() or ".." in Path(value).parts:
            remedy = "A run finds its records beside its checkpoints; choose `output` accordingly."
            raise InvalidInput("records", "path", "inside the output folder", repr(value), remedy)
        return value


class Training(Strict):
    """Settings of the trainer. `prompts_per_batch` and `updates_per_batch` are ours, all others have TRL's names.

    `prompts_per_batch` and `max_completion_length` are small by default, for one machine; the paper has 128 and 16,384.
    """

    prompts_per_batch: int = Field(default=16, ge=1)
    """Prompts of one batch of rollouts; each has `num_generations` rollouts."""
    updates_per_batch: int = Field(default=1, ge=1)
    """Optimizer steps per batch of rollouts."""
    num_generations: int = Field(default=8, ge=2)
    """Rollouts of each prompt, which form a group."""
    per_device_train_batch_size: int | None = Field(default=None, ge=1)
    """Rollouts that a device trains on at a time; by default one group. Affects memory and speed, not the result."""
    max_completion_length: int = Field(default=1024, ge=1)
    temperature: Number = Field(default=1.0, gt=0.0)
    top_p: Number = Field(default=1.0, gt=0.0, le=1.0)
    learning_rate: Number = Field(default=1e-6, gt=0.0)
    optim: str = "adamw_torch"
    weight_decay: Number = Field(default=0.0, ge=0.0)
    lr_scheduler_type: str = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    max_grad_norm: Number = Field(default=1.0, ge=0.0)
    importance_sampling_level: Literal["sequence", "token"] = "sequence"
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"] = (
        "grpo"
    )
    epsilon: Number = Field(default=3e-4, gt=0.0)
    epsilon_high: Number = Field(default=4e-4, gt=0.0)
    beta: Number = Field(default=0.0, ge=0.0)
    scale_rewards: Literal["group", "batch", "none"] = "group"
    logging_steps: int = Field(default=1, ge=1)
    save_steps: int = Field(default=100, ge=1)
    save_total_limit: int | None = Field(default=2, ge=1)


class Config(EngineOptions):
    """The keys of a config file."""

    model: Model
    stages: tuple[Stage, ...] = Field(min_length=1)
    held_out: HeldOut | None = None
    evaluate: Evaluate | None = None
    preset: Literal["paper"] | None = None
    """Settings under `training` that are left out are taken from the preset."""
    training: Training = Training()
    trl: Mapping[str, Any] = {}
    """Other arguments of TRL's GRPOConfig, such as use_vllm."""
    report_to: tuple[str, ...] = ("tensorboard",)
    """Loggers that transformers knows; each must be installed."""
    imports: tuple[str, ...] = ()
    """Modules that register verifiers, rules or attributes; beside the config, or installed."""
    tools: tuple[str, ...] = ()
    """Functions that the policy may call, each by its dotted path."""
    environments: str | Annotated[Mapping[str, str], Field(min_length=1)] | None = None
    """The dotted path of a class of environments, or name → path for several: rows then have a column `environment`."""
    rollout: str | None = None
    """The dotted path of a function that samples rollouts instead of the trainer."""
    records: Records = Records()
    """The name of the file, or a mapping of the options."""
    evolve: Mapping[str, Any] | None = None
    """Judged items that are added to rubrics during the run: `writers`, `every` …; see docs/drafting.md."""
    seed: int = option(0, "Seed of the run, and of the draws of attenuate.", ge=0, lt=_SEEDS)
    output: str = Field(min_length=1)

    @field_validator("records", mode="before")
    @classmethod
    def _read_records(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @field_validator("report_to", mode="before")
    @classmethod
    def _read_loggers(cls, value: Any) -> Any:
        """Read a name or a list; null and `none` mean no logger."""
        if value is None or value in ("none", ["none"]):
            return ()
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, data: Any) -> Any:
        preset = PRESETS.get(data.get("preset"))
        training = data.get("training") or {}
        if preset is None or not isinstance(training, Mapping):
            return data  # anything else is refused by the types
        return {**data, "training": {**preset, **training}}

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        # Stage names become names of files and metrics, where "all" and "All " may be the same.
        names = [stage.name.strip().casefold() for stage in self.stages]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            remedy = "Metrics and records tell stages apart by their names."
            raise InvalidInput(
                "config", "names of stages", "different", f"{repeated!r} twice", remedy
            )
        return self

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True)
class Job:
    """A config and its file."""

    config: Config
    file: Path

    @property
    def where(self) -> str:
        """The config file, as messages name it."""
        return str(self.file)

    @property
    def output(self) -> Path:
        """The folder of the run."""
        return self.path(self.config.output)

    @property
    def records(self) -> Path:
        """The file to which every step is appended."""
        return self.output / self.config.records.path

    def invalid(self, parameter: str, allowed: str, got: str, remedy: str = "") -> InvalidInput:
        """The error about a setting of this config."""
        return InvalidInput(self.where, parameter, allowed, got, remedy)

    def path(self, text: str) -> Path:
        """A path of the config, relative to the config file."""
        return self.file.parent / Path(text).expanduser()


@only_our_errors
def load_job(file: str | Path, preset: str | None = None) -> Job:
    """Read a config file; raises for the first key or value that is wrong. preset: used instead of the file's."""
    from rubrank.rubrics.files import read_settings

    file = Path(file)
    data = read_settings(file)
    if preset is not None and preset not in PRESETS:
        raise UnknownName.of("train", "preset", preset, PRESETS)
    if preset is not None and isinstance(data, Mapping):
        data = {**data, "preset": preset}
    return Job(parse_config(data, str(file)), file)


@only_our_errors
def parse_config(data: Any, where: str = "config") -> Config:
    """A config from its data; `where` names it in messages."""
    if not isinstance(data, Mapping):
        got = "nothing" if data is None else type(data).__name__
        raise InvalidInput(where, "the config", "a mapping", got, f"See `rubrank help {PAGE}`.")
    return validate_model(Config, data, where, PAGE)
