"""A bound verifier says what its function says, asked plainly: on every example, and on whatever can go wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import (
    LONGEST_REASON,
    TERNARY,
    UNIT,
    VERIFIERS,
    Verdict,
    find_verifier,
    is_verifier,
    library_examples,
    loose_variants,
    missing,
    verifier,
)


def plainly(found, subject, arguments):
    """The function's answer as a verdict, step by step."""
    try:
        verdict = as_verdict(found.function(subject, **arguments))
        if len(verdict.reason) > LONGEST_REASON:
            verdict = Verdict(verdict.value, verdict.reason[:LONGEST_REASON] + " …")
    except Exception as error:
        return missing(f"{found.name} failed: {type(error).__name__}: {error}")
    if verdict.value is not None and not found.domain.holds(verdict.value):
        said = found.domain.description
        return missing(f"{found.name} gave {verdict.value:g}, which is not in its domain ({said})")
    return verdict


def as_verdict(answer):
    if isinstance(answer, Verdict):
        return answer
    value, reason = (
        answer if isinstance(answer, tuple) else (answer, "no verdict" if answer is None else f"gives {answer}")
    )
    if isinstance(value, str):
        raise TypeError(f"a verifier returns a bool, a number, or (value, reason), not {value!r}")
    return Verdict(None if value is None else float(value), reason)


def both(found, rollout, params, compat="fixed", mode="strict"):
    checked = found.check_parameters(params)
    arguments = {name: getattr(checked, name) for name in type(checked).model_fields}
    arguments |= {"compat": compat} if found.knows_compat else {}
    variants = loose_variants(rollout.answer) if mode == "loose" and found.knows_loose else [rollout.answer]
    verdicts = [
        plainly(
            found,
            Text(variant) if found.wants is Text else rollout.replace_answer(variant) if i else rollout,
            arguments,
        )
        for i, variant in enumerate(variants)  # the first is the response as it is
    ]
    verdict = max(verdicts, key=lambda v: -math.inf if v.value is None else v.value)  # the first of the best
    bound = found.bind(checked, compat, mode)(rollout)
    verified = found.verify(rollout, checked, compat=compat, mode=mode)
    assert bound == (verified.value, verified.reason)
    if " failed: " in verdict.reason:  # the file and the line of the failure come after it
        assert verified.value is None
        assert verified.reason.startswith(verdict.reason)
    else:
        assert verified == verdict
    return verdict


@pytest.mark.slow
def test_every_example():
    compared = 0
    for name, examples in library_examples().items():
        if not is_verifier(name) or find_verifier(name).cost == "process" or find_verifier(name).sees_group:
            continue
        for example in examples:
            rollout = Rollout(**{"response": example.get("text", ""), **example.get("rollout", {})})
            both(
                find_verifier(name),
                rollout,
                example.get("params", {}),
                example.get("compat", "fixed"),
                example.get("mode", "strict"),
            )
            compared += 1
    assert compared > 100


ANSWERS = [
    ((True, "yes"), 1.0),
    ((0, "no"), 0.0),
    ((0.5, "half"), 0.5),
    ((0.25, "quarter"), 0.25),
    ((7, "too much"), None),
    ((math.nan, "nothing"), None),
    (("1", "text"), None),
    ((None, "none"), None),
    (([1], "list"), None),
    (True, 1.0),
    (False, 0.0),
    (np.bool_(True), 1.0),
    (0.5, 0.5),
    (1, 1.0),
    (7, None),
    (None, None),
    ("yes", None),
    ([1], None),
    (Verdict(1.0, "whole"), 1.0),
    (Verdict(3.0, "out"), None),
    (missing("why"), None),
]


@pytest.mark.parametrize(("answer", "value"), ANSWERS, ids=repr)
@pytest.mark.parametrize("domain", [TERNARY, UNIT], ids=lambda d: d.kind)
def test_whatever_a_verifier_answers(answer, value, domain):
    @verifier("binding-test", domain=domain)
    def answers(text: Text, *, error: bool = False):
        if error:
            raise KeyError("no")
        return answer

    try:
        found = both(find_verifier("binding-test"), Rollout(response="x"), {})
        assert found.value == (value if value is None or domain.holds(value) else None)
        assert found.reason
        assert both(find_verifier("binding-test"), Rollout(response="x"), {"error": True}).value is None
    finally:
        del VERIFIERS["binding-test"]


def test_a_pair_without_a_reason_is_missing():
    @verifier("binding-test")
    def answers(text: Text):
        return (True,)

    try:
        found = find_verifier("binding-test")
        verdict = found.verify(Rollout(response="x"), found.check_parameters({}))
        assert (verdict.value, verdict.reason[:19]) == (None, "binding-test failed")
    finally:
        del VERIFIERS["binding-test"]
