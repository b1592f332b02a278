"""The judges of the demo: what is written in the bundled file is what they say, and nobody is called."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from rubrank.cli.demo import demo as demo_module
from rubrank.cli.demo.demo import MODEL, NOTICE, demo_judges
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.grading.grade import grade
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.judge import Reply
from rubrank.judges.parsing import read_absolute
from rubrank.judges.prompting import absolute_call
from rubrank.judges.prompting.reply_form import map_findings_to_numbers
from rubrank.judges.step import find_judged_cells, find_stopped, judge_groups
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.files import load_yaml
from rubrank.rubrics.rubric import Criterion, Rubric, parse_rubric

TEXT = (files("rubrank.cli.demo") / "demo_judge.yaml").read_text(encoding="utf-8")
SAID = load_yaml(TEXT)
GROUPS = load_demo_groups()
RANKINGS = [(name, query) for name, queries in SAID["listwise"].items() for query in queries]
VERDICTS = {
    (query, i, name): verdict
    for name, queries in SAID["absolute"].items()
    for query, verdicts in queries.items()
    for i, verdict in verdicts.items()
}
SMALL_PROGRAM = """
import socket, sys
from pathlib import Path

sys.modules[sys.argv[2]] = None  # importing it is an error
socket.socket.connect = socket.getaddrinfo = None  # and so is calling anybody

from rubrank.judges.step import judge_groups
from rubrank.rubrics.rubric import Criterion
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.cli.demo.demo import demo_judges
import numpy as np

