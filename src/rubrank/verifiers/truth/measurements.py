"""QuantityMatch: is the answer's quantity the true one, with its unit, significant digits, or within an interval?

>>> read_measurement("The speed is about 9.81 m/s^2.")
Measurement(value=9.81, unit='m/s^2', written='9.81')
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.shared.arithmetic import spell_powers
from rubrank.verifiers.shared.numerals import HAN, read_han
from rubrank.verifiers.shared.word_tables import read_table
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_LONGEST = 20_000  # characters at the end of an answer
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
    text = unicodedata.normalize("NFKC", spell_powers(text[-_LONGEST:])).replace("−", "-")
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
    verdicts = [_compare(measurement, text, tolerance, unit) for text in truths]
    for verdict in verdicts:
        if isinstance(verdict, tuple) and verdict[0]:
            return verdict
    return verdicts[0]


def _compare(measurement: Measurement, truth: str, tolerance: float, units: str) -> Answer:
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
