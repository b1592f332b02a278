"""The folder of a run; checks whether a run may start there, continue there, or branch off another run.

    out/config.json             the settings, which a resumed run must repeat; of a branch also what it changed
    out/records.jsonl           the records of every group of every step
    out/checkpoint-200/         a checkpoint, to resume from
    out/runs/                   logs for TensorBoard
    out/model/                  the policy at the end
    out/trainer_state.json      everything that was logged

There are three ways to begin (`find_start`):

    a new run       at step 0, in a folder without a run
    resume          at the last checkpoint in the folder, with the same settings, apart from `_MAY_CHANGE_ON_RESUME`
    a branch        a new run that begins at a checkpoint of another run, with other control settings
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from rubrank._files import atomic_write
from rubrank._plain import shorten, word_list
from rubrank.errors import InvalidInput
from rubrank.records.files import find_record_files
from rubrank.training.job.config import Job
from rubrank.training.job.data import is_first_process

CONFIG = "config.json"
MODEL = "model"
STATE = "trainer_state.json"
_MAY_ALWAYS_CHANGE = word_list("""
    output judges workers report_to training.logging_steps training.save_steps training.save_total_limit
    training.per_device_train_batch_size model.path preset records.every records.texts records.rotate
    records.most_mb records.most_mb_a_day held_out.batch evaluate
""")
"""Settings that a resumed run or a branch may change, because they do not change what is learned."""

_TRL_MAY_CHANGE_ON_RESUME = word_list("""
    gradient_checkpointing gradient_checkpointing_kwargs torch_empty_cache_steps eval_accumulation_steps
    use_liger_kernel liger_kernel_config cache_implementation ds3_gather_for_generation fsdp fsdp_config deepspeed
    vllm_gpu_memory_utilization vllm_max_model_length vllm_tensor_parallel_size vllm_enable_sleep_mode
    vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port
    model_init_kwargs.attn_implementation model_init_kwargs.device_map model_init_kwargs.max_memory
    model_init_kwargs.low_cpu_mem_usage ddp_timeout ddp_bucket_cap_mb dataloader_num_workers dataloader_pin_memory
    enable_jit_checkpoint log_completions num_completions_to_print run_name disable_tqdm
""")
_MAY_CHANGE_ON_RESUME = (
    *_MAY_ALWAYS_CHANGE,
    *(f"trl.{name}" for name in _TRL_MAY_CHANGE_ON_RESUME),
)
"""Settings that a resumed run may change; after a crash it may need less memory, other ports or another launcher."""

_ENDLESS_SCHEDULES = ("constant", "constant_with_warmup")
"""Schedules whose learning rate does not depend on the length of the run."""

_CONTROL_SETTINGS = ("attributes", "pool", "adjust_criteria")
"""Settings that a branch may change as well."""


@dataclass(frozen=True)
class Branch:
    """A run that continues another run's checkpoint with other control settings."""

    checkpoint: str
    changed: Mapping[str, Mapping[str, Any]]
    """Setting → its value "before" the branch, and "now"."""


def find_start(
    job: Job, fingerprint: Mapping[str, Any], resume: bool, branch: Path | None
) -> tuple[Path | None, Branch | None]:
    """Find the checkpoint to begin at (None: at step 0), and the branch, if the run is one.

    Raises InvalidInput if a run would be overwritten, or continued with other settings.
    fingerprint: rows and digests of the data and the rubric, which are compared like settings.
    branch: the checkpoint of another run to begin at.
    """
    if branch is not None:
        if resume:
            raise InvalidInput(
                "train", "branch", "given without `resume`", "both", "A branch is a new run."
            )
        check_new_run(job)
        return branch.resolve(), make_branch(job, fingerprint, branch)
    if not resume:
        check_new_run(job)
        return None, None
    checkpoint = find_checkpoint(job, fingerprint)
    data = (_read_json(job.output / CONFIG) or {}).get("branch")
    if data is None:
        return checkpoint, None
    # The run that is resumed was itself a branch of another run.
    if checkpoint is None:
        # It ended before its first checkpoint, and begins again where it left the other run. The checkpoint is one of
        # the other run, so the settings must be the same here, too.
        if is_first_process():
            _check_same_run(job, fingerprint)
        checkpoint = Path(data["checkpoint"])
    return checkpoint, Branch(**data)


