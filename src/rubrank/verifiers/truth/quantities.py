"""Quantities: the one number that a result gives, and QuantityMatch, which compares a number with its unit.

>>> read_quantity("x = 6 \\\\times 7 = 42", listed=True).number.value, read_quantity("41 = 42", listed=True).problem
(42.0, '41 = 42 contradicts itself')
>>> read_measurement("The speed is about 9.81 m/s^2.")
Measurement(value=9.81, unit='m/s^2', written='9.81')

GroundTruthMatch uses `read_quantity`, which reads numbers in any notation, computes expressions and checks equations.
QuantityMatch uses `read_measurement`: it keeps the number as written, to count its digits, and leaves units to pint.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.answers import ALTERNATIVE, is_denied, read_answer
from rubrank.verifiers.shared.arithmetic import evaluate, spell_powers
from rubrank.verifiers.shared.numbers import (
    HAN,
    Number,
    normalise_numbers,
    read_han,
    read_korean,
    read_number_words,
    read_numbers,
)
from rubrank.verifiers.shared.word_tables import read_table
from rubrank.verifiers.truth.formulas import find_count, find_formula
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier


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
_DECIMALS = re.compile(r"\.(\d+)")
# What stands between the two numbers of a range ("5-10", "5 to 10"), before one, and between those of a list.
_RANGE = re.compile(r"[\s$*_]*(?:-|–|—|~|～|to|through|bis|à|至|到|до|から)[\s$*_]*", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\b(?:between|from|entre|zwischen|tra|между)\s*[$*_]*\Z|介于\Z|在\Z", re.IGNORECASE
)
_LIST = re.compile(r"[\s$]*(?:,|;|、|，|and|和|und|et|y|e|и)[\s$]*", re.IGNORECASE)

# A letter that is no part of a word, or a command: x, \alpha. The two patterns below name it VARIABLE, and these names
# of functions FUNCTION; an f-string would double all their braces.
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
# sentence that begins with one, such as "Dos personas entran en un bar", tells something else.
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
    text = (
        _TAG.sub(" ", normalise_numbers(text[:5000]))
        .replace("\\(", " ")
        .replace("\\)", " ")
        .strip()
    )
    text = _DOLLARS.sub(r"\1", text.replace("\\$", "$"))
    text = _INDEX_START.sub(r"\1}", text)
    # Unmarked text may mention a bound on the way to its result: "Since x > 3, we take 5".
    unequal = None if last else _UNEQUAL.search(text)
    if unequal:
        return Quantity(None, f"“{unequal[0]}” is no equation")
    # In "3.14159 ≈ 3.14" the sides may differ, so only what follows the last "≈" is checked.
    exact_part = _NEARLY.split(text)[-1]
    sides = _EQUALS.split(exact_part)
    problem = _find_contradiction(sides)
    if problem:
        return Quantity(None, problem)
    # The result is the right side: 42 in "x = 6 · 7 = 42", 3.14 in "π ≈ 3.14". A text without "=" and "≈" is read as a
    # whole, and so is one with nothing behind them ("42 =").
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
        if not _agree(side, value, last, last_value):
            return f"{side} = {last} contradicts itself"
    return ""


def _agree(side: str, value: float, last: str, last_value: float) -> bool:
    """Tell whether a side of an equation and its last side have the same value, but for rounding."""
    difference = abs(value - last_value)
    if not math.isfinite(difference):
        return False  # too large to compute, so nothing shows that they are equal
    if math.isclose(value, last_value, rel_tol=1e-9):
        return True
    # "1/3 = 0.33", "0.33 = 1/3", "2π = 2 · 3.14": they may differ in the last decimal.
    decimals = [len(digits) for digits in _DECIMALS.findall(f"{side} {last}")]
    if "%" in f"{side}{last}":
        decimals.append(2)
    if decimals:
        return difference <= 10.0 ** -min(decimals)
    # "200/3 = 67": what was computed may be rounded. "41 = 42" and "3 = 22/7" are wrong.
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

    # 1. Percentages are left to `read_numbers`, which keeps the sign: "50%" must compare equal to a truth of 50.
    may_be_expression = len(numbers) != 1 or _has_operation(text, numbers[0])
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


# ---- numbers with a unit ---------------------------------------------------------------------------------------------

_LONGEST_ANSWER = 20_000  # characters at the end of an answer
# "1,200.5", "1.2e3", "3.0 × 10^{8}"
_NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+−]?\d{1,3}|\s*[x×·]\s*10\s*\^?\s*\{?\s*[-+−]?\d{1,3}\s*\}?)?"
# A number and what follows it, which may be a unit: "9.81 m/s^2", "5 km".
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-zµμΩ°%][A-Za-zµμΩ°²³⁻¹0-9^*/·.\-\s]{{0,30}})?")
# "[2, 3]", "2 to 3"
_INTERVAL = re.compile(
    rf"[\[(]\s*({_NUMBER})\s*[,;]\s*({_NUMBER})\s*[\])]|({_NUMBER})\s*(?:to|–|—|至|到)\s*({_NUMBER})"
)
# Commands that only set the type: \text, \mathrm, "\,".
_LATEX = re.compile(r"\\(?:text|mathrm|rm|,|;|!|quad|left|right)\b|[\\{}$]")
# The sign of multiplication before a power of ten: "\times 10^".
_TIMES = re.compile(r"[ ]?(?:\\(?:times|cdot)|[×⋅∙*])[ ]?(?=10[ ]?(?:\^|\*\*))")
# From the beginning of a run of numerals, and only a short one: otherwise a long run takes quadratic time.
_HAN_NUMBER = rf"(?<!\d)(?<!\d\s)(?<!{HAN})({HAN}{{1,20}}?(?:[点點]{HAN}{{1,20}}?)?)"


@cache
def _read_chinese_units() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of the Chinese names of units, and what pint calls each."""
    names = {name: symbol for symbol, row in read_table("chinese_units") for name in row.split()}
    return re.compile("|".join(sorted(names, key=len, reverse=True))), names


