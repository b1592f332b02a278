"""How each framework would call its adapter, as far as the adapter sees it: groups of texts → rewards in their order.

A driver takes an engine, groups of `Said`, and gives a list of rewards for each group. The stand-ins have the names and
the kinds of values that the frameworks' own interfaces have; the real ones are run by
tests/contracts/test_frameworks_installed.py.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from types import ModuleType
from types import SimpleNamespace as Plain
from typing import Any

import numpy as np

from rubrank import RewardEngine


@dataclass(frozen=True)
class Said:
    """One response: its text, why sampling ended, the messages before it where it called tools."""

    text: str
    end: str = "stop"
    before: tuple[dict[str, Any], ...] = ()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [*self.before, {"role": "assistant", "content": self.text}]


@dataclass(frozen=True)
class Asked:
    """One query and the responses to it."""

    prompt: str
    said: tuple[Said, ...]
    rubric: Any = None
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> dict[str, Any]:
        return {**self.row, **({} if self.rubric is None else {"rubric": self.rubric})}

    @property
    def user(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.prompt}]


class Tokenizer:
    """A character is a token; 0 ends."""

    eos_token_id = 0

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        return "".join(chr(int(i)) for i in ids if int(i))

    def apply_chat_template(self, messages: Any, **_: Any) -> list[int]:
        return self.encode(messages[-1]["content"])


def ids_of(one: Said) -> list[int]:
    return [ord(c) for c in one.text] + ([0] if one.end == "stop" else [])


# -------------------------------------------------------------------------------------------------- one group at a time


def trace(asked: Asked, one: Said) -> Any:
    rewards: dict[str, Any] = {"task": Plain(value=0.3)}
    talk = [Plain(messages=[*asked.user, *one.messages])]
    usage = Plain(completion_tokens=len(one.text), reasoning_tokens=None)
    call = Plain(error=None, finish_reason=one.end, usage=usage)
    data = {"prompt": asked.prompt, **asked.about}
    found = Plain(
        agent=Plain(name="agent", trainable=True),
        last_error=None,
        is_truncated=one.end == "length",
        branches=talk,
        calls=[call],
        task=Plain(data=_Data(data)),
        rewards=rewards,
        metrics={},
    )
    found.record_reward = lambda name, value: rewards.__setitem__(name, Plain(value=value))
    found.record_metric = lambda name, value: found.metrics.__setitem__(name, value)
    return found


class _Data(dict):
    @property
    def prompt(self) -> Any:
        return self["prompt"]

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self)


def reward(one: Any) -> float:
    return sum(value.value for value in one.rewards.values())


def verifiers(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.verifiers import RubricFinalize

    class Base:
        async def finalize(self, task: Any, episode: Any) -> None:
            pass

    class Env(RubricFinalize, Base):
        rubrank = engine

    found = []
    for asked in groups:
        traces = [trace(asked, one) for one in asked.said]
        run = Plain(type="train", work=Plain(type="train" if train else "eval", step=0))
        asyncio.run(Env().finalize(None, Plain(traces=traces, run=run)))
        found.append([reward(one) for one in traces])
    return found


def prime_rl(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.prime_rl import install

    seen: list[list[float]] = []

    class GRPO:
        async def score_group(self, episodes: Any) -> None:
            seen.append([reward(one) for episode in episodes for one in episode.traces])

    classes: dict[str, Any] = {"grpo": GRPO}
    install(engine, classes)
    run = Plain(type="train", work=Plain(type="train" if train else "eval", step=0))
    for asked in groups:
        episodes = [Plain(traces=[trace(asked, one)], run=run) for one in asked.said]
        asyncio.run(classes["grpo"]().score_group(episodes))
    return seen


def art(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.art import score_trajectories

    score = score_trajectories(engine, train=train)
    found = []
    for asked in groups:
        about = {name: value if isinstance(value, str) else json.dumps(value) for name, value in asked.about.items()}
        trajectories = [
            Plain(
                messages_and_choices=[*asked.user, *one.before, _Choice(one)],
                tools=None,
                metadata=about,
                reward=0.3,
                metrics={},
            )
            for one in asked.said
        ]
        group = asyncio.run(score(Plain(trajectories=trajectories, metadata={}, metrics={})))
        found.append([one.reward for one in group.trajectories])
    return found


class _Choice:
    def __init__(self, one: Said) -> None:
        self.finish_reason, self.logprobs = one.end, None
        self.message = Plain(model_dump=lambda **_: {"role": "assistant", "content": one.text})


def atropos(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.atropos import RubricEnv

    class Base:
        tokenizer = Tokenizer()
        curr_step = 0

        async def collect_trajectories(self, item: Any) -> Any:
            asked = item["asked"]
            tokens = [[1, *ids_of(one)] for one in asked.said]
            masks = [[-100, *ids_of(one)] for one in asked.said]
            talks = [[*asked.user, *one.messages] for one in asked.said]
            ends = [{"finish_reason": one.end} for one in asked.said]
            return {
                "tokens": tokens,
                "masks": masks,
                "scores": [0.3] * len(tokens),
                "messages": talks,
                "overrides": ends,
            }, []

        async def evaluate(self, items: Any) -> list[list[float]]:
            """Of one's own, in tasks of its own, as atropos starts it beside training."""
            return [(await asyncio.create_task(self.collect_trajectories(item)))[0]["scores"] for item in items]

    class Env(RubricEnv, Base):
        rubrank = engine

    env, items = Env(), [{"asked": asked, **asked.about} for asked in groups]
    if not train:
        return asyncio.run(env.evaluate(items))
    return [asyncio.run(env.collect_trajectories(item))[0]["scores"] for item in items]


