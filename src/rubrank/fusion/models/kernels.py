"""From scores to utilities without a solver in the loop.

Four rollouts scored 3, 1, 3, 2 on one criterion beat 2, 0, 2 and 1 others. Those counts are their positions in the
sorted order, the set {0, 1, 2} of distinct counts says where a new level starts (the *shape* of the weak order), and
the utilities of that shape are in a table: count, look up, done. Groups of up to `SMALL` rollouts without tie margins
take that way (`rank_small`); larger ones, and those with margins, are sorted (`placing.py`). Which way a group takes
depends on the group alone.

Letters: M rollouts of N groups, K criteria; group g holds rows starts[g] .. starts[g + 1] of scores_MK.

Indices in inner loops are unsigned (`_index`): numba lets a negative index count from the end, and the check for that
keeps loops from being vectorised. It made `rank_small` nearly twice as slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank._jit import unsigned as _index
from rubrank.fusion.models.keys import _EXPONENT, INFINITE, OK

INDEXED = 12  # up to here all 2^(n-1) shapes of n rollouts are in a table that is indexed, not searched
SMALL = 32  # up to here comparing all pairs takes less time than sorting
BLOCK = 256  # columns compared at a time: 8 rollouts x 256 doubles fill half of a first-level cache
NO_SIGNAL = 1e-9  # a spread below this share of the largest contribution is rounding, not a ranking

UNSOLVED = 3


# ----------------------------------------------------------------------------------------------- weighting and min-max


@jit
def _stretch(u_MK: Any, first: int, last: int, weight_K: Any, fused_M: Any, ranking_M: Any) -> bool:
    """Min-max of one group's fused utilities; False if nothing but rounding tells its rollouts apart."""
    low, high = np.inf, -np.inf
    for i in range(first, last):
        low = min(low, fused_M[i])
        high = max(high, fused_M[i])
    spread = high - low
    signal = spread > 0.0
    if signal and spread < 1e-6 * weight_K.sum():  # rare: find out whether more than rounding is left
        largest = 0.0
        for i in range(first, last):
            for k in range(weight_K.shape[0]):
                largest = max(largest, abs(weight_K[k] * u_MK[i, k]))
        signal = spread > NO_SIGNAL * largest
    for i in range(first, last):
        ranking_M[i] = (fused_M[i] - low) / spread if signal else 0.5
    return signal


@jit
def scale_span(u_MK: Any, starts: Any, by_sd: bool, scale_NK: Any) -> None:
    """Give every criterion a span (best minus worst), or a standard deviation, of 1 in every group, in place.

    One that ties all stays.
    """
    for g in range(starts.shape[0] - 1):
        n = starts[g + 1] - starts[g]
        for k in range(u_MK.shape[1]):
            low, high, total = np.inf, -np.inf, 0.0
            for i in range(starts[g], starts[g + 1]):
                low = min(low, u_MK[i, k])
                high = max(high, u_MK[i, k])
                total += u_MK[i, k]
            span = high - low if high > low else 1.0
            if by_sd and high > low:
                square = 0.0
                for i in range(starts[g], starts[g + 1]):
                    square += (u_MK[i, k] - total / n) ** 2
                span = np.sqrt(square / n)
            scale_NK[g, k] = 1.0 / span
            for i in range(starts[g], starts[g + 1]):
                u_MK[i, k] /= span


@jit
def combine(u_MK: Any, starts: Any, weights: Any, fused_M: Any, ranking_M: Any, signal_N: Any) -> None:
    """u = Σ w u_k, then min-max in each group; `weights` has one row, or one for each group."""
    per_group = weights.shape[0] > 1
    for g in range(starts.shape[0] - 1):
        weight_K = weights[g if per_group else 0]
        for i in range(starts[g], starts[g + 1]):
            total = 0.0
            for k in range(u_MK.shape[1]):
                total += weight_K[_index(k)] * u_MK[_index(i), _index(k)]
            fused_M[i] = total
        signal_N[g] = _stretch(u_MK, starts[g], starts[g + 1], weight_K, fused_M, ranking_M)


# ---------------------------------------------------------------------------------------- small groups: count, look up


@jit
def _count(scores: Any, beaten: Any, x: int, y: int, width: int) -> None:
    """Compare two rows of `width` scores that start at x and y; count who beats whom."""
    for c in range(width):
        beaten[_index(x + c)] += scores[_index(x + c)] > scores[_index(y + c)]
        beaten[_index(y + c)] += scores[_index(x + c)] < scores[_index(y + c)]


@jit
def _mark_levels(beaten: Any, shape: Any) -> None:
    for column in range(beaten.shape[0]):
        shape[column] |= np.uint32(1) << np.uint32(beaten[column])


