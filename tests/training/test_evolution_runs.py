"""Rubrics that evolve during a run with TRL: the tiny policy, writers and judges that answer by rule."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

from judges.server import MODEL, Answer, Server  # noqa: E402
from training import tiny_trl  # noqa: E402

from rubrank.records.files import read_records  # noqa: E402
from rubrank.training.evolution import STATE_KEY, evolve  # noqa: E402
from rubrank.training.frameworks.trl import RubricReward  # noqa: E402

QUESTION = "Does the answer contain the letter e?"


def write(asked: Any) -> Answer:
    if asked.prompt.startswith("You write a rubric"):
        return Answer(json.dumps({"items": [{"question": QUESTION, "points": 5, "category": "Essential"}]}))
    return Answer(json.dumps({"text": "xyz"}))


def judge(asked: Any) -> Answer:
    responses = re.findall(r"<response \w+>\n(.*?)\n</response", asked.prompt, re.DOTALL)
    return Answer(json.dumps({"verdict": int("e" in responses[-1])}))


def train(tmp_path: Path, writer: Any, judging: Any, resume: str | None = None, **options: Any) -> Any:
    # Every response has at least no words: the rubric alone tells nothing apart.
    rubric = [{"name": "Anything", "verifier": "WordCount", "params": {"low": 0}}]
    judges = {"endpoints": [{"base_url": judging.url, "model": MODEL}]}
    records = tmp_path / "records.jsonl"
    reward = RubricReward(rubric, judges=judges, rule="weighted-mean", records=records, attributes=[])
    writers = {"name": "w", "endpoints": [{"base_url": writer.url, "model": MODEL}]}
    callback = evolve(reward, writers=writers, every=2, keep="all", **options)
    trainer = tiny_trl.trainer_of(reward, tmp_path / "out", max_steps=6, save_strategy="steps", save_steps=2)
    trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=resume)
    return reward


def test_items_begin_at_a_step_and_a_resumed_run_has_them(tmp_path):
    with Server(write) as writer, Server(judge) as judging:
        reward = train(tmp_path, writer, judging)
        records = list(read_records(tmp_path / "records.jsonl"))
        saved = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())["stateful_callbacks"]
        log = (tmp_path / "evolution.jsonl").read_text()
        resumed = train(tmp_path, writer, judging, resume=str(tmp_path / "out/checkpoint-2"))
    assert all(len(record.criteria) == 1 for record in records if record.step < 2)
    evolved = [record for record in records if len(record.criteria) > 1]
    assert evolved, "the same prompts came again, with their new items"
    for record in evolved:
        names = [criterion.name for criterion in record.criteria if criterion.family == "evolved"]
        assert all(int(name.split("since step ")[1].rstrip(")")) <= record.step for name in names)
    assert saved[STATE_KEY]["queries"]
    assert resumed.evolution.state_dict() == reward.evolution.state_dict()
    assert (tmp_path / "evolution.jsonl").read_text() == log
    # Rewards of earlier steps are as they were, and those that were made again are the same.
    assert [record.reward for record in read_records(tmp_path / "records.jsonl")] == [r.reward for r in records]


def test_nothing_evolves_unless_asked(tmp_path):
    reward = RubricReward(tiny_trl.RUBRIC, rule="weighted-mean", records=tmp_path / "records.jsonl")
    tiny_trl.trainer_of(reward, tmp_path / "out").train()
    assert reward.evolution is None
    assert not (tmp_path / "evolution.jsonl").exists()


def test_the_config_of_a_job(tmp_path):
    from training import tiny

    from rubrank.errors import InvalidInput
    from rubrank.training.job.plan import make_plan

    folder = tiny.copy_without_weights(tiny.make(tmp_path / "tiny"), tmp_path / "job")
    with Server(write) as writer, Server(judge) as judging:
        judges = {"judges": [{"endpoints": [{"base_url": judging.url, "model": MODEL}]}]}
        writers = {"judges": [{"name": "w", "endpoints": [{"base_url": writer.url, "model": MODEL}]}]}
        (folder / "writers.json").write_text(json.dumps(writers))
        plan = make_plan(tiny.job(folder, judges=judges, evolve={"writers": "writers.json", "every": 3}))
        assert "every 3 steps, at most 4 items for a prompt" in plan.describe()
        assert plan.reward.evolution.writers.cache == str(plan.job.output / "writers.sqlite")
        assert plan.reward.evolution.log == plan.job.output / "evolution.jsonl"
        with pytest.raises(InvalidInput, match=r"evolve.*evry"):
            make_plan(tiny.job(folder, judges=judges, evolve={"writers": "writers.json", "evry": 3}))
        with pytest.raises(InvalidInput, match="decides every criterion"):
            make_plan(tiny.job(folder, evolve={"writers": "writers.json"}))
        with pytest.raises(InvalidInput, match=r"missing\.json"):
            make_plan(tiny.job(folder, judges=judges, evolve={"writers": "missing.json"}))


def test_a_job_of_the_verb_evolves_from_start_to_end(tmp_path):
    """`rubrank train` with `evolve:`: the rubric tells nothing apart, until items are written, measured and used."""
    from training import tiny

    folder = tiny.make(tmp_path / "tiny")
    prompts = (folder / "prompts.jsonl").read_text().splitlines()[:4]
    (folder / "few.jsonl").write_text("".join(f"{line}\n" for line in prompts))
    (folder / "rubric.yaml").write_text("criteria: [{name: Anything, verifier: WordCount, params: {low: 0}}]\n")
    with Server(write) as writer, Server(judge) as judging:
        judges = {"judges": [{"endpoints": [{"base_url": judging.url, "model": MODEL}]}]}
        writers = {"judges": [{"name": "w", "endpoints": [{"base_url": writer.url, "model": MODEL}]}]}
        (folder / "writers.json").write_text(json.dumps(writers))
        tiny.job(
            folder,
            stages=[{"name": "all", "steps": 6, "sources": [{"path": "few.jsonl"}]}],
            held_out=None,
            judges=judges,
            evolve={"writers": "writers.json", "every": 2},
            training__prompts_per_batch=4,
            training__per_device_train_batch_size=32,
        )
        command = [sys.executable, "-m", "rubrank", "train", str(folder / "job.yaml")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        result = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=240)
        written = [asked for asked in writer.completions if asked.prompt.startswith("You write a rubric")]
    assert result.returncode == 0, result.stderr
    assert written
    events = [json.loads(line) for line in (folder / "run" / "evolution.jsonl").read_text().splitlines()]
    added = [event for event in events if event["event"] == "added"]
    assert added
    assert all(event["figures"]["kappa"] >= 0.6 and event["figures"]["decided"] > 0 for event in added)
    records = list(read_records(folder / "run" / "records.jsonl"))
    assert {record.step for record in records} == set(range(6))
    assert all(len(record.criteria) == 1 for record in records if record.step < 2)
    evolved = [record for record in records if any(criterion.family == "evolved" for criterion in record.criteria)]
    assert evolved
    # An item splits its group, which had no signal without it.
    assert any(len(set(record.reward)) > 1 for record in evolved)
    assert all(len(set(record.reward)) == 1 for record in records if record.step < 2)
