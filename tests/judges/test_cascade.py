"""Cascades: a cheap judge decides where it is sure, a better one the rest."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from scripted import CRITERION, LOST, group, question
from test_decision import answer_to

from rubrank.errors import InvalidInput
from rubrank.judges import count_calls, judge_question
from rubrank.judges.judge import Call, Escalation, Judge, Judgment, Reply, load_judges
from rubrank.judges.kinds.panel import calibrate_distribution, fit_isotonic
from rubrank.judges.step import judge_groups
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?")
ENDPOINT = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


def cascade(**given: Any) -> Judge:
    fallback = {"kind": "absolute", "endpoints": [{**ENDPOINT, "model": "better"}]}
    settings = {"kind": "decision", "endpoints": [ENDPOINT], "fallback": fallback, "escalate": 0.5, **given}
    return load_judges(settings).judges[0]


class Quick:
    """A decision model that is as sure of each response as it is told, by its name."""

    def __init__(self, yes: dict[str, float | None]) -> None:
        self.yes = yes

    async def ask(self, call: Call) -> Reply:
        body = json.loads(call.messages[0]["content"])
        yes = self.yes[body["state"]["response"].removeprefix("zq-").removesuffix("-qz")]
        if yes is None:
            return LOST
        return Reply(json.dumps({key: answer_to(asked, (1 - yes, yes)) for key, asked in body["questions"].items()}))


class Careful:
    """A better judge that always says no."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply or Reply('{"reasoning": "I looked.", "finding": "does not hold", "verdict": 0}')
        self.asked: list[str] = []

    async def ask(self, call: Call) -> Reply:
        text = call.messages[1]["content"]
        self.asked.append(text[text.index("zq-") + 3 : text.index("-qz")])
        return self.reply


def run(judge: Judge, yes: dict[str, float | None], careful: Careful, criteria: Any = (CRITERION,)) -> Judgment:
    about = question(group(*yes), criteria)
    askers = {id(judge): Quick(yes), id(judge.fallback): careful}
    return asyncio.run(judge_question(about, judge, lambda leaf: askers[id(leaf)]))


def test_the_least_sure_half_is_escalated():
    careful = Careful()
    judgment = run(cascade(), {"a": 0.99, "b": 0.55, "c": 0.9, "d": 0.4}, careful)
    assert sorted(careful.asked) == ["b", "d"]
    assert [judgment.verdicts[i, "Clear"].value for i in range(4)] == [1.0, 0.0, 1.0, 0.0]
    assert judgment.verdicts[1, "Clear"].reason == "escalated (1 by a margin of 0.10): I looked."
    assert judgment.verdicts[0, "Clear"].probabilities[1] == (1.0, 0.99)
    assert judgment.verdicts[1, "Clear"].probabilities == ()
    assert (judgment.asked, judgment.lost) == (6, 0)


def test_criteria_without_a_threshold_are_not_escalated():
    """A misspelt name in `thresholds` must not send everything to the expensive judge."""
    alone = Escalation.model_validate({"thresholds": {"Claer": 0.3}})
    assert (alone.threshold, alone.most) == (0.0, 1.0)
    beside = Escalation.model_validate({"thresholds": {"Clear": 0.3}, "threshold": 0.5})
    assert beside.threshold == 0.5


def test_thresholds_by_criterion_and_none_beyond_them():
    escalate = {"threshold": 0.3, "thresholds": {"Clear": 0.15}}
    careful = Careful()
    run(cascade(escalate=escalate), {"a": 0.99, "b": 0.55, "c": 0.6}, careful, (CRITERION, KIND))
    assert sorted(careful.asked) == ["b", "b", "c"]  # b on both, c (margin 0.2) on Kind alone
    careful = Careful()
    run(cascade(escalate={"threshold": 0.0}), {"a": 0.5, "b": 0.51}, careful)
    assert careful.asked == []


def test_all_are_escalated_only_on_request():
    certain = {"a": 1.0, "b": 0.0}
    for escalate, names in ((1.0, ["a", "b"]), ({"thresholds": {"Clear": 1.0}}, ["a", "b"]), (0.9, []), (0, [])):
        careful = Careful()
        run(cascade(escalate=escalate), certain, careful)
        assert sorted(careful.asked) == names


def test_a_missing_answer_is_escalated_first():
    careful = Careful()
    judgment = run(cascade(escalate=0.5), {"a": None, "b": 0.5}, careful)
    assert careful.asked == ["a"]
    assert judgment.verdicts[0, "Clear"].reason == "escalated (no answer): I looked."
    assert judgment.lost == 0


def test_without_an_answer_of_the_fallback_the_first_stands_and_the_loss_is_counted():
    judgment = run(cascade(escalate=1.0), {"a": 0.6, "b": None}, Careful(LOST))
    assert judgment.verdicts[0, "Clear"].value == 1.0
    assert judgment.verdicts[1, "Clear"].value is None
    assert (judgment.asked, judgment.lost) == (4, 3)
    assert judgment.missing["Clear"] == ["timeout after 1 s"] * 2


def test_equal_responses_are_escalated_together():
    careful = Careful()
    judge = cascade(escalate=0.5)
    about = question(group("a", "a", "b", "a"))
    askers = {id(judge): Quick({"a": 0.6, "b": 0.99}), id(judge.fallback): careful}
    judgment = asyncio.run(judge_question(about, judge, lambda leaf: askers[id(leaf)]))
    assert careful.asked == ["a"]
    assert [judgment.verdicts[i, "Clear"].value for i in range(4)] == [0.0, 0.0, 1.0, 0.0]


