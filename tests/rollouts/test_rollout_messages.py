"""A response given as messages keeps its turns, to be looked at; nothing odd in them is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rubrank.errors import InvalidInput
from rubrank.records.record import describe_texts
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rollouts.shapes import convert_message
from rubrank.training.rollouts import rollout_of

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "tides"}'}}
SAID = [
    {"role": "assistant", "content": "I look it up.", "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "tool_call_id": "c1", "content": "3 hits"},
    {"role": "assistant", "content": "The moon."},
]


def test_turns_before_the_answer_are_kept_and_recorded() -> None:
    rollout = Rollout.model_validate({"prompt": "Why?", "response": SAID})
    assert (rollout.response, [m.role for m in rollout.messages]) == ("The moon.", ["assistant", "tool"])
    assert rollout.messages[0].tool_calls[0].name == "search"
    assert rollout.tool_calls[0].result == "3 hits"
    (turns,) = describe_texts(Group(id="q", rollouts=(rollout,)))["turns"]
    assert [turn["content"] for turn in turns] == ["I look it up.", "3 hits"]
    assert turns[0]["reasoning"] == "hm"


def test_a_response_that_ends_in_a_call_has_no_answer() -> None:
    """What was said before the call is on the way to an answer, and must not be rewarded as one."""
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    rollout = Rollout.model_validate({"prompt": "Why?", "response": [*SAID[:2], calling]})
    assert rollout.answer == ""
    assert [message.content for message in rollout.messages] == ["I look it up.", "3 hits"]
    assert [call.name for call in rollout.tool_calls] == ["search", "search"]


def test_calls_without_messages_are_one_turn_and_plain_rollouts_have_none() -> None:
    called = Rollout(response="x", tool_calls=({"name": "run", "arguments": {"a": 1}, "result": 2},))  # type: ignore[arg-type]
    found = describe_texts(Group(id="q", rollouts=(called, Rollout(response="y"))))["turns"]
    assert found[0][0]["tool_calls"][0] == {"name": "run", "arguments": {"a": 1}, "result": 2}
    assert found[1] == ()
    assert "turns" not in describe_texts(Group(id="q", rollouts=(Rollout(response="y"),)))


def test_the_same_verdicts_are_cached_with_and_without_messages() -> None:
    plain = Rollout(response="The moon.")
    assert "messages" not in plain.model_dump()


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "function", "content": {"a": [1]}},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": ["a", 1], "tool_call_id": 7, "is_error": True},
        {"content": "no role"},
        {"role": "assistant", "reasoning": 3},
    ],
)
def test_odd_messages_are_shown_somehow(odd: dict[str, Any]) -> None:
    rollout = Rollout.model_validate({"response": [odd, {"role": "assistant", "content": "end"}]})
    assert len(rollout.messages) == 1
    assert rollout.response == "end"


@pytest.mark.parametrize("content", [42, 3.5, True, float("nan"), [5], ["a", 5], [{"type": "text", "text": 5}]])
def test_content_that_is_no_text_is_refused(content: Any) -> None:
    """Graded as "42" or "nan", it would get a plausible reward."""
    asked = {"role": "user", "content": "Why?"}
    answered = {"role": "assistant", "content": content}
    for row in (
        {"messages": [asked, answered]},
        {"prompt": "Why?", "response": [answered]},
        {"prompt": [{"role": "user", "content": content}], "response": "x"},
    ):
        with pytest.raises(InvalidInput, match="must be a text"):
            read_groups([row])
    with pytest.raises(InvalidInput, match="must be a text"):
        rollout_of("Why?", [answered])


def test_content_in_parts_and_results_of_tools_are_text() -> None:
    part = {"type": "text", "text": "The moon."}
    for content in ("The moon.", [part], ["The ", "moon."], [{"type": "image"}, part], part):
        assert rollout_of("Why?", [{"role": "assistant", "content": content}]).response == "The moon."
    rollout = rollout_of("Why?", [SAID[0], {"role": "tool", "tool_call_id": "c1", "content": 3}, SAID[2]])
    assert rollout.tool_calls[0].result == "3"


def test_a_call_whose_function_is_only_a_name_is_refused_without_a_crash() -> None:
    call = {"id": "c1", "function": "search", "arguments": {"q": "tides"}}
    with pytest.raises(ValidationError, match="name"):
        Rollout.model_validate({"response": [{"role": "assistant", "content": "x", "tool_calls": [call]}]})


@pytest.mark.parametrize("mark", [{"is_error": True}, {"isError": True}, {"status": "error"}, {"status": "failed"}])
def test_a_failed_call_is_recognised_by_the_same_marks_in_rows_and_in_rollouts(mark: dict[str, Any]) -> None:
    messages = [SAID[0], {**SAID[1], **mark}, SAID[2]]
    (group,) = read_groups([{"prompt": "Why?", "response": messages}])
    assert group.rollouts[0].tool_calls[0].error
    assert Rollout.model_validate({"prompt": "Why?", "response": messages}).tool_calls[0].error


def test_ids_that_are_no_texts_are_refused_or_ignored_without_a_crash() -> None:
    call = {**CALL, "id": ["c1"]}
    with pytest.raises(ValidationError, match="id"):
        Rollout.model_validate({"response": [{"role": "assistant", "content": "x", "tool_calls": [call]}]})
    messages = [SAID[0], {**SAID[1], "tool_call_id": ["c1"]}, SAID[2]]
    assert Rollout.model_validate({"response": messages}).tool_calls[0].result == "3 hits"


def test_a_result_beside_the_function_of_a_call_is_kept_in_rows_and_in_rollouts() -> None:
    call = {**CALL, "result": "5 hits", "is_error": True}
    row = {"prompt": "Why?", "response": [{"role": "assistant", "content": "x", "tool_calls": [call]}]}
    (group,) = read_groups([row])
    for rollout in (group.rollouts[0], Rollout.model_validate(row)):
        assert (rollout.tool_calls[0].result, rollout.tool_calls[0].error) == ("5 hits", True)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"title": "a"}, {"title": "b"}], '[{"title": "a"}, {"title": "b"}]'),  # results, not parts of a content
        ([1, {"a": 2}], '[1, {"a": 2}]'),
        ([{"type": "text", "text": "x"}, {"type": "image_url"}, "y"], "xy"),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_what_a_tool_returned_is_not_lost(content, text):
    assert convert_message({"role": "tool", "content": content})["content"] == text


@pytest.mark.parametrize(
    "calls",
    [
        [{"name": "f", "arguments": "{}"}],
        '[{"name": "f", "arguments": {}}]',
        np.array([{"name": "f", "arguments": {}}], dtype=object),  # pandas
    ],
)
def test_calls_in_every_form_of_a_table(calls):
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    assert convert_message(message)["tool_calls"] == [{"name": "f", "arguments": {}}]


def test_calls_that_are_no_list_stay_for_the_error():
    message = {"role": "assistant", "content": "", "tool_calls": 5}
    assert convert_message(message)["tool_calls"] == 5
