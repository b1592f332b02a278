"""verl's own `fit()`, its GPU parts mocked, when a judge goes away: it stops, with a checkpoint that can be resumed.

Skipped unless verl is installed, in an environment of its own: see docs/verl.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiny_verl
import verl_fit
from judged import server_module
from test_verl_fit import SINGLE, fused
from tiny_verl import with_manager
from verl_fit import Fit, Talker, dataset, fit_config, fitted

from rubrank import read_records
from rubrank.errors import JudgeOutage

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # theirs are not ours to mend
RUBRIC = [
    {"name": "Long", "verifier": "WordCount", "params": {"low": 3}},
    {"name": "Night", "question": "Does it name what shines at night?", "domain": "binary", "weight": 2},
    {"name": "Sea", "verifier": "Keyword", "params": {"keywords": ["sea"]}},
]
# Many attempts: of few calls that fail, a server's fault with these alone is not told from an outage.
RETRY = {"attempts": 100, "first_wait": 0.02, "longest_wait": 0.05, "breaker_failures": 2, "breaker_pause": 0.1}
ALONE = [
    "reward.num_workers=1",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.resume_mode=auto",
    "data.shuffle=false",
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    yield tiny_verl.policy_folder(tmp_path_factory.mktemp("policy"))
    tiny_verl.tidy()


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with verl_fit.cluster():
        yield


class Judge:
    """Looks for the moon; goes away after some answers, until it is given others."""

    url = ""

    def __init__(self) -> None:
        self._lock, self._answer = threading.Lock(), server_module().Answer
        self.answers(12)

    def answers(self, many: int) -> None:
        """So many from now on, about rollouts of these `numbers`."""
        self._left, self.numbers = many, set()

    def __call__(self, asked):
        with self._lock:
            self._left -= 1
            if self._left < 0:
                return self._answer(status=503, body='{"error": "overloaded"}')
        self.numbers |= set(map(int, re.findall(r"number (\d+)", asked.prompt)))
        return self._answer(json.dumps({"reasoning": "r", "verdict": int("moon" in asked.prompt)}))


@pytest.fixture
def judge():
    """Answers one step, and the half of another."""
    told = Judge()
    with server_module().Server(told) as server:
        told.url = server.url
        yield told


def judges(judge, **policy):
    one = {"kind": "absolute", "endpoints": [{"base_url": judge.url, "model": "test-model"}], "retry": RETRY}
    return {"judges": [one], **policy}


def check_checkpoint(folder: Path, step: int) -> None:
    """There is one, and it has the updates that its name says."""
    assert [one.name for one in folder.glob("global_step_*")] == [f"global_step_{step}"]
    assert (folder / "latest_checkpointed_iteration.txt").read_text() == str(step)
    assert (folder / f"global_step_{step}" / "actor" / verl_fit.UPDATES).read_text() == str(step)
    assert (folder / f"global_step_{step}" / "data.pt").is_file()
    assert (folder / f"global_step_{step}" / "rubrank.json").is_file()


def check_whole(runs: list[Fit], records: Path | None, before: int = 0) -> list[list[int]]:
    """Over these runs: rewards are those of the texts, and each group has one record; the prompts of every step.

    before: so many steps were made by another.
    """
    steps = [found.groups(step) for found in runs for step in range(len(found.steps))]
    for groups in steps:
        assert [len(rows) for rows in groups.values()] == [4, 4]
        for rows in groups.values():
            assert [row.reward for row in rows] == pytest.approx(fused(rows), **SINGLE)
    if records is not None:
        told = [(one.step, one.group.partition("/")[2]) for one in read_records(records)]
        expected = sorted((i, uid) for i, groups in enumerate(steps, start=1 + before) for uid in groups)
        assert sorted(one for one in told if one[0] > before) == expected
        assert len(told) == len(set(told)) == len(expected) + 2 * before
    return [sorted({row.number for rows in groups.values() for row in rows}) for groups in steps]


def run(config, policy: Path, folder: Path, monkeypatch, found: Fit | None = None) -> Fit:
    with monkeypatch.context() as patch:
        return fitted(config, Talker(policy), folder, patch, found)


def test_a_run_that_stops_and_goes_on(policy, tmp_path, monkeypatch, judge):
    """In its second step the judge goes away: the first is saved, and the second is made again."""
    records = tmp_path / "records.jsonl"
    overrides = [*dataset(tmp_path), *with_manager("RubricScores"), "trainer.v1.trainer_mode=rubrank_sync", *ALONE]
    section = {"rubric": RUBRIC, "records": str(records), "judges": judges(judge, on_outage="stop")}
    first = Fit()
    with pytest.raises(JudgeOutage, match=r"has not answered for .* \(HTTP 503") as caught:
        run(fit_config(policy, tmp_path, *overrides, **section), policy, tmp_path, monkeypatch, first)
    (told,) = caught.value.__notes__
    assert told == f"Saved {tmp_path}/checkpoints/global_step_1: the same command resumes from there."
    check_checkpoint(tmp_path / "checkpoints", 1)
    judge.answers(10**9)
    second = run(fit_config(policy, tmp_path, *overrides, **section), policy, tmp_path, monkeypatch)
    assert check_whole([first, second], records) == [[0, 1], [2, 3], [4, 5]]
    assert second.workers.before == 1


@pytest.mark.parametrize("mode", ["rubrank_sync", "sync"])
def test_the_command_with_the_barrier(policy, tmp_path, monkeypatch, judge, mode):
    """As a process, with verl's task runner in an actor: exit code 2, its last line says all, and a run goes on."""
    records = tmp_path / "records.jsonl"
    overrides = [*dataset(tmp_path), *with_manager("RubricBarrier"), f"trainer.v1.trainer_mode={mode}", *ALONE]
    waits = judges(judge, on_outage="wait", outage_wait=0.5)
    section = {"rubric": RUBRIC, "records": str(records), "judges": waits}
    spec = json.dumps([str(policy), str(tmp_path), overrides, section])
    env = os.environ | {"VERL_FILE_LOGGER_PATH": str(tmp_path / "log.jsonl")}
    done = subprocess.run([sys.executable, __file__, spec], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 2, done.stderr[-3000:]
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(f"rubrank: judge 'judge': {judge.url}")
    assert "has not answered for" in said
    assert said.endswith(f"Saved {tmp_path}/checkpoints/global_step_1: the same command resumes from there.")
    check_checkpoint(tmp_path / "checkpoints", 1)
    judge.answers(10**9)
    ours = [*overrides, "trainer.v1.trainer_mode=rubrank_sync"]
    second = run(fit_config(policy, tmp_path, *ours, **section), policy, tmp_path, monkeypatch)
    assert second.workers.before == 1
    assert check_whole([second], records, before=1) == [[2, 3], [4, 5]]


@pytest.mark.parametrize("manager", ["RubricScores", "RubricBarrier"])
def test_an_asynchronous_run_loses_no_prompt(policy, tmp_path, monkeypatch, judge, manager):
    """Prompts that were sampled ahead are sampled again, and nothing that the judge did not see is trained on."""
    judge.answers(20)  # two batches are asked for at once
    records = tmp_path / "records.jsonl"
    more = ["trainer.v1.trainer_mode=rubrank_colocate_async", "trainer.total_training_steps=4"]
    overrides = [*dataset(tmp_path, rows=14), *with_manager(manager), *ALONE, *more]
    section = {"rubric": RUBRIC, "records": str(records), "judges": judges(judge, on_outage="stop")}
    first = Fit()
    with pytest.raises(JudgeOutage, match="has not answered for") as caught:
        run(fit_config(policy, tmp_path, *overrides, **section), policy, tmp_path, monkeypatch, first)
    done = len(first.steps)
    assert done in (1, 2)
    assert f"global_step_{done}" in caught.value.__notes__[0]
    check_checkpoint(tmp_path / "checkpoints", done)
    judge.answers(10**9)
    second = run(fit_config(policy, tmp_path, *overrides, **section), policy, tmp_path, monkeypatch)
    assert second.workers.before == done
    own = records if manager == "RubricScores" else None  # the barrier writes groups that were sampled ahead, too
    trained = [number for step in check_whole([first, second], own) for number in step]
    assert len(trained) == len(set(trained)) == 8
    left = set(range(2 * (done + 2))) - set(trained[: 2 * done])  # of what the first run had taken from its loader
    assert left <= judge.numbers


def command(spec: str) -> None:
    """What `python -m rubrank.training.verl` does, with GPU parts mocked."""
    from rubrank.training.verl.__main__ import run_or_exit

    policy, folder, overrides, section = json.loads(spec)
    with verl_fit.cluster():
        run_or_exit(fit_config(Path(policy), Path(folder), *overrides, **section), verl_fit.mocked_runner())


if __name__ == "__main__":
    command(sys.argv[1])
