"""verl's own `fit()`, its GPU parts mocked (verl_fit.py): what reaches the advantage is `rubrank.fuse` of the group.

Skipped unless verl is installed, in an environment of its own: see docs/verl.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny_verl
import verl_fit
from tiny_verl import with_manager
from verl_fit import Fit, Row, Talker, dataset, fit_config, fitted

import rubrank
from rubrank import RewardEngine, read_records
from rubrank.rollouts.rollout import Group, Rollout

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # theirs are not ours to mend
RUBRIC = [
    {"name": "Long", "verifier": "WordCount", "params": {"low": 3}},
    {"name": "Moon", "verifier": "Keyword", "params": {"keywords": ["moon"]}, "weight": 2},
    {"name": "Sea", "verifier": "Keyword", "params": {"keywords": ["sea"]}},
]
WEIGHTS = [1, 2, 1]
SINGLE = {"rel": 1e-6, "abs": 1e-7}  # rewards are float32 in verl


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    yield tiny_verl.policy_folder(tmp_path_factory.mktemp("policy"))
    tiny_verl.tidy()


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with verl_fit.cluster():
        yield


def fused(rows: list[Row]) -> list[float]:
    """What the group deserves, from its texts alone."""
    scores = [[len(row.text.split()) >= 3, "moon" in row.text, "sea" in row.text] for row in rows]
    return rubrank.fuse(np.array(scores, dtype=float), weights=WEIGHTS).tolist()


def check_rewards(found: Fit, sizes: list[list[int]]) -> None:
    """Every group of every step, and where the reward stands in it."""
    assert [sorted(map(len, found.groups(step).values())) for step in range(len(found.steps))] == sizes
    for step in range(len(found.steps)):
        for rows in found.groups(step).values():
            assert [row.reward for row in rows] == pytest.approx(fused(rows), **SINGLE)
            assert [row.last for row in rows] == [row.reward for row in rows]
    assert len({row.reward for rows in found.steps for row in rows}) > 3  # there is something to learn


def check_advantages(found: Fit) -> None:
    """GRPO's, within each group, as the actor's update gets them."""
    expected: list[list[float]] = []
    for step in range(len(found.steps)):
        expected.append([])
        for rows in found.groups(step).values():
            rewards = np.array([row.reward for row in rows])
            expected[-1] += ((rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)).tolist()
    for reached, own in zip(found.workers.updates, expected, strict=True):
        padding = [0.0] * (len(reached) - len(own))
        assert sorted(reached) == pytest.approx(sorted(own + padding), abs=1e-3)


def check_records(found: Fit, path: Path) -> None:
    """One for each group that was trained on, with the rewards that it got; none of what was validated."""
    records = list(read_records(path))
    trained = {uid: (step, rows) for step in range(len(found.steps)) for uid, rows in found.groups(step).items()}
    assert sorted(one.group.partition("/")[2] for one in records) == sorted(trained)
    for record in records:
        step, rows = trained[record.group.partition("/")[2]]
        assert record.step == step + 1
        told = dict(zip(record.responses, record.reward, strict=True))
        assert told == pytest.approx({row.text: row.reward for row in rows}, **SINGLE)
        assert record.metadata["mode"] == "train"


def check_validation(found: Fit, times: int) -> None:
    """Weighted means of the criteria, before the first step and after each."""
    told = [line["data"] for line in found.log if "val-core/rows/reward/mean@2" in line["data"]]
    assert len(told) == times
    for one in told:
        criteria = [one[f"val-aux/rows/rubrank/{name}/mean@2"] for name in ("Long", "Moon", "Sea")]
        assert one["val-core/rows/reward/mean@2"] == pytest.approx(np.average(criteria, weights=WEIGHTS))


def test_a_run(policy, tmp_path, monkeypatch):
    """The documented plug-in; one session of a group is lost, and verl fills the batch up."""
    records = tmp_path / "records.jsonl"
    overrides = [*dataset(tmp_path), *with_manager("RubricScores"), "trainer.v1.trainer_mode=rubrank_sync"]
    config = fit_config(policy, tmp_path, *overrides, "data.shuffle=false", rubric=RUBRIC, records=str(records))
    found = fitted(config, Talker(policy, lost=(2,)), tmp_path, monkeypatch)
    assert [sorted({row.number for row in rows}) for rows in found.steps] == [[0, 1], [2, 3], [4, 5]]
    check_rewards(found, [[4, 4], [3, 4], [4, 4]])
    check_advantages(found)
    check_records(found, records)
    check_validation(found, times=4)
    steps = [line["data"] for line in found.log if "rubrank/score" in line["data"]]
    assert len(steps) == 3
    for line, rows in zip(steps, found.steps, strict=True):
        assert line["critic/rewards/mean"] == pytest.approx(np.mean([row.reward for row in rows]), **SINGLE)
    assert sorted(p.parent.name for p in tmp_path.glob("checkpoints/*/rubrank.json")) == [
        "global_step_2",
        "global_step_3",
    ]


def test_an_asynchronous_run_with_attributes_under_control(policy, tmp_path, monkeypatch):
    """Their influence is estimated over the run: over what was trained on, and not over what was validated."""
    records = tmp_path / "records.jsonl"
    control = {"attributes": ["answer_length"], "adjust_criteria": "all"}
    overrides = [*dataset(tmp_path, rows=12), *with_manager("RubricScores"), "data.train_batch_size=6"]
    mode = "trainer.v1.trainer_mode=rubrank_colocate_async"
    config = fit_config(policy, tmp_path, *overrides, mode, rubric=RUBRIC, records=str(records), **control)
    found = fitted(config, Talker(policy), tmp_path, monkeypatch)
    assert [sorted(map(len, found.groups(step).values())) for step in range(3)] == [[4] * 6] * 3
    engine = RewardEngine(RUBRIC, **control)
    tokens = {one.group: dict(zip(one.responses, one.tokens, strict=True)) for one in read_records(records)}
    for step in range(3):
        rows = found.groups(step)
        groups = [counted(f"{step + 1}/{uid}", one, tokens[f"{step + 1}/{uid}"]) for uid, one in rows.items()]
        rewards = engine.score(groups, step + 1).rewards
        for one, own in zip(rows.values(), rewards, strict=True):
            assert [row.reward for row in one] == pytest.approx(own, **SINGLE)
    last = found.groups(2).values()
    plain = [reward for rows in last for reward in fused(rows)]
    assert [row.reward for rows in last for row in rows] != pytest.approx(plain, abs=0.01)  # it takes ten groups
    check_advantages(found)
    check_records(found, records)
    check_validation(found, times=4)
    assert all(before == after for before, after in found.states)
    assert len({json.dumps(after["memory"]) for _, after in found.states}) == 4  # every step of training taught it
    assert found.states[-1][1]["memory"] == json.loads(json.dumps(engine.state_dict()["memory"]))


def counted(name: str, rows: list[Row], tokens: dict[str, tuple[int, int]]) -> Group:
    """The group as the trainer saw it."""
    counts = [dict(zip(("reasoning", "answer"), tokens[row.text], strict=True)) for row in rows]
    said = [Rollout(prompt="p", response=row.text, token_counts=n) for row, n in zip(rows, counts, strict=True)]
    return Group(id=name, rollouts=tuple(said))
