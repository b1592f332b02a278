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
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.shared.statements import is_denied
from rubrank.verifiers.shared.word_tables import read_words
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

Order = Literal["dmy", "mdy"]


@cache
def _months() -> dict[str, int]:
    return {name: int(number) for number, names in read_words("months").items() for name in names}


_PREPOSITION = re.compile(r"\b(?:on|by|am|vom|le|du|el|em|il|den|op|på|в) \Z", re.IGNORECASE)


@cache
def _date_pattern() -> re.Pattern[str]:
    month = "|".join(sorted(map(re.escape, _months()), key=len, reverse=True))
    day = r"\d{1,2}(?:st|nd|rd|th|er|º|\.)?"
    return re.compile(
        r"(?<![\d./-])(?:(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})(?!\d)"
        r"|(?P<y2>\d{4})\s?[年년]\s?(?P<m2>\d{1,2})\s?[月월]\s?(?P<d2>\d{1,2})\s?[日号號일]"
        r"|(?P<a>\d{1,2})[-/.]\s?(?P<b>\d{1,2})[-/.]\s?(?P<y3>\d{4})(?!\d))"
        rf"|\b(?P<d4>{day})\s+(?:of\s+|de\s+)?(?P<m4>{month})\.?,?\s+(?:de\s+|del\s+)?(?P<y4>\d{{4}})(?!\d)"
        rf"|\b(?P<m5>{month})\.?\s+(?P<d5>{day}),?\s+(?P<y5>\d{{4}})(?!\d)",
        re.IGNORECASE,
    )


def read_dates(text: str, order: Order = "dmy") -> list[datetime.date]:
    """All dates with day, month and year that nothing denies ("not on June 5, 1944"); see `find_dates`."""
    return [date for date, _, _ in find_dates(text[-20_000:], order)]


def find_dates(text: str, order: Order = "dmy") -> list[tuple[datetime.date, int, int]]:
    """The dates of a text, and where they begin and end.

    `order` decides 5/6/1944, unless one of the numbers is above 12.
    """
    dates = []
    for match in _date_pattern().finditer(text):
        start = match.start()
        preposition = _PREPOSITION.search(text[max(0, start - 6) : start])
        if preposition:
            start -= len(preposition[0])
        if is_denied(text, start, match.end()):
            continue
        part = match.groupdict()
        if part["a"]:
            first = int(part["a"])
            second = int(part["b"])
            is_month_first = second > 12 or (order == "mdy" and first <= 12)
            year = int(part["y3"])
            month, day = (first, second) if is_month_first else (second, first)
        else:
            number = next(n for n in "1245" if part[f"y{n}"])
            year = int(part[f"y{number}"])
            written_month = part[f"m{number}"].casefold()
            month = _months().get(written_month) or int(written_month)
            day = int(re.sub(r"\D", "", part[f"d{number}"]))
        try:
            dates.append((datetime.date(year, month, day), match.start(), match.end()))
        except ValueError:  # 31 February
            continue
    return dates


@verifier("DateMatch", family="truth", domain=BINARY, version=3)
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
        other = next(date for date in dates if date != dates[0])
        return False, f"several dates: {dates[0]} and {other}"
    distance = min(abs((dates[0] - date).days) for date in expected)
    return distance <= days, f"{dates[0]}, {expected[0]} expected"


_PARTS = {
    "YYYY": r"\d{4}",
    "YY": r"\d{2}",
    "MMMM": r"[^\W\d_]{3,}",
    "MMM": r"[^\W\d_]{3}",
    "MM": r"(?:0[1-9]|1[0-2])",
    "M": r"(?:[1-9]|1[0-2])",
    "DD": r"(?:0[1-9]|[12]\d|3[01])",
    "D": r"(?:[1-9]|[12]\d|3[01])",
}
_FORMAT_PART = re.compile("|".join(_PARTS))


@verifier("DateFormat", family="format", domain=BINARY, version=2)
def date_format(text: Text, *, format: str = "YYYY-MM-DD") -> Answer:
    """Every date of the answer is written in the given format: YYYY, YY, MMMM, MMM, MM, M, DD, D and other signs.

    Passes: "2024-05-01 and 2024-05-02" for YYYY-MM-DD; "May 1, 2024" for "MMMM D, YYYY".
    Fails: no date; a date in another format; 2024-13-01 and 2024-02-30, which are none.
    Not covered: times of day; two formats that write a date alike (01/02/2024 is both DD/MM and MM/DD).
    """
    source = text.shown.raw[-20_000:]
    parts = [part for part in re.split(f"({_FORMAT_PART.pattern})", format) if part]
    pattern = "".join(f"({_PARTS[part]})" if part in _PARTS else re.escape(part) for part in parts)
    # "Y", "M" or "D" for each group of the pattern.
    fields = [part[0] for part in parts if part in _PARTS]
    matches = list(re.finditer(rf"(?<![A-Za-z0-9-]){pattern}(?![A-Za-z0-9-])", source))
    for match in matches:
        values = dict(zip(fields, match.groups(), strict=True))
        if sorted(values) == ["D", "M", "Y"] and all(map(str.isdigit, values.values())):
            try:
                year = int(values["Y"]) if len(values["Y"]) == 4 else 2000 + int(values["Y"])
                datetime.date(year, int(values["M"]), int(values["D"]))
            except ValueError:
                return False, f"{match[0]!r} is no date"
    right = [match.span() for match in matches]
    other_dates = [
        match[0]
        for match in _date_pattern().finditer(source)
        if not any(start <= match.start() and match.end() <= end for start, end in right)
    ]
    if other_dates:
        return False, f"{other_dates[0]!r} is not in the format {format}"
    return bool(right), f"{len(right)} date(s) in the format {format}"
