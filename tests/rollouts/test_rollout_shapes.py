"""Every public shape gives the same groups as our own."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.groups import read_groups, read_rollouts
from rubrank.tables.inspect_logs import GRADES

ROWS = [
    {"prompt_id": q, "prompt": f"Ask {q}", "response": f"{q}{i}", "truth": "42"} for q in ("q1", "q2") for i in range(2)
]


def shown(groups):
    return [(g.id, [(r.question, r.response) for r in g.rollouts]) for g in groups]


USUAL = shown(read_groups(ROWS))


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def written(tmp_path, name):
    """The rows in a file of that name."""
    path, frame, name = tmp_path / name, pl.DataFrame(ROWS), name.lower()
    if ".csv" in name or ".tsv" in name:
        data = frame.write_csv(separator="\t" if ".tsv" in name else ",").encode()
    else:
        data = json.dumps(ROWS).encode() if ".json" in name and ".jsonl" not in name else lines(ROWS)
    if name.endswith(".gz"):
        data = gzip.compress(data)
    if name.endswith(".zst"):
        data = pytest.importorskip("zstandard").compress(data)
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith((".arrow", ".feather")):
        frame.write_ipc(path)
    else:
        path.write_bytes(data)
    return path


NAMES = [
    "r.jsonl",
    "r.ndjson",
    "r.json",
    "r.csv",
    "r.tsv",
    "r.jsonl.gz",
    "r.csv.gz",
    "r.tsv.gz",
    "r.jsonl.zst",
    "r.csv.zst",
    "r.parquet",
    "r.arrow",
    "r.feather",
    "R.JSONL",
    "r.CSV.gz",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_format(tmp_path, name):
    assert shown(read_groups(written(tmp_path, name))) == USUAL


def test_every_table():
    frame = pl.DataFrame(ROWS)
    tables = [frame, frame.lazy(), pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), frame.to_dict(as_series=False)]
    for table in tables:
        assert shown(read_groups(table)) == USUAL


def test_what_pandas_has_not_is_nothing():
    (group,) = read_groups(
        pd.DataFrame([{"prompt": "p", "response": "a", "truth": "x"}, {"prompt": "p", "response": "b"}])
    )
    assert "truth" not in group.rollouts[1].metadata


@pytest.mark.parametrize(
    "name", ["r.jsonl", "r.json", "r.csv", "r.tsv", "r.parquet", "r.arrow", "r.jsonl.gz", "r.csv.gz"]
)
def test_standard_input(tmp_path, monkeypatch, name):
    data = written(tmp_path, name).read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert shown(read_groups("-")) == USUAL


def test_nothing_on_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(InvalidInput, match="standard input"):
        read_groups("-")


def test_a_folder_or_pattern_of_what_trl_logs(tmp_path):
    logs = tmp_path / "run" / "completions"
    logs.mkdir(parents=True)
    for step in (10, 20):
        table = {"step": [step] * 4, "prompt": ["a", "a", "b", "b"], "completion": ["1", "2", "3", "4"]}
        pd.DataFrame({**table, "facts": [0.0, 1, 0, 1], "advantage": [0.0] * 4}).to_parquet(
            logs / f"completions_{step:05}.parquet"
        )
    for source in (logs, tmp_path / "run", str(logs / "*.parquet"), str(tmp_path / "**" / "completions_*.parquet")):
        groups = read_groups(source)
        assert [len(group.rollouts) for group in groups] == [2, 2, 2, 2]
    said = str(read_rollouts(logs))
    assert "8 rollouts in 4 groups (2 Parquet files, by step and prompt)" in said


def test_a_folder_of_two_kinds_is_refused_and_names_both(tmp_path):
    written(tmp_path, "r.jsonl"), written(tmp_path, "r.csv")
    with pytest.raises(InvalidInput, match=r"of one format; got CSV \(r.csv\) and JSON Lines \(r.jsonl\)"):
        read_groups(tmp_path)
    with pytest.raises(InvalidInput, match="none"):
        read_groups(str(tmp_path / "*.parquet"))


def test_sharegpt():
    turns = [("system", "Be brief."), ("human", "Hi?"), ("gpt", "Hello."), ("human", "And?"), ("gpt", "Bye.")]
    row = {"id": "c1", "conversations": [{"from": who, "value": said} for who, said in turns]}
    found = read_rollouts([row])
    ((rollout,),) = (group.rollouts for group in found.groups)
    assert (rollout.question, rollout.response, rollout.turns) == ("And?", "Bye.", ("Hello.",))
    assert "ShareGPT" in found.shape
    with pytest.raises(InvalidInput, match="from must be one of"):
        read_groups([{"conversations": [{"from": "ghost", "value": "x"}]}])


def test_conversations_that_end_with_an_answer():
    row = {"messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hello."}]}
    ((rollout,),) = (group.rollouts for group in read_groups([row]))
    assert (rollout.question, rollout.response) == ("Hi?", "Hello.")


def test_preferences_are_groups_of_two():
    text = {"prompt": "p", "chosen": "good", "rejected": "bad", "score_chosen": 8.0, "score_rejected": 2.0}
    chat = {
        name: [{"role": "user", "content": "p"}, {"role": "assistant", "content": said}]
        for name, said in (("chosen", "good"), ("rejected", "bad"))
    }
    for row in (text, chat, {"prompt": "p", **chat}):
        (group,) = read_groups([row])
        assert not any(r.messages for r in group.rollouts)
        assert [(r.question, r.response, r.metadata["preference"]) for r in group.rollouts] == [
            ("p", "good", "chosen"),
            ("p", "bad", "rejected"),
        ]
    assert read_groups([text])[0].rollouts[0].metadata["preference_score"] == 8.0


def test_pandas_has_the_messages_of_a_parquet_file_as_arrays():
    messages = np.array([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}])
    ((rollout,),) = (g.rollouts for g in read_groups(pd.DataFrame({"prompt": [messages], "response": ["a"]})))
    assert (rollout.prompt[0].content, rollout.question, rollout.answer) == ("s", "q", "a")


def test_verl_rows_bring_their_truth():
    row = {
        "data_source": "gsm8k",
        "prompt": [{"role": "user", "content": "6 × 7?"}],
        "response": "42",
        "uid": "u1",
        "reward_model": {"style": "rule", "ground_truth": "42"},
        "extra_info": {"index": 3},
    }
    found = read_rollouts([row])
    ((rollout,),) = (group.rollouts for group in found.groups)
    assert rollout.metadata["ground_truth"] == "42"
    assert "verl" in found.shape
    logged = {"input": "6 × 7?", "output": "42", "gts": "42", "score": 1.0, "step": 3}
    ((rollout,),) = (group.rollouts for group in read_groups([logged]))
    assert (rollout.question, rollout.response, rollout.metadata["ground_truth"]) == ("6 × 7?", "42", "42")


def test_alpaca():
    ((rollout,),) = (g.rollouts for g in read_groups([{"instruction": "Sum up.", "input": "A tale.", "output": "x"}]))
    assert (rollout.question, rollout.response) == ("Sum up.\n\nA tale.", "x")


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "p", "response": "a", "completion": "b"},
        {"prompt": "p", "output": "a", "chosen": "b", "rejected": "c"},
        {"response": "a", "conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]},
    ],
)
def test_responses_in_two_places_are_refused_and_both_are_named(row):
    with pytest.raises(InvalidInput, match=r"two readings: .* and .*`column.response="):
        read_groups([row])
    name = next(iter(row.keys() - {"prompt", "conversations", "rejected"} - {"chosen"}))
    assert read_groups([row], {"response": name})[0].rollouts[0].response == row[name]


@pytest.mark.parametrize("name", ["r.jsonl", "r.json", "r.csv", "r.tsv", "r.csv.gz"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_one_line(tmp_path, name, encoding):
    text = "prompt,response\nÄ,é\n" if "sv" in name else '{"prompt": "Ä", "response": "é"}\n'
    data = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(InvalidInput, match="Save it as UTF-8") as error:
        read_groups(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"\xef\xbb\xbfresponse,prompt\nx,y\n")
    assert read_groups(tmp_path / "r.csv")[0].rollouts[0].response == "x"


@pytest.mark.parametrize("name", ["r.jsonl.gz", "r.csv.zst", "r.parquet", "r.arrow", "r.eval"])
def test_damaged_files_are_one_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x1f\x8b nothing of the kind")
    with pytest.raises(InvalidInput):
        read_groups(tmp_path / name)


@pytest.mark.parametrize("header", ["a,a", "a,", ""])
def test_a_header_names_every_column_once(tmp_path, header):
    (tmp_path / "r.csv").write_text(f"response,{header}\nx,1,2\n")
    with pytest.raises(InvalidInput, match=r"the header|cells"):
        read_groups(tmp_path / "r.csv")


# --------------------------------------------------------------------------------------------------------- Inspect logs


def sample(id, epoch, value="C", **more):
    said = {"role": "assistant", "content": f"{id}{epoch}"}
    return {
        "id": id,
        "epoch": epoch,
        "input": f"Ask {id}",
        "target": "42",
        "metadata": {"topic": "t"},
        "messages": [{"role": "user", "content": f"Ask {id}", "source": "input"}, said],
        "output": {"model": "m", "choices": [{"message": said, "stop_reason": "stop"}], "completion": said["content"]},
        "scores": {"match": {"value": value, "explanation": "why"}},
        **more,
    }


def log(tmp_path, samples, name="log.eval"):
    path = tmp_path / name
    if name.endswith(".json"):
        path.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": samples}))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}}))
        for s in samples:
            archive.writestr(f"samples/{s['id']}_epoch_{s['epoch']}.json", json.dumps(s))
    return path


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_the_samples_of_inspect_are_groups(tmp_path, name):
    samples = [sample(id, epoch) for epoch in range(1, 12) for id in ("q1", 2)]
    failed = {**sample("q3", 1), "output": {"choices": []}, "error": {"message": "no"}}
    groups = {group.id: group for group in read_groups(log(tmp_path, [*samples, failed], name))}
    assert groups.keys() == {"q1", "2"}
    assert [r.response for r in groups["q1"].rollouts] == [f"q1{epoch}" for epoch in range(1, 12)]
    first = groups["q1"].rollouts[0]
    assert (first.question, first.finish_reason, first.metadata["target"]) == ("Ask q1", "stop", "42")
    assert first.metadata["scores"] == {"match": 1.0}


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
@pytest.mark.parametrize("output", ["42", {"choices": ["42"]}, {"choices": {"a": "42"}}])
def test_a_sample_of_another_layout_is_refused(tmp_path, name, output):
    with pytest.raises(InvalidInput, match=r"must be a log of Inspect"):
        read_groups(log(tmp_path, [{**sample("q", 1), "output": output}], name))


def test_the_same_sample_of_two_logs_is_two_groups(tmp_path):
    log(tmp_path, [sample("q", 1)], "a.eval"), log(tmp_path, [sample("q", 1)], "b.eval")
    assert [group.id for group in read_groups(tmp_path)] == ["a/q", "b/q"]


def test_tool_calls_of_inspect():
    from rubrank.tables.inspect_logs import read_json_log

    call = {"id": "c1", "function": "add", "arguments": {"a": 1}}
    turns = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Two."},
    ]
    (group,) = read_groups(read_json_log({"eval": {}, "samples": [{**sample("q", 1), "messages": turns}]}, "log"))
    (rollout,) = group.rollouts
    assert rollout.response == "Two."
    assert [(c.name, c.arguments, c.result) for c in rollout.tool_calls] == [("add", {"a": 1}, "2")]


@pytest.mark.slow
def test_a_log_that_inspect_wrote(tmp_path):
    """Also in the compression that it uses today."""
    inspect_ai = pytest.importorskip("inspect_ai")
    pytest.importorskip("zstandard")
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score

    assert inspect_ai.__version__
    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="t", dataset=EvalDataset(), model="m", config=EvalConfig()
    )
    samples = [
        EvalSample(
            id=id,
            epoch=epoch,
            input="Ask",
            target="42",
            output=ModelOutput.from_content("m", f"{id}{epoch}"),
            scores={"match": Score(value=value)},
        )
        for id in ("q1", "q2")
        for epoch, value in ((1, "C"), (2, "I"))
    ]
    for name in ("log.eval", "log.json"):
        write_eval_log(EvalLog(eval=spec, samples=samples, status="success"), str(tmp_path / name))
        groups = read_groups(tmp_path / name)
        assert [(g.id, [r.response for r in g.rollouts]) for g in groups] == [
            ("q1", ["q11", "q12"]),
            ("q2", ["q21", "q22"]),
        ]
        assert [r.metadata["scores"]["match"] for r in groups[0].rollouts] == [GRADES["C"], GRADES["I"]]


# ------------------------------------------------------------------------------------------ outputs of other programs


def responses_of(rows, columns=None):
    read = read_rollouts(rows, columns)
    return {group.id: [rollout.answer for rollout in group.rollouts] for group in read.groups}, read.shape


def test_lettered_responses_are_a_group():
    row = {"prompt": "p", "response_a": "A", "response_b": "B", "response_d": "D", "winner": "a"}
    assert responses_of([row]) == ({"0": ["A", "B", "D"]}, "rows, lettered responses")
    assert responses_of([{"prompt": "p", "completion_1": "A", "completion_2": "B"}])[0] == {"0": ["A", "B"]}
    assert responses_of([{"prompt": "p", "response": "x", "response_a": "A"}])[0] == {"0": ["x"]}
    with pytest.raises(InvalidInput, match="two readings: `response` and response_a, response_b"):
        read_rollouts([{"response": "x", **row}])
    assert responses_of([{"response": "x", **row}], {"response": "response_b"})[0] == {"0": ["B"]}


def test_the_output_of_openais_batches():
    def line(message, **more):
        body = {"choices": [{"message": message, "finish_reason": "stop"}, {"message": message}]}
        return {"id": "b1", "custom_id": "q", "response": {"status_code": 200, "body": body}, "error": None, **more}

    message = {"role": "assistant", "content": "hi", "reasoning_content": "hm"}
    read = read_rollouts([line(message)])
    (group,) = read.groups
    assert (group.id, read.shape) == ("q", "rows, OpenAI batch")
    assert [(r.answer, r.thoughts, r.finish_reason) for r in group.rollouts] == [
        ("hi", "hm", "stop"),
        ("hi", "hm", None),
    ]
    with pytest.raises(InvalidInput, match="row 1: the request must be answered; got"):
        read_rollouts([line(message, error={"message": "no"})])


def test_a_batch_of_completions_without_messages():
    body = {"choices": [{"text": "hi", "finish_reason": "stop"}]}
    (group,) = read_rollouts([{"custom_id": "q", "response": {"status_code": 200, "body": body}}]).groups
    assert [(r.answer, r.finish_reason) for r in group.rollouts] == [("hi", "stop")]


@pytest.mark.parametrize("arguments", [[["Q: 2+2", {"until": []}]], {"gen_args_0": {"arg_0": "Q: 2+2", "arg_1": {}}}])
def test_samples_of_lm_eval(arguments):
    row = {"doc_id": 3, "doc": {"q": "2+2"}, "target": "4", "arguments": arguments, "resps": [["four", "4"]]}
    read = read_rollouts([row])
    (group,) = read.groups
    assert (group.id, read.shape) == ("3", "rows, lm-eval samples")
    assert [(r.question, r.answer, r.metadata["ground_truth"]) for r in group.rollouts] == [
        ("Q: 2+2", "four", "4"),
        ("Q: 2+2", "4", "4"),
    ]
    with pytest.raises(InvalidInput, match="resps must be generated texts"):
        read_rollouts([{**row, "resps": [[[-3.2, False]]]}])


def promptfoo_result(question, output, model, **more):
    return {
        "id": f"{question} {model}",
        "testIdx": 0,
        "vars": {"question": question, "answer": "Paris"},
        "prompt": {"raw": f"Answer: {question}", "label": "Answer: {{question}}"},
        "provider": {"id": model},
        "response": {"output": output},
        "success": False,
        "score": 0,
        "error": "Expected output to contain Paris",
        **more,
    }


@pytest.mark.parametrize("name", ["results.json", "results.jsonl"])
def test_results_of_promptfoo(name, tmp_path):
    results = [
        promptfoo_result("Capital of France?", "Lyon", "small"),
        promptfoo_result("Capital of France?", {"city": "Paris"}, "large"),
        promptfoo_result("And now?", "Paris", "small", prompt={"raw": "Answer: {{ question }}"}),
    ]
    text = "".join(json.dumps(result) + "\n" for result in results)
    if name == "results.json":
        text = json.dumps({"evalId": "e", "results": {"version": 3, "results": results, "stats": {}}, "config": {}})
    (tmp_path / name).write_text(text)
    read = read_rollouts(tmp_path / name)
    assert read.shape.endswith("promptfoo")
    assert [[rollout.answer for rollout in group.rollouts] for group in read.groups] == [
        ["Lyon", '{"city": "Paris"}'],
        ["Paris"],
    ]
    assert [group.rollouts[0].question for group in read.groups] == ["Answer: Capital of France?", "Answer: And now?"]
    first = read.groups[0].rollouts[0].metadata
    assert (first["answer"], first["model"]) == ("Paris", "small")


def test_a_chat_prompt_and_a_failed_request_of_promptfoo():
    chat = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])
    (group,) = read_rollouts([promptfoo_result("Hello", "Hi.", "m", prompt={"raw": chat})]).groups
    assert [(message.role, message.content) for message in group.rollouts[0].prompt] == [
        ("system", "Be brief."),
        ("user", "Hello"),
    ]
    with pytest.raises(InvalidInput, match="row 1: the request must be answered; got API error: 500"):
        read_rollouts([promptfoo_result("Hello", None, "m", error="API error: 500")])


def test_a_column_within_a_column():
    rows = [{"q": {"text": "p"}, "out": {"text": "a", "more": {"id": 7}}}]
    columns = {"response": "out.text", "prompt": "q.text", "group": "out.more.id"}
    assert responses_of(rows, columns)[0] == {"7": ["a"]}
    with pytest.raises(UnknownName, match=r"column of 'response' must be one of .* got 'out.txt'"):
        read_rollouts(rows, {"response": "out.txt"})


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ({"input": {"text": "Why?"}, "output": "So."}, "column.prompt=NAME.text"),
        ({"id": 1, "result": {"message": {"content": "So."}}}, "a dot leads into an object"),
    ],
)
def test_texts_inside_objects_are_named_with_a_dot(row, remedy):
    with pytest.raises(InvalidInput, match=remedy):
        read_rollouts([row])


def test_a_prompt_that_is_json_text_stays_a_text():
    (group,) = read_rollouts([{"prompt": '{"a": 1}', "response": "So."}]).groups
    assert group.rollouts[0].prompt[-1].content == '{"a": 1}'
