"""What kind of line it is, compiled: blank, a heading, a rule, a list entry, a code fence; see `verifiers/prose.py`.

On the bytes of `scan_flags`: d is the text, the line goes from a to z, without its line feed.
"""

# ruff: noqa: SIM109 - compiled, a tuple or a generator is slower

from __future__ import annotations

from typing import Any

from rubrank.texts.scan.flags import (
    ALPHA,
    CIRCLED,
    DECIMAL,
    DOT,
    IDEOGRAPHIC_COMMA,
    KEYCAP,
    NUMBER_END,
    NUMERAL,
    PAREN_CLOSE,
    PAREN_OPEN,
    SELECTOR,
    SPACE,
    SPACED,
    TEN,
    WORDY,
)
from rubrank.texts.scan.sentences import is_blank, jit

PROSE, BLANK, HEADING, RULE, BULLET, NUMBER = range(6)
_HASH, _STAR, _DASH, _PLUS, _LINE, _EQUALS, _MORE = ord("#"), ord("*"), ord("-"), ord("+"), ord("_"), ord("="), ord(">")
_TICK, _TILDE, _FULL_STOP, _BRACKET, _SPACE = ord("`"), ord("~"), ord("."), ord(")"), ord(" ")


@jit
def line_kind(d: Any, a: int, z: int, flags: Any) -> tuple[int, int]:
    """The kind of the line, and where the text of an entry begins."""
    i = a
    while i < z and is_blank(d[i]):
        i += 1
    if i < z and flags[d[i]] & ALPHA and i + 1 < z and flags[d[i + 1]] & ALPHA and d[i] < 128:
        if not _is_roman(d[i]) or not _is_roman(d[i + 1]):
            return PROSE, a  # as most lines begin
    elif _is_empty(d, i, z, flags):
        return BLANK, a
    if i - a <= 3:
        if _is_heading(d, i, z, flags):
            return HEADING, a
        if _is_rule(d, i, z):
            return RULE, a
    at = _after_bullet(d, i, z, flags)
    if at:
        return BULLET, at
    at = _after_number(d, i, z, flags)
    return (NUMBER, at) if at else (PROSE, a)


@jit
def _is_roman(char: int) -> bool:
    low = char | 32
    return low == 105 or low == 118 or low == 120  # i, v, x


@jit
def _is_empty(d: Any, i: int, z: int, flags: Any) -> bool:
    while i < z and flags[d[i]] & SPACE:
        i += 1
    return i == z


@jit
def _is_heading(d: Any, i: int, z: int, flags: Any) -> bool:
    j = i
    while j < z and d[j] == _HASH:
        j += 1
    if not 1 <= j - i <= 6:
        return False
    if j == z:
        return True
    first = j
    while j < z and is_blank(d[j]):
        j += 1
    return j > first and j < z and not flags[d[j]] & SPACE


@jit
def _is_rule(d: Any, i: int, z: int) -> bool:
    if i == z:
        return False
    sign, count = d[i], 0
    if not (sign == _STAR or sign == _DASH or sign == _LINE or sign == _EQUALS):
        return False
    while i < z and d[i] == sign:
        count += 1
        i += 1
        while i < z and sign != _EQUALS and is_blank(d[i]):
            i += 1
    while i < z and is_blank(d[i]):
        i += 1
    return count >= 3 and i == z


@jit
def _after_bullet(d: Any, i: int, z: int, flags: Any) -> int:
    """Where the text of a bullet begins; 0 if it is none."""
    if i == z:
        return 0
    needs_space = flags[d[i]] & SPACED != 0
    if not (needs_space or flags[d[i]] & DOT):
        return 0
    j = i + 1
    if d[i] == _DASH and j < z and flags[d[j]] & WORDY and not flags[d[j]] & DECIMAL:
        return j
    while j < z and is_blank(d[j]):
        j += 1
    return 0 if j == z or flags[d[j]] & SPACE or (needs_space and j == i + 1) else j


