"""`bound` says what `Verifier.verify` says: on every example of the library, and on whatever can go wrong."""

from __future__ import annotations

import math

import pytest

from rubrank.engine.binding import bound
from rubrank.rollout import Rollout
from rubrank.text import Text
from rubrank.verbs.listing import _examples
from rubrank.verification import TERNARY, UNIT, VERIFIERS, Verdict, find_verifier, is_verifier, missing, verifier


def both(found, rollout, params, compat="fixed", mode="strict"):
    checked = found.check_parameters(params)
    verdict = found.verify(rollout, checked, compat=compat, mode=mode)
    assert bound(found, checked, compat, mode)(rollout) == (verdict.value, verdict.reason)
    return verdict


def test_every_example():
    compared = 0
    for name, examples in _examples().items():
        if not is_verifier(name) or find_verifier(name).cost == "process":
            continue
        for example in examples:
            rollout = Rollout(**{"response": example.get("text", ""), **example.get("rollout", {})})
            both(
                find_verifier(name), rollout, example.get("params", {}), example.get("compat", "fixed"),
                example.get("mode", "strict"),
            )  # fmt: skip
            compared += 1
    assert compared > 100


ANSWERS = [
    (True, "yes"), (0, "no"), (0.5, "half"), (0.25, "quarter"), (7, "too much"), (math.nan, "nothing"), ("1", "text"),
    (None, "none"), (True,), None, "yes", ([1], "list"), Verdict(1.0, "whole"), Verdict(3.0, "out"), missing("why"),
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
@pytest.mark.parametrize("domain", [TERNARY, UNIT], ids=lambda d: d.kind)
def test_whatever_a_verifier_answers(answer, domain):
    @verifier("binding-test", domain=domain)
    def answers(text: Text, *, error: bool = False):
        if error:
            raise KeyError("no")
        return answer

    try:
        both(find_verifier("binding-test"), Rollout(response="x"), {})
        assert both(find_verifier("binding-test"), Rollout(response="x"), {"error": True}).value is None
    finally:
        del VERIFIERS["binding-test"]
