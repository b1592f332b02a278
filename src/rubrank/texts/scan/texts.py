"""The compiled scan itself: one row of counts for every text of a batch.

Rows are those of `texts.scanned.Scan`. Texts lie one after another in d, as the bytes of `scan_flags`. A piece whose
sentences only Python can count goes into `asked` (text, begin, end); -1 stands for what Python must count altogether.
"""

# ruff: noqa: SIM109, SIM110 - compiled, a tuple or a generator is slower

from __future__ import annotations

import sys
from inspect import getsource
from typing import Any
from zlib import crc32

import numpy as np

from rubrank._jit import jit as kept_jit
from rubrank.texts.scan import flags as scan_flags
from rubrank.texts.scan import lines as scan_lines
from rubrank.texts.scan import sentences as scan_sentences
from rubrank.texts.scan.flags import ALONE, BREAK, COMMA, IN_WORD, SPACE, SPECIAL, STOP, TALKER, UNKNOWN
from rubrank.texts.scan.lines import BLANK, BULLET, HEADING, NUMBER, PROSE, RULE, fence, is_bold_title, line_kind
from rubrank.texts.scan.sentences import count_cut, is_blank, is_wordy, jit
from rubrank.texts.scanned import ADDRESS, BRACKETS, FENCE, SLOTS, TALK, TICK

WORDS, SENTENCES, PARAGRAPHS, BULLETS, COMMAS, SIGNS = range(6)
_FEED, _FULL_STOP, _TICK, _TILDE, _SLASH, _COLON, _W = 10, ord("."), ord("`"), ord("~"), ord("/"), ord(":"), ord("w")
# How a line begins whose writer talks to himself: three letters.
_WAI, _HMM, _HOL, _OKA, _ALR, _ACT, _NO, _BUT = (
    ord(w[0]) | ord(w[1]) << 8 | ord(w[2]) << 16 for w in ("wai", "hmm", "hol", "oka", "alr", "act", "no,", "but")
)
_U, _T, _SQUARE = ord("u"), ord("t"), ord("[")
_NO_LIST, _LIST, _NONE = 1, 2, 0


# ----------------------------------------------------------------------------------------------------------- characters


@jit
def _scan_characters(d: Any, a: int, z: int, flags: Any, row: Any, held: Any, feeds: Any, stops: Any) -> int:
    """Words, commas, signs, what words are held, where line feeds and marks are; and all flags that occur."""
    seen, inside, words, commas, signs = 0, 0, 0, 0, _talk(d, a, z, flags)
    i, lines, marks, key = a - 1, 0, 0, 0
    # No branches for words: they are short, so that a processor would often guess wrong.
    held[:] = 0
    for char in d[a:z]:
        i += 1
        f = flags[char]
        seen |= f
        words += f & ~inside & IN_WORD
        inside = (f | (inside & f >> 1)) & IN_WORD  # JOINS stands above IN_WORD: what joins changes nothing
        is_letter = f >> 63  # all bits or none: ASCII_WORD is the sign
        held[key & (SLOTS - 1) | is_letter & SLOTS] = 1  # the second half takes what is no whole word
        key = (9 * key + (char | 32)) & is_letter
        if f & (SPECIAL | COMMA | STOP | ALONE):
            words += (f & ALONE) != 0
            commas += f & COMMA != 0
            if f & STOP:
                stops[marks] = i
                marks += 1
            elif char == _FEED:
                feeds[lines] = i
                lines += 1
            elif f & SPECIAL:
                signs |= _sign(d, a, i, z)
    held[key & (SLOTS - 1)] = 1
    feeds[lines] = stops[marks] = z
    for line in range(lines):
        signs |= _talk(d, feeds[line] + 1, z, flags)
    for mark in range(marks):
        signs |= _short_address(d, a, stops[mark])
    row[WORDS], row[COMMAS], row[SIGNS] = words, commas, signs
    return seen


