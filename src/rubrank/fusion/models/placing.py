"""Utilities of groups of any size, and with tie margins: sort, then find or add the shape of the weak order.

Scores 3, 1, 3, 2 are sorted by their keys (`keys.py`, NumPy's sort). Where a new class of equal scores starts, and how
many others its members beat, is the shape: (0, 0), (1, 1), (2, 2). A hash table has the utilities of those seen so far.

Letters and indices as in `kernels.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank._jit import unsigned as _index
from rubrank.fusion.models.keys import OK
from rubrank.scores.outcomes import ROUNDING

FULL = 2


@jit
def _gapped_insertion(x: Any, index: Any, n: int, gap: int, patience: int) -> int:
    """One pass of insertion sort over every gap-th element; gives up after `patience` moves. Returns what is left."""
    for p in range(gap, n):
        if x[_index(p)] >= x[_index(p - gap)]:
            continue
        value, owner, q = x[p], index[p], p
        while q >= gap and x[q - gap] > value:
            x[q], index[q] = x[q - gap], index[q - gap]
            q -= gap
            patience -= 1
        x[q], index[q] = value, owner
        if patience < 0:
            return patience
    return patience


@jit
def _set_right(x: Any, index: Any, n: int) -> None:
    """Finish the order of nearly sorted scores; Shell's gaps keep it fast when they are not nearly sorted."""
    if _gapped_insertion(x, index, n, 1, 4 * n) >= 0:
        return
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        _gapped_insertion(x, index, n, gap, np.int64(1) << np.int64(60))
        gap //= 3


@jit
def _read_sorted(scores: Any, first: int, k: int, K: int, order: Any, low: Any, n: int, x: Any, index: Any) -> bool:
    """Rollout numbers and scores in the order of the keys; True if that is the order of the scores already."""
    ascending = True
    previous = -np.inf
    for p in range(n):
        i = order[_index(p)] & low
        value = scores[(_index(first) + i) * _index(K) + _index(k)]
        index[_index(p)], x[_index(p)] = i, value
        ascending &= value >= previous
        previous = value
    return ascending


@jit
def _levels(x: Any, n: int, start: Any, beaten: Any) -> int:
    """The classes of rollouts that cannot be told apart, without a margin: equal scores."""
    count = 0
    previous = np.nan
    for p in range(n):
        value = x[_index(p)]
        # Written in any case and kept only if a level starts here: no branch to mispredict.
        start[_index(count)], beaten[_index(count)] = p, p
        count += value != previous
        previous = value
    return count


@jit
def _exceeds(a: float, b: float, margin: float) -> bool:
    """Is a above b by more than the margin, rounding allowed for? See `scores/outcomes.py`."""
    return a - b > margin + ROUNDING * max(abs(a), abs(b))


@jit
def _classes(x: Any, n: int, margin: float, start: Any, beaten: Any) -> int:
    """The same with a margin: where each class starts, and how many others each of its members beats."""
    count, wins, unbeaten, previous_wins, previous_unbeaten = 0, 0, 0, -1, -1
    for p in range(n):
        value = x[_index(p)]
        # Within the margin itself there is nothing to find out about rounding.
        while value - x[_index(wins)] > margin and _exceeds(value, x[_index(wins)], margin):
            wins += 1
        while unbeaten < n and not (
            x[_index(unbeaten)] - value > margin and _exceeds(x[_index(unbeaten)], value, margin)
        ):
            unbeaten += 1
        if wins != previous_wins or unbeaten != previous_unbeaten:
            start[_index(count)], beaten[_index(count)] = p, wins
            count += 1
        previous_wins, previous_unbeaten = wins, unbeaten
    return count


