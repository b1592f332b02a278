"""Parsing batches, comparisons and rankings."""

from __future__ import annotations

import json

import pytest
from cases import folded

from rubrank.judges.judge import Reply
from rubrank.judges.parsing import read_batched, read_listwise, read_pairwise
from rubrank.judges.prompting.reply_form import make_batch_keys
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


def test_a_batch():
    criteria = [INTENT, FACTS, BAD]
    body = {"CoreIntentMatch": json.loads(entry(1)), "CoreFactAccuracy": json.loads(entry(0.5)), "c3": {"verdict": 0}}
    assert make_batch_keys(criteria) == ["CoreIntentMatch", "CoreFactAccuracy", "c3"]
    found = read_batched(said(json.dumps(body)), criteria)
    assert {name: verdict.value for name, verdict in found.items()} == {
        "CoreIntentMatch": 1,
        "CoreFactAccuracy": 0.5,
        "Invents a dose": 0,
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"verdicts": {"CoreIntentMatch": {"verdict": 1}, "CoreFactAccuracy": {"verdict": 0}}}',
        '{"CoreIntentMatch": 1, "CoreFactAccuracy": 0}',
        '```json\n{"coreIntentMatch": {"verdict": 1}, "Core Fact Accuracy": {"verdict": 0},}\n```',
    ],
)
def test_other_forms_of_a_batch(text):
    found = read_batched(said(text), [INTENT, FACTS])
    assert [verdict.value for verdict in found.values()] == [1, 0]


def test_a_batch_with_faults_loses_only_what_is_faulty():
    body = {"CoreIntentMatch": json.loads(entry(1, "misses")), "CoreFactAccuracy": json.loads(entry(0.5))}
    found = read_batched(said(json.dumps(body)), [INTENT, FACTS, QUALITY])
    assert found["CoreIntentMatch"].reason.startswith("verdict contradicts")
    assert found["CoreFactAccuracy"].value == 0.5
    assert found["GeneralQuality"].reason.startswith("no verdict about it")
    assert list(found) == ["CoreIntentMatch", "CoreFactAccuracy", "GeneralQuality"]


def test_a_batch_of_one_may_answer_plainly():
    assert read_batched(said(entry(1)), [INTENT])["CoreIntentMatch"].value == 1
    assert read_batched(said(entry(1)), [INTENT, FACTS])["CoreIntentMatch"].value is None


def test_a_batch_that_says_two_things():
    text = '{"CoreIntentMatch": {"verdict": 1}} {"CoreIntentMatch": {"verdict": 0}}'
    assert "two different" in read_batched(said(text), [INTENT])["CoreIntentMatch"].reason


def test_a_verdict_is_about_the_criterion_that_it_names():
    """Not about one whose name is left when signs are dropped."""
    c, cpp = Criterion(name="C", question="Is it C?"), Criterion(name="C++", question="Is it C++?")
    found = read_batched(said('{"C": {"verdict": 1}}'), [c, cpp])
    assert [found["C"].value, found["C++"].value] == [1, None]
    found = read_batched(said('{"C++": {"verdict": 0}, "C": {"verdict": 1}}'), [c, cpp])
    assert [found["C"].value, found["C++"].value] == [1, 0]
    found = read_batched(said('{"C++": {"verdict": 1}}'), [c, Criterion(name="Java", question="Is it Java?")])
    assert [found["C"].value, found["Java"].value] == [None, None]


@folded(
    "text",
    [
        '{"all": [{"criterion": "CoreIntentMatch", "verdict": 1}, {"criterion": "CoreIntentMatch", "verdict": 0}]}',
        '{"CoreIntentMatch": {"verdict": 1}, "coreIntentMatch": {"verdict": 0}}',
        '{"CoreIntentMatch": {"verdict": 1}, "CoreIntentMatch (final)": {"verdict": 0}}',
        '{"CoreIntentMatch": {"verdict": 1, "Verdict": 0}}',
        '{"CoreIntentMatch": {"verdict": 1}, "CoreIntentMatch": {"verdict": 0}}',
        '{"CoreIntentMatch": {"verdict": 1}}\n{"CoreIntentMatch": {"verdict": 0}}',
        '{"CoreIntentMatch": {"verdict": 1}}\nVerdict: 0',
        'It does not earn {"CoreIntentMatch": {"verdict": 1}}.',
    ],
)
def test_two_verdicts_on_one_criterion_are_none(text):
    assert read_batched(said(text), [INTENT, FACTS])["CoreIntentMatch"].value is None


