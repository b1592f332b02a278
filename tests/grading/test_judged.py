"""Grading with judges, over HTTP: rules first, gates spare calls, answers and comparisons reach fusion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judges.server import MODEL, Answer, Asked, Server
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.errors import InvalidInput, JudgingFailed
from rubrank.grading.grade import grade
from rubrank.scores.files import read_scores

ANSWERS = ["West Lake, in the west of the town.", "A lake.", "Lake Tai is near, but it is not in Hangzhou.", ""]
ROWS = [{"prompt": "Name a lake in Hangzhou.", "group": "q", "response": answer} for answer in ANSWERS]
QUALITY = {
    "West Lake, in the west of the town.": 1.0,
    "A lake.": 0.2,
    "Lake Tai is near, but it is not in Hangzhou.": 0.5,
}
RUBRIC = {
    "criteria": [
        {"name": "WordCount", "params": {"relation": "at least", "count": 3}},
        {"name": "GeneralQuality", "weight": 2},
        {"name": "EmptyAnswer"},
    ]
}


def shown(asked: Asked) -> list[str]:
    """The responses in a prompt, in order."""
    found = re.findall(r"<(response\w*|response_\w+) (\w+)>\n(.*?)\n</\1 \2>", asked.prompt, re.S)
    return [text for _, _, text in found]


def scoring(asked: Asked) -> Answer:
    return Answer(
        json.dumps({"reasoning": "as asked", "finding": "in my own words", "verdict": 10 * QUALITY[shown(asked)[0]]})
    )


def ranking(asked: Asked) -> Answer:
    texts = shown(asked)
    order = sorted(range(len(texts)), key=lambda i: -QUALITY[texts[i]])
    ranks = {str(i + 1): order.index(i) + 1 for i in range(len(texts))}
    said = {"reasoning": "as asked", "finding": [order[0] + 1], "verdict": ranks}
    return Answer(json.dumps(said))


def judges(server: Server, **more: Any) -> dict[str, Any]:
    settings = {key: more.pop(key) for key in ("cache", "most_missing", "cascade", "cache_only") if key in more}
    judge = {
        "kind": "absolute",
        "endpoints": [{"base_url": server.url, "model": MODEL}],
        "timeout": 5,
        "retry": {"attempts": 1},
        **more,
    }
    return {"judges": [judge], "most_missing": 0.9, **settings}


def test_answers_fill_the_table_and_a_gate_spares_calls() -> None:
    with Server(scoring) as server:
        table = grade(ROWS, RUBRIC, judges=judges(server), workers=0)
        assert len(server.completions) == 3  # not about the empty answer
    group = table["q"]
    assert group.scores[:, 1] == pytest.approx([1.0, 0.2, 0.5, np.nan], nan_ok=True)
    assert group.reason(0, "GeneralQuality") == "as asked"
    assert group.reason(3, "GeneralQuality") == "not asked: a gate has stopped it"
    assert table.judging is not None
    assert table.judging.account.calls == 3
    reward = table.fuse().reward
    assert reward[0] > reward[2] > reward[1] > reward[3] == 0.0


def test_without_cascade_everybody_is_asked_about() -> None:
    with Server(lambda asked: scoring(asked) if shown(asked)[0] in QUALITY else Answer("?")) as server:
        grade(ROWS, RUBRIC, judges=judges(server, cascade=False), workers=0)
        assert len(server.completions) == 4


def test_comparisons_reach_fusion_without_becoming_scores(tmp_path: Path) -> None:
    with Server(ranking) as server:
        table = grade(ROWS, RUBRIC, judges=judges(server, kind="listwise"), workers=0)
        assert len(server.completions) == 1
    group = table["q"]
    assert np.isnan(group.scores[:, 1]).all()
    won = group.outcomes["GeneralQuality"]
    assert won[0, 1] == won[0, 2] == won[2, 1] == 1.0
    assert np.isnan(won[3]).all()
    assert group.reason(2, "GeneralQuality").startswith("better than 1, worse than 1 of 2; of the whole list: ")
    reward = table.fuse().reward
    assert reward[0] > reward[2] > reward[1] >= reward[3] == 0.0
    table.write(tmp_path / "scores.parquet")
    assert read_scores(tmp_path / "scores.parquet").fuse().reward.tolist() == reward.tolist()


def test_a_second_run_costs_nothing(tmp_path: Path) -> None:
    cache = str(tmp_path / "replies.sqlite")
    with Server(scoring) as server:
        first = grade(ROWS, RUBRIC, judges=judges(server, cache=cache), workers=0)
        asked = len(server.completions)
        again = grade(ROWS, RUBRIC, judges=judges(server, cache=cache), workers=0)
        assert len(server.completions) == asked
        configuration = judges(server, cache=cache, cache_only=True)
    offline = grade(ROWS, RUBRIC, judges=configuration, workers=0)
    for table in (again, offline):
        assert np.array_equal(table.scores, first.scores, equal_nan=True)
        assert table.judging is not None
        assert (table.judging.account.calls, table.judging.account.hits) == (0, 3)


def test_what_is_lost_is_missing_and_the_step_goes_on() -> None:
    lost = "A lake."
    with Server(lambda asked: Answer(status=500) if shown(asked)[0] == lost else scoring(asked)) as server:
        table = grade(ROWS, RUBRIC, judges=judges(server), workers=0)
        assert np.isnan(table["q"].score(1, "GeneralQuality"))
        assert "500" in table["q"].reason(1, "GeneralQuality")
        assert table.judging is not None
        assert table.judging.missing == pytest.approx(1 / 3)
        assert not np.isnan(table.fuse().reward).any()
        with pytest.raises(JudgingFailed, match="1 of 3"):
            grade(ROWS, RUBRIC, judges=judges(server, most_missing=0.2), workers=0)


def test_a_verifier_that_cannot_tell_passes_the_question_on() -> None:
    rubric = {"criteria": [{"name": "FormatRequirement"}, {"name": "WordCount", "params": {"count": 3}}]}
    with Server([Answer('{"reasoning": "fine", "finding": "met", "verdict": 1}')]) as server:
        table = grade(ROWS[:2], rubric, judges=judges(server), workers=0)
        assert len(server.completions) == 2
    assert table["q"].scores[:, 0].tolist() == [1.0, 1.0]


def test_scores_and_comparisons_do_not_mix() -> None:
    rubric = {"criteria": [{"name": "ImproperWording", "layer": "quality"}]}
    rows = [{**ROWS[0], "response": text} for text in ("You bloody idiot, it is the fucking West Lake.", "West Lake.")]
    decided = grade(rows, rubric, workers=0)["q"].scores[:, 0]
    assert decided.tolist()[0] == 0.0  # sure signs
    assert np.isnan(decided[1])
    with Server(ranking) as server:
        table = grade(rows, rubric, judges=judges(server, kind="pairwise"), workers=0)
        assert not server.completions
    assert table["q"].reason(1, "ImproperWording").startswith("cannot be judged")


def test_a_wrong_file_is_found_before_anything_is_graded(tmp_path: Path) -> None:
    path = tmp_path / "judges.yaml"
    path.write_text("judges:\n  - {kind: absolut, endpoints: [{base_url: 'http://x', model: m}]}\n")
    with pytest.raises(InvalidInput, match=r"judges\.yaml: .*kind must be one of"):
        grade("there-is-no-such-file.jsonl", RUBRIC, judges=path)


@pytest.mark.parametrize(("kind", "answer", "is_noted"), [("absolute", None, True), ("listwise", ranking, False)])
def test_compared_criteria_are_not_noted_as_yes_no(
    tmp_path: Path, kind: str, answer: Callable[[Asked], Answer] | None, is_noted: bool
) -> None:
    criteria = [RUBRIC["criteria"][0], {"name": "Taste", "question": "Is it well written?"}]
    rollouts, rubric, file = tmp_path / "rollouts.jsonl", tmp_path / "rubric.json", tmp_path / "judges.json"
    rollouts.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]))
    rubric.write_text(json.dumps({"criteria": criteria}))
    with Server(answer or [Answer('{"reasoning": "fine", "finding": "It is so, entirely.", "verdict": 1}')]) as server:
        file.write_text(json.dumps(judges(server, kind=kind, cache=str(tmp_path / "replies.sqlite"))))
        command = ["grade", str(rollouts), "-r", str(rubric), "--judges", str(file), "-o", str(tmp_path / "s.jsonl")]
        done = CliRunner().invoke(app, [*command, "--workers", "0"])
    assert done.exit_code == 0, done.output
    assert ("all criteria are yes/no" in done.stderr) == is_noted
