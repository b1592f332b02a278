"""Scores as integers that sort as they do, each with the number of its rollout in its last bits.

    scores 0.7, NaN, 0.2  →  bits of 0.7 | 0,  all ones,  bits of 0.2 | 2        sorted: rollouts 2, 0; one is missing

NumPy sorts rows of integers by sorting networks, without a branch: up to 256 keys of 64 bits (`pack`) or 512 of 32
(`pack_short`), and falls back to something several times slower beyond. So larger groups take the short keys: the
leading bits of what tells a column's scores apart. Keys that are equal but for the number may stand for scores that
differ; `placing.place` sets those right.

Letters: M rollouts of N groups, K criteria; group g holds rows starts[g] .. starts[g + 1] of scores_MK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank._jit import unsigned as _index

OK, INFINITE = 0, 1
LONG = 256
"""Rollouts beyond which short keys are sorted faster than long ones."""

_EXPONENT = np.uint64(0x7FF0000000000000)  # all of these bits set: infinity or NaN
_SIGN = np.uint64(0x8000000000000000)
_MISSING = np.uint32(0xFFFFFFFF)


@jit
def _sortable(b: Any) -> np.uint64:
    """The bits of a double as an integer of the same order; -0.0 and 0.0 tie."""
    if b == _SIGN:
        b = np.uint64(0)
    # Negative numbers sort backwards as bits: flip all of theirs, and the sign of the others.
    return b ^ (_SIGN | (np.uint64(0) - (b >> np.uint64(63))))


@jit
def _is_infinite(b: Any) -> bool:
    """Of bits whose exponent is all ones: infinity, not NaN."""
    return (b & ~(_SIGN | _EXPONENT)) == np.uint64(0)


@jit
def pack(scores_MK: Any, starts: Any, groups: Any, bits: int, keys: Any, present: Any) -> int:
    """One row of sortable keys for each group and criterion: the score's leading bits, then the rollout's number.

    Missing scores get the largest key. Scores that differ only in the bits that the number took are set right later.
    """
    K, width = scores_MK.shape[1], keys.shape[1]
    scores, packed = scores_MK.reshape(-1), keys.reshape(-1)
    as_bits = scores.view(np.uint64)
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for row in range(groups.shape[0]):
        first = starts[groups[row]]
        n = starts[groups[row] + 1] - first
        for k in range(K):
            target = (row * K + k) * width
            missing = 0
            for i in range(n):
                b = as_bits[_index((first + i) * K + k)]
                key = (_sortable(b) & ~low) | np.uint64(i)
                if (b & _EXPONENT) == _EXPONENT:
                    if _is_infinite(b):
                        return INFINITE
                    key = ~np.uint64(0)
                    missing += 1
                packed[_index(target + i)] = key
            for i in range(n, width):
                packed[_index(target + i)] = ~np.uint64(0)
            present[row * K + k] = n - missing
    return OK


@jit
def _column(as_bits: Any, first: int, n: int, k: int, K: int, column: Any, known: Any) -> int:
    """One group's scores on one criterion as sortable integers, and which are there; how many, -1: one is infinite."""
    present = 0
    for i in range(n):
        b = as_bits[_index((first + i) * K + k)]
        known[_index(i)] = (b & _EXPONENT) != _EXPONENT
        if not known[_index(i)] and _is_infinite(b):
            return -1
        column[_index(i)] = _sortable(b)
        present += known[_index(i)]
    return present


@jit
def _shift(column: Any, known: Any, n: int, room: int) -> tuple[np.uint64, np.uint64]:
    """The smallest of a column, and by how many bits differences from it must be cut to fit into `room` bits."""
    low, high = ~np.uint64(0), np.uint64(0)
    for i in range(n):
        low = min(low, column[_index(i)] if known[_index(i)] else low)
        high = max(high, column[_index(i)] if known[_index(i)] else high)
    shift = np.uint64(0)
    if high > low:
        while (high - low) >> shift >> np.uint64(room) != np.uint64(0):
            shift += np.uint64(1)
    return low, shift


@jit
def pack_short(scores_MK: Any, starts: Any, groups: Any, bits: int, keys: Any, present: Any) -> int:
    """The same in 32 bits: as many leading bits of the distance from the column's smallest score as there is room."""
    K, width = scores_MK.shape[1], keys.shape[1]
    packed, as_bits = keys.reshape(-1), scores_MK.reshape(-1).view(np.uint64)
    column, known = np.empty(width, np.uint64), np.empty(width, np.bool_)
    for row in range(groups.shape[0]):
        first = starts[groups[row]]
        n = starts[groups[row] + 1] - first
        for k in range(K):
            count = _column(as_bits, first, n, k, K, column, known)
            if count < 0:
                return INFINITE
            present[row * K + k] = count
            low, shift = _shift(column, known, n, 32 - bits)
            target = (row * K + k) * width
            for i in range(n):
                key = np.uint32((((column[_index(i)] - low) >> shift) << np.uint64(bits)) | np.uint64(i))
                packed[_index(target + i)] = key if known[_index(i)] else _MISSING
    return OK