@jit
def _hash(n: int, start: Any, beaten: Any, count: int) -> np.uint64:
    h = np.uint64(n) * np.uint64(0x9E3779B97F4A7C15)
    if count < n:  # else every rollout is alone in a class, and most often in order: nothing to tell apart
        for c in range(count):
            code = (np.uint64(start[_index(c)]) << np.uint64(32)) | np.uint64(beaten[_index(c)])
            h += (code + np.uint64(0x9E3779B97F4A7C15)) * (_index(2 * c + 1) * np.uint64(0xBF58476D1CE4E5B9))
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(32))


@jit
def _find(slots: Any, entries: Any, used: Any, codes: Any, n: int, start: Any, beaten: Any, count: int) -> int:
    """The entry of a shape, added if it is new; -1 when there is no room for it.

    entries[e] = (n, classes, where its codes and values start); codes hold `start` and `beaten` of every class.
    """
    mask = slots.shape[0] - 1
    slot = np.int64(_hash(n, start, beaten, count) & np.uint64(mask))
    while slots[slot] >= 0:
        e = slots[slot]
        if entries[e, 0] == n and entries[e, 1] == count:
            at = entries[e, 2]
            same = True
            for c in range(count):
                same &= codes[_index(at + c), 0] == start[_index(c)] and codes[_index(at + c), 1] == beaten[_index(c)]
            if same:
                return e
        slot = (slot + 1) & mask
    e, at = used[0], used[1]
    if 2 * (e + 1) > slots.shape[0] or e >= entries.shape[0] or at + count > codes.shape[0]:
        return -1
    slots[slot] = e
    entries[e, 0], entries[e, 1], entries[e, 2] = n, count, at
    for c in range(count):
        codes[at + c, 0], codes[at + c, 1] = start[c], beaten[c]
    used[0], used[1] = e + 1, at + count
    return e


@jit
def place(
    scores_MK: Any,
    starts: Any,
    groups: Any,
    margins: Any,
    bits: int,
    keys: Any,
    present: Any,
    slots: Any,
    entries: Any,
    used: Any,
    codes: Any,
    values: Any,
    u_MK: Any,
) -> int:
    """Utilities of sorted columns; shapes not seen before are entered in the table and read as NaN until solved."""
    K = scores_MK.shape[1]
    longest = keys.shape[1]
    x = np.empty(longest)
    index = np.empty(longest, np.uint64)
    scores, utilities = scores_MK.reshape(-1), u_MK.reshape(-1)
    start = np.empty(longest + 1, np.int32)
    beaten = np.empty(longest + 1, np.int32)
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    per_group = margins.shape[0] > 1
    for row in range(groups.shape[0]):
        first = starts[groups[row]]
        for i in range(first, starts[groups[row] + 1]):
            u_MK[i, :] = 0.0
        for k in range(K):
            column = row * K + k
            n = present[column]
            if not _read_sorted(scores, first, k, K, keys[column], low, n, x, index):
                _set_right(x, index, n)
            margin = margins[groups[row] if per_group else 0, k]
            count = _levels(x, n, start, beaten) if margin == 0.0 else _classes(x, n, margin, start, beaten)
            if count < 2:  # tied all over: nothing is said
                continue
            e = _find(slots, entries, used, codes, n, start, beaten, count)
            if e < 0:
                return FULL
            at = entries[e, 2]
            if count == n:  # no ties
                for p in range(n):
                    utilities[(_index(first) + index[_index(p)]) * _index(K) + _index(k)] = values[_index(at + p)]
                continue
            for c in range(count):
                end = start[c + 1] if c + 1 < count else n
                u = values[at + c]
                for p in range(start[c], end):
                    utilities[(_index(first) + index[_index(p)]) * _index(K) + _index(k)] = u
    return OK


@jit
def rehash(slots: Any, entries: Any, count: int, codes: Any) -> None:
    """Enter all shapes into a new, larger array of slots."""
    mask = slots.shape[0] - 1
    for e in range(count):
        at, classes = entries[e, 2], entries[e, 1]
        code = codes[at : at + classes]
        slot = np.int64(_hash(entries[e, 0], code[:, 0], code[:, 1], classes) & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = e
