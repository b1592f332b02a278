"""The examples in the docstrings of the English rules hold: a prompt, and everything the rule compiles from it."""

import ast
import re

import pytest

from rubrank.drafting.compiler import RULES
from rubrank.drafting.rules.endings import find_repeated_prompt
from rubrank.drafting.sentences import prepare_sentences

EXAMPLE = re.compile(r"^ {4}(?P<prompt>\S.*)\n {8}→ (?P<verifier>\S+) ?(?P<params>\{.*\})?$", re.MULTILINE)
CASES = [
    pytest.param(rule, match, id=f"{rule.__name__}: {match['prompt'][:40]}")
    for rule in (*RULES, find_repeated_prompt)
    for match in EXAMPLE.finditer(rule.__doc__)
]


@pytest.mark.parametrize(("rule", "example"), CASES)
def test_the_example_of_a_rule_holds(rule, example):
    prompt = example["prompt"]
    sentences = prepare_sentences(prompt)
    constraints = []
    if rule is find_repeated_prompt:
        constraints += rule(prompt, sentences)
    else:
        for sentence in sentences:
            constraints += rule(sentence, sentences)
    expected = []
    if example["verifier"] != "nothing":
        expected = [(example["verifier"], ast.literal_eval(example["params"]))]
    assert [(constraint.verifier, dict(constraint.params)) for constraint in constraints] == expected


@pytest.mark.parametrize("rule", [*RULES, find_repeated_prompt], ids=lambda rule: rule.__name__)
def test_every_rule_has_an_example(rule):
    assert EXAMPLE.search(rule.__doc__)


def test_an_empty_quotation_is_no_keyword():
    sentences = prepare_sentences('Include " " in your answer.')
    constraints = []
    for rule in RULES:
        constraints += rule(sentences[0], sentences)
    assert constraints == []
