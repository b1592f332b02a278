"""Records of a run: compressed, some of the steps, without texts, from a thread; and taken back exactly."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from cases import thinned

pytest.importorskip("zstandard", reason="zstandard is not installed: pip install zstandard")

from rubrank.errors import InvalidInput
from rubrank.records import writer as writing
from rubrank.records.files import read_records, write_records
from rubrank.records.record import GroupRecord
from rubrank.records.writer import Recording, RecordWriter
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine
from rubrank.training.rewind import rewind_records

RUBRIC = [{"name": "Words", "verifier": "WordCount", "params": {"low": 2}}]


def groups(step: int) -> list[Group]:
    texts = (f"Lakes {step}", "one", "é \ud800 odd")
    return [
        Group(id=f"{step}-{n}", rollouts=tuple(Rollout(prompt="Say it.", response=text) for text in texts))
        for n in range(2)
    ]


def trained(to: Any, steps: range) -> RewardEngine:
    engine = RewardEngine(RUBRIC, records=to)
    for step in steps:
        engine.score(groups(step), step)
        engine.score(groups(step), step, train=False)
    engine.finish_records()
    return engine


def steps_in(path: Path, mode: str = "train") -> list[int | None]:
    return [record.step for record in read_records(path) if record.metadata["mode"] == mode]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("background", [False, True])
def test_all_kinds_hold_the_same(tmp_path, suffix, background):
    plain, other = tmp_path / "plain.jsonl", tmp_path / f"other{suffix}"
    trained(plain, range(4))
    trained(Recording(other, background=background), range(4))
    assert list(read_records(other)) == list(read_records(plain))
    assert steps_in(other) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_some_of_the_steps_and_all_evaluations(tmp_path):
    path = tmp_path / "records.jsonl.zst"
    trained(Recording(path, every=3), range(7))
    assert steps_in(path) == [0, 0, 3, 3, 6, 6]
    assert steps_in(path, "eval") == [step for step in range(7) for _ in range(2)]


def test_without_texts(tmp_path):
    whole, path = tmp_path / "whole.jsonl", tmp_path / "records.jsonl"
    trained(whole, range(2))
    trained(Recording(path, texts=False), range(2))
    assert "Lakes" in whole.read_text()
    assert "Lakes" not in path.read_text()
    assert "Say it" not in path.read_text()
    for one, other in zip(read_records(path), read_records(whole), strict=True):
        assert (one.scores, one.reward, one.group) == (other.scores, other.reward, other.group)
        assert (one.responses, one.prompt, one.reasons) == (None, None, None)


@pytest.mark.parametrize("suffix", thinned([".jsonl.gz", ".jsonl", ".jsonl.zst"]))
def test_a_file_that_was_cut_anywhere_goes_on_as_if_it_had_not_been(tmp_path, suffix):
    whole, part = tmp_path / f"whole{suffix}", tmp_path / f"part{suffix}"
    engine = RewardEngine(RUBRIC, records=Recording(part, background=True))
    ends = []
    for step in range(3):
        engine.score(groups(step), step)
        engine.finish_records()
        ends.append(part.stat().st_size)
    data = part.read_bytes()
    trained(whole, range(0))
    again = RewardEngine(RUBRIC, records=whole)
    for step in range(3):
        again.score(groups(step), step)
    expected = list(read_records(whole))
    for size in range(ends[1], ends[2] + 1, 7 if suffix == ".jsonl" else 3):
        part.write_bytes(data[:size])
        resumed = RewardEngine(RUBRIC, records=Recording(part, background=True))
        resumed.rewind(2)
        resumed.score(groups(2), 2)
        resumed.finish_records()
        assert list(read_records(part)) == expected, size


def test_rewinding_drops_what_is_made_again(tmp_path):
    path = tmp_path / "records.jsonl.zst"
    trained(Recording(path, background=True), range(4))
    assert rewind_records(path, 2) == 6  # two groups of steps 2 and 3, and the evaluation of step 3
    assert steps_in(path) == [0, 0, 1, 1]
    assert steps_in(path, "eval") == [0, 0, 1, 1, 2, 2]
    assert rewind_records(path, 2) == 0


# ----------------------------------------------------------------------------------------------------------- the thread


def a_record() -> GroupRecord:
    return GroupRecord(
        group="g", criteria=(), scores=((),), weights=(), ranking=(0.5,), reward=(0.5,), no_signal=True, step=0
    )


def test_training_does_not_wait(tmp_path, monkeypatch):
    may_write = threading.Event()

    def slow(*args: Any, **kwargs: Any) -> int:
        assert may_write.wait(30)
        return write_records(*args, **kwargs)

    monkeypatch.setattr(writing, "write_records", slow)
    path = tmp_path / "records.jsonl"
    writer = RecordWriter(Recording(path, background=True))
    writer.write([a_record()])  # comes back although nothing can be written
    assert not path.exists()
    may_write.set()
    writer.wait()
    assert len(list(read_records(path))) == 1


def test_a_limit_counts_batches_that_are_not_written_yet(tmp_path, monkeypatch):
    may_write = threading.Event()

    def slow(*args: Any, **kwargs: Any) -> int:
        assert may_write.wait(30)
        return write_records(*args, **kwargs)

    monkeypatch.setattr(writing, "write_records", slow)
    path = tmp_path / "records.jsonl"
    writer = RecordWriter(Recording(path, background=True, most_bytes=1))
    record = a_record().model_copy(update={"responses": ("a text",)})
    writer.write([record])
    writer.write([record])  # the first one is not on disk
    may_write.set()
    writer.wait()
    assert [record.responses for record in read_records(path)] == [("a text",), None]


@pytest.mark.parametrize("end", ["next step", "end"])
def test_an_error_of_the_thread_is_raised(tmp_path, end):
    folder = tmp_path / "file"
    folder.write_text("no folder")
    engine = RewardEngine(RUBRIC, records=Recording(folder / "records.jsonl", background=True))
    engine.score(groups(0), 0)
    assert engine.recording is not None
    engine.recording._pending[0].exception(30)
    told = engine.finish_records if end == "end" else lambda: engine.score(groups(1), 1)
    with pytest.raises(InvalidInput, match=r"must be a writable file; got .*then resume"):
        told()
    with pytest.raises(InvalidInput, match="then resume"):  # it stays failed: going on would leave a hole
        engine.score(groups(2), 2)


def test_a_writer_goes_to_other_processes_without_its_thread(tmp_path):
    engine = trained(Recording(tmp_path / "records.jsonl", background=True), range(1))
    other = pickle.loads(pickle.dumps(engine))
    assert other.recording.recording == engine.recording.recording  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"path": Path("records.parquet")}, "a .jsonl, .jsonl.gz or .jsonl.zst file; got records.parquet"),
        ({"path": Path("records.jsonl"), "every": 0}, "every must be ≥ 1; got 0"),
    ],
)
def test_what_is_refused(wrong, said):
    with pytest.raises(InvalidInput) as raised:
        Recording(**wrong)
    assert said in str(raised.value)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk_leaves_whole_batches_and_no_hole(tmp_path, suffix, background, monkeypatch):
    """The second batch is half written when the disk is full; the third, which has room again, would follow."""
    path, calls, gate = tmp_path / f"records{suffix}", [], threading.Event()
    engine = RewardEngine(RUBRIC, records=Recording(path, background=background))
    engine.score(groups(0), 0)
    engine.finish_records()
    whole = path.read_bytes()

    def full_once(file: Path, records: list[GroupRecord], append: bool) -> int:
        calls.append(file)
        if len(calls) > 1:
            return write_records(file, records, append=append)
        gate.wait(10.0)
        with file.open("ab") as opened:
            opened.write(whole[: len(whole) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_records", full_once)
    if background:
        engine.score(groups(1), 1)
        engine.score(groups(2), 2)
        gate.set()
        with pytest.raises(InvalidInput, match="No space left on device"):
            engine.finish_records()
    else:
        gate.set()
        with pytest.raises(InvalidInput, match="No space left"):
            engine.score(groups(1), 1)
    assert path.read_bytes() == whole
    if background:  # steps 1 and 2 are lost, so nothing may follow them
        with pytest.raises(InvalidInput, match="No space left"):
            engine.score(groups(3), 3)
        engine.rewind(1)  # a resumed run makes them again
    for step in (1, 2):
        engine.score(groups(step), step)
    engine.finish_records()
    assert steps_in(path) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("not a number")])
def test_after_a_reset_nothing_old_is_written_and_the_next_batch_is(tmp_path, monkeypatch, error):
    path, may_fail = tmp_path / "records.jsonl", threading.Event()
    writer = RecordWriter(Recording(path, background=True))

    def fail(*args: Any, **kwargs: Any) -> int:
        may_fail.wait(30)
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(writing, "write_records", fail)
        writer.write([a_record()], step=0)
        writer.write([a_record()], step=1)
        may_fail.set()
        writer.reset()
    writer.write([a_record()], step=2)
    writer.wait()
    assert len(list(read_records(path))) == 1


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied"), KeyboardInterrupt()]
)
def test_whoever_catches_the_error_and_goes_on_leaves_no_hole(tmp_path, monkeypatch, error):
    """Without a thread: the next step, an evaluation and the end raise again; the same step may be written again."""
    path = tmp_path / "records.jsonl"
    engine = trained(Recording(path), range(1))
    whole = path.read_bytes()

    def write_half(file: Path, records: list[GroupRecord], append: bool) -> int:
        with file.open("ab") as opened:
            opened.write(whole[: len(whole) // 2])
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(writing, "write_records", write_half)
        with pytest.raises((InvalidInput, KeyboardInterrupt)):
            engine.score(groups(1), 1)
    assert path.read_bytes() == whole
    for goes_on in (
        lambda: engine.score(groups(2), 2),
        lambda: engine.score(groups(1), 1, train=False),
        engine.finish_records,
    ):
        with pytest.raises(InvalidInput, match="then resume"):
            goes_on()
    assert path.read_bytes() == whole
    for step in (1, 2):
        engine.score(groups(step), step)
    engine.finish_records()
    assert steps_in(path) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_a_file_that_was_cut_is_said_to_be(tmp_path, suffix):
    path = tmp_path / f"records{suffix}"
    trained(path, range(3))
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(InvalidInput, match="readable to its end"):
        list(read_records(path))


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_a_file_that_is_damaged_in_the_middle_cannot_be_resumed(tmp_path, suffix):
    path = tmp_path / f"records{suffix}"
    trained(path, range(3))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 8] = bytes(8)
    path.write_bytes(damaged)
    with pytest.raises(InvalidInput, match=r"a file that can be read to its end; got .* Move it away"):
        rewind_records(path, 2)
