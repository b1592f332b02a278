"""The one number that a result gives: read, computed, and checked against itself.

>>> read_quantity("x = 6 \\\\times 7 = 42", listed=True).number.value, read_quantity("41 = 42", listed=True).problem
(42.0, '41 = 42 contradicts itself')
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

from rubrank._plain import word_set
from rubrank.verifiers.shared.arithmetic import evaluate
from rubrank.verifiers.shared.numbers import Number, dimension_of, prepare, read_numbers, units
from rubrank.verifiers.shared.numerals import read_korean, read_number_words
from rubrank.verifiers.shared.statements import ALTERNATIVE, is_denied


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or None and what is wrong with the text ("" if it simply holds none)."""

    number: Number | None
    problem: str = ""


_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,40}>")
_DOLLARS = re.compile(r"\$(?=\S)([^$\n]*[^$\s])\$(?!\d)")
_UNEQUAL = re.compile(
    r"[<>≤≥≠]|!=|\\(?:leq?|geq?|neq?|lt|gt|leqslant|geqslant)(?![a-zA-Z])"
    r"|\b(?:more|less|greater|fewer|larger|smaller) than\b|(?:大于|小于|不等于|超过"
    r"|不到)(?=\s*-?[\d一二三四五六七八九十])",
    re.IGNORECASE,
)
_EQUALS = re.compile(r"=|≡|\\equiv(?![a-zA-Z])")
_NEARLY = re.compile(r"≈|\\approx(?![a-zA-Z])|≃|≐|\\simeq(?![a-zA-Z])|~=")
_RANGE = re.compile(r"[\s$*_]*(?:-|–|—|~|～|to|through|bis|à|至|到|до|から)[\s$*_]*", re.IGNORECASE)
_BETWEEN = re.compile(r"\b(?:between|from|entre|zwischen|tra|между)\s*[$*_]*\Z|介于\Z|在\Z", re.IGNORECASE)
_LIST = re.compile(r"[\s$]*(?:,|;|、|，|and|和|und|et|y|e|и)[\s$]*", re.IGNORECASE)
_DECIMALS = re.compile(r"\d[.,](\d+)")


def read_quantity(text: str, *, listed: bool, last: bool = False) -> Quantity:
    """The number that a text gives as its result.

    `listed`: a comma between numbers makes a list, of which none is the result (in a box or tag; not in a sentence).
    `last`: the last number counts, not the first (for a line that is not marked as the result).
    """
    text = _TAG.sub(" ", prepare(text[:5000])).replace("\\(", " ").replace("\\)", " ").strip()
    text = _DOLLARS.sub(r"\1", text.replace("\\$", "$"))
    unequal = _UNEQUAL.search(text)
    if unequal and (listed or not last):
        return Quantity(None, f"“{unequal[0]}” is no equation")
    nearly = _NEARLY.split(text)
    sides = [side for part in nearly for side in _EQUALS.split(part)]
    if problem := _contradiction(_EQUALS.split(nearly[-1])):
        return Quantity(None, problem)
    side = sides[-1] if len(sides) > 1 and any(map(str.isalnum, sides[-1])) else text
    return _of_side(_stripped(side), listed, last)


def _stripped(side: str) -> str:
    side = side.strip(" *_").rstrip(" 。,;*_")
    return side if side.endswith("...") else side.rstrip(" .")


def _contradiction(sides: list[str]) -> str:
    """Two sides of an equation that are numbers and differ by more than rounding."""
    values = [(side.strip(), value) for side in sides if (value := evaluate(_stripped(side))) is not None]
    if len(values) < 2:
        return ""
    last, true = values[-1]
    for side, value in values[:-1]:
        whole = value == math.floor(value) and true == math.floor(true) if math.isfinite(value + true) else True
        digits = max((len(d) for s in (side, last) for d in _DECIMALS.findall(s)), default=0)
        if abs(value - true) > (1e-9 * abs(true) if whole else 10.0**-digits) or math.isinf(value):
            return f"{side} = {last} contradicts itself"
    return ""


