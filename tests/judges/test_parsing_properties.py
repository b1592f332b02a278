"""Whatever a judge writes: the parser never raises, never leaves the domain, and ends."""

from __future__ import annotations

import json

import pytest
from cases import examples, folded
from hypothesis import example, given
from hypothesis import strategies as st

from rubrank.judges.judge import Reply
from rubrank.judges.parsing import read_absolute, read_batched, read_expected, read_listwise, read_pairwise
from rubrank.rubrics.rubric import Criterion

INTENT = Criterion(name="CoreIntentMatch")
FACTS = Criterion(name="CoreFactAccuracy")
QUALITY = Criterion(name="GeneralQuality")
SCALE = Criterion(name="Funny", question="Is it funny?", domain=[-1, 0, 1, 2.5])
BAD = Criterion(name="Invents a dose", question="Does it invent a dose?", direction="lower")


def said(text: str | None, **more: object) -> Reply:
    return Reply(text, **more)


PIECES = st.sampled_from(
    [
        "{",
        "}",
        '"',
        "verdict",
        ":",
        "1",
        "0",
        "0.5",
        "7",
        ",",
        "\n",
        "Verdict: 1",
        "结论：0",
        "```",
        ">",
        "“",
        "”",
        "<think>",
        "</think>",
        "[",
        "]",
        "A",
        "tie",
        " ",
        "\\",
        "null",
        '{"verdict": 1}',
        '{"verdict": 0}',
        '"finding"',
        "<response 0123456789ab>",
        "</response 0123456789ab>",
        "CoreIntentMatch",
        "１",
        "{'verdict': 1}",
        "\ud800",
        "NaN",
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["verdict", "finding", "1", "2"]), inner)
    ),
    max_leaves=8,
).map(lambda value: json.dumps({"verdict": value}))


@given(st.one_of(TEXTS, JSONS))
@example('{"verdict": ' + "9" * 5000 + "}")
@example("[" * 5000)
@example('{"a":' * 5000)
@examples(400)
def test_the_parser_never_raises_and_never_leaves_the_domain(text):
    reply = said(text)
    for criterion in (INTENT, FACTS, QUALITY, SCALE):
        value = read_absolute(reply, criterion).value
        assert value is None or criterion.value_domain.holds(value)
    assert all(v.value is None or v.value in (0, 0.5, 1) for v in read_batched(reply, [INTENT, FACTS]).values())
    assert read_pairwise(reply).value in (None, 0, 0.5, 1)
    ranks, reason = read_listwise(reply, 2)
    assert ranks in (None, (1, 1), (1, 2), (2, 1))
    assert reason


@given(
    st.lists(st.tuples(PIECES, st.dictionaries(PIECES, st.floats(), max_size=3), st.floats() | st.none()), max_size=20)
)
@examples(200)
def test_expectations_never_raise_and_never_leave_the_domain(steps):
    logprobs = tuple({"token": t, "top": top, "logprob": logprob} for t, top, logprob in steps)
    reply = said("".join(step[0] for step in steps) + '\n{"verdict": 1}', logprobs=logprobs)
    for criterion in (INTENT, QUALITY):
        value = read_expected(reply, criterion).value
        assert value is None or 0 <= value <= 1


@pytest.mark.timeout(120)  # a pattern that backtracks over the whole reply would take hours
@folded("piece", ["{", '{"', '{"a":', ' "a', "“", "`a ", "```\n", "> x\n", "\n*", "Verdict: ", ", ", "<a "])
def test_long_replies_without_a_verdict_are_missing(piece):
    text = piece * (190_000 // len(piece))
    verdict = read_absolute(said(text), INTENT)
    assert verdict.value is None
    assert verdict.reason
