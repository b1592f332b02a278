"""What `rubrank.training.frameworks.trl` relies on in TRL, transformers and accelerate; checked with TRL 1.16.0.

Skipped unless TRL is installed: pip install "torch==2.13.0" "trl==1.16.0".
A release that changes one of these fails here, by name, instead of training on wrong groups.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
import tiny_trl  # noqa: E402

from rubrank.training.frameworks.trl import RubricReward  # noqa: E402


class Watcher:
    """A reward function that keeps what it is called with."""

    __name__ = "watcher"

    def __init__(self, rewards: Any = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.rewards = rewards

    def __call__(self, **given: Any) -> list[float | None]:
        self.calls.append({**given, "step": given["trainer_state"].global_step})  # the state itself goes on
        given["log_metric"]("mine", 3.0)
        given["log_extra"]("seen", [f"row {i}" for i in range(len(given["prompts"]))])
        number = len(given["prompts"])
        return [float(i) for i in range(number)] if self.rewards is None else self.rewards[:number]


def trained(watcher: Watcher, out: Path, **given: Any) -> Any:
    watcher.callback = RubricReward(tiny_trl.RUBRIC).callback  # type: ignore[attr-defined]
    trainer = tiny_trl.trainer_of(watcher, out, **given)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """One step of two groups of four, then an evaluation with groups of two."""
    watcher = Watcher()
    trainer = trained(
        watcher,
        tmp_path_factory.mktemp("usual"),
        max_steps=1,
        held_out=tiny_trl.rows(),
        num_generations_eval=2,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=4,
    )
    return watcher, trainer


def test_what_a_reward_function_is_given(usual):
    call = usual[0].calls[0]
    assert set(call) - {"step"} == {
        "prompts",
        "completions",
        "completion_ids",
        "reference",
        "trainer_state",
        "log_extra",
        "log_metric",
    }
    assert len(call["prompts"]) == len(call["completions"]) == len(call["reference"]) == 8
    assert [call["step"] for call in usual[0].calls] == [0, 1, 1, 1, 1]
    assert [message["role"] for message in call["prompts"][0]] == ["user"]
    assert [set(message) >= {"role", "content"} for message in call["completions"][0]] == [True]


def test_prompts_are_repeated_in_a_row(usual):
    texts = [prompt[0]["content"] for prompt in usual[0].calls[0]["prompts"]]
    assert texts[:4] == texts[:1] * 4
    assert texts[4:] == texts[4:5] * 4
    assert texts[0] != texts[4]


def test_the_sampler_keeps_the_order_of_groups():
    from trl.trainer.utils import RepeatSampler

    drawn = list(RepeatSampler(range(6), mini_repeat_count=4, batch_size=3, repeat_count=2, seed=0))
    assert len(drawn) == 48
    assert all(len(set(drawn[i : i + 4])) == 1 for i in range(0, 48, 4))
    assert drawn[:12] == drawn[12:24]


def test_log_metric_belongs_to_the_trainer_which_knows_the_number_and_the_mode(usual):
    watcher, trainer = usual
    for call in watcher.calls:
        assert call["log_metric"].__self__ is trainer
    assert (trainer.args.num_generations, trainer.args.num_generations_eval) == (4, 2)
    assert (trainer.num_generations, trainer.num_generations_eval) == (4, 2)
    source = inspect.getsource(type(trainer)._generate_and_score_completions)
    assert 'mode = "train" if self.model.training else "eval"' in source
    assert 'num_generations = self.num_generations if mode == "train" else self.num_generations_eval' in source
    assert "rewards.view(-1, num_generations)" in source  # groups are positions in the gathered order


def test_evaluations_have_their_own_number(usual):
    evaluated = [prompt[0]["content"] for prompt in usual[0].calls[1]["prompts"]]
    assert len(evaluated) == 4
    assert evaluated[0] == evaluated[1] != evaluated[2] == evaluated[3]


def test_metrics_reach_the_log(usual):
    history = usual[1].state.log_history
    assert any(line.get("mine") == 3.0 for line in history)
    assert any(line.get("eval_mine") == 3.0 for line in history)
    assert any("rewards/watcher/mean" in line for line in history)


def test_a_column_named_kwargs_is_passed(tmp_path):
    from datasets import Dataset

    data = {"prompt": ["a", "b"], "instruction_id_list": [["x"]] * 2, "kwargs": [[{"n": 1}]] * 2}
    watcher = Watcher()
    trained(watcher, tmp_path, dataset=Dataset.from_dict(data), max_steps=1, num_generations=4)
    assert watcher.calls[0]["kwargs"][0] == [{"n": 1}]
    assert watcher.calls[0]["prompts"][0] in ("a", "b")
    assert isinstance(watcher.calls[0]["completions"][0], str)


def test_none_leaves_a_completion_out(tmp_path, monkeypatch):
    """Not counted in the group's mean, and without advantage; also where a whole group has none."""
    from trl import GRPOTrainer

    seen: list[Any] = []
    score = GRPOTrainer._generate_and_score_completions

    def watched(self: Any, inputs: Any) -> Any:
        found = score(self, inputs)
        seen.append(found["advantages"].tolist())
        return found

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watched)
    rewards = [1.0, None, 0.0, 0.5, None, None, None, None]
    # one step of optimisation keeps the order of the rows
    trained(Watcher(rewards), tmp_path, max_steps=1, scale_rewards="none", shuffle_dataset=False)
    assert seen[0] == pytest.approx([0.5, 0.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0])


