"""The one number that a result gives: in any notation, computed if it is an expression, checked if it is an equation.

>>> read_quantity("x = 6 \\\\times 7 = 42", listed=True).number.value
42.0
>>> read_quantity("41 = 42", listed=True).problem
'41 = 42 contradicts itself'
>>> read_quantity("41 or 42", listed=True).problem
'ambiguous: 41 and 42'

GroundTruthMatch reads results and truths with it. QuantityMatch has its own, simpler reader in `measurements`.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

from rubrank._plain import word_set
from rubrank.verifiers.shared.answers import ALTERNATIVE, is_denied
from rubrank.verifiers.shared.arithmetic import evaluate
from rubrank.verifiers.shared.numbers import (
    Number,
    normalise_numbers,
    read_korean,
    read_number_words,
    read_numbers,
)
from rubrank.verifiers.truth.formulas import find_count, find_formula

_LONGEST_RESULT = 5000  # characters of a result that are read


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number; or None, with the problem of the text ("" if it merely has no number)."""

    number: Number | None
    problem: str = ""


_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,40}>")  # <b>, </answer>
_DOLLARS = re.compile(r"\$(?=\S)([^$\n]*[^$\s])\$(?!\d)")  # $x = 5$; not "$5 and $6"
_INDEX_START = re.compile(r"(_\{\w{1,3})=[^{}]{1,20}\}")  # \sum_{k=5} is not an equation
# A bound: "x > 3", "more than 3", 大于3.
_UNEQUAL = re.compile(
    r"""[<>≤≥≠] | != | \\(?:leq?|geq?|neq?|lt|gt|leqslant|geqslant)(?![a-zA-Z])
    | \b(?:more|less|greater|fewer|larger|smaller)[ ]than\b
    | (?:大于|小于|不等于|超过|不到)(?=\s*-?[\d一二三四五六七八九十])""",
    re.IGNORECASE | re.VERBOSE,
)
_EQUALS = re.compile(r"=|≡|\\equiv(?![a-zA-Z])")
_NEARLY = re.compile(r"≈|\\approx(?![a-zA-Z])|≃|≐|\\simeq(?![a-zA-Z])|~=")
_DECIMALS = re.compile(r"\.(\d+)")
# Between the two numbers of a range: "5-10", "5 to 10".
_RANGE = re.compile(r"[\s$*_]*(?:-|–|—|~|～|to|through|bis|à|至|到|до|から)[\s$*_]*", re.IGNORECASE)
# Before a range: "between 5 and 10", 介于5和10.
_BETWEEN = re.compile(
    r"\b(?:between|from|entre|zwischen|tra|между)\s*[$*_]*\Z|介于\Z|在\Z", re.IGNORECASE
)
# Between the numbers of a list: "5, 10", "5 and 10".
_LIST = re.compile(r"[\s$]*(?:,|;|、|，|and|和|und|et|y|e|и)[\s$]*", re.IGNORECASE)

