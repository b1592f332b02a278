"""Quantities and dates: read as people write them, and compared with the true ones.

    QuantityMatch    "about 5.0 km" is the true 5000 m
    DateMatch        "5 June 1944" is the true 1944-06-05
    DateFormat       every date is written as YYYY-MM-DD

>>> read_measurement("The speed is about 9.81 m/s^2.")
Measurement(value=9.81, unit='m/s^2', written='9.81', range_start=None)
>>> read_measurement("It takes 2-3 h.")
Measurement(value=3.0, unit='h', written='3', range_start=2.0)
>>> read_dates("It was on June 5, 1944 (5.6.1944), 一九四四年不算, 1944年6月5日.")
[datetime.date(1944, 6, 5), datetime.date(1944, 6, 5), datetime.date(1944, 6, 5)]

GroundTruthMatch reads numbers in another way (`quantities`): in any notation, with expressions and equations. Here a
number is kept as written, because its significant digits may count, and units are left to pint.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.answers import is_denied, read_answer
from rubrank.verifiers.shared.arithmetic import spell_powers
from rubrank.verifiers.shared.numbers import HAN, read_han
from rubrank.verifiers.shared.word_tables import read_table, read_words
from rubrank.verifiers.truth import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

# ---- numbers with a unit ---------------------------------------------------------------------------------------------

_LONGEST_ANSWER = 20_000  # characters at the end of an answer that are read
# "1,200.5", "1.2e3", "3.0 × 10^{8}". A sign right behind a digit is none: the "-" of "2-3".
_NUMBER = (
    r"(?:(?<!\d)[-+−])?\d+(?:,\d{3})*(?:\.\d+)?"
    r"(?:[eE][-+−]?\d{1,3}|\s*[x×·]\s*10\s*\^?\s*\{?\s*[-+−]?\d{1,3}\s*\}?)?"
)
# A number, and up to 31 characters behind it, which begin with its unit if it has one: "9.81 m/s^2", "5 km long and",
# "5 km 200 m". `read_measurement` and `_drop_prose` remove what is no unit.
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-zµμΩ°%][A-Za-zµμΩ°²³⁻¹0-9^*/·.\-\s]{{0,30}})?")
# The end of a unit: a mark, or a frequent word that goes on with the sentence. Other words are left to `_drop_prose`,
# which needs pint; and pint reads some of these as units, such as "in" and "at".
_UNIT_END = re.compile(r"\s(?:and|or|is|are|of|in|at|for)\b|[,;]")
# "[2, 3]", "2 to 3", "2-3". Not the power in "3.0×10-3", nor a part of a name: "zfs-2021-2040".
_INTERVAL = re.compile(
    rf"""[\[(]\s*({_NUMBER})\s*[,;]\s*({_NUMBER})\s*[\])]
    | ({_NUMBER})\s*(?:to|–|—|至|到)\s*({_NUMBER})
    | (?<![\w.×·^/-])(?<![×x·]\s)(?P<first>{_NUMBER})-({_NUMBER})(?!-?\d)""",
    re.VERBOSE,
)
# The "2-" of "2-3 km". With spaces ("Route 2 – 3 km") it need not be a range.
_RANGE_START = re.compile(rf"(?<![\w.-])({_NUMBER})[-–—]\Z")
# Commands that only set the type: \text, \mathrm, "\,".
_LATEX = re.compile(r"\\(?:text|mathrm|rm|,|;|!|quad|left|right)\b|[\\{}$]")
# The sign of multiplication before a power of ten: "\times 10^".
_TIMES = re.compile(r"[ ]?(?:\\(?:times|cdot)|[×⋅∙*])[ ]?(?=10[ ]?(?:\^|\*\*))")
# From the beginning of a run of numerals, and only a short one: otherwise a long run takes quadratic time.
_HAN_NUMBER = rf"(?<!\d)(?<!\d\s)(?<!{HAN})({HAN}{{1,20}}?(?:[点點]{HAN}{{1,20}}?)?)"


# pint's names of units, by their Chinese names
_CHINESE_UNITS = {
    name: symbol for symbol, row in read_table("chinese_units") for name in row.split()
}


def _unify_notation(text: str) -> str:
    """Return the end of a text with its quantities in one notation: 六十千米每小时 → 60 km/h, 5 per cent → 5 %."""
    # Width, minus signs, spaces, percent and powers of ten.
    text = unicodedata.normalize("NFKC", spell_powers(text[-_LONGEST_ANSWER:])).replace("−", "-")
    text = " ".join(text.split())
    text = re.sub(r"(?<=\d) per ?cent\b", " %", text)
    text = _TIMES.sub(" × ", text).replace("**", "^")
    # Chinese numerals before units, units behind numbers, and the second unit of a quotient.
    if not text.isascii():
        unit = "|".join(sorted(_CHINESE_UNITS, key=len, reverse=True))
        number = rf"{_HAN_NUMBER}(?={unit})"
        text = re.sub(number, lambda match: f"{read_han(match[1]):g}", text)
        text = re.sub(rf"(?<=\d) ?({unit})", lambda match: f" {_CHINESE_UNITS[match[1]]}", text)
        text = re.sub(
            rf"(?<=[A-Za-z])(?:每|/)({unit})", lambda match: f"/{_CHINESE_UNITS[match[1]]}", text
        )
    without_latex = _LATEX.sub(" ", text)
    return re.sub(r"\s+", " ", without_latex)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, its unit (may be empty), and the number as written; for a range such as "2-3 km" the last number.

    The unit may still have words of the sentence behind it ("km long"); see `_drop_prose`.
    """

    value: float
    unit: str
    written: str
    range_start: float | None = None
    """The first number of a range."""


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
    text = _unify_notation(text)
    quantities = list(_QUANTITY.finditer(text))
    if not quantities:
        return None
    number, next_words = quantities[-1].groups(default="")
    unit = _UNIT_END.split(next_words.strip())[0].rstrip(". ")
    start = quantities[-1].start()
    first = _RANGE_START.search(text[max(0, start - 60) : start])
    range_start = _read_number(first[1]) if first else None
    return Measurement(_read_number(number), unit, number, range_start)


