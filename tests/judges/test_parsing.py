"""Parsing one verdict: tolerant in form, strict in content; it never raises, and never makes up a value."""

from __future__ import annotations

import json

import pytest
from cases import folded

from rubrank.judges.judge import Reply
from rubrank.judges.parsing import read_absolute, read_batched, read_expected, read_listwise, read_pairwise
from rubrank.judges.prompting.prompt_files import LANGUAGES, load_prompt
from rubrank.rubrics.catalogue import KNOWN
from rubrank.rubrics.rubric import Criterion

INTENT = Criterion(name="CoreIntentMatch")
FACTS = Criterion(name="CoreFactAccuracy")
QUALITY = Criterion(name="GeneralQuality")
SCALE = Criterion(name="Funny", question="Is it funny?", domain=[-1, 0, 1, 2.5])
BAD = Criterion(name="Invents a dose", question="Does it invent a dose?", direction="lower")


def said(text: str | None, **more: object) -> Reply:
    return Reply(text, **more)


def entry(verdict: object, finding: object = None, reasoning: str = "So it is.") -> str:
    return json.dumps({"reasoning": reasoning, "finding": finding, "verdict": verdict}, ensure_ascii=False)


@folded(
    ("text", "value"),
    [
        ('{"reasoning": "r", "finding": "matches", "verdict": 1}', 1),
        ('{"reasoning": "r", "finding": "misses", "verdict": 0}', 0),
        ('{"reasoning": "判断如下", "finding": "匹配", "verdict": 1}', 1),
        ('{"reasoning": "r", "verdict": 1}', 1),
        ('{"verdict": 1}', 1),
        ('{"verdict": "1"}', 1),
        ('{"verdict": "１"}', 1),
        ('{"verdict": 1.0}', 1),
        ('{"verdict": true}', 1),
        ('{"verdict": false}', 0),
        ('{"Verdict": 1}', 1),
        ('{"理由": "好", "结论": 1}', 1),
        ('```json\n{"reasoning": "r", "verdict": 1}\n```', 1),
        ('```\n{"reasoning": "r", "verdict": 1}\n```\n', 1),
        ('```json\n{"reasoning": "r", "verdict": 1}', 1),
        ('{x} is a set.\n{"verdict": 1}', 1),
        ('It leaks a <think> tag.\n{"reasoning": "r", "verdict": 1}', 1),
        ('It is good.\n\n{\n  "reasoning": "r",\n  "verdict": 1\n}\n', 1),
        ("He said «no», “never” and ‘hm’; it isn’t so.\nVerdict: 1", 1),
        ("Er sagt „nein“.\nVerdict: 1", 1),
        ('Here it is:\n```json\n{"reasoning": "r", "verdict": 1}\n```', 1),
        ('{"reasoning": "r", "verdict": 1,}', 1),
        ('{"reasoning": "line\nbreak", "verdict": 1}', 1),
        ('<think>Perhaps {"verdict": 0}?</think>{"reasoning": "r", "verdict": 1}', 1),
        ('thinking without its first tag, verdict: 0</think>\n{"reasoning": "r", "verdict": 1}', 1),
        ('{"reasoning": "It leaks <think> tags.", "verdict": 1}', 1),
        ('{"reasoning": "first", "verdict": 1}\n{"reasoning": "again", "verdict": 1}', 1),
        ("It does what was asked.\nVerdict: 1", 1),
        ("It does what was asked.\n**Verdict:** 1", 1),
        ("**Verdict**: 0.", 0),
        ("## Final verdict: 1 (matches)", 1),
        ("Verdict = 1", 1),
        ("理由：答非所问。\n结论：0", 0),
        ("理由：很好。\n最终结论：１。", 1),
        ("Finding: misses\nVerdict: 0", 0),
    ],
)
def test_forms_that_are_understood(text, value):
    assert read_absolute(said(text), INTENT).value == value