@jit
def _row_of(n: int, shape: Any, base: Any, shapes: Any, rows: Any, wanted: Any) -> np.uint32:
    """Where the table has the utilities of a shape of n rollouts; one that it does not have is put on the list."""
    if n <= INDEXED:
        return np.uint32(base[n] + (shape >> np.uint32(1)) * np.uint32(n + 1))
    key = (np.uint64(n) << np.uint64(32)) | np.uint64(shape)
    mask = np.uint64(shapes.shape[0] - 1)
    slot = (key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & mask
    while shapes[slot] != 0:
        if shapes[slot] == key:
            return rows[slot]
        slot = (slot + np.uint64(1)) & mask
    if wanted[0] + 1 < wanted.shape[0]:  # else it is asked for in the next round
        wanted[0] += 1
        wanted[wanted[0]] = key
    else:
        wanted[0] = wanted.shape[0] - 1
    return np.uint32(0)


@jit
def remember(keys: Any, at: Any, shapes: Any, rows: Any) -> None:
    """Enter shapes and their places in the table into the hash table that `_row_of` reads."""
    mask = np.uint64(shapes.shape[0] - 1)
    for i in range(keys.shape[0]):
        slot = (keys[i] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & mask
        while shapes[slot] != 0 and shapes[slot] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        shapes[slot], rows[slot] = keys[i], at[i]


@jit
def _rows_with_missing(
    block: Any, beaten: Any, n: int, width: int, base: Any, shapes: Any, rows: Any, wanted: Any, offset: Any
) -> bool:
    """Table rows of columns with missing scores, which shrink the group; False if a score is infinite."""
    for column in range(width):
        shape, present = np.uint32(0), 0
        for i in range(n):
            x = block[i, column]
            if np.isinf(x):
                return False
            if x == x:
                present += 1
                shape |= np.uint32(1) << np.uint32(beaten[i, column])
        offset[column] = _row_of(present, shape, base, shapes, rows, wanted)
        for i in range(n):
            if block[i, column] != block[i, column]:
                beaten[i, column] = present  # each row of the table ends with a 0 for those who were not compared
    return True


@jit
def _count_block(scores_MK: Any, first: int, groups: int, n: int, block: Any, beaten: Any) -> bool:
    """How many others each rollout beats, for all columns of some groups of n; False if a score is not finite."""
    K = scores_MK.shape[1]
    stride, width = block.shape[1], groups * K
    columns, counts = block.reshape(-1), beaten.reshape(-1)
    source_bits, target_bits = scores_MK.reshape(-1).view(np.uint64), columns.view(np.uint64)
    special = np.uint64(0)
    for i in range(n):
        for g in range(groups):
            source, target = (first + g * n + i) * K, i * stride + g * K
            for k in range(K):
                # As integers: a sum over doubles, which must keep its order, would not be vectorised.
                b = source_bits[_index(source + k)]
                target_bits[_index(target + k)] = b
                special |= np.uint64((b & _EXPONENT) == _EXPONENT)
        beaten[i, :width] = 0
    for i in range(1, n):
        for j in range(i):
            _count(columns, counts, i * stride, j * stride, width)
    return special == 0


@jit
def rank_small(
    scores_MK: Any,
    starts: Any,
    weights: Any,
    table: Any,
    base: Any,
    shapes: Any,
    rows: Any,
    wanted: Any,
    u_MK: Any,
    fused_M: Any,
    ranking_M: Any,
    signal_N: Any,
) -> int:
    """Utilities, fused utility and ranking of groups of at most SMALL rollouts, without margins.

    `table[row + beaten]` is the utility of a rollout that beats `beaten` of n - 1 others, where row depends on the
    shape: base[n] + (shape >> 1) * (n + 1) up to INDEXED rollouts, and what the hash table of `shapes` says beyond.
    UNSOLVED means that shapes are wanted that the table does not have yet: wanted[1 : 1 + wanted[0]].
    """
    K = scores_MK.shape[1]
    N = starts.shape[0] - 1
    capacity = max(1, BLOCK // K)
    block = np.empty((SMALL, capacity * K))
    beaten = np.empty((SMALL, capacity * K), np.uint8)
    offset = np.empty(capacity * K, np.uint32)
    counts, utilities, stride = beaten.reshape(-1), u_MK.reshape(-1), beaten.shape[1]
    per_group = weights.shape[0] > 1
    g = 0
    while g < N:
        n = starts[g + 1] - starts[g]
        groups = 1
        while groups < capacity and g + groups < N and starts[g + groups + 1] - starts[g + groups] == n:
            groups += 1
        width = groups * K
        if _count_block(scores_MK, starts[g], groups, n, block, beaten):
            offset[:width] = 0
            for i in range(n):
                _mark_levels(beaten[i, :width], offset[:width])
            if n <= INDEXED:
                for column in range(width):
                    offset[column] = base[n] + (offset[column] >> np.uint32(1)) * np.uint32(n + 1)
            else:
                for column in range(width):
                    offset[column] = _row_of(n, offset[column], base, shapes, rows, wanted)
        elif not _rows_with_missing(block, beaten, n, width, base, shapes, rows, wanted, offset):
            return INFINITE
        for h in range(groups):
            first = starts[g + h]
            weight_K = weights[g + h if per_group else 0]
            for i in range(0, n, 2):  # two sums at a time hide each other's latency; the last may repeat
                j = min(i + 1, n - 1)
                row_i, row_j = (first + i) * K, (first + j) * K
                column_i, column_j = i * stride + h * K, j * stride + h * K
                total_i, total_j = 0.0, 0.0
                for k in range(K):
                    at, weight = offset[_index(h * K + k)], weight_K[_index(k)]
                    u_i, u_j = table[at + counts[_index(column_i + k)]], table[at + counts[_index(column_j + k)]]
                    utilities[_index(row_i + k)], utilities[_index(row_j + k)] = u_i, u_j
                    total_i += weight * u_i
                    total_j += weight * u_j
                fused_M[first + i], fused_M[first + j] = total_i, total_j
            signal_N[g + h] = _stretch(u_MK, first, first + n, weight_K, fused_M, ranking_M)
        g += groups
    return OK if wanted[0] == 0 else UNSOLVED
