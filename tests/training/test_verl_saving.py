"""What is saved of a run that ends for its judges, and what is said: needs Ray, and nothing of verl."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rubrank[ray]'")

from rubrank.errors import JudgeOutage
from rubrank.training.frameworks.verl.checkpoint import (
    MODES,
    CheckpointBeforeOutage,
    choose_mode,
    save_step,
    uses_barrier,
)


class Trainer:
    """Saves its step and the state of its loader."""

    def __init__(self, folder, resume: str = "auto") -> None:
        self.config = SimpleNamespace(trainer=SimpleNamespace(default_local_dir=str(folder), resume_mode=resume))
        self.global_steps, self.train_dataloader = 8, SimpleNamespace(state_dict=lambda: "after step 8")
        self.saved = []

    def _save_checkpoint(self) -> None:
        self.saved.append((self.global_steps, self.train_dataloader.state_dict()))


def test_the_last_whole_step_with_the_loader_that_goes_with_it(tmp_path):
    trainer = Trainer(tmp_path)
    assert save_step(trainer, 7, "before step 8") == (
        f"Saved {tmp_path}/global_step_7: the same command resumes from there."
    )
    assert trainer.saved == [(7, "before step 8")]
    assert (trainer.global_steps, trainer.train_dataloader.state_dict()) == (8, "after step 8")
    save_step(trainer, 7)
    assert trainer.saved[1:] == [(7, "after step 8")]


def test_a_run_that_would_not_resume_by_itself(tmp_path):
    said = save_step(Trainer(tmp_path, "disable"), 7)
    assert said.endswith("the same command with trainer.resume_mode=auto resumes from there.")


@pytest.mark.parametrize("step", [0, -1])
def test_nothing_is_saved_before_the_first_step(tmp_path, step):
    trainer = Trainer(tmp_path)
    assert "nothing to save" in save_step(trainer, step)
    assert trainer.saved == []


@pytest.mark.parametrize(("latest", "saves"), [("7", False), ("6", True), ("", True), ("x", True)])
def test_a_step_that_is_there_is_not_saved_again(tmp_path, latest, saves):
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(latest)
    trainer = Trainer(tmp_path)
    assert ("had been saved" in save_step(trainer, 7)) != saves
    assert bool(trainer.saved) == saves


def test_what_cannot_be_saved_is_said_and_hides_nothing(tmp_path):
    trainer = Trainer(tmp_path)

    def fails() -> None:
        raise OSError(28, "No space left on device")

    trainer._save_checkpoint = fails
    assert save_step(trainer, 7).startswith(f"{tmp_path}/global_step_7 could not be saved: OSError: ")
    assert trainer.global_steps == 8


@pytest.mark.parametrize(("name", "expected"), [("RubricBarrier", True), ("RubricScores", False), ("naive", False)])
def test_who_waits(name, expected):
    config = SimpleNamespace(reward=SimpleNamespace(reward_manager=SimpleNamespace(name=name)))
    assert uses_barrier(config) is expected


@pytest.mark.parametrize("mode", [*MODES, "rubrank_sync", "one_of_your_own"])
def test_with_the_barrier_modes_of_verl_are_run_as_those_that_save(mode):
    def config(manager):
        told = SimpleNamespace(v1=SimpleNamespace(trainer_mode=mode))
        return SimpleNamespace(reward=SimpleNamespace(reward_manager=SimpleNamespace(name=manager)), trainer=told)

    assert choose_mode(config("RubricBarrier")) == (f"rubrank_{mode}" if mode in MODES else mode)
    assert choose_mode(config("naive")) == mode


def test_a_queue_that_is_broken_too_does_not_hide_the_judges(tmp_path, monkeypatch):
    """Of an asynchronous trainer; its prompts go back into the queue before a checkpoint is saved."""

    class Theirs(Trainer):
        trainer_mode = "colocate_async"

        def fit(self, manager) -> None:
            self._done_step = 7
            raise JudgeOutage("main", "http://judge/v1", "HTTP 503", 300.0)

    class Ours(CheckpointBeforeOutage, Theirs):
        def _put_prompts_back(self) -> None:
            raise ConnectionError("no queue")

    trainer = Ours(tmp_path)
    with pytest.raises(JudgeOutage) as caught:
        trainer.fit(None)
    assert trainer.saved == [(7, "after step 8")]
    (note,) = caught.value.__notes__
    assert note.startswith(f"Saved {tmp_path}/global_step_7")
    assert note.endswith("are lost: ConnectionError: no queue.")
