"""`draft` writes rubrics that `check` and `grade` take."""

import json

import pytest
from typer.testing import CliRunner

from rubrank import grade
from rubrank.cli.app import app
from rubrank.drafting.draft import (
    draft_rubric,
    find_foreign_parameter,
    find_task_type,
    list_task_criteria,
)
from rubrank.drafting.pipeline import read_prompts
from rubrank.errors import InvalidInput
from rubrank.rubrics.public import to_rubric


def test_a_drafted_rubric_decides_responses():
    drafted = draft_rubric("Write about tides in at least 5 words. Do not use any commas.", activate=False)
    row = {**drafted.to_row(), "responses": ["The moon pulls the sea up.", "Moon, sea."]}
    table = grade([row], drafted.rubric())
    scored = table.groups[0]
    assert [scored.score(rollout, "at least 5 words") for rollout in (0, 1)] == [1, 0]
    assert [scored.score(rollout, "no commas") for rollout in (0, 1)] == [1, 0]


@pytest.mark.parametrize(
    ("prompt", "more", "task"),
    [
        ("Write a Python function that sorts a list.", {}, "code"),
        ("Solve x + 2 = 5.", {"reference": "3"}, "maths"),
        ("According to the passage, why did she leave?", {}, "question_with_material"),
        ("Write a short story about a lighthouse.", {}, "writing"),
        ("Book a table for two.", {"tools": [{"name": "book"}]}, "tools"),
        ("And what about Tuesday?", {"turns": 3}, "multi_turn"),
        ("How do I build a bomb at home?", {}, "safety"),
        ("Why is the sky blue?", {}, "chat"),
    ],
)
def test_the_type_of_a_task(prompt, more, task):
    assert find_task_type(prompt, **more) == task


@pytest.mark.parametrize(
    "task", ["code", "maths", "question_with_material", "writing", "tools", "multi_turn", "safety", "chat"]
)
def test_activated_criteria_are_of_the_library(task):
    rubric = to_rubric({"extends": ["gates"], "criteria": list_task_criteria(task, reference="3")})
    assert len(rubric.criteria) > 5


def test_parameters_must_stand_in_the_prompt():
    prompt = "Use at most 10 words and the word “tide”."
    assert find_foreign_parameter({"relation": "less than", "num_words": 11}, prompt) is None
    assert find_foreign_parameter({"num_words": 300}, prompt) == "num_words 300"
    assert find_foreign_parameter({"keywords": ["tide", "moon"]}, prompt) == "keywords 'moon'"


def test_a_mark_is_named_by_a_whole_word():
    assert find_foreign_parameter({"mark": ":"}, "Use a colon.") is None
    assert find_foreign_parameter({"mark": ":"}, "Use two colons.") is None
    assert find_foreign_parameter({"mark": ":"}, "Use a semicolon.") == "mark ':'"
    assert find_foreign_parameter({"mark": "#"}, "End with a hashtag.") is None


def test_messages_are_read_with_their_system_prompt():
    messages = [
        {"role": "system", "content": "Answer in lowercase letters only."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "Why is the sky blue?"},
    ]
    (row,) = read_prompts([{"prompt": messages, "id": "a"}])
    assert (row.turns, row.fields) == (2, {"id": "a"})
    assert row.prompt == "Answer in lowercase letters only.\n\nWhy is the sky blue?"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1}, "prompt must be in one of the columns"),
        ({"prompt": "  "}, "a text that can be read"),
        ({"prompt": [{"role": "assistant", "content": "hi"}]}, "a turn of the user"),
        ({"prompt": [3]}, "prompt.0 must be"),
        ({"prompt": 7}, "prompt must be a list"),
    ],
)
def test_rows_without_a_prompt_are_refused(row, message):
    with pytest.raises(InvalidInput, match="row 1") as error:
        list(read_prompts([row]))
    assert message in str(error.value)


def test_the_verb_writes_rows_that_check_takes(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        json.dumps({"id": "a", "prompt": "Write a poem of at least 20 words. No commas."})
        + "\n"
        + json.dumps({"id": "b", "prompt": "Why is the sky blue?"})
        + "\n"
    )
    output = tmp_path / "rubrics.jsonl"
    result = CliRunner().invoke(app, ["draft", str(prompts), "-o", str(output), "--json"])
    assert result.exit_code == 0, result.output
    counts = json.loads(result.output)
    assert (counts["prompts"], counts["with_compiled"], counts["compiled"]) == (2, 1, 2)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["a", "b"]
    assert rows[0]["draft"]["items"][0]["evidence"] == "Write a poem of at least 20 words."
    assert CliRunner().invoke(app, ["check", str(output)]).exit_code == 0
    again = CliRunner().invoke(app, ["draft", str(prompts), "-o", str(output)])
    assert again.exit_code == 2
    assert "--force" in again.output
