"""Adapters against the frameworks themselves, where they are installed; each test says the version that it ran.

Environments of their own: docs/frameworks.md. Nothing here needs a GPU or a network.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from pathlib import Path
from types import SimpleNamespace as Plain
from typing import Any

import pytest
from contracts.drivers import Tokenizer

from rubrank import RewardEngine

RUBRIC = ["Truncated", "EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]
SAID = [("West Lake.", "stop"), ("No.", "stop"), ("A lake.", "length")]
REWARDS = [1.0, 0.25, 0.0]
pytestmark = pytest.mark.filterwarnings("ignore")  # what frameworks warn of among themselves is not ours


def installed(package: str, module: str, record_property: Any) -> Any:
    """The module; skips with a word where the package is not there, or cannot be imported here."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    try:
        found = __import__(module, fromlist=["_"])
    except Exception as error:
        pytest.skip(f"{package} {version} cannot be imported here: {type(error).__name__}: {error}")
    record_property("version", version)
    print(f"{package} {version}")
    return found


def test_verifiers_04(record_property):
    vf = installed("verifiers", "verifiers.v1", record_property)
    from verifiers.v1.envs.best_of_n.env import BestOfNEnv
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo, ModelCall, TraceTask
    from verifiers.v1.types import AssistantMessage, Usage, UserMessage

    from rubrank.training.frameworks.verifiers import RubricFinalize

    class Env(RubricFinalize, BestOfNEnv):
        rubrank = RewardEngine(RUBRIC)
        rubrank_name = "quality"

    data = vf.TaskData(prompt="Name a lake.")

    def trace(text: str, end: str) -> Any:
        usage = Usage(prompt_tokens=3, completion_tokens=len(text.split()))
        made = vf.Trace(
            task=TraceTask(type="Task", data=data),
            agent=AgentInfo(config=vf.AgentConfig()),
            nodes=[
                MessageNode(message=UserMessage(content="Name a lake.")),
                MessageNode(parent=0, message=AssistantMessage(content=text), sampled=True),
            ],
            calls=[ModelCall(node=1, finish_reason=end, usage=usage)],
        )
        made.record_reward("task", 0.4)
        return made

    episode = vf.Episode(task=TraceTask(type="Task", data=data), traces=[trace(*one) for one in SAID])
    env = object.__new__(Env)
    env.config = Plain(threshold=1.0)
    asyncio.run(env.finalize(vf.Task(data), episode))
    assert [one.reward for one in episode.traces] == REWARDS
    assert [one.metrics["task/task"] for one in episode.traces] == [0.4] * 3
    assert episode.traces[0].metrics["best"] == 1.0  # the environment's own judgement stays


def test_art(record_property):
    art = installed("openpipe-art", "art", record_property)
    from openai.types.chat import ChatCompletionMessage
    from openai.types.chat.chat_completion import Choice

    from rubrank.training.frameworks.art import score_trajectories

    async def rollout(text: str, end: Any) -> Any:
        choice = Choice(index=0, finish_reason=end, message=ChatCompletionMessage(role="assistant", content=text))
        return art.Trajectory(messages_and_choices=[{"role": "user", "content": "Name a lake."}, choice], reward=0.4)

    async def gather() -> Any:
        group = art.TrajectoryGroup(rollout(*one) for one in SAID)
        return await art.gather_trajectory_groups([group], after_each=score_trajectories(RewardEngine(RUBRIC)))

    (group,) = asyncio.run(gather())
    found = {one.messages()[-1]["content"]: one.reward for one in group.trajectories}
    assert [found[text] for text, _ in SAID] == REWARDS
    assert all(one.metrics["independent_reward"] == 0.4 for one in group.trajectories)


def test_atropos(record_property):
    base = installed("atroposlib", "atroposlib.envs.base", record_property)
    from rubrank.training.frameworks.atropos import RubricEnv

    class Mine(base.BaseEnv):
        async def collect_trajectory(self, item: Any) -> Any:
            text, _ = self.left.pop(0)
            ids = Tokenizer().encode(text)
            talk = [{"role": "user", "content": item["question"]}, {"role": "assistant", "content": text}]
            return {
                "tokens": [1, *ids],
                "masks": [-100, *ids],
                "scores": 0.4,
                "messages": talk,
                "overrides": {"finish_reason": dict(SAID)[text]},
            }, []

        async def get_next_item(self) -> Any:
            return None

        async def setup(self) -> None:
            pass

        async def evaluate(self, *_: Any, **__: Any) -> None:
            pass

    class Env(RubricEnv, Mine):
        rubrank = RewardEngine(RUBRIC)

    env = object.__new__(Env)
    env.config, env.tokenizer, env.curr_step, env.left = Plain(group_size=3), None, 0, list(SAID)
    group, _ = asyncio.run(env.collect_trajectories({"question": "Name a lake."}))
    assert group["scores"] == REWARDS