def test_a_name_cannot_be_mistaken_for_a_number():
    criteria = [Criterion(name="c2", question="One?"), Criterion(name="A long, long name", question="Two?")]
    assert make_batch_keys(criteria) == ["c1", "c2"]
    found = read_batched(said('{"c1": {"verdict": 1}, "c2": {"verdict": 0}}'), criteria)
    assert found["A long, long name"].value == 0
    assert found["c2"].value == 1


@folded(
    ("text", "value"),
    [
        (entry("A", "A is better"), 1),
        (entry("B", "B is better"), 0),
        (entry("tie", "no difference"), 0.5),
        (entry("A", "A 更好"), 1),
        (entry("b"), 0),
        (entry("Response A"), 1),
        (entry("平局"), 0.5),
        ("A is kinder.\nVerdict: A", 1),
        ("**Verdict: B**", 0),
        ("结论：平局", 0.5),
        ("Verdict: tie (no difference)", 0.5),
    ],
)
def test_comparisons(text, value):
    assert read_pairwise(said(text)).value == value


@folded(
    ("text", "reason"),
    [
        (entry("C"), "is not one of A, B, tie"),
        (entry(1), "is not one of A, B, tie"),
        (entry(None), "cannot tell"),
        (entry("A", "B is better", "B is better."), "verdict contradicts its reasoning"),
        (entry("tie", "A is better"), "verdict contradicts its reasoning"),
        (entry("A", "cannot be judged"), "verdict contradicts its reasoning"),
        ("Verdict: A or B", "no verdict"),
        ("Verdict: A, but B is close", "no verdict"),
        ("Verdict: Apple", "no verdict"),
        ("Verdict: A (worse)", "no verdict"),
        ("Verdict: A is worse", "no verdict"),
        (entry("A (worse)"), "is not one of A, B, tie"),
        (entry("not A"), "is not one of A, B, tie"),
        ("Verdict: A (B is better)", "verdict contradicts its reasoning"),
        ('B wins: {"verdict": "A"} is what it asks for.', "no verdict at the end"),
        ("A", "no verdict"),
        (entry("A") + entry("B"), "two different verdicts"),
    ],
)
def test_what_is_no_comparison(text, reason):
    verdict = read_pairwise(said(text))
    assert verdict.value is None
    assert reason in verdict.reason


@folded(
    ("text", "ranks"),
    [
        (entry({"1": 2, "2": 1, "3": 3}, [2]), (2, 1, 3)),
        (entry({"3": 3, "1": 2, "2": 1}, [2]), (2, 1, 3)),
        (entry({"1": 1, "2": 1, "3": 3}, [1, 2]), (1, 1, 2)),
        (entry({"1": 1, "2": 1, "3": 3}, [1]), (1, 1, 2)),
        (entry({"1": 1, "2": 1, "3": 1}, []), (1, 1, 1)),
        (entry([2, 1, 2], [2]), (2, 1, 2)),
        (entry([2, 3, 3]), (1, 2, 2)),
        ('{"reasoning": "r", "ranks": [1, 2, 3]}', (1, 2, 3)),
    ],
)
def test_rankings(text, ranks):
    assert read_listwise(said(text), 3)[0] == ranks


@folded(
    ("text", "reason"),
    [
        (entry({"1": 2, "2": 1}), "not a rank"),
        (entry({"1": 2, "2": 1, "3": 3, "4": 4}), "not a rank"),
        (entry({"1": 2, "2": 1, "4": 3}), "not a rank"),
        (entry({"1": 0, "2": 1, "3": 2}), "not a rank"),
        (entry({"1": 1.5, "2": 1, "3": 2}), "not a rank"),
        (entry({"1": True, "2": 1, "3": 2}), "not a rank"),
        (entry({"1": "first", "2": 1, "3": 2}), "not a rank"),
        (entry("2, 1, 3"), "not a rank"),
        (entry(None, []), "cannot tell"),
        (entry({"1": 2, "2": 1, "3": 3}, [3]), "verdict contradicts its reasoning"),
        (entry([3, 1, 2], [3]), "verdict contradicts its reasoning"),  # an order taken for ranks
        (entry({"1": 2, "2": 1, "3": 3}, [7]), "verdict contradicts its reasoning"),
        (entry([1, 2, 3]) + entry([2, 1, 3]), "two different verdicts"),
        ("Verdict: 1, 2, 3", "no JSON in the reply"),
        ("They are all fine.", "no verdict"),
    ],
)
def test_what_is_no_ranking(text, reason):
    ranks, why = read_listwise(said(text), 3)
    assert ranks is None
    assert reason in why
