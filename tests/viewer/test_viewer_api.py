"""What the page asks for: lists, filters, search, files; and who may ask."""

from __future__ import annotations

import csv
import http.client
import io
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer.viewing import Viewer, served

from rubrank.records.files import name_runs, write_records
from rubrank.records.record import GroupRecord
from rubrank.viewer.group_data import find_states
from rubrank.viewer.server import make_address, read_ranges


@pytest.fixture(scope="module")
def viewer(
    tmp_path_factory: pytest.TempPathFactory, demo_records: list[GroupRecord], odd_records: list[GroupRecord]
) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("viewer")
    steps = [r.model_copy(update={"step": n // 5}) for n, r in enumerate(demo_records)]
    write_records(folder / "a.jsonl", steps)
    write_records(folder / "b.jsonl", [*demo_records, *odd_records])
    with served(folder / "a.jsonl", folder / "b.jsonl") as found:
        yield found


def test_the_rows_of_the_list(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    rows = viewer.ask("index", run=0)
    assert rows["id"] == [record.group for record in demo_records]
    assert rows["step"] == [n // 5 for n in range(len(demo_records))]
    assert rows["states"] == [int(find_states(record)) for record in demo_records]
    assert rows["size"] == [record.size for record in demo_records]
    names = [rows["criteria_sets"][number] for number in rows["criteria"]]
    assert names == [[criterion.name for criterion in record.criteria] for record in demo_records]
    later = viewer.ask("index", run=0, start=15)
    assert (later["start"], later["id"]) == (15, rows["id"][15:])


def test_scores_of_a_criterion(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    name = demo_records[0].criteria[1].name
    expected = {}
    for g, record in enumerate(demo_records):
        for k, criterion in enumerate(record.criteria):
            present = [row[k] for row in record.scores if row[k] is not None]
            if criterion.name == name and present:
                expected[g] = (min(present), max(present))
    scores = viewer.ask("scores", run=0, criterion=name)
    assert scores["groups"] == list(expected)
    assert list(zip(scores["low"], scores["high"], strict=True)) == list(expected.values())
    assert viewer.ask("scores", run=0, criterion="no such thing")["groups"] == []


def test_the_summary_is_that_of_all_groups(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    summary = viewer.ask("summary", run=0)
    assert summary["overview"]["rollouts"] == sum(record.size for record in demo_records)
    assert summary["sampled"] == {"groups": len(demo_records), "of": len(demo_records)}


def test_search_reads_everything_that_was_said(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    words = (demo_records[7].responses or ("",))[3][20:50].strip().upper()
    found = viewer.search(words)
    assert 7 in found
    said = [" ".join(r.responses or ()).casefold() for r in demo_records]
    assert found == [g for g, text in enumerate(said) if words.casefold() in text]
    assert viewer.search("no_signal") == []  # a key of the file is no word of it
    assert viewer.search(demo_records[3].group) == [3]


def test_one_group_under_every_rule(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    for rule in viewer.ask("state")["rules"]:
        data = viewer.ask("group", g=0, changes=json.dumps({"rule": rule}))
        assert data["rule"] == rule
        assert len(data["reward"]) == demo_records[0].size


@pytest.mark.parametrize(
    "question",
    [
        "group?g=999",
        "group?g=-1",
        "group?g=x",
        "group",
        "index?run=9",
        "index?start=x",
        "scores",
        "search",
        "export?groups=x",
        "export?groups=999999",
        'group?g=0&changes={"rule":"no-such"}',
        'group?g=0&changes={"rule":"rlvr2*borda"}',
        'group?g=0&changes={"weights":{"no-such":1}}',
        'group?g=0&changes={"lam":2}',
        'group?g=0&changes={"wishes":1}',
        "group?g=0&changes=[",
        "compare?first=7",
        "common?first=7",
    ],
)
def test_what_is_not_there_is_one_clear_line(viewer: Viewer, question: str) -> None:
    status, body, _ = viewer.open(f"api/{urllib.parse.quote(question, safe='?=&')}")
    assert status in (400, 404)
    assert "Traceback" not in body.decode()
    assert json.loads(body)["error"]


def test_the_same_prompt_elsewhere(viewer: Viewer) -> None:
    found = viewer.ask("same", run=0, g=4)["groups"]
    assert [(one["run"], one["g"]) for one in found] == [(0, 4), (1, 4)]
    assert viewer.ask("common", first=0, second=1)["total"] == 19


def test_lists_as_files(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    _, body, headers = viewer.open("api/export?run=0&groups=5-9&format=csv")
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert len(rows) == sum(r.size for r in demo_records[5:10])
    assert float(rows[0]["reward"]) == demo_records[5].reward[0]
    assert "attachment" in headers["content-disposition"]
    _, body, _ = viewer.open("api/export?run=0&groups=5-9&format=jsonl")
    assert [json.loads(line)["group"] for line in body.splitlines()] == [r.group for r in demo_records[5:10]]


def test_a_line_that_is_not_a_record_is_left_out_of_an_export(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, demo_records[:2])
    with path.open("a", encoding="utf-8") as file:
        file.write("damaged\n")
    write_records(path, demo_records[2:3], append=True)
    with served(path) as viewer:
        status, body, _ = viewer.open("api/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert status == 200
    assert {row["number"] for row in rows} == {"0", "1", "3"}


def test_a_run_without_groups_is_exported_as_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text("")
    with served(tmp_path / "run.jsonl") as viewer:
        status, body, _ = viewer.open("api/export")
        assert (status, body) == (200, b"")
        assert viewer.open("api/export?groups=0")[0] == 404


def test_every_answer_has_the_policy(viewer: Viewer) -> None:
    for path in ("", "assets/app.js", "api/state", "assets/no.js", "nowhere"):
        _, _, headers = viewer.open(path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["assets/../app.py", "assets/%2e%2e/app.py", "assets/index.html", "assets/__init__.py"]
)
def test_only_assets_are_served(viewer: Viewer, path: str) -> None:
    assert viewer.open(path)[0] == 404


def test_another_host_name_is_refused(viewer: Viewer) -> None:
    assert viewer.open("api/state", Host="evil.example")[0] == 400
    assert viewer.open("api/state", Host="localhost:1")[0] == 200


def test_a_token_where_others_can_reach(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / "r.jsonl", demo_records[:1])
    with served(tmp_path / "r.jsonl", token="secret") as found:
        assert found.open("api/state")[0] == 401
        assert found.open("api/state?token=wrong")[0] == 401
        assert found.open("api/state", Cookie="rubrank-view=wrong")[0] == 401
        assert found.open("api/state", Cookie="rubrank-view=secret")[0] == 200
        connection = http.client.HTTPConnection(found.address.removeprefix("http://").rstrip("/"))
        connection.request("GET", "/?token=secret")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["location"]) == (303, "/")  # the token leaves the address
        assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
        connection.close()


def test_addresses() -> None:
    assert make_address("::1", 80, None) == "http://[::1]:80/"
    assert make_address("0.0.0.0", 80, "t") == "http://0.0.0.0:80/?token=t"


def test_ranges_of_groups() -> None:
    assert read_ranges("0-2,7") == [0, 1, 2, 7]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a/records.jsonl"], ["a"]),
        (["runs/a", "runs/b/records.jsonl"], ["a", "b"]),
        (["runs/a/records.jsonl", "runs/b/records.jsonl"], ["a", "b"]),
        (["a.jsonl", "b.jsonl"], ["a.jsonl", "b.jsonl"]),
        (["a/x", "a/x"], ["a/x", "a/x"]),
    ],
)
def test_runs_are_named_by_what_tells_them_apart(paths: list[str], names: list[str]) -> None:
    assert name_runs([Path(path) for path in paths]) == names
