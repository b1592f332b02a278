"""The contract of an attribute: what is measured on a response but never rewarded.

    Attribute("loudness", ("capital_letters",), count_all)      count_all(["Hi", "OK!"]) → [[1], [2]]

A criterion says what is good. An attribute is something that may bias a judge: length, headings, bold print. Fusing
with attributes estimates how much of a ranking they explain, so that only the rest is rewarded. An attribute returns
finite numbers ≥ 0: for each text one row with a number per column. Texts come as a list, or as N lists of G texts; the
values have the shape (n, D) or (N, G, D).

To add one, decorate a function of one text (docs/extending.md); it can then be used by name everywhere:

    @rubrank.attribute("capital_letters")
    def count_capital_letters(text):
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


@dataclass(frozen=True)
class Attribute:
    """A measure with the names of its columns; `measure(texts)` gives an array (…, len(columns))."""

    name: str
    columns: tuple[str, ...]
    measure: Callable[[Texts], NDArray[Any]]

    def rows(self, texts: list[str]) -> NDArray[np.float64]:
        """Measure the texts and check the result: (len(texts), D) floats, a row for each text.

        Raises InvalidInput if the measure breaks the contract.
        """
        values = np.asarray(self.measure(texts), dtype=np.float64)
        owner = f"attribute {self.name!r}"
        if values.shape != (len(texts), len(self.columns)):
            raise InvalidInput(
                owner,
                "measure",
                allowed=f"an array of one row for each of the {len(texts)} texts, with the columns {self.columns}",
                got=f"shape {values.shape}",
            )
        is_wrong = ~(np.isfinite(values) & (values >= 0))
        if is_wrong.any():
            got = str(values[is_wrong][0])
            raise InvalidInput(owner, "measure", allowed="finite and at least 0", got=got)
        return values


class Measured(NamedTuple):
    """Attribute values (…, D) and the names of their D columns."""

    values: NDArray[np.float64]
    columns: tuple[str, ...]


def flatten_texts(
    owner: str, texts: Iterable[Any], parameter: str = "texts", may_be_none: bool = False
) -> tuple[list[Any], tuple[int, ...]]:
    """Return the texts as one flat list, and their shape.

    owner, parameter: named in errors. may_be_none: accept None in place of a text.
    """
    # A string is itself a sequence of strings, so this frequent mistake would measure every letter on its own. Sets and
    # dicts have no order of rollouts; bytes would be read as numbers.
    if isinstance(texts, str | bytes | dict | set | frozenset) or not isinstance(texts, Iterable):
        raise InvalidInput(
            owner,
            parameter,
            allowed="a list of texts",
            got=f"{type(texts).__name__} {brief(texts)}",
            remedy="Put a single text into a list: [text].",
        )
    entries = list(texts)
    shape: tuple[int, ...] = (len(entries),)
    while entries and all(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        lengths = {len(row) for row in entries}
        if len(lengths) > 1:
            raise InvalidInput(
                owner,
                parameter,
                allowed="lists of the same length",
                got=f"lengths {sorted(lengths)}",
                remedy="Measure groups of different sizes one by one, or all their texts in one flat list.",
            )
        shape = (*shape, lengths.pop())
        entries = [entry for row in entries for entry in row]
    for index, entry in enumerate(entries):
        if not isinstance(entry, str) and not (may_be_none and entry is None):
            where = ", ".join(map(str, np.unravel_index(index, shape)))
            raise InvalidInput(
                owner,
                f"{parameter}[{where}]",
                allowed="a text",
                got=f"{type(entry).__name__} {brief(entry)}",
                remedy="Pass the text of every response, '' for one that says nothing.",
            )
    return entries, shape