@verifier("QuantityMatch", family="truth", domain=BINARY, version=4)
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
    Passes: "about 5.0 km"; "It is 5 km long."; "$3.0 \\times 10^{8}$ m/s".
    Fails: another number; a number without its unit; kg for m; other digits than asked; a range ("2-3 km"), unless
        the true interval holds it.
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
    expected = read_measurement(truth)
    true_start = expected.range_start if expected else None
    if measurement.range_start not in (None, true_start):
        # Both ends of a range must be right. "117-17" is right if the truth is written like that, too.
        last = replace(measurement, range_start=None)
        first = replace(last, value=measurement.range_start)
        verdict = _compare_measurement(first, truth, tolerance, units)
        is_right = isinstance(verdict, tuple) and verdict[0]
        return _compare_measurement(last, truth, tolerance, units) if is_right else verdict
    truth_text = _unify_notation(truth)
    interval = _INTERVAL.search(truth_text)
    ends = [_read_number(end) for end in interval.groups() if end] if interval else []
    # "2024-05" is a date: the ends of "2-3" ascend.
    if interval and not (interval["first"] and ends[0] >= ends[1]):
        low = min(ends)
        high = max(ends)
        unit = truth_text[interval.end() :].strip()
    else:
        if expected is None:
            return missing(f"the truth {truth[:60]!r} has no number")
        margin = tolerance * abs(expected.value)
        low = expected.value - margin
        high = expected.value + margin
        unit = expected.unit
    value = measurement.value
    if units != "ignore" and unit != measurement.unit:
        measurement = replace(measurement, unit=_drop_prose(measurement.unit))
    if {unit, measurement.unit} == {"%", ""} and units == "convert":
        value = value / 100 if measurement.unit else value * 100
    elif units != "ignore" and unit != measurement.unit:
        if units == "same" or not measurement.unit or not unit:
            return False, f"the unit is {measurement.unit or 'none'!r}, {unit or 'none'!r} required"
        try:
            registry = _load_units()
        except ImportError:
            return missing("pint is not installed: pip install 'rubrank[units]'")
        try:
            true_unit = registry.parse_units(_spell_unit(unit))
        except Exception:  # pint raises many kinds of errors if the text is not a unit
            return missing(f"the truth's unit {unit[:30]!r} is not known")
        try:
            quantity = registry.Quantity(value, registry.parse_units(_spell_unit(measurement.unit)))
            value = float(quantity.to(true_unit).magnitude)
        except Exception:
            return False, f"{measurement.unit[:30]!r} cannot be turned into {unit[:30]!r}"
    return low <= value <= high, f"{value:g} {unit}".strip() + f", {truth[:60]} expected"


