"""Every row of data/gate_phrases.tsv finds its example; no row of its kind finds the counter-example."""

from __future__ import annotations

import re

import pytest

from rubrank import Rollout, find_verifier
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table

ROWS = read_table("gate_phrases")


@pytest.mark.parametrize(("kind", "language", "pattern", "example", "counter_example"), ROWS)
def test_rows(kind, language, pattern, example, counter_example):
    assert re.search(pattern, example, re.IGNORECASE)
    assert compile_phrases(kind).search(example)
    assert not compile_phrases(kind).search(counter_example)


def judge(name, response, prompt):
    gate = find_verifier(name)
    return gate.verify(Rollout(response=response, prompt=prompt), gate.check_parameters({})).value


@pytest.mark.parametrize(("example", "counter_example"), [row[3:] for row in ROWS if row[0] == "thinking_label"])
def test_labels_of_thinking(example, counter_example):
    assert judge("ThinkLeak", f"{example} 2 + 2 = 4", "What is 2 + 2?") == 0
    assert judge("ThinkLeak", f"{counter_example} 2 + 2 = 4", "What is 2 + 2?") == 1


@pytest.mark.parametrize(("example", "counter_example"), [row[3:] for row in ROWS if row[0] == "self_talk"])
def test_lines_of_self_talk(example, counter_example):
    """Four lines are a leak; the same words inside a line are none."""
    assert judge("ThinkLeak", "\n".join([f"{example} {n}" for n in "abcd"]), "What is 2 + 2?") == 0
    assert judge("ThinkLeak", "\n".join([f"{counter_example} {n}" for n in "abcd"]), "What is 2 + 2?") == 1
    assert judge("ThinkLeak", "\n".join([f"{n}: {example}" for n in "abcd"]), "What is 2 + 2?") == 1


@pytest.mark.parametrize(("example", "counter_example"), [row[3:] for row in ROWS if row[0] == "to_fill_in"])
def test_placeholders(example, counter_example):
    assert judge("EmptyAnswer", example, "Explain how tides work.") == 0
    assert judge("EmptyAnswer", counter_example, "Explain how tides work.") == 1
