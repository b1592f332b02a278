"""Groups from every kind of source: the same rollouts, whatever they come in."""

from __future__ import annotations

import csv
import gzip
import json

import polars as pl
import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.grading.grade import grade
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Group, Rollout

PER_ROLLOUT = [
    {"group": "a", "prompt": "Say hi.", "response": "Hi!", "temperature": 0.5},
    {"group": "b", "prompt": "Say bye.", "response": "Bye!", "temperature": 0.5},
    {"group": "a", "prompt": "Say hi.", "response": "", "temperature": 1.0},
]
PER_GROUP = [
    {"key": 7, "prompt": "Say hi.", "responses": ["Hi!", "Hello."]},
    {"key": 8, "prompt": "Say bye.", "responses": ["Bye!"]},
]


def answers(groups):
    return {group.id: [rollout.response for rollout in group.rollouts] for group in groups}


def write(path, rows):
    if path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif ".csv" in path.suffixes or ".tsv" in path.suffixes:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if ".tsv" in path.suffixes else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
            file.write("\n\n".join(map(json.dumps, rows)) + "\n")
    return path


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.json", "r.csv", "r.csv.gz", "r.tsv", "r.parquet"])
def test_one_row_per_rollout(tmp_path, name):
    groups = read_groups(write(tmp_path / name, PER_ROLLOUT))
    assert answers(groups) == {"a": ["Hi!", ""], "b": ["Bye!"]}
    assert groups[0].rollouts[0].question == "Say hi."
    assert float(groups[0].rollouts[1].metadata["temperature"]) == 1.0
    assert "response" not in groups[0].rollouts[0].metadata


@pytest.mark.parametrize("name", ["r.jsonl", "r.parquet"])
def test_one_row_per_group(tmp_path, name):
    groups = read_groups(str(write(tmp_path / name, PER_GROUP)))
    assert answers(groups) == {"7": ["Hi!", "Hello."], "8": ["Bye!"]}


def test_tables_and_rows():
    assert answers(read_groups(PER_ROLLOUT)) == answers(read_groups(pl.DataFrame(PER_ROLLOUT)))
    assert answers(read_groups(iter(PER_GROUP))) == {"7": ["Hi!", "Hello."], "8": ["Bye!"]}


def test_hugging_face_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_list(PER_GROUP)
    assert answers(read_groups(dataset)) == {"7": ["Hi!", "Hello."], "8": ["Bye!"]}
    dataset.save_to_disk(str(tmp_path / "saved"))
    assert answers(read_groups(tmp_path / "saved")) == {"7": ["Hi!", "Hello."], "8": ["Bye!"]}
    with pytest.raises(InvalidInput, match="Choose a split"):
        read_groups(datasets.DatasetDict({"train": dataset}))


def test_rollouts_of_the_same_prompt_are_a_group():
    rollouts = [Rollout(prompt=p, response=r) for p, r in (("x", "1"), ("y", "2"), ("x", "3"))]
    assert answers(read_groups(rollouts)) == {"0": ["1", "3"], "1": ["2"]}
    named = [Rollout(prompt="x", response="1", metadata={"group": g}) for g in ("p", "q")]
    assert [group.id for group in read_groups(named)] == ["p", "q"]


def test_groups_come_through_and_need_different_ids():
    group = Group(id="a", rollouts=(Rollout(response="x"),))
    assert read_groups(group) == [group]
    assert read_groups([group]) == [group]
    with pytest.raises(InvalidInput, match="'a' twice"):
        read_groups([group, group])


def test_without_a_group_the_prompt_decides():
    rows = [{"prompt": "x", "output": "1"}, {"prompt": "y", "output": "2"}, {"prompt": "x", "output": "3"}]
    assert answers(read_groups(rows)) == {"0": ["1", "3"], "1": ["2"]}


def test_an_id_is_never_set_aside():
    rows = [{"id": i, "prompt": "x" if i < 2 else "y", "response": str(i)} for i in range(4)]
    assert answers(read_groups(rows)) == {"0": ["0"], "1": ["1"], "2": ["2"], "3": ["3"]}
    assert answers(read_groups(rows, {"group": "prompt"})) == {"x": ["0", "1"], "y": ["2", "3"]}


