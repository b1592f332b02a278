"""IFBench `custom:csv_…` — three small tables as CSV.

custom:csv_city    columns ID, Country, City, Year, Count; comma delimited; 7 rows
"""

from __future__ import annotations

import csv
import io
import re

from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ifbench
from rubrank.verifiers.verifier import Answer, Compat

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_SPECIAL = re.compile(r'"[^"]*[^\w\s"][^"]*"')
_CITY = ["ID", "Country", "City", "Year", "Count"]
_PRODUCT = ["ProductID", "Category", "Brand", "Price", "Stock"]
_STUDENT = ["StudentID", "Subject", "Grade", "Semester", "Score"]


@ifbench("custom:csv_city")
def csv_city(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header ID, Country, City, Year, Count and 7 rows of 5 fields, comma delimited, nothing else.

    Passes: eight such lines, in a code fence too (upstream: not). Fails: 6 rows; a sentence before. Not covered:
    what the fields say.
    """
    return _table(text.raw, compat, _CITY, 7, ",")


@ifbench("custom:csv_special_character")
def csv_special_character(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header ProductID, Category, Brand, Price, Stock and 14 rows; a field with a special character in double quotes.

    Passes: a row with "Black & Decker" in quotes. Fails: no such field, 13 rows. In a code fence too (upstream: not,
    and it looks no further than the first such row). Not covered: quoted fields may be several.
    """
    if compat == "upstream":
        return _special_upstream(text.raw)
    good, reason = _table(text.raw, "fixed", _PRODUCT, 14, ",")
    if not good:
        return good, reason
    found = next(
        (field for row in _read_quoted(_unfenced(text.raw), ",")[1:] for field in row if _SPECIAL.match(field)), None
    )
    return found is not None, f"special character in {found}" if found else "no quoted field with a special character"


@ifbench("custom:csv_quotes")
def csv_quotes(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header StudentID, Subject, Grade, Semester, Score and 3 rows, tab delimited, every field in double quotes.

    Passes: four such lines, in a code fence too (upstream: not). Fails: commas; a bare field. Not covered: tabs in
    fields.
    """
    raw = text.raw if compat == "upstream" else _unfenced(text.raw)
    rows = _read_quoted(raw, "\t")
    if compat == "fixed":
        rows = [row for row in rows if row]
    if len(rows) != 4 or any(len(row) != 5 for row in rows):
        return False, f"{len(rows)} lines found, a header and 3 rows of 5 fields asked"
    fields = [field.strip() for row in rows for field in row]
    if [field.strip('"') for field in fields[:5]] != _STUDENT:
        return False, f"the header is {fields[:5]}, {_STUDENT} asked"
    bare = next((field for field in fields if len(field) < 2 or field[0] != '"' or field[-1] != '"'), None)
    return bare is None, "every field is quoted" if bare is None else f"{bare[:40]!r} is not quoted"


def _unfenced(raw: str) -> str:
    fenced = _FENCE.match(raw)
    return fenced[1] if fenced else raw.strip()


def _table(raw: str, compat: Compat, header: list[str], rows: int, delimiter: str) -> tuple[bool, str]:
    """Is it a table with this header and so many rows?"""
    table = _read(raw if compat == "upstream" else _unfenced(raw), delimiter, compat == "fixed")
    if compat == "fixed":
        table = [row for row in table if row]
    if len(table) != rows + 1:
        return False, f"{len(table)} lines found, a header and {rows} rows asked"
    if [name if compat == "upstream" else name.strip() for name in table[0]] != header:
        return False, f"the header is {table[0]}, {header} asked"
    uneven = next((row for row in table[1:] if len(row) != len(header)), None)
    return uneven is None, "the table is right" if uneven is None else f"{len(uneven)} fields in {uneven}"


def _read(raw: str, delimiter: str, skip: bool = False) -> list[list[str]]:
    """The rows; what the reader cannot read (fields beyond its limit, NUL) is an empty table."""
    try:
        return list(csv.reader(io.StringIO(raw), delimiter=delimiter, skipinitialspace=skip))
    except csv.Error:
        return []


def _read_quoted(raw: str, delimiter: str) -> list[list[str]]:
    """The rows, with the quotes kept as part of the fields; a delimiter inside of quotes still does not divide them."""
    return _read(raw.replace('"', '"""'), delimiter)


def _special_upstream(raw: str) -> Answer:
    header = [name.strip(" \t").strip('"') for name in raw.split("\n")[0].strip().split(",")]
    if header != _PRODUCT:
        return False, f"the header is {header}, {_PRODUCT} asked"
    table = _read_quoted(raw, ",")
    if len(table) != 15:
        return False, f"{len(table)} lines found, 15 asked"
    for row in table[1:]:
        if len(row) != 5:
            return False, f"{len(row)} fields in {row}"
        if any(_SPECIAL.match(field) for field in row):
            return True, "a quoted field with a special character"
    return False, "no quoted field with a special character"
