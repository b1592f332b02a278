"""One group at a time, and how prompts and completions become rollouts."""

from __future__ import annotations

import asyncio

import pytest

from rubrank.errors import InvalidInput
from rubrank.records.files import read_records
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import score_group
from rubrank.training.rollouts import rollout_of

RUBRIC = ["EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]


def test_one_group():
    step = score_group(RewardEngine(RUBRIC), "Name one.", ["West Lake.", "No.", ""], step=0)
    assert step.flat() == [1.0, 0.25, 0.0]


def test_chat_and_own_rubrics():
    chat = [{"role": "user", "content": "Name one."}]
    said = [[{"role": "assistant", "content": "a river"}], {"role": "assistant", "content": "a lake"}]
    own = [{"name": "River", "verifier": "Keyword", "params": {"keywords": ["river"]}}]
    assert score_group(RewardEngine(), chat, said, rubric=own, step=0).flat() == [1.0, 0.0]


def test_groups_have_names_of_their_own(tmp_path):
    engine = RewardEngine(RUBRIC, records=tmp_path / "records.jsonl")
    for given in ({}, {}, {"id": "mine"}):
        score_group(engine, "Name one.", ["a lake", "b"], step=4, **given)
    assert [record.group for record in read_records(engine.records)] == ["4", "4.1", "mine"]


def test_from_asynchronous_code():
    engine = RewardEngine(RUBRIC)

    async def main() -> list[list[float]]:
        calls = [asyncio.to_thread(score_group, engine, "p", ["x", f"lake {n}"], step=n) for n in range(8)]
        return [step.flat() for step in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == [[0.25, 1.0]] * 8


@pytest.mark.parametrize("completions", [[], "a lake"])
def test_a_group_is_a_list(completions):
    with pytest.raises(InvalidInput, match="completions must be a list of at least one"):
        score_group(RewardEngine(RUBRIC), "p", completions, step=0)


def test_messages_with_tools_and_reasoning():
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"what": "lake"}'}}
    said = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "West Lake"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is West Lake."}], "reasoning_content": "found"},
    ]
    found = rollout_of([{"role": "user", "content": "Which?"}], said, tools=[{"name": "find"}])
    assert (found.answer, found.thoughts, found.question) == ("It is West Lake.", "found", "Which?")
    assert [(c.name, c.arguments, c.result) for c in found.tool_calls] == [("find", {"what": "lake"}, "West Lake")]
    assert found.tools == ({"name": "find"},)


def test_columns_are_metadata_whatever_they_are_called():
    found = rollout_of("p", "<think>hm</think>yes", metadata={"reasoning": "gold", "tool_calls": 3})
    assert (found.thoughts, found.answer, found.tool_calls) == ("hm", "yes", ())
    assert found.metadata == {"reasoning": "gold", "tool_calls": 3}


@pytest.mark.parametrize("nothing", ["", None, []])
def test_nothing_said(nothing):
    assert rollout_of("p", nothing).answer == ""


def test_what_is_no_completion():
    with pytest.raises(InvalidInput, match="row 3"):
        rollout_of("p", 7, where="row 3")
