"""Every trainer's adapter says why sampling ended: an answer that was cut off is stopped by its gate."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openrlhf_stand_in import configuration

from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks import openrlhf, slime, verifiers
from rubrank.training.frameworks.tinker import RubricGroupBuilder
from rubrank.training.frameworks.trl import RubricReward
from rubrank.training.frameworks.verl.settings import Settings
from rubrank.training.rollouts import find_end_token_ids, infer_finish_reason

GATE = ["Truncated", {"name": "Keyword", "params": {"keywords": ["lake"]}}]
CUT, WHOLE = "A lake is a body of water", "A lake."
END = 2


@given(st.lists(st.integers(0, 9), max_size=8), st.none() | st.integers(1, 8))
def test_the_last_token_and_the_limit_decide(ids, most):
    found = infer_finish_reason(ids, {END}, most)
    if ids and ids[-1] == END:
        assert found == "stop"
    elif ids and most is not None and len(ids) >= most:
        assert found == "length"
    else:
        assert found is None
    assert infer_finish_reason(ids, set(), most) is None


def test_end_tokens_are_found_where_frameworks_keep_them():
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=[7, 8]))
    assert find_end_token_ids(SimpleNamespace(eos_token_id=2), model, None, object()) == {2, 7, 8}


class Trainer:
    """As much of TRL's trainer as a reward function sees."""

    def __init__(self) -> None:
        self.args = SimpleNamespace(num_generations=2, num_generations_eval=None, max_completion_length=4)
        self.model, self.processing_class = SimpleNamespace(training=True), SimpleNamespace(eos_token_id=END)

    def log(self, name: str, value: float) -> None:
        """A metric."""


def only_the_cut_one_is_stopped(rewards: list[float | None]) -> None:
    cut, whole = rewards
    assert cut == 0
    assert whole is not None
    assert whole > 0


@pytest.mark.parametrize(
    ("ids", "cut"),
    [([[5, 5, 5, 5], [5, END]], True), ([[5, END], [5, 5, 5, END]], False), (None, False)],
)
def test_trl(ids, cut):
    reward, trainer = RubricReward(GATE), Trainer()
    given = {"completion_ids": ids, "trainer_state": SimpleNamespace(global_step=0), "log_metric": trainer.log}
    found = reward(prompts=["p", "p"], completions=[CUT, WHOLE], **given)
    if cut:
        only_the_cut_one_is_stopped(found)
    else:
        assert found[0] == found[1]


def test_slime(tmp_path):
    args = SimpleNamespace(rubrank_config=str(configuration(tmp_path, rubric=GATE)), rollout_batch_size=1)
    usual = {"prompt": "p", "label": None, "metadata": {}, "group_index": 0, "remove_sample": False}
    samples = [
        SimpleNamespace(**usual, response=CUT, status=SimpleNamespace(value="truncated")),
        SimpleNamespace(**usual, response=WHOLE, status=SimpleNamespace(value="completed")),
    ]
    only_the_cut_one_is_stopped(asyncio.run(slime.reward(args, samples)))


def test_openrlhf():
    tokenizer = SimpleNamespace(eos_token_id=END, decode=lambda ids, **_: "")
    output: dict[str, Any] = {"observation_tokens": [9, 5, 5, 5], "action_ranges": [(1, 4)], "truncated": False}
    params = SimpleNamespace(max_tokens=3)

    def finish_reason(max_length: int = 64, params: Any = params, **changes: Any) -> str | None:
        return openrlhf.read_completion({**output, **changes}, params, max_length, tokenizer).finish_reason

    assert finish_reason() == "length"
    assert finish_reason(observation_tokens=[9, 5, 5, END]) == "stop"
    assert finish_reason(params=SimpleNamespace(max_tokens=8)) is None
    assert finish_reason(4, params=SimpleNamespace(max_tokens=8)) == "length"
    assert finish_reason(params=SimpleNamespace(max_tokens=8), truncated=True) == "length"


class Renderer:
    """Tokens are characters; a response that ended ends with |."""

    def parse_response(self, tokens: list[int]) -> tuple[dict[str, str], bool]:
        text = "".join(map(chr, tokens))
        return {"role": "assistant", "content": text.rstrip("|")}, text.endswith("|")


def trajectory(text: str, **given: Any) -> Any:
    action = SimpleNamespace(tokens=list(map(ord, text)), **given)
    return SimpleNamespace(transitions=[SimpleNamespace(ac=action, reward=0.0)])


@pytest.mark.parametrize(
    "group",
    [
        [trajectory(CUT), trajectory(f"{WHOLE}|")],
        [trajectory(f"{CUT}|", stop_reason="length"), trajectory(WHOLE, stop_reason="stop")],
    ],
)
def test_tinker(group):
    builder = RubricGroupBuilder(None, RewardEngine(GATE), "p", Renderer())
    found = asyncio.run(builder.compute_group_rewards(group, [None, None]))
    only_the_cut_one_is_stopped([reward for reward, _ in found])


def test_verifiers():
    states: list[Any] = []
    for reason in ("length", "stop"):
        response = SimpleNamespace(message=SimpleNamespace(finish_reason=reason))
        states.append({"trajectory": [{"response": response}]})
    reward = verifiers.group_reward(RewardEngine(GATE))
    given = {"prompts": ["p", "p"], "completions": [CUT, WHOLE], "answers": ["", ""], "infos": [{}, {}]}
    only_the_cut_one_is_stopped(asyncio.run(reward(**given, states=states)))
    assert verifiers.read_completion("", {"is_truncated": True}).finish_reason == "length"
    assert verifiers.read_completion("", {"trajectory": []}).finish_reason is None
    assert verifiers.read_completion("", None).finish_reason is None


def test_verl():
    row = {"raw_prompt": "p"}
    assert Settings().make_rollout(row, CUT, finish_reason="length").finish_reason == "length"
    assert Settings().make_rollout(row, CUT).finish_reason is None
