"""What NeMo Gym's clients send to a resources server, and what they take back, in its own schema classes.

Version 0.7 where it is installed, each test with a word of it; else stand-ins with the same required fields. It wants
Python 3.13, but these modules also run on 3.11: docs/frameworks.md says how it was installed here.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
from math import nan
from types import SimpleNamespace as Plain
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from rubrank import InvalidInput, RewardEngine
from rubrank.service.cohorts import SampleAnswer
from rubrank.service.requests import NEMO_GYM, REVERIFY_MODE, SampleReader, aggregate_metrics, answer_session
from rubrank.training.frameworks.nemo_gym import RubricVerifier

pytestmark = pytest.mark.filterwarnings("ignore")  # what frameworks warn of among themselves is not ours
READING = SampleReader(2, "rubric", (), False)


def stand_ins() -> Plain:
    """The fields that must be there, of the classes that a client makes or reads."""

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")

    class Verified(Open):
        responses_create_params: dict[str, Any]
        response: dict[str, Any]
        reward: float
        mask_sample: bool = False
        failure_kind: str | None = None
        failure_reason: str | None = None

    class Components(Verified):
        reward_components: dict[str, float]

    class Session(Closed):
        resources_session_id: str
        resources_tools: Any = None
        sandbox_access: Any = None

    class Aggregate(BaseModel):
        group_level_metrics: list[dict[str, Any]]
        agent_metrics: dict[str, Any]
        key_metrics: dict[str, Any]
        repeat_level_metrics: list[dict[str, Any]]

    return Plain(
        Components=Components,
        Single=Verified,
        Seeded=Session,
        Closed=Session,
        Aggregate=Aggregate,
        kinds={"judge_failed", "cohort_incomplete"},
        modes={"stateless", "unsupported", "unknown"},
    )


def theirs() -> Plain:
    try:
        version = importlib.metadata.version("nemo-gym")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("nemo-gym is not installed")
    try:
        import nemo_gym.base_resources_server as server
        from nemo_gym.config_types import AggregateMetrics
        from nemo_gym.failure_kinds import FAILURE_KINDS
        from nemo_gym.single_agent_turn_types import SingleAgentTurnResult
    except Exception as error:
        pytest.skip(f"nemo-gym {version} cannot be imported here: {type(error).__name__}: {error}")
    print(f"nemo-gym {version}")
    return Plain(
        Components=server.BaseMultiRewardVerifyResponse,
        Single=SingleAgentTurnResult,
        Seeded=server.ResourcesSeedSessionResponse,
        Closed=server.ResourcesCloseSessionResponse,
        Aggregate=AggregateMetrics,
        kinds=FAILURE_KINDS,
        modes={mode.value for mode in server.ReverifyMode},
    )


@pytest.fixture(params=["stand-in", "installed"])
def schema(request):
    return stand_ins() if request.param == "stand-in" else theirs()


def body(text: str = "West Lake.", **more: Any) -> dict[str, Any]:
    """As an agent sends it: its row, what it asked, and a whole response."""
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}
    response = {
        "id": "r",
        "created_at": 0.0,
        "model": "policy",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    asked = {"input": [{"role": "user", "content": "Name a lake."}]}
    return {"responses_create_params": asked, "response": {**response, **more.pop("response", {})}, **more}


def answer(reward: float = 0.75, samples: int = 2) -> SampleAnswer:
    unknown = reward != reward
    scores = {"Facts": nan if unknown else 1.0}
    return SampleAnswer(reward, 0.5 if unknown else reward, "g", samples, 2, scores, {"Facts": "the judge timed out"})


def test_an_answer_is_a_verify_response(schema):
    told = NEMO_GYM.write_answer(body(difficulty=3), [answer()])
    for kind in (schema.Components, schema.Single):
        found = kind.model_validate(told)
        assert (found.reward, found.mask_sample, found.failure_kind) == (0.75, False, None)
    assert schema.Components.model_validate(told).reward_components == {"Facts": 1.0}
    assert told["difficulty"] == 3


def test_a_judge_that_failed_is_masked_and_tried_again(schema):
    """Agents' rows have keys of NeMo Gym's own, by which failures are routed; environment servers refuse them."""
    for row in ({"_ng_task_index": 3, "_ng_rollout_index": 1}, {}):
        told = NEMO_GYM.write_answer(body(**row), [answer(nan)])
        found = schema.Single.model_validate(told)
        assert (found.reward, found.mask_sample, found.failure_kind) == (0.5, True, "judge_failed")
        assert found.failure_reason == "the judge timed out"
        assert found.failure_kind in schema.kinds
        assert told.get("_ng_failure_class") == ("judge_failed" if row else None)
        assert all(not name.startswith("_ng_") for name in told) or row


def test_a_group_that_is_short_is_a_note(schema):
    found = schema.Components.model_validate(NEMO_GYM.write_answer(body(), [answer(samples=1)]))
    assert (found.mask_sample, found.reward) == (False, 0.75)
    assert found.failure_kind in schema.kinds
    assert found.failure_reason.startswith("scored with 1 of 2 samples")


def test_sessions_keep_their_ids(schema):
    seed = {"resources_session_id": "s-7", "episode_id": {"rollout_id": "3-1"}, "task_id": {}, "task_data": {}}
    told = answer_session(seed)
    assert schema.Seeded.model_validate(told).resources_session_id == "s-7"
    assert schema.Closed.model_validate(answer_session({"resources_session_id": "s-7"})).resources_session_id == "s-7"
    assert answer_session(body()) == {}  # an agent's, which has no id


def test_metrics_of_a_run(schema):
    """Masked samples measure nothing."""
    rows = [
        {"_ng_task_index": 0, "reward": 1.0, "reward_components": {"Facts": 1.0}},
        {"_ng_task_index": 0, "reward": 0.0, "reward_components": {"Facts": 0.0}, "mask_sample": False},
        {"_ng_task_index": 1, "reward": 0.5, "reward_components": {"Facts": 0.5}, "mask_sample": True},
        {"_ng_task_index": 1, "reward": 0.2, "reward_components": {"Facts": 0.2}},
    ]
    found = schema.Aggregate.model_validate(aggregate_metrics({"verify_responses": rows}))
    assert found.agent_metrics == {
        "mean/reward": pytest.approx(0.4),
        "mean/Facts": pytest.approx(0.4),
        "samples": 4,
        "masked": 1,
    }
    assert found.key_metrics == {"mean/Facts": pytest.approx(0.4)}
    assert [one["mean/reward"] for one in found.group_level_metrics] == [0.5, 0.2]
    assert aggregate_metrics({"verify_responses": []})["key_metrics"] == {}
    odd = [{"_ng_task_index": [], "reward": "high", "reward_components": 7}, {"reward_components": {"Facts": None}}]
    assert aggregate_metrics({"verify_responses": odd})["agent_metrics"] == {"samples": 2, "masked": 0}
    with pytest.raises(InvalidInput, match="verify_responses must be a list"):
        aggregate_metrics({})
    assert REVERIFY_MODE in schema.modes


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}, "length"),
        ({"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"}, "content_filter"),
        ({"status": "incomplete"}, "length"),
        ({"status": "incomplete", "metadata": {"ng_termination_reason": "incomplete_reasoning"}}, "stop"),
        ({"status": "completed"}, "stop"),
        ({"status": "failed"}, None),
        ({}, None),
    ],
)
def test_why_sampling_ended(response, reason):
    """An agent calls a response without an answer incomplete, too: nobody cut that off."""
    (sample,) = NEMO_GYM.read_samples(body(response=response), READING)
    assert sample.rollout.finish_reason == reason
    assert sample.rollout.answer == "West Lake."


def test_rows_of_the_same_prompt_are_one_group_whatever_their_numbers():
    """Where rows were repeated before they came to NeMo Gym, each has a number of its own."""
    first, second = (NEMO_GYM.read_samples(body(_ng_task_index=i), READING)[0] for i in range(2))
    assert first.group_key == second.group_key


@pytest.mark.parametrize("agent", [True, False])
def test_a_verifier_of_ones_own_server_says_the_same(schema, monkeypatch, agent):
    engine = RewardEngine([{"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}}])
    whole = type(engine).fuse

    def fuse(self: Any, groups: Any, graded: Any, *given: Any, **named: Any) -> Any:
        graded.groups[0].scores[0] = nan
        return whole(self, groups, graded, *given, **named)

    monkeypatch.setattr(type(engine), "fuse", fuse)

    async def main() -> list[dict[str, Any]]:
        verify = RubricVerifier(engine, num_rollouts_per_prompt=3)
        row = {"_ng_task_index": 0} if agent else {}
        return await asyncio.gather(*(verify(body(text, **row)) for text in ("West Lake.", "A lake.", "No.")))

    lost, right, wrong = (schema.Single.model_validate(json.loads(json.dumps(one))) for one in asyncio.run(main()))
    assert (right.reward, wrong.reward, right.mask_sample) == (1.0, 0.0, False)
    assert (lost.reward, lost.mask_sample, lost.failure_kind) == (0.5, True, "judge_failed")
    assert (getattr(lost, "_ng_failure_class", None) or (lost.model_extra or {}).get("_ng_failure_class")) == (
        "judge_failed" if agent else None
    )


def test_a_criterion_called_reward_does_not_replace_the_mean_reward():
    row = {"reward": 0.75, "reward_components": {"reward": 0.0, "Facts": 1.0}}
    metrics = aggregate_metrics({"verify_responses": [row]})["agent_metrics"]
    assert (metrics["mean/reward"], metrics["mean/Facts"]) == (0.75, 1.0)