@folded(
    ("text", "reason"),
    [
        ("", "the reply is empty"),
        ("   \n", "the reply is empty"),
        ("1", "no verdict"),
        ("The answer is 1.", "no verdict"),
        ("It is good.", "no verdict"),
        ('{"reasoning": "r"}', "no verdict"),
        ('{"reasoning": "r", "verdict": 2}', "verdict 2 is not one of 0, 1: r"),
        ('{"reasoning": "r", "verdict": 0.5}', "verdict 0.5 is not one of"),
        ('{"reasoning": "r", "verdict": "yes"}', "verdict yes is not one of"),
        ('{"reasoning": "r", "verdict": [1]}', "is not one of"),
        ('{"reasoning": "r", "verdict": {"a": 1}}', "is not one of"),
        ('{"verdict": NaN}', "broken JSON"),
        ('{"verdict": 1e999}', "is not one of"),
        ('{"reasoning": "r", "verdict": null}', "cannot tell: r"),
        ('{"reasoning": "r", "finding": "cannot be judged", "verdict": null}', "cannot tell: r"),
        ('{"reasoning": "r", "verdict": 1} {"reasoning": "s", "verdict": 0}', "two different verdicts"),
        ('{"reasoning": "r", "verdict": 1, "verdict": 0}', "broken JSON"),
        ('{"reasoning": "r", "verdict": 1', "broken JSON"),
        ('{"reasoning": "cut off in the mid', "broken JSON"),
        ('{"reasoning": "It says {"verdict": 1}", "finding": "misses", "verdict": 0', "broken JSON"),
        ("Verdict: 0 or 1", "no verdict"),
        ("Verdict: 1/2", "no verdict"),
        ("Verdict: 10", "is not one of"),
        ("Verdict: 0. It might be 1.", "no verdict"),
        ("Verdict: 1\nVerdict: 0", "two different verdicts"),
        ("I'm sorry, but I can't help with that.", "refused: I'm sorry"),
        ("I’m sorry, but I can’t help with that.", "refused: I’m sorry"),
        ("抱歉，我无法评判这个内容。", "refused: 抱歉"),
        ('The response says: "Verdict: 1"', "no verdict"),
        ('> {"reasoning": "r", "verdict": 1}\nHm.', "in a quotation"),
        ("It says “\nVerdict: 1\n” and no more.", "in a quotation"),
        ('It claims `{"verdict": 1}`.', "in a quotation"),
        ('It ends:\n```\n{"verdict": 1}\n```\nThat is all.', "in a quotation"),
        ('It is:\n```\nLake.\n{"verdict": 1}\n```', "in a quotation"),
        ('<response 0123456789ab>\n{"verdict": 1}\n</response 0123456789ab>', "in a quotation"),
        ('<response 0123456789ab>\n</response>\n{"verdict": 1}', "in a quotation"),
        ('<think>{"verdict": 1}', "the reply is empty"),
        ("x" * 300_000, "the reply is too long: 300,000 characters"),
        # in running words, or not at the end
        ('It does not deserve {"verdict": 1}.', "no verdict at the end"),
        ('Here is my judgment: {"reasoning": "r", "verdict": 1} Done.', "no verdict at the end"),
        ('I would say {"verdict": 1}', "no verdict at the end"),
        ('{"verdict": 1}\nBut who am I to judge?', "no verdict at the end"),
        ('{"verdict": 1}\nI cannot help with this.', "refused"),
        ('{"verdict": 1}\nI can’t help with this.', "refused"),
        ("The format is {\"verdict\": 1}.\nI'm sorry, I can't judge this.", "refused"),
        ("I'm sorry, but I can't evaluate that. The form would be:\nVerdict: 1", "refused"),
        ('{"reasoning": "I cannot assist with that request.", "verdict": 0}', "refused"),
        ('{"reasoning": "抱歉，我无法评判。", "verdict": 0}', "refused"),
        ("Verdict: 1\nNo, wait, it is the other way round.", "no verdict at the end"),
        ("- Verdict: 1\n- Confidence: low", "no verdict at the end"),
        # contradicted
        ('{"verdict": 1}\nVerdict: 0', "two different verdicts"),
        ('{"reasoning": "r", "verdict": 1}\n\n**Verdict:** 0', "two different verdicts"),
        ("Verdict: 1 — no, wait, zero", "no verdict in the line"),
        ("Verdict: 1, or rather 0", "no verdict in the line"),
        ("Verdict: 1 (or so)", "no verdict in the line"),
        ("Verdict: 1 (misses)", "verdict contradicts its reasoning"),
        ('{"reasoning": "It says "no".", "finding": "misses", "verdict": 1}', "verdict contradicts its reasoning"),
        ("Verdict: 1?", "no verdict in the line"),
        ("Verdict: not 1", "no verdict in the line"),
        ("Verdict: 1 out of 10", "no verdict in the line"),
        ("So the verdict is 0.\nVerdict: 1", "two different verdicts"),
        ('{"Verdict": 1, "verdict": 0}', "two different verdicts"),
        ('{"verdict": 1, "结论": 1}', "two different verdicts"),
        ('{"verdict": 1, "final_verdict": 0}', "not the form"),
        ('{"verdict": 1, "confidence": 0.1}', "not the form"),
        ('{"reasoning": {"verdict": 0}, "verdict": 1}', "not the form"),
        ('{"reasoning": ["a"], "verdict": 1}', "not the form"),
        ('[{"verdict": 1}]', "no verdict"),
        # quoted
        ("It says ‘\nVerdict: 1\n’", "in a quotation"),
        ("It says «\nVerdict: 1\n»", "in a quotation"),
        ("It says “well,\nVerdict: 1", "in a quotation"),
        ("It says «well,\nVerdict: 1", "in a quotation"),
        ("It says:\n\n    Verdict: 1", "in a quotation"),
        ("It says:\n\n\tVerdict: 1", "in a quotation"),
        ('It says:\n\n    {"verdict": 1}', "in a quotation"),
        ("> Verdict: 1", "no verdict"),
    ],
)
def test_what_is_no_verdict(text, reason):
    verdict = read_absolute(said(text), INTENT)
    assert verdict.value is None
    assert reason in verdict.reason
    assert len(verdict.reason) <= 400


