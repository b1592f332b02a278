"""Real runs of TRL's GRPOTrainer in two gloo processes that hold parts of groups: a rule that remembers, `pool="run"`.

What a run learns about attributes is the same on every process, in the checkpoint, and comes from training alone.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

import tiny_trl  # noqa: E402

from rubrank.records.files import read_records  # noqa: E402
from rubrank.records.record import GroupRecord  # noqa: E402
from rubrank.rollouts.rollout import Rollout  # noqa: E402
from rubrank.training.engine import RewardEngine  # noqa: E402
from rubrank.training.flat_batch import Sample, by_position, score_flat  # noqa: E402

CONTROL: dict[str, Any] = {"attributes": ["answer_length"], "adjust_criteria": "all"}
STEPS, SAVED = 4, 2
OPTIONS = {
    "reward": CONTROL,
    "per_device_train_batch_size": 10,
    "num_generations": 4,
    "max_steps": STEPS,
    "save_strategy": "steps",
    "save_steps": SAVED,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "num_generations_eval": 2,
    "per_device_eval_batch_size": 3,
}


TWO = {
    "rule": "amrp+",
    "per_device_train_batch_size": 6,
    "num_generations": 4,
    "max_steps": 2,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "num_generations_eval": 2,
    "per_device_eval_batch_size": 3,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    """All in one pair of processes: they take longer to start than to train."""
    resumed = {**OPTIONS, "resume": f"whole/checkpoint-{SAVED}"}
    return tiny_trl.in_two_processes(
        tmp_path_factory.mktemp("runs"), {"two": TWO, "whole": OPTIONS, "resumed": resumed}
    )


# ------------------------------------------------------------------------------------------------ a rule that remembers


@pytest.fixture(scope="module")
def two(runs) -> list[dict[str, Any]]:
    """Two processes of six rows each, groups of four in training and of two in evaluation."""
    return runs["two"]


def records_of(path: Path, mode: str = "train") -> list[GroupRecord]:
    return [record for record in read_records(path) if record.metadata["mode"] == mode]


def test_a_process_holds_parts_of_groups(two):
    assert [one["world"] for one in two] == [2, 2]
    for first, second in zip(two[0]["calls"][:2], two[1]["calls"][:2], strict=True):
        assert list(Counter(first["prompts"]).values()) == [4, 2]
        assert list(Counter(second["prompts"]).values()) == [2, 4]
        assert first["prompts"][-1] == second["prompts"][0]


def test_rewards_are_those_of_the_whole_batch(two):
    engine = RewardEngine(tiny_trl.RUBRIC, "amrp+")
    for n, parts in enumerate(zip(two[0]["calls"], two[1]["calls"], strict=True)):
        train = parts[0]["train"]
        samples = [
            Sample(Rollout(prompt=p, response=c))
            for part in parts
            for p, c in zip(part["prompts"], part["completions"], strict=True)
        ]
        step, size = (n, 4) if train else (2, 2)
        expected = score_flat(engine, samples, step=step, train=train, group_of=by_position(size)).rewards
        assert [reward for part in parts for reward in part["rewards"]] == expected
    assert [one["state"] for one in two] == [engine.state_dict()] * 2


def test_groups_are_recorded_once(two):
    train, evaluated = records_of(two[0]["records"]), records_of(two[0]["records"], "eval")
    assert [(r.group, r.size) for r in train] == [(f"{s}/{g}", 4) for s in range(2) for g in range(3)]
    assert len({r.group for r in evaluated}) == len(evaluated) == 9
    assert {r.size for r in evaluated} == {2}


def test_metrics_are_those_of_all_processes(two):
    means = [np.mean([x for r in records_of(two[0]["records"]) if r.step == s for x in r.reward]) for s in range(2)]
    logged = [line["rewards/watched/mean"] for line in two[0]["log"] if "rewards/watched/mean" in line]
    assert logged == pytest.approx(means, abs=1e-6)


# --------------------------------------------------------------------------------------------- attributes, over the run


@pytest.fixture(scope="module")
def whole(runs) -> list[dict[str, Any]]:
    """A run of six steps, five groups of four each; the third is cut in two by the processes."""
    return runs["whole"]


def replayed(two: list[dict[str, Any]], evaluate: bool) -> tuple[RewardEngine, list[dict[str, Any]]]:
    """The same rollouts in one process, with or without the evaluations; and the state after every training step."""
    engine, states, step = RewardEngine(tiny_trl.RUBRIC, "rlvr2+", **CONTROL), [], 0
    for parts in zip(two[0]["calls"], two[1]["calls"], strict=True):
        train = parts[0]["train"]
        samples = [
            Sample(Rollout(prompt=p, response=c, token_counts={"reasoning": 0, "answer": n}))
            for part in parts
            for p, c, n in zip(part["prompts"], part["completions"], part["tokens"], strict=True)
        ]
        if train or evaluate:
            found = score_flat(engine, samples, step=step, train=train, group_of=by_position(4 if train else 2)).rewards
            assert [reward for part in parts for reward in part["rewards"]] == found
        if train:
            states.append(engine.state_dict())
            step += 1
    return engine, states


def learnt(state: dict[str, Any]) -> dict[str, Any]:
    return state["memory"]["gated"]["running"]["criteria"]


def test_groups_are_cut_over_processes(whole):
    first = whole[0]["calls"][0]["prompts"], whole[1]["calls"][0]["prompts"]
    assert [list(Counter(prompts).values()) for prompts in first] == [[4, 4, 2], [2, 4, 4]]
    assert any(not call["train"] for call in whole[0]["calls"])


def test_every_process_knows_what_one_process_would(whole):
    engine, _ = replayed(whole, evaluate=True)
    assert [one["state"] for one in whole] == [engine.state_dict()] * 2
    known = learnt(whole[0]["state"])
    assert known
    assert max(sums["n"] for sums in known.values()) >= 8  # enough for something to be taken out


def test_evaluations_do_not_teach_it(whole):
    """Without them the state is the same, and so are the rewards of training."""
    engine, _ = replayed(whole, evaluate=False)
    assert engine.state_dict() == whole[0]["state"]


def test_the_checkpoint_carries_it(runs, whole):
    folder = whole[0]["records"].parent
    saved = json.loads((folder / f"checkpoint-{SAVED}" / "trainer_state.json").read_text())["stateful_callbacks"]
    _, states = replayed(whole, evaluate=False)
    (held,) = [state for name, state in saved.items() if name.startswith("rubrank/")]
    assert learnt(held) == learnt(states[SAVED - 1]) != learnt(states[-1])
    resumed = runs["resumed"]
    assert [one["state"] for one in resumed] == [whole[0]["state"]] * 2
    later = [call["rewards"] for call in whole[0]["calls"]][-len(resumed[0]["calls"]) :]
    assert [call["rewards"] for call in resumed[0]["calls"]] == later
