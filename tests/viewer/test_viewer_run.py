"""Files of every kind become groups that can be opened, also while they are written, torn or replaced."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rubrank._folders import sweep
from rubrank.records.files import parse_record, write_records
from rubrank.records.record import GroupRecord
from rubrank.viewer.group_data import find_states
from rubrank.viewer.index import Index, compare_runs, find_common_prompts, make_curves, make_step_table
from rubrank.viewer.run import LiveRun, decode_record, has_records

Make = Callable[..., GroupRecord]


def line_of(record: GroupRecord) -> str:
    return record.model_dump_json(exclude_defaults=True) + "\n"


def parse(line: bytes) -> GroupRecord:
    return parse_record(line.decode("utf-8", "surrogatepass"), "line")


def read(path: Path) -> LiveRun:
    run = LiveRun(path)
    run.read_everything()
    return run


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.parquet"])
def test_every_kind_of_file_is_read(tmp_path: Path, name: str, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / name, demo_records)
    run = read(tmp_path / name)
    assert run.index.ids == [record.group for record in demo_records]
    assert parse(run.read_line(7)) == demo_records[7]
    assert run.index.facts["states"].to_list() == [int(find_states(record)) for record in demo_records]
    run.stop()


def test_what_a_killed_viewer_unpacked_is_deleted_by_a_later_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_records: list[GroupRecord]
) -> None:
    path = tmp_path / "r.jsonl.gz"
    write_records(path, demo_records)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = f"from pathlib import Path; from rubrank.viewer.run import LiveRun; run = LiveRun(Path({str(path)!r}))\n"
    code += "run.read_everything(); print('read', flush=True); input()"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as viewer:
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == b"read\n"
        viewer.kill()
    assert len(list(temporary.iterdir())) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert sweep(minimum_age=0) == 1
    assert not list(temporary.iterdir())

    run = read(path)
    assert len(list(temporary.iterdir())) == 1
    run.stop()
    assert not list(temporary.iterdir())


def test_zstd_with_several_frames(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = "".join(map(line_of, demo_records)).encode()
    packer = zstandard.ZstdCompressor()
    (tmp_path / "r.jsonl.zst").write_bytes(packer.compress(text[:5000]) + packer.compress(text[5000:]))
    assert len(read(tmp_path / "r.jsonl.zst").index) == len(demo_records)


def test_the_light_form_has_the_same_states(
    demo_records: list[GroupRecord], rule_records: list[GroupRecord], odd_records: list[GroupRecord]
) -> None:
    for record in [*demo_records, *rule_records, *odd_records]:
        assert find_states(decode_record(line_of(record).encode())) == find_states(record)


def test_a_file_that_is_being_written(tmp_path: Path, record_of: Make) -> None:
    path = tmp_path / "r.jsonl"
    lines = [line_of(record_of({"A": [0.0, 1.0]}, [0.0, 1.0], group=f"g{n}", step=n)) for n in range(4)]
    path.write_text(lines[0] + lines[1][:40], encoding="utf-8")
    run = read(path)
    assert run.index.ids == ["g0"]
    with path.open("a", encoding="utf-8") as file:
        file.write(lines[1][40:].rstrip("\n"))
    run.read_everything()
    assert run.index.ids == ["g0", "g1"]  # whole, though its line is not ended yet
    with path.open("a", encoding="utf-8") as file:
        file.write("\n\n" + lines[2])
    run.read_everything()
    assert run.index.ids == ["g0", "g1", "g2"]
    assert json.loads(run.read_line(2))["group"] == "g2"


def test_a_compressed_file_that_is_being_written(tmp_path: Path, record_of: Make) -> None:
    path = tmp_path / "r.jsonl.gz"
    packed = [gzip.compress(line_of(record_of({"A": [1.0]}, [0.5], group=f"g{n}")).encode()) for n in range(3)]
    path.write_bytes(packed[0] + packed[1][:20])
    run = read(path)
    assert run.index.ids == ["g0"]
    path.write_bytes(b"".join(packed))
    run.read_everything()
    assert run.index.ids == ["g0", "g1", "g2"]


@pytest.mark.parametrize("name", ["nowhere.jsonl", "notes.txt", "empty"])
def test_what_has_no_records(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    assert not has_records(tmp_path / name)


@pytest.mark.parametrize("text", ["", "\n \n", '{"uid": 1, "scores": {"A": 1}}\n', '{"gro'])
@pytest.mark.parametrize("folder", [False, True])
def test_a_file_without_a_record(tmp_path: Path, text: str, folder: bool) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    assert not has_records(tmp_path if folder else tmp_path / "r.jsonl")


def test_one_record_is_enough(tmp_path: Path, record_of: Make) -> None:
    write_records(tmp_path / "b.jsonl.gz", [record_of({"A": [1.0, 0.0]}, [1.0, 0.0])])
    (tmp_path / "a.jsonl").write_text("no record\n")
    assert has_records(tmp_path)


def test_curves_and_steps(tmp_path: Path, record_of: Make) -> None:
    records = [
        record_of({"A": [x, x]}, [0.0, x], step=step)
        for x, step in zip([0, 1, 0, 1, 0.5, 1.0], [0] * 5 + [10], strict=True)
    ]
    records += [
        record_of({"A": [0.0, 0.0]}, [0.0, 1.0], step=0, metadata={"mode": "eval"}),
        record_of({"A": [1.0]}, [1.0]),
    ]
    write_records(tmp_path / "r.jsonl", records)
    index = read(tmp_path / "r.jsonl").index
    curves = {curve["name"]: curve["points"] for curve in make_curves(index)["curves"]}
    assert [point[:2] for point in curves["A"]] == [[0, 0.5], [10, 1.0]]
    assert curves["A"][0][2] == pytest.approx(0.6208, abs=1e-3)  # Student's: 2.776 · 0.5 / √5
    assert curves["groups without signal"][0][1] == pytest.approx(2 / 5)
    rows = {row["step"]: row for row in make_step_table(index)}
    assert (rows[0]["groups"], rows[10]["groups"], rows[None]["groups"]) == (6, 1, 1)
    assert index.facts["step"][-1] is None


def test_the_same_prompts_of_two_runs(tmp_path: Path, record_of: Make) -> None:
    ask = lambda text: ({"role": "user", "content": text},)  # noqa: E731
    for name, high in (("a", 1.0), ("b", 0.25)):
        texts = ("x", "y", name)
        made = [record_of({"A": [high, 0.0]}, [1.0, 0.0], group=f"{name}{t}", prompt=ask(t), step=0) for t in texts]
        made.append(record_of({"A": [high / 2, 0.0]}, [1.0, 0.0], group="again", prompt=ask("x"), step=1))
        write_records(tmp_path / f"{name}.jsonl", made)
    one, other = (read(tmp_path / f"{name}.jsonl").index for name in "ab")
    found = find_common_prompts(one, other)
    assert [(a, b) for a, b, _, _ in found] == [(1, 1), (3, 3)]  # y differs most; of x the last is taken
    assert found[0][2:] == pytest.approx((0.5, 0.125))


def test_a_record_that_no_column_can_hold_moves_no_names(tmp_path: Path, record_of: Make) -> None:
    """Its step is beyond 64 bits: the names of all groups after it belonged to the group before."""
    path = tmp_path / "records.jsonl"
    write_records(path, [record_of({"A": [1.0, 0.0]}, [1.0, 0.0], group=f"g{n}") for n in range(4)])
    lines = path.read_text().splitlines()
    odd = json.loads(lines[1]) | {"step": 2**70}
    path.write_text("\n".join([lines[0], json.dumps(odd), *lines[2:]]) + "\n")
    run = LiveRun(path)
    run.read_everything()
    names = [json.loads(line)["group"] for line in lines]
    assert run.index.ids == [names[0], "", *names[2:]]
    assert [g for g, _ in run.index.unreadable] == [1]
    assert run.index.list_rows()["rule"] == [0, None, 0, 0]  # a line that is not a record has no rule


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_a_damaged_file_is_said_to_be_and_what_comes_before_is_shown(
    tmp_path: Path, suffix: str, record_of: Make
) -> None:
    if suffix.endswith("zst"):
        pytest.importorskip("zstandard", reason="zstandard is not installed")
    path = tmp_path / f"records{suffix}"
    made = [record_of({"A": [1.0, 0.0]}, [1.0, 0.0], group=f"g{n}") for n in range(9)]
    write_records(path, made[:1])
    good = path.stat().st_size
    if suffix != ".parquet":
        write_records(path, made[1:], append=True)
    data = path.read_bytes()
    cut = good + 12 if suffix == ".jsonl.zst" else len(data) - 40 if suffix == ".parquet" else len(data) - 8
    path.write_bytes(data[:cut] + b"\x07" * min(40, len(data) - cut) + data[cut + 40 :])
    run = LiveRun(path)
    run.start()
    try:
        for _ in range(200):
            if run.problem:
                break
            time.sleep(0.02)
        assert str(path) in run.problem
        time.sleep(1.3)  # it is looked at once more, and stays damaged
        assert str(path) in run.problem
        # Of the .gz only the checksum is wrong: all its records are shown, too.
        assert len(run.index) == {".parquet": 0, ".jsonl.zst": 1, ".jsonl.gz": 9}[suffix]
    finally:
        run.stop()
    assert has_records(path) == (suffix != ".parquet")


def test_an_index_is_read_while_it_grows(record_of: Make) -> None:
    """Each group has criteria of its own, so that all tables of names grow while they are listed."""
    index = Index()
    is_done = threading.Event()

    def add_groups() -> None:
        for n in range(3000):
            index.add_record(record_of({f"A{n}": [0.0, 1.0]}, [0.0, 1.0]))
        is_done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=add_groups)
    try:
        thread.start()
        while not is_done.is_set():
            rows = index.list_rows()
            assert max(rows["criteria"], default=-1) < len(rows["criteria_sets"])
            compare_runs(index, index)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert len(index.list_rows()["criteria_sets"]) == 3000