def make_branch(job: Job, fingerprint: Mapping[str, Any], checkpoint: Path) -> Branch:
    """Make a branch off a checkpoint; raises InvalidInput if it changes more than control settings."""
    if not is_complete(checkpoint):
        last = find_last_checkpoint(checkpoint)
        remedy = f"Did you mean {last}?" if last is not None else "Such as out/checkpoint-70."
        raise InvalidInput("train", "branch", "a complete checkpoint", str(checkpoint), remedy)
    step = checkpoint.name.partition("-")[2]
    if step.isdigit() and int(step) >= job.config.steps:
        allowed = f"a checkpoint before step {job.config.steps}, the last of the run"
        raise InvalidInput("train", "branch", allowed, str(checkpoint), "")
    before = _read_run(job, checkpoint.parent)
    now = _flatten_config(job, fingerprint)
    changed = {}
    for name in _find_changes(before, now, _MAY_ALWAYS_CHANGE):
        if not _is_among(name, _CONTROL_SETTINGS):
            remedy = "A branch changes control settings only."
            _refuse_change(job, name, before, now, "as in the run that it leaves", remedy)
        changed[name] = {"before": before.get(name), "now": now.get(name)}
    return Branch(str(checkpoint.resolve()), changed)


# --------------------------------------------------------------------------------------------------------- checkpoints


# Only the first process checks the folder: when the others get here, it may have written its files already.


def check_new_run(job: Job) -> None:
    """Raise InvalidInput if the folder cannot be written, or if a new run would overwrite something in it."""
    if not is_first_process():
        return
    folder = job.output
    _check_writable(job)
    _check_foreign_files(job, folder)
    if find_last_checkpoint(folder) or find_record_files(job.records, missing_ok=True):
        remedy = "Use `resume=true`, or choose another one."
        raise job.invalid("output", "a folder without a run", str(folder), remedy)


def find_checkpoint(job: Job, fingerprint: Mapping[str, Any]) -> Path | None:
    """Find the checkpoint to resume from; None if the run was not saved yet.

    Raises InvalidInput if the run had other settings, or if all its checkpoints are damaged.
    """
    folder = job.output
    checkpoint = find_last_checkpoint(folder)
    if not is_first_process():
        return checkpoint
    _check_writable(job)
    if checkpoint is not None:
        _check_same_run(job, fingerprint)
        return checkpoint
    damaged = _list_checkpoints(folder)
    if damaged:
        got = f"{damaged[-1].name}, whose {STATE} cannot be read"
        remedy = "Remove the checkpoints to start again."
        raise job.invalid("output", "a folder with a complete checkpoint", got, remedy)
    return None


def _check_writable(job: Job) -> None:
    """Raise InvalidInput if the output folder, or the parent in which it will be made, cannot be written."""
    candidates = (job.output, *job.output.absolute().parents)
    existing = next(path for path in candidates if path.exists())
    remedy = "Choose another one."
    if not existing.is_dir():
        raise job.invalid("output", "a folder", f"the file {existing}", remedy)
    if not os.access(existing, os.W_OK | os.X_OK):
        raise job.invalid("output", "a folder that can be written", str(existing), remedy)


def find_last_checkpoint(folder: Path) -> Path | None:
    """Find the last checkpoint that was written to its end; None if there is none."""
    return next((path for path in reversed(_list_checkpoints(folder)) if is_complete(path)), None)


