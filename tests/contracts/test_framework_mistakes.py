"""What users get wrong, and what frameworks hand over on a bad day: one clear line, or the right reward."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace as Plain
from typing import Any

import numpy as np
import pytest
from contracts.drivers import Tokenizer

from rubrank import RewardEngine, RubrankError

RUBRIC = [
    "EmptyAnswer",
    {"name": "Long", "verifier": "WordCount", "params": {"low": 3}, "weight": 2},
    {"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}},
]
SAID = ("a lake in the north", "lake", "no", "")
REWARDS = [1.0, 0.5, 0.25, 0.0]
ASKED = [{"role": "user", "content": "Name a lake."}]


def talk(text: Any) -> list[dict[str, Any]]:
    return [*ASKED, {"role": "assistant", "content": text}]


# --------------------------------------------------------------------------------------------------------- frameworks


def swift(said: Any = SAID, args: Any = None, **columns: Any) -> list[float]:
    from rubrank.training.frameworks.swift import RubricORM

    class Function(RubricORM):
        rubrank = RewardEngine(RUBRIC)

    usual = {"messages": [talk(text) for text in said], "prompt_id": ["p"] * len(said)}
    given = {name: values for name, values in {**usual, **columns}.items() if values is not None and len(values)}
    return Function(args or Plain(num_generations=4))(list(said), trainer_state=Plain(global_step=1), **given)


def skyrl(uids: Any = ("0",) * 4, prompts: Any = None, tokenizer: Any = Tokenizer(), **output: Any) -> list[float]:  # noqa: B008
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Base:
        global_step = 1

        async def generate(self, batch: Any) -> None:
            return None

        def postprocess_generator_output(self, output: Any, uids: Any) -> Any:
            return output["rewards"]

    class Trainer(RubricRewards, Base):
        rubrank = RewardEngine(RUBRIC)

    trainer: Any = Trainer()
    trainer.tokenizer = tokenizer
    if prompts is not None:
        ids = [Plain(instance_id=uid) for uid in uids]
        asyncio.run(trainer.generate({"prompts": prompts, "trajectory_ids": ids}))
    tokens = [[*Tokenizer().encode(text), 0] for text in SAID]
    given = {"prompt_token_ids": [[65]] * 4, "response_ids": tokens, "rewards": [0.3] * 4, **output}
    return trainer.postprocess_generator_output(given, list(uids))


def atropos(item: Any = None, **group: Any) -> list[float]:
    from rubrank.training.frameworks.atropos import RubricEnv

    usual = {"tokens": [[1, 2]] * 4, "masks": [[-100, 2]] * 4, "scores": [0.3] * 4, "messages": list(map(talk, SAID))}

    class Base:
        tokenizer, curr_step = Tokenizer(), 0

        async def collect_trajectories(self, item: Any) -> Any:
            return {**usual, **group}, []

    class Env(RubricEnv, Base):
        rubrank = RewardEngine(RUBRIC)

    return asyncio.run(Env().collect_trajectories(item))[0]["scores"]


def rllm(groups: int = 1, said: Any = SAID, **given: Any) -> list[float]:
    from rubrank.training.frameworks.rllm import estimator

    def trajectory(text: Any) -> Any:
        steps = [] if text is None else [Plain(chat_completions=talk(text))]
        return Plain(steps=steps, task={}, reward=0.3)

    made = [Plain(group_id="same", trajectories=list(map(trajectory, said))) for _ in range(groups)]
    estimate = estimator(RewardEngine(RUBRIC), lambda rewards, **_: rewards)
    found = estimate(rewards=[np.zeros(len(said))] * groups, **{"traj_groups": made, **given})
    return [reward for group in found for reward in group.tolist()]


def easyr1(*rows: Any) -> list[float]:
    from rubrank.training.frameworks.easyr1 import compute_score, ground_truth_of

    truth = ground_truth_of({"prompt": "Name a lake."}, 7)
    usual = [{"response": text, "response_length": 5, "ground_truth": truth} for text in SAID]
    return [one["overall"] for one in compute_score(rows or usual, RewardEngine(RUBRIC))]


def open_instruct(said: Any = SAID, n: int | None = None) -> list[float]:
    from rubrank.training.frameworks.open_instruct import reward_function

    score, number = reward_function(RewardEngine(RUBRIC), n=n), len(said)
    found = asyncio.run(score([[1]] * number, said, ["x"] * number, ["d"] * number, ["stop"] * number, None, None))
    return found[0]


def nemo_gym(*bodies: dict[str, Any]) -> list[float]:
    from rubrank.training.frameworks.nemo_gym import RubricVerifier

    def usual(text: str) -> dict[str, Any]:
        said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
        return {"responses_create_params": {"input": ASKED}, "response": {"output": said}}

    async def main() -> list[float]:
        verify = RubricVerifier(RewardEngine(RUBRIC), num_rollouts_per_prompt=4)
        return [one["reward"] for one in await asyncio.gather(*map(verify, bodies or map(usual, SAID)))]

    return asyncio.run(main())


def roll() -> Any:
    from rubrank.training.frameworks.roll import RubricLoop

    return RubricLoop().tokenizer


# --------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize(
    "call",
    [
        swift,
        lambda: swift(messages=None),  # then the completion is all there is
        lambda: swift(args=Plain()),  # no number of generations: all rows of a prompt
        lambda: swift(said=("a lake in the north", "lake", "no", None)),  # nothing was said
        skyrl,
        lambda: skyrl(prompts=[ASKED] * 4),
        lambda: skyrl(stop_reasons=None, loss_masks=None),
        atropos,
        lambda: atropos(("number", {"answer": "West Lake"})),
        rllm,
        lambda: rllm(said=("a lake in the north", "lake", "no", None)),  # a trajectory without steps
        easyr1,
        open_instruct,
        lambda: open_instruct(n=8),  # some were lost
        nemo_gym,
    ],
)
def test_the_right_rewards(call: Callable[[], list[float]]):
    assert call() == REWARDS


def test_arguments_that_a_later_skyrl_may_add_reach_its_own_method():
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Base:
        global_step = 1
        tokenizer = Tokenizer()

        def postprocess_generator_output(self, output: Any, uids: Any, scale: float = 1.0) -> Any:
            return [scale * reward for reward in output["rewards"]]

    class Trainer(RubricRewards, Base):
        rubrank = RewardEngine(RUBRIC)

    tokens = [[*Tokenizer().encode(text), 0] for text in ("lake", "")]
    output = {"prompt_token_ids": [[65]] * 2, "response_ids": tokens, "rewards": [0.3] * 2}
    assert Trainer().postprocess_generator_output(output, ["0", "0"], scale=2.0) == [1.25, 0.0]


def test_groups_with_the_same_name_are_not_mixed_up():
    assert rllm(groups=2) == REWARDS * 2


def test_a_process_without_rows_has_no_rewards():
    """Ranks of ms-swift may differ in length."""
    assert swift(said=()) == []


BODY = {"responses_create_params": {"input": ASKED}, "response": {"output": []}}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: swift(prompt_id=["p", None, "p", "q"]), "prompt_id must be given for every row"),
        (lambda: swift(rubric=[json.dumps([{"name": "Lake!"}])] * 4), "'Lake!'"),
        (
            lambda: skyrl(prompts=[ASKED, ASKED, ASKED, talk("x")]),
            "uid must be different .*'0' for two prompts",
        ),
        (lambda: atropos(messages=None), "messages must be one conversation for each rollout"),
        (lambda: atropos(messages=[talk("x")]), "messages must be one conversation for each rollout"),
        (lambda: atropos({"rubric": [{"name": "Lake!"}]}), "'Lake!'"),
        (
            lambda: easyr1({"response": "", "response_length": 1, "ground_truth": "West Lake"}),
            "ground_truth of row 0 must be JSON with a uid; got 'West Lake'",
        ),
        (lambda: nemo_gym({**BODY, "response": "West Lake."}), "body must be an object with .*response: str"),
        (
            lambda: nemo_gym({**BODY, "responses_create_params": "x"}),
            "body must be an object with .*_create_params: str",
        ),
        (
            lambda: nemo_gym({**BODY, "response": {"output": ["x"]}}),
            "response.output must be a list of objects",
        ),
        (roll, "tokenizer_path must be the policy's; got none"),
    ],
)
def test_one_clear_line(call: Callable[[], Any], message: str):
    with pytest.raises(RubrankError, match=message) as found:
        call()
    assert "\n" not in str(found.value)
