"""A request of NeMo Gym is one sample, whether it comes to the service or to a verifier in a server of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from rubrank import Group, InvalidInput, RewardEngine, Rollout
from rubrank.service.requests import NEMO_GYM, SampleReader
from rubrank.training.barrier import SampleReward
from rubrank.training.frameworks.nemo_gym import RubricVerifier

RUBRIC = ["EmptyAnswer", "Truncated", {"name": "WordCount", "params": {"low": 2}}]
SIBLINGS = ("A lake and the", "It is West Lake.", "")
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hangzhou.\n"}]}
RAW = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "It has one."}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "map"}'}
GIVEN = {"type": "function_call_output", "call_id": "c1", "output": "West Lake"}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
ENDLESS = "We looked. It is West Lake"  # complete only if it is known that sampling ended by itself


def said(text: Any = "West Lake.", **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def body(*output: Any, row: Any = None, params: Any = None, **response: Any) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": "Name a lake."}], **(params or {})}
    return {"responses_create_params": asked, "response": {"output": list(output), **response}, **(row or {})}


# what is sent, and some of what a rollout must say about it
ODD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it ends in its thoughts": (body(said("A draft."), THOUGHT), {"answer": "", "thoughts": "Hangzhou."}),
    "nothing but thoughts": (body(RAW), {"answer": "", "thoughts": "It has one."}),
    "nothing at all": (body(), {"answer": "", "thoughts": ""}),
    "thoughts in pieces": (body(THOUGHT, RAW, said()), {"thoughts": "Hangzhou.\n\nIt has one."}),
    "thoughts before a call": (body(THOUGHT, CALL, GIVEN, RAW, said()), {"thoughts": "It has one."}),
    "it ends in a call": (body(said("I look."), CALL), {"answer": "I look."}),
    "instructions": (body(said(), params={"instructions": "Be brief."}), {"question": "Name a lake."}),
    "a text with instructions": (body(said(), params={"input": "Name one.", "instructions": "Be brief."}), {}),
    "tools": (body(CALL, GIVEN, said(), params={"tools": [TOOL, {"type": "web_search"}]}), {}),
    "tools of the row": (body(said(), params={"tools": [TOOL]}, row={"tools": [{"type": "function"}]}), {}),
    "no tools of the row": (body(said(), params={"tools": [TOOL]}, row={"tools": None}), {}),
    "completed": (body(said(ENDLESS), status="completed"), {"finish_reason": "stop"}),
    "incomplete": (body(said(), status="incomplete"), {"finish_reason": "length"}),
    "incomplete, for an odd reason": (
        body(said(), status="incomplete", incomplete_details="long"),
        {"finish_reason": "length"},
    ),
    "incomplete, and not cut off": (
        body(THOUGHT, status="incomplete", metadata={"ng_termination_reason": "incomplete_reasoning"}),
        {"finish_reason": "stop"},
    ),
    "tokens": (body(said(), usage={"output_tokens": 9}), {"token_counts": {"reasoning": 0, "answer": 9}}),
    "thoughts that nobody counted": (
        body(THOUGHT, said(), usage={"output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}}),
        {"token_counts": None},
    ),
    "a usage of another kind": (body(said(), usage={"output_tokens": "9"}), {"token_counts": None}),
    "a refusal": (body({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), {"answer": "No."}),
    "a content without parts": (body({"type": None, "role": "assistant", "content": "West Lake."}), {}),
    "parts that are texts": (body(said() | {"content": ["West ", {"text": "Lake."}, 7]}), {"answer": "West Lake."}),
    "arguments of no text": (body(CALL | {"arguments": None}, GIVEN, said()), {}),
    "a call before": (body(said(), params={"input": [{"role": "user", "content": "?"}, CALL, GIVEN]}), {}),
    "an id": (body(said(), row={"id": 7, "answer": "West Lake", "_ng_task_index": 3}), {}),
    "a prompt of the row": (body(said(), row={"prompt": "Name it."}), {"question": "Name it."}),
    "an opened prompt": (
        body(said("Still at it"), params={"input": [{"role": "assistant", "content": "<think>"}]}),
        {"answer": ""},
    ),
    "an opened prompt, and one of the row": (
        body(said("At it"), params={"input": [{"role": "assistant", "content": "<think>"}]}, row={"prompt": "?"}),
        {"answer": ""},
    ),
}


def in_service(data: dict[str, Any], engine: RewardEngine) -> Any:
    (sample,) = NEMO_GYM.read_samples(data, SampleReader(4, "rubric", (), False, thinking=engine.thinking))
    return sample


def in_training(bodies: list[Any], engine: RewardEngine) -> tuple[list[Rollout], list[float]]:
    """The rollouts that a verifier hands to its barrier, and the rewards that it answers."""
    found: list[Rollout] = []

    async def main() -> list[float]:
        verify = RubricVerifier(engine, num_rollouts_per_prompt=len(bodies), timeout=300)
        whole = verify.barrier.score

        async def score(key: Any, rollout: Rollout, **given: Any) -> SampleReward:
            found.append(rollout)
            return await whole(key, rollout, **given)

        verify.barrier.score = score  # type: ignore[method-assign]
        return [one["reward"] for one in await asyncio.gather(*map(verify, bodies))]

    rewards = asyncio.run(main())
    return found, rewards


def with_siblings(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [data, *({**data, "response": {"output": [said(text)]}} for text in SIBLINGS)]


@pytest.mark.parametrize("name", list(ODD))
@pytest.mark.parametrize("thinking", ["auto", "tags", "prefilled"])
def test_both_read_the_same(name: str, thinking: Any):
    data, expected = ODD[name]
    engine = RewardEngine(RUBRIC, thinking=thinking)
    bodies = with_siblings(data)
    samples = [in_service(one, engine) for one in bodies]
    rollouts, rewards = in_training(bodies, RewardEngine(RUBRIC, thinking=thinking))
    assert [one.rollout for one in samples] == rollouts
    assert [one.rollout.messages for one in samples] == [one.messages for one in rollouts]
    assert len({one.group_key for one in samples}) == 1
    group = Group(id="g", rollouts=tuple(one.rollout for one in samples))
    assert list(engine.score([group], 0).rewards[0]) == pytest.approx(rewards, abs=1e-12)
    if thinking == "auto":
        assert {key: getattr(rollouts[0], key) for key in expected} == expected


def test_what_was_said_to_the_model_is_in_the_prompt():
    rollout = in_service(ODD["a text with instructions"][0], RewardEngine(RUBRIC)).rollout
    assert [(one.role, one.content) for one in rollout.prompt] == [("system", "Be brief."), ("user", "Name one.")]
    rollout = in_service(ODD["a call before"][0], RewardEngine(RUBRIC)).rollout
    assert [one.role for one in rollout.prompt] == ["user", "assistant", "tool"]
    assert rollout.prompt[1].tool_calls[0].arguments == {"at": "map"}


def test_tools_are_those_of_chat_apis():
    chat = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}
    for name, tools in (
        ("tools", (chat,)),
        ("no tools of the row", (chat,)),
        ("tools of the row", ({"type": "function"},)),
    ):
        assert in_service(ODD[name][0], RewardEngine(RUBRIC)).rollout.tools == tools


def test_a_conversation_in_items_is_the_one_in_messages():
    """As other adapters read chat messages with tool calls."""
    rollout = in_service(body(THOUGHT, said("I look."), CALL, GIVEN, RAW, said()), RewardEngine(RUBRIC)).rollout
    call = {"id": "c1", "name": "look", "arguments": {"at": "map"}}
    first = {"role": "assistant", "content": "I look.", "reasoning_content": "Hangzhou.", "tool_calls": [call]}
    came = {"role": "tool", "tool_call_id": "c1", "content": "West Lake"}
    last = {"role": "assistant", "content": "West Lake.", "reasoning_content": "It has one."}
    same = Rollout.model_validate({"prompt": "Name a lake.", "response": [first, came, last]})
    assert rollout == same
    assert rollout.messages == same.messages


@pytest.mark.parametrize(
    "data",
    [
        7,
        {},
        body() | {"response": "West Lake."},
        body() | {"responses_create_params": {"input": None}},
        body(params={"input": []}),
        body(params={"input": 7}),
        body(params={"input": ["Name a lake."]}),
        body() | {"response": {}},
        body() | {"response": {"output": "West Lake."}},
        body("West Lake."),
        body({"type": "function_call", "call_id": "c1"}),
        body(said(), params={"input": [{"role": "oracle", "content": "?"}]}),
    ],
)
def test_both_refuse_the_same(data: Any):
    engine = RewardEngine(RUBRIC)
    with pytest.raises(InvalidInput) as first:
        in_service(data, engine)
    with pytest.raises(InvalidInput) as second:
        in_training([data], engine)
    assert str(first.value) == str(second.value)
    assert "\n" not in str(first.value)


@pytest.mark.parametrize(
    "rows", [({"answer": "a"}, {"answer": "b"}), ({"group_id": "1"}, {"group_id": "2"}), ({"uid": 1}, {"uid": 2})]
)
def test_rows_that_differ_are_two_groups(rows: tuple[Any, Any]):
    """The same prompt with two reference answers, and the same row twice, under names of its own."""
    rubric = [{"name": "WordCount", "params": {"low": 2}}]
    bodies = [body(said(text), row=row) for text in ("West Lake.", "Lake.") for row in rows]
    keys = [in_service(one, RewardEngine(rubric)).group_key for one in bodies]
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]

    async def main() -> list[float]:
        verify = RubricVerifier(RewardEngine(rubric), num_rollouts_per_prompt=2, timeout=300)
        return [one["reward"] for one in await asyncio.gather(*map(verify, bodies))]

    assert asyncio.run(main()) == [1.0, 1.0, 0.0, 0.0]


def test_objects_are_read_as_their_json():
    class Part(BaseModel):
        type: str
        text: str

    class Item(BaseModel):
        type: str
        role: str
        content: list[Part]

    item = Item(type="message", role="assistant", content=[Part(type="output_text", text="West Lake.")])
    plain = in_service(body(said()), RewardEngine(RUBRIC))
    assert in_service(body(item), RewardEngine(RUBRIC)).rollout == plain.rollout
