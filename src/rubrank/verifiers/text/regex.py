"""Patterns from rubrics: must match, must not. Under RE2, so that no pattern can keep the verifier busy."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

import re2
from pydantic import Field

from rubrank._plain import clean
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier


@lru_cache(maxsize=512)
def compiled(pattern: str, case_sensitive: bool, lines: bool) -> Any:
    """The pattern under RE2; an error of RE2's for what it does not know (look-around, back-references)."""
    flags = "(?ms)" if lines else "(?s)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive, max_mem=8 << 20)


def _can_be_read(params: Any) -> str | None:
    """A pattern that no response could ever be checked with is the rubric's fault, and said before grading."""
    try:
        compiled(params.pattern, params.case_sensitive, params.where != "whole")
    except re2.error as error:
        return f"with a pattern that RE2 can read ({params.pattern[:60]!r}: {error})"
    return None


@verifier("Regex", family="presence", domain=BINARY, version=1, check=_can_be_read)
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

    Passes: "ID-0042" for ID-\\d{4}. Fails: no match; another number of matches; a match where `must="not match"`.
    `^` and `$` mean lines, `.` any character. A pattern that RE2 cannot read is refused with the rubric. Not covered:
    look-around and back-references, which RE2 has not.
    """
    try:
        found = compiled(pattern, case_sensitive, where != "whole")
        raw = clean(text.raw)
        if where == "whole":
            hit, said = found.fullmatch(raw.strip()) is not None, "the whole answer"
        elif where == "every line":
            lines = [line for line in raw.split("\n") if line.strip()]
            hit, said = bool(lines) and all(found.fullmatch(line.strip()) for line in lines), "every line"
        else:
            number = 0
            for _ in found.finditer(raw):
                number += 1
                if number > max(count, 1) + 1:
                    break
            hit, said = holds(number, relation, count), f"{number} match(es), {relation} {count} asked:"
    except re2.error as error:
        return missing(f"RE2 does not know the pattern: {error}")
    return hit == (must == "match"), f"{said} {'matches' if hit else 'does not match'} {pattern[:60]!r}"