def _of_side(side: str, listed: bool, last: bool) -> Quantity:
    numbers = read_numbers(side)
    text = prepare(side)
    plain = [n for n in numbers if not n.in_words] or numbers
    if len(numbers) != 1 or _is_sum(text, numbers[0]):
        value = evaluate(side) if "%" not in side else None
        if value is not None:
            written = side[:80]
            return (
                Quantity(None, f"{written} is too large")
                if math.isinf(value)
                else Quantity(Number(value, written=written))
            )
    stated = [n for n in (plain if last else numbers) if not is_denied(text, n.start)]
    if not stated:
        value = _in_words(side)
        return Quantity(Number(value, written=side[:80]) if value is not None else None)
    chosen = stated[-1] if last else stated[0]
    other = _other(text, stated, chosen, listed)
    if other is not None:
        return Quantity(None, f"ambiguous: {chosen.written} and {other.written}")
    return Quantity(chosen)


def _is_sum(text: str, number: Number) -> bool:
    """Is there more to compute than the number itself?"""
    rest = text[: number.start] + text[number.end :]
    return re.search(r"[\d!√π^]|\\(?:sqrt|pi)", rest) is not None and not re.search(r"\^\{?\\?circ|[mM]\^", rest)


def _other(text: str, numbers: list[Number], chosen: Number, listed: bool) -> Number | None:
    """Another number that is offered beside the chosen one, as an alternative, a range or (if `listed`) a list."""
    for one, two in itertools.pairwise(numbers):
        if chosen not in (one, two) or math.isclose(one.value, two.value, rel_tol=1e-9):
            continue
        range_of = _BETWEEN.search(text[: one.start]) is not None
        if any(_joins(between, listed or range_of) for between in _between(text, one, two)):
            return two if chosen is one else one
    return None


def _between(text: str, one: Number, two: Number) -> tuple[str, str]:
    """What stands between two numbers, with and without a unit: "41 apples or 42"."""
    between = text[one.end : two.start]
    return between, re.sub(r"^\s?[^\W\d]{1,12}\s", " ", between)


def _joins(between: str, listed: bool) -> bool:
    return bool(ALTERNATIVE.fullmatch(between) or _RANGE.fullmatch(between) or (listed and _LIST.fullmatch(between)))


_ARTICLES = word_set("un une una uno ein eine um uma een e y en et und")


def _in_words(side: str) -> float | None:
    """A number in words at the beginning of the text: "cuarenta y dos manzanas"."""
    words = re.sub(r"[*_.,;!¡¿?\"“”«»]", " ", side).split()[:12]
    for n in range(len(words), max(0, len(words) - 4), -1):
        phrase = " ".join(words[:n])
        if phrase.casefold() in _ARTICLES:
            continue
        value = read_number_words(phrase)
        value = read_korean(re.sub("(?:입니다|이다|개|명|예요|이에요)$", "", phrase)) if value is None else value
        if value is not None:
            return value
    return None


def is_close(given: Number, true: Number, tolerance: float) -> bool:
    """Are they the same quantity? Units convert; a unit or percent sign that only one of them has is taken as "
    "unsaid."""
    if given.unit and true.unit and dimension_of(given.unit) != dimension_of(true.unit):
        return False
    if math.isnan(given.value) or math.isnan(true.value):
        return False
    readings = [given.value]
    if true.percent and not given.percent:
        readings.append(given.value / 100)
    if given.percent and not true.percent and abs(true.value) >= 1:  # "what percentage": 50 stands for 50%
        readings.append(100 * given.value)
    if bool(given.unit) != bool(true.unit):  # one of them leaves the unit unsaid: as written
        factor = units().get(given.unit or true.unit, (1.0, ""))[0]
        readings.append(given.value / factor if given.unit else given.value * factor)
    return any(math.isclose(r, true.value, rel_tol=tolerance, abs_tol=1e-12) for r in readings)
