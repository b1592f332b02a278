"""The contract of an attribute: what is measured on a response but never rewarded.

    Attribute("shouting", ("capitals",), lambda texts: ...)      texts (…) → values (…, 1)

A criterion says what is good. An attribute is something that may bias a judge: length, headings, bold print. Fusing
with attributes estimates how much of a ranking they explain, so that only the rest is rewarded. An attribute returns
finite numbers ≥ 0: for each text one row with a number per column. Texts come as a list, or as N lists of G texts; the
values have the shape (n, D) or (N, G, D).

To add one, decorate a function of one text (docs/extending.md); it can then be used by name everywhere:

    @rubrank.attribute("shouting")
    def capitals(text):
        return sum(map(str.isupper, text))

Code that counts many texts faster than one at a time makes an `Attribute` itself, and passes it to `measure`.
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
        """Values (len(texts), D) as floats; raises if the measure breaks the contract."""
        values = np.asarray(self.measure(texts), dtype=np.float64)
        remedy = "Return one row of columns for every text."
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            allowed = (
                f"an array whose last axis holds the {len(self.columns)} columns {self.columns}"
            )
            raise self._error(allowed, f"shape {values.shape}", remedy)
        if len(values) != len(texts):
            allowed = f"an array of one row for each of the {len(texts)} texts"
            raise self._error(allowed, f"{len(values)}", remedy)
        is_wrong = ~(np.isfinite(values) & (values >= 0))
        if is_wrong.any():
            got = str(values[is_wrong][0])
            raise self._error(
                "finite and at least 0", got, "Count something, and count nothing as 0."
            )
        return values

    def _error(self, allowed: str, got: str, remedy: str) -> InvalidInput:
        return InvalidInput(
            f"attribute {self.name!r}", "measure", allowed=allowed, got=got, remedy=remedy
        )


class Measured(NamedTuple):
    """Attribute values (…, D) and the names of their D columns."""

    values: NDArray[np.float64]
    columns: tuple[str, ...]


def flatten_texts(owner: str, texts: Texts) -> tuple[list[str], tuple[int, ...]]:
    """The texts as one flat list, and their shape."""
    flat, shape = flatten_optional(owner, "texts", texts)
    if any(text is None for text in flat):
        raise _bad_entry(owner, "texts", flat.index(None), shape, None)
    return [text for text in flat if text is not None], shape


def flatten_optional(
    owner: str, parameter: str, texts: Iterable[Any]
) -> tuple[list[str | None], tuple[int, ...]]:
    """Like `flatten_texts`, for a parameter whose entries may be None."""
    entries = _list_entries(owner, parameter, texts)
    shape: tuple[int, ...] = (len(entries),)
    while not all(isinstance(entry, str | None) for entry in entries):
        entries, width = _flatten_once(owner, parameter, entries, shape)
        shape = (*shape, width)
    return entries, shape


def _list_entries(owner: str, parameter: str, texts: object) -> list[Any]:
    # A string is itself a sequence of strings, so this frequent mistake would measure every letter on its own.
    if isinstance(texts, str):
        remedy = "Put a single text into a list: [text]."
        raise InvalidInput(
            owner,
            parameter,
            allowed="a list of texts",
            got=f"the single text {brief(texts)}",
            remedy=remedy,
        )
    if isinstance(texts, np.ndarray) and texts.ndim:
        return texts.tolist()
    # Sets and dicts have no order of rollouts; bytes would be read as numbers.
    if isinstance(texts, bytes | dict | set | frozenset | np.ndarray) or not isinstance(
        texts, Iterable
    ):
        remedy = "Pass the texts of the rollouts in a list, or N lists of G texts."
        raise InvalidInput(
            owner,
            parameter,
            allowed="a list of texts",
            got=f"{type(texts).__name__} {brief(texts)}",
            remedy=remedy,
        )
    return list(texts)


def _flatten_once(
    owner: str, parameter: str, entries: list[Any], shape: tuple[int, ...]
) -> tuple[list[Any], int]:
    """The entries of all lists in one list, and the common length of the lists."""
    has_texts = any(isinstance(entry, str) for entry in entries)
    for index, entry in enumerate(entries):
        if not isinstance(entry, str if has_texts else _ROWS):
            raise _bad_entry(owner, parameter, index, shape, entry)
    widths = {len(row) for row in entries}
    if len(widths) > 1:
        remedy = (
            "Measure groups of different sizes one by one, or all their texts in one flat list."
        )
        raise InvalidInput(
            owner,
            parameter,
            allowed="lists of the same length",
            got=f"lengths {sorted(widths)}",
            remedy=remedy,
        )
    return [entry for row in entries for entry in row], widths.pop()


def _bad_entry(
    owner: str, parameter: str, index: int, shape: tuple[int, ...], entry: object
) -> InvalidInput:
    where = ", ".join(map(str, np.unravel_index(index, shape)))
    remedies = {
        "NoneType": "Use '' for a response that says nothing.",
        "bytes": "Decode it first.",
        "dict": "Pass the text of a message, such as message['content'].",
    }
    kind = type(entry).__name__
    remedy = remedies.get(kind, "Pass the text of every response.")
    return InvalidInput(
        owner,
        f"{parameter}[{where}]",
        allowed="a text",
        got=f"{kind} {brief(entry)}",
        remedy=remedy,
    )
