"""Patterns from rubrics: must match, must not. Under RE2, so that no pattern can keep the verifier busy."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal

import re2
from pydantic import Field

from rubrank._plain import clean
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, case_sensitive: bool, lines: bool) -> Any:
    """The pattern under RE2; an error of RE2's for what it does not know (look-around, back-references)."""
    flags = "(?ms)" if lines else "(?s)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive, max_mem=8 << 20)


def _check_pattern(params: Any) -> str | None:
    """A pattern that RE2 cannot read is the rubric's fault, and reported before grading."""
    try:
        compile_pattern(params.pattern, params.case_sensitive, params.where != "whole")
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
        compiled = compile_pattern(pattern, case_sensitive, where != "whole")
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
