"""The folder of a run, and whether a run may start there, continue there, or branch off another run.

out/config.json        what was run: a resumed run must be the same; of a branch, what it changed
out/records.jsonl      every group of every step
out/checkpoint-200/    to continue from
out/runs/              TensorBoard
out/model/             the policy at the end
out/trainer_state.json what was logged
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rubrank._files import atomic_write
from rubrank._plain import shortened, word_list
from rubrank.errors import InvalidInput
from rubrank.records.files import record_files
from rubrank.training.job.batches import is_first
from rubrank.training.job.config import Config, Job

CONFIG = "config.json"
MODEL = "model"
STATE = "trainer_state.json"
_MAY_CHANGE = word_list("""
    output judges workers report_to training.logging_steps training.save_steps training.save_total_limit
    training.per_device_train_batch_size model.path preset records.every records.texts records.rotate
    records.most_mb records.most_mb_a_day held_out.batch evaluate
""")
"""Paths, logging, what is kept, portion sizes: none of it changes what is learned."""

_FOR_MEMORY = word_list("""
    gradient_checkpointing gradient_checkpointing_kwargs torch_empty_cache_steps eval_accumulation_steps
    use_liger_kernel liger_kernel_config cache_implementation ds3_gather_for_generation fsdp fsdp_config deepspeed
    vllm_gpu_memory_utilization vllm_max_model_length vllm_tensor_parallel_size vllm_enable_sleep_mode
    vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port
    model_init_kwargs.attn_implementation model_init_kwargs.device_map model_init_kwargs.max_memory
    model_init_kwargs.low_cpu_mem_usage ddp_timeout ddp_bucket_cap_mb dataloader_num_workers dataloader_pin_memory
    enable_jit_checkpoint log_completions num_completions_to_print run_name disable_tqdm
""")
_MAY_RESUME = (*_MAY_CHANGE, *(f"trl.{name}" for name in _FOR_MEMORY))
"""What a crash may force a resumed run to change: the same sums in less memory, in another order, elsewhere."""

_ENDLESS_SCHEDULES = ("constant", "constant_with_warmup")
"""Learning rates that do not depend on the end of the run."""


_CONTROL = ("attributes", "pool", "adjust_criteria")
"""What a branch may change, too."""


@dataclass(frozen=True)
class Branch:
    """A run that continues another run's checkpoint with other control settings."""

    checkpoint: Path
    changed: Mapping[str, tuple[Any, Any]]
    """Name → before, now."""

    def as_dict(self) -> dict[str, Any]:
        """As in config.json."""
        changed = {name: {"before": before, "now": now} for name, (before, now) in self.changed.items()}
        return {"checkpoint": str(self.checkpoint), "changed": changed}


@dataclass(frozen=True)
class Start:
    """Where a run begins."""

    checkpoint: Path | None = None
    """None: at step 0."""
    branch: Branch | None = None


def start_of(job: Job, sizes: Mapping[str, Any], resume: bool, branch: Path | None) -> Start:
    """Where to begin; raises if a run would be overwritten, or would continue as another one."""
    if branch is not None:
        if resume:
            raise InvalidInput("train", "branch", "given without `resume`", "both", "A branch is a new run.")
        find_checkpoint(job, sizes, resume=False)
        new_branch = make_branch(job, sizes, branch)
        return Start(new_branch.checkpoint, new_branch)
    checkpoint = find_checkpoint(job, sizes, resume)
    earlier_branch = _read_branch(job) if resume else None
    if checkpoint is None and earlier_branch is not None:
        checkpoint = earlier_branch.checkpoint
    return Start(checkpoint, earlier_branch)


