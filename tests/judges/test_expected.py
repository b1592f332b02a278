"""The expected value of a verdict, from log-probabilities."""

from __future__ import annotations

import json
import math

import pytest

from rubrank.judges.judge import Reply
from rubrank.judges.parsing import add_probabilities, read_absolute, read_expected
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict

INTENT = Criterion(name="CoreIntentMatch")
FACTS = Criterion(name="CoreFactAccuracy")
QUALITY = Criterion(name="GeneralQuality")


def said(text: str | None, **more: object) -> Reply:
    return Reply(text, **more)


def entry(verdict: object, finding: object = None, reasoning: str = "So it is.") -> str:
    return json.dumps({"reasoning": reasoning, "finding": finding, "verdict": verdict}, ensure_ascii=False)


def tokens(*steps: object) -> tuple[dict[str, object], ...]:
    """Tokens; a mapping of alternatives stands for its first."""
    found = []
    for step in steps:
        top = {step: 1.0} if isinstance(step, str) else step
        first = next(iter(top))
        logs = {token: math.log(p) for token, p in top.items()}
        found.append({"token": first, "logprob": logs[first], "top": logs})
    return tuple(found)


def expected(criterion: Criterion, *steps: object):
    logprobs = tokens(*steps)
    return read_expected(said("".join(str(token["token"]) for token in logprobs), logprobs=logprobs), criterion)


HEAD = ('{"', "reasoning", '": "', 'it said \\"verdict\\": 0', '", "', "verdict", '":')


def test_the_expected_value_of_a_binary_verdict():
    verdict = expected(INTENT, *HEAD, " ", {"1": 0.7, "0": 0.2, "maybe": 0.1}, "}")
    assert verdict.value == pytest.approx(7 / 9)
    assert verdict.reason.startswith("expected from 1: 0.78, 0: 0.22: it said")


def test_a_binary_verdict_may_be_true_or_false():
    verdict = expected(INTENT, *HEAD, " ", {"true": 0.7, "false": 0.2, "maybe": 0.1}, "}")
    assert verdict.value == pytest.approx(7 / 9)
    verdict = expected(INTENT, *HEAD, {" 1": 0.6, " false": 0.2, " true": 0.2}, "}")
    assert verdict.value == pytest.approx(0.8)


def test_the_probabilities_are_kept():
    verdict = expected(INTENT, *HEAD, " ", {"1": 0.7, "0": 0.2, "maybe": 0.1}, "}")
    assert verdict.probabilities == ((0.0, pytest.approx(2 / 9)), (1.0, pytest.approx(7 / 9)))
    quality = expected(QUALITY, *HEAD, " ", {"7": 0.75, "8": 0.25}, "}")
    assert [(value, p) for value, p in quality.probabilities if p] == [(0.7, 0.75), (0.8, 0.25)]
    assert math.fsum(p for _, p in quality.probabilities) == pytest.approx(1.0)


def test_probabilities_beside_a_verdict_that_stays_as_it_is():
    logprobs = tokens(*HEAD, " ", {"1": 0.6, "0": 0.4}, "}")
    reply = said("".join(str(token["token"]) for token in logprobs), logprobs=logprobs)
    verdict = add_probabilities(read_absolute(reply, INTENT), reply, INTENT)
    assert verdict.value == 1.0
    assert verdict.probabilities == ((0.0, pytest.approx(0.4)), (1.0, pytest.approx(0.6)))
    without = said(entry(1))
    assert add_probabilities(read_absolute(without, INTENT), without, INTENT).probabilities == ()


