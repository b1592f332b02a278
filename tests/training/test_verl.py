"""The trainer plug-in: scores out of the queue, fused by uid, before verl's advantage.

verl's own configuration, TransferQueue, agent loop, reward loop and trainer, on a CPU; only the policy is a script
(tiny_verl.py). Skipped unless verl is installed, in an environment of its own: see docs/verl.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_verl
from tiny_verl import (
    RUBRIC,
    SAID,
    advantage,
    config_of,
    expected,
    prompts,
    put,
    read,
    run_of,
    sampled,
    trainer_of,
    uid_of,
    validated,
    with_manager,
)

from rubrank.errors import InvalidInput, RubrankError
from rubrank.records.files import read_records

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # theirs are not ours to mend
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    yield tiny_verl.policy_folder(tmp_path_factory.mktemp("policy"))
    tiny_verl.tidy()


@pytest.fixture(scope="module")
def cluster(policy):
    with tiny_verl.cluster_with(policy):
        yield


@pytest.fixture(scope="module")
def scores_run(cluster, policy, tmp_path_factory):
    records = tmp_path_factory.mktemp("scores") / "records.jsonl"
    config = config_of(
        policy,
        *with_manager("RubricScores"),
        "trainer.v1.trainer_mode=rubrank_sync",
        rubric=RUBRIC,
        records=str(records),
    )
    with run_of(config, policy) as trainer:
        yield trainer


def test_a_step_is_fused_by_uid(scores_run):
    batch = sampled(scores_run, own := prompts([0, 1], 1))
    number = dict(zip(own["uid"], (0, 1), strict=True))
    before = read(scores_run, batch, "rm_scores")
    metrics = advantage(scores_run, batch)
    after = read(scores_run, batch, "rm_scores", "advantages")
    assert len(after) == 8
    for key, row in after.items():
        said = SAID[number[uid_of(key)]]
        rewards = expected(said)
        assert row["rm_scores"].sum().item() == pytest.approx(rewards[row["text"]])
        assert row["rm_scores"][:-1].abs().sum() == 0  # at the last token
        mean = sum(rewards.values()) / 4
        spread = (sum((r - mean) ** 2 for r in rewards.values()) / 3) ** 0.5
        assert row["advantages"][0].item() == pytest.approx((rewards[row["text"]] - mean) / (spread + 1e-6), rel=1e-4)
    changed = [k for k in after if before[k]["rm_scores"].sum() != pytest.approx(after[k]["rm_scores"].sum().item())]
    assert changed  # the reward loop's own scores are others
    assert metrics["rubrank/Keyword/mean"] == pytest.approx(5 / 8)
    records = [one for one in read_records(scores_run.engine.records) if one.step == 1]
    assert sorted(one.group for one in records) == sorted(f"1/{uid}" for uid in number)


def test_rows_bring_rubrics(scores_run):
    scores_run.global_steps = 2
    own = json.dumps([{"name": "Short", "verifier": "WordCount", "params": {"high": 2}, "weight": 9}])
    batch = sampled(scores_run, asked := prompts([0, 1], 2, rubric=[own, None]), 2)
    advantage(scores_run, batch)
    rewards = dict(zip(asked["uid"], (expected(SAID[0], own), expected(SAID[1])), strict=True))
    assert rewards[asked["uid"][0]] != expected(SAID[0])
    for key, row in read(scores_run, batch, "rm_scores").items():
        assert row["rm_scores"].sum().item() == pytest.approx(rewards[uid_of(key)][row["text"]])


def test_validation_shows_what_can_be_compared(scores_run):
    metrics = validated(scores_run)
    # Two rollouts of each of two prompts; the script has been through whole rounds, so these are the first two.
    assert metrics["val-aux/lakes/rubrank/Keyword/mean@2"] == pytest.approx(0.75)
    assert metrics["val-core/lakes/reward/mean@2"] == pytest.approx((1 + 2 / 3 + 0 + 2 / 3) / 4)


# -------------------------------------------------------------------------------------- rows put into the queue by hand


@pytest.fixture
def alone(cluster, policy):
    """A trainer without agents and workers: rollouts bring no scores unless a test says so."""
    return trainer_of(config_of(policy, "trainer.v1.trainer_mode=rubrank_sync", rubric=RUBRIC), policy)


def rewards_of(trainer: Any, batch: Any) -> dict[str, float]:
    return {key: row["rm_scores"].sum().item() for key, row in read(trainer, batch, "rm_scores").items()}


def test_the_trainer_grades_what_brings_no_scores(alone):
    batch = put(alone, [{"key": f"a_{i}_0", "text": text} for i, text in enumerate(SAID[0])])
    metrics = advantage(alone, batch)
    assert list(rewards_of(alone, batch).values()) == pytest.approx(list(expected(SAID[0]).values()))
    assert metrics["rubrank/gate/stopped"] == 0.25


def test_scores_from_the_queue_are_believed(alone):
    texts = [
        json.dumps({"criteria": ["EmptyAnswer", "WordCount", "Keyword"], "scores": scores, "reasons": [""] * 3})
        for scores in ([1, 0, 0], [1, 1, 1], [None] * 3)
    ]
    batch = put(alone, [{"key": f"b_{i}_0", "text": "x", "scores": text} for i, text in enumerate(texts)])
    metrics = advantage(alone, batch)
    assert list(rewards_of(alone, batch).values()) == pytest.approx([0.25, 1.0, 0.625])  # the unknown one: the mean
    assert read(alone, batch, "advantages")["b_2_0"]["advantages"].abs().sum() == pytest.approx(0.0, abs=1e-6)
    assert metrics["rubrank/unknown"] == pytest.approx(1 / 3)


def test_of_several_outputs_the_last_one_counts(alone):
    rows = [("c_0_0", "moon moon moon"), ("c_1_0", "x"), ("c_0_1", "x"), ("c_1_1", "a full moon")]
    batch = put(alone, [{"key": key, "text": text} for key, text in rows])
    advantage(alone, batch)
    assert rewards_of(alone, batch) == pytest.approx({"c_0_0": 0.25, "c_0_1": 0.25, "c_1_0": 1.0, "c_1_1": 1.0})


def test_padding_is_nobody(alone):
    rows = [("d_0_0", "moon"), ("d_1_0", "x"), ("padx_0_0", "moon")]
    batch = put(alone, [{"key": key, "text": text, "reward": 0.25} for key, text in rows], padding=1)
    metrics = advantage(alone, batch)
    assert rewards_of(alone, batch) == pytest.approx({"d_0_0": 1.0, "d_1_0": 0.25, "padx_0_0": 0.25})
    assert metrics["rubrank/Keyword/mean"] == 0.5


# ------------------------------------------------------------------------------------------ modes, data and checkpoints


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_verl_sees_its_own_mode(cluster, policy, mode):
    ours, theirs = (
        trainer_of(config_of(policy, f"trainer.v1.trainer_mode={name}", rubric=RUBRIC), policy)
        for name in (f"rubrank_{mode}", mode)
    )
    assert ours.trainer_mode == theirs.trainer_mode == mode
    assert type(ours.replay_buffer) is type(theirs.replay_buffer)
    assert isinstance(ours, type(theirs))


def test_the_third_mode_is_registered_too():
    from verl.trainer.ppo.v1 import PPOTrainerSeparateAsync, get_trainer_cls

    import rubrank.training.frameworks.verl.trainer as ours

    assert get_trainer_cls("rubrank_separate_async") is ours.RubricTrainerSeparateAsync
    assert issubclass(ours.RubricTrainerSeparateAsync, PPOTrainerSeparateAsync)


def test_a_wrong_rubric_stops_the_run_before_a_model_is_loaded(cluster, policy, tmp_path):
    from datasets import Dataset

    rows = {
        "prompt": [[{"role": "user", "content": "p"}]] * 2,
        "data_source": ["x"] * 2,
        "rubric": [None, '["Polite?"]'],
    }
    Dataset.from_dict(rows).to_parquet(tmp_path / "rows.parquet")
    files = [f"data.{name}_files={tmp_path / 'rows.parquet'}" for name in ("train", "val")]
    config = config_of(
        policy, *files, "trainer.v1.trainer_mode=rubrank_sync", "data.dataloader_num_workers=0", rubric=RUBRIC
    )
    with pytest.raises(
        InvalidInput, match=r"train_dataset, row 2: criterion 'Polite\?' must be decided by a verifier or a judge"
    ):
        trainer_of(config, policy)._init_dataloader()


def resumable(policy: Path, folder: Path, **section: Any) -> Any:
    config = config_of(
        policy,
        "trainer.v1.trainer_mode=rubrank_sync",
        f"trainer.default_local_dir={folder}",
        rubric=RUBRIC,
        records=str(folder / "records.jsonl"),
        **section,
    )
    trainer = trainer_of(config, policy)
    nothing = lambda *given, **named: None  # noqa: E731
    trainer.actor_rollout_wg = SimpleNamespace(save_checkpoint=nothing, load_checkpoint=nothing)
    trainer.train_dataloader = SimpleNamespace(state_dict=dict, load_state_dict=nothing)
    return trainer


def test_what_a_rule_remembers_is_in_the_checkpoint(cluster, policy, tmp_path):
    first = resumable(policy, tmp_path, rule="amrp+")
    for step in (1, 2):
        first.global_steps = step
        rows = [{"key": f"e{step}_{i}_0", "text": text} for i, text in enumerate(SAID[step - 1])]
        advantage(first, put(first, rows))
        if step == 1:
            first._save_checkpoint()
            saved = first.engine.state_dict()
    second = resumable(policy, tmp_path, rule="amrp+")
    second._load_checkpoint()
    assert second.global_steps == 1
    assert second.engine.state_dict() == saved != first.engine.state_dict()
    assert [one.step for one in read_records(tmp_path / "records.jsonl")] == [1]  # step 2 is made again
    (tmp_path / "global_step_1" / "rubrank.json").unlink()
    with pytest.raises(RubrankError, match=r"rubrank\.json is missing: it has the state of 'amrp\+'"):
        resumable(policy, tmp_path, rule="amrp+")._load_checkpoint()


def test_verl_finds_us_by_the_entry_point(tmp_path):
    """What pyproject.toml declares, as an installed package; `import verl` is all that a run does."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["verl.plugins"]
    folder = tmp_path / "rubrank_entry-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rubrank-entry\nVersion: 0\n")
    lines = [f"{name} = {value}" for name, value in declared.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[verl.plugins]", *lines, ""]))
    code = "from verl.trainer.ppo.v1 import get_trainer_cls; print(get_trainer_cls('rubrank_sync').__module__)"
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    env = {**os.environ, "PYTHONPATH": path, "VERL_USE_EXTERNAL_PLUGINS": "auto"}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert found.stdout.strip().endswith("rubrank.training.frameworks.verl.trainer"), found.stderr
