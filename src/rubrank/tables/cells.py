"""Read cells as numbers, and report the first cell that is wrong.

numbers = read_numbers(table, ("attributes", "tokens"))
numbers.values                      doubles; NaN where there is no number
numbers.check_scores(table, path)   raises for a text, an infinity, or an integer that a double cannot hold
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rubrank.tables.table import ColumnPath, Table

UNSCORED_TEXTS = ("", "nan", "null", "none", "na", "n/a")
"""Texts of a CSV cell without a score, in lower case."""
LARGEST_EXACT_INTEGER = 2**53
"""Different integers beyond this can become the same double: their order would be lost."""
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

    values: np.ndarray
    """Doubles: NaN if the cell holds no number, infinite if a double cannot hold its integer."""
    filled: np.ndarray
    """Is anything in the cell?"""

    @property
    def is_mostly_numbers(self) -> bool:
        """Is the column meant to hold numbers? A single "yes" among them is a mistake to report."""
        count = int(np.count_nonzero(~np.isnan(self.values)))
        return count > 0 and 2 * count >= int(np.count_nonzero(self.filled))

    def check_scores(self, table: Table, path: ColumnPath, limits: ScoreLimits | None) -> None:
        """Raise BadTable for the first cell that is wrong, or else for the first score outside the limits."""
        remedy = "Repair the cell, empty it if there is no score, or name the criteria: `criteria=Facts,Style`."
        is_wrong = self.filled & ~np.isfinite(self.values)
        table.refuse_cell(is_wrong, path, ALLOWED_SCORES, remedy)
        if limits is not None:
            outside = (self.values < limits.low) | (self.values > limits.high)
            table.refuse_cell(outside, path, limits.allowed, limits.remedy)

    def check_attribute(self, table: Table, path: ColumnPath) -> None:
        """Raise BadTable for the first cell that is missing or negative: an attribute is measured on every rollout."""
        is_usable = np.isfinite(self.values) & (self.values >= 0.0)
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        table.refuse_cell(~is_usable, path, "a finite number ≥ 0", remedy)


def read_numbers(table: Table, path: ColumnPath) -> Numbers:
    """Return the cells of a column, or of a field of one, as numbers."""
    cells = table.get_cells(path)
    if isinstance(cells, pl.Series):
        numbers = _parse_numbers(cells, table.text_is_number)
        values = numbers.fill_null(np.nan).to_numpy().copy()
        if numbers.null_count() == cells.null_count():  # only numbers: the usual case
            filled = ~np.isnan(values)
        else:
            filled = _find_filled(cells, table.text_is_number).to_numpy()
    else:
        values = np.array([_convert_to_double(cell) for cell in cells])
        filled = np.array([cell is not None and cell == cell for cell in cells], bool)  # NaN ≠ NaN
    for index in np.flatnonzero(np.abs(values) >= LARGEST_EXACT_INTEGER).tolist():
        if is_inexact_integer(cells[index]):
            values[index] = np.inf
    return Numbers(values, filled)


def _parse_numbers(cells: pl.Series, text_is_number: bool) -> pl.Series:
    """Return the cells of a frame as doubles; null where there is no number. text_is_number: read "0.5" as a number."""
    if cells.dtype.is_numeric() or cells.dtype == pl.Boolean:
        return cells.cast(pl.Float64)
    if cells.dtype != pl.String or not text_is_number:
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(cells))
    values = cells.cast(pl.Float64, strict=False)
    if values.null_count() == cells.null_count():
        return values  # only numbers: the usual case
    clean = cells.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return clean.cast(pl.Float64, strict=False)


def _convert_to_double(cell: Any) -> float:
    """Return a cell of JSON as a double; NaN if it is no number, infinite if it exceeds all doubles."""
    if not isinstance(cell, bool | int | float):
        return np.nan
    try:
        return float(cell)
    except OverflowError:
        return np.inf


def is_inexact_integer(value: Any) -> bool:
    """Return whether it is an integer, or the text of one, that a double cannot hold exactly."""
    if isinstance(value, float):
        return False
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
        return False
    return abs(int(value)) > LARGEST_EXACT_INTEGER


def _find_filled(cells: pl.Series, text_is_number: bool) -> pl.Series:
    """Return which cells are not empty; in a CSV "nan", "null" … count as empty too."""
    if cells.dtype == pl.String and text_is_number:
        # Eight characters are enough to recognise them, and long texts need not be converted.
        start = cells.str.strip_chars().str.slice(0, 8).str.to_lowercase()
        return cells.is_not_null() & ~start.is_in(UNSCORED_TEXTS).fill_null(False)
    return cells.is_not_null()


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
        truth_values = {"true": True, "false": False}
        return lower.replace_strict(truth_values, default=None, return_dtype=pl.Boolean)
    return cells
