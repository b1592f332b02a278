"""Calibrating a cascade from two score tables, or from kept replies."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.errors import InvalidInput
from rubrank.judges.judge import load_judges
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.calibration import calibrate
from rubrank.verifiers.domain import UNIT

sys.path.append(str(Path(__file__).parent.parent / "judges"))


def tables(rows: list[list[tuple[float | None, float]]]) -> tuple[ScoreTable, ScoreTable]:
    """(probability of 1 by the cheap judge, verdict of the better one) of every rollout of every group."""
    criteria = (CriterionData("Tone"),)
    cheap = []
    better = []
    for number, cells in enumerate(rows):
        reasons = (("",),) * len(cells)
        distributions = tuple(() if p is None else ((0.0, 1.0 - p), (1.0, p)) for p, _ in cells)
        scores = np.array([[math.nan if p is None else float(p > 0.5)] for p, _ in cells])
        cheap.append(GroupScores(f"g{number}", criteria, scores, reasons, {}, {"Tone": distributions}))
        better.append(GroupScores(f"g{number}", criteria, np.array([[v] for _, v in cells]), reasons))
    return ScoreTable(tuple(cheap)), ScoreTable(tuple(better))


def test_the_threshold_is_the_smallest_that_reaches_the_agreement():
    quick, careful = tables([[(0.9, 1.0), (0.8, 1.0), (0.7, 0.0), (0.6, 1.0), (0.55, 0.0)]])
    result = calibrate(quick, careful, agreement=1.0, isotonic=False)
    (tone,) = result.criteria
    assert tone.agreement == 0.6
    # 0.7 (margin 0.4) is wrong, so everything below a margin of 0.6 is escalated: three of five
    assert (tone.threshold, tone.escalated, tone.reached) == (pytest.approx(0.6), 0.6, 1.0)
    half = calibrate(quick, careful, agreement=0.8, isotonic=False).criteria[0]
    assert (half.threshold, half.escalated, half.reached) == (pytest.approx(0.2), 0.2, 0.8)
    assert calibrate(quick, careful, agreement=0.5, isotonic=False).criteria[0].escalated == 0.0


def test_missing_answers_of_the_cheap_judge_are_escalated_and_of_the_better_left_out():
    quick, careful = tables([[(None, 1.0), (0.9, math.nan), (0.9, 1.0)]])
    (tone,) = calibrate(quick, careful, agreement=1.0, isotonic=False).criteria
    assert (tone.cells, tone.escalated, tone.agreement) == (2, 0.5, 0.5)


def test_an_answer_without_probabilities_is_certain_as_it_is_in_a_cascade():
    quick, careful = tables([[(0.9, 1.0), (0.6, 1.0), (0.8, 1.0)]])
    group = quick.groups[0]
    distributions = ((), *group.probabilities["Tone"][1:])
    bare = replace(group, probabilities={"Tone": distributions})
    (tone,) = calibrate(ScoreTable((bare,)), careful, agreement=1.0, isotonic=False).criteria
    assert (tone.cells, tone.agreement, tone.escalated) == (3, 1.0, 0.0)


def test_certain_answers_are_escalated_only_if_they_are_wrong():
    right, careful = tables([[(1.0, 1.0), (0.6, 0.0)]])
    (tone,) = calibrate(right, careful, agreement=1.0, isotonic=False).criteria
    assert (tone.escalated, tone.reached) == (0.5, 1.0)
    assert 0.2 < tone.threshold < 1.0
    wrong, careful = tables([[(1.0, 0.0), (0.6, 0.0)]])
    (tone,) = calibrate(wrong, careful, agreement=1.0, isotonic=False).criteria
    assert (tone.threshold, tone.escalated, tone.reached) == (1.0, 1.0, 1.0)


def test_written_thresholds_escalate_what_was_measured():
    quick, careful = tables([[(0.80002, 0.0), (0.80004, 1.0), (0.9, 1.0)]])
    result = calibrate(quick, careful, agreement=1.0, isotonic=False)
    threshold = result.settings()["escalate"]["thresholds"]["Tone"]
    assert 0.80002 - 0.19998 < threshold < 0.9 - 0.1


def test_the_curve_escalates_the_least_sure_first():
    cells = [(0.5 + i / 200, float(i >= 20)) for i in range(1, 100)]
    quick, careful = tables([cells])
    curve = calibrate(quick, careful, isotonic=False).curve
    agreements = [point.agreement for point in curve]
    assert agreements == sorted(agreements)
    assert agreements[0] == pytest.approx(80 / 99)
    assert next(point for point in curve if point.escalated == 0.2).agreement == 1.0
    assert curve[0].cost is None


def test_a_judge_that_is_too_sure_is_calibrated():
    rng = np.random.default_rng(7)
    truth = rng.random((60, 8))
    said = 1 / (1 + np.exp(-3.0 * np.log(truth / (1 - truth))))  # three times as sure as it should be
    verdicts = (rng.random(truth.shape) < truth).astype(float)
    rows = [[(p, v) for p, v in zip(a, b, strict=True)] for a, b in zip(said.tolist(), verdicts.tolist(), strict=True)]
    (tone,) = calibrate(*tables(rows)).criteria
    assert tone.error_before > 0.1
    assert tone.error_after < tone.error_before / 2
    settings = calibrate(*tables(rows)).settings()
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    judge = {"kind": "decision", "endpoints": [endpoint], "fallback": {"endpoints": [endpoint]}, **settings}
    assert load_judges(judge).judges[0].escalate.thresholds["Tone"] == pytest.approx(tone.threshold, abs=1e-4)


def test_on_a_range_a_judge_agrees_with_itself():
    quick, _ = tables([[(0.9, 1.0), (0.7, 1.0), (0.2, 0.0)]])
    criteria = (CriterionData("Tone", domain=UNIT),)
    means = np.array([[0.9], [0.7], [0.2]])
    group = replace(quick.groups[0], criteria=criteria, scores=means)
    (tone,) = calibrate(ScoreTable((group,)), ScoreTable((group,)), isotonic=False).criteria
    assert tone.agreement == 1.0
    better = replace(group, scores=np.array([[0.6], [0.4], [0.0]]), probabilities={})  # nearest to 1, 0 and 0
    (tone,) = calibrate(ScoreTable((group,)), ScoreTable((better,)), isotonic=False).criteria
    assert tone.agreement == pytest.approx(2 / 3)


def test_tables_that_do_not_fit_are_refused():
    quick, careful = tables([[(0.9, 1.0)]])
    other = tables([[(0.9, 1.0), (0.2, 0.0)]])[1]
    with pytest.raises(InvalidInput, match="the same rollouts"):
        calibrate(quick, other)
    with pytest.raises(InvalidInput, match="probabilities of nothing"):
        calibrate(careful, careful)
    others = replace(careful.groups[0], criteria=(CriterionData("Depth"),))
    with pytest.raises(InvalidInput, match="got probabilities of Tone"):
        calibrate(quick, ScoreTable((others,)))
    with pytest.raises(InvalidInput, match="agreement"):
        calibrate(quick, careful, agreement=2.0)


def test_on_the_command_line(tmp_path):
    quick, careful = tables([[(0.9, 1.0), (0.8, 1.0), (0.7, 0.0), (0.6, 1.0), (0.55, 0.0)]])
    quick.write(tmp_path / "quick.parquet")
    careful.write(tmp_path / "careful.parquet")
    files = [str(tmp_path / "quick.parquet"), str(tmp_path / "careful.parquet")]
    run = CliRunner().invoke(app, ["judge", "calibrate", *files, "--agreement", "1", "--raw", "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.output)["criteria"][0]["threshold"] == pytest.approx(0.6)
    output = tmp_path / "settings.yaml"
    run = CliRunner().invoke(app, ["judge", "calibrate", *files, "--agreement", "1", "--output", str(output)])
    assert run.exit_code == 0, run.output
    assert "Tone" in run.output
    assert set(yaml.safe_load(output.read_text())) == {"escalate"}  # too few answers for a calibration
    assert CliRunner().invoke(app, ["judge", "calibrate", files[0]]).exit_code != 0


def test_from_kept_replies(tmp_path):
    from server import Answer, Asked, Server
    from test_decision import answer_to

    def reply(asked: Asked) -> Answer:
        if asked.path.endswith("/systemone"):
            yes = 0.6 if "shaky" in asked.body["state"]["response"] else 0.95
            answers = {key: answer_to(body, (1 - yes, yes)) for key, body in asked.body["questions"].items()}
            return Answer(body=json.dumps({"answers": answers, "usage": {"input_tokens": 100}}))
        verdict = 0 if "shaky" in asked.prompt else 1
        finding = "holds" if verdict else "does not hold"
        return Answer(json.dumps({"reasoning": "Looked.", "finding": finding, "verdict": verdict}))

    rollouts = tmp_path / "rollouts.jsonl"
    texts = ["fine one", "shaky two", "fine three", "shaky four"]
    rollouts.write_text("".join(json.dumps({"prompt": "Say.", "response": text}) + "\n" for text in texts))
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text("criteria:\n  - {name: Clear, question: Is it clear?}\n")
    with Server(reply) as server:
        endpoint = {"base_url": server.url, "model": "test-model", "price": {"input": 1.0}}
        better = {"kind": "absolute", "endpoints": [{**endpoint, "price": {"input": 20.0}}]}
        judges = {
            "judges": [{"kind": "decision", "endpoints": [endpoint], "escalate": 1.0, "fallback": better}],
            "cache": str(tmp_path / "replies.sqlite"),
        }
        rubrank.grade(rollouts, rubric, judges=judges)
    path = tmp_path / "judges.yaml"
    path.write_text(yaml.safe_dump(judges))
    arguments = ["judge", "calibrate", "--judges", str(path), "--rubric", str(rubric), "--rollouts", str(rollouts)]
    run = CliRunner().invoke(app, [*arguments, "--agreement", "1", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert found["criteria"][0]["agreement"] == 0.5
    assert (found["criteria"][0]["escalated"], found["criteria"][0]["reached"]) == (0.5, 1.0)
