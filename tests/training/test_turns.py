"""Tokens and their mask → messages with calls and results."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank.training.rollouts import find_last_turn, parse_assistant_turn, parse_tool_call, rollout_of, split_turns


def decode(ids):
    return "".join(map(chr, ids))


def row(*parts: tuple[str, int]) -> tuple[list[int], list[int]]:
    """Tokens and mask of texts that were sampled (1) or not (0)."""
    ids = [ord(c) for text, _ in parts for c in text]
    return ids, [flag for text, flag in parts for _ in text]


CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "map"}}\n</tool_call>'
RESULT = "\nuser\n<tool_response>\na lake\n</tool_response>\nassistant\n"


def test_calls_and_results():
    found = split_turns(*row((f"Let me look.\n{CALL}", 1), (RESULT, 0), ("It is a lake.", 1)), decode)
    assert found == [
        {"role": "assistant", "content": "Let me look.", "tool_calls": [{"name": "look", "arguments": {"at": "map"}}]},
        {"role": "tool", "content": "a lake"},
        {"role": "assistant", "content": "It is a lake."},
    ]
    rollout = rollout_of("Where?", found)
    assert rollout.answer == "It is a lake."
    assert [(c.name, c.arguments, c.result) for c in rollout.tool_calls] == [("look", {"at": "map"}, "a lake")]


def test_two_calls_at_once_have_their_own_results():
    both = "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
    found = rollout_of("?", split_turns(*row((CALL + CALL, 1), (both, 0), ("Done.", 1)), decode))
    assert [call.result for call in found.tool_calls] == ["one", "two"]


def test_the_other_form_of_calls():
    text = "<tool_call>\n<function=look>\n<parameter=at>\nmap\n</parameter>\n</function>\n</tool_call>"
    assert parse_assistant_turn(text)["tool_calls"] == [{"name": "look", "arguments": {"at": "map"}}]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"arguments": {}}', '{"name": 3}', "<function=>", "", "null", "[" * 2000 + "]" * 2000]
)
def test_what_is_no_call_stays_text(text):
    assert parse_tool_call(text) is None
    whole = f"<tool_call>{text}</tool_call> and more"
    assert parse_assistant_turn(whole) == {"role": "assistant", "content": whole}


def test_a_call_that_was_cut_off_is_text():
    assert parse_assistant_turn('so <tool_call>{"name": "look"') == {
        "role": "assistant",
        "content": 'so <tool_call>{"name": "look"',
    }


def test_without_a_mask_it_is_one_message():
    assert split_turns([97, 98], None, decode) == [{"role": "assistant", "content": "ab"}]
    assert split_turns([97, 98], [1, 1], decode) == [{"role": "assistant", "content": "ab"}]
    assert split_turns([], [], decode) == [{"role": "assistant", "content": ""}]


def test_an_environment_that_speaks_is_the_user():
    found = split_turns(*row(("Guess: 3.", 1), ("\nuser\nHigher.\nassistant\n", 0), ("Guess: 5.", 1)), decode)
    assert found[1] == {"role": "user", "content": "Higher."}


def test_a_rollout_that_ends_with_a_tool_has_no_answer():
    found = split_turns(*row((CALL, 1), (RESULT, 0)), decode)
    assert found[-1] == {"role": "assistant", "content": ""}
    assert rollout_of("?", found).answer == ""


def test_the_last_turn():
    ids, mask = row(("one", 1), ("two", 0), ("three", 1))
    assert decode(find_last_turn(ids, mask)) == "three"
    assert decode(find_last_turn(ids, None)) == "onetwothree"
    assert list(find_last_turn(*row(("one", 1), ("two", 0)))) == []


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, 1)), max_size=6))
def test_nothing_that_was_sampled_is_lost(parts):
    """Where no call is read, the assistant's texts are the sampled ones."""
    ids, mask = row(*parts)
    said = [m["content"] for m in split_turns(ids, mask, decode) if m["role"] == "assistant"]
    assert "".join(said) == "".join(text for text, flag in parts if flag) or "<tool_call>" in json.dumps(parts)
