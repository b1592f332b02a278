"""The scale of a judge's answers: the numbers that it may write, and the scores they stand for.

    domain [0, 0.5, 1]                          asked 0, 0.5 or 1                     as they stand
    domain {low: 0, high: 1}                    asked an integer from 0 to 10         7 is 0.7
    anchors {0: bad, 1: neutral, 2: good}       asked 0, 1 or 2                       as they stand, and the domain
    anchors {1: …, …, 5: …}, domain 0 to 1      asked 1 to 5                          1 is 0, 3 is 0.5, 5 is 1

Models grade worse in decimals than in a few whole numbers, so a range is never asked as such. A user's anchors are the
scale, whatever the library would have asked: those inside the domain are scores as they stand, those of another scale
are mapped, its ends to the ends of the domain.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.verifiers.domain import BINARY, TERNARY, Domain, discrete

MOST_ANCHORS = 101
LEVELS = ("high", "between", "low")
_STEPS = 10  # of a range
_NEAR = 1e-9


@dataclass(frozen=True)
class Scale:
    """What may be written, lowest first, and the score of each."""

    asked: tuple[float, ...]
    scores: tuple[float, ...]
    steps: bool = False
    """Is it a range that is asked in steps?"""

    def score(self, number: float) -> float | None:
        """The score that a number stands for; None if it is not on the scale. Numbers are written with four digits."""
        pairs = zip(self.asked, self.scores, strict=True)
        return next((score for written, score in pairs if abs(written - number) <= 5e-5), None)

    def number(self, score: float) -> float | None:
        """What is written for a score: the nearest step of a range, else exactly it; None outside of the domain."""
        if self.steps and self.scores[0] <= score <= self.scores[-1]:
            return min(self.asked, key=lambda n: abs(self.score(n) - score))  # type: ignore[operator]
        pairs = zip(self.asked, self.scores, strict=True)
        return next(
            (written for written, own_score in pairs if abs(own_score - score) <= 5e-5), None
        )


def scale_of(domain: Domain, anchors: Mapping[float, str] | None, owner: str) -> Scale:
    """The scale of a domain, or that of the user's anchors in it; InvalidInput if they do not go together."""
    if not anchors:
        if domain.values:
            return Scale(domain.values, domain.values)
        numbers = tuple(map(float, range(_STEPS + 1)))
        return Scale(numbers, tuple(_map_to_domain(numbers, domain)), steps=True)
    anchor_scores = tuple(sorted(anchors))
    if domain.values:
        return _scale_of_values(anchor_scores, domain, owner)
    inside = all(domain.low <= number <= domain.high for number in anchor_scores)
    return Scale(
        anchor_scores, anchor_scores if inside else tuple(_map_to_domain(anchor_scores, domain))
    )


def _scale_of_values(asked: tuple[float, ...], domain: Domain, owner: str) -> Scale:
    if all(any(abs(number - value) <= _NEAR for value in domain.values) for number in asked):
        if asked[0] > domain.low + _NEAR or asked[-1] < domain.high - _NEAR:
            allowed = f"given for the lowest and the highest value of the domain, {domain.low:g} and {domain.high:g}"
            raise InvalidInput(owner, "anchors", allowed, _join_numbers(asked), "")
        return Scale(domain.values, domain.values)
    mapped = _map_to_domain(asked, domain)
    if len(asked) == len(domain.values) and all(
        abs(score - other) <= 1e-6 for score, other in zip(mapped, domain.values, strict=True)
    ):
        return Scale(asked, domain.values)
    allowed = (
        f"for values of the domain ({_join_numbers(domain.values)}), or a scale of as many steps"
    )
    remedy = "Without a domain, the numbers of the anchors are the scores."
    raise InvalidInput(owner, "anchors", allowed, _join_numbers(asked), remedy)


def _map_to_domain(numbers: tuple[float, ...], domain: Domain) -> list[float]:
    """Ends to ends, in proportion between."""
    low = numbers[0]
    span = numbers[-1] - numbers[0]
    # Rounded to eight digits, so that 3 of 10 is 0.3.
    return [
        round(domain.low + (domain.high - domain.low) * (number - low) / span, 8)
        for number in numbers
    ]


