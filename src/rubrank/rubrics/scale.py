"""The scale of a judge's answers: the numbers that it may write, and the scores they stand for.

    criterion                                   the judge writes          score
    domain [0, 0.5, 1]                          0, 0.5 or 1               the number itself
    domain {low: 0, high: 1}                    0, 1, 2 … or 10           7 is 0.7
    anchors {0: bad, 1: neutral, 2: good}       0, 1 or 2                 the number itself; the domain is 0, 1, 2
    anchors {1: …, …, 5: …}, domain 0 to 1      1, 2, 3, 4 or 5           1 is 0, 3 is 0.5, 5 is 1

Models grade worse in decimals than in a few whole numbers, so for a range they are asked for whole numbers. If the user
gives anchors, their numbers are the scale. Numbers inside the domain are scores; numbers outside of it are mapped, so
that the lowest and the highest of them become the ends of the domain.

Words of this module:

    anchors     what numbers of the scale mean, for the prompt: {0: bad, 1: neutral, 2: good}
    findings    a word for each number, which the judge writes before the number, {1: cites, 0: does not cite}; a reply
                whose word and number disagree is not used. Also by level: {high: cites, low: does not cite}
    level       the part of the scale in which a number lies: "high", "between" or "low"
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
_RANGE_STEPS = 10  # a judge writes 0 to 10 for a range
_TOLERANCE = 1e-9  # numbers that differ by less are the same value
_WRITTEN_PRECISION = 5e-5  # judges read and write numbers with four digits after the point
_EQUAL_STEPS_TOLERANCE = 1e-6  # users round values such as 0.333333 in a domain


@dataclass(frozen=True)
class Scale:
    """The numbers that a judge may write, and the score of each."""

    numbers: tuple[float, ...]
    """Lowest first."""
    scores: tuple[float, ...]
    """The score of each number."""
    is_range: bool = False
    """Is the domain a range, which the numbers divide into equal steps?"""

    def match_number(self, number: float) -> float | None:
        """Return the number of the scale that a judge means (0.3333 is 1/3); None if it is not on the scale."""
        for allowed in self.numbers:
            if abs(allowed - number) <= _WRITTEN_PRECISION:
                return allowed
        return None

    def find_score(self, number: float) -> float | None:
        """Return the score that a number stands for; None if it is not on the scale."""
        allowed = self.match_number(number)
        return None if allowed is None else self.scores[self.numbers.index(allowed)]

    def find_number(self, score: float) -> float | None:
        """Return the number that stands for a score, on a range the nearest one; None if there is none."""
        nearest = min(range(len(self.scores)), key=lambda i: abs(self.scores[i] - score))
        is_in_range = self.is_range and self.scores[0] <= score <= self.scores[-1]
        if is_in_range or abs(self.scores[nearest] - score) <= _WRITTEN_PRECISION:
            return self.numbers[nearest]
        return None

    def find_level(self, number: float) -> str:
        """Return the level of a number of the scale: "high", "between" or "low".

        Of two or three numbers the ends are high and low, and the one in the middle is between, wherever it lies. A
        longer scale is divided into thirds.
        """
        low = self.numbers[0]
        high = self.numbers[-1]
        if low < number < high and len(self.numbers) == 3:
            return "between"
        share = (number - low) / (high - low)
        if share > 2 / 3:
            return "high"
        if share < 1 / 3:
            return "low"
        return "between"


def make_scale(domain: Domain, anchors: Mapping[float, str] | None, owner: str) -> Scale:
    """Return the scale of a domain, or of the user's anchors in that domain; the top of this file has examples.

    owner: the criterion, for errors. Raises InvalidInput if the anchors do not fit the domain.
    """
    if not anchors:
        if domain.values:
            return Scale(domain.values, domain.values)
        numbers = tuple(map(float, range(_RANGE_STEPS + 1)))
        return Scale(numbers, _map_to_domain(numbers, domain), is_range=True)
    numbers = tuple(sorted(anchors))
    if domain.values:
        return _make_scale_of_values(numbers, domain, owner)
    if all(domain.low <= number <= domain.high for number in numbers):
        return Scale(numbers, numbers)
    return Scale(numbers, _map_to_domain(numbers, domain))


def _make_scale_of_values(numbers: tuple[float, ...], domain: Domain, owner: str) -> Scale:
    """Return the scale of anchors with these numbers, in a domain that is a list of values.

    domain 0, 0.5, 1    anchors for 0 and 1          the judge writes 0, 0.5 or 1, which are the scores
                        anchors for 1, 2 and 3       the judge writes 1, 2 or 3, for the scores 0, 0.5 and 1
                        anchors for 0 and 0.5        InvalidInput: the highest value has none
                        anchors for 1, 2, 3 and 4    InvalidInput: four numbers for three values

    Raises InvalidInput if the numbers are neither values of the domain nor as many equal steps.
    """

    def is_value(number: float) -> bool:
        return any(abs(number - value) <= _TOLERANCE for value in domain.values)

    if all(map(is_value, numbers)):
        if numbers[0] > domain.low + _TOLERANCE or numbers[-1] < domain.high - _TOLERANCE:
            raise InvalidInput(
                owner,
                "anchors",
                allowed=f"given for the lowest and the highest value of the domain, {domain.low:g} and {domain.high:g}",
                got=_join_numbers(numbers),
            )
        # Values between the lowest and the highest need no anchors: the prompt says that they lie between others.
        return Scale(domain.values, domain.values)
    # The anchors are a scale of their own, such as 1 to 5 for the values 0, 0.25, 0.5, 0.75, 1.
    mapped = _map_to_domain(numbers, domain)
    if len(mapped) == len(domain.values):
        differences = [abs(a - b) for a, b in zip(mapped, domain.values, strict=True)]
        if max(differences) <= _EQUAL_STEPS_TOLERANCE:
            return Scale(numbers, domain.values)
    raise InvalidInput(
        owner,
        "anchors",
        allowed=f"for values of the domain ({_join_numbers(domain.values)}), or a scale of as many steps",
        got=_join_numbers(numbers),
        remedy="Without a domain, the numbers of the anchors are the scores.",
    )


def _map_to_domain(numbers: tuple[float, ...], domain: Domain) -> tuple[float, ...]:
    """Map the lowest number to the low end of the domain, the highest to its high end, and the others in proportion."""
    span = numbers[-1] - numbers[0]
    scores = []
    for number in numbers:
        share = (number - numbers[0]) / span
        # Rounded to eight digits, so that 3 of 10 is 0.3.
        scores.append(round(domain.low + (domain.high - domain.low) * share, 8))
    return tuple(scores)


def _join_numbers(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


# ---------------------------------------------------------------------------------------------- anchors and findings


def read_scale_words(field: str, data: Any, owner: str) -> dict[Any, str]:
    """Return a user's anchors or findings, lowest first: {0: bad, "1": neutral, 2: good} by number.

    Findings may also be given by level ({high: cites, low: does not cite}), but not by both.
    field: "anchors" or "findings". owner: the criterion. Raises InvalidInput if they are no scale.
    """
    has_levels = field == "findings"
    allowed = "given by numbers, such as {0: bad, 1: good}"
    if has_levels:
        allowed = (
            "given by high, between and low, or by numbers, such as {high: cites, low: does not}"
        )
    if not isinstance(data, Mapping) or not data:
        raise InvalidInput(owner, field, allowed, got=repr(data)[:80])
    text_by_key: dict[Any, str] = {}  # a number or a level → its text
    for written_key, text in data.items():
        is_level = has_levels and written_key in LEVELS
        key = written_key if is_level else read_number(written_key)
        if key is None:
            raise InvalidInput(owner, field, allowed, got=repr(written_key)[:80])
        if key in text_by_key:
            raise InvalidInput(owner, field, "given once for every value", got=f"{key:g} twice")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(owner, field, f"a text for {written_key}", got=repr(text)[:80])
        text_by_key[key] = " ".join(text.split())
    are_levels = [isinstance(key, str) for key in text_by_key]
    if any(are_levels) and not all(are_levels):
        raise InvalidInput(owner, field, allowed, got=", ".join(map(str, text_by_key)))
    if field == "anchors" and not 2 <= len(text_by_key) <= MOST_ANCHORS:
        count = str(len(text_by_key))
        raise InvalidInput(owner, field, f"given for 2 to {MOST_ANCHORS} values", got=count)
    # Findings by number may share a word, such as "weak" for 0 and 1; anchors and levels may not.
    different_texts = {
        unicodedata.normalize("NFKC", text).casefold() for text in text_by_key.values()
    }
    must_differ = field == "anchors" or all(are_levels)
    if must_differ and len(different_texts) < len(text_by_key):
        texts = ", ".join(map(repr, text_by_key.values()))[:200]
        raise InvalidInput(owner, field, "of different texts", got=texts)
    return dict(sorted(text_by_key.items())) if field == "anchors" else text_by_key


def check_findings(findings: Mapping[str | float, str], scale: Scale, owner: str) -> None:
    """Raise InvalidInput if the findings do not fit the scale.

    By level ("high", "between", "low"), each level of the scale needs a finding. A finding for "between" is allowed
    where the scale has no such number: the same findings may serve several criteria. By value, each number of the scale
    needs a finding, and each finding a number.
    """
    if all(isinstance(key, str) for key in findings):
        levels = {scale.find_level(number) for number in scale.numbers}
        needed = [level for level in LEVELS if level in levels]
        if not set(needed) <= set(findings):
            raise InvalidInput(
                owner,
                "findings",
                allowed=f"given for {', '.join(needed)}",
                got=", ".join(map(str, findings)),
            )
        return
    numbers = sorted(float(key) for key in findings)
    if tuple(map(scale.match_number, numbers)) != scale.numbers:
        raise InvalidInput(
            owner,
            "findings",
            allowed=f"given for every value of the scale: {_join_numbers(scale.numbers)}",
            got=_join_numbers(numbers),
        )


def read_number(value: Any) -> float | None:
    """Return the number that a value is or spells ("1"); None if it is not a finite number. True is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # a whole number of 400 digits has no float
        return None
    return number if math.isfinite(number) else None


def make_domain(anchors: Mapping[float, str]) -> Domain:
    """Return the domain whose values are the anchors' numbers."""
    values = tuple(sorted(anchors))
    for domain in (BINARY, TERNARY):
        if domain.values == values:
            return domain
    return discrete(*values)
