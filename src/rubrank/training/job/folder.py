"""The folder of a run: its records, checkpoints and logs; may a run begin there, or go on?

out/config.json        what was run: a run that goes on must be the same
out/records.jsonl      every group of every step
out/checkpoint-200/    to go on from
out/runs/              TensorBoard
out/model/             the policy at the end
out/trainer_state.json what was logged
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput
from rubrank.training.job.batching import is_first
from rubrank.training.job.job import Job

RECORDS, CONFIG, MODEL = "records.jsonl", "config.json", "model"
_MAY_CHANGE = (
    "output", "judges", "workers", "report_to", "training.logging_steps", "training.save_steps",
    "training.save_total_limit", "training.per_device_train_batch_size", "model.path",
)  # fmt: skip
"""Where things are, what is logged and kept, how much goes at a time: none of it is what is learnt."""


def checkpoint_of(job: Job, sizes: Mapping[str, int], resume: bool) -> Path | None:
    """Where to go on; None: begin. Raises where a run would be overwritten, or would go on as another one."""
    folder = job.output
    if not is_first():  # the first process checks, and may have begun to write already
        return last_checkpoint(folder) if resume else None
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(job.where, "output", "a folder", f"the file {folder}", "Choose another one.")
    found = last_checkpoint(folder)
    if not resume:
        if found is not None or (folder / RECORDS).exists():
            raise InvalidInput(
                job.where, "output", "a folder without a run", str(folder), "Say --resume, or choose another one."
            )
        return None
    if found is not None:
        _check_same(job, sizes)
    return found


def last_checkpoint(folder: Path) -> Path | None:
    """The last one that was written to its end."""
    whole = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    numbered = [(int(path.name.partition("-")[2]), path) for path in whole if path.name.partition("-")[2].isdigit()]
    return max(numbered)[1] if numbered else None


def write_config(job: Job, sizes: Mapping[str, int]) -> None:
    """Say in the folder what is run."""
    job.output.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_said(job, sizes), ensure_ascii=False, indent=1)
    (job.output / CONFIG).write_text(text + "\n", encoding="utf-8")


def _said(job: Job, sizes: Mapping[str, int]) -> dict[str, Any]:
    return {**job.config.model_dump(mode="json"), "rows": dict(sizes)}


def _check_same(job: Job, sizes: Mapping[str, int]) -> None:
    try:
        before = dict(_flat(json.loads((job.output / CONFIG).read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        remedy = "Begin a new run, with the checkpoint as its model."
        raise InvalidInput(job.where, "output", f"a folder with a {CONFIG}", str(error), remedy) from None
    now = dict(_flat(json.loads(json.dumps(_said(job, sizes)))))
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name) and not name.startswith(_MAY_CHANGE):
            was, got = (shortened(repr(found.get(name)), 60) for found in (before, now))
            remedy = "Change it back, or begin a new run, with the checkpoint as its model."
            raise InvalidInput(job.where, name, f"{was}, as when the run began", got, remedy)


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
