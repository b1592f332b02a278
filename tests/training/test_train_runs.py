"""Runs of the tiny policy of recipes/tiny_policy: it learns, stages follow each other, what was interrupted goes on."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

from training import tiny  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

from rubrank.errors import InvalidInput  # noqa: E402
from rubrank.grading.grade import grade  # noqa: E402
from rubrank.records.files import find_record_files, read_records  # noqa: E402
from rubrank.records.record import GroupRecord  # noqa: E402
from rubrank.rollouts.rollout import Group, Rollout  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402
from rubrank.training.job.run import RunResult, run  # noqa: E402

NO_DIGITS = [{"name": "NoDigits", "verifier": "fr:detectable_content:no_digits"}]
CLOCK = ("runtime", "per_second", "seconds", "share_of_step", "step_time", "total_flos")
"""Parts of the names of what a clock says: the only numbers that differ between two runs on one CPU process."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """A second one gains nothing for so small a model, and on busy cores costs ten times as much."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "job", ignore=shutil.ignore_patterns("run")))


def records_of(done: RunResult, mode: str) -> list[GroupRecord]:
    return [record for record in read_records(done.records) if record.metadata["mode"] == mode]


def test_settings_that_the_trainer_refuses_are_one_line_before_the_first_step(folder):
    plan = make_plan(tiny.job(folder, trl__sync_ref_model=True))
    with pytest.raises(InvalidInput, match=r"the config must be what TRL's GRPOTrainer takes; got .*beta=0\.0"):
        run(plan)


# ------------------------------------------------------------------------------------------------------------ it learns


@pytest.fixture(scope="module")
def learnt(made) -> RunResult:
    """The recipe as it stands: 45 steps of GSPO."""
    return run(make_plan(tiny.load_job(made / "config.yaml")))


def mean_reward(records: list[GroupRecord], steps: range) -> float:
    return float(np.mean([reward for record in records if record.step in steps for reward in record.reward]))


def test_the_reward_rises(learnt):
    """With seeds 0 to 3 the first third had 0.21 to 0.28, the last one 0.67 to 0.70."""
    records = records_of(learnt, "train")
    assert len(records) == 45 * 8
    assert mean_reward(records, range(30, 45)) > mean_reward(records, range(15)) + 0.2


def test_criteria_improve_on_held_out_prompts(learnt):
    assert learnt.first["step"] == 0
    assert learnt.last["step"] == 45
    for name in ("Letters", "LetterE", "FewWords"):
        before, after = (line[f"eval_rubrank/{name}/mean"] for line in (learnt.first, learnt.last))
        assert after > before + 0.3


def test_a_criterion_that_is_not_in_the_rubric_improves(learnt):
    """More letters leave less room for digits: with seeds 0 to 3, 0.11 to 0.28 before and 0.42 to 0.75 after."""

    def passed(step: int) -> float:
        groups = [
            Group(id=record.group, rollouts=tuple(Rollout(prompt="x", response=text) for text in record.responses))
            for record in records_of(learnt, "eval")
            if record.step == step
        ]
        assert len(groups) == 4
        return grade(groups, NO_DIGITS, workers=0).summary()[0].mean

    assert passed(45) > passed(0) + 0.15


