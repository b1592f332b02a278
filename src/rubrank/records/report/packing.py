"""Groups → what the page unpacks to show them.

    packer = Packer(text_limit=4000, budget=50_000_000)
    for group in groups: packer.add(group)
    packed = packer.finish()
    packed.index         columns over all groups, to list, filter and sort them
    packed.chunks        gzip of JSON, 64 groups each
    packed.text_limit    what the budget left of the limit

A group is a dict with short keys; what repeats over groups (criteria, rules, flags, names of attributes) stands once in
the index and is meant by number. Texts are cut to the limit; [text, length] = this is the beginning of `length`
characters. Over budget, all texts are cut to a lower limit, which is computed from their lengths and from how well they
compress; numbers and reasons are never cut.
"""

from __future__ import annotations

import gzip
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rubrank.records.report.compact import Interned, group_data, index_row
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.turns import cut

CHUNK = 64
_LEVEL = 5
_BASE64 = 4 / 3
_SAMPLE = 8  # chunks that tell how well texts compress
_TEXTS = ("t", "h", "m", "iw")


@dataclass(frozen=True)
class Packed:
    """All groups, packed."""

    index: dict[str, Any]
    chunks: list[bytes]
    text_limit: int
    cut_texts: int


class Packer:
    """Packs groups as they come, and cuts texts shorter when the budget is passed."""

    def __init__(self, text_limit: int, budget: float) -> None:
        self.limit, self.budget = text_limit, budget
        self.interned = Interned()
        self.rows: list[tuple[Any, ...]] = []
        self.waiting: list[dict[str, Any]] = []
        self.chunks: list[bytes] = []
        self.lengths = array("L")
        self.size = 0.0

    def add(self, group: Grouped) -> None:
        """Take a group."""
        self.rows.append(index_row(group, self.interned))
        data = group_data(group, self.interned, self.limit)
        self.lengths.extend(_length(text) for text in _texts(data))
        self.waiting.append(data)
        if len(self.waiting) == CHUNK:
            self._close()
            if self.size > 2.0 * self.budget:  # far over: cut now, before memory fills up with what must go
                self._fit()

    def finish(self) -> Packed:
        """Everything that was added."""
        if self.waiting:
            self._close()
        self._fit()
        index = {"columns": [list(column) for column in zip(*self.rows, strict=True)], **self.interned.tables()}
        return Packed({**index, "chunk": CHUNK}, self.chunks, self.limit, int((self._all_lengths() > self.limit).sum()))

    def _close(self) -> None:
        self._keep(self.waiting)
        self.waiting = []

    def _keep(self, groups: Sequence[dict[str, Any]]) -> None:
        self.chunks.append(pack(groups))
        self.size += len(self.chunks[-1]) * _BASE64

    def _fit(self) -> None:
        """Cut texts until the budget holds, or none is left."""
        while self.size > self.budget and self.limit > 0:
            self.limit = min(self._limit_that_fits(), int(0.95 * self.limit))
            before, self.chunks, self.size = self.chunks, [], 0.0
            for chunk in before:
                self._keep([_shorter(group, self.limit) for group in unpack(chunk)])

    def _all_lengths(self) -> np.ndarray:
        return np.array(self.lengths, dtype=float)

    def _limit_that_fits(self) -> int:
        """The limit at which numbers and texts together should take 97% of the budget."""
        packed = bare = characters = 0
        for chunk in self.chunks[:: -(-len(self.chunks) // _SAMPLE)]:
            groups = unpack(chunk)
            characters += sum(min(_length(text), self.limit) for group in groups for text in _texts(group))
            packed += len(chunk)
            bare += len(pack([_shorter(group, 0) for group in groups]))
        if packed == bare:
            return 0
        room = 0.97 * self.budget - self.size * bare / packed
        return _limit_for(
            np.sort(np.minimum(self._all_lengths(), self.limit)), room / _BASE64 * characters / (packed - bare)
        )


def pack(data: Any) -> bytes:
    """JSON, compressed; NaN must have become None before. A lone surrogate becomes a question mark."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode("utf-8", "replace"), _LEVEL, mtime=0)


def unpack(chunk: bytes) -> Any:
    """What was packed."""
    return json.loads(gzip.decompress(chunk))


def _limit_for(lengths: np.ndarray, characters: float) -> int:
    """The largest limit L with Σ min(length, L) ≤ characters; lengths are sorted."""
    below = np.concatenate([[0.0], np.cumsum(lengths)])
    longer = len(lengths) - np.arange(len(lengths))
    fits = np.flatnonzero(below[:-1] + lengths * longer <= characters)  # all cut to this one's length
    at = int(fits[-1]) + 1 if len(fits) else 0
    if at == len(lengths):
        return int(lengths[-1]) if len(lengths) else 0
    return max(0, int((characters - below[at]) / longer[at]))


def _texts(group: dict[str, Any]) -> Iterator[str | list[Any]]:
    return (text for key in _TEXTS for text in group.get(key, ()))


def _length(text: str | list[Any]) -> int:
    return len(text) if isinstance(text, str) else int(text[1])


def _shorter(group: dict[str, Any], limit: int) -> dict[str, Any]:
    """The group with its texts cut to a lower limit."""
    short = {key: [_again(text, limit) for text in group[key]] for key in _TEXTS if key in group}
    return {**group, **short}


def _again(text: str | list[Any], limit: int) -> str | list[Any]:
    return cut(text, limit) if isinstance(text, str) else [text[0][:limit], text[1]]