def make_branch(job: Job, sizes: Mapping[str, Any], checkpoint: Path) -> Branch:
    """A branch off a checkpoint; raises if it changes more than control settings."""
    if not checkpoint.is_dir():
        raise InvalidInput("train", "branch", "a folder that exists", str(checkpoint), "Such as out/checkpoint-70.")
    if not is_whole(checkpoint):
        last = last_checkpoint(checkpoint)
        remedy = f"Did you mean {last}?" if last is not None else "Such as out/checkpoint-70."
        raise InvalidInput("train", "branch", "a complete checkpoint", str(checkpoint), remedy)
    step = checkpoint.name.partition("-")[2]
    if step.isdigit() and int(step) >= job.config.steps:
        allowed = f"a checkpoint before step {job.config.steps}, the last of the run"
        raise InvalidInput("train", "branch", allowed, str(checkpoint), "")
    before = _read_run(job, checkpoint.parent)
    now = _flat_config(job, sizes)
    changed = {}
    for name in _changed_names(before, now, _MAY_CHANGE):
        if not _is_among(name, _CONTROL):
            remedy = "A branch changes control settings only."
            _refuse_change(job, name, before, now, "as in the run that it leaves", remedy)
        changed[name] = (before.get(name), now.get(name))
    return Branch(checkpoint.resolve(), changed)


def _read_branch(job: Job) -> Branch | None:
    """The branch as which a run began."""
    data = (_read_json(job.output / CONFIG) or {}).get("branch")
    if data is None:
        return None
    changed = {name: (change["before"], change["now"]) for name, change in data["changed"].items()}
    return Branch(Path(data["checkpoint"]), changed)


# --------------------------------------------------------------------------------------------------------- checkpoints


def find_checkpoint(job: Job, sizes: Mapping[str, Any], resume: bool) -> Path | None:
    """Where to continue; None: begin. Raises if a run would be overwritten, or would continue as another one."""
    folder = job.output
    if not is_first():  # the first process checks, and may have started to write already
        return last_checkpoint(folder) if resume else None
    _check_writable(job, folder)
    checkpoint = last_checkpoint(folder)
    if not resume:
        _check_empty(job, folder)
        if checkpoint is not None or record_files(job.records, missing_ok=True):
            remedy = "Use `resume=true`, or choose another one."
            raise InvalidInput(job.where, "output", "a folder without a run", str(folder), remedy)
        return None
    if checkpoint is not None:
        _check_same_run(job, sizes)
    elif damaged := _list_checkpoints(folder):
        got = f"{damaged[-1].name}, whose {STATE} cannot be read"
        remedy = "Remove them to begin again."
        raise InvalidInput(job.where, "output", "a folder with a whole checkpoint", got, remedy)
    return checkpoint


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that was written to its end."""
    return next((path for path in reversed(_list_checkpoints(folder)) if is_whole(path)), None)


def is_whole(checkpoint: Path) -> bool:
    """Can the file that is written last be read?"""
    try:
        return isinstance(json.loads((checkpoint / STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that have a state, by their steps."""
    numbered = []
    for state in folder.glob(f"checkpoint-*/{STATE}"):
        step = state.parent.name.partition("-")[2]
        if step.isdigit():
            numbered.append((int(step), state.parent))
    return [path for _, path in sorted(numbered)]


