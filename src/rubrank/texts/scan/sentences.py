"""How many sentences `texts.sentences.cut` makes of a piece of text, compiled; -1 where only Python can tell.

The functions here are those of `texts/sentences.py`, one by one, on the bytes of `scan_flags`: d is the text, a and z
are where the piece begins and ends.
"""

# ruff: noqa: SIM109, SIM110 - compiled, a tuple or a generator is slower

from __future__ import annotations

from typing import Any

from numba import njit

from rubrank.texts.scan.flags import (
    ALPHA,
    CLOSER,
    DASH,
    DECIMAL,
    DELIMITER,
    DIGIT,
    EDGE,
    EITHER,
    GOES_ON,
    LIST_SIGN,
    LONGEST,
    LOWER,
    MONTH,
    NUMBERED,
    ODD,
    OPENER,
    QUOTE,
    SPACE,
    STARTER,
    STOP,
    TITLE,
    UNSPACED,
    UPPER,
    WIDE,
    WORDY,
)

_UNSURE = -1
_FULL_STOP, _ASKS, _CALLS, _TAB, _BLANK = ord("."), ord("?"), ord("!"), ord("\t"), ord(" ")
_STAR, _LINE, _HASH, _MORE, _BRACKET, _I = ord("*"), ord("_"), ord("#"), ord(">"), ord(")"), ord("I")