# -------------------------------------------------------------------------------------------- transformers, accelerate


def test_the_state_of_callbacks_is_a_dict_that_a_checkpoint_holds(tmp_path):
    from transformers import TrainerState

    state = TrainerState()
    state.stateful_callbacks["rubrank/x"] = {"a": [1.5]}
    state.save_to_json(str(tmp_path / "state.json"))
    assert json.loads((tmp_path / "state.json").read_text())["stateful_callbacks"]["rubrank/x"] == {"a": [1.5]}
    assert TrainerState.load_from_json(str(tmp_path / "state.json")).stateful_callbacks["rubrank/x"] == {"a": [1.5]}


def test_callbacks_get_the_arguments_and_the_model(usual):
    callback = next(c for c in usual[1].callback_handler.callbacks if type(c).__name__ == "RubricCallback")
    assert callback.reward.trainer.args is usual[1].args
    assert callback.reward.trainer.model is usual[1].model


def test_gather_object_puts_lists_together():
    from accelerate.utils import gather_object

    assert list(inspect.signature(gather_object).parameters) == ["object"]
    assert gather_object([(1, None)]) == [(1, None)]  # one process: as it is


def test_async_grpo_sends_the_function_and_calls_it_with_one_group():
    from trl.experimental.async_grpo import async_rollout_worker
    from trl.trainer.utils import get_callable_name, is_async_callable

    reward = RubricReward(tiny_trl.RUBRIC, name="mine")
    assert get_callable_name(reward) == "mine"
    assert not is_async_callable(reward)
    worker = next(c for c in vars(async_rollout_worker).values() if hasattr(c, "_score_group"))
    source = inspect.getsource(worker._score_group)
    assert "completions=group.completions" in source
    assert "prompts=group.prompts" in source
    assert "asyncio.to_thread(reward_func, **kwargs)" in source


def test_async_grpo_scores_a_group_with_it():
    """TRL's own method, with a stand-in for the worker around it; the function comes from another process."""
    from accelerate import PartialState
    from trl.experimental.async_grpo import async_rollout_worker

    PartialState()  # its logger asks for it
    worker = next(c for c in vars(async_rollout_worker).values() if hasattr(c, "_score_group"))
    sent = pickle.loads(pickle.dumps(RubricReward(tiny_trl.RUBRIC)))
    row = SimpleNamespace(input_ids=[1], completion_mask=[1], old_log_probs=[0.0])
    group = SimpleNamespace(
        completions=["a b c d e f", "a", ""],
        prompts=["p"] * 3,
        completions_ids=[[1]] * 3,
        env_rewards=[None] * 3,
        reward_kwargs={"reference": ["r"] * 3},
        tool_call_counts=[0] * 3,
        tool_failure_counts=[0] * 3,
        completions_sequences=[[row]] * 3,
        model_version=0,
        group_id=0,
    )
    holder = SimpleNamespace(
        reward_funcs=[sent], reward_func_names=["rubric"], _env_reward_types=[], _provides_rollout_reward=False
    )
    samples = asyncio.run(worker._score_group(holder, group))
    assert [sample.metrics["rewards/rubric"] for sample in samples] == [1.0, 0.25, 0.0]
    assert samples[0].advantage > 0.0 > samples[1].advantage