@jit
def _sign(d: Any, a: int, i: int, z: int) -> int:
    """What the special character at i may begin or end."""
    char = d[i]
    if char == _SLASH:
        return ADDRESS if i - a >= 2 and d[i - 1] == _SLASH and d[i - 2] == _COLON else 0
    if char == _TICK or char == _TILDE:
        triple = i - a >= 2 and d[i - 1] == char and d[i - 2] == char
        return (TICK if char == _TICK else 0) | (FENCE if triple else 0)
    # [THINK] or [/think]; many other words stand in brackets
    return 0 if char == _SQUARE and i + 1 < z and d[i + 1] | 32 != _T and d[i + 1] != _SLASH else BRACKETS


@jit
def _short_address(d: Any, a: int, i: int) -> int:
    """Does the mark at i end "www."?"""
    return ADDRESS if i - a >= 3 and d[i - 1] == _W and d[i - 2] == _W and d[i - 3] == _W and d[i] == _FULL_STOP else 0


@jit
def _talk(d: Any, i: int, z: int, flags: Any) -> int:
    """May the line that begins here be thinking aloud?"""
    while i < z and is_blank(d[i]):
        i += 1
    if i == z or not flags[d[i]] & TALKER:
        return 0
    if i + 4 >= z or d[i] >= 128 or d[i + 1] >= 128 or d[i + 2] >= 128:
        return TALK  # too short to look at, or of other letters
    head = (d[i] | 32) | (d[i + 1] | 32) << 8 | (d[i + 2] | 32) << 16
    if head == _WAI or head == _HMM or head == _HOL or head == _OKA:
        return TALK
    if head == _NO or head == _BUT:  # wait
        return TALK if d[i + 4] | 32 == _W or d[i + 4] >= 128 else 0
    if head == _ACT:  # actually, wait
        return TALK if d[i + 3] | 32 == _U else 0
    return TALK if head == _ALR else 0


# ---------------------------------------------------------------------------------------------------------------- lines


@jit
def _scan_lines(
    d: Any, a: int, z: int, flags: Any, text: int, row: Any, asked: Any, n: int, feeds: Any, stops: Any
) -> int:
    """Bullets and sentences, outside code fences; how many pieces are asked about now."""
    fenced, mark_from, mark_to = row[SIGNS] & FENCE, 0, 0
    bullets = sentences = 0
    start, stop = a, a  # the piece so far
    at, line, mark = a, -1, 0
    while at < z:
        line += 1
        end = feeds[line]
        kind, begins = -1, at
        if fenced:
            first, last = fence(d, at, end, flags)
            if mark_to:  # inside
                if last and _closes(d, mark_from, mark_to, first, last, end, flags):
                    mark_from, mark_to = 0, 0
                at = end + 1
                start = stop = at
                continue
            if last and not _has(d, last, end, d[first]):
                mark_from, mark_to, kind = first, last, BLANK
        if kind < 0:
            kind, begins = line_kind(d, at, end, flags)
        if kind != PROSE:
            if start < stop:
                sentences, n, mark = _count_piece(d, start, stop, flags, text, sentences, asked, n, stops, mark)
            bullets += kind == BULLET
            start = begins if kind == BULLET or kind == NUMBER else end
        stop = end
        at = end + 1
    sentences, n, mark = _count_piece(d, start, stop, flags, text, sentences, asked, n, stops, mark)
    row[BULLETS], row[SENTENCES] = bullets, sentences
    return n


@jit
def _closes(d: Any, mark_from: int, mark_to: int, first: int, last: int, end: int, flags: Any) -> bool:
    """Does the fence from `first` to `last` close the one that is open? Then nothing follows it in its line."""
    if d[first] != d[mark_from] or last - first < mark_to - mark_from:
        return False
    while last < end and flags[d[last]] & SPACE:
        last += 1
    return last == end


@jit
def _has(d: Any, a: int, z: int, char: int) -> bool:
    for i in range(a, z):
        if d[i] == char:
            return True
    return False


@jit
def _count_piece(
    d: Any,
    a: int,
    z: int,
    flags: Any,
    text: int,
    sentences: int,
    asked: Any,
    n: int,
    stops: Any,
    mark: int,
) -> tuple[int, int, int]:
    """The sentences so far with those of a piece, or with one piece more that is asked about."""
    while a < z and flags[d[a]] & SPACE:
        a += 1
    while a < z and flags[d[z - 1]] & SPACE:
        z -= 1
    if a >= z or sentences < 0:
        return sentences, n, mark
    count, mark = count_cut(d, a, z, flags, stops, mark)
    if count >= 0:
        return sentences + count, n, mark
    if n == len(asked):
        return -1, n, mark  # Python counts this text
    asked[n, 0], asked[n, 1], asked[n, 2] = text, a, z
    return sentences, n + 1, mark