# A single letter or a command: x, \alpha. The two patterns below contain the placeholders VARIABLE and FUNCTION; in an
# f-string all their other braces would have to be doubled.
_VARIABLE = r"(?:(?<![^\W\d_])[A-Za-z](?![^\W\d_])|\\[a-zA-Z]+)"
_FUNCTION = r"(?:sin|cos|tan|cot|sec|csc|log|ln|lg|exp|sqrt|mod|gcd|lcm|max|min|choose)"
# Before a number that is part of a formula.
_FORMULA_BEFORE = re.compile(
    r"""
    # an operand and an operator: "x + ", "y^2 · ", "3) - "
    (?: VARIABLE(?:[_^]\{?\w+\}?)? | [\d)}\]|!] ) \s*
        (?: [+−×·⋅÷/^_] | (?<!\*)\*(?!\*) | - | \\(?:times|cdot|div|pm) ) \s*\Z
    # the open argument of a command: "\frac{", "\sqrt[3]{"; not "\boxed{"
    | \\(?!(?:boxed|fbox|text|mathrm|mathbf|textbf|bf|mbox)\b)[a-zA-Z]+\s*
        (?:\[[^\[\]]{0,9}\])?\{[^{}]{0,40}\Z
    # an open power or index: "x^{", "a_"
    | (?<=[\w)}])[\^_]\{?[^{}\s]{0,20}\Z
    # the second argument of a command: "\frac{a}{"
    | \}\{[^{}]{0,40}\Z
    # the argument of a function: "f(", "log_2 "
    | (?<![^\W\d_])[A-Za-z]\([^()]{0,20}\Z
    | (?<![^\W\d_])FUNCTION(?:_\{?\w+\}?)?\s*[({]?\s*\Z
    # a bound: "x > "
    | (?:(?<![^\W\d_])[A-Za-z]|[|)])\s*(?:[<>≤≥≠]|\\(?:leq?|geq?|lt|gt|neq?))\s*\Z
    # the second coordinate of a point: "(3, "
    | [(\[{]\s*-?[\d./]+\s*,\s*\Z
    """.replace("VARIABLE", _VARIABLE).replace("FUNCTION", _FUNCTION),
    re.VERBOSE,
)
# Behind a number that is part of a formula.
_FORMULA_AFTER = re.compile(
    r"""
    \s*,\s*-?[\d./]+\s*(?:\\?[)\]}]|,)                                # a further coordinate: ", 4)"
    | (?![eE]\d)[a-zXYZ](?![^\W\d_])(?!/[a-z]|\s[a-z]{3,})           # a factor: "y"; not "m/s"
    | [_^]                                                             # a power
    | \s?FUNCTION(?![^\W\d_])                                       # " sin"
    | \([^()]{0,40}[a-z+*/^-]                                        # "(x + 1"
    | \s*\\(?:d?frac|sqrt|pi|theta|alpha|beta|phi|omega|lambda|mu|sin|cos|tan|log|ln|binom|times|cdot|div|pm|p?mod)
      (?![a-zA-Z])                                                     # "\pi"
    | \s*(?:[+×·⋅÷/]|(?<!\*)\*(?!\*))\s*(?:\d|VARIABLE|\()          # an operator and an operand: " + 7"
    | (?:\s+-\s+|-)(?:\d|VARIABLE|\()                               # " - x"
    | \s?[√π∞θ]
    | \s(?:mod|choose)\s
    | \s[nxyz](?=\s*(?:[-+*/^=.]|\Z))                                  # " x ="
    """.replace("VARIABLE", _VARIABLE).replace("FUNCTION", _FUNCTION),
    re.VERBOSE,
)
# A text that begins with a number in words is its result only if few words follow: "cuarenta y dos manzanas". A long
# sentence that begins with one, such as "Dos personas entran en un bar", does not state a result.
_MOST_WORDS_AFTER = 3
# Words that are numbers in some languages and articles or conjunctions in others.
_ARTICLES = word_set("un une una uno ein eine um uma een e y en et und")


def read_quantity(text: str, *, listed: bool, last: bool = False) -> Quantity:
    """Return the number that a text gives as its result.

    `listed`: a comma between numbers makes a list, of which none is the result.
    `last`: the last number counts, not the first.

    The callers use three of the four combinations:
        listed           a marked result (a box, a tag): "41, 42" is ambiguous
        neither          a truth, or a sentence that states the result: "42, as 41 was too small" gives 42
        last             text that is not marked as the result: "We had 41, so now there are 42" gives 42
    """
    # Without tags of HTML and delimiters of LaTeX.
    text = _TAG.sub(" ", normalise_numbers(text[:_LONGEST_RESULT]))
    text = text.replace("\\(", " ").replace("\\)", " ").strip()
    text = _DOLLARS.sub(r"\1", text.replace("\\$", "$"))
    text = _INDEX_START.sub(r"\1}", text)
    # Unmarked text may mention a bound on the way to its result: "Since x > 3, we take 5".
    unequal = None if last else _UNEQUAL.search(text)
    if unequal:
        return Quantity(None, f"“{unequal[0]}” is no equation")
    # In "3.14159 ≈ 3.14" the sides may differ, so only what follows the last "≈" is checked.
    sides = _EQUALS.split(_NEARLY.split(text)[-1])
    values: list[tuple[str, float]] = []  # of the sides that can be computed
    for side in sides:
        value = evaluate(_strip_side(side))
        if value is not None:
            values.append((side.strip(), value))
    for side, value in values[:-1]:
        last_side, last_value = values[-1]
        if not _agree(side, value, last_side, last_value):
            return Quantity(None, f"{side} = {last_side} contradicts itself")
    # The result is the right side: 42 in "x = 6 · 7 = 42", 3.14 in "π ≈ 3.14". A text without "=" and "≈", or
    # with nothing behind them ("42 ="), is read as a whole.
    result = text
    if any(map(str.isalnum, sides[-1])):
        result = sides[-1]
    if last:
        # "Thus there are 36 ways to put 4 balls into 3 boxes": 36, although 3 is the last number. A count before the
        # last "=" is not the result: "There are 36 ways, so p = 1/36".
        counted_number = find_count(result[-300:])
        if counted_number:
            return _read_side(counted_number, listed, last)
    return _read_side(_strip_side(result), listed, last)


