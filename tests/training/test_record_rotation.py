"""Records of long runs: several files that are read as one, budgets, and a resumed run that cuts them in place."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import spread

pytest.importorskip("zstandard", reason="zstandard is not installed: pip install zstandard")

from rubrank.errors import InvalidInput
from rubrank.records.files import find_record_files, is_records, read_records, write_records
from rubrank.records.writer import Recording
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.studies.logged import read_logged
from rubrank.training.engine import RewardEngine

RUBRIC = [{"name": "Words", "verifier": "WordCount", "params": {"low": 2}}]
KINDS = [".jsonl", ".jsonl.gz", ".jsonl.zst"]


def groups(step: int, size: int = 20) -> list[Group]:
    texts = (f"Lakes {step} " * size, "one", "é odd")
    return [
        Group(id=f"{step}-{n}", rollouts=tuple(Rollout(prompt="Say it.", response=text) for text in texts))
        for n in range(2)
    ]


def train(to: Recording, steps: range, start: RewardEngine | None = None) -> RewardEngine:
    engine = start or RewardEngine(RUBRIC, records=to)
    for step in steps:
        engine.score(groups(step), step)
        engine.score(groups(step), step, train=False)
    engine.finish_records()
    return engine


@pytest.mark.parametrize("suffix", KINDS)
def test_files_begin_anew_and_are_read_as_one(tmp_path, suffix):
    one, many = tmp_path / f"one{suffix}", tmp_path / "many" / f"records{suffix}"
    train(Recording(one), range(7))
    train(Recording(many, rotate=3, background=True), range(7))
    names = [f"records.{step:06d}{suffix}" for step in (0, 3, 6)]
    assert [file.name for file in find_record_files(many)] == names
    expected = list(read_records(one))
    for source in (many, many.parent, many.parent / f"records.*{suffix}"):
        assert list(read_records(source)) == expected
        assert is_records(source)
        assert [path.name for path in find_record_files(source)] == names
        assert len(read_logged(source).table.groups) == len(read_logged(one).table.groups)


def test_a_name_that_is_no_file_and_no_rotated_one(tmp_path):
    (tmp_path / "records.final.jsonl").write_text("{}\n")
    (tmp_path / "records.12.jsonl").write_text("{}\n")
    with pytest.raises(InvalidInput, match="no such file"):
        list(read_records(tmp_path / "records.jsonl"))
    with pytest.raises(InvalidInput, match="no such file"):
        list(read_records(tmp_path / "other.*.jsonl"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="which has none"):
        list(read_records(tmp_path / "empty"))


# ------------------------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize("rotate", [0, 2])
def test_a_resumed_run_cuts_in_place(tmp_path, suffix, rotate):
    whole, path = Recording(tmp_path / "whole" / f"r{suffix}", rotate=rotate), tmp_path / "part" / f"r{suffix}"
    train(whole, range(6))
    to = Recording(path, rotate=rotate, background=True)
    first = train(to, range(3))
    first.score(groups(3), 3, train=False)  # evaluated before the checkpoint
    first.finish_records()
    inodes = {file.name: file.stat().st_ino for file in find_record_files(path)}
    first.score(groups(3), 3)
    train(to, range(4, 6), first)
    resumed = RewardEngine(RUBRIC, records=to)
    assert resumed.rewind(3) == 2 + 2 * 4
    assert {file.name: file.stat().st_ino for file in find_record_files(path)} == inodes
    resumed.score(groups(3), 3)
    train(to, range(4, 6), resumed)
    made = list(read_records(path))
    assert sorted(made, key=str) == sorted(read_records(whole.path), key=str)
    assert resumed.rewind(6) == 0


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_record_rotation import RUBRIC, Recording, RewardEngine, groups
engine = RewardEngine(RUBRIC, records=Recording(Path(sys.argv[1]), rotate=int(sys.argv[2]), background=True))
for step in range(10_000):
    engine.score(groups(step, 2000), step)
    print(step, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "rotate"), spread([(suffix, rotate) for rotate in (0, 4) for suffix in KINDS], every=2)
)
def test_kill_in_the_middle(tmp_path, suffix, rotate, caplog):
    path = tmp_path / f"r{suffix}"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(path), str(rotate), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 9:
            break
    time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    last = find_record_files(path)[-1]
    os.truncate(last, last.stat().st_size - 3)  # whatever the moment was: torn
    to = Recording(path, rotate=rotate, background=True)
    resumed = RewardEngine(RUBRIC, records=to)
    with caplog.at_level(logging.WARNING, "rubrank"):
        resumed.rewind(5)
    assert "when the run was killed is dropped" in caplog.text
    for step in range(5, 8):
        resumed.score(groups(step, 2000), step)
    resumed.finish_records()
    assert [record.step for record in read_records(path)] == [step for step in range(8) for _ in range(2)]


# -------------------------------------------------------------------------------------------------------------- budgets


def test_beyond_its_budget_a_run_goes_on_without_texts(tmp_path, caplog):
    path = tmp_path / "r.jsonl"
    one = tmp_path / "one.jsonl"
    train(Recording(one), range(1))
    with caplog.at_level(logging.WARNING, "rubrank"):
        train(Recording(path, rotate=2, most_bytes=3 * one.stat().st_size), range(8))
    said = [record.message for record in caplog.records]
    assert said == [
        f"{path}: the limit of {3 * one.stat().st_size:,} bytes for the run is reached: further records have no texts"
    ]
    made = list(read_records(path))
    assert [record.step for record in made] == [step for step in range(8) for _ in range(4)]
    have = [record.responses is not None for record in made]
    assert have == sorted(have, reverse=True)
    assert 12 <= sum(have) <= 16
    # A run that goes on knows what was written before it.
    train(Recording(path, rotate=2, most_bytes=3 * one.stat().st_size), range(8, 9))
    assert [record.responses for record in read_records(path)][-4:] == [None] * 4


def test_a_day_has_a_budget_of_its_own(tmp_path, monkeypatch, caplog):
    from datetime import UTC, datetime

    from rubrank.records import writer as writing

    class Clock:
        now_ = datetime(2030, 1, 1, tzinfo=UTC)

        @classmethod
        def now(cls, zone):
            return cls.now_

    monkeypatch.setattr(writing, "datetime", Clock)
    path = tmp_path / "r.jsonl"
    engine = train(Recording(path, most_bytes_a_day=10), range(3))
    Clock.now_ = datetime(2030, 1, 2, tzinfo=UTC)
    train(Recording(path), range(3, 5), engine)
    have = [record.step for record in read_records(path) if record.responses is not None]
    assert sorted(set(have)) == [0, 3]
    assert [record.message.split(" is reached")[0] for record in caplog.records] == [
        f"{path}: the limit of 10 bytes for 2030-01-01",
        f"{path}: the limit of 10 bytes for 2030-01-02",
    ]


def test_a_restart_on_the_same_day_has_no_new_allowance(tmp_path):
    path = tmp_path / "r.jsonl"
    train(Recording(path, most_bytes_a_day=10), range(2))
    train(Recording(path, most_bytes_a_day=10), range(2, 4))
    assert sorted({record.step for record in read_records(path) if record.responses is not None}) == [0]
    assert sorted({record.step for record in read_records(path)}) == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [{"rotate": -1}, {"most_bytes": 0}, {"most_bytes_a_day": -5}])
def test_limits_that_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Recording(Path("r.jsonl"), **wrong)


@pytest.mark.parametrize("suffix", KINDS)
def test_a_run_that_begins_anew_drops_half_a_record(tmp_path, suffix):
    path = tmp_path / f"records{suffix}"
    engine = train(Recording(path), range(2))
    whole = len(list(read_records(path)))
    with path.open("r+b") as file:
        data = file.read()
        file.write(data[: len(data) // 3])  # what a run that was killed was writing
    engine.drop_half_record()
    engine.score(groups(9), 9)
    assert len(list(read_records(path))) >= whole + 2


def test_names_with_brackets_are_no_patterns(tmp_path):
    engine = train(Recording(tmp_path / "records.jsonl"), range(1))
    records = list(read_records(engine.records))
    path = tmp_path / "run [1].parquet"
    write_records(path, records)
    assert is_records(path)
    assert list(read_records(path)) == records


def test_scores_are_read_by_the_name_without_the_number(tmp_path):
    """As `explain` and `fuse` do, which read any source of scores."""
    from rubrank.tables.sources import find_files

    for step in (0, 100, 1000100, 2):
        (tmp_path / f"records.{step:06d}.jsonl").write_text("{}\n")
    (tmp_path / "records.best.jsonl").write_text("{}\n")
    found = [file.name for file in find_files(tmp_path / "records.jsonl")]
    assert found == [f"records.{step:06d}.jsonl" for step in (0, 2, 100, 1000100)]
    (tmp_path / "records.jsonl").write_text("{}\n")
    assert find_files(tmp_path / "records.jsonl") == [tmp_path / "records.jsonl"]
    with pytest.raises(InvalidInput, match="no such file"):
        find_files(tmp_path / "other.jsonl")


def test_a_run_that_is_begun_anew_has_no_evaluation_twice(tmp_path):
    engine = train(Recording(tmp_path / "records.jsonl"), range(1))
    assert engine.rewind(0) == 4
    assert list(read_records(tmp_path / "records.jsonl")) == []