def areal(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.areal import RubricWorkflow

    found = []
    for asked in groups:
        left = list(asked.said)

        class Sampler:
            async def agenerate(self, request: Any, left: Any = left) -> Any:
                one = left.pop(0)
                ids = ids_of(one)
                more = {"output_logprobs": [0.0] * len(ids), "output_versions": [0] * len(ids)}
                return Plain(input_tokens=request, output_tokens=ids, stop_reason=one.end, **more)

        config = Plain(max_new_tokens=999)
        workflow = RubricWorkflow(
            engine, gconfig=config, tokenizer=Tokenizer(), n=len(asked.said), train=train, request=list
        )
        row = {"messages": asked.user, **asked.about}
        found.append(asyncio.run(workflow.arun_episode(Sampler(), row))["rewards"].double().tolist())
    return found


def open_instruct(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.open_instruct import reward_function

    score, found = reward_function(engine, train=train), []
    for asked in groups:
        number = len(asked.said)
        truth = [json.dumps({"prompt": asked.prompt, **asked.about})]
        scores, _ = asyncio.run(
            score(
                [ids_of(one) for one in asked.said],
                [one.text for one in asked.said],
                [truth] * number,
                ["data"] * number,
                [one.end for one in asked.said],
                None,
                [f"<|user|>{asked.prompt}"] * number,
            )
        )
        found.append(scores)
    return found


def rllm(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.rllm import estimator

    def base(rewards: Any, algorithm_config: Any, traj_groups: Any) -> Any:
        return [one - one.mean() for one in rewards], rewards

    def trajectory(asked: Asked, one: Said) -> Any:
        step = Plain(chat_completions=[*asked.user, *one.messages], model_output=Plain(finish_reason=one.end))
        return Plain(steps=[step], task=asked.about, reward=0.3)

    given = [Plain(group_id=str(i), trajectories=[trajectory(a, one) for one in a.said]) for i, a in enumerate(groups)]
    zeros = [np.zeros(len(asked.said)) for asked in groups]
    advantage = estimator(engine, base)
    if not train:  # rLLM's validation collects rewards only (`collect_advantage=False`), and asks no estimator
        return [[t.reward for t in one.trajectories] for one in given]
    advantages, returns = advantage(rewards=zeros, algorithm_config=None, traj_groups=given)
    assert all(abs(one.sum()) < 1e-9 for one in advantages)
    assert [[t.reward for t in one.trajectories] for one in given] == [one.tolist() for one in returns]
    return [one.tolist() for one in returns]


def roll(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.roll import RubricLoop

    found = []
    for asked in groups:
        items = []
        for one in asked.said:
            ids = [*ids_of(one), 7, 7]  # filled up
            batch = {
                "prompts": np.array([[ord(c) for c in asked.prompt]]),
                "responses": np.array([ids]),
                "response_mask": np.array([[1] * (len(ids) - 2) + [0, 0]]),
                "response_level_rewards": np.array([0.3]),
            }
            row = {name: [value] for name, value in {"prompt": asked.prompt, **asked.about}.items()}
            row["sampling_params"] = [json.dumps({"finish_reasons": [one.end]})]
            items.append(Plain(batch=batch, non_tensor_batch=row))

        class Base:
            tokenizer = Tokenizer()

            async def process_new_prompt(self, context: Any, items: Any = items) -> Any:
                return items

        class Loop(RubricLoop, Base):
            rubrank = engine
            tokenizer = Tokenizer()

        asyncio.run(Loop().process_new_prompt(Plain(is_val=not train, meta_info={})))
        found.append([float(one.batch["response_level_rewards"][0]) for one in items])
    return found


# --------------------------------------------------------------------------------------------------------- a flat batch


def _cut(flat: list[float], groups: list[Asked]) -> list[list[float]]:
    left = list(flat)
    return [[left.pop(0) for _ in asked.said] for asked in groups]


def swift(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.swift import RubricORM, watch_scoring

    class Function(RubricORM):
        rubrank = engine

    class Trainer:
        """Its reward functions, and a model that is in training mode or not."""

        def __init__(self, function: Any) -> None:
            self.function, self.model, self.state = function, Plain(training=train), Plain(global_step=0)

        def _compute_rewards_per_func(self, said: Any, columns: Any) -> Any:
            return self.function(said, trainer_state=self.state, **columns)

    size = len(groups[0].said)
    prompts = list(dict.fromkeys(asked.prompt for asked in groups))
    rows = [
        {
            "messages": [*asked.user, *one.messages],
            "prompt_id": f"prompt_{prompts.index(asked.prompt)}",
            "request_id": f"{g}-{i}",
            "finish_reason": one.end,
            "is_truncated": one.end == "length",
            "response_token_ids": [ids_of(one)],
            "rubric": None,
            **asked.about,
        }
        for g, asked in enumerate(groups)
        for i, one in enumerate(asked.said)
    ]
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    assert watch_scoring(Trainer)
    function = Function(Plain(num_generations=size))
    said = [one.text for asked in groups for one in asked.said]
    return _cut(Trainer(function)._compute_rewards_per_func(said, columns), groups)


def skyrl(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Base:
        tokenizer, global_step = Tokenizer(), 0

        def __init__(self) -> None:
            self.all_metrics: dict[str, float] = {}

        async def generate(self, batch: Any) -> Any:
            return None

        async def eval(self, batch: Any) -> list[float]:
            """The generator's own rewards; SkyRL asks it without `generate`, a trainer of one's own may."""
            await self.generate({**batch, "batch_metadata": Plain(training_phase="eval")})
            return [0.3] * len(batch["prompts"])

        def postprocess_generator_output(self, output: Any, uids: Any) -> Any:
            return output["rewards"]

    class Trainer(RubricRewards, Base):
        rubrank = engine

    rows = [(str(g), asked, one) for g, asked in enumerate(groups) for one in asked.said]
    trainer = Trainer()
    batch = {
        "prompts": [asked.user for _, asked, _ in rows],
        "env_extras": [asked.about for _, asked, _ in rows],
        "trajectory_ids": [Plain(instance_id=uid) for uid, _, _ in rows],
    }
    if not train:
        return _cut(asyncio.run(trainer.eval(batch)), groups)
    asyncio.run(trainer.generate(batch))
    asyncio.run(trainer.eval({**batch, "env_extras": [{"rubric": ["EmptyAnswer"]}] * len(rows)}))
    output = {
        "prompt_token_ids": [[ord(c) for c in asked.prompt] for _, asked, _ in rows],
        "response_ids": [ids_of(one) for _, _, one in rows],
        "loss_masks": [[1] * len(ids_of(one)) for _, _, one in rows],
        "rewards": [0.3] * len(rows),
        "stop_reasons": [one.end for _, _, one in rows],
    }
    found = trainer.postprocess_generator_output(output, [uid for uid, _, _ in rows])
    assert "rubrank/score" in trainer.all_metrics
    return _cut(found, groups)


def easyr1(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.easyr1 import compute_score, ground_truth_of

    rows = [
        {
            "response": one.text,
            "response_length": 50 if one.end == "length" else len(one.text),
            "ground_truth": ground_truth_of({"prompt": asked.prompt, **asked.about}, g),
        }
        for g, asked in enumerate(groups)
        for one in asked.said
    ]
    return _cut([one["overall"] for one in compute_score(rows, engine, most_tokens=50)], groups)


def nemo_rl(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.nemo_rl import RubricEnvironment

    for name in ("nemo_rl", "nemo_rl.environments", "nemo_rl.environments.interfaces"):
        sys.modules.setdefault(name, ModuleType(name))  # the package index has no NeMo-RL
    sys.modules[name].EnvironmentReturn = Plain
    environment = RubricEnvironment({"config": engine, "num_generations": len(groups[0].said), "train": train})
    rows = [(asked, one) for asked in groups for one in asked.said]
    logs = [[*asked.user, *one.before, {**one.messages[-1], "truncated": one.end == "length"}] for asked, one in rows]
    found = environment.step(logs, [asked.about for asked, _ in rows])
    assert found.terminateds.all()
    assert len(found.observations) == len(rows)
    return _cut(found.rewards.double().tolist(), groups)


# ------------------------------------------------------------------------------------------------- one sample at a time


def nemo_gym(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
    from rubrank.training.frameworks.nemo_gym import RubricVerifier

    async def main() -> list[list[float]]:
        verify = RubricVerifier(engine, num_rollouts_per_prompt=len(groups[0].said), train=train)
        calls = [verify(body(g, asked, one)) for g, asked in enumerate(groups) for one in asked.said]
        return _cut([one["reward"] for one in await asyncio.gather(*calls)], groups)

    def body(g: int, asked: Asked, one: Said) -> dict[str, Any]:
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": one.text}]}
        cut = (
            {"incomplete_details": {"reason": "max_output_tokens"}} if one.end == "length" else {"status": "completed"}
        )
        response = {"output": [message], "usage": {"output_tokens": len(one.text)}, **cut}
        return {"responses_create_params": {"input": asked.user}, "response": response, "id": g, **asked.about}

    return asyncio.run(main())


DRIVERS = {
    driver.__name__: driver
    for driver in (
        verifiers,
        prime_rl,
        art,
        atropos,
        areal,
        open_instruct,
        rllm,
        roll,
        swift,
        skyrl,
        easyr1,
        nemo_rl,
        nemo_gym,
    )
}
SINGLE = {"areal", "nemo_rl"}  # rewards are float32 tensors there
