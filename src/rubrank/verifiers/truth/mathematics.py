"""Mathematical equality by math-verify; runs in a worker process only (see `worker`)."""

from __future__ import annotations

import logging
from typing import Any


def equal(truth: str, result: str) -> tuple[bool | None, str]:
    """Return whether the two formulas are equal (None: the truth is no mathematics), and the reason.

    math-verify's own time limits are off: the caller's worker has one.
    """
    from math_verify import verify

    logging.disable(logging.CRITICAL)  # it warns that its own time limits are off
    gold = _parse(truth)
    if not gold:
        return None, f"the truth {truth[:80]!r} is not mathematics"
    parsed = _parse(result)
    if not parsed:
        return False, "no mathematical result found in the answer"
    is_same = bool(verify(gold, parsed, timeout_seconds=None))
    return is_same, f"result {str(parsed[-1])[:80]!r}"


def _parse(formula: str) -> list[Any]:
    """Return what math-verify reads in the whole formula; [] if it cannot read it as a whole.

    By default, math-verify takes any number out of what it cannot parse.
    """
    from math_verify import LatexExtractionConfig, parse

    return list(
        parse(
            f"${' '.join(formula.split())}$",
            extraction_config=[LatexExtractionConfig(boxed_match_priority=-1)],
            fallback_mode="no_fallback",
            extraction_mode="first_match",
            parsing_timeout=None,
        )
    )