def jit(function: Any) -> Any:
    """For what only other compiled functions call: without wrappers, half the time to compile."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(function, error_model="numpy", **options)


@jit
def count_cut(d: Any, a: int, z: int, flags: Any, stops: Any, mark: int) -> tuple[int, int]:
    """The sentences of a stripped piece; and the first of the marks at `stops` that is not in it."""
    i, since, count = _after_marker(d, a, z, flags), a, 0
    while True:
        while stops[mark] < i:
            mark += 1
        first = stops[mark]
        if first >= z:
            break
        i, wide = first, 0
        while i < z and flags[d[i]] & (STOP | CLOSER):
            wide |= flags[d[i]] & WIDE
            i += 1
        ends = _ends(d, a, z, first, i, wide, flags)
        if ends == _UNSURE:
            return _UNSURE, mark
        if ends == 1:
            count += is_wordy(d, since, first, flags)
            since = i
    return count + is_wordy(d, since, z, flags), mark


@jit
def is_wordy(d: Any, a: int, z: int, flags: Any) -> bool:
    """Is there a letter or digit?"""
    for i in range(a, z):
        if flags[d[i]] & WORDY:
            return True
    return False


@jit
def is_blank(char: int) -> bool:
    """Is it a space or a tab?"""
    return char == _BLANK or char == _TAB


@jit
def _after_marker(d: Any, a: int, z: int, flags: Any) -> int:
    """Where the sign of a list, a quote or a heading ends: `_MARKER`."""
    i = a
    while i < z and is_blank(d[i]):
        i += 1
    while i < z:
        f, j = flags[d[i]], i
        if f & DECIMAL:
            while j < z and j < i + 4 and flags[d[j]] & DECIMAL:
                j += 1
        elif f & ALPHA and d[i] < 128:
            j += 1
        if j > i:  # 1. or a)
            if j + 1 >= z or not (d[j] == _FULL_STOP or d[j] == _BRACKET) or not is_blank(d[j + 1]):
                return i
            j += 1
        elif f & LIST_SIGN and i + 1 < z and is_blank(d[i + 1]):
            j += 1
        else:
            while j < z and (d[j] == _STAR or d[j] == _LINE or d[j] == _HASH or d[j] == _MORE):
                j += 1
            if j == i:
                return i
        while j < z and is_blank(d[j]):
            j += 1
        i = j
    return i


@jit
def _ends(d: Any, a: int, z: int, first: int, at: int, wide: int, flags: Any) -> int:
    """Does the sentence end with the marks from `first` to `at`?"""
    if at == z:
        return 1
    follows = flags[d[at]]
    calls = d[first] == _CALLS or d[first] == _ASKS
    if not follows & SPACE:
        if wide:  # after a quote it may go on with who said it
            return _UNSURE if flags[d[at - 1]] & QUOTE else int(not follows & GOES_ON)
        return int(calls and (follows & UNSPACED) != 0)
    b = at
    while b < z and flags[d[b]] & SPACE:
        b += 1
    while b < z and flags[d[b]] & OPENER:
        b += 1
    if b == z:
        return 1
    if flags[d[b]] & LOWER and not (d[first] == _FULL_STOP and at == first + 1 and _is_small(d, a, z, flags)):
        return int(calls and (d[at - 1] == _CALLS or d[at - 1] == _ASKS))
    return 1 if d[first] != _FULL_STOP else _is_full_stop(d, a, z, first, b, flags)


@jit
def _is_small(d: Any, a: int, z: int, flags: Any) -> bool:
    cased = False
    for i in range(a, z):
        f = flags[d[i]]
        if f & UPPER:
            return False
        cased |= (f & LOWER) != 0
    return cased


@jit
def _is_full_stop(d: Any, a: int, z: int, at: int, begins: int, flags: Any) -> int:
    if d[at + 1] == _FULL_STOP:
        return 1
    start, key, latin = at, 0, 0
    while start > a and start > at - 7 and flags[d[start - 1]] & ALPHA:
        start -= 1
        latin += d[start] < 128
        key = key << 5 | flags[256 + d[start]]
    if at - start == 7:
        return 1  # no abbreviation is so long
    if 1 < latin == at - start and (start == a or flags[d[start - 1]] & DELIMITER):
        return _after_kind(d, z, _listed(key, flags), begins, flags)  # a short word, as usual
    start, least = at, max(a, at - 20)
    while start > least and not flags[d[start - 1]] & DELIMITER:
        start -= 1
    while start < at and flags[d[start]] & DASH:
        start += 1
    return _after_word(d, z, start, at, begins, flags) if start < at else 1


@jit
def _after_word(d: Any, z: int, start: int, at: int, begins: int, flags: Any) -> int:
    """Is the full stop after the word from `start` to `at` more than the end of an abbreviation?"""
    foreign, digits = False, True
    for k in range(start, at):
        f = flags[d[k]]
        if f & ODD:
            return _UNSURE
        foreign |= d[k] >= 128
        digits &= (f & DIGIT) != 0
    if at - start == 1 and flags[d[start]] & ALPHA:
        return _UNSURE if foreign else _after_letter(d, z, start, begins, flags)
    if digits:
        if at - start > 2:
            return 1
        kind = _next_word(d, begins, z, flags)[0]
        return _UNSURE if kind == _UNSURE else int(not kind & MONTH)
    return _after_kind(d, z, 0 if foreign else _kind(d, start, at, flags), begins, flags)


@jit
def _after_kind(d: Any, z: int, kind: int, begins: int, flags: Any) -> int:
    if not kind & (TITLE | EITHER | NUMBERED):
        return 1
    return 0 if kind & TITLE else _after_short(d, z, kind, begins, flags)


@jit
def _after_short(d: Any, z: int, kind: int, begins: int, flags: Any) -> int:
    following, _, is_number = _next_word(d, begins, z, flags)
    if following == _UNSURE:
        return _UNSURE
    if kind & NUMBERED and is_number:
        return 0
    return int(not kind & EITHER or (following & STARTER) != 0)


@jit
def _after_letter(d: Any, z: int, at: int, begins: int, flags: Any) -> int:
    following, length, _ = _next_word(d, begins, z, flags)
    if following == _UNSURE:
        return _UNSURE
    if flags[d[at]] & UPPER:
        return int(d[at] == _I or (following & STARTER) != 0)
    return int(not (_kind(d, at, at + 1, flags) & TITLE or length == 1))


@jit
def _next_word(d: Any, begins: int, z: int, flags: Any) -> tuple[int, int, bool]:
    """What lists the next word is in, its length, and whether it begins with a digit."""
    first, end = begins, min(z, begins + 24)
    while first < end and flags[d[first]] & SPACE:
        first += 1
    last = first
    while last < end and not flags[d[last]] & SPACE:
        last += 1
    while first < last and flags[d[first]] & EDGE:
        first += 1
    while first < last and flags[d[last - 1]] & EDGE:
        last -= 1
    for k in range(first, last):
        if d[k] >= 128:
            return _UNSURE, 0, False
    return _kind(d, first, last, flags), last - first, first < last and (flags[d[first]] & DIGIT) != 0


@jit
def _kind(d: Any, first: int, last: int, flags: Any) -> int:
    """The lists that hold this word; 0 for none."""
    if not 0 < last - first <= LONGEST:
        return 0
    key = 0
    for k in range(first, last):
        code = flags[256 + d[k]]
        if code == 0:
            return 0
        key |= code << (5 * (k - first))
    return _listed(key, flags)


@jit
def _listed(key: int, flags: Any) -> int:
    size = (flags.size - 512) // 2
    place = key % size
    return flags[512 + size + place] if flags[512 + place] == key else 0
