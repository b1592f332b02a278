"""The folder of a run: its records, checkpoints and logs; may a run begin there, go on, or branch off another?

out/config.json        what was run: a run that goes on must be the same; of a branch, what it changed
out/records.jsonl      every group of every step
out/checkpoint-200/    to go on from
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

from rubrank._plain import shortened, word_list
from rubrank.errors import InvalidInput
from rubrank.records.files import record_files
from rubrank.training.job.batches import is_first
from rubrank.training.job.config import Config, Job

CONFIG, MODEL, STATE = "config.json", "model", "trainer_state.json"
_MAY_CHANGE = word_list("""
    output judges workers report_to training.logging_steps training.save_steps training.save_total_limit
    training.per_device_train_batch_size model.path preset records.every records.texts records.rotate
    records.most_mb records.most_mb_a_day held_out.batch evaluate
""")
"""Where things are, what is logged and kept, how much goes at a time: none of it is what is learnt."""

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
"""What a crash may force upon a run that goes on: the same sums in less memory, in another order, on other machines."""

_ENDLESS = ("constant", "constant_with_warmup")
"""Learning rates that do not depend on where a run ends."""


_CONTROL = ("attributes", "pool", "adjust_criteria")
"""What a branch may change besides."""


@dataclass(frozen=True)
class Branch:
    """A run that goes on from another run's checkpoint with other control settings."""

    checkpoint: Path
    changed: Mapping[str, tuple[Any, Any]]
    """Name → before, now."""

    def as_dict(self) -> dict[str, Any]:
        """As config.json holds it."""
        changed = {name: {"before": was, "now": now} for name, (was, now) in self.changed.items()}
        return {"checkpoint": str(self.checkpoint), "changed": changed}


@dataclass(frozen=True)
class Start:
    """Where a run begins."""

    checkpoint: Path | None = None
    """None: at step 0."""
    branch: Branch | None = None


def start_of(job: Job, sizes: Mapping[str, Any], resume: bool, branch: Path | None) -> Start:
    """Where to begin; raises where a run would be overwritten, or would go on as another one."""
    if branch is not None:
        if resume:
            raise InvalidInput("train", "branch", "given without `resume`", "both", "A branch is a new run.")
        checkpoint_of(job, sizes, resume=False)
        found = branched(job, sizes, branch)
        return Start(found.checkpoint, found)
    before = _branch_of(job) if resume else None
    checkpoint = checkpoint_of(job, sizes, resume)
    return Start(before.checkpoint if checkpoint is None and before is not None else checkpoint, before)


def branched(job: Job, sizes: Mapping[str, Any], checkpoint: Path) -> Branch:
    """What differs from the run that is left, if all of it may."""
    if not is_whole(checkpoint):
        remedy = "Such as out/checkpoint-70."
        raise InvalidInput("train", "branch", "a complete checkpoint", str(checkpoint), remedy)
    step = checkpoint.name.partition("-")[2]
    if step.isdigit() and int(step) >= job.config.steps:
        allowed = f"a checkpoint before step {job.config.steps}, the last of the run"
        raise InvalidInput("train", "branch", allowed, str(checkpoint), "")
    before, now = _run_of(job, checkpoint.parent), _flat_said(job, sizes)
    changed = {}
    for name in [*now, *(name for name in before if name not in now)]:
        if _is_as_before(name, before, now) or _is_among(name, _MAY_CHANGE):
            continue
        if not _is_among(name, _CONTROL):
            _refuse(job, name, before, now, "as in the run that is left", "A branch changes control settings only.")
        changed[name] = (before.get(name), now.get(name))
    return Branch(checkpoint.resolve(), changed)


def _branch_of(job: Job) -> Branch | None:
    """The branch that a run began as."""
    found = (_read(job.output / CONFIG) or {}).get("branch")
    if found is None:
        return None
    changed = {name: (pair["before"], pair["now"]) for name, pair in found["changed"].items()}
    return Branch(Path(found["checkpoint"]), changed)


def checkpoint_of(job: Job, sizes: Mapping[str, Any], resume: bool) -> Path | None:
    """Where to go on; None: begin. Raises where a run would be overwritten, or would go on as another one."""
    folder = job.output
    if not is_first():  # the first process checks, and may have begun to write already
        return last_checkpoint(folder) if resume else None
    _check_writable(job, folder)
    found = last_checkpoint(folder)
    if not resume:
        _check_empty(job, folder)
        if found is not None or record_files(job.records, missing_ok=True):
            raise InvalidInput(
                job.where, "output", "a folder without a run", str(folder), "Use `resume=true`, or choose another one."
            )
        return None
    if found is not None:
        _check_same(job, sizes)
    elif damaged := _numbered(folder):
        remedy = "Take them away to begin again."
        got = f"{damaged[-1].name}, whose {STATE} cannot be read"
        raise InvalidInput(job.where, "output", "a folder with a whole checkpoint", got, remedy)
    return found


def last_checkpoint(folder: Path) -> Path | None:
    """The last one that was written to its end."""
    return next((path for path in reversed(_numbered(folder)) if is_whole(path)), None)