def test_a_share_of_less_than_a_cell_is_kept_on_average():
    escalated = 0
    for number in range(400):
        careful = Careful()
        run(cascade(escalate=0.15), {f"r{number}": 0.6}, careful)
        escalated += len(careful.asked)
    assert 40 <= escalated <= 80  # 60 expected, standard deviation 7


def test_what_is_escalated_is_repeated_and_independent_of_other_groups():
    yes = {f"r{i}": 0.5 + i / 100 for i in range(7)}
    first = Careful()
    again = Careful()
    run(cascade(escalate=0.3), yes, first)
    run(cascade(escalate=0.3), yes, again)
    assert first.asked == again.asked


def test_calls_are_bounded_before_they_are_made():
    judge = cascade(escalate=0.25)
    assert count_calls(question(8, (CRITERION, KIND)), judge) == 8 + 4


def test_in_a_step_both_judges_are_counted():
    judges = load_judges(
        {
            "kind": "decision",
            "endpoints": [ENDPOINT],
            "escalate": 1.0,
            "fallback": {"kind": "batched", "endpoints": [ENDPOINT]},
        }
    )
    careful = Careful(Reply('{"Clear": {"reasoning": "I looked.", "verdict": 0}}'))
    about = group("a", "b")

    def asker_of(leaf: Judge) -> Any:
        return Quick({"a": 0.7, "b": 1.0}) if leaf.kind == "decision" else careful

    judgments = judge_groups([about], [(CRITERION,)], [np.ones((2, 1), bool)], judges, asker_of=asker_of)
    assert judgments.groups[0].verdicts[0, "Clear"].value == 0.0
    assert judgments.account.calls == 4  # what is certain is escalated too


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"escalate": None}, "escalate"),
        ({"fallback": None}, "fallback"),
        ({"kind": "absolute"}, "says how sure"),
        ({"fallback": {"kind": "pairwise", "endpoints": [ENDPOINT]}}, "kind that scores"),
        ({"fallback": {"criteria": ["a"], "endpoints": [ENDPOINT]}}, "plain judge"),
        ({"escalate": 1.5}, "escalate"),
        ({"escalate": {"thresholds": {"Clear": 5}}}, "thresholds.Clear must be ≤ 1"),
        ({"escalate": {"thresholds": {"Clear": -1}}}, "thresholds.Clear must be ≥ 0"),
        ({"escalate": {"thresholds": {"Clear": float("nan")}}}, "thresholds.Clear must be a finite number"),
        ({"calibration": {"Clear": [[0.5, 0.9], [0.2, 0.1]]}}, "calibration"),
        ({"calibration": {"Clear": [[0.2, 0.9], [0.5, 0.1]]}}, "calibration"),
        ({"calibration": {"Clear": [[0.2, 0.1], [0.5, float("nan")]]}}, "calibration"),
        ({"calibration": {"Clear": []}}, "calibration"),
        ({"retry": {"first_wait": float("inf")}}, "first_wait"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InvalidInput, match=message):
        cascade(**change)


# -------------------------------------------------------------------------------------------------------- calibration


def test_isotonic_regression_pools_what_falls():
    assert fit_isotonic([0.1, 0.4, 0.8, 0.9], [0, 1, 0, 1]) == ((0.1, 0.0), (0.4, 0.5), (0.8, 0.5), (0.9, 1.0))
    assert fit_isotonic([0.5, 0.5, 0.5], [0, 1, 1]) == ((0.5, 2 / 3),)
    sklearn = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(3)
    given = rng.random(200)
    observed = (rng.random(200) < given**2).astype(float)
    knots = fit_isotonic(given.tolist(), observed.tolist())
    expected = sklearn.IsotonicRegression().fit_transform(given, observed)
    assert np.allclose(np.interp(given, *zip(*knots, strict=True)), expected)


def test_a_calibrated_distribution_is_one_again():
    knots = ((0.0, 0.0), (0.5, 0.2), (1.0, 0.9))
    mapped = calibrate_distribution(((0.0, 0.2), (0.5, 0.3), (1.0, 0.5)), knots)
    # P(≥ 0.5) = 0.8 → 0.2 + 0.6·0.7 = 0.62, P(≥ 1) = 0.5 → 0.2
    assert [p for _, p in mapped] == pytest.approx([0.38, 0.42, 0.2])


def test_calibration_changes_probabilities_scores_and_what_is_escalated():
    careful = Careful()
    calibration = {"Clear": [[0.0, 0.0], [0.8, 0.45], [1.0, 1.0]]}
    judgment = run(cascade(escalate={"threshold": 0.3}, calibration=calibration), {"a": 0.8, "b": 0.99}, careful)
    assert careful.asked == ["a"]
    assert judgment.verdicts[0, "Clear"].reason.startswith("escalated (0 by a margin of 0.10)")
    assert judgment.verdicts[1, "Clear"].probabilities[1][1] == pytest.approx(0.45 + 0.19 / 0.2 * 0.55)


def test_a_unanimous_panel_is_calibrated():
    """Three samples say 1. By the calibration, what nobody says is right in 30% of the cases, so the margin is 0.4."""
    calibration = {"Clear": [[0.0, 0.0], [1.0, 0.7]]}
    settings = {"kind": "absolute", "samples": 3, "endpoints": [ENDPOINT], "calibration": calibration}
    judge = load_judges(settings).judges[0]

    class Sure:
        async def ask(self, call: Call) -> Reply:
            return Reply('{"reasoning": "Plain.", "finding": "holds", "verdict": 1}')

    judgment = asyncio.run(judge_question(question(group("a"), (CRITERION,)), judge, lambda _: Sure()))
    verdict = judgment.verdicts[0, "Clear"]
    assert verdict.value == 1.0
    assert np.array(verdict.probabilities) == pytest.approx(np.array([[0.0, 0.3], [1.0, 0.7]]))