def _join_numbers(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


# ---------------------------------------------------------------------------------------------------- as a user writes


def read_anchors(given: Any, owner: str) -> dict[float, str]:
    """{0: bad, "1": neutral, 2: good} with numbers as keys; InvalidInput if it is no scale."""
    if not isinstance(given, Mapping):
        raise InvalidInput(
            owner, "anchors", "a mapping from values to what they mean", repr(given)[:80], ""
        )
    anchors: dict[float, str] = {}
    for key, text in given.items():
        number = _read_number(key)
        if number is None:
            raise InvalidInput(
                owner, "anchors", "given by numbers, such as {0: bad, 1: good}", repr(key)[:80], ""
            )
        if number in anchors:
            raise InvalidInput(
                owner, "anchors", "given once for every value", f"{number:g} twice", ""
            )
        anchors[number] = _read_text(owner, "anchors", key, text)
    if not 2 <= len(anchors) <= MOST_ANCHORS:
        raise InvalidInput(
            owner, "anchors", f"given for 2 to {MOST_ANCHORS} values", str(len(anchors)), ""
        )
    if not _all_differ(anchors.values()):
        raise InvalidInput(
            owner, "anchors", "of different texts", ", ".join(map(repr, anchors.values()))[:200], ""
        )
    return dict(sorted(anchors.items()))


def read_findings(given: Any, owner: str) -> dict[str | float, str]:
    """{high: cites, low: does not cite}, or a word for every value; InvalidInput otherwise."""
    if not isinstance(given, Mapping) or not given:
        allowed = "a mapping from high, between, low or from values to a word each"
        raise InvalidInput(owner, "findings", allowed, repr(given)[:80], "")
    findings: dict[str | float, str] = {}
    for key, text in given.items():
        level = key if key in LEVELS else _read_number(key)
        if level is None:
            allowed = "given by high, between and low, or by values"
            raise InvalidInput(owner, "findings", allowed, repr(key)[:80], "")
        findings[level] = _read_text(owner, "findings", key, text)
    if len({isinstance(key, str) for key in findings}) > 1:
        raise InvalidInput(
            owner,
            "findings",
            "given by high, between and low or by values, not by both",
            ", ".join(map(str, findings)),
            "",
        )
    if not _all_differ(findings.values()) and all(isinstance(key, str) for key in findings):
        raise InvalidInput(
            owner, "findings", "of different words", ", ".join(map(repr, findings.values())), ""
        )
    return findings


def _all_differ(texts: Iterable[str]) -> bool:
    plain = [unicodedata.normalize("NFKC", text).casefold() for text in texts]
    return len(set(plain)) == len(plain)


def check_findings(findings: Mapping[str | float, str], scale: Scale, owner: str) -> None:
    """Do they fit the scale?"""
    if all(isinstance(key, str) for key in findings):
        needed = {"high", "low"} | ({"between"} if len(scale.asked) > 2 else set())
        if not needed <= set(findings):
            names = ", ".join(name for name in LEVELS if name in needed)
            raise InvalidInput(
                owner, "findings", f"given for {names}", ", ".join(map(str, findings)), ""
            )
        return
    numbers = sorted(float(key) for key in findings)
    if len(numbers) != len(scale.asked) or any(scale.score(number) is None for number in numbers):
        allowed = f"given for every value of the scale: {_join_numbers(scale.asked)}"
        raise InvalidInput(owner, "findings", allowed, _join_numbers(numbers), "")


def _read_text(owner: str, parameter: str, key: object, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(owner, parameter, f"a text for {key}", repr(text)[:80], "")
    return " ".join(text.split())


def _read_number(key: Any) -> float | None:
    if isinstance(key, bool) or not isinstance(key, int | float | str):
        return None
    try:
        number = float(key)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def domain_of(anchors: Mapping[float, str]) -> Domain:
    """The domain whose values are the anchors' numbers."""
    values = tuple(sorted(anchors))
    return next(
        (domain for domain in (BINARY, TERNARY) if domain.values == values), None
    ) or discrete(*values)