# ----------------------------------------------------------------------------------------------------------- paragraphs


@jit
def _count_paragraphs(d: Any, a: int, z: int, flags: Any, fenced: int, feeds: Any) -> int:
    """Blocks that are paragraphs, lists that follow one another as one; -1 if all is one block."""
    count, blocks, previous = 0, 0, _NONE
    at, inside, line = a, False, 0
    while at < z:
        kind, at, inside, lines, line = _block(d, at, z, flags, fenced, inside, feeds, line)
        blocks += lines > 0
        if kind != _NONE:
            count += not (kind == _LIST and previous == _LIST)
            previous = kind
    return -1 if blocks == 1 else count


@jit
def _block(
    d: Any, at: int, z: int, flags: Any, fenced: int, inside: bool, feeds: Any, line: int
) -> tuple[int, int, bool, int, int]:
    """The kind of the block that begins here, where it ends, if a fence is open there, its lines, the next line."""
    lines, kept, listed, titled, wordy = 0, 0, False, False, False
    while at < z:
        end = feeds[line]
        line += 1
        first, last = at, end
        while first < last and flags[d[first]] & SPACE:
            first += 1
        if fenced and last - first >= 3:
            inside ^= (d[first] == _TICK or d[first] == _TILDE) and d[first] == d[first + 1] == d[first + 2]
        if first == last and not inside:
            at = end + 1
            break
        lines += 1
        if not (wordy and (kept > 1 or (kept == 1 and not titled))):
            while first < last and flags[d[last - 1]] & SPACE:
                last -= 1
            # The block's own edges are cut, so that its first and last lines may be rules however they stood.
            ends = last if last < end and not inside and _is_last(d, end + 1, z, flags) else end
            kind = line_kind(d, first if lines == 1 else at, ends, flags)[0]
            if kind != HEADING and kind != RULE:
                kept += 1
                if kept == 1:
                    listed, titled = kind == BULLET or kind == NUMBER, is_bold_title(d, first, last)
                wordy = wordy or is_wordy(d, first, last, flags)
        at = end + 1
    if not wordy or (titled and kept == 1):
        return _NONE, at, inside, lines, line
    return (_LIST if listed else _NO_LIST), at, inside, lines, line


@jit
def _is_last(d: Any, at: int, z: int, flags: Any) -> bool:
    """Is the line that begins here blank, or is there none?"""
    while at < z and d[at] != _FEED:
        if not flags[d[at]] & SPACE:
            return False
        at += 1
    return True


# ----------------------------------------------------------------------------------------------------------- all of it


def _made(sources: int) -> Any:
    """The scan, kept on disk until one of its files changes: numba sees one file, and what a function encloses."""

    def scan(d: Any, ends: Any, flags: Any, rows: Any, held: Any, asked: Any, feeds: Any, stops: Any) -> int:
        """Fill the rows; how many pieces are asked about. `feeds` and `stops` are room for one text's places."""
        n, a = sources & 0, 0
        slots = np.empty(2 * SLOTS, dtype=np.uint8)
        for text in range(ends.size):
            z = ends[text]
            row = rows[text]
            seen = _scan_characters(d, a, z, flags, row, slots, feeds, stops)
            held[text] = slots[:SLOTS]
            if seen & UNKNOWN:
                row[:] = -1
                row[SIGNS] = FENCE | TICK | ADDRESS | BRACKETS | TALK
            elif seen & BREAK:
                row[SENTENCES] = row[PARAGRAPHS] = row[BULLETS] = -1
            else:
                n = _scan_lines(d, a, z, flags, text, row, asked, n, feeds, stops)
                row[PARAGRAPHS] = _count_paragraphs(d, a, z, flags, row[SIGNS] & FENCE, feeds)
            a = z
        return n

    return kept_jit(scan)


scan = _made(crc32("".join(map(getsource, (scan_flags, scan_lines, scan_sentences, sys.modules[__name__]))).encode()))