def _write_plainly(text: str) -> str:
    """Return the text without LaTeX, Chinese numerals and units in digits and symbols: 六十千米每小时 → 60 km/h."""
    text = unicodedata.normalize("NFKC", spell_powers(text[-_LONGEST_ANSWER:])).replace("−", "-")
    text = " ".join(text.split())
    text = _TIMES.sub(" × ", text).replace("**", "^")
    if not text.isascii():
        pattern, names = _read_chinese_units()
        text = re.sub(
            rf"{_HAN_NUMBER}(?={pattern.pattern})",
            lambda match: f"{read_han(match[1]):g}",
            text,
        )
        text = re.sub(rf"(?<=\d) ?({pattern.pattern})", lambda match: f" {names[match[1]]}", text)
        text = re.sub(
            rf"(?<=[A-Za-z])(?:每|/)({pattern.pattern})", lambda match: f"/{names[match[1]]}", text
        )
    return re.sub(r"\s+", " ", _LATEX.sub(" ", text))


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, its unit (may be empty), and the number as written."""

    value: float
    unit: str
    written: str


@cache
def _load_units() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


def _read_number(text: str) -> float:
    text = re.sub(r"\s+", "", text.replace(",", "").replace("−", "-"))
    text = re.sub(r"[x×·]10\^?\{?([-+]?\d+)\}?", r"e\1", text)
    return float(text.replace("{", "").replace("}", ""))


def count_digits(text: str) -> int:
    """Count the significant digits as written: 0.0420 has three, 1200 four, 1.2e3 two."""
    mantissa = re.split(r"[eE]|[x×·]", text.replace(",", ""))[0].strip().lstrip("-+−")
    return len(mantissa.replace(".", "").lstrip("0")) or 1


def read_measurement(text: str) -> Measurement | None:
    """Return the last quantity of a text; None if it has no number."""
    last = None
    for match in _QUANTITY.finditer(_write_plainly(text)):
        last = match
    if last is None:
        return None
    next_words = (last[2] or "").strip()
    unit = re.split(r"\s(?:and|or|is|are|of|in|at|for|per cent)\b|[,;]", next_words)[0]
    return Measurement(_read_number(last[1]), unit.rstrip(". "), last[1])


@verifier("QuantityMatch", family="truth", domain=BINARY, version=3)
def quantity_match(
    rollout: Rollout,
    *,
    truth: str | None = None,
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.01,
    digits: Annotated[int, Field(ge=1, le=20)] | None = None,
    unit: Literal["convert", "same", "ignore"] = "convert",
) -> Answer:
    """The answer's quantity is the true one: 5 km for "5000 m", 9.81 m/s² for "9.8 m/s^2" within `tolerance`.

    The truth is `truth` or in the data; an interval ("[2, 3] m", "2 to 3") accepts what lies in it. `digits`
    asks for that many significant digits as written. Units are converted (pint), must be the same, or are
    ignored; Chinese units and numerals are read too (1.5米 for "150 cm").
    Passes: "about 5.0 km"; "$3.0 \\times 10^{8}$ m/s".
    Fails: another number; a number without its unit; kg for m; other digits than asked.
    Missing: no truth; pint not installed where units differ; a unit of the truth that is not known.
    Not covered: sums such as "5 km 200 m".
    """
    truths = (truth,) if truth is not None else find_truths(None, rollout.metadata).values
    if not truths:
        return missing("no ground truth is known")
    measurement = read_measurement(read_answer(rollout.answer).text or rollout.answer)
    if measurement is None:
        measurement = read_measurement(rollout.answer)
    if measurement is None:
        return False, "no number in the answer"
    if digits is not None and count_digits(measurement.written) != digits:
        return False, f"{count_digits(measurement.written)} significant digits, {digits} required"
    verdicts = [_compare_measurement(measurement, text, tolerance, unit) for text in truths]
    for verdict in verdicts:
        if isinstance(verdict, tuple) and verdict[0]:
            return verdict
    return verdicts[0]


def _compare_measurement(
    measurement: Measurement, truth: str, tolerance: float, units: str
) -> Answer:
    """Return the verdict on a measurement and one truth. units: "convert", "same" or "ignore"."""
    truth_text = _write_plainly(truth)
    interval = _INTERVAL.search(truth_text)
    if interval:
        ends = [_read_number(end) for end in interval.groups() if end]
        low = min(ends)
        high = max(ends)
        unit = truth_text[interval.end() :].strip()
    else:
        expected = read_measurement(truth)
        if expected is None:
            return missing(f"the truth {truth[:60]!r} has no number")
        margin = tolerance * abs(expected.value)
        low = expected.value - margin
        high = expected.value + margin
        unit = expected.unit
    value = measurement.value
    if {unit, measurement.unit} == {"%", ""} and units == "convert":
        value = value / 100 if measurement.unit else value * 100
    elif units != "ignore" and unit != measurement.unit:
        if units == "same" or not measurement.unit or not unit:
            return False, f"the unit is {measurement.unit or 'none'!r}, {unit or 'none'!r} required"
        try:
            value = _convert(value, measurement.unit, unit)
        except (ImportError, LookupError) as error:
            return missing(str(error))
        except ValueError as error:
            return False, str(error)
    return low <= value <= high, f"{value:g} {unit}".strip() + f", {truth[:60]} expected"


def _convert(value: float, unit: str, target: str) -> float:
    """Return the value in the target unit.

    Raises ImportError if pint is not installed, LookupError if the target is unknown, ValueError if units do not fit.
    """
    try:
        registry = _load_units()
    except ImportError:
        raise ImportError("pint is not installed: pip install 'rubrank[units]'") from None
    try:
        target_unit = registry.parse_units(_spell_unit(target))
    except Exception:  # pint raises many kinds for what is no unit
        raise LookupError(f"the truth's unit {target[:30]!r} is not known") from None
    try:
        quantity = registry.Quantity(value, registry.parse_units(_spell_unit(unit)))
        return float(quantity.to(target_unit).magnitude)
    except Exception:
        raise ValueError(f"{unit[:30]!r} cannot be turned into {target[:30]!r}") from None


def _spell_unit(unit: str) -> str:
    """Return the unit as pint writes it: "m s^-2" → "m*s**-2"."""
    unit = (
        spell_powers(unit)
        .replace("{", "")
        .replace("}", "")
        .replace("·", "*")
        .replace("μ", "µ")
        .strip()
    )
    unit = re.sub(r"\^\s+", "^", unit)
    unit = re.sub(r"(?<=[a-zA-Z])\s(?=[a-zA-Z]+\^)", "*", unit)  # m s^-2
    names = {"°C": "degC", "°F": "degF", "%": "percent", "°": "degree"}
    return names.get(unit, unit).replace("^", "**")
