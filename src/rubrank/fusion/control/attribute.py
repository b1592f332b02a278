"""The contract of an attribute: what is measured on a response but never rewarded.

    Attribute("shouting", ("capitals",), lambda texts: ...)      texts (…) → values (…, 1)

A criterion says what is good; an attribute says what a judge may be swayed by: length, headings, bold print. Fusing
with attributes asks how much of a ranking they explain, so that only the rest is rewarded. All an attribute owes is
numbers: finite, at least 0, one row of `columns` per text, in the leading shape of the texts. Texts come as a list, or
as N lists of G texts; values follow as (n, D) or (N, G, D).

To add one, decorate a function of one text (docs/extending.md); it is then known by name everywhere:

    @rubrank.attribute("shouting")
    def capitals(text):
        return sum(map(str.isupper, text))

What can count many texts faster than one at a time makes an `Attribute` of its own, and hands it to `measure`.
An implementation of ours is one file in `attributes/`, with a test for every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rubrank.errors import InvalidInput

# Texts, or lists of texts; every nested list of the same length. The values have the same leading shape.
Texts: TypeAlias = Iterable["str | Texts"]
_ROWS = (list, tuple, np.ndarray)


@dataclass(frozen=True)
class Attribute:
    """A measure with the names of its columns; `measure(texts)` gives an array (…, len(columns))."""

    name: str
    columns: tuple[str, ...]
    measure: Callable[[Texts], NDArray[Any]]

    def rows(self, texts: list[str]) -> NDArray[np.float64]:
        """Values (len(texts), D) as floats, after checking that they keep the contract."""
        values = np.asarray(self.measure(texts), dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            allowed = f"an array whose last axis holds the {len(self.columns)} columns {self.columns}"
            raise self._broken(allowed, f"shape {values.shape}", "Return one row of columns for every text.")
        if len(values) != len(texts):
            allowed = f"an array of one row for each of the {len(texts)} texts"
            raise self._broken(allowed, f"{len(values)}", "Return one row of columns for every text.")
        if not (np.isfinite(values).all() and (values >= 0).all()):
            bad = values[~(np.isfinite(values) & (values >= 0))][0]
            raise self._broken("finite and at least 0", str(bad), "Count something, and count nothing as 0.")
        return values

    def _broken(self, allowed: str, got: str, remedy: str) -> InvalidInput:
        return InvalidInput(f"attribute {self.name!r}", "measure", allowed, got, remedy)


class Measured(NamedTuple):
    """Attribute values (…, D) and the names of their D columns."""

    values: NDArray[np.float64]
    columns: tuple[str, ...]


def flatten_texts(owner: str, texts: Texts) -> tuple[list[str], tuple[int, ...]]:
    """The texts in one flat list, and the shape they came in."""
    flat, shape = flatten_optional(owner, "texts", texts)
    if any(text is None for text in flat):
        raise _bad_entry(owner, "texts", flat.index(None), shape, None)
    return [text for text in flat if text is not None], shape


def flatten_optional(owner: str, parameter: str, texts: Iterable[Any]) -> tuple[list[str | None], tuple[int, ...]]:
    """Like `flatten_texts`, for a parameter whose entries may be None."""
    level = _entries(owner, parameter, texts)
    shape: tuple[int, ...] = (len(level),)
    while not all(isinstance(entry, str | None) for entry in level):
        level, width = _flatten_once(owner, parameter, level, shape)
        shape = (*shape, width)
    return level, shape


def _entries(owner: str, parameter: str, texts: object) -> list[Any]:
    # A text is itself a sequence of texts, so this frequent slip would measure every letter on its own.
    if isinstance(texts, str):
        remedy = "Put a single text into a list: [text]."
        raise InvalidInput(owner, parameter, "a list of texts", f"the single text {brief(texts)}", remedy)
    if isinstance(texts, np.ndarray) and texts.ndim:
        return texts.tolist()
    # Sets and dicts have no order of rollouts; bytes would be read as numbers.
    if isinstance(texts, bytes | dict | set | frozenset | np.ndarray) or not isinstance(texts, Iterable):
        remedy = "Pass the texts of the rollouts in a list, or N lists of G texts."
        raise InvalidInput(owner, parameter, "a list of texts", f"{type(texts).__name__} {brief(texts)}", remedy)
    return list(texts)


def _flatten_once(owner: str, parameter: str, level: list[Any], shape: tuple[int, ...]) -> tuple[list[Any], int]:
    wanted = str if any(isinstance(entry, str) for entry in level) else _ROWS
    for index, entry in enumerate(level):
        if not isinstance(entry, wanted):
            raise _bad_entry(owner, parameter, index, shape, entry)
    widths = {len(row) for row in level}
    if len(widths) > 1:
        remedy = "Measure groups of different sizes one by one, or all their texts in one flat list."
        raise InvalidInput(owner, parameter, "lists of the same length", f"lengths {sorted(widths)}", remedy)
    return [entry for row in level for entry in row], widths.pop()


def _bad_entry(owner: str, parameter: str, index: int, shape: tuple[int, ...], entry: object) -> InvalidInput:
    where = ", ".join(map(str, np.unravel_index(index, shape)))
    remedies = {
        "NoneType": "Use '' for a response that says nothing.",
        "bytes": "Decode it first.",
        "dict": "Pass the text of a message, such as message['content'].",
    }
    kind = type(entry).__name__
    remedy = remedies.get(kind, "Pass the text of every response.")
    return InvalidInput(owner, f"{parameter}[{where}]", "a text", f"{kind} {brief(entry)}", remedy)
