"""Constraints that no response can meet together: at most 50 words and at least 100, all capitals and no capitals.

    >>> from rubrank.rubrics.contradiction import Interval, between
    >>> between([("short", Interval("words", high=50)), ("long", Interval("words", low=100))])[0].message
    'words: “short” asks for at most 50, “long” for at least 100'

Each verifier claims things about a response, as data: a number within an interval, one value of a choice, a text that
occurs, a character that does not. Claims about the same thing are then compared; nothing here knows what a verifier
does. A family adds a line for its verifiers with

    @claims("MyWordLimit")
    def _(p):
        yield Interval("words", high=p["most"])

where `p` holds all parameters, defaults too. Only what is certain is claimed: a doubt is no contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import rubrank.rubrics.contradiction_table  # noqa: F401 - registers what our own verifiers claim
from rubrank.rubrics.claims import CLAIMS, Claim, Contains, Interval, Lacks, OneOf, all_params, claims, claims_of

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

__all__ = [
    "CLAIMS",
    "Claim",
    "Contains",
    "Contradiction",
    "Interval",
    "Lacks",
    "OneOf",
    "all_params",
    "between",
    "claims",
    "claims_of",
    "contradictions",
    "occurs",
]


@dataclass(frozen=True)
class Contradiction:
    """Criteria (one, if it contradicts itself) that exclude each other, and why."""

    criteria: tuple[str, ...]
    message: str


# ---------------------------------------------------------------------------------------------------------- comparing


def contradictions(criteria: Iterable[Criterion]) -> tuple[Contradiction, ...]:
    """All contradictions among criteria that verifiers decide and for which passing is good."""
    found = [
        (criterion.name, claim)
        for criterion in criteria
        if not criterion.judged and criterion.direction == "higher"
        for claim in claims_of(criterion.decided_by.name, all_params(criterion))
    ]
    return between(found)


def between(found: Sequence[tuple[str, Claim]]) -> tuple[Contradiction, ...]:
    """Contradictions among claims, each with the name of who makes it."""
    alone = [Contradiction((name,), _impossible(name, c)) for name, c in found if _is_empty(c)]
    usable = [(name, claim) for name, claim in found if not _is_empty(claim)]
    candidates = combinations(usable, 2) if len(usable) <= _FEW else islice(_near_clashes(usable), _MOST_PAIRS)
    pairs = [
        Contradiction(tuple(dict.fromkeys((a, b))), message)
        for (a, first), (b, second) in candidates
        if (message := _clash(a, first, b, second) or _clash(b, second, a, first))
    ]
    first = {found.criteria: found for found in reversed([*alone, *pairs])}  # one for every pair says enough
    return tuple(dict.fromkeys(first[found.criteria] for found in [*alone, *pairs]))


_FEW = 400  # claims, of which every pair is looked at
_MOST_PAIRS = 1_000  # clashes among more claims; more would not be read
_MOST_LOOKS = 1_000_000
_Named: TypeAlias = tuple[str, Claim]


def _near_clashes(found: Sequence[_Named]) -> Iterator[tuple[_Named, _Named]]:
    """Pairs of very many claims that do clash, found without looking at every pair."""
    groups: dict[str, list[Any]] = {}
    for name, claim in found:
        if isinstance(claim, Interval):
            groups.setdefault(claim.quantity, []).append((name, claim))
    for intervals in groups.values():
        yield from _apart(intervals)
    choices = {(claim.what, claim.values): (name, claim) for name, claim in found if isinstance(claim, OneOf)}
    yield from islice(combinations(choices.values(), 2), _MOST_LOOKS)
    yield from _forbidden(found)


def _apart(intervals: list[tuple[str, Interval]]) -> Iterator[tuple[_Named, _Named]]:
    """The lowest upper ends with the highest lower ends, as long as they lie apart."""
    lows = sorted(intervals, key=lambda item: -item[1].low)
    for a, upper in sorted(intervals, key=lambda item: item[1].high):
        for b, lower in lows:
            if upper.high >= lower.low:
                break
            yield (a, upper), (b, lower)


def _forbidden(found: Sequence[_Named]) -> Iterator[tuple[_Named, _Named]]:
    """Texts that must occur with words and characters that must not: looked up, where these are single ones."""
    single: dict[str, _Named] = {}
    others: list[_Named] = []
    for name, claim in found:
        if isinstance(claim, Lacks):
            wanted = claim.text.casefold()
            if _parts(wanted) == {wanted} if claim.is_word else len(wanted) == 1:
                single.setdefault(wanted, (name, claim))
            else:
                others.append((name, claim))
    looks = 0
    for name, claim in found:
        if isinstance(claim, Contains):
            text = claim.text.casefold()
            for part in _parts(text) | set(text):
                if part in single:
                    yield (name, claim), single[part]
            looks += len(others)
            if looks <= _MOST_LOOKS:
                yield from (((name, claim), other) for other in others)


def _parts(text: str) -> set[str]:
    """Runs of letters, digits and _ in a text."""
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _is_empty(claim: Claim) -> bool:
    if isinstance(claim, Interval):
        return claim.low > claim.high
    return isinstance(claim, OneOf) and not claim.values


def _impossible(name: str, claim: Claim) -> str:
    what = claim.quantity if isinstance(claim, Interval) else ""
    return f"{what}: “{name}” asks for {claim}, which is impossible"


def _clash(a: str, first: Claim, b: str, second: Claim) -> str | None:
    """Why both cannot be, or None; to be asked both ways round."""
    if isinstance(first, Interval) and isinstance(second, Interval):
        apart = first.quantity == second.quantity and (first.high < second.low)
        return f"{first.quantity}: “{a}” asks for {first}, “{b}” for {second}" if apart else None
    if isinstance(first, OneOf) and isinstance(second, OneOf):
        apart = first.what == second.what and not first.values & second.values
        return f"{first.what}: “{a}” asks for {first}, “{b}” for {second}" if apart else None
    if isinstance(first, Contains) and isinstance(second, Lacks) and occurs(second, first.text):
        return f"“{a}” asks for “{_brief(first.text)}”, “{b}” forbids “{second.text}”"
    return None


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def occurs(lacks: Lacks, text: str) -> bool:
    """Does what must not occur stand in the text?"""
    text, wanted = text.casefold(), lacks.text.casefold()
    if not lacks.is_word:
        return wanted in text
    return any(_alone(text, start, len(wanted)) for start in _places(text, wanted))


def _places(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        yield start
        start = text.find(wanted, start + 1)


def _alone(text: str, start: int, length: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[start + length : start + length + 1]
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
