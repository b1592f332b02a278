"""Rows of files → prompts with rubrics."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rubrank.errors import InvalidInput
from rubrank.training.job.config import Config, Job, Source, Stage
from rubrank.training.job.data import make_dataset, read_source

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a lake."}]


@pytest.fixture
def job(tmp_path) -> Job:
    config = Config(model={"path": "x"}, stages=(Stage(steps=1, sources=(Source(path="x"),)),), output="out")
    return Job(config, tmp_path / "job.yaml")


def write(job: Job, *rows: Any) -> None:
    (job.file.parent / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(job: Job, *rows: Any, **given: Any) -> list[dict[str, Any]]:
    write(job, *rows)
    return [dict(row) for row in read_source(job, Source(path="rows.jsonl", **given)).rows]


def test_prompt_and_rubric_by_their_usual_names(job):
    assert read(job, {"question": "Why?", "criteria": ["Is polite"], "answer": 3}) == [
        {"prompt": "Why?", "rubric": ["Is polite"], "answer": 3}
    ]


def test_columns_by_other_names(job):
    row = {"q": "Why?", "prompt": "not this", "asked": ["Is polite"], "rubric": "nor this"}
    found = read(job, row, columns={"prompt": "q", "rubric": "asked"})
    assert found == [{"prompt": "Why?", "rubric": ["Is polite"]}]


def test_instructions_are_a_rubric(job):
    ids = ["punctuation:no_comma"]
    assert read(job, {"prompt": "Why?", "key": 7, "instruction_id_list": ids, "kwargs": [{}]}) == [
        {"prompt": "Why?", "key": 7, "rubric": {"instruction_id_list": ids, "kwargs": [{}]}}
    ]


def test_messages_given_as_they_are_or_as_json(job):
    found = read(job, {"messages": CHAT}, {"messages": json.dumps(CHAT)})
    assert [row["prompt"] for row in found] == [CHAT, CHAT]


def test_columns_that_trl_takes_for_something_else_stay_behind(job):
    assert read(job, {"prompt": "a", "images": [1], "completion": "b", "log_metric": 1}) == [
        {"prompt": "a", "rubric": None}
    ]


@pytest.mark.parametrize(
    ("row", "given", "said"),
    [
        ({"text": "a"}, {}, "row 1: one of the columns must be the prompt (prompt, prompts, messages"),
        ({"prompt": "a"}, {"columns": {"rubric": "rubrics"}}, "must be one of 'prompt'; got 'rubrics'"),
        ({"prompt": "a"}, {"columns": {"prompt": "promt"}}, "Did you mean 'prompt'?"),
        (
            {"prompt": " "},
            {},
            "prompt must be a text, or messages with texts that end before the answer, not empty; got ' '",
        ),
        ({"messages": [*CHAT, {"role": "assistant", "content": "Como."}]}, {}, "got an answer as the last message"),
        (
            {"messages": [{"role": "user", "content": 42}]},
            {},
            "got content that is not text: [{'role': 'user', 'content': 42}]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            {},
            "got content that is not text",
        ),
        ({"messages": [{"role": "user"}]}, {}, "got content that is not text: [{'role': 'user'}]"),
    ],
)
def test_rows_that_cannot_be_used(job, row, given, said):
    with pytest.raises(InvalidInput) as raised:
        read(job, row, **given)
    assert said in str(raised.value)


def test_files_that_cannot_be_used(job):
    with pytest.raises(InvalidInput, match=r"none.jsonl: the file must be a file that can be read; got no such file"):
        read_source(job, Source(path="none.jsonl"))
    with pytest.raises(InvalidInput, match="rows must be at least one"):
        read(job)


def test_a_limit(job):
    assert [row["prompt"] for row in read(job, {"prompt": "a"}, {"prompt": "b"}, {"no": 1}, limit=2)] == ["a", "b"]


def test_a_dataset_of_the_hub_is_read_by_its_name(job, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked: list[Any] = []

    def load(name: str, split: str | None) -> Any:
        asked.append((name, split))
        if name == "owner/none":
            raise datasets.exceptions.DatasetNotFoundError("Dataset 'owner/none' doesn't exist on the Hub")
        return datasets.Dataset.from_list([{"prompt": "a"}, {"prompt": "b"}])

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(read_source(job, Source(path="hf:owner/name:train")).rows) == 2
    assert asked == [("owner/name", "train")]
    with pytest.raises(InvalidInput, match="must be a dataset that can be read; got Dataset 'owner/none'"):
        read_source(job, Source(path="hf:owner/none"))


def test_rows_of_different_shapes_in_one_table():
    pytest.importorskip("datasets")
    rows = [
        {"prompt": "Why?", "rubric": [{"name": "A", "params": {"n": 1}}], "answer": 3},
        {"prompt": CHAT, "rubric": {"instruction_id_list": ["x"], "kwargs": [{}]}, "answer": "three"},
        {"prompt": "How?", "rubric": None},
    ]
    found = list(make_dataset(rows, chat=True))
    assert [row["prompt"] for row in found] == [
        [{"role": "user", "content": "Why?"}],
        CHAT,
        [{"role": "user", "content": "How?"}],
    ]
    assert [row["rubric"] for row in found] == [row["rubric"] for row in rows]  # nothing filled in with nulls
    assert [row["answer"] for row in found] == [3, "three", None]


def test_dates_and_arrays_of_parquet(job):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"prompt": ["a"], "when": [date(2026, 1, 2)], "values": [[1.0, 2.0]]})
    path = Path(job.file.parent / "rows.parquet")
    frame.write_parquet(path)
    assert read_source(job, Source(path="rows.parquet")).rows == (
        {"prompt": "a", "rubric": None, "when": "2026-01-02", "values": [1.0, 2.0]},
    )
