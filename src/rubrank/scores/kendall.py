"""Kendall's τ-b, the one definition: how far two orders of the same things agree.

    τ-b = (pairs ordered alike − pairs ordered otherwise) / √(pairs that one tells apart · pairs that the other does)

    >>> import numpy as np
    >>> tau_b(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0, 3.0]))       # 5 alike, 1 not, of 6
    0.6666666666666666

`tau` takes signs of pairs, or sums of them; `tau_b` takes two columns of numbers.
"""

from __future__ import annotations

import numpy as np

_FEW = 64
"""Up to so many, looking at all pairs is faster than sorting."""


def tau(alike_less_unlike: np.ndarray | float, in_one: np.ndarray | float, in_other: np.ndarray | float) -> np.ndarray:
    """τ-b from counts of pairs; NaN where one of the two tells nothing apart."""
    both, one, other = (np.asarray(of, float) for of in (alike_less_unlike, in_one, in_other))
    spread = np.sqrt(one * other)
    nothing = np.full(np.broadcast_shapes(both.shape, spread.shape), np.nan)
    return np.asarray(np.divide(both, spread, out=nothing, where=spread > 0.0))


def tau_b(x: np.ndarray, y: np.ndarray) -> float:
    """τ-b of two columns of numbers; NaN where one of them tells nothing apart."""
    return float(tau(*(_pair_by_pair(x, y) if len(x) <= _FEW else _by_sorting(x, y))))


def _pair_by_pair(x: np.ndarray, y: np.ndarray) -> tuple[int, int, int]:
    in_x, in_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    return int((in_x * in_y).sum()), int(np.count_nonzero(in_x)), int(np.count_nonzero(in_y))


def _by_sorting(x: np.ndarray, y: np.ndarray) -> tuple[int, int, int]:
    """In O(n log² n): sort by x, then count the pairs that y has the other way round."""
    n = len(x)
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    codes = np.unique(y, return_inverse=True)[1]
    pairs = n * (n - 1) // 2
    tied_x, tied_y = _tied(x), _tied(np.sort(y))
    tied_both = _tied(x, y)
    # Within equal x, y is sorted: only pairs that differ in both are ever inverted.
    alike_less_unlike = pairs - tied_x - tied_y + tied_both - 2 * _inversions(codes)
    return alike_less_unlike, pairs - tied_x, pairs - tied_y


def _tied(*sorted_columns: np.ndarray) -> int:
    """Pairs of rows that are equal, of rows in which equals stand together."""
    n = len(sorted_columns[0])
    if n == 0:
        return 0
    change = np.zeros(n - 1, bool)
    for column in sorted_columns:
        change |= column[1:] != column[:-1]
    runs = np.diff(np.concatenate([[0], np.flatnonzero(change) + 1, [n]]))
    return int((runs * (runs - 1) // 2).sum())


def _inversions(codes: np.ndarray) -> int:
    """Pairs i < j with codes[i] > codes[j]: a merge sort from the bottom up, every level in one stroke."""
    n, top = len(codes), int(codes.max(initial=0)) + 1
    count, width = 0, 1
    values, place = codes.astype(np.int64), np.arange(n)
    while width < n:
        block = place // (2 * width)
        right = (place // width) % 2 == 1
        keys = block * top + values  # sorted within every half, and by block: so sorted among all left halves
        left_keys, right_keys = keys[~right], keys[right]
        not_above = np.searchsorted(left_keys, right_keys, side="right")
        in_blocks_so_far = np.searchsorted(left_keys, (block[right] + 1) * top, side="left")
        count += int((in_blocks_so_far - not_above).sum())
        values = np.sort(keys) - block * top
        width *= 2
    return count
