"""What the cells of one column are like: numbers or not, and the first one that is wrong for each use of a column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from rubrank.fusion.stream.names import Leaf
from rubrank.fusion.stream.readers import Csv, JsonLines, Reader

_UNSCORED = ("", "nan", "null", "none", "na", "n/a")  # texts of a CSV cell without a score, in any case
_LONGEST_NUMBER = 40  # characters; longer texts are not tried as numbers
_EXACT = 2**53
_SAMPLE = 100  # cells by which a column of texts is told from one of numbers with a text among them


@dataclass
class Facts:
    """What the cells of one column are like; places are (row, what is there)."""

    filled: int = 0
    numbers: int = 0
    plain: int = 0
    """Texts written the way JSON writes a number: as numbers they lose nothing."""
    whole: int = 0
    booleans: int = 0
    bad: tuple[int, str] | None = None
    """The first cell that is no finite number."""
    unmeasured: tuple[int, str] | None = None
    """The first cell that is no attribute: missing, or negative."""
    outside: tuple[int, str] | None = None
    """The first score outside [0, 1]."""

    def look(self, reader: Reader, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> None:
        """Take in the cells of one frame."""
        if raw.dtype == pl.String and isinstance(reader, JsonLines):
            value = _real_numbers(reader, rows, raw, leaf)
        else:
            value = numbers(raw, reader.text_is_number)
        nothing_else = value.null_count() == raw.null_count()
        filled = value.is_not_nan().fill_null(False) if nothing_else else _filled(raw, reader.text_is_number)
        wrong = filled & (
            value.is_null() | value.is_infinite().fill_null(False) | _inexact(reader, rows, raw, value, leaf)
        )
        self.filled += int(filled.sum())
        self.numbers += int((filled & value.is_not_null()).sum())
        self.bad = self.bad or first_place(rows, raw, wrong)
        missing = ~filled | value.is_nan().fill_null(False)
        self.unmeasured = self.unmeasured or first_place(rows, raw, missing | (value < 0.0).fill_null(False))
        self.outside = self.outside or first_place(rows, raw, ((value < 0.0) | (value > 1.0)).fill_null(False))
        if isinstance(reader, Csv) and (reader.typed or leaf[0] in reader.labels):
            self.plain += int(raw.str.contains(r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$").sum())
            self.whole += int(raw.str.contains(r"^(0|-?[1-9]\d{0,17})$").sum())
            self.booleans += int(raw.str.to_lowercase().is_in(["true", "false"]).sum())

    def look_at_one(self, row: int, value: Any) -> None:
        """Take in a single score."""
        if value is None or value != value:
            return
        if not isinstance(value, bool | int | float) or _rounded(value) or math.isinf(value):
            self.bad = self.bad or (row, _shown(value))
        elif not 0.0 <= value <= 1.0:
            self.outside = self.outside or (row, _shown(value))


def _rounded(value: Any) -> bool:
    """Is it a whole number that doubles merge with its neighbours?"""
    return isinstance(value, int) and abs(value) > _EXACT


def _real_numbers(reader: JsonLines, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> pl.Series:
    """The numbers of a key that is now a number and now a text, and has become text on reading: the file tells."""
    value = numbers(raw, True)
    like_number = value.is_finite().fill_null(False)
    found = rows.filter(like_number)
    sample = found.gather_every(len(found) // _SAMPLE + 1).to_list()
    if all(isinstance(cell, str) for cell in reader.cells(sample, leaf)):
        return numbers(raw, False)
    every = found.to_list()
    texts = [row for row, cell in zip(every, reader.cells(every, leaf), strict=True) if isinstance(cell, str)]
    return value.to_frame("x").select(pl.when(like_number & ~rows.is_in(texts)).then("x")).to_series()


def numbers(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Cells as doubles; null where there is no number."""
    if raw.dtype.is_numeric() or raw.dtype == pl.Boolean:
        return raw.cast(pl.Float64)
    if raw.dtype != pl.String or not text_is_number:
        return pl.Series(raw.name, [None], pl.Float64).new_from_index(0, len(raw))
    short = raw.to_frame("x").select(pl.when(pl.col("x").str.len_bytes() <= _LONGEST_NUMBER).then("x")).to_series()
    if (quick := short.cast(pl.Float64, strict=False)).null_count() == raw.null_count():
        return quick  # nothing but numbers, as almost always
    clean = short.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return clean.cast(pl.Float64, strict=False)


def _filled(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Is anything in the cell?"""
    if raw.dtype == pl.String and text_is_number:
        start = raw.str.slice(0, 8).str.strip_chars().str.to_lowercase()
        return raw.is_not_null() & ~start.is_in(_UNSCORED).fill_null(False)
    return raw.is_not_null()


def _inexact(reader: Reader, rows: pl.Series, raw: pl.Series, value: pl.Series, leaf: Leaf) -> pl.Series:
    """Whole numbers, as they are written, that doubles merge with their neighbours."""
    large = (value.abs() >= _EXACT).fill_null(False)
    if not large.any():
        return large
    if raw.dtype.is_integer() or raw.dtype.is_decimal():
        return large & ((raw > _EXACT) | (False if raw.dtype.is_unsigned_integer() else raw < -_EXACT)).fill_null(False)
    if isinstance(reader, JsonLines):  # among numbers with fractions a whole one is a double already
        at = rows.filter(large).to_list()
        return rows.is_in([row for row, cell in zip(at, reader.cells(at, leaf), strict=True) if _rounded(cell)])
    if raw.dtype == pl.String:
        texts = raw.str.strip_chars()
        written = texts.cast(pl.Int64, strict=False)
        whole = texts.str.contains(r"^[+-]?\d+$").fill_null(False)
        return large & whole & ((written > _EXACT) | (written < -_EXACT)).fill_null(True)
    return pl.repeat(False, len(raw), eager=True)


def first_place(rows: pl.Series, raw: pl.Series, mask: pl.Series) -> tuple[int, str] | None:
    """Row and cell of the first for which the mask holds."""
    at = mask.arg_max() if mask.any() else None
    if at is None:
        return None
    return rows[at], _shown(raw[at])


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) < 50 else f"{text[:47]}…"