def is_whole(checkpoint: Path) -> bool:
    """Was it written to its end, and can what is written last be read?"""
    try:
        return isinstance(json.loads((checkpoint / STATE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _numbered(folder: Path) -> list[Path]:
    """Checkpoints that have a state, by their steps."""
    found = [path.parent for path in folder.glob(f"checkpoint-*/{STATE}")]
    steps = [(int(step), path) for path in found if (step := path.name.partition("-")[2]).isdigit()]
    return [path for _, path in sorted(steps)]


def _check_writable(job: Job, folder: Path) -> None:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InvalidInput(job.where, "output", "a folder", f"the file {there}", "Choose another one.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInput(job.where, "output", "a folder that can be written", str(there), "Choose another one.")


def _check_empty(job: Job, folder: Path) -> None:
    """Files of others that a run would write over: a model's config, the weights in a folder `model`."""
    said = _read(folder / CONFIG)
    is_the_job = (folder / CONFIG).resolve() == job.file.resolve()
    if said is not None and ("stages" not in said or is_the_job):
        raise InvalidInput(
            job.where, "output", f"a folder without a {CONFIG} of something else", str(folder), "Choose another one."
        )
    if said is None and (folder / MODEL).exists():
        got = f"{folder / MODEL}, which it would write over"
        raise InvalidInput(job.where, "output", f"a folder without {MODEL}", got, "Choose another one.")


def _read(file: Path) -> dict[str, Any] | None:
    """A JSON file of keys and values, empty where it is something else; None where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_config(job: Job, sizes: Mapping[str, Any], branch: Branch | None = None) -> None:
    """Say in the folder what is run."""
    job.output.mkdir(parents=True, exist_ok=True)
    said = _said(job, sizes) | ({} if branch is None else {"branch": branch.as_dict()})
    text = json.dumps(said, ensure_ascii=False, indent=1)
    (job.output / CONFIG).write_text(text + "\n", encoding="utf-8")


def _said(job: Job, sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {**job.config.model_dump(mode="json"), **sizes}


def _flat_said(job: Job, sizes: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_flat(json.loads(json.dumps(_said(job, sizes)))))


def _run_of(job: Job, folder: Path) -> dict[str, Any]:
    """What a folder says was run there."""
    found = _read(folder / CONFIG)
    if not found:
        remedy, got = "Start a new run, with the checkpoint as its model.", f"none in {folder}"
        got = got if found is None else f"{folder / CONFIG}, which cannot be read"
        raise InvalidInput(job.where, "output", f"a folder with the {CONFIG} of its run", got, remedy)
    found = {**_defaults(), **found}
    return {name: value for name, value in _flat(found) if not name.startswith("branch.")}


def _defaults() -> dict[str, Any]:
    """Of keys that an older run may not know."""
    optional = {name: field.default for name, field in Config.model_fields.items() if not field.is_required()}
    return dict(json.loads(json.dumps(optional, default=lambda value: value.model_dump(mode="json"))))


def _check_same(job: Job, sizes: Mapping[str, Any]) -> None:
    before, now = _run_of(job, job.output), _flat_said(job, sizes)
    _check_longer(job, before, now)
    for name in [*now, *(name for name in before if name not in now)]:
        if not (_is_as_before(name, before, now) or _is_among(name, _MAY_RESUME)):
            remedy = "Change it back, or begin a new run, with the checkpoint as its model."
            _refuse(job, name, before, now, "as when the run began", remedy)


def _check_longer(job: Job, before: dict[str, Any], now: dict[str, Any]) -> None:
    """The last stage may have more steps: what came before it stays as it is. Starts are compared as steps."""
    name = f"stages.{len(job.config.stages) - 1}.steps"
    was, steps = before.get(name), now[name]
    all_before = sum(value for key, value in before.items() if re.fullmatch(r"stages\.\d+\.steps", key))
    for number, attribute in enumerate(job.config.attributes):
        key = f"attributes.{number}.start"
        if isinstance(start := before.get(key), int | str):
            then = attribute.model_copy(update={"start": start}).start_step(all_before)
            before[key], now[key] = then, attribute.start_step(job.config.steps)
    if not isinstance(was, int) or steps <= was:
        return
    if job.config.training.lr_scheduler_type not in _ENDLESS:
        allowed = f"{was}, as when the run began: the learning rate goes by the end of the run"
        raise InvalidInput(job.where, name, allowed, str(steps), "Start a new run, with the checkpoint as its model.")
    now[name] = was


def _refuse(job: Job, name: str, before: Mapping[str, Any], now: Mapping[str, Any], when: str, remedy: str) -> NoReturn:
    was, got = (shortened(repr(found.get(name)), 60) for found in (before, now))
    raise InvalidInput(job.where, name, f"{was}, {when}", got, remedy)


def _is_as_before(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """A run from before contents were kept says nothing about them."""
    unknown = name.startswith("contents.") and name not in before
    return unknown or before.get(name) == now.get(name)


def _is_among(name: str, sections: tuple[str, ...]) -> bool:
    return any(name == section or name.startswith(f"{section}.") for section in sections)


def _flat(data: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots → values."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, list) and data:
        for number, value in enumerate(data):
            yield from _flat(value, f"{name}.{number}")
    else:
        yield name, data
