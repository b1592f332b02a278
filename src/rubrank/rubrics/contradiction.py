"""Criteria that no response can meet together: at most 50 words and at least 100, all capitals and no capitals.

    >>> from rubrank.rubrics.claims import Interval
    >>> claims = [("short", Interval("words", high=50)), ("long", Interval("words", low=100))]
    >>> compare_claims(claims)[0].message
    'words: “short” asks for at most 50, “long” for at least 100'

`claims.py` says what each verifier claims about a response. Claims about the same thing are compared here; nothing here
knows what a verifier does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from rubrank._plain import shortened
from rubrank.rubrics.claims import Claim, Contains, Interval, Lacks, OneOf, all_params, list_claims

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

NamedClaim: TypeAlias = tuple[str, Claim]
"""The name of a criterion, and one of its claims."""

_LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Contradiction:
    """Criteria that exclude each other (one, if it contradicts itself), and why."""

    criteria: tuple[str, ...]
    message: str


def find_contradictions(criteria: Iterable[Criterion]) -> tuple[Contradiction, ...]:
    """All contradictions among criteria that verifiers decide and for which a higher score is better."""
    claims: list[NamedClaim] = []
    for criterion in criteria:
        if not criterion.judged and criterion.direction == "higher":
            parameters = all_params(criterion)
            claims += [
                (criterion.name, claim)
                for claim in list_claims(criterion.decided_by.name, parameters)
            ]
    return compare_claims(claims)


def compare_claims(claims: Sequence[NamedClaim]) -> tuple[Contradiction, ...]:
    """All contradictions among claims; the first one of every pair of criteria."""
    by_criteria: dict[tuple[str, ...], Contradiction] = {}
    for name, claim in claims:
        if _is_impossible(claim):
            message = f"{_subject_of(claim)}: “{name}” asks for {claim}, which is impossible"
            by_criteria.setdefault((name,), Contradiction((name,), message))
    for contradiction in _compare_pairs(claims):
        by_criteria.setdefault(contradiction.criteria, contradiction)
    return tuple(by_criteria.values())


def _is_impossible(claim: Claim) -> TypeGuard[Interval | OneOf]:
    if isinstance(claim, Interval):
        return claim.low > claim.high
    return isinstance(claim, OneOf) and not claim.values


def _subject_of(claim: Interval | OneOf) -> str:
    """What the claim is about. Only claims about the same thing can contradict each other."""
    return claim.quantity if isinstance(claim, Interval) else claim.what


def _compare_pairs(claims: Sequence[NamedClaim]) -> Iterator[Contradiction]:
    """The contradictions between two claims each."""
    by_subject: dict[tuple[type, str], list[tuple[str, Interval | OneOf]]] = {}
    required: list[tuple[str, Contains]] = []
    forbidden: list[tuple[str, Lacks]] = []
    for name, claim in claims:
        if isinstance(claim, Contains):
            required.append((name, claim))
        elif isinstance(claim, Lacks):
            forbidden.append((name, claim))
        elif not _is_impossible(claim):
            by_subject.setdefault((type(claim), _subject_of(claim)), []).append((name, claim))
    for (_, subject), members in by_subject.items():
        for (a, first), (b, second) in combinations(members, 2):
            if _exclude_each_other(first, second):
                message = f"{subject}: “{a}” asks for {first}, “{b}” for {second}"
                yield Contradiction(tuple(dict.fromkeys((a, b))), message)
    for (a, contains), (b, lacks) in product(required, forbidden):
        if _is_forbidden(contains.text, lacks):
            quote = shortened(contains.text, _LONGEST_QUOTE)
            message = f"“{a}” asks for “{quote}”, “{b}” forbids “{lacks.text}”"
            yield Contradiction(tuple(dict.fromkeys((a, b))), message)


def _exclude_each_other(first: Interval | OneOf, second: Interval | OneOf) -> bool:
    if isinstance(first, Interval) and isinstance(second, Interval):
        return first.high < second.low or second.high < first.low
    if isinstance(first, OneOf) and isinstance(second, OneOf):
        return not first.values & second.values
    return False


def _is_forbidden(text: str, lacks: Lacks) -> bool:
    """Does the text contain what must not occur?"""
    text = text.casefold()
    forbidden = lacks.text.casefold()
    if not lacks.is_word:
        return forbidden in text
    return bool(forbidden) and re.search(rf"(?<!\w){re.escape(forbidden)}(?!\w)", text) is not None