def test_each_criterion_of_a_batch_has_its_own_probabilities():
    logprobs = tokens(
        '{"CoreIntentMatch": {"reasoning": "not \\"CoreFactAccuracy\\": {", "verdict": ',
        {"1": 0.9, "0": 0.1},
        '}, "CoreFactAccuracy": {"reasoning": "", "verdict": ',
        {"0": 0.8, "1": 0.2},
        "}}",
    )
    reply = said("".join(str(token["token"]) for token in logprobs), logprobs=logprobs)
    for criterion, verdict, likely in ((INTENT, 1.0, 0.9), (FACTS, 0.0, 0.8)):
        read = add_probabilities(Verdict(verdict, ""), reply, criterion, criterion.name)
        assert dict(read.probabilities)[verdict] == pytest.approx(likely)
    assert add_probabilities(Verdict(1.0, ""), reply, INTENT, "Tone").probabilities == ()


def test_space_quotes_and_ends_may_be_part_of_the_token():
    assert expected(INTENT, *HEAD, {" 1": 0.75, " 0": 0.25}, "}").value == pytest.approx(0.75)
    assert expected(INTENT, *HEAD, {" 1}": 0.5, " 0}": 0.3, " 1": 0.2}).value == pytest.approx(0.7)
    assert expected(INTENT, *HEAD[:-1], {'": "1': 0.6, '": "0': 0.4}, '"}').value == pytest.approx(0.6)
    assert expected(INTENT, "Good.\n", "Verdict", ":", {" 1": 0.6, " 0": 0.4}).value == pytest.approx(0.6)
    assert expected(INTENT, "好。\n", "结论", "：", {"1": 0.6, "0": 0.4}).value == pytest.approx(0.6)


def test_values_of_several_tokens_are_followed():
    halves = expected(FACTS, *HEAD, " ", {"0": 0.8, "1": 0.2}, {".": 0.75, "}": 0.25}, {"5": 1.0}, "}")
    assert halves.value == pytest.approx(0.8 * 0.75 * 0.5 + 0.2)
    zero = expected(FACTS, *HEAD, " ", {"0": 0.8, "1": 0.2}, {"}": 0.75, ".": 0.25})
    assert zero.value == pytest.approx(0.8 * 0.25 * 0.5 + 0.2)


def test_a_beginning_of_several_values_is_divided_among_them():
    assert expected(FACTS, *HEAD, " ", {"1": 0.6, "0": 0.4}, "}").value == pytest.approx(0.6 + 0.2 * 0.5)


def test_continuous_domains():
    """They are asked in whole numbers from 0 to 10; "1" may be the beginning of 10."""
    verdict = expected(QUALITY, *HEAD, " ", {"8": 0.5, "7": 0.4, "10": 0.1}, "}")
    assert verdict.value == pytest.approx(0.5 * 0.8 + 0.4 * 0.7 + 0.1)
    begun = expected(QUALITY, *HEAD, " ", {"8": 0.8, "1": 0.2}, "}")
    assert begun.value == pytest.approx(0.8 * 0.8 + 0.1 * 0.1 + 0.1 * 1.0)


def test_a_scale_of_the_users_own_is_mapped():
    likert = Criterion(
        name="Tone", question="?", anchors={1: "bad", 3: "fair", 5: "good"}, domain={"low": 0, "high": 1}
    )
    verdict = expected(likert, *HEAD, " ", {"5": 0.5, "3": 0.5}, "}")
    assert verdict.value == pytest.approx(0.75)


@pytest.mark.parametrize(
    "steps",
    [
        [*HEAD, " ", {"1": 0.3, "maybe": 0.7}, "}"],
        [*HEAD, " ", {"1": 0.4, "null": 0.6}, "}"],
    ],
)
def test_too_little_mass_on_the_domain_is_missing(steps):
    verdict = expected(INTENT, *steps)
    assert verdict.value is None
    assert "of the probability" in verdict.reason


def test_without_log_probabilities_there_is_no_expectation():
    assert read_expected(said(entry(1)), INTENT).reason == "there are no log-probabilities"
    assert read_expected(said(entry(1), logprobs=()), INTENT).value is None
    elsewhere = read_expected(said(entry(1), logprobs=tokens("nothing", " here")), INTENT)
    assert elsewhere.reason == "the log-probabilities do not show the verdict"
    assert read_expected(said("No.", logprobs=tokens("No", ".")), INTENT).reason.startswith("no verdict")
