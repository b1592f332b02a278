"""Dates: read as people write them, compared with a known one, checked for their format.

>>> read_dates("It was on June 5, 1944 (5.6.1944), 一九四四年不算, 1944年6月5日.")
[datetime.date(1944, 6, 5), datetime.date(1944, 6, 5), datetime.date(1944, 6, 5)]
"""

from __future__ import annotations

import datetime
import re
from functools import cache
from typing import Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.answers import is_denied, read_answer
from rubrank.verifiers.shared.word_tables import read_words
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

Order = Literal["dmy", "mdy"]

_LONGEST_TEXT = 20_000  # characters at the end of an answer that are searched for dates
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
    return [date for date, _, _ in find_dates(text[-_LONGEST_TEXT:], order)]


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
        if match["first"]:
            first = int(match["first"])
            second = int(match["second"])
            is_month_first = second > 12 or (order == "mdy" and first <= 12)
            year = int(match["year3"])
            month = first if is_month_first else second
            day = second if is_month_first else first
        else:
            notation = next(n for n in "1245" if match[f"year{n}"])  # the groups of `_compile_date`
            year = int(match[f"year{notation}"])
            written_month = match[f"month{notation}"].casefold()
            month = _read_months().get(written_month) or int(written_month)
            day = int(re.sub(r"\D", "", match[f"day{notation}"]))
        try:
            dates.append((datetime.date(year, month, day), match.start(), match.end()))
        except ValueError:  # 31 February
            continue
    return dates


@cache
def _compile_date() -> re.Pattern[str]:
    """Return a pattern for dates in five notations; each has its own groups, such as "year1", "month1" and "day1"."""
    month = "|".join(sorted(map(re.escape, _read_months()), key=len, reverse=True))
    day = r"\d{1,2}(?:st|nd|rd|th|er|º|\.)?"
    return re.compile(
        rf"""(?<![\d./-])
        (?: (?P<year1>\d{{4}}) [-/.] (?P<month1>\d{{1,2}}) [-/.] (?P<day1>\d{{1,2}}) (?!\d)       # 1944-06-05
          | (?P<year2>\d{{4}})\s?[年년] \s?(?P<month2>\d{{1,2}})\s?[月월]
            \s?(?P<day2>\d{{1,2}})\s?[日号號일]                                                  # 1944年6月5日
          | (?P<first>\d{{1,2}}) [-/.]\s? (?P<second>\d{{1,2}}) [-/.]\s? (?P<year3>\d{{4}}) (?!\d) # 5/6/1944
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
    Fails: no date; a date in another format; 2024-13-01 and 2024-02-30, which are none.
    Not covered: times of day; two formats that write a date alike (01/02/2024 is both DD/MM and MM/DD).
    """
    source = text.shown.raw[-_LONGEST_TEXT:]
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
