"""Turns that a rollout function hands on beside its tokens, which TRL decodes into one text."""

from __future__ import annotations

from rubrank.records.files import read_records
from rubrank.training.frameworks.trl import RubricReward

CALLS = {"name": "Calls", "verifier": "ToolCalled", "params": {"tool": "add", "at_least": 1}}
BRIEF = {"name": "Brief", "verifier": "WordCount", "params": {"high": 3}}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 3, "b": 9}}}
TURNS = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "add", "content": "12"},
    {"role": "assistant", "content": "It is 12."},
]


def test_calls_and_results_are_graded_and_recorded_as_such(tmp_path):
    records = tmp_path / "records.jsonl"
    reward = RubricReward([CALLS, BRIEF], num_generations=2, records=records)
    asked = [[{"role": "user", "content": "3 plus 9?"}]] * 2
    text = '<tool_call>{"name": "add"}</tool_call>\nuser\n<tool_response>12</tool_response>\nassistant\nIt is 12.'
    decoded = [[{"role": "assistant", "content": said}] for said in (text, "It is 11.")]
    assert reward(asked, decoded, completion_messages=[TURNS, None]) == [1.0, 0.0]
    (record,) = read_records(records)
    assert record.responses == ("It is 12.", "It is 11.")
    assert [turn["role"] for turn in record.turns[0]] == ["assistant", "tool"]
    assert record.turns[0][0]["tool_calls"][0]["arguments"] == {"a": 3, "b": 9}
    assert record.turns[0][1]["content"] == "12"
    assert "completion_messages" not in record.metadata


def test_without_them_the_text_is_what_is_known():
    reward = RubricReward([CALLS, BRIEF], num_generations=2)
    asked = [[{"role": "user", "content": "3 plus 9?"}]] * 2
    decoded = [[{"role": "assistant", "content": said}] for said in ("It is 12.", "It is 11, or it is 12.")]
    assert reward(asked, decoded) == [1.0, 0.0]