@jit
def _after_number(d: Any, i: int, z: int, flags: Any) -> int:
    """Where the text of a numbered entry begins; 0 if it is none."""
    j = i
    while j < z and j < i + 6 and d[j] == _HASH:
        j += 1
    if j > i:
        if j == z or not is_blank(d[j]):
            return 0
        j += 1
    elif i + 1 < z and d[i] == _STAR and d[i + 1] == _STAR:
        j += 2
    if j == z:
        return 0
    j = _after_numeral(d, j, z, flags)
    if not j:
        return 0
    while j < z and is_blank(d[j]):
        j += 1
    return 0 if j == z or flags[d[j]] & SPACE else j


@jit
def _run(d: Any, i: int, z: int, flags: Any, bit: int, most: int) -> int:
    """Where the run of such characters, at most so many, ends."""
    j = i
    while j < z and j < i + most and flags[d[j]] & bit:
        j += 1
    return j


@jit
def _after_numeral(d: Any, i: int, z: int, flags: Any) -> int:
    f = flags[d[i]]
    if f & (CIRCLED | TEN):
        return i + 1
    if d[i] < 128 and f & DECIMAL:
        j = i + 1
        if j < z and flags[d[j]] & SELECTOR:
            j += 1
        if j < z and flags[d[j]] & KEYCAP:
            return j + 1
    if f & PAREN_OPEN:
        j = _run(d, i + 1, z, flags, DECIMAL, 3)
        if j == i + 1:
            j = _run(d, i + 1, z, flags, NUMERAL, 3)
        return j + 1 if j > i + 1 and j < z and flags[d[j]] & PAREN_CLOSE else 0
    if f & NUMERAL:
        j = _run(d, i, z, flags, NUMERAL, 3)
        return j + 1 if j < z and flags[d[j]] & IDEOGRAPHIC_COMMA else 0
    j = i
    if f & DECIMAL:
        j = _run(d, i, z, flags, DECIMAL, 4)
        if j < z and flags[d[j]] & NUMBER_END:
            return j + 1
    elif f & ALPHA and d[i] < 128:
        j += 1
        while j < z and j < i + 5 and _is_roman(d[i]) and _is_roman(d[j]):
            j += 1
    if j == i or j + 2 >= z or not (d[j] == _FULL_STOP or d[j] == _BRACKET):
        return 0
    return j + 1 if is_blank(d[j + 1]) and not flags[d[j + 2]] & SPACE else 0


@jit
def fence(d: Any, a: int, z: int, flags: Any) -> tuple[int, int]:
    """Where the ticks or tildes of a code fence begin and end, after a list sign too; the end is 0 if it is none."""
    i = a
    while i < z and is_blank(d[i]):
        i += 1
    j = _ticks(d, i, z)
    if not j and i - a <= 3 and i < z:
        i = _after_fence_sign(d, i, z, flags)
        while i and i < z and is_blank(d[i]):
            i += 1
        j = _ticks(d, i, z) if i else 0
    return (i, j) if j else (0, 0)


@jit
def _after_fence_sign(d: Any, i: int, z: int, flags: Any) -> int:
    j = _run(d, i, z, flags, DECIMAL, 3)
    if j > i:
        if j == z or not (d[j] == _FULL_STOP or d[j] == _BRACKET):
            return 0
    elif not (d[i] == _DASH or d[i] == _STAR or d[i] == _PLUS or d[i] == _MORE):
        return 0
    else:
        j = i
    return j + 2 if j + 1 < z and d[j + 1] == _SPACE else 0


@jit
def _ticks(d: Any, i: int, z: int) -> int:
    j = i
    while j < z and d[j] == d[i] and (d[i] == _TICK or d[i] == _TILDE):
        j += 1
    return j if j - i >= 3 else 0


@jit
def is_bold_title(d: Any, a: int, z: int) -> bool:
    """Is the stripped line a title in bold: two pairs of stars, at its beginning and its end?"""
    if z - a < 4 or d[a] != _STAR or d[a + 1] != _STAR or d[z - 1] != _STAR or d[z - 2] != _STAR:
        return False
    pairs, i = 0, a
    while i + 1 < z:
        pair = d[i] == _STAR and d[i + 1] == _STAR
        pairs += pair
        i += 2 if pair else 1
    return pairs == 2
