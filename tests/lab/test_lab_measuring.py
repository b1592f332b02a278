"""Records and log of a run → numbers, the truth among them."""

from __future__ import annotations

import json
import random

import pytest
import rubrank_lab.task as task
from rubrank_lab.cell import judges_of
from rubrank_lab.measuring import measure
from rubrank_lab.rows import row_of
from rubrank_lab.truth import read, truth
from rubrank_lab.world import answer, draw_ask

import rubrank


@pytest.fixture
def run(tmp_path):
    """A folder as a run of two steps leaves it, and what was said in the first."""
    assert task.LIKES
    engine = rubrank.RewardEngine(
        rule="rlvr2+", judges=judges_of(tmp_path / "replies.sqlite", {}), records=tmp_path / "records.jsonl"
    )
    chance, said = random.Random(4), []
    for step in (0, 1):
        ask = draw_ask(chance)
        texts = [answer(ask, chance) for _ in range(8)]
        said += [(ask, text) for text in texts if step == 0]
        rollouts = tuple(rubrank.Rollout(prompt=ask.prompt, response=text, finish_reason="stop") for text in texts)
        rubric = json.loads(row_of(ask, step)["rubric"])
        engine.score([rubrank.Group(id=str(step), rollouts=rollouts, rubric=rubric)], step=step, train=step == 0)
    log = {"log_history": [{"step": 1, "step_time": 2.5, "entropy": 1.25}, {"step": 1, "eval_loss": 0.0}]}
    (tmp_path / "trainer_state.json").write_text(json.dumps(log))
    return tmp_path, said


def test_the_truth_is_measured_on_what_was_said(run):
    folder, said = run
    table = measure(folder, "cell")
    found = {(row["phase"], row["step"], row["metric"]): row["value"] for row in table.to_dicts()}
    quality = [truth(ask, text, truncated=False).quality for ask, text in said]
    assert found["train", 0, "true_quality"] == pytest.approx(sum(quality) / 8)
    thinking = [read(ask, text).thinking for ask, text in said]
    assert found["train", 0, "thinking"] == pytest.approx(sum(thinking) / 8)
    assert -1.0 <= found["train", 0, "follows_true_quality"] <= 1.0
    assert 0.0 <= found["eval", 1, "score_Accuracy"] <= 10.0
    assert ("eval", 1, "md_bold") in found


def test_the_log_brings_times(run):
    folder, _ = run
    found = {row["metric"]: row["value"] for row in measure(folder, "cell").to_dicts() if row["step"] == 0}
    assert (found["seconds_step"], found["entropy"]) == (2.5, 1.25)