def _drop_prose(unit: str) -> str:
    """Return the unit without the words of the sentence behind it: "km long" → "km".

    The longest beginning that pint can read is kept; without one, or without pint, the unit stays as it is. So it does
    if more than plain words would be lost: in "km 200 m" and "km per lap" the rest changes the quantity.
    """
    beginning = unit
    while beginning:
        try:
            _load_units().parse_units(_spell_unit(beginning))
        except ImportError:
            return unit
        except Exception:  # pint raises many kinds of errors if the text is not a unit
            beginning, _, word = beginning.rpartition(" ")
            if not word.isalpha() or word in ("per", "square", "cubic"):
                return unit
        else:
            return beginning
    return unit


def _spell_unit(unit: str) -> str:
    """Return the unit as pint writes it: "m s^-2" → "m*s**-2"."""
    unit = re.sub(r"[{}]", "", spell_powers(unit)).replace("·", "*").replace("μ", "µ").strip()
    unit = re.sub(r"\^\s+", "^", unit)
    unit = re.sub(r"(?<=[a-zA-Z])\s(?=[a-zA-Z]+\^)", "*", unit)  # m s^-2
    temperature = re.fullmatch(r"(?:°|[Dd]egrees? ?)([CF])(?:elsius|ahrenheit)?", unit)
    if temperature:
        return f"deg{temperature[1]}"
    names = {"%": "percent", "°": "degree"}
    return names.get(unit, unit).replace("^", "**")


# ---- dates ---------------------------------------------------------------------------------------------------------

Order: TypeAlias = Literal["dmy", "mdy"]

# The word before a date: "on June 5, 1944", "am 5. Juni 1944".
_PREPOSITION = re.compile(r"\b(?:on|by|am|vom|le|du|el|em|il|den|op|på|в) \Z", re.IGNORECASE)
# The parts of a format such as "MMMM D, YYYY" and what each stands for.
_FORMAT_PARTS = {
    "YYYY": r"\d{4}",
    "YY": r"\d{2}",
    "MMMM": r"[^\W\d_]{3,}",
    "MMM": r"[^\W\d_]{3}",
    "MM": r"(?:0[1-9]|1[0-2])",
    "M": r"(?:[1-9]|1[0-2])",
    "DD": r"(?:0[1-9]|[12]\d|3[01])",
    "D": r"(?:[1-9]|[12]\d|3[01])",
}


def read_dates(text: str, order: Order = "dmy") -> list[datetime.date]:
    """Return the dates at the end of a text; see `find_dates`."""
    return [date for date, _, _ in find_dates(text[-_LONGEST_ANSWER:], order)]


def find_dates(text: str, order: Order = "dmy") -> list[tuple[datetime.date, int, int]]:
    """Return the dates with day, month and year, and where they begin and end in the text.

    A date that is denied ("not on June 5, 1944") is left out, and so is one that does not exist (31 February).
    `order` decides 5/6/1944, unless one of the numbers is above 12.
    """
    dates = []
    for match in _compile_date().finditer(text):
        start = match.start()
        preposition = _PREPOSITION.search(text[max(0, start - 6) : start])
        if preposition:
            start -= len(preposition[0])
        if is_denied(text, start, match.end()):
            continue
        notation = next(n for n in "12345" if match[f"year{n}"])  # the groups of `_compile_date`
        year = int(match[f"year{notation}"])
        written_month = match[f"month{notation}"].casefold()
        month = _read_months().get(written_month) or int(written_month)
        day = int(re.sub(r"\D", "", match[f"day{notation}"]))
        # In 5/6/1944 the pattern takes the second number for the month.
        is_month_first = month > 12 or (order == "mdy" and day <= 12)
        if notation == "3" and is_month_first:
            day, month = month, day
        try:
            dates.append((datetime.date(year, month, day), match.start(), match.end()))
        except ValueError:  # 31 February
            continue
    return dates