def test_areal(record_property):
    installed("areal", "areal.api.workflow_api", record_property)
    from rubrank.training.frameworks.areal import workflow_class

    left = list(SAID)

    class Engine:
        async def agenerate(self, request: Any) -> Any:
            text, end = left.pop(0)
            ids = Tokenizer().encode(text)
            more = {"output_logprobs": [0.0] * len(ids), "output_versions": [0] * len(ids)}
            return Plain(input_tokens=[1, 2], output_tokens=ids, stop_reason=end, **more)

    made = workflow_class()(
        RewardEngine(RUBRIC), gconfig=Plain(max_new_tokens=64), tokenizer=Tokenizer(), n=3, request=list
    )
    assert [one.__name__ for one in type(made).__mro__[1:3]] == ["RubricWorkflow", "RolloutWorkflow"]
    row = {"messages": [{"role": "user", "content": "Name a lake."}]}
    found = asyncio.run(made.arun_episode(Engine(), row))
    assert found["rewards"].tolist() == REWARDS
    assert found["input_ids"].shape == found["attention_mask"].shape == (3, 2 + len(SAID[0][0]))


def test_swift(record_property):
    algorithm = installed("ms-swift", "swift.rl_core.grpo_algorithm", record_property)
    import torch
    from swift.rl_core.data import GRPOSample

    from rubrank.training.frameworks.swift import RubricORM, register

    class Function(RubricORM):
        rubrank = RewardEngine(RUBRIC)

    register()
    samples = [
        GRPOSample(
            messages=[{"role": "user", "content": "Name a lake."}, {"role": "assistant", "content": text}],
            prompt_id="prompt_0",
            request_id=str(i),
            finish_reason=end,
        )
        for i, (text, end) in enumerate(SAID)
    ]
    found = algorithm.compute_rewards_per_func(
        samples, [Function(Plain(num_generations=3))], None, torch.device("cpu"), Plain(global_step=0)
    )
    assert found[:, 0].tolist() == REWARDS


def test_skyrl(record_property):
    trainer = installed("skyrl", "skyrl.train.trainer", record_property)
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Trainer(RubricRewards, trainer.RayPPOTrainer):
        rubrank = RewardEngine(RUBRIC)

    made = object.__new__(Trainer)
    algorithm = Plain(zero_variance_filter=False)
    generator = Plain(step_wise_trajectories=False, merge_stepwise_output=False, n_samples_per_prompt=3)
    made.cfg = Plain(generator=generator, trainer=Plain(algorithm=algorithm))
    made.tokenizer, made.global_step, made.all_metrics, made.train_dataset = Tokenizer(), 0, {}, None
    ids = [Tokenizer().encode(text) for text, _ in SAID]
    output = {
        "prompt_token_ids": [Tokenizer().encode("Name a lake.")] * 3,
        "response_ids": ids,
        "rewards": [0.4] * 3,
        "loss_masks": [[1] * len(one) for one in ids],
        "stop_reasons": [end for _, end in SAID],
    }
    found, _ = made.postprocess_generator_output(output, ["0"] * 3)
    assert [row[-1] for row in found["rewards"]] == REWARDS
    assert made.all_metrics["reward/avg_raw_reward"] == pytest.approx(sum(REWARDS) / 3)


@pytest.mark.parametrize(
    ("package", "path", "has", "has_not"),
    [
        (
            "ms-swift",
            "swift/rlhf_trainers/grpo_trainer.py",
            ("class GRPOTrainer(", "def _compute_rewards_per_func(", "'train' if self.model.training else 'eval'"),
            (),
        ),
        (
            "ms-swift",
            "swift/megatron/trainers/grpo_trainer.py",
            ("class MegatronGRPOTrainer(", "def _score_completions(", "self.unwrapped_models[0].training else 'eval'"),
            (),
        ),
        ("skyrl", "skyrl/train/evaluate.py", ("generator.generate(",), ("postprocess_generator_output",)),
        ("skyrl", "skyrl/train/generators/base.py", ('TrainingPhase = Literal["train", "eval"]',), ()),
        ("atroposlib", "atroposlib/envs/base.py", ("asyncio.create_task(self.evaluate())", "async def evaluate("), ()),
    ],
)
def test_how_they_evaluate(package, path, has, has_not):
    """What adapters go by to tell an evaluation; a release that does it otherwise fails here, by name."""
    try:
        source = Path(importlib.metadata.distribution(package).locate_file(path)).read_text(encoding="utf-8")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    assert [one for one in has if one not in source] == []
    assert [one for one in has_not if one in source] == []
