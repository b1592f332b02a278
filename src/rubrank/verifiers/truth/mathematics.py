"""Mathematical equality by math-verify; runs in a worker process only (see `worker`)."""

from __future__ import annotations

import logging

_TAIL = 2000  # characters at the end of an answer in which its result is looked for


def equal(truth: str, answer: str) -> tuple[bool | None, str]:
    """Is the answer's result mathematically the truth, and why? None: the truth is no mathematics.

    math-verify's own time limits are off: the caller's worker has one.
    """
    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)  # it warns that its own time limits are off
    is_marked = any(mark in truth for mark in ("$", "\\boxed", "\\(", "\\["))
    gold = parse(truth if is_marked else f"${truth}$", parsing_timeout=None)
    if not gold:
        gold = parse(truth, parsing_timeout=None)
    if not gold:
        return None, f"the truth {truth[:80]!r} is not mathematics"
    result = parse(answer[-_TAIL:], parsing_timeout=None)
    if not result:
        return False, "no mathematical result found in the answer"
    is_same = bool(verify(gold, result, timeout_seconds=None))
    return is_same, f"result {str(result[-1])[:80]!r}"
