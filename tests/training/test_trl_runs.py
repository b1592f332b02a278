"""Real runs of TRL's GRPOTrainer with `RubricReward`: a tiny policy, in one process, interrupted and resumed.

Skipped unless TRL is installed: pip install "torch==2.13.0" "trl==1.16.0".
"""

from __future__ import annotations

import json
import runpy
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
from rubrank.training.controls import Control  # noqa: E402
from rubrank.training.frameworks.trl import RubricReward  # noqa: E402

ROOT = Path(__file__).parents[2]


def records_of(path: Path, mode: str = "train") -> list[GroupRecord]:
    return [record for record in read_records(path) if record.metadata["mode"] == mode]


# ---------------------------------------------------------------------------------------------------------- one process


def test_a_run_logs_records_and_evaluates_with_another_number(tmp_path):
    reward = RubricReward(
        tiny_trl.RUBRIC,
        records=tmp_path / "records.jsonl",
        attributes=[Control("answer_length", start=1)],
        adjust_criteria="all",
    )
    dataset = tiny_trl.rows(rubrics=True)
    assert reward.check(dataset) == 8
    trainer = tiny_trl.trainer_of(
        reward,
        tmp_path,
        dataset=dataset,
        held_out=tiny_trl.rows(chat=False),
        max_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
    )
    trainer.train()
    train, evaluated = records_of(reward.engine.records), records_of(reward.engine.records, "eval")
    assert [(r.step, r.size) for r in train] == [(0, 4), (0, 4), (1, 4), (1, 4)]
    assert [(r.step, r.size) for r in evaluated] == [(2, 2)] * 8
    assert [record.attribute_names for record in train] == [(), (), ("answer_length",), ("answer_length",)]
    logged = trainer.state.log_history
    for n in (0, 1):
        mean = np.mean([reward for r in train if r.step == n for reward in r.reward])
        assert logged[n]["rewards/rubric/mean"] == pytest.approx(mean, abs=1e-6)
        assert logged[n]["rubrank/WordCount/mean"] == pytest.approx(
            np.mean(
                [row[[c.name for c in r.criteria].index("WordCount")] for r in train if r.step == n for row in r.scores]
            )
        )
    assert any("eval_rubrank/WordCount/mean" in line for line in logged)
    # the third query brings no rubric; the others ask for words of their own
    own = {record.prompt[0]["content"]: "Own" in [c.name for c in record.criteria] for record in train}
    assert own == {text: not text.endswith("2.") for text in own}


def test_several_batches_in_one_step_have_names_of_their_own(tmp_path):
    reward = RubricReward(tiny_trl.RUBRIC, records=tmp_path / "records.jsonl")
    tiny_trl.trainer_of(
        reward,
        tmp_path,
        callback=False,
        max_steps=1,
        gradient_accumulation_steps=2,
        steps_per_generation=1,
        per_device_train_batch_size=4,
    ).train()
    assert [record.group for record in records_of(reward.engine.records)] == ["0/0", "0.1/0"]


# --------------------------------------------------------------------------------------------------- stop, and go on


def test_a_resumed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    def run(records: Path, resume: str | None = None, **given: Any) -> RubricReward:
        reward = RubricReward(tiny_trl.RUBRIC, rule="amrp+", records=records)
        trainer = tiny_trl.trainer_of(
            reward, tmp_path / "out", max_steps=4, save_strategy="steps", save_steps=2, **given
        )
        trainer.train(resume_from_checkpoint=resume)
        return reward

    whole = run(tmp_path / "records.jsonl")
    before = records_of(tmp_path / "records.jsonl")
    saved = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())["stateful_callbacks"]
    assert saved["rubrank/rubric"]["memory"] != whole.engine.state_dict()["memory"]
    resumed = run(tmp_path / "records.jsonl", resume=str(tmp_path / "out/checkpoint-2"))
    assert resumed.engine.state_dict() == whole.engine.state_dict()
    assert records_of(tmp_path / "records.jsonl") == before  # steps 2 and 3 were made again, with the same rewards
    with pytest.warns(RuntimeWarning, match="no checkpoint contains the memory"):
        run(tmp_path / "others.jsonl", resume=str(tmp_path / "out/checkpoint-2"), callback=False)
    assert [r.reward for r in records_of(tmp_path / "others.jsonl")] != [r.reward for r in before[4:]]


def test_a_checkpoint_without_the_memory(tmp_path):
    plain = RubricReward(tiny_trl.RUBRIC)
    given: dict[str, Any] = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    tiny_trl.trainer_of(plain, tmp_path, callback=False, **given).train()
    reward = RubricReward(tiny_trl.RUBRIC, rule="amrp+")
    trainer = tiny_trl.trainer_of(reward, tmp_path, **given)
    with pytest.warns(RuntimeWarning, match=r"lacks the state of 'amrp\+'"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


# ------------------------------------------------------------------------------------------------------------- example


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "05_trl.py"), run_name="__main__")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert len(lines) == 6
    assert (tmp_path / "records.jsonl").exists()
