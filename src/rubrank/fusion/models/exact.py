"""Sums that come out the same in whatever order, and in however many parts, their terms are added; compiled.

    0.1 + 0.2 + 0.3 ≠ 0.3 + 0.2 + 0.1 in floating point, by the last bit; here both are the exact sum, rounded once read

A sum is a row of whole numbers, the digits of a fixed-point number in base 2³²: bits from 2⁻¹⁹² up to 2¹²⁸ and room for
carries, which are left where they are until the sum is read. Adding whole numbers is exact, so that rows may be added
to rows: the sums of the parts of a batch make those of the batch, bit for bit. A term that is not finite or beyond
2¹²⁸ makes its sum NaN; what lies below 2⁻¹⁹² is cut off, which is the same for every order too. A billion terms fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rubrank._jit import jit

_DIGITS = 11
DIGITS = _DIGITS + 1
"""Whole numbers that a sum takes: its digits, and a count of the terms that were no numbers."""
_LOWEST = 192  # bits behind the point
_TOO_LARGE = 2.0**128
_MASK = (1 << 32) - 1
_WHOLE = 2.0**53


@jit
def add(sums: Any, k: int, s: int, term: float) -> None:
    """sums[k, s] += term; sums (…, …, DIGITS) of int64."""
    size = abs(term)
    if not size < _TOO_LARGE:  # written so that NaN is too large
        sums[k, s, _DIGITS] += 1
        return
    fraction, exponent = math.frexp(size)
    digits, place = np.int64(fraction * _WHOLE), exponent - 53 + _LOWEST
    if place < 0:
        digits = digits >> min(-place, 62)
        place = 0
    at, shift = place >> 5, place & 31
    low, high = (digits & _MASK) << shift, (digits >> 32) << shift
    sign = -1 if term < 0.0 else 1
    sums[k, s, at] += sign * (low & _MASK)
    sums[k, s, at + 1] += sign * ((low >> 32) + (high & _MASK))
    sums[k, s, at + 2] += sign * (high >> 32)


@jit
def _carried(row: Any) -> None:
    """Every digit but the last from 0 to 2³² − 1: one way to write each number."""
    for i in range(_DIGITS - 1):
        row[i + 1] += row[i] >> 32
        row[i] &= _MASK


@jit
def value(sums: Any, k: int, s: int) -> float:
    """The sum as a floating-point number."""
    if sums[k, s, _DIGITS] != 0:
        return np.nan
    row = sums[k, s].copy()
    _carried(row)
    sign = 1.0
    if row[_DIGITS - 1] < 0:
        sign = -1.0
        for i in range(_DIGITS):
            row[i] = -row[i]
        _carried(row)
    total = 0.0
    for i in range(_DIGITS - 1, -1, -1):
        total += math.ldexp(float(row[i]), 32 * i - _LOWEST)
    return sign * total