group = next(group for group in load_demo_groups() if group.id == "book-a-table")  # no gate stops any of these
judges = demo_judges(Path(sys.argv[1]))
judgments = judge_groups([group], [[Criterion(name="GeneralQuality")]], [np.ones((8, 1), dtype=bool)], judges)
print(judgments.lost, judgments.account.hits, np.nansum(judgments.groups[0].outcomes["GeneralQuality"]))
"""


def asked_of(query: str) -> list[str]:
    """The judged criteria of a query."""
    return [name for kind in SAID.values() for name, queries in kind.items() if query in queries]


@pytest.fixture(scope="module")
def criteria():
    """Of every group: its own, then the judged ones."""
    made = []
    for group in GROUPS:
        judged = Rubric(criteria=tuple(Criterion(name=name) for name in asked_of(group.id)))
        made.append(parse_rubric(group.rubric, group.id).extended(judged).criteria)
    return made


@pytest.fixture(scope="module")
def table(criteria):
    """What the verifiers decide, with the judged cells open."""
    return grade(
        [
            group.model_copy(update={"rubric": Rubric(criteria=own)})
            for group, own in zip(GROUPS, criteria, strict=True)
        ],
        workers=0,
    )


@pytest.fixture(scope="module")
def asked(criteria, table, tmp_path_factory):
    """The file of replies, and what came of asking as grading does."""
    judges = demo_judges(tmp_path_factory.mktemp("demo") / "replies.sqlite")
    return judges, judge_all(criteria, table, judges)


def judge_all(criteria, table, judges):
    wanted = [
        find_judged_cells(own, graded.scores, graded.reasons, judges)
        for own, graded in zip(criteria, table, strict=True)
    ]
    return judge_groups(GROUPS, criteria, wanted, judges)


def expected_outcomes(places, size: int = 8) -> np.ndarray:
    """Who beats whom, read off the file."""
    place_of = {i: number for number, place in enumerate(places) for i in place}
    outcomes = np.full((size, size), np.nan)
    for i, j in permutations(place_of, 2):
        outcomes[i, j] = 0.5 if place_of[i] == place_of[j] else float(place_of[i] < place_of[j])
    return outcomes


def test_every_call_is_answered_from_the_file_and_nothing_in_it_is_left_over(asked):
    judges, judgments = asked
    with ReplyCache(judges.cache, read_only=True) as store:
        assert judgments.asked == judgments.account.hits == len(store) == len(RANKINGS) + len(VERDICTS)
        assert all(requests == 0 for _, _, requests, _ in store.ledger())
    assert judgments.lost == 0
    assert judgments.account.cost == 0


@pytest.mark.parametrize(("name", "query"), RANKINGS, ids=str)
def test_outcomes_are_the_ranking_of_the_file_with_its_ties(asked, name, query):
    number = next(number for number, group in enumerate(GROUPS) if group.id == query)
    outcomes = asked[1].groups[number].outcomes[name]
    places = SAID["listwise"][name][query]
    assert np.array_equal(outcomes, expected_outcomes(places), equal_nan=True)
    ties = sum(len(place) * (len(place) - 1) for place in places)
    assert (outcomes == 0.5).sum() == ties


def test_verdicts_are_those_of_the_file(asked):
    found = {
        (group.id, i, name): verdict
        for group, judgment in zip(GROUPS, asked[1].groups, strict=True)
        for (i, name), verdict in judgment.verdicts.items()
    }
    assert {key: verdict.value for key, verdict in found.items()} == {
        key: value(key[2], verdict) for key, verdict in VERDICTS.items()
    }
    for key, verdict in found.items():
        assert VERDICTS[key]["reasoning"][:40] in verdict.reason


def test_all_that_no_gate_stops_are_judged_and_nobody_else(criteria, table):
    for own, graded in zip(criteria, table, strict=True):
        passed = set(np.flatnonzero(~find_stopped(own, graded.scores)).tolist())
        places = SAID["listwise"]["GeneralQuality"][graded.id]
        ranked = [i for place in places for i in place]
        assert len(ranked) == len(set(ranked))
        assert set(ranked) == passed, graded.id
        for name in set(asked_of(graded.id)) - {"GeneralQuality"}:
            assert set(SAID["absolute"][name][graded.id]) == passed, graded.id


def value(name: str, said: dict) -> float:
    """The verdict, or what the items come to."""
    if "items" in said:
        criterion = Criterion(name=name)
        call = absolute_call(criterion, Rollout(prompt="Any.", response="Any."))
        return read_absolute(Reply(json.dumps(said)), criterion, call=call).value
    return said["verdict"]


def test_findings_are_words_of_their_criterion_and_both_ends_occur():
    for (_, _, name), said in VERDICTS.items():
        if "finding" in said:
            assert map_findings_to_numbers(Criterion(name=name))[said["finding"].replace(" ", "")] == (said["verdict"],)
    for name in SAID["absolute"]:
        assert {value(name, said) for (_, _, own), said in VERDICTS.items() if own == name} == {0, 1}


def test_everything_is_said_in_the_language_of_the_query():
    for group in GROUPS:
        notes = [note for place in SAID["listwise"]["GeneralQuality"][group.id] for note in place.values()]
        notes += [said["reasoning"] for (query, _, _), said in VERDICTS.items() if query == group.id]
        for note in notes:
            han = len(re.findall("[\u4e00-\u9fff]", note))
            assert (han > len(note) / 2) == (group.rollouts[0].metadata["language"] == "zh"), note


def test_a_second_run_adds_nothing(asked):
    judges, _ = asked
    again = demo_judges(Path(judges.cache))
    assert again == judges
    with ReplyCache(judges.cache, read_only=True) as store:
        assert len(list(store.ledger())) == len(RANKINGS) + len(VERDICTS)


def test_replies_of_an_older_version_are_not_taken(criteria, table, tmp_path, monkeypatch):
    cache = tmp_path / "replies.sqlite"
    with monkeypatch.context() as older:
        older.setattr(demo_module, "read_replies_file", lambda: TEXT.replace("verdict: 0", "verdict: null"))
        demo_judges(cache)
    verdicts = [
        verdict for one in judge_all(criteria, table, demo_judges(cache)).groups for verdict in one.verdicts.values()
    ]
    assert all(verdict.value is not None for verdict in verdicts)


def test_it_is_said_who_wrote_them(asked):
    for text in (TEXT.splitlines()[0], NOTICE):
        assert re.search("replies (were )?written for this demo", text, re.IGNORECASE)
        assert "no judge model was asked" in text
    judges, _ = asked
    assert {endpoint.model for judge in judges.judges for endpoint in judge.endpoints} == {MODEL}
    assert "written for the demo" in MODEL


@pytest.mark.slow
@pytest.mark.parametrize("module", ["openai", "httpx2", "aiolimiter"])
def test_the_base_package_will_do(module, tmp_path):
    command = [sys.executable, "-c", SMALL_PROGRAM, str(tmp_path / "replies.sqlite"), module]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout.split() == ["0", "1", "28.0"], run.stderr  # 8 × 7 / 2 comparisons, each worth one point
