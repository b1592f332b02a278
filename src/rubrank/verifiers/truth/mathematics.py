"""Mathematical equality by math-verify; runs in a worker process only (see `worker`)."""

from __future__ import annotations

import logging

_TAIL = 2000  # characters at the end of an answer in which its result is looked for


def equal(truth: str, answer: str) -> tuple[bool | None, str]:
    """Is the answer's result mathematically the truth? None: the truth is no mathematics. Time limits are the "
    "caller's."""
    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)  # it warns that its own time limits are off
    gold = parse(truth if _is_marked(truth) else f"${truth}$", parsing_timeout=None) or parse(
        truth, parsing_timeout=None
    )
    if not gold:
        return None, f"the truth {truth[:80]!r} is not mathematics"
    given = parse(answer[-_TAIL:], parsing_timeout=None)
    if not given:
        return False, "no mathematical result found in the answer"
    same = bool(verify(gold, given, timeout_seconds=None))
    return same, f"result {str(given[-1])[:80]!r}"


def _is_marked(text: str) -> bool:
    return "$" in text or "\\boxed" in text or "\\(" in text or "\\[" in text