@cache
def _compile_date() -> re.Pattern[str]:
    """Return a pattern for dates in five notations, each with its own groups: "year1", "month1", "day1" to "day5"."""
    month = "|".join(sorted(map(re.escape, _read_months()), key=len, reverse=True))
    day = r"\d{1,2}(?:st|nd|rd|th|er|º|\.)?"
    return re.compile(
        rf"""(?<![\d./-])
        (?: (?P<year1>\d{{4}}) [-/.] (?P<month1>\d{{1,2}}) [-/.] (?P<day1>\d{{1,2}}) (?!\d)       # 1944-06-05
          | (?P<year2>\d{{4}})\s?[年년] \s?(?P<month2>\d{{1,2}})\s?[月월]
            \s?(?P<day2>\d{{1,2}})\s?[日号號일]                                                  # 1944年6月5日
          | (?P<day3>\d{{1,2}}) [-/.]\s? (?P<month3>\d{{1,2}}) [-/.]\s? (?P<year3>\d{{4}}) (?!\d) # 5/6/1944
        )
        | \b(?P<day4>{day}) \s+(?:of\s+|de\s+)? (?P<month4>{month})\.?,?
          \s+(?:de\s+|del\s+)? (?P<year4>\d{{4}}) (?!\d)                                       # 5 June 1944
        | \b(?P<month5>{month})\.? \s+(?P<day5>{day}),? \s+(?P<year5>\d{{4}}) (?!\d)            # June 5, 1944
        """,
        re.IGNORECASE | re.VERBOSE,
    )


@cache
def _read_months() -> dict[str, int]:
    """Return the number of each month by its names in all languages."""
    return {name: int(number) for number, names in read_words("months").items() for name in names}


@verifier("DateMatch", family="truth", domain=BINARY, version=4)
def date_match(
    rollout: Rollout, *, truth: str | None = None, order: Order = "dmy", days: int = 0
) -> Answer:
    """The answer's date is the true one, in any notation, or at most `days` days before or after it.

    Reads 1944-06-05, 5.6.1944, 5/6/1944 (by `order`), June 5, 1944, 5 June 1944, 5 de junio de 1944,
    1944年6月5日. The truth is `truth` or in the data.
    Passes: "on 5 June 1944" for "June 5, 1944".
    Fails: another date; two different dates; a year alone.
    Missing: no truth, or none that is a date.
    Not covered: "yesterday", dates in words, other calendars, years before 1000.
    """
    truths = (truth,) if truth is not None else find_truths(None, rollout.metadata).values
    expected = [date for text in truths for date in read_dates(text, order)]
    if not expected:
        return missing("no truth is known that is a date")
    dates = read_dates(read_answer(rollout.answer).text, order) or read_dates(rollout.answer, order)
    if not dates:
        return False, f"no date in the answer, {expected[0]} expected"
    if len(set(dates)) > 1:
        second_date = next(date for date in dates if date != dates[0])
        return False, f"several dates: {dates[0]} and {second_date}"
    distance = min(abs((dates[0] - date).days) for date in expected)
    return distance <= days, f"{dates[0]}, {expected[0]} expected"


@verifier("DateFormat", family="format", domain=BINARY, version=2)
def date_format(text: Text, *, format: str = "YYYY-MM-DD") -> Answer:
    """Every date of the answer is written in the given format: YYYY, YY, MMMM, MMM, MM, M, DD, D and other signs.

    Passes: "2024-05-01 and 2024-05-02" for YYYY-MM-DD; "May 1, 2024" for "MMMM D, YYYY".
    Fails: no date; a date in another format; 2024-13-01 and 2024-02-30, which do not exist.
    Not covered: times of day; two formats that write a date alike (01/02/2024 is both DD/MM and MM/DD).
    """
    source = text.shown.raw[-_LONGEST_ANSWER:]
    parts = re.split(f"({'|'.join(_FORMAT_PARTS)})", format)
    pattern = ""
    fields = []  # "Y", "M" or "D" for each group of the pattern
    for part in parts:
        if part in _FORMAT_PARTS:
            pattern += f"({_FORMAT_PARTS[part]})"
            fields.append(part[0])
        else:
            pattern += re.escape(part)
    matches = list(re.finditer(rf"(?<![A-Za-z0-9-]){pattern}(?![A-Za-z0-9-])", source))
    for match in matches:
        values = dict(zip(fields, match.groups(), strict=True))
        if sorted(values) == ["D", "M", "Y"] and all(map(str.isdigit, values.values())):
            try:
                year = int(values["Y"]) if len(values["Y"]) == 4 else 2000 + int(values["Y"])
                datetime.date(year, int(values["M"]), int(values["D"]))
            except ValueError:
                return False, f"{match[0]!r} is no date"
    places = [match.span() for match in matches]
    for date in _compile_date().finditer(source):
        if not any(start <= date.start() and date.end() <= end for start, end in places):
            return False, f"{date[0]!r} is not in the format {format}"
    return bool(places), f"{len(places)} date(s) in the format {format}"
