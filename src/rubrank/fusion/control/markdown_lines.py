"""The lines of many texts that are not blank, counted by compiled code.

    count_lines(data, ends, counts)        what `markdown._count_lines` counts, for texts whose lines end in line feeds

Like `markdown_tags`, it is only come to when numba is loaded already.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit

_FEED, _SPACE = ord("\n"), ord(" ")
ASK = -1
WIDTH = 8
"""Bytes looked at together: the data is filled up to a multiple."""
_ONES, _TOPS, _FEEDS = (np.uint64(int(f"{byte:02x}" * WIDTH, 16)) for byte in (0x01, 0x80, _FEED))


@jit
def count_lines(data: Any, ends: Any, counts: Any) -> None:
    """Lines of every text, laid out as UTF-8 with a line feed after each; `ASK` where only Python can tell."""
    text, lines, begins, eight = 0, 0, 0, -1
    for word in data.view(np.uint64):
        eight += 1
        other = word ^ _FEEDS
        if not (other - _ONES) & ~other & _TOPS:  # none of its bytes is a line feed
            continue
        for i in range(WIDTH * eight, WIDTH * eight + WIDTH):
            if data[i] != _FEED:
                continue
            ink = _ink(data, begins, i)
            lines = ASK if ink < 0 or lines < 0 else lines + ink
            begins = i + 1
            if begins == ends[text]:
                counts[text] = lines
                text, lines = text + 1, 0


@jit
def _ink(data: Any, i: int, end: int) -> int:
    """1 if there is more than spaces, 0 if not, `ASK` if there may be."""
    while i < end and data[i] <= _SPACE and _is_space(data[i]):
        i += 1
    if i == end:
        return 0
    return ASK if data[i] >= 128 and _may_be_space(data, i) else 1


@jit
def _is_space(byte: int) -> bool:
    return byte == _SPACE or 9 <= byte <= 13 or 28 <= byte <= 31


@jit
def _may_be_space(data: Any, i: int) -> bool:
    """May a space of Unicode begin here? All of them are certainly found; quotation marks and bullets are none."""
    first, second = data[i], data[i + 1]
    if first == 0xE2:  # general punctuation
        return second == 0x81 or (second == 0x80 and (data[i + 2] < 0x90 or data[i + 2] == 0xAF))
    return (first == 0xC2 and second == 0xA0) or first == 0xE1 or (first == 0xE3 and second == 0x80)
