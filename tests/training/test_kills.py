"""`rubrank train` killed with SIGKILL again and again, each time at another bad moment, ends as if it had not been."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

from training import tiny  # noqa: E402
from transformers import Trainer  # noqa: E402
from transformers import trainer as transformers_trainer  # noqa: E402

from rubrank.records import files as record_writing  # noqa: E402
from rubrank.records.files import read_records  # noqa: E402
from rubrank.training.frameworks.trl_callback import RubricCallback  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402
from rubrank.training.job.run import run  # noqa: E402

SMALL: dict[str, Any] = {
    "stages": [{"steps": 8, "sources": [{"path": "prompts.jsonl"}]}],
    "rule": "amrp+",  # remembers
    "attributes": [],
    "training__save_steps": 2,
    "held_out": {"every": 3, "rollouts": 4, "sources": [{"path": "held_out.jsonl"}]},
    "training__prompts_per_batch": 4,
    "training__per_device_train_batch_size": 16,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    import torch

    torch.set_num_threads(1)
    return tiny.make(tmp_path_factory.mktemp("tiny"))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(owner: Any, name: str, call: int, after: bool) -> Callable[[], None]:
    """Something to do in a new process: its n-th call of a function is its last, before or after the call."""

    def prepare() -> None:
        function = getattr(owner, name)
        calls = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call and not after:
                die()
            result = function(*args, **kwargs)
            if calls == call:
                die()
            return result

        setattr(owner, name, counted)

    return prepare


def die_within_a_line(call: int) -> Callable[[], None]:
    """Half of the records of a step are on disk, and half of a line."""

    def prepare() -> None:
        write = record_writing._write_lines
        calls = 0

        def halved(path: Path, records: Any, mode: str, packed: str) -> int:
            nonlocal calls
            calls += 1
            size = path.stat().st_size if path.exists() else 0
            written = write(path, records, mode, packed)
            if calls == call:
                os.truncate(path, (size + path.stat().st_size) // 2)
                die()
            return written

        record_writing._write_lines = halved

    return prepare


def live(job: Any, prepare: Callable[[], None] | None) -> int:
    """One life of the run, in a process of its own; returns the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if prepare is not None:
                prepare()
            run(make_plan(job, resume=True))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


KILLS: list[Callable[[], None]] = [
    die_at(Trainer, "evaluate", 1, after=True),  # the evaluation before the first step is written
    die_within_a_line(1),
    die_within_a_line(2),
    die_at(RubricCallback, "on_step_end", 1, after=True),
    die_at(Trainer, "_save_rng_state", 1, after=False),  # half of the first checkpoint
    die_at(Trainer, "_save_checkpoint", 1, after=True),
    die_at(RubricCallback, "on_train_begin", 1, after=True),
    die_at(Trainer, "evaluate", 1, after=True),  # in the middle, of a step without a checkpoint
    die_within_a_line(3),
    die_at(Trainer, "save_model", 1, after=True),  # weights of a checkpoint without anything else
    die_at(transformers_trainer, "rotate_checkpoints", 1, after=False),
    die_at(shutil, "rmtree", 1, after=True),
    die_at(Trainer, "evaluate", 1, after=True),  # of the last step, before its checkpoint
    die_at(Trainer, "_save_checkpoint", 1, after=True),
    die_at(Trainer, "save_model", 1, after=False),  # everything is trained, nothing is saved
]


def test_many_kills_leave_nothing_behind(folder):
    whole = run(make_plan(tiny.job(folder, output="whole", **SMALL)))
    job = tiny.job(folder, output="killed", **SMALL)
    signals = [live(job, kill) for kill in KILLS]
    assert signals == [signal.SIGKILL] * len(KILLS)
    assert live(job, None) == 0
    expected = [record.model_dump(mode="json") for record in read_records(whole.records)]
    records = [record.model_dump(mode="json") for record in read_records(job.records)]
    assert [(record["step"], record["group"]) for record in records] == [
        (record["step"], record["group"]) for record in expected
    ]
    assert records == expected
    weights = [output / "model" / "model.safetensors" for output in (whole.model.parent, job.output)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