def _check_writable(job: Job, folder: Path) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InvalidInput(job.where, "output", "a folder", f"the file {existing}", "Choose another one.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InvalidInput(job.where, "output", "a folder that can be written", str(existing), "Choose another one.")


def _check_empty(job: Job, folder: Path) -> None:
    """Refuse to overwrite files of others: a model's config, the weights in a folder `model`."""
    config = _read_json(folder / CONFIG)
    is_the_job = (folder / CONFIG).resolve() == job.file.resolve()
    if config is not None and ("stages" not in config or is_the_job):
        allowed = f"a folder without a {CONFIG} of something else"
        raise InvalidInput(job.where, "output", allowed, str(folder), "Choose another one.")
    if config is None and (folder / MODEL).exists():
        got = f"{folder / MODEL}, which it would overwrite"
        raise InvalidInput(job.where, "output", f"a folder without {MODEL}", got, "Choose another one.")


# --------------------------------------------------------------------------------------------------------- config.json


def write_config(job: Job, sizes: Mapping[str, Any], branch: Branch | None = None) -> None:
    """Write to the folder what is run."""
    job.output.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {**job.config.model_dump(mode="json"), **sizes}
    if branch is not None:
        data["branch"] = branch.as_dict()
    text = json.dumps(data, ensure_ascii=False, indent=1)
    with atomic_write(job.output / CONFIG) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def _read_json(file: Path) -> dict[str, Any] | None:
    """A JSON object; empty if the file holds something else, None if there is no file."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _read_run(job: Job, folder: Path) -> dict[str, Any]:
    """What was run in a folder, as dotted names → values."""
    config = _read_json(folder / CONFIG)
    if not config:
        got = f"none in {folder}" if config is None else f"{folder / CONFIG}, which cannot be read"
        remedy = "Start a new run, with the checkpoint as its model."
        raise InvalidInput(job.where, "output", f"a folder with the {CONFIG} of its run", got, remedy)
    # An older run does not have keys that were added since.
    defaults = {name: field.default for name, field in Config.model_fields.items() if not field.is_required()}
    defaults = json.loads(json.dumps(defaults, default=lambda value: value.model_dump(mode="json")))
    flat = dict(_flatten({**defaults, **config}))
    return {name: value for name, value in flat.items() if not name.startswith("branch.")}


def _flat_config(job: Job, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be run now, as dotted names → values."""
    data = {**job.config.model_dump(mode="json"), **sizes}
    return dict(_flatten(json.loads(json.dumps(data))))


def _flatten(data: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flatten(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, list) and data:
        for number, value in enumerate(data):
            yield from _flatten(value, f"{name}.{number}")
    else:
        yield name, data


def _check_same_run(job: Job, sizes: Mapping[str, Any]) -> None:
    before = _read_run(job, job.output)
    now = _flat_config(job, sizes)
    _allow_more_steps(job, before, now)
    for name in _changed_names(before, now, _MAY_RESUME):
        remedy = "Change it back, or begin a new run, with the checkpoint as its model."
        _refuse_change(job, name, before, now, "as when the run began", remedy)


def _allow_more_steps(job: Job, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Let the last stage have more steps, which changes nothing before; starts are compared as steps."""
    name = f"stages.{len(job.config.stages) - 1}.steps"
    steps_before = before.get(name)
    steps_now = now[name]
    all_steps_before = sum(value for key, value in before.items() if re.fullmatch(r"stages\.\d+\.steps", key))
    for number, attribute in enumerate(job.config.attributes):
        key = f"attributes.{number}.start"
        start = before.get(key)
        if isinstance(start, int | str):
            before[key] = attribute.model_copy(update={"start": start}).start_step(all_steps_before)
            now[key] = attribute.start_step(job.config.steps)
    if not isinstance(steps_before, int) or steps_now <= steps_before:
        return
    if job.config.training.lr_scheduler_type not in _ENDLESS_SCHEDULES:
        allowed = f"{steps_before}, as when the run began: the learning rate depends on the end of the run"
        remedy = "Start a new run, with the checkpoint as its model."
        raise InvalidInput(job.where, name, allowed, str(steps_now), remedy)
    now[name] = steps_before


def _changed_names(before: Mapping[str, Any], now: Mapping[str, Any], may_change: tuple[str, ...]) -> list[str]:
    """Names whose values differ, without those that may change."""
    changed = []
    for name in dict.fromkeys([*now, *before]):
        # A run from before contents were recorded says nothing about them.
        is_unknown = name.startswith("contents.") and name not in before
        if not is_unknown and before.get(name) != now.get(name) and not _is_among(name, may_change):
            changed.append(name)
    return changed


def _is_among(name: str, sections: tuple[str, ...]) -> bool:
    return any(name == section or name.startswith(f"{section}.") for section in sections)


def _refuse_change(
    job: Job, name: str, before: Mapping[str, Any], now: Mapping[str, Any], when: str, remedy: str
) -> NoReturn:
    value_before = shortened(repr(before.get(name)), 60)
    value_now = shortened(repr(now.get(name)), 60)
    raise InvalidInput(job.where, name, f"{value_before}, {when}", value_now, remedy)
