"""Read cells as numbers, and report the first cell that is wrong.

numbers = read_numbers(table, ("scores", "Facts"))
numbers.values                      doubles; null where there is no score
numbers.check_scores(table, path)   raises for a text, an infinity, or an integer that a double cannot hold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rubrank.tables.table import ColumnPath, Table

UNSCORED_TEXTS = ("", "nan", "null", "none", "na", "n/a")
"""Texts of a CSV cell without a score, in lower case."""
LARGEST_EXACT_INTEGER = 2**53
"""Different integers beyond this can become the same double: their order would be lost."""
_LONGEST_NUMBER = 40  # characters; longer texts are not parsed
_SAMPLED_CELLS = 100  # looked at first: most columns of texts are recognised by these
ALLOWED_SCORES = "a finite number (whole ones within ±2**53), yes/no as true/false, or empty"
"""What an error says about a cell that holds no score."""
# true, 12, -0.5, 1e-3: the start of a column that may be typed. The patterns in `convert_csv_column` are stricter.
_VALUE_PATTERN = r"(?i)^(true|false|-?\d+(\.\d+)?(e[+-]?\d+)?)$"
_INTEGER_PATTERN = r"^(0|-?[1-9]\d{0,17})$"  # 0, -12; not 007, and nothing beyond 64 bits
_FLOAT_PATTERN = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"  # 0.5, -12, 1e-3; not 007 or .5


@dataclass(frozen=True)
class ScoreLimits:
    """The lowest and highest score of a criterion, and what an error says about a score outside."""

    low: float
    high: float
    allowed: str
    remedy: str = ""

    @classmethod
    def of_gate(cls, name: str) -> ScoreLimits:
        """Return the limits of a gate on the scale that criteria have by default."""
        remedy = f"Scale it, or give its scale: `domain.{name}=LOW:HIGH`."
        return cls(0.0, 1.0, "in [0, 1], 1 = clean, for the gate", remedy)

    @classmethod
    def of_domain(cls, low: float, high: float) -> ScoreLimits:
        """Return the limits of a scale that an option gives."""
        allowed = f"in [{low:g}, {high:g}], the scale that `domain` gives"
        return cls(low, high, allowed, "Repair the cell or the scale.")


@dataclass(frozen=True, eq=False)
class Numbers:
    """The cells of one column as numbers."""

    values: pl.Series
    """Float64; null or NaN if the cell holds no number."""
    filled: pl.Series
    """Is anything in the cell?"""
    wrong: pl.Series
    """Does the cell hold something other than a finite number, or an integer beyond ±2**53?"""

    @property
    def is_mostly_numbers(self) -> bool:
        """Is the column meant to hold numbers? A single "yes" among them is a mistake to report."""
        count = int((self.filled & self.values.is_not_null()).sum())
        return count > 0 and 2 * count >= int(self.filled.sum())

    def check_scores(self, table: Table, path: ColumnPath) -> None:
        """Raise BadTable for the first cell that is wrong."""
        if self.wrong.any():
            remedy = "Repair the cell, empty it if there is no score, or name the criteria: `criteria=Facts,Style`."
            index = find_first_true(self.wrong)
            raise table.make_cell_error(index, path, ALLOWED_SCORES, remedy)

    def check_limits(self, table: Table, path: ColumnPath, limits: ScoreLimits) -> None:
        """Raise BadTable for the first score outside the limits."""
        outside = ((self.values < limits.low) | (self.values > limits.high)).fill_null(False)
        if outside.any():
            raise table.make_cell_error(
                find_first_true(outside), path, limits.allowed, limits.remedy
            )

    def check_attribute(self, table: Table, path: ColumnPath) -> None:
        """Raise BadTable for the first cell that is missing or negative: an attribute is measured on every rollout."""
        missing = ~self.filled | self.values.is_null() | self.values.is_nan().fill_null(False)
        unusable = missing | self.wrong | (self.values < 0.0).fill_null(False)
        if unusable.any():
            remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
            raise table.make_cell_error(
                find_first_true(unusable), path, "a finite number ≥ 0", remedy
            )


def read_numbers(table: Table, path: ColumnPath) -> Numbers:
    """Return the cells of a column, or of a field of one, as numbers, with marks for those that are wrong."""
    cells = table.get_cells(path)
    if cells.dtype == pl.String and table.json_lines is not None:
        values = _parse_json_numbers(table, cells, path)
    else:
        values = parse_numbers(cells, table.text_is_number)
    if values.null_count() == cells.null_count():
        filled = values.is_not_nan().fill_null(False)
    else:
        filled = _find_filled(cells, table.text_is_number)
    wrong = filled & (values.is_null() | values.is_infinite().fill_null(False))
    is_large = (values.abs() >= LARGEST_EXACT_INTEGER).fill_null(False)
    if is_large.any():
        wrong = wrong | (filled & _find_inexact(table, cells, is_large, path))
    return Numbers(values, filled, wrong)


def parse_numbers(cells: pl.Series, text_is_number: bool) -> pl.Series:
    """Return cells as doubles; null where there is no number. text_is_number: read "0.5" as a number, as in a CSV."""
    if cells.dtype.is_numeric() or cells.dtype == pl.Boolean:
        return cells.cast(pl.Float64)
    if cells.dtype != pl.String or not text_is_number:
        return pl.Series(cells.name, [None], pl.Float64).new_from_index(0, len(cells))
    is_short = pl.col("x").str.len_bytes() <= _LONGEST_NUMBER
    short = cells.to_frame("x").select(pl.when(is_short).then("x")).to_series()
    values = short.cast(pl.Float64, strict=False)
    if values.null_count() == cells.null_count():
        return values  # only numbers: the usual case
    clean = short.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return clean.cast(pl.Float64, strict=False)


def convert_csv_column(cells: pl.Series) -> pl.Series:
    """Return a CSV column as integers, floats or booleans, if all its cells are such; else unchanged.

    A column with a number that would be written differently, such as 007, stays text.
    """
    if cells.dtype != pl.String:
        return cells
    sample = cells.head(_SAMPLED_CELLS)
    is_text = _find_filled(sample, text_is_number=True) & ~sample.str.contains(_VALUE_PATTERN)
    if is_text.any():
        return cells  # the first cells already show that it is text
    filled_count = int(_find_filled(cells, text_is_number=True).sum())
    if not filled_count:
        return cells
    if int(cells.str.contains(_INTEGER_PATTERN).sum()) == filled_count:
        return cells.cast(pl.Int64, strict=False)
    if int(cells.str.contains(_FLOAT_PATTERN).sum()) == filled_count:
        return cells.cast(pl.Float64, strict=False)
    lower = cells.str.to_lowercase()
    if int(lower.is_in(["true", "false"]).sum()) == filled_count:
        return lower.replace_strict(
            {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
        )
    return cells


def find_first_true(mask: pl.Series) -> int:
    """Return the index of the first row for which the mask holds; there must be one."""
    index = mask.arg_max()
    assert index is not None
    return index


def _parse_json_numbers(table: Table, cells: pl.Series, path: ColumnPath) -> pl.Series:
    """Return the numbers of a key that is a number in some lines and text in others: polars made all of them text."""
    values = parse_numbers(cells, text_is_number=True)
    looks_like_number = values.is_finite().fill_null(False)
    candidates = looks_like_number.arg_true()
    sample = candidates.gather_every(len(candidates) // _SAMPLED_CELLS + 1).to_list()
    if all(isinstance(cell, str) for cell in table.parse_json_cells(sample, path)):
        # The column holds texts that look like numbers, such as the answer "42".
        return parse_numbers(cells, text_is_number=False)
    indices = candidates.to_list()
    is_number = looks_like_number.to_numpy().copy()
    for index, cell in zip(indices, table.parse_json_cells(indices, path), strict=True):
        if isinstance(cell, str):
            is_number[index] = False
    return values.to_frame("x").select(pl.when(pl.Series(is_number)).then("x")).to_series()


def _find_filled(cells: pl.Series, text_is_number: bool) -> pl.Series:
    """Return which cells are not empty; in a CSV "nan", "null" … count as empty too."""
    if cells.dtype == pl.String and text_is_number:
        # Eight characters are enough to recognise them, and long texts need not be converted.
        start = cells.str.strip_chars().str.slice(0, 8).str.to_lowercase()
        return cells.is_not_null() & ~start.is_in(UNSCORED_TEXTS).fill_null(False)
    return cells.is_not_null()


def _find_inexact(
    table: Table, cells: pl.Series, is_large: pl.Series, path: ColumnPath
) -> pl.Series:
    """Return which of the large numbers are written as integers that a double cannot hold exactly."""
    if cells.dtype.is_integer() or cells.dtype.is_decimal():
        beyond = cells > LARGEST_EXACT_INTEGER
        if not cells.dtype.is_unsigned_integer():
            beyond = beyond | (cells < -LARGEST_EXACT_INTEGER)
        return is_large & beyond.fill_null(False)
    if table.json_lines is not None:
        # In a column with fractions polars has already turned integers into doubles; the file still has them.
        indices = is_large.arg_true().to_list()
        inexact = is_large.to_numpy().copy()
        for index, cell in zip(indices, table.parse_json_cells(indices, path), strict=True):
            inexact[index] = is_inexact_integer(cell)
        return pl.Series(inexact)
    if cells.dtype == pl.String:
        texts = cells.str.strip_chars()
        integers = texts.cast(pl.Int64, strict=False)
        is_whole = texts.str.contains(r"^[+-]?\d+$").fill_null(False)
        beyond = (integers > LARGEST_EXACT_INTEGER) | (integers < -LARGEST_EXACT_INTEGER)
        return is_large & is_whole & beyond.fill_null(True)
    return pl.repeat(False, len(cells), eager=True)


def is_inexact_integer(value: Any) -> bool:
    """Return whether it is an integer that a double cannot hold exactly."""
    return isinstance(value, int) and abs(value) > LARGEST_EXACT_INTEGER
