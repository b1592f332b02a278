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
from rubrank.verifiers.shared.numbers import (
    Number,
    find_dimension,
    measure_unit,
    normalise_numbers,
    read_numbers,
)
from rubrank.verifiers.shared.numerals import read_korean, read_number_words
from rubrank.verifiers.shared.statements import ALTERNATIVE, is_denied
from rubrank.verifiers.truth.formulas import find_count, find_formula


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or None and what is wrong with the text ("" if it simply holds none)."""

    number: Number | None
    problem: str = ""


_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,40}>")
_DOLLARS = re.compile(r"\$(?=\S)([^$\n]*[^$\s])\$(?!\d)")  # $x = 5$; not "$5 and $6"
_INDEX_START = re.compile(r"(_\{\w{1,3})=[^{}]{1,20}\}")  # \sum_{k=5}: no equation
# "x > 3", "more than 3", 大于3.
_UNEQUAL = re.compile(
    r"""[<>≤≥≠] | != | \\(?:leq?|geq?|neq?|lt|gt|leqslant|geqslant)(?![a-zA-Z])
    | \b(?:more|less|greater|fewer|larger|smaller)[ ]than\b
    | (?:大于|小于|不等于|超过|不到)(?=\s*-?[\d一二三四五六七八九十])""",
    re.IGNORECASE | re.VERBOSE,
)
_EQUALS = re.compile(r"=|≡|\\equiv(?![a-zA-Z])")
_NEARLY = re.compile(r"≈|\\approx(?![a-zA-Z])|≃|≐|\\simeq(?![a-zA-Z])|~=")
_DECIMALS = re.compile(r"\d[.,](\d+)")
# What stands between the two numbers of a range ("5-10", "5 to 10"), before one, and between those of a list.
_RANGE = re.compile(r"[\s$*_]*(?:-|–|—|~|～|to|through|bis|à|至|到|до|から)[\s$*_]*", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\b(?:between|from|entre|zwischen|tra|между)\s*[$*_]*\Z|介于\Z|在\Z", re.IGNORECASE
)
_LIST = re.compile(r"[\s$]*(?:,|;|、|，|and|和|und|et|y|e|и)[\s$]*", re.IGNORECASE)

_VARIABLE = r"(?:(?<![^\W\d_])[A-Za-z](?![^\W\d_])|\\[a-zA-Z]+)"
_FUNCTION = r"(?:sin|cos|tan|cot|sec|csc|log|ln|lg|exp|sqrt|mod|gcd|lcm|max|min|choose)"
# Before a number that is part of a formula.
_FORMULA_BEFORE = re.compile(
    rf"""
    # an operand and an operator: "x + ", "y^2 · ", "3) - "
    (?: {_VARIABLE}(?:[_^]\{{?\w+\}}?)? | [\d)}}\]|!] ) \s*
        (?: [+−×·⋅÷/^_] | (?<!\*)\*(?!\*) | - | \\(?:times|cdot|div|pm) ) \s*\Z
    # the open argument of a command: "\frac{{", "\sqrt[3]{{"; not "\boxed{{"
    | \\(?!(?:boxed|fbox|text|mathrm|mathbf|textbf|bf|mbox)\b)[a-zA-Z]+\s*
        (?:\[[^\[\]]{{0,9}}\])?\{{[^{{}}]{{0,40}}\Z
    # an open power or index: "x^{{", "a_"
    | (?<=[\w)}}])[\^_]\{{?[^{{}}\s]{{0,20}}\Z
    # the second argument of a command: "\frac{{a}}{{"
    | \}}\{{[^{{}}]{{0,40}}\Z
    # the argument of a function: "f(", "log_2 "
    | (?<![^\W\d_])[A-Za-z]\([^()]{{0,20}}\Z
    | (?<![^\W\d_]){_FUNCTION}(?:_\{{?\w+\}}?)?\s*[({{]?\s*\Z
    # a bound: "x > "
    | (?:(?<![^\W\d_])[A-Za-z]|[|)])\s*(?:[<>≤≥≠]|\\(?:leq?|geq?|lt|gt|neq?))\s*\Z
    # the second coordinate of a point: "(3, "
    | [(\[{{]\s*-?[\d./]+\s*,\s*\Z
    """,
    re.VERBOSE,
)
# Behind a number that is part of a formula.
_FORMULA_AFTER = re.compile(
    rf"""
    \s*,\s*-?[\d./]+\s*(?:\\?[)\]}}]|,)                                # a further coordinate: ", 4)"
    | (?![eE]\d)[a-zXYZ](?![^\W\d_])(?!/[a-z]|\s[a-z]{{3,}})           # a factor: "y"; not "m/s"
    | [_^]                                                             # a power
    | \s?{_FUNCTION}(?![^\W\d_])                                       # " sin"
    | \([^()]{{0,40}}[a-z+*/^-]                                        # "(x + 1"
    | \s*\\(?:d?frac|sqrt|pi|theta|alpha|beta|phi|omega|lambda|mu|sin|cos|tan|log|ln|binom|times|cdot|div|pm|p?mod)
      (?![a-zA-Z])                                                     # "\pi"
    | \s*(?:[+×·⋅÷/]|(?<!\*)\*(?!\*))\s*(?:\d|{_VARIABLE}|\()          # an operator and an operand: " + 7"
    | (?:\s+-\s+|-)(?:\d|{_VARIABLE}|\()                               # " - x"
    | \s?[√π∞θ]
    | \s(?:mod|choose)\s
    | \s[nxyz](?=\s*(?:[-+*/^=.]|\Z))                                  # " x ="
    """,
    re.VERBOSE,
)
# Words that are numbers in some languages and articles or conjunctions in others.
_ARTICLES = word_set("un une una uno ein eine um uma een e y en et und")


def read_quantity(text: str, *, listed: bool, last: bool = False) -> Quantity:
    """Return the number that a text gives as its result.

    `listed`: a comma between numbers makes a list, of which none is the result (in a box or tag; not in a sentence).
    `last`: the last number counts, not the first (for a line that is not marked as the result).
    """
    text = (
        _TAG.sub(" ", normalise_numbers(text[:5000]))
        .replace("\\(", " ")
        .replace("\\)", " ")
        .strip()
    )
    text = _DOLLARS.sub(r"\1", text.replace("\\$", "$"))
    text = _INDEX_START.sub(r"\1}", text)
    unequal = _UNEQUAL.search(text)
    if unequal and (listed or not last):
        return Quantity(None, f"“{unequal[0]}” is no equation")
    # In "3.14159 ≈ 3.14" the sides may differ, so only what follows the last "≈" is checked.
    exact_part = _NEARLY.split(text)[-1]
    sides = _EQUALS.split(exact_part)
    problem = _find_contradiction(sides)
    if problem:
        return Quantity(None, problem)
    is_equation = len(sides) > 1 or exact_part != text
    result = sides[-1] if is_equation and any(map(str.isalnum, sides[-1])) else text
    count = find_count(text[-300:]) if last else ""
    if count and count in result:
        return _read_side(count, listed, last)
    return _read_side(_strip_side(result), listed, last)


def _strip_side(side: str) -> str:
    side = side.strip(" *_").rstrip(" 。,;*_")
    return side if side.endswith("...") else side.rstrip(" .")


def _find_contradiction(sides: list[str]) -> str:
    """Return a message about two sides that are numbers and differ by more than rounding; "" if there are none."""
    values: list[tuple[str, float]] = []
    for side in sides:
        value = evaluate(_strip_side(side))
        if value is not None:
            values.append((side.strip(), value))
    if len(values) < 2:
        return ""
    last, last_value = values[-1]
    for side, value in values[:-1]:
        allowed_difference = 1e-9 * abs(last_value)
        are_whole = value.is_integer() and last_value.is_integer()
        if math.isfinite(value + last_value) and not are_whole:
            # Decimals may be rounded: "1/3 = 0.33" is no contradiction.
            decimals = [*_DECIMALS.findall(side), *_DECIMALS.findall(last)]
            allowed_difference = 10.0 ** -max(map(len, decimals), default=0)
        if abs(value - last_value) > allowed_difference or math.isinf(value):
            return f"{side} = {last} contradicts itself"
    return ""


def _read_side(side: str, listed: bool, last: bool) -> Quantity:
    """Return the number that the last side of an equation, or a text without one, gives."""
    numbers = read_numbers(side)
    text = normalise_numbers(side)
    if "%" not in side and (len(numbers) != 1 or _has_operation(text, numbers[0])):
        value = evaluate(side)
        if value is not None and math.isinf(value):
            return Quantity(None, f"{side[:80]} is too large")
        if value is not None:
            return Quantity(Number(value, written=side[:80]))
    if last:
        numbers = [number for number in numbers if not number.in_words] or numbers
    stated = [number for number in numbers if not is_denied(text, number.start)]
    if not stated:
        value = _read_words(side)
        return Quantity(None if value is None else Number(value, written=side[:80]))
    chosen = stated[-1] if last else stated[0]
    if _is_in_formula(text, chosen):
        value = evaluate(find_formula(side, whole=not last))  # "the sum is 3 + 4"
        if value is not None and math.isfinite(value):
            return Quantity(Number(value, written=side[:80]))
        return Quantity(None, f"{chosen.written} is part of a formula")
    alternative = _find_alternative(text, stated, chosen, listed)
    if alternative is not None:
        return Quantity(None, f"ambiguous: {chosen.written} and {alternative.written}")
    return Quantity(chosen)


def _has_operation(text: str, number: Number) -> bool:
    """Is there more to compute than the number itself?"""
    rest = text[: number.start] + text[number.end :]
    has_degree_or_unit = re.search(r"\^\{?\\?circ|[mM]\^", rest) is not None
    has_operation = re.search(r"[\d!√π^]|\\(?:sqrt|pi)", rest) is not None
    return has_operation and not has_degree_or_unit


def _is_in_formula(text: str, number: Number) -> bool:
    """Is the number only a part of a formula: x + 7y, 3(x + 1), \\frac{a}{3}, f(3), x > 3?"""
    # The number was read with its sign, which may be an operator here.
    digits = text[number.start : number.end].lstrip("+-–−± ")
    start = number.end - len(digits)
    if _FORMULA_BEFORE.search(text[max(0, start - 60) : start]):
        return True
    if number.unit or number.percent:
        return False
    end = number.start + len(text[number.start : number.end].rstrip())
    after = _FORMULA_AFTER.match(text[end : end + 60].replace("$", ""))
    if after is None:
        return False
    # A comma makes a pair only in brackets: "(3, 4)", but "We had 3, 4 of them red".
    if after[0].lstrip().startswith(","):
        return re.search(r"[(\[{]\s*\Z", text[:start]) is not None
    return True


def _find_alternative(
    text: str, numbers: list[Number], chosen: Number, listed: bool
) -> Number | None:
    """Return another number beside the chosen one ("41 or 42", "41 to 42", if `listed` also "41, 42"); None if none."""
    for left, right in itertools.pairwise(numbers):
        if chosen not in (left, right) or math.isclose(left.value, right.value, rel_tol=1e-9):
            continue
        joints = [ALTERNATIVE, _RANGE]
        if listed or _BETWEEN.search(text[: left.start]):
            joints.append(_LIST)
        between = text[left.end : right.start]
        without_unit = re.sub(r"^\s?[^\W\d]{1,12}\s", " ", between)  # "41 apples or 42"
        if any(joint.fullmatch(between) or joint.fullmatch(without_unit) for joint in joints):
            return right if chosen is left else left
    return None


def _read_words(side: str) -> float | None:
    """Return the number that the text begins with in words ("cuarenta y dos manzanas": 42); None if there is none."""
    words = re.sub(r"[*_.,;!¡¿?\"“”«»]", " ", side).split()[:12]
    for n in range(len(words), max(0, len(words) - 4), -1):
        phrase = " ".join(words[:n])
        if phrase.casefold() in _ARTICLES:
            continue
        value = read_number_words(phrase)
        if value is None:
            value = read_korean(re.sub("(?:입니다|이다|개|명|예요|이에요)$", "", phrase))
        if value is not None:
            return value
    return None


def is_close(number: Number, true: Number, tolerance: float) -> bool:
    """Are they the same quantity? Units convert; one that has no unit or percent sign may mean the other's."""
    if number.unit and true.unit and find_dimension(number.unit) != find_dimension(true.unit):
        return False
    if math.isnan(number.value) or math.isnan(true.value):
        return False
    readings = [number.value]
    if true.percent and not number.percent:
        readings.append(number.value / 100)
    # "What percentage …?": a truth of 50 means 50%.
    if number.percent and not true.percent and abs(true.value) >= 1:
        readings.append(100 * number.value)
    # If only one of them has a unit, the other is read in that unit, too.
    if bool(number.unit) != bool(true.unit):
        factor, _ = measure_unit(number.unit or true.unit) or (1.0, "")
        readings.append(number.value / factor if number.unit else number.value * factor)
    return any(
        math.isclose(reading, true.value, rel_tol=tolerance, abs_tol=1e-12) for reading in readings
    )