# -------------------------------------------------------------------------------------------------- prompts and answers

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi?"}]


def test_chat_messages_as_prompt_and_as_response():
    row = {"messages": CHAT, "completion": [{"role": "assistant", "content": "Hi."}]}
    (rollout,) = read_groups([row])[0].rollouts
    assert (rollout.prompt[0].role, rollout.question, rollout.response) == ("system", "Hi?", "Hi.")


def test_chat_messages_as_text_in_a_csv(tmp_path):
    path = write(tmp_path / "r.csv", [{"prompt": json.dumps(CHAT), "response": "[1, 2]"}])
    (rollout,) = read_groups(path)[0].rollouts
    assert rollout.question == "Hi?"
    assert rollout.response == "[1, 2]"


def test_content_in_parts_and_tool_calls():
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
        {"role": "assistant", "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "."}]},
    ]
    (rollout,) = read_groups([{"prompt": "1 + 1?", "completion": messages}])[0].rollouts
    assert rollout.response == "Two."
    assert (rollout.tool_calls[0].name, rollout.tool_calls[0].arguments) == ("add", {"a": 1})


def call(id, name="read"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def told(content, **more):
    return {"role": "tool", "content": content, **more}


def test_results_go_to_the_calls_that_they_name():
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b"), call(3)]},
        told("second", tool_call_id="b"),
        told("third", tool_call_id=3),
        told([{"type": "text", "text": "first"}], tool_call_id="a"),
        {"role": "assistant", "content": "Done.", "reasoning_content": "All three are there."},
    ]
    for completion in (messages, json.dumps(messages)):
        (rollout,) = read_groups([{"prompt": "p", "completion": completion}])[0].rollouts
        assert [(c.id, c.result) for c in rollout.tool_calls] == [("a", "first"), ("b", "second"), ("3", "third")]
        assert not any(c.error for c in rollout.tool_calls)
        assert (rollout.response, rollout.thoughts) == ("Done.", "All three are there.")