def test_failures_come_first():
    for reply in (said(None, failure="timeout after 120 s"), said('{"verdict": 1}', failure="timeout after 120 s")):
        assert read_absolute(reply, INTENT).reason == "timeout after 120 s"
        assert read_expected(reply, INTENT).value is None
        assert read_pairwise(reply).reason == "timeout after 120 s"
        assert read_listwise(reply, 2) == (None, "timeout after 120 s")
        assert read_batched(reply, [INTENT, FACTS])["CoreFactAccuracy"].reason == "timeout after 120 s"
    assert read_absolute(said(None), INTENT).reason == "there is no reply"


def test_reasons_carry_the_judges_words():
    assert read_absolute(said(entry(1, "matches", "It names\nthe lake.")), INTENT).reason == "It names the lake."
    assert read_absolute(said("It names the lake.\nVerdict: 1"), INTENT).reason.startswith("It names the lake.")
    assert read_absolute(said('{"verdict": 1}'), INTENT).reason == "the judge gave no reason"
    odd = read_absolute(said('{"reasoning": "\\ud800", "verdict": 1}'), INTENT)
    assert odd.reason.encode()


@folded(
    ("criterion", "value"),
    [(FACTS, 0.5), (SCALE, -1), (SCALE, 2.5), (BAD, 1)],
)
def test_values_of_other_domains(criterion, value):
    assert read_absolute(said(entry(value)), criterion).value == value
    assert read_absolute(said(f"Right.\nVerdict: {value}"), criterion).value == value


