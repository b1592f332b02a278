"""What the page asks for: lists, filters, search, files; and who may ask."""

from __future__ import annotations

import csv
import http.client
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer.viewing import Viewer, served

from rubrank.errors import InvalidInput
from rubrank.records import facts
from rubrank.records.files import read_records, write_records
from rubrank.records.record import GroupRecord
from rubrank.records.viewer.serving import _listen, address, is_loopback


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


STATES = {
    "noSignal": facts.NO_SIGNAL,
    "stopped": facts.STOPPED,
    "softened": facts.SOFTENED,
    "missing": facts.MISSING,
    "rulesDisagree": facts.RULES_DISAGREE,
    "longestWins": facts.LONGEST_WINS,
    "judgesFailed": facts.JUDGES_FAILED,
    "gateMissing": facts.GATE_MISSING,
}


@pytest.mark.parametrize(("state", "bit"), STATES.items())
def test_states(viewer: Viewer, state: str, bit: int) -> None:
    expected = [g for g, r in enumerate(read_records(viewer.runs[1].source)) if facts.bits_of(r) & bit]
    assert viewer.found(run=1, state=state) == expected


def test_filters_by_step_rule_and_score(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    assert viewer.found(step=2) == list(range(10, 15))
    assert viewer.found(rule_filter="no such rule") == []
    name = demo_records[0].criteria[1].name
    has = {
        g: [row[k] for row in r.scores if row[k] is not None]
        for g, r in enumerate(demo_records)
        for k, c in enumerate(r.criteria)
        if c.name == name
    }
    has = {g: scores for g, scores in has.items() if scores}
    assert viewer.found(criterion=name) == sorted(has)
    assert viewer.found(criterion=name, score="low", value=0) == [g for g, s in has.items() if min(s) <= 0]
    assert viewer.found(criterion=name, score="differs") == [g for g, s in has.items() if min(s) < max(s)]
    assert viewer.found(criterion="no such thing") == []


def test_orders_and_places(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    spread = [max(r.reward) - min(r.reward) for r in demo_records]
    assert viewer.found(sort="narrow") == sorted(range(len(spread)), key=lambda g: (round(spread[g], 6), g))
    assert viewer.found(sort="latest")[0] == 15
    assert viewer.ask("place", g=12, step=2) == {"place": 2}
    assert viewer.ask("place", g=0, step=2) == {"place": -1}


def test_search_reads_everything_that_was_said(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    words = (demo_records[7].responses or ("",))[3][20:50].strip().upper()
    found = viewer.found(query=words)
    assert 7 in found
    said = [" ".join(r.responses or ()).casefold() for r in demo_records]
    assert found == [g for g, text in enumerate(said) if words.casefold() in text]
    assert viewer.found(query="no_signal") == []  # a key of the file is no word of it
    assert viewer.found(query=demo_records[3].group) == [3]


def test_one_group_under_every_rule(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    for rule in viewer.ask("state")["rules"]:
        data = viewer.ask("group", g=0, rule=rule)
        assert data["rule"] == rule
        assert len(data["raw"]["r"]) == demo_records[0].size


@pytest.mark.parametrize(
    "question",
    [
        "group?g=999",
        "group?g=-1",
        "group?g=x",
        "group",
        "groups?run=9",
        "groups?state=odd",
        "groups?sort=odd",
        "groups?step=x",
        "group?g=0&rule=no-such",
        "group?g=0&rule=rlvr2*borda",
        "common?first=7",
        "place",
    ],
)
def test_what_is_not_there_is_one_clear_line(viewer: Viewer, question: str) -> None:
    status, body, _ = viewer.open(f"api/{question}")
    assert status in (400, 404)
    assert "Traceback" not in body.decode()
    assert json.loads(body)["error"]


def test_the_same_prompt_elsewhere(viewer: Viewer) -> None:
    found = viewer.ask("same", run=0, g=4)["found"]
    assert [(one["run"], one["g"]) for one in found] == [(0, 4), (1, 4)]
    assert viewer.ask("common", first=0, second=1)["total"] == 19


def test_lists_as_files(viewer: Viewer, demo_records: list[GroupRecord]) -> None:
    _, body, headers = viewer.open("api/export?run=0&step=1&format=csv")
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert len(rows) == sum(r.size for r in demo_records[5:10])
    assert float(rows[0]["reward"]) == demo_records[5].reward[0]
    assert "attachment" in headers["content-disposition"]
    _, body, _ = viewer.open("api/export?run=0&step=1&format=jsonl")
    assert [json.loads(line)["group"] for line in body.splitlines()] == [r.group for r in demo_records[5:10]]


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
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))
    assert address("::1", 80, None) == "http://[::1]:80/"
    assert address("0.0.0.0", 80, "t") == "http://0.0.0.0:80/?token=t"
    with _listen("127.0.0.1", 0) as taken, _listen("127.0.0.1", taken.getsockname()[1]) as other:
        assert other.getsockname()[1] != taken.getsockname()[1]
    with pytest.raises(InvalidInput, match="port"):
        _listen("203.0.113.1", 8642)