MARKS = [
    {"is_error": True},
    {"isError": True},
    {"error": "no such file"},
    {"error": True},
    {"status": "error"},
    {"status": "FAILED"},
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_tool_error_is_seen_by_the_verifier(mark, tmp_path):
    said = [{"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]}]
    rows = [
        {"key": "message", "completion": [*said, told("x", tool_call_id="b", **mark), told("y", tool_call_id="a")]},
        {"key": "call", "response": "z", "tool_calls": [{**call("a"), "result": "y"}, {**call("b"), **mark}]},
        {"key": "own", "responses": [{"text": "z", "tool_calls": [call("a"), {"name": "read", "id": "b", **mark}]}]},
    ]
    for row in rows:
        path = tmp_path / f"{row['key']}.jsonl"
        path.write_text(json.dumps(row) + "\n")
        (rollout,) = read_groups(path)[0].rollouts
        assert [(c.id, c.error) for c in rollout.tool_calls] == [("a", False), ("b", True)]
        table = grade(path, [{"name": "NoToolError", "params": {"look": "flag"}}], workers=0)
        assert table.scores.tolist() == [[0.0]]
        assert "(calls 2)" in table.groups[0].reasons[0][0]


@pytest.mark.parametrize("mark", [{}, {"is_error": False}, {"error": None}, {"status": "ok"}])
def test_no_error_without_a_mark(mark):
    said = [{"role": "assistant", "content": "", "tool_calls": [call("a")]}, told("x", tool_call_id="a", **mark)]
    (rollout,) = read_groups([{"completion": said}])[0].rollouts
    assert not rollout.tool_calls[0].error


def test_a_result_that_is_an_object_stays_one():
    said = [{"role": "assistant", "content": "", "tool_calls": [call("a")]}, told({"error": "no"}, tool_call_id="a")]
    rows = [{"completion": said}]
    assert read_groups(rows)[0].rollouts[0].tool_calls[0].result == {"error": "no"}
    assert grade(rows, ["NoToolError"], workers=0).scores.tolist() == [[0.0]]


def test_messages_of_a_prompt_keep_what_they_say():
    prompt = [
        {"role": "human", "content": "Read it."},
        {"role": "assistant", "content": None, "reasoning_content": "I will.", "tool_calls": [call("a")]},
        told({"text": "none"}, tool_call_id="a", is_error=True),
        {"role": "assistant", "content": "It is not there.", "reasoning": "So it is.", "name": "bot"},
        {"role": "user", "content": "Again."},
    ]
    (rollout,) = read_groups([{"prompt": prompt, "response": "r"}])[0].rollouts
    asked, calls, result, said, _ = rollout.prompt
    assert (asked.role, asked.reasoning, asked.error, asked.tool_call_id) == ("user", None, False, None)
    assert (calls.reasoning, calls.tool_calls[0].id) == ("I will.", "a")
    assert (result.tool_call_id, result.error, result.content) == ("a", True, '{"text": "none"}')
    assert (said.reasoning, rollout.question) == ("So it is.", "Again.")


def test_the_metadata_of_a_response_is_metadata():
    row = {
        "prompt": "p",
        "source": "row",
        "metadata": {"truth": 4, "seed": 1},
        "responses": [
            {"response": "x", "model": "m", "seed": 2, "metadata": {"seed": 3, "step": 9}},
            {"response": "y", "metadata": '{"step": 10}'},
            {"response": "z", "metadata": "a note"},
            {"response": "u", "metadata": None},
        ],
    }
    found = [dict(rollout.metadata) for rollout in read_groups([row])[0].rollouts]
    shared = {"source": "row", "truth": 4, "seed": 1}
    own = [{"model": "m", "seed": 3, "step": 9}, {"step": 10}, {"metadata": "a note"}, {}]
    assert found == [{**shared, **more} for more in own]


def test_fields_of_a_response_have_their_usual_names():
    row = {
        "responses": [
            {"content": "x", "reasoning_content": "why", "stop_reason": "length"},
            {"content": "x", "reasoning": "first", "thinking": "second"},
        ],
    }
    first, second = read_groups([row])[0].rollouts
    assert (first.thoughts, first.finish_reason, first.metadata) == ("why", "length", {})
    assert (second.thoughts, second.metadata) == ("first", {"thinking": "second"})


def test_responses_as_objects_keep_their_own_fields():
    row = {
        "key": "k",
        "prompt": "p",
        "responses": [{"model": "m", "response": "x", "reasoning": "because"}, {"model": "n", "response": None}],
    }
    first, second = read_groups([row])[0].rollouts
    assert (first.response, first.thoughts, first.metadata["model"]) == ("x", "because", "m")
    assert second.response == ""


def test_all_fields_of_a_rollout():
    row = {
        "prompt": "p",
        "response": "r",
        "reasoning": "t",
        "finish_reason": "length",
        "tools": '[{"name": "f"}]',
        "tool_calls": [{"name": "f", "arguments": {}}],
        "token_counts": {"answer": 3},
        "metadata": {"truth": "4"},
    }
    (rollout,) = read_groups([row])[0].rollouts
    assert (rollout.thoughts, rollout.finish_reason, rollout.token_counts) == ("t", "length", {"answer": 3})
    assert (rollout.tools[0]["name"], rollout.tool_calls[0].name, rollout.metadata["truth"]) == ("f", "f", "4")


def test_rubrics_of_a_row():
    assert read_groups([{"response": "x", "rubric": ["A"]}])[0].rubric == ["A"]
    row = {"response": "x", "instruction_id_list": ["a:b"], "kwargs": [{}]}
    assert read_groups([row])[0].rubric == {"instruction_id_list": ["a:b"], "kwargs": [{}]}
    assert read_groups([{"response": "x"}])[0].rubric is None


def test_explicit_columns():
    rows = [{"said": "x", "asked": "y", "response": "not this"}]
    (rollout,) = read_groups(rows, {"response": "said", "prompt": "asked"})[0].rollouts
    assert (rollout.response, rollout.question) == ("x", "y")
    assert rollout.metadata["response"] == "not this"
    with pytest.raises(UnknownName, match="'said'"):
        read_groups(rows, {"response": "sad"})
    with pytest.raises(UnknownName, match="columns"):
        read_groups(rows, {"answer": "said"})


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("r.jsonl", '{"response": "x"}\n{', "line 2"),
        ("r.jsonl", "[1]\n", "one JSON object"),
        ("r.jsonl", "", "at least one"),
        ("r.json", "{", "JSON"),
        ("r.csv", "prompt,response\na,b,c\n", "row 1 must be of 2 cells"),
        ("r.parquet", "no parquet", "Parquet"),
        ("r.xml", "", "that ends in .jsonl"),
        ("r.jsonl", '{"prompt": "x"}', "with the response among them"),
        ("r.jsonl", '{"response": "x"}\n{"response": null}', "row 2: response"),
        ("r.jsonl", '{"response": "x", "prompt": [{"role": "nobody", "content": ""}]}', "row 1"),
        ("r.jsonl", '{"responses": [{"model": "m"}]}', "an object with `response`"),
        ("r.jsonl", '{"response": 5}', "row 1"),
    ],
)
def test_one_message_for_each_mistake(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=says):
        read_groups(path)


def test_sources_that_are_none(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_groups(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidInput, match="a path, a table, or rows"):
        read_groups(3)


# ----------------------------------------------------------------------------------------------- responses that mislead


def test_a_null_among_responses_is_refused():
    with pytest.raises(InvalidInput, match="response must be given; got null at place 1"):
        read_groups([{"prompt": "p", "responses": ["a", None]}])


def test_messages_without_the_assistant_are_no_response():
    asked = [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]
    with pytest.raises(InvalidInput, match="messages with one of the assistant; got only user, tool"):
        read_groups([{"prompt": "p", "response": asked}])


def test_a_json_list_in_a_cell_for_several_responses_is_a_list(tmp_path):
    (tmp_path / "r.csv").write_text('prompt,responses\np,"[""a"", ""b""]"\n', encoding="utf-8")
    (group,) = read_groups(tmp_path / "r.csv")
    assert [rollout.response for rollout in group.rollouts] == ["a", "b"]
    (tmp_path / "s.csv").write_text('prompt,response\np,"[""a"", ""b""]"\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"one response in each cell; got a list in every cell.*column.response"):
        read_groups(tmp_path / "s.csv")
    (group,) = read_groups(tmp_path / "s.csv", {"response": "response"})
    assert [rollout.response for rollout in group.rollouts] == ['["a", "b"]']
    (tmp_path / "t.csv").write_text('prompt,response\np,"[""a"", ""b""]"\np,c\n', encoding="utf-8")
    (group,) = read_groups(tmp_path / "t.csv")  # not in every cell: an answer that is a list
    assert [rollout.response for rollout in group.rollouts] == ['["a", "b"]', "c"]


def test_the_text_of_a_python_list_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("prompt,responses\np,\"['a', 'b']\"\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="the text of a Python list"):
        read_groups(tmp_path / "r.csv")


@pytest.mark.parametrize("column", ["response", "prompt", "messages"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_messages_as_python_prints_them_are_refused(tmp_path, column, suffix):
    turns = [{"role": "user", "content": "Who's there?"}, {"role": "assistant", "content": "It's me."}]
    frame = pl.DataFrame({"prompt": ["p"], "response": ["r"], column: [str(turns)]})
    if column == "messages":
        frame = frame.select("messages")
    path = tmp_path / f"rollouts{suffix}"
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    with pytest.raises(InvalidInput, match=f"{column} must be a text, or messages as JSON"):
        read_groups(path)
    frame.with_columns(pl.lit(json.dumps(turns)).alias(column)).write_parquet(tmp_path / "right.parquet")
    assert len(read_groups(tmp_path / "right.parquet")[0].rollouts) == 1
