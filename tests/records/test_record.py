"""A record holds everything about a fused group, and comes back from disk as it was."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rubrank.cli.demo.demo import demo_judges, fuse_table
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.errors import BadTable, InvalidInput
from rubrank.grading.grade import grade
from rubrank.judges.judgments import Provenance
from rubrank.records.files import find_record_files, read_records, write_records
from rubrank.records.record import GroupRecord, records_of, to_score_table
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable

NAN = float("nan")


@pytest.fixture(scope="module")
def graded() -> tuple[list[Group], ScoreTable]:
    groups = list(load_demo_groups()[:6])
    return groups, grade(groups, workers=0)


@pytest.fixture(scope="module")
def records(graded: tuple[list[Group], ScoreTable]) -> list[GroupRecord]:
    groups, table = graded
    others = {"mean": np.linspace(0, 1, len(table))}
    return list(records_of(fuse_table(table, groups), table, groups=groups, step=3, others=others))


def test_everything_is_there(graded: tuple[list[Group], ScoreTable], records: list[GroupRecord]) -> None:
    groups, table = graded
    result = fuse_table(table, groups)
    for record, group, fused in zip(records, groups, result, strict=True):
        ranked = [c.name for c in record.ranked]
        assert record.group == group.id
        assert record.step == 3
        assert record.reward == tuple(fused.reward)
        assert record.ranking == tuple(fused.ranking)
        assert record.flags == fused.flags
        assert record.responses == tuple(r.answer for r in group.rollouts)
        assert all(c.layer == "quality" for c in record.ranked)
        assert [len(row) for row in record.utilities or ()] == [len(ranked)] * record.size
        at = [fused.criteria.index(name) for name in ranked]
        assert np.array(record.utilities) == pytest.approx(fused.utilities[:, at])
        assert np.array(record.gamma) == pytest.approx(fused.gamma[at])  # type: ignore[index]
        assert record.gate is not None
        assert record.gate.passed == tuple(fused.gated.passed)  # type: ignore[union-attr]
        assert [bool(names) for names in record.gate.stopped_by] == [not p for p in record.gate.passed]
        assert sum(record.effective_weights or ()) == pytest.approx(float(np.ptp(fused.ranking) > 0))
        assert len(record.others["mean"]) == record.size


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.parquet"])
def test_there_and_back(tmp_path: Path, records: list[GroupRecord], name: str) -> None:
    assert write_records(tmp_path / "new" / name, records) == len(records)
    assert list(read_records(tmp_path / "new" / name)) == records


def test_the_scores_come_back(graded: tuple[list[Group], ScoreTable], records: list[GroupRecord]) -> None:
    again, table = to_score_table(records), graded[1]
    for one, other in zip(again, table, strict=True):
        for name in other.names:
            columns = one.names.index(name), other.names.index(name)
            assert np.array_equal(one.scores[:, columns[0]], other.scores[:, columns[1]], equal_nan=True)
            assert one.reason(0, name) == other.reason(0, name)
    assert again.fuse().reward.tolist() == pytest.approx(table.fuse().reward.tolist(), abs=1e-12)


def test_comparisons_are_kept(tmp_path: Path, graded: tuple[list[Group], ScoreTable]) -> None:
    first = graded[1].groups[0]
    G, name = len(first.scores), next(c.name for c in first.criteria if c.layer == "quality")
    won = np.triu(np.ones((G, G)))
    won[0, 1:] = won[1:, 0] = np.nan
    np.fill_diagonal(won, np.nan)
    scores = first.scores.copy()
    scores[:, first.names.index(name)] = NAN
    table = ScoreTable((replace(first, scores=scores, outcomes={name: won}),))
    write_records(tmp_path / "r.jsonl", records_of(table.fuse(), table))
    (record,) = read_records(tmp_path / "r.jsonl")
    assert record.responses is None
    assert np.array_equal(to_score_table([record]).groups[0].outcomes[name], won, equal_nan=True)
    assert to_score_table([record]).fuse().reward.tolist() == table.fuse().reward.tolist()


def test_what_judges_were_asked_is_kept(tmp_path: Path) -> None:
    groups = list(load_demo_groups())
    table = grade(groups, workers=0, judges=demo_judges(tmp_path / "replies.sqlite"))
    kept = [record.metadata["judges"] for record in records_of(table.fuse(), table)]
    assert kept[0] == {"asked": 1, "missing": 0}
    assert sum(one["asked"] for one in kept) == 40  # 19 rankings, 21 verdicts


def test_a_log_grows(tmp_path: Path, records: list[GroupRecord]) -> None:
    path = tmp_path / "log.jsonl"
    for record in records:
        write_records(path, [record], append=True)
    assert [r.group for r in read_records(path)] == [r.group for r in records]
    with pytest.raises(InvalidInput, match="Parquet cannot grow"):
        write_records(tmp_path / "log.parquet", records, append=True)


def test_lone_surrogates_survive(tmp_path: Path, records: list[GroupRecord]) -> None:
    odd = records[0].model_copy(update={"responses": ("\ud800", *records[0].responses[1:])})  # type: ignore[index]
    for name in ("r.jsonl", "r.parquet"):
        write_records(tmp_path / name, [odd])
        assert list(read_records(tmp_path / name)) == [odd]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"r\.jsonl:2: line must be that of a record"),
        ('{"group": "q"}', "Field required"),
        ('{"reward": 3}', r"r\.jsonl:2"),
    ],
)
def test_what_is_no_record(tmp_path: Path, records: list[GroupRecord], line: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, records[:1])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadTable, match=message):
        list(read_records(path))


def test_other_files(tmp_path: Path, records: list[GroupRecord]) -> None:
    newer = json.loads(records[0].model_dump_json()) | {"version": 99}
    with gzip.open(tmp_path / "r.jsonl.gz", "wt") as file:
        file.write(json.dumps(newer))
    with pytest.raises(BadTable, match="newer rubrank"):
        list(read_records(tmp_path / "r.jsonl.gz"))
    with pytest.raises(InvalidInput, match="a file that ends in"):
        list(read_records(Path(__file__)))
    with pytest.raises(InvalidInput, match="no such file"):
        list(read_records(tmp_path / "none.jsonl"))


def test_a_score_table_is_no_record(tmp_path: Path, graded: tuple[list[Group], ScoreTable]) -> None:
    graded[1].write(tmp_path / "scores.parquet")
    with pytest.raises(BadTable, match="rubrank fuse"):
        list(read_records(tmp_path / "scores.parquet"))


def test_groups_must_be_those_that_were_fused(graded: tuple[list[Group], ScoreTable]) -> None:
    groups, table = graded
    with pytest.raises(InvalidInput, match="Pass what was graded"):
        list(records_of(table.fuse(), table, groups=groups[::-1]))


def test_other_groups_are_named(graded: tuple[list[Group], ScoreTable]) -> None:
    groups, table = graded
    first, second = groups[0].id, groups[1].id
    with pytest.raises(InvalidInput, match=f"groups must be .*; got {second!r} instead of {first!r} as group 0"):
        records_of(table.fuse(), table, groups=[groups[1], groups[0], *groups[2:]])
    with pytest.raises(InvalidInput, match=r"table must be the groups that were fused.*; got 1 group instead of 6"):
        records_of(table.fuse(), ScoreTable(table.groups[:1]))


def test_arguments_are_checked_before_the_first_record_is_made(graded: tuple[list[Group], ScoreTable]) -> None:
    groups, table = graded
    with pytest.raises(InvalidInput, match="Pass what was graded"):
        records_of(table.fuse(), table, groups=groups[::-1])
    with pytest.raises(InvalidInput, match="what a rule returns"):
        records_of(table)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="only"):
        records_of(table.fuse(), table, only=3)  # type: ignore[arg-type]


def test_the_first_record_has_the_cost_of_judging(graded: tuple[list[Group], ScoreTable]) -> None:
    spent = {"calls": 7, "cost": 0.5}
    table = replace(graded[1], judging=None, read=Provenance({}, {}, spent))
    records = list(records_of(table.fuse(), table, only=[2, 4]))
    assert [record.metadata.get("judging") for record in records] == [spent, None]


def test_a_superscript_in_a_file_name_is_no_number(tmp_path: Path) -> None:
    for name in ("a10.jsonl", "a9.jsonl", "\u00b2.jsonl"):
        (tmp_path / name).write_text("")
    assert [file.name for file in find_record_files(tmp_path)] == ["a9.jsonl", "a10.jsonl", "\u00b2.jsonl"]


def test_a_line_with_a_lone_surrogate_that_breaks_off_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"group": "a\\ud800", "rew')
    with pytest.raises(BadTable, match=r"r\.jsonl:1"):
        list(read_records(path))