def is_complete(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end: the file that is written last can be read."""
    try:
        return isinstance(json.loads((checkpoint / STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _list_checkpoints(folder: Path) -> list[Path]:
    """List the folders of checkpoints, complete or damaged, by their steps."""
    paths = [state.parent for state in folder.glob(f"checkpoint-*/{STATE}")]
    numbered = [path for path in paths if path.name.partition("-")[2].isdigit()]
    return sorted(numbered, key=lambda path: int(path.name.partition("-")[2]))


def _check_foreign_files(job: Job, folder: Path) -> None:
    """Raise if the run would overwrite files of something else: a model's config.json, or a folder `model`."""
    config = _read_json(folder / CONFIG)
    # The file that the user wrote for this job would be overwritten by the config.json of its run.
    is_job_file = (folder / CONFIG).resolve() == job.file.resolve()
    if config is not None and ("stages" not in config or is_job_file):
        allowed = f"a folder without a {CONFIG} of something else"
        raise job.invalid("output", allowed, str(folder), "Choose another one.")
    if config is None and (folder / MODEL).exists():
        got = f"{folder / MODEL}, which it would overwrite"
        raise job.invalid("output", f"a folder without {MODEL}", got, "Choose another one.")


# --------------------------------------------------------------------------------------------------------- config.json


def write_config(job: Job, fingerprint: Mapping[str, Any], branch: Branch | None = None) -> None:
    """Write the settings of the run to config.json in its folder."""
    job.output.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {**job.config.model_dump(mode="json"), **fingerprint}
    if branch is not None:
        data["branch"] = asdict(branch)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    with atomic_write(job.output / CONFIG) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def _read_json(file: Path) -> dict[str, Any] | None:
    """Read a JSON object; {} if the file holds something else, None if there is no file."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _read_run(job: Job, folder: Path) -> dict[str, Any]:
    """Read the settings of the run in a folder: dotted name → value."""
    config = _read_json(folder / CONFIG)
    if not config:
        got = f"none in {folder}" if config is None else f"{folder / CONFIG}, which cannot be read"
        remedy = "Start a new run, with the checkpoint as its model."
        raise job.invalid("output", f"a folder with the {CONFIG} of its run", got, remedy)
    return {name: value for name, value in _flatten(config) if not name.startswith("branch.")}


def _flatten_config(job: Job, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of this run: dotted name → value."""
    data = {**job.config.model_dump(mode="json"), **fingerprint}
    # Through JSON, so that values compare equal with those that were read from a file (a tuple becomes a list).
    return dict(_flatten(json.loads(json.dumps(data))))


def _flatten(data: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings and lists as (dotted name, value): {"a": {"b": [1]}} → ("a.b.0", 1)."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flatten(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, list) and data:
        for number, value in enumerate(data):
            yield from _flatten(value, f"{name}.{number}")
    else:
        yield name, data


def _check_same_run(job: Job, fingerprint: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a resumed run has other settings than the run that it continues."""
    config = job.config
    before = _read_run(job, job.output)
    now = _flatten_config(job, fingerprint)
    # Two settings are adapted before all are compared.
    # The starts of attributes are compared as steps: "70%" of a longer run is another step.
    stage_steps = [name for name in before if re.fullmatch(r"stages\.\d+\.steps", name)]
    steps_before = sum(before[name] for name in stage_steps)
    for number, attribute in enumerate(config.attributes):
        name = f"attributes.{number}.start"
        start = before.get(name)
        if isinstance(start, int | str):
            before[name] = attribute.model_copy(update={"start": start}).start_step(steps_before)
            now[name] = attribute.start_step(config.steps)
    # The last stage may get more steps: that changes nothing for the steps that were done.
    name = f"stages.{len(config.stages) - 1}.steps"
    last_stage_before = before.get(name)
    if isinstance(last_stage_before, int) and now[name] > last_stage_before:
        if config.training.lr_scheduler_type not in _ENDLESS_SCHEDULES:
            allowed = f"{last_stage_before}, as when the run began: the learning rate depends on the end of the run"
            remedy = "Start a new run, with the checkpoint as its model."
            raise job.invalid(name, allowed, str(now[name]), remedy)
        now[name] = last_stage_before
    for name in _find_changes(before, now, _MAY_CHANGE_ON_RESUME):
        remedy = "Change it back, or begin a new run, with the checkpoint as its model."
        _refuse_change(job, name, before, now, "as when the run began", remedy)


def _find_changes(
    before: Mapping[str, Any], now: Mapping[str, Any], may_change: tuple[str, ...]
) -> list[str]:
    """List the settings that differ, except those that may change."""
    return [
        name
        for name in dict.fromkeys([*now, *before])
        if before.get(name) != now.get(name) and not _is_among(name, may_change)
    ]


def _is_among(name: str, sections: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of these, or below one of these."""
    return any(name == section or name.startswith(f"{section}.") for section in sections)


def _refuse_change(
    job: Job, name: str, before: Mapping[str, Any], now: Mapping[str, Any], when: str, remedy: str
) -> NoReturn:
    """Raise InvalidInput about a setting that was changed: "seed must be 0, as when the run began; got 1"."""
    value_before = shorten(repr(before.get(name)), 60)
    value_now = shorten(repr(now.get(name)), 60)
    raise job.invalid(name, f"{value_before}, {when}", value_now, remedy)
