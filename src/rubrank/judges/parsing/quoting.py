"""Where a text quotes: quotation marks, block quotes, indented blocks, inline code, our data tags; its code fences.

    >>> text = 'It says "Verdict: 1". Verdict: 0'
    >>> [text[start:end] for start, end in quotations(text)]
    ['"Verdict: 1"']

Each is found in one pass, so that a reply of any make takes time in proportion to its length.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

_CODE = re.compile(r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(
    r"^[ \t]*>[^\n]*$"
    r"|^(?: {4}|\t)[^\n]*$"
    r"|^[ \t]*<(?P<tag>\w{1,40}) (?P<code>[0-9a-f]{12})>[ \t]*$(?s:.*?)(?:</(?P=tag) (?P=code)>|\Z)"
    r"|`[^`\n]+`",
    re.MULTILINE,
)
_PAIRED = ("“”", "「」", "『』", "‘’", "‚‘", "„“", "„”", "«»", "»«", "‹›", "《》", "〈〉", "【】")
_NEVER_CLOSE = "“「『«《"  # marks that do nothing else
_OPENS_AFTER, _CLOSES_BEFORE = "([:,，：。（", ".,;:!?)]}，。；：！？）"


class Spans:
    """Places of a text, for looking up: `place in spans`."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, place: int) -> bool:
        last = bisect_right(self._starts, place) - 1
        return last >= 0 and place < self._ends[last]


def quotations(text: str) -> list[Span]:
    """All of them, in no order; a data tag that never closes takes the rest."""
    found = [match.span() for match in _MARKED.finditer(text)] + list(_straight(text))
    return found + [span for opening, closing in map(tuple, _PAIRED) for span in _pairs(text, opening, closing)]


def code_fences(text: str) -> list[tuple[Span, Span]]:
    """Fences with their marks, and what is in them; one that never closes takes the rest."""
    return [(match.span(), match.span(2)) for match in _CODE.finditer(text)]


def _pairs(text: str, opening: str, closing: str) -> Iterator[Span]:
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + 1)) >= 0:
        yield start, end + 1
        start = text.find(opening, end + 1)
    if start >= 0 and opening in _NEVER_CLOSE and not (opening == "“" and "„" in text):
        yield start, len(text)  # whatever follows may be quoted


def _straight(text: str) -> Iterator[Span]:
    """From a straight mark that can open (after a space) to the next that can close (before a space or a stop)."""
    start = None
    for mark in re.finditer('"', text):
        place = mark.start()
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if start is None:
            start = place if not before.strip() or before in _OPENS_AFTER else None
        elif not after.strip() or after in _CLOSES_BEFORE:
            yield start, place + 1
            start = None
    if start is not None:
        yield start, len(text)