RANGE = Criterion(name="Depth", question="How deep?", domain={"low": -1, "high": 3})
WORDS = {1: "last", 2: "third", 3: "second", 4: "first"}
GRADES = Criterion(name="Grade", question="?", domain=[1, 2, 3, 4], findings=WORDS)
LIKERT = Criterion(name="Tone", question="?", anchors={1: "bad", 2: "fair", 3: "good"}, domain={"low": 0, "high": 1})


@pytest.mark.parametrize(
    ("criterion", "number", "value"),
    [(QUALITY, 0, 0), (QUALITY, 3, 0.3), (QUALITY, 10, 1), (RANGE, 5, 1), (RANGE, 10, 3), (LIKERT, 2, 0.5)],
)
def test_a_range_is_answered_in_steps_or_anchors_and_mapped(criterion, number, value):
    assert read_absolute(said(entry(number)), criterion).value == value
    assert read_absolute(said(f"Right.\nVerdict: {number}"), criterion).value == value


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        (FACTS, 0.25),
        (SCALE, 2),
        (QUALITY, 11),
        (QUALITY, -1),
        (QUALITY, 0.37),
        (QUALITY, 7.5),
        (LIKERT, 0),
        (LIKERT, 4),
    ],
)
def test_values_outside_the_domain(criterion, value):
    assert read_absolute(said(entry(value)), criterion).value is None
    assert read_absolute(said(f"Verdict: {value}"), criterion).value is None


def test_thirds_are_recognised():
    thirds = Criterion(question="How far?", domain=[0, 1 / 3, 2 / 3, 1])
    assert read_absolute(said(entry(0.3333)), thirds).value == 1 / 3
    assert read_absolute(said(entry(0.33)), thirds).value is None


@folded(
    ("criterion", "finding", "value"),
    [
        (INTENT, "misses", 1),
        (INTENT, "不匹配", 1),
        (INTENT, "matches", 0),
        (INTENT, "cannot be judged", 1),
        (FACTS, "accurate", 0.5),
        (FACTS, "partly accurate", 1),
        (Criterion(name="Tone", question="?", anchors={0: "bad", 1: "neutral", 2: "good"}), "neutral", 2),
        (Criterion(name="Tone", question="?", findings={"high": "kind", "low": "unkind"}), "unkind", 1),
        (GRADES, "first", 2),
        (BAD, "does not hold", 1),
        (Criterion(name="Verbosity"), "defect", 1),
        (Criterion(name="Verbosity"), "clean", 0),
    ],
)
def test_a_verdict_that_contradicts_its_reasoning(criterion, finding, value):
    verdict = read_absolute(said(entry(value, finding, "My words.")), criterion)
    assert verdict.value is None
    assert verdict.reason.startswith("verdict contradicts its reasoning")
    assert "My words." in verdict.reason
    line = read_absolute(said(f"Finding: {finding}\nVerdict: {value}"), criterion)
    assert line.reason.startswith("verdict contradicts its reasoning")


@folded("tongue", LANGUAGES)
@folded("name", sorted({name for name, known in KNOWN.items() if known.how == "judge"}))
def test_honest_judges_do_not_trip(name, tongue):
    """Whatever pair the prompt allows is read as it is, in either language, capitals and full stops aside."""
    criterion, prompt = Criterion(name=name), load_prompt(name, tongue)
    scale = criterion.scale
    for number in scale.numbers:
        word = prompt.findings[scale.find_level(number)]
        for finding in (word, word.upper() + "."):
            value = read_absolute(said(entry(number, finding)), criterion).value
            assert value == scale.find_score(number)


def test_a_finding_in_other_words_is_no_contradiction():
    assert read_absolute(said(entry(1, "mostly fine")), INTENT).value == 1
    assert read_absolute(said(entry(1, None)), INTENT).value == 1
    assert read_absolute(said(entry(8, "poor")), QUALITY).value == 0.8, "no finding is asked on a longer scale"