def _strip_side(side: str) -> str:
    """Remove stars, spaces and punctuation around a side, but not the "..." of 0.333..., which goes on."""
    side = side.strip(" *_").rstrip(" 。,;*_")
    return side if side.endswith("...") else side.rstrip(" .")


def _agree(side: str, value: float, last_side: str, last_value: float) -> bool:
    """Do a side of an equation and its last side have the same value, apart from rounding?"""
    difference = abs(value - last_value)
    if not math.isfinite(difference):
        return False  # too large to compute, so nothing shows that they are equal
    if math.isclose(value, last_value, rel_tol=1e-9):
        return True
    # "1/3 = 0.33", "0.33 = 1/3", "2π = 2 · 3.14": they may differ in the last decimal.
    decimals = [len(digits) for digits in _DECIMALS.findall(f"{side} {last_side}")]
    if "%" in side + last_side:
        decimals.append(2)
    if decimals:
        return difference <= 10.0 ** -min(decimals)
    # "200/3 = 67": a computed value may be rounded to an integer. "41 = 42" and "3 = 22/7" are wrong.
    return not value.is_integer() and last_value == math.floor(value + 0.5)


def _read_side(side: str, listed: bool, last: bool) -> Quantity:
    """Return the number that the last side of an equation, or a text without one, gives.

    The first step that decides ends the reading:
    1. The side is an expression, such as "6 · 7": its value.
    2. It states no number in digits: the number in words with which it begins, if any ("cuarenta y dos").
    3. The chosen number (the first, or the last if `last`) is part of a formula ("the sum is 3 + 4"): the formula's
       value, or a problem if it has none ("x + 7y").
    4. Another number stands beside the chosen one as an alternative ("41 or 42"): a problem.
    5. Otherwise the chosen number.
    """
    numbers = read_numbers(side)
    text = normalise_numbers(side)

    # 1. If the side has one number, something beside it must be computed: "5!", "√5", "5^2"; not "5 m^2".
    may_be_expression = len(numbers) != 1
    if len(numbers) == 1:
        rest = text[: numbers[0].start] + text[numbers[0].end :]
        has_operation = re.search(r"[\d!√π^]|\\(?:sqrt|pi)", rest) is not None
        may_be_expression = has_operation and not re.search(r"\^\{?\\?circ|[mM]\^", rest)
    # Percentages are left to `read_numbers`, which keeps the sign: "50%" must compare equal to a truth of 50.
    if may_be_expression and "%" not in side:
        value = evaluate(side)
        if value is not None and math.isinf(value):
            return Quantity(None, f"{side[:80]} is too large")
        if value is not None:
            return Quantity(Number(value, written=side[:80]))

    # 2. In unmarked text, digits come before words: "one of them has 42" gives 42. "not 41" states no number.
    if last:
        numbers = [number for number in numbers if not number.in_words] or numbers
    stated = [number for number in numbers if not is_denied(text, number.start)]
    if not stated:
        value = _read_words(side)
        return Quantity(None if value is None else Number(value, written=side[:80]))

    # 3.
    chosen = stated[-1] if last else stated[0]
    if _is_in_formula(text, chosen):
        value = evaluate(find_formula(side, whole=not last))
        if value is not None and math.isfinite(value):
            return Quantity(Number(value, written=side[:80]))
        return Quantity(None, f"{chosen.written} is part of a formula")

    # 4. and 5.
    alternative = _find_alternative(text, stated, chosen, listed)
    if alternative is not None:
        return Quantity(None, f"ambiguous: {chosen.written} and {alternative.written}")
    return Quantity(chosen)


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
    """Return the number in words with which a short text begins ("cuarenta y dos manzanas": 42).

    Returns None if it begins with something else, or if more than `_MOST_WORDS_AFTER` words follow the number.
    """
    words = re.sub(r"[*_.,;!¡¿?\"“”«»]", " ", side).split()[:12]
    fewest = max(1, len(words) - _MOST_WORDS_AFTER)
    for length in range(len(words), fewest - 1, -1):
        phrase = " ".join(words[:length])
        if phrase.casefold() in _ARTICLES:
            continue
        value = read_number_words(phrase)
        if value is None:
            value = read_korean(re.sub("(?:입니다|이다|개|명|예요|이에요)$", "", phrase))
        if value is not None:
            return value
    return None
