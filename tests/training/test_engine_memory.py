"""What an engine keeps: records on disk, the memory of rules, itself in another process."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scored import ANSWERS, RUBRIC, group, groups

from rubrank.errors import InvalidInput, UnknownName
from rubrank.records.files import read_records
from rubrank.training.engine import RewardEngine

# -------------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize("rule", ["rlvr2+", "rlvr2", "gdpo+", "amrp"])
def test_records_of_every_step(tmp_path, rule):
    path = tmp_path / "runs" / "records.jsonl"
    engine = RewardEngine(RUBRIC, rule, records=path)
    steps = [engine.score(groups(f"{n}/"), n) for n in range(3)]
    records = list(read_records(path))
    assert [(record.step, record.group) for record in records][:3] == [(0, "0/tides"), (0, "0/rain"), (1, "1/tides")]
    assert [record.reward for record in records] == [rewards for step in steps for rewards in step.rewards]
    assert {record.rule for record in records} == {rule}
    assert records[0].responses == tuple(ANSWERS["tides"])
    assert records[0].metadata == {"mode": "train"}


def test_what_is_made_again_is_taken_away(tmp_path):
    engine = RewardEngine(RUBRIC, records=tmp_path / "records.jsonl")
    for step in range(4):
        engine.score(groups(f"{step}/"), step)
        engine.score(groups(f"eval-{step}/"), step, train=False)
    assert engine.rewind(2) == 6  # training of steps 2 and 3, evaluation of step 3
    kept = [(record.step, record.metadata["mode"]) for record in read_records(engine.records)]
    assert kept == [(0, "train")] * 2 + [(0, "eval")] * 2 + [(1, "train")] * 2 + [(1, "eval")] * 2 + [(2, "eval")] * 2
    assert engine.rewind(9) == 0


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
def test_half_a_line_that_a_kill_left_is_taken_away(tmp_path, name):
    engine = RewardEngine(RUBRIC, records=tmp_path / name)
    assert engine.rewind(0) == 0  # nothing yet
    for step in range(2):
        engine.score(groups(f"{step}/"), step)
    data = engine.records.read_bytes()
    engine.records.write_bytes(data[:-20])
    assert engine.rewind(2) == 1
    engine.score(groups("2/"), 2)
    assert [record.step for record in read_records(engine.records)] == [0, 0, 1, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_records_grow_so_they_are_json_lines():
    with pytest.raises(InvalidInput, match=r"a \.jsonl, \.jsonl\.gz or \.jsonl\.zst file"):
        RewardEngine(RUBRIC, records="records.parquet")


def test_labels_never_return():
    engine = RewardEngine(RUBRIC)
    labels = [engine.label(0), engine.label(0), engine.label(0, train=False), engine.label(1), engine.label(1)]
    assert labels == ["0", "0.1", "eval-0", "1", "1.1"]
    assert [engine.label(step) for step in (5, 6, 5, 6, 0)] == ["5", "6", "5.1", "6.1", "0.2"]  # asynchronous trainers


# ---------------------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize("rule", ["amrp+", "amrp", "rlvr2*amrp+"])
def test_a_run_that_is_resumed_gives_what_an_uninterrupted_one_does(rule):
    rng = np.random.default_rng(0)
    words = ["moon", "sea", "the", "rises", "and"]
    steps = [
        [group(f"{s}/{g}", *(" ".join(rng.choice(words, rng.integers(1, 8))) for _ in range(4))) for g in range(3)]
        for s in range(6)
    ]
    whole = RewardEngine(RUBRIC, rule)
    expected = [whole.score(one, s).rewards for s, one in enumerate(steps)]
    first = RewardEngine(RUBRIC, rule)
    for s in range(3):
        first.score(steps[s], s)
    saved = json.loads(json.dumps(first.state_dict()))
    second, anew = RewardEngine(RUBRIC, rule), RewardEngine(RUBRIC, rule)
    second.load_state_dict(saved)
    assert [second.score(steps[s], s).rewards for s in range(3, 6)] == expected[3:]
    assert [anew.score(steps[s], s).rewards for s in range(3, 6)] != expected[3:]


def test_evaluations_teach_nothing():
    engine = RewardEngine(RUBRIC, "amrp+")
    engine.score(groups(), 0)
    before = engine.state_dict()
    engine.score([group("other", "moon moon moon moon", "x")], 0, train=False)
    assert engine.state_dict() == before
    engine.score([group("other", "moon moon moon moon", "x")], 1)
    assert engine.state_dict() != before


def test_a_state_of_something_else():
    saved = RewardEngine(RUBRIC, "amrp+")
    saved.score(groups(), 0)
    with pytest.raises(InvalidInput, match="'amrp\\+', whose state the checkpoint contains"):
        RewardEngine(RUBRIC, "rlvr2+").load_state_dict(saved.state_dict())
    with pytest.raises(InvalidInput, match="of version 1"):
        RewardEngine(RUBRIC).load_state_dict({"version": 9})
    for name in ("rule", "memory", "lines"):
        damaged = {key: value for key, value in RewardEngine(RUBRIC).state_dict().items() if key != name}
        with pytest.raises(InvalidInput, match=f"state must be complete.* got version 1 without {name}"):
            RewardEngine(RUBRIC).load_state_dict(damaged)
    for rule in ("gdpo+", "amrp+"):  # a state without a memory: nothing to lose
        RewardEngine(RUBRIC, rule).load_state_dict(RewardEngine(RUBRIC, "rlvr2+").state_dict())


def test_it_can_be_sent_to_another_process():
    engine = RewardEngine(RUBRIC, "rlvr2*amrp+", attributes=["markdown"])
    engine.score(groups(), 0)
    sent = pickle.loads(pickle.dumps(engine))
    assert sent.state_dict() == engine.state_dict()
    assert sent.score(groups(), 1).rewards == engine.score(groups(), 1).rewards


def test_several_threads_may_score(tmp_path):
    engine = RewardEngine(RUBRIC, "amrp+", records=tmp_path / "records.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: engine.score(groups(f"{n}/"), n), range(24)))
    assert len(list(read_records(engine.records))) == 48


# --------------------------------------------------------------------------------------------------------------- checks


def test_a_rubric_is_checked_before_anything_is_spent():
    engine = RewardEngine(["EmptyAnswer"])
    engine.check_rubric([{"name": "WordCount", "params": {"low": 4}}])
    with pytest.raises(InvalidInput, match=r"row 3: criteria must be some in the layer"):
        engine.check_rubric(None, "row 3")
    with pytest.raises(InvalidInput, match="row 4"):
        engine.check_rubric([{"name": "WordCount", "params": {"lowest": 4}}], "row 4")
    with pytest.raises(InvalidInput, match="rubric must be given"):
        RewardEngine().check_rubric(None, "row 5")
    with pytest.raises(UnknownName):
        RewardEngine(RUBRIC, "rlvr3+")
    with pytest.raises(InvalidInput, match="workers must be ≥ 0; got -1"):
        RewardEngine(RUBRIC, workers=-1)
