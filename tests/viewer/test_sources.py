"""`rubrank view ANYTHING`: what is opened, and what is refused in one line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rubrank.errors import RubrankError
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun, write_run
from rubrank.options import FuseOptions
from rubrank.records.files import read_records, write_records
from rubrank.records.record import GroupRecord
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable
from rubrank.tables.columns import Columns
from rubrank.viewer.sources import OpenedSource, SourceOptions, open_source

RUBRIC = """
criteria:
- {name: Short, verifier: WordCount, params: {high: 5}}
- {name: No commas, verifier: "punctuation:no_comma"}
"""


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_one(path: Path, cleanup: ExitStack, **options: object) -> OpenedSource:
    return open_source(path, SourceOptions(**options), cleanup)  # type: ignore[arg-type]


def write_rollouts(path: Path, groups: int = 20) -> None:
    rows = [{"prompt": f"Question {g}", "response": "word " * (3 + i)} for g in range(groups) for i in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_records_and_a_training_folder(tmp_path: Path, demo_records: list[GroupRecord], cleanup: ExitStack) -> None:
    write_records(tmp_path / "run" / "records.jsonl", demo_records)
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "run" / "other.jsonl").write_text('{"no": "record"}\n')
    assert open_one(tmp_path / "run" / "records.jsonl", cleanup).records == tmp_path / "run" / "records.jsonl"
    opened = open_one(tmp_path / "run", cleanup)
    assert opened.records is not None
    assert len(list(read_records(opened.records))) == len(demo_records)


def test_rotated_records_of_a_training_folder(
    tmp_path: Path, demo_records: list[GroupRecord], cleanup: ExitStack
) -> None:
    write_records(tmp_path / "records.000100.jsonl", demo_records[:2])
    write_records(tmp_path / "records.000200.jsonl", demo_records[2:3])
    opened = open_one(tmp_path, cleanup)
    assert opened.records is not None
    assert len(list(read_records(opened.records))) == 3


def test_scores_are_fused(tmp_path: Path, graded: tuple[list[Group], ScoreTable], cleanup: ExitStack) -> None:
    _, table = graded
    table.write(tmp_path / "scores.parquet")
    opened = open_one(tmp_path / "scores.parquet", cleanup)
    assert opened.records is not None
    records = list(read_records(opened.records))
    fused = table.fuse()
    assert [record.group for record in records] == [str(label) for label in fused.labels]
    assert [x for record in records for x in record.reward] == pytest.approx(fused.reward.tolist())
    cleanup.close()
    assert not opened.records.exists()  # what was made for the page goes with it


def test_rollouts_are_graded_while_the_page_is_open(tmp_path: Path, cleanup: ExitStack) -> None:
    write_rollouts(tmp_path / "rollouts.jsonl")
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    opened = open_one(tmp_path / "rollouts.jsonl", cleanup, rubric=str(tmp_path / "rubric.yaml"))
    feed = opened.feed
    assert feed is not None
    assert opened.records is not None
    assert 0 < feed.done < feed.total == 20  # some groups are there when the page opens
    feed.start()
    end = time.monotonic() + 60
    while feed.done < feed.total and not feed.problem and time.monotonic() < end:
        time.sleep(0.02)
    feed.stop()
    records = list(read_records(opened.records))
    assert (feed.problem, len(records)) == ("", 20)
    assert [row[0] for row in records[7].scores] == [1.0, 1.0, 1.0, 0.0]  # 3, 4, 5 and 6 words, at most 5 required
    assert records[7].responses == tuple("word " * (3 + i) for i in range(4))


def test_scores_are_fused_as_the_options_say(tmp_path: Path, cleanup: ExitStack) -> None:
    (tmp_path / "scores.csv").write_text("group,A,B\nq,1,0\nq,0,1\n")
    fusion = FuseOptions(rule="weighted-mean", weight={"A": 3.0})
    opened = open_one(tmp_path / "scores.csv", cleanup, columns=Columns(criteria=("A", "B")), fusion=fusion)
    assert opened.records is not None
    (record,) = read_records(opened.records)
    assert (record.rule, record.reward) == ("weighted-mean", (0.75, 0.25))


def test_texts_in_the_rows_of_scores_are_shown(tmp_path: Path, cleanup: ExitStack) -> None:
    rows = [{"group": "q", "prompt": "p", "response": f"answer {i}", "scores": {"A": i}} for i in range(2)]
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = open_one(tmp_path / "scores.jsonl", cleanup)
    assert opened.records is not None
    (record,) = read_records(opened.records)
    assert record.responses == ("answer 0", "answer 1")


def test_a_rule_over_the_batch_sees_all_rollouts_at_once(tmp_path: Path, cleanup: ExitStack) -> None:
    write_rollouts(tmp_path / "rollouts.jsonl")
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    fusion = FuseOptions(rule="gdpo+")
    opened = open_one(tmp_path / "rollouts.jsonl", cleanup, rubric=str(tmp_path / "rubric.yaml"), fusion=fusion)
    assert opened.feed is not None
    assert opened.feed.done == opened.feed.total == 20
    fusion = FuseOptions(attributes=("tokens",))
    with pytest.raises(RubrankError, match="attributes must be given with scores"):
        open_one(tmp_path / "rollouts.jsonl", cleanup, rubric=str(tmp_path / "rubric.yaml"), fusion=fusion)


def test_a_run_of_eval_has_no_groups(tmp_path: Path, cleanup: ExitStack) -> None:
    scores = tuple(ItemScore(str(n), {"correct": float(n % 2)}) for n in range(10))
    write_run(EvalRun("frames", "a", {"context": "oracle"}, scores, {"accuracy": 0.5}), tmp_path / "a" / "frames.json")
    for path in (tmp_path / "a", tmp_path / "a" / "frames.json"):
        opened = open_one(path, cleanup)
        assert (opened.records, [run.model for run in opened.evaluation]) == (None, ["a"])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("notes.txt", "hello", "records, scores, rollouts with"),
        ("rubric.yaml", RUBRIC, "records, scores, rollouts with"),
        ("empty.jsonl", "\n", "at least one"),
        ("scores.csv", "group,A\nq,1\nq,0\n", "must be named"),
        ("rollouts.jsonl", '{"prompt": "p", "response": "r"}\n', "--rubric FILE"),
        ("torn.jsonl", '{"group": "q", "crit', "torn.jsonl"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    tmp_path: Path, cleanup: ExitStack, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RubrankError, match=says) as refused:
        open_one(tmp_path / name, cleanup)
    assert "\n" not in str(refused.value)


def test_folders_without_anything_and_missing_files(tmp_path: Path, cleanup: ExitStack) -> None:
    with pytest.raises(RubrankError, match="neither records nor scored runs"):
        open_one(tmp_path, cleanup)
    with pytest.raises(RubrankError, match="no such file"):
        open_one(tmp_path / "nowhere.jsonl", cleanup)


def test_a_wrong_rubric_is_refused_before_the_page_opens(tmp_path: Path, cleanup: ExitStack) -> None:
    write_rollouts(tmp_path / "rollouts.jsonl")
    (tmp_path / "rubric.yaml").write_text("criteria:\n- {name: A, verifier: NoSuchThing}\n")
    with pytest.raises(RubrankError, match="NoSuchThing"):
        open_one(tmp_path / "rollouts.jsonl", cleanup, rubric=str(tmp_path / "rubric.yaml"))


def test_a_rubric_does_not_grade_records_again(
    tmp_path: Path, demo_records: list[GroupRecord], cleanup: ExitStack
) -> None:
    write_records(tmp_path / "records.jsonl", demo_records)
    with pytest.raises(RubrankError, match="as they were graded"):
        open_one(tmp_path / "records.jsonl", cleanup, rubric="chat")
    with pytest.raises(RubrankError, match="rubrank record"):
        open_one(tmp_path / "records.jsonl", cleanup, fusion=FuseOptions(rule="gdpo+"))


def test_columns_that_are_criteria_can_be_named(tmp_path: Path, cleanup: ExitStack) -> None:
    (tmp_path / "scores.csv").write_text("group,A,B\nq,1,0\nq,0,0\n")
    opened = open_one(tmp_path / "scores.csv", cleanup, columns=Columns(criteria=("A",)))
    assert opened.records is not None
    (record,) = read_records(opened.records)
    assert [criterion.name for criterion in record.criteria] == ["A"]


def test_columns_of_the_rollouts_that_scores_belong_to_can_be_named(tmp_path: Path, cleanup: ExitStack) -> None:
    (tmp_path / "scores.csv").write_text("group,A\nq,1\nq,0\n")
    rows = [{"group": "q", "asked": "Why?", "final_text": f"answer {i}"} for i in range(2)]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = open_one(
        tmp_path / "scores.csv",
        cleanup,
        columns=Columns(criteria=("A",)),
        rollouts=tmp_path / "rollouts.jsonl",
        rollout_columns={"prompt": "asked", "response": "final_text"},
    )
    assert opened.records is not None
    (record,) = read_records(opened.records)
    assert record.responses == ("answer 0", "answer 1")
