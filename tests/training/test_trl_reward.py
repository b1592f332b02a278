"""`RubricReward` by itself: what TRL passes is passed by hand, and TRL need not be installed."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from judged import judges_at, server_module

from rubrank.errors import InvalidInput, JudgingFailed
from rubrank.records.files import read_records
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.controls import Control
from rubrank.training.frameworks.trl import RubricReward, current_processes
from rubrank.verifiers.verifier import VERIFIERS, Verdict, is_verifier, verifier

RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 3}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}},
]
SAID = ["the moon is far", "moon", "the sea is wide", ""]


class Trainer:
    """As much of a trainer as a reward function sees: it owns `log_metric`."""

    def __init__(
        self, num_generations: int = 4, num_generations_eval: int | None = None, training: bool = True
    ) -> None:
        self.args = SimpleNamespace(num_generations=num_generations, num_generations_eval=num_generations_eval)
        self.model = SimpleNamespace(training=training)
        self.metrics: dict[str, float] = {}
        self.extra: dict[str, list[Any]] = {}
        self.state = SimpleNamespace(global_step=0)

    def _log_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value

    def _log_extra(self, column: str, values: list[Any]) -> None:
        self.extra[column] = values

    def call(self, reward: RubricReward, prompts: list[Any], completions: list[Any], **columns: Any) -> Any:
        return reward(
            prompts=prompts,
            completions=completions,
            completion_ids=[[1]] * len(prompts),
            trainer_state=self.state,
            log_metric=self._log_metric,
            log_extra=self._log_extra,
            **columns,
        )


def test_one_group():
    assert Trainer(4).call(RubricReward(RUBRIC), ["p"] * 4, SAID) == pytest.approx([1.0, 0.25, 0.25, 0.0])


def test_chat_and_plain_prompts_are_the_same():
    chat = [[{"role": "user", "content": "p"}]] * 4
    said = [[{"role": "assistant", "content": text}] for text in SAID]
    assert Trainer(4).call(RubricReward(RUBRIC), chat, said) == Trainer(4).call(RubricReward(RUBRIC), ["p"] * 4, SAID)


def test_groups_are_positions_not_prompts():
    """Two rows of the dataset with the same text are two groups."""
    found = Trainer(2).call(RubricReward(RUBRIC), ["p"] * 4, ["the moon is far", "sea", "moon", "moon"])
    assert found == [1.0, 0.25, 0.625, 0.625]


def test_evaluations_may_have_another_number(tmp_path):
    reward = RubricReward(RUBRIC, rule="amrp", records=tmp_path / "r.jsonl")
    reward.attach(*_run(Trainer(4)))
    assert len(Trainer(4, 2).call(reward, ["p"] * 4, SAID)) == 4
    learnt = reward.engine.state_dict()
    Trainer(4, 2, training=False).call(reward, ["p", "p", "q", "q"], SAID)
    Trainer(4, None, training=False).call(reward, ["p"] * 4, SAID)
    assert reward.engine.state_dict() == learnt
    records = list(read_records(tmp_path / "r.jsonl"))
    assert [(r.group, r.size, r.metadata["mode"]) for r in records] == [
        ("0/0", 4, "train"),
        ("eval-0/0", 2, "eval"),
        ("eval-0/1", 2, "eval"),
        ("eval-0.1/0", 4, "eval"),
    ]


def _run(trainer: Trainer) -> tuple[Any, Any]:
    return trainer.args, trainer.model


def test_the_callback_tells_what_log_metric_cannot():
    """A trainer that passes a plain function is known by its callback."""
    reward, trainer = RubricReward(RUBRIC), Trainer(4, 2, training=False)
    reward.attach(*_run(trainer))
    given = {"trainer_state": trainer.state, "log_metric": lambda name, value: None}
    assert reward(prompts=["p"] * 4, completions=["moon", "x", "moon", "moon"], **given) == [1.0, 0.25, 0.625, 0.625]


def test_a_number_that_contradicts_the_trainer():
    with pytest.raises(InvalidInput, match="num_generations must be 4, as in the trainer's arguments; got 8"):
        Trainer(4).call(RubricReward(RUBRIC, num_generations=8), ["p"] * 8, SAID * 2)
    with pytest.raises(InvalidInput, match="num_generations must be ≥ 1"):
        RubricReward(RUBRIC, num_generations=0)


def test_rows_that_are_no_whole_groups():
    with pytest.raises(InvalidInput, match="a multiple of the group size, 4; got 6"):
        Trainer(4).call(RubricReward(RUBRIC), ["p"] * 6, [*SAID, "x", "y"])


# ------------------------------------------------------------------------------------------------- without a trainer


def test_one_group_a_call_as_async_grpo_does():
    reward = pickle.loads(pickle.dumps(RubricReward(RUBRIC, records=None)))
    assert reward(completions=SAID, prompts=["p"] * 4, completion_ids=[[1]] * 4, reference=["r"] * 4)[0] == 1.0
    assert reward(prompts=["p"] * 3, completions=SAID[:3]) == [1.0, 0.25, 0.25]


def test_prompts_that_repeat_say_how_many_are_a_group():
    reward = RubricReward(RUBRIC)
    found = reward(prompts=["p", "p", "q", "q"], completions=["moon", "x", "y", "moon"])
    assert found == [1.0, 0.25, 0.25, 1.0]


def test_a_given_number_divides_longer_runs():
    reward = RubricReward(RUBRIC, num_generations=2)
    assert reward(prompts=["p"] * 4, completions=["moon", "x", "moon", "moon"]) == [1.0, 0.25, 0.625, 0.625]
    evaluated = reward(prompts=["p"] * 3 + ["q"] * 3, completions=["moon", "x", "x"] * 2)
    assert evaluated == [1.0, 0.25, 0.25] * 2


def test_groups_of_different_prompts_are_refused():
    with pytest.raises(InvalidInput, match=r"None for 3 rows whose prompts repeat \[1\] times"):
        RubricReward(RUBRIC)(prompts=["p", "q", "r"], completions=SAID[:3])


def test_a_late_control_wants_to_know_the_step():
    reward = RubricReward(RUBRIC, attributes=[Control("markdown", start=5)], pool="group")
    with pytest.raises(InvalidInput, match="controlled from step 0 on"):
        reward(prompts=["p"] * 4, completions=SAID)


# ------------------------------------------------------------------------------------------------------------ columns


def test_rows_bring_rubrics_in_public_shapes():
    own = [[{"name": "Moon", "verifier": "Keyword", "params": {"keywords": ["moon"], "low": None}}]] * 2 + [None] * 2
    trainer = Trainer(2)
    found = trainer.call(
        RubricReward(RUBRIC, rubric_column="asked"), ["p", "p", "q", "q"], ["moon", "x", "", "moon is far"], asked=own
    )
    assert found == [1.0, 0.25, 0.0, 0.625]
    assert trainer.metrics["rubrank/score/own"] == 0.5


def test_a_rubric_as_json_and_instructions_of_ifeval():
    text = json.dumps({"criteria": [{"name": "WordCount", "params": {"low": 3}}]})
    assert Trainer(2).call(RubricReward(), ["p"] * 2, ["a b c", "a"], rubric=[text] * 2) == [1.0, 0.0]
    columns = {"instruction_id_list": [["punctuation:no_comma"]] * 2, "kwargs": [[{"num_words": None}]] * 2}
    assert Trainer(2).call(RubricReward(), ["p"] * 2, ["a, b", "a b"], **columns) == [0.0, 1.0]


def test_sources_of_a_mixture_bring_one_or_the_other():
    columns = {
        "rubric": [[{"name": "WordCount", "params": {"low": 2}}]] * 2 + [None] * 4,
        "instruction_id_list": [None] * 2 + [["punctuation:no_comma"]] * 2 + [None] * 2,
        "kwargs": [None] * 2 + [[{}]] * 2 + [None] * 2,
    }
    said = ["a b", "a", "a, b", "a b", "moon is far", "sea"]
    prompts = ["p", "p", "q", "q", "r", "r"]
    shared = [{"name": "Keyword", "params": {"keywords": ["moon"]}, "weight": 0.01}]
    assert Trainer(2).call(RubricReward(shared), prompts, said, **columns) == [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def test_a_dataset_without_the_column():
    with pytest.raises(InvalidInput, match=r"one of the dataset's columns \(answer\); got 'rubric'"):
        Trainer(2).call(RubricReward(), ["p"] * 2, ["a", "b"], answer=["1", "2"])


def test_a_column_that_was_named_must_be_there():
    with pytest.raises(InvalidInput, match=r"one of the dataset's columns \(rubrics\); got 'rubic'"):
        Trainer(2).call(RubricReward(RUBRIC, rubric_column="rubic"), ["p"] * 2, ["a", "b"], rubrics=[RUBRIC] * 2)


def test_columns_reach_verifiers_as_metadata(monkeypatch):
    is_verifier("")  # all families are imported, so that none is registered into the copy only
    monkeypatch.setattr("rubrank.verifiers.verifier.VERIFIERS", dict(VERIFIERS))

    @verifier(name="SaysTheReference")
    def says(rollout: Rollout) -> Verdict:
        """The reference occurs."""
        return Verdict(float(rollout.metadata["reference"] in rollout.answer), "looked for it")

    columns = {"reference": ["7", "7", "8", "8"], "reasoning": ["gold"] * 4, "image": [object()] * 4}
    found = Trainer(2).call(RubricReward(["SaysTheReference"]), ["p"] * 4, ["7", "8", "7", "8"], **columns)
    assert found == [1.0, 0.0, 0.0, 1.0]


def test_metrics_and_columns_are_logged():
    trainer, reward = Trainer(4), RubricReward(RUBRIC)
    trainer.call(reward, ["p"] * 4, SAID)
    assert trainer.metrics["rubrank/gate/stopped"] == 0.25
    assert trainer.extra["rubrank/stopped_by"] == ["", "", "", "EmptyAnswer"]
    assert reward.__name__ == "rubric"


def test_nothing_known_is_none():
    module = server_module()
    good = module.Answer('{"reasoning": "It is.", "verdict": 1}')
    with module.Server(lambda asked: module.Answer(status=500) if "hello" in asked.prompt else good) as server:
        judges = judges_at(server.url, most_missing=0.5)
        reward = RubricReward(["EmptyAnswer", {"name": "Kind", "question": "Is it kind?"}], judges=judges)
        found = Trainer(3).call(reward, ["p"] * 3, ["hello", "", "thanks"])
    assert found[:2] == [None, 0.0]
    assert found[2] is not None


# ------------------------------------------------------------------------------------------------------------- others


def test_all_rubrics_are_checked_before_a_run():
    good = {"prompt": "p", "rubric": [{"name": "WordCount", "params": {"low": 2}}]}
    assert RubricReward().check([good] * 3) == 3
    bad = {"prompt": "p", "rubric": [{"name": "WordCount", "params": {"lowest": 2}}]}
    with pytest.raises(InvalidInput, match="row 2"):
        RubricReward().check([good, bad])
    with pytest.raises(InvalidInput, match=r"row 1: .*no judge"):
        RubricReward().check([{"prompt": "p", "rubric": ["Is it kind?"]}])


def test_a_memory_that_no_checkpoint_holds_is_told_once():
    reward, trainer = RubricReward(RUBRIC, rule="amrp+"), Trainer(4)
    with pytest.warns(RuntimeWarning, match=r"no checkpoint contains the memory of 'amrp\+': pass callbacks"):
        trainer.call(reward, ["p"] * 4, SAID)
    trainer.call(reward, ["p"] * 4, SAID)  # a second warning would be an error


def test_alone_without_torch_distributed():
    assert (current_processes().rank, current_processes().world) == (0, 1)


@pytest.mark.slow
def test_processes_that_accelerate_does_not_know_of(monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InvalidInput, match=r"must be 2, as in torch.*got 1 in accelerate.*use_cpu"):
        current_processes()


def test_torch_is_not_imported():
    modules = "rubrank.training.frameworks.trl, rubrank.training.barrier"
    code = f"import sys, {modules}; print({{'torch', 'numba'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_checkpoint_is_saved_before_judges_end_the_run():
    module = server_module()
    saved = []
    with module.Server([module.Answer(status=500)]) as server:
        reward = RubricReward([{"name": "Kind", "question": "Is it kind?"}], judges=judges_at(server.url))
        trainer = Trainer(2)
        trainer.state = SimpleNamespace(global_step=3)
        trainer._save_checkpoint = lambda model, trial: saved.append(model)
        with pytest.raises(JudgingFailed):
            trainer.call(reward, ["p"] * 2, ["hello", "you"])
        assert saved == [trainer.model]
        trainer.state.global_step = 0  # nothing was trained
        with pytest.raises(JudgingFailed):
            trainer.call(reward, ["p"] * 2, ["hello", "you"])
    assert len(saved) == 1


def test_a_checkpoint_that_cannot_be_saved_does_not_hide_the_judges():
    def full(model: Any, trial: Any) -> None:
        raise OSError(28, "No space left on device")

    module = server_module()
    with module.Server([module.Answer(status=500)]) as server:
        reward = RubricReward([{"name": "Kind", "question": "Is it kind?"}], judges=judges_at(server.url))
        trainer = Trainer(2)
        trainer.state, trainer._save_checkpoint = SimpleNamespace(global_step=3), full
        with pytest.raises(JudgingFailed) as caught:
            trainer.call(reward, ["p"] * 2, ["hello", "you"])
    (note,) = caught.value.__notes__
    assert note.startswith("No checkpoint could be saved: OSError: ")


@pytest.mark.slow
def test_what_is_saved_then_samples_the_same_rollouts_again():
    """Chance is as it was at the beginning of the step: judges are asked about the same texts, which are paid for."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    module, drawn = server_module(), []

    def draw() -> tuple[float, float, float]:
        return float(torch.rand(1)), float(np.random.rand()), random.random()

    with module.Server([module.Answer(status=500)]) as server:
        reward = RubricReward([{"name": "Kind", "question": "Is it kind?"}], judges=judges_at(server.url))
        trainer = Trainer(2)
        trainer.state = SimpleNamespace(global_step=3)
        trainer._save_checkpoint = lambda model, trial: drawn.append(draw())
        reward.callback.on_step_begin(None, trainer.state, None)
        first = draw()
        with pytest.raises(JudgingFailed):
            trainer.call(reward, ["p"] * 2, ["hello", "you"])
    assert drawn == [first]
    assert draw() != first
    assert pickle.loads(pickle.dumps(reward)).rewind_random_state is None


def test_a_run_from_the_beginning_drops_what_a_killed_one_left_half_written(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"version":1,"group":"ha')
    reward = RubricReward(RUBRIC, records=path)
    state = SimpleNamespace(global_step=0, is_world_process_zero=True, stateful_callbacks={})
    reward.callback.on_train_begin(None, state, None)
    reward.engine.score([Group(id="0", rollouts=tuple(Rollout(response=text) for text in SAID))], 0)
    assert [record.group for record in read_records(path)] == ["0"]
