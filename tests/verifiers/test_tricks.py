"""Cheap tricks of benchmarks/tricks.py fool no criterion but for known ones, and honest answers keep their credit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from cases import Cases

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.code_blocks import is_same_output
from rubrank.verifiers.verifier import find_verifier

OPEN = {
    ("Citations", "made up, in code"),
    ("Citations", "a reference further on"),
    ("ContainsAny", "the opinion of others"),
    ("SummaryRecall", "sorted words"),
    ("SummaryRecall", "a bag with small words"),
    ("SummaryRecall", "opposites"),
    ("SummaryRecall", "parts mixed"),
    ("EmptyAnswer", "an emoji"),
    ("EmptyAnswer", "the prompt"),
    ("EmptyAnswer", "I see"),
    ("RepeatSegment", "an emoji"),
    ("RepeatSegment", "another adjective"),
    ("ForbiddenContent", "written from the right"),
}
"""Tricks that still fool a criterion; docs/reliability.md counts them."""
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tricks.py"


def load_script():
    spec = importlib.util.spec_from_file_location("tricks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(name, response, params, prompt="Write about the coast."):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=response, prompt=prompt), verifier.check_parameters(params)).value


@pytest.mark.parametrize("name", ["TokenF1", "Rouge", "ChrF", "Bleu", "EditDistance"])
@pytest.mark.parametrize("hidden", ["<!-- {} -->", "<span style='display:none'>{}</span>"])
def test_a_hidden_reference_earns_nothing(name, hidden):
    reference = "The quick brown fox jumps over the lazy dog near the river bank"
    params = {"references": [reference]}
    assert judge(name, reference, params) == 1
    assert judge(name, "No. " + hidden.format(reference), params) < 0.2


def test_no_trick_earns_half_of_the_credit():
    with Cases() as cases:
        for trick in load_script().make_tricks():
            # TestsPass needs the sandbox: see test_agentic.
            if trick.criterion == "TestsPass" or (trick.criterion, trick.name) in OPEN:
                continue
            with cases(f"{trick.criterion}: {trick.name}"):
                value = judge(trick.criterion, trick.response, trick.params, trick.prompt)
                assert value is None or value < 0.5


@pytest.mark.parametrize(
    ("name", "response", "params"),
    [
        ("ContainsAny", "I think it was Paris.", {"references": ["Paris"]}),
        ("ContainsAny", "Not London but Paris is the capital.", {"references": ["Paris"]}),
        ("ContainsAny", "Paris, London and Rome.", {"references": ["Paris", "London", "Rome"]}),
        ("ContainsAny", "red, green, blue, black, white, grey", {"references": ["grey", "red"], "need": "all"}),
        ("Citations", "> the moon pulls the sea\n\nSo it is.", {"material": "The moon pulls the sea."}),
        ("Citations", "It's said that 'the moon pulls the sea' here.", {"material": "The moon pulls the sea."}),
        ("Citations", "The dog's tail and the cat's tail.", {"material": "The moon pulls the sea."}),
        (
            "SummaryRecall",
            "- Profits rose in 2020.\n- The plant closed.",
            {"points": ["Profits rose in 2020.", "The plant closed."]},
        ),
        ("DistinctN", "The sea is wide and deep.", {}),
        ("ContainsAny", "There is no doubt that it is Paris.", {"references": ["Paris"]}),
        ("ContainsAny", "I don't doubt that it is Paris.", {"references": ["Paris"]}),
        ("ContainsAny", "Is it Rome? No: it is Paris.", {"references": ["Paris"]}),
        ("ContainsAny", "London, Paris and Rome are large, but the capital is Paris.", {"references": ["Paris"]}),
        ("ContainsAny", "Every brushstroke was a battle against doubt.", {"references": ["brushstroke"]}),
        ("ForbiddenContent", "Plan A - B - C: the U.S.A., 4 rooms, сор из избы", {"words": ["bad", "cop"]}),
        ("ForbiddenContent", "The A.B.C. of W.H.O. advice; S.O.S. calls", {"words": ["abc", "who", "sos"]}),
        ("ForbiddenContent", "Room A11, the A55, bus B33", {"words": ["all", "ass", "bee"]}),
        ("ForbiddenContent", "From 5am to 10am, an 8in pipe, the 1st", {"words": ["sam", "loam", "bin", "lst"]}),
        ("ForbiddenContent", "item5 and Unit5", {"words": ["items", "units"]}),
        ("ForbiddenContent", "Options B A D C, codons C A T G", {"words": ["bad", "cat"]}),
        ("Citations", "<q>the moon pulls the sea</q> [1]", {"material": ["The moon pulls the sea."], "at_least": 1}),
        ("Keyword", '<span style="font-size:10px;opacity:0.9">lighthouse</span>', {"keywords": ["lighthouse"]}),
        ("Keyword", '<p style="color:#fff;background:#000">lighthouse</p>', {"keywords": ["lighthouse"]}),
        ("Keyword", '<p style="line-height:0.9;max-width:600px">lighthouse</p>', {"keywords": ["lighthouse"]}),
        ("Keyword", "$\\color{red}{lighthouse}$", {"keywords": ["lighthouse"]}),
    ],
)
def test_what_deserves_the_credit_keeps_it(name, response, params):
    assert judge(name, response, params) == 1


@pytest.mark.parametrize(
    ("expected", "written", "same"),
    [
        ("50", "5_0", False),
        ("50", "50.0001", True),
        ("nan", "nan", False),
        ("50", "５０", False),
        ("yes 1e3", "yes 1000", True),
        ("1_000", "1000", False),
    ],
)
def test_numbers_are_compared_as_numbers_only_if_they_are_written_as_numbers(expected, written, same):
    assert is_same_output(expected, written, "tokens", 0.01) is same


@pytest.mark.parametrize(
    ("name", "response", "params"),
    [
        ("ContainsAny", "Paris is wrong.", {"references": ["Paris"]}),
        ("ContainsAny", "巴黎是错的。", {"references": ["巴黎"]}),
        ("Citations", "It says „the sun pulls the sea“.", {"material": "The moon pulls the sea."}),
        ("Citations", "It says »the sun pulls the sea«.", {"material": "The moon pulls the sea."}),
        ("Citations", "『太陽が海を引く』とある。", {"material": "月が海を引く。"}),
        ("DateMatch", "It was not July 4, 1776.", {"truth": "1776-07-04"}),
    ],
)
def test_denials_and_inventions_earn_nothing(name, response, params):
    assert judge(name, response, params) == 0


def test_a_test_without_content_tests_nothing():
    assert judge("TestsPass", "```python\nx = 1\n```", {"tests": ["", " \n"]}) is None


def test_cases_that_expect_nothing_test_nothing():
    cases = [{"stdin": "1", "stdout": ""}, {"stdin": "2", "stdout": " \n"}]
    assert judge("TestsPass", "```python\npass\n```", {"cases": cases}) is None


def test_a_summary_in_another_order_keeps_its_credit():
    points = load_script().POINTS
    for answer in (
        "In 2020, profits rose sharply thanks to exports. After a long debate in May the board approved the merger. "
        "Next year the plant in Leeds will close.",
        "- Exports made profits rise sharply in 2020\n- In May, after a long debate, the merger was approved by the "
        "board\n- The Leeds plant will close next year",
    ):
        for prompt in ("Summarise the report.", load_script().LISTED, load_script().INLINE):
            assert judge("SummaryRecall", answer, {"points": points}, prompt) > 0.8


@pytest.mark.parametrize(
    ("word", "response"),
    [("USA", "The U.S.A. won."), ("damn", "D A M N"), ("damn", "d.a.m.n"), ("hell", "he11"), ("total", "t0ta1")],
)
def test_disguised_words_are_found(word, response):
    assert judge("ForbiddenContent", response, {"words": [word]}) == 0