def test_the_policy_is_saved_and_has_changed(learnt, made):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (made / "policy", learnt.model))
    moved = [not a.equal(b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(moved)
    assert AutoTokenizer.from_pretrained(learnt.model)("lakes")["input_ids"]
    state = json.loads((made / "run" / "trainer_state.json").read_text())
    assert len([line for line in state["log_history"] if "rubrank/LetterE/mean" in line]) == 45


def test_what_trl_refuses_is_said_before_the_model_loads(made, tmp_path):
    job = tiny.job(tiny.copy_without_weights(made, tmp_path / "job"), trl__auto_find_batch_size=True, output="refused")
    with pytest.raises(InvalidInput, match="trl must be what TRL's GRPOConfig takes; got auto_find_batch_size is not"):
        run(make_plan(job))


# --------------------------------------------------------------------------------------------------------------- stages


def test_stages_follow_each_other(folder):
    asked = [{"name": "Own", "verifier": "WordCount", "params": {"low": 3}}]
    own = [{"messages": [{"role": "user", "content": f"Count to {n}."}], "rubric": asked} for n in range(5)]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    stages = [
        {"name": "chat", "steps": 2, "sources": [{"path": "prompts.jsonl"}]},
        {"name": "agentic", "steps": 2, "sources": [{"path": "own.jsonl"}]},
    ]
    words = json.loads((folder / "policy" / "tokenizer_config.json").read_text())
    words["chat_template"] = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    (folder / "policy" / "tokenizer_config.json").write_text(json.dumps(words))
    plan = make_plan(
        tiny.job(
            folder,
            stages=stages,
            held_out=None,
            report_to=["tensorboard"],
            training__updates_per_batch=2,
            training__prompts_per_batch=4,
            training__per_device_train_batch_size=8,
            attributes=[{"name": "answer_length", "start": "50%"}],
            model={"path": "policy", "lora": {"r": 2}},
        )
    )
    done = run(plan)
    records = records_of(done, "train")
    # two updates are made of one batch of rollouts, so records are of steps 0 and 2
    assert [(record.step, record.size) for record in records] == [(0, 8)] * 4 + [(2, 8)] * 4
    laid_out = [plan.rows[row]["prompt"] for row in plan.order]
    laid_out = [text if isinstance(text, str) else text[0]["content"] for text in laid_out]
    assert [record.prompt[0]["content"] for record in records] == laid_out
    told = [(record.metadata["stage"], record.metadata["source"]) for record in records]
    assert told == [("chat", "prompts.jsonl")] * 4 + [("agentic", "own.jsonl")] * 4
    assert all(text.startswith("Count") for text in laid_out[4:])
    assert [("Own" in [c.name for c in record.criteria]) for record in records] == [False] * 4 + [True] * 4
    assert [record.attribute_names for record in records] == [()] * 4 + [("answer_length",)] * 4
    assert (done.model / "adapter_model.safetensors").is_file()
    assert list(plan.job.output.glob("runs/*/events*"))
    assert (done.first, done.last) == ({}, {})


# ----------------------------------------------------------------------------------------------------- stop, and go on


class _Stop(Exception):  # noqa: N818
    """As if the power had failed."""


class _StopAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise _Stop


def without_clock(log: Any) -> list[dict[str, float]]:
    return [{name: x for name, x in line.items() if not any(part in name for part in CLOCK)} for line in log]


ROTATED = {"path": "kept.jsonl.zst", "rotate": 2}


@pytest.mark.parametrize(("rule", "records"), [("rlvr2+", "records.jsonl"), ("amrp+", ROTATED)])  # amrp remembers
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(folder, rule, records):
    small = {
        "stages": [{"steps": 6, "sources": [{"path": "prompts.jsonl"}]}],
        "rule": rule,
        "records": records,
        "training__save_steps": 2,
        "held_out": {"every": 2, "rollouts": 4, "sources": [{"path": "held_out.jsonl"}]},
        "training__prompts_per_batch": 4,
        "training__per_device_train_batch_size": 16,
    }
    whole = run(make_plan(tiny.job(folder, output="whole", **small)))
    job = tiny.job(folder, output="parts", **small)
    with pytest.raises(_Stop):
        run(make_plan(job), callbacks=[_StopAt(5)])
    file = job.output / (records if isinstance(records, str) else records["path"])
    assert max(record.step for record in read_records(file)) == 4  # begun, to be made again
    plan = make_plan(job, resume=True)
    assert plan.checkpoint == job.output / "checkpoint-4"
    resumed = run(plan)
    assert without_clock(resumed.log[:-1]) == without_clock(whole.log[:-1])
    assert list(read_records(resumed.records)) == list(read_records(whole.records))
    parts, others = find_record_files(resumed.records), find_record_files(whole.records)
    assert [(one.name, one.read_bytes()) for one in parts] == [(one.name, one.read_bytes()) for one in others]
    assert len(parts) == (1 if isinstance(records, str) else 4)  # of steps 0, 2 and 4, and the last evaluation's
    assert (resumed.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    assert resumed.first["step"] == 0  # the evaluation before the run is in the log still


def test_a_run_with_more_steps_ends_as_one_that_had_them_from_the_beginning(folder):
    small = {"held_out": None, "training__prompts_per_batch": 4, "training__per_device_train_batch_size": 16}
    stage = {"name": "all", "sources": [{"path": "prompts.jsonl"}]}
    whole = run(make_plan(tiny.job(folder, output="whole", stages=[{**stage, "steps": 4}], **small)))
    run(make_plan(tiny.job(folder, output="longer", stages=[{**stage, "steps": 2}], **small)))
    less = {**small, "training__per_device_train_batch_size": 32, "trl__torch_empty_cache_steps": 1}
    plan = make_plan(tiny.job(folder, output="longer", stages=[{**stage, "steps": 4}], **less), resume=True)
    assert plan.checkpoint == plan.job.output / "checkpoint-2"
    longer = run(plan)
    assert longer.steps == 4
    assert [record.prompt for record in read_records(longer.records)] == [
        record.prompt for record in read_records(whole.records)
    ]


def test_a_rollout_function_samples_instead_of_the_trainer(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "rollouts_of_a_test.py").write_text(
        "def sample(prompts, trainer):\n"
        "    texts = [f'lakes {n % 3}' for n, _ in enumerate(prompts)]\n"
        "    ids = trainer.processing_class(texts)['input_ids']\n"
        "    asked = trainer.processing_class(prompts)['input_ids']\n"
        "    return {'prompt_ids': asked, 'completion_ids': ids, 'logprobs': None}\n"
    )
    stages = [{"steps": 1, "sources": [{"path": "prompts.jsonl"}]}]
    model = {"path": "policy", "lora": {"r": 2, "use_rslora": True, "lora_alpha": 4}}
    init = {"attn_implementation": "eager"}
    changes: dict[str, Any] = {"stages": stages, "held_out": None, "model": model, "trl__model_init_kwargs": init}
    done = run(make_plan(tiny.job(folder, rollout="rollouts_of_a_test.sample", output="own", **changes)))
    texts = [rollout for record in read_records(done.records) for rollout in record.responses]
    assert len(texts) == 64
    assert all("lakes" in str(text) for text in texts)
    assert json.loads((done.model / "adapter_config.json").read_text())["use_rslora"] is True


def test_a_run_that_stopped_before_its_first_checkpoint_is_begun_anew(folder):
    small = {"stages": [{"steps": 2, "sources": [{"path": "prompts.jsonl"}]}], "held_out": None}
    job = tiny.job(folder, **small)
    with pytest.raises(_Stop):
        run(make_plan(job), callbacks=[_StopAt(1)])
    done = run(make_plan(job, resume=True))
    assert [record.step for record in read_records(done.records)] == [0] * 8 + [1] * 8


# ------------------------------------------------------------------------------------------------------------- branches


def test_a_branch_goes_on_with_optimizer_data_and_random_state(folder):
    """Control that is off (λ = 0) must end where the run that was left ended; control that is on need not."""
    small = {
        "stages": [{"steps": 6, "sources": [{"path": "prompts.jsonl"}]}],
        "training__save_steps": 2,
        "held_out": None,
        "training__save_total_limit": 9,
        "training__prompts_per_batch": 4,
        "training__per_device_train_batch_size": 16,
    }
    whole = run(make_plan(tiny.job(folder, output="whole", **small)))
    left = folder / "whole" / "checkpoint-2"
    ends = {}
    for output, control in {"off": {"attenuate": 0.0}, "on": {}}.items():
        attributes = [{"name": "answer_length", **control}]
        job = tiny.job(folder, output=output, attributes=attributes, adjust_criteria="all", **small)
        done = run(make_plan(job, branch=left))
        ends[output] = (done.model / "model.safetensors").read_bytes()
        assert [record.step for record in read_records(done.records)] == [2] * 4 + [3] * 4 + [4] * 4 + [5] * 4
        told = json.loads((folder / output / "config.json").read_text(encoding="utf-8"))["branch"]
        assert told["checkpoint"] == str(left.resolve())
        assert told["changed"]["attributes.0.name"] == {"before": None, "now": "answer_length"}
    assert ends["off"] == (whole.model / "model.safetensors").read_bytes()
    records = list(read_records(folder / "on" / "records.jsonl"))
    assert {record.pool for record in records} == {"run"}
    assert max(max(record.n) for record in records) > 4.0  # more than one step's groups
    state = json.loads((folder / "on" / "checkpoint-4" / "trainer_state.json").read_text(encoding="utf-8"))
    memory = state["stateful_callbacks"]["rubrank/rubric"]["memory"]
    assert memory["gated"]["running"]["attributes"] == ["answer_length"]
