"""The attributes that come with rubrank, and the registry that finds them by name.

    reasoning_length, answer_length, total_length    in words                            attributes/length.py
    markdown                              eleven densities, per line of the answer       attributes/markdown.py

How to add one: see `rubrank.fusion.attribute`.
"""

from __future__ import annotations

from collections.abc import Iterable
from reprlib import repr as brief

import numpy as np
from numpy.typing import NDArray

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.attribute import Attribute, Measured, Texts, flatten_texts
from rubrank.fusion.attributes.length import lengths
from rubrank.fusion.attributes.markdown import MARKERS, markdown_density
from rubrank.texts.reasoning import split_reasoning

__all__ = ["ATTRIBUTES", "measure"]


def _answer_markdown(texts: Texts) -> NDArray[np.float64]:
    # What a reader sees: thoughts are not shown, and `<think>` would begin a block of raw HTML.
    flat, shape = flatten_texts("attribute 'markdown'", texts)
    return markdown_density([split_reasoning(text)[1] for text in flat]).reshape(*shape, len(MARKERS))


_BUILT_IN = (
    Attribute("reasoning_length", ("reasoning_length",), lambda texts: lengths(texts).reasoning[..., None]),
    Attribute("answer_length", ("answer_length",), lambda texts: lengths(texts).answer[..., None]),
    Attribute("total_length", ("total_length",), lambda texts: lengths(texts).total[..., None]),
    Attribute("markdown", MARKERS, _answer_markdown),
)
ATTRIBUTES: dict[str, Attribute] = {attribute.name: attribute for attribute in _BUILT_IN}


def measure(texts: Texts, names: Iterable[str | Attribute]) -> Measured:
    """Values (…, D) of the named attributes side by side, and their column names.

    `names` are names in `ATTRIBUTES`, or attributes themselves.
    """
    chosen = [_find(name) for name in _listed(names)]
    columns = tuple(column for attribute in chosen for column in attribute.columns)
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise InvalidInput("measure", "names", "attributes without a column in common", f"{twice} twice", "Drop one.")
    flat, shape = flatten_texts("measure", texts)
    values = [attribute.rows(flat) for attribute in chosen]
    rows = np.concatenate([np.zeros((len(flat), 0)), *values], axis=1)
    return Measured(rows.reshape(*shape, len(columns)), columns)


def _listed(names: Iterable[str | Attribute]) -> list[str | Attribute]:
    if isinstance(names, str | Attribute):
        raise InvalidInput(
            "measure", "names", "a list of names", brief(names), "Put a single name into a list: [name]."
        )
    return list(names)


def _find(name: str | Attribute) -> Attribute:
    if isinstance(name, Attribute):
        return name
    if name not in ATTRIBUTES:
        raise UnknownName.of("measure", "names", name, ATTRIBUTES)
    return ATTRIBUTES[name]
