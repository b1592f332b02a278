"""Patterns from rubrics: must match, must not. Under RE2, so that no pattern can keep the verifier busy."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Literal

import re2
from pydantic import Field

from rubrank._plain import clean
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier


def _compile(pattern: str, where: str, case_sensitive: bool) -> Any:
    flags = "(?s)" if where == "whole" else "(?ms)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive)


def _check_pattern(params: Any) -> str | None:
    """A pattern that RE2 cannot read is the rubric's fault, and reported before grading."""
    try:
        _compile(params.pattern, params.where, params.case_sensitive)
    except re2.error as error:
        return f"with a pattern that RE2 can read ({params.pattern[:60]!r}: {error})"
    return None


@verifier("Regex", family="presence", domain=BINARY, version=1, check=_check_pattern)
def regex(
    text: Text,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    must: Literal["match", "not match"] = "match",
    where: Literal["anywhere", "whole", "every line"] = "anywhere",
    relation: Relation = "at least",
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1,
    case_sensitive: bool = True,
) -> Answer:
    """The pattern (RE2 syntax) matches: somewhere `relation count` times, the whole answer, or every line of it.

    Passes: "ID-0042" for ID-\\d{4}.
    Fails: no match; another number of matches; a match where `must="not match"`. `^` and `$` mean lines, `.` any
        character. A pattern that RE2 cannot read is refused with the rubric.
    Not covered: look-around and back-references, which RE2 does not have.
    """
    try:
        compiled = _compile(pattern, where, case_sensitive)
    except re2.error as error:
        return missing(f"RE2 does not know the pattern: {error}")
    raw = clean(text.raw)
    if where == "whole":
        matches = compiled.fullmatch(raw.strip()) is not None
        subject = "the whole answer"
    elif where == "every line":
        lines = [line.strip() for line in raw.split("\n") if line.strip()]
        matches = bool(lines) and all(compiled.fullmatch(line) for line in lines)
        subject = "every line"
    else:
        # One match more than asked decides every relation, so no more are looked for.
        number = sum(1 for _ in islice(compiled.finditer(raw), max(count, 1) + 2))
        matches = holds(number, relation, count)
        subject = f"{number} match(es), {relation} {count} required:"
    reason = f"{subject} {'matches' if matches else 'does not match'} {pattern[:60]!r}"
    return matches == (must == "match"), reason
