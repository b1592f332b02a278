"""Counting in many texts at once, compiled: words, sentences, paragraphs, bullets, commas.

    scan(texts)                 # some `Text`s, each of which now has its `Text.scan`

A verifier that asks `count_sentences(text)` gets what the scan found, if there was one. The counts are those of the
definitions in Python (`texts/words.py`, `verifiers/prose.py`, `verifiers/paper_format.py`), always: where a decision is
beyond the compiled code (a name in Cyrillic before a full stop, a quotation in Chinese), the piece of text is given to
Python. The compiled code needs numba, which takes a moment to load: `worth` says when that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from rubrank.texts.classes import code_points
from rubrank.texts.plain import FORMS, plain_of
from rubrank.texts.prose import with_marked_titles
from rubrank.texts.scanned import SLOTS, Scan
from rubrank.texts.text import Text

COSTS = 3
"""What a scan costs, in the measure of `Verifier.scans`."""
_PAYS = 4_000_000  # characters that Python takes about as long for as numba takes to load
_read = 0


def worth(texts: Sequence[Text]) -> bool:
    """Does a scan pay? It does once this process has read as much without as it costs to load the compiled code."""
    global _read
    if _read < _PAYS:
        _read += sum(map(len, texts))
        return False
    return True


def load() -> None:
    """Load the compiled code now: for a process that will read much, such as a service."""
    global _read
    scan([Text("A word.")])
    _read = _PAYS


def scan_if_worth(texts: Sequence[Text]) -> None:
    """Scan them, or leave them to Python."""
    if worth(texts):
        scan(texts)


def scan(texts: Sequence[Text]) -> None:
    """Give each text its `scan`."""
    from rubrank.texts.scan.flags import TABLE
    from rubrank.texts.scan.texts import scan as compiled

    parts = _as_bytes(texts)
    ends = np.array([*accumulate(map(len, parts))], dtype=np.int64)
    rows = np.empty((len(texts), len(Scan._fields) - 1), dtype=np.int64)
    held = np.empty((len(texts), SLOTS), dtype=np.uint8)
    asked = np.empty((64 + 8 * len(texts), 3), dtype=np.int64)
    room = np.empty((2, 1 + max(map(len, parts), default=0)), dtype=np.int64)
    number = compiled(np.frombuffer(b"".join(parts), dtype=np.uint8), ends, TABLE, rows, held, asked, *room)
    _ask(texts, ends, rows, asked[:number].tolist())
    for text, row, some in zip(texts, rows.tolist(), held, strict=True):
        found = Scan._make((*row, some.tobytes()))
        # Titles that are underlined are marked before sentences and paragraphs are counted; that is Python's part.
        text.scan = found if with_marked_titles(text) is text else found._replace(sentences=-1, paragraphs=-1)


def _as_bytes(texts: Sequence[Text]) -> list[bytes]:
    """A byte for every character. What is looked up by the same numbers, `Text.plain`, is put down on the way."""
    from rubrank.texts.scan.flags import SHAPES

    others = [text for text in texts if not text.raw.isascii()]
    codes = code_points("".join([text.raw for text in others]))
    shapes, forms = SHAPES.look_up(codes), FORMS.look_up(codes)
    parts, end = [], 0
    for text in texts:
        if text.raw.isascii():
            parts.append(text.raw.encode())
            continue
        start, end = end, end + len(text)
        parts.append(shapes[start:end])
        text.__dict__["plain"] = plain_of(forms[start:end])
    return parts


def _ask(texts: Sequence[Text], ends: np.ndarray, rows: np.ndarray, asked: list[list[int]]) -> None:
    from rubrank.texts.sentences import cut

    for number, first, last in asked:
        if rows[number, 1] >= 0:
            before = int(ends[number - 1]) if number else 0
            rows[number, 1] += len(cut(texts[number].raw[first - before : last - before]))
