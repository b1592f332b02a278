"""The built-in attributes, and the registry that finds attributes by name.

    reasoning_length, answer_length, total_length    in words                              control/length.py
    markdown                                         eleven densities, per line of the answer    control/markdown.py
    markup                                           their sum, a single column

How to add one, in a module of your own: a function from one text to a number, or to as many as it has columns.

    @rubrank.attribute
    def exclamations(text):
        return text.count("!")

A training step measures lengths and Markdown of every rollout, for its metrics: `measure_rollouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from reprlib import repr as brief
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from rubrank._plugins import (
    check_call,
    check_free,
    describe_object,
    is_async,
    load_plugins,
    make_decorator,
)
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.control.attribute import Attribute, Measured, Texts, flatten_texts
from rubrank.fusion.control.length import lengths
from rubrank.fusion.control.markdown import MARKERS, markdown_density
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

WORD_COLUMNS = 2
"""The first columns of `measure_rollouts`: words of the reasoning, and of the answer."""
MEASURED_COLUMNS = WORD_COLUMNS + len(MARKERS)
"""All columns of `measure_rollouts`."""


def _measure_markdown(texts: Texts) -> NDArray[np.float64]:
    # Only the answer: a reader does not see the reasoning, and `<think>` would begin a block of raw HTML.
    flat, shape = flatten_texts("attribute 'markdown'", texts)
    return markdown_density([split_reasoning(text)[1] for text in flat]).reshape(
        *shape, len(MARKERS)
    )


ATTRIBUTES: dict[str, Attribute] = {
    "reasoning_length": Attribute(
        "reasoning_length", ("reasoning_length",), lambda texts: lengths(texts).reasoning[..., None]
    ),
    "answer_length": Attribute(
        "answer_length", ("answer_length",), lambda texts: lengths(texts).answer[..., None]
    ),
    "total_length": Attribute(
        "total_length", ("total_length",), lambda texts: lengths(texts).total[..., None]
    ),
    "markdown": Attribute("markdown", MARKERS, _measure_markdown),
    # One coefficient is found in a few groups; the eleven of "markdown" are not.
    "markup": Attribute(
        "markup", ("markup",), lambda texts: _measure_markdown(texts).sum(-1, keepdims=True)
    ),
}
_LIBRARY = frozenset(ATTRIBUTES)
_sources: dict[str, Any] = {}
"""The functions that users registered, by name."""
_F = TypeVar("_F", bound=Callable[[str], Any])


@overload
def attribute(name: _F, /) -> _F: ...


@overload
def attribute(
    name: str | None = None, *, columns: Iterable[str] | None = None
) -> Callable[[_F], _F]: ...


def attribute(name: Any = None, *, columns: Iterable[str] | None = None) -> Any:
    """Register a function of one text as the attribute `name`, or under its own name.

    columns: names of the numbers that it returns for a text; by default one, the attribute's name.
    """

    def register(chosen_name: str | None, function: Any) -> Any:
        if not callable(function) or is_async(function):
            raise InvalidInput(
                "attribute",
                "function",
                allowed="a function of one text that is not async",
                got=describe_object(function),
            )
        check_call("attribute", function, "text")
        if isinstance(columns, str):
            raise InvalidInput("attribute", "columns", allowed="a list of names", got=repr(columns))
        requested_name = getattr(function, "__name__", None) if chosen_name is None else chosen_name
        attribute_name = check_free(
            "attribute", requested_name, function, _sources.get, requested_name in _LIBRARY
        )
        column_names = (attribute_name,) if columns is None else tuple(columns)

        def measure_texts(texts: Texts) -> NDArray[np.float64]:
            flat, shape = flatten_texts(f"attribute {attribute_name!r}", texts)
            rows = [_check_row(attribute_name, column_names, function(text)) for text in flat]
            return np.reshape(rows, (*shape, len(column_names)))

        ATTRIBUTES[attribute_name] = Attribute(attribute_name, column_names, measure_texts)
        _sources[attribute_name] = function
        return function

    return make_decorator(register, name)


def _check_row(name: str, columns: tuple[str, ...], result: Any) -> NDArray[np.float64]:
    """Return the result of a user's function as an array; raises InvalidInput unless it has one number per column."""
    try:
        row = np.atleast_1d(np.asarray(result, dtype=np.float64))
    except (TypeError, ValueError):
        row = np.zeros(0)
    if row.shape != (len(columns),) or isinstance(result, str | bytes):
        allowed = "a number for each text"
        if len(columns) > 1:
            allowed = f"{len(columns)} numbers for each text: {columns}"
        raise InvalidInput(
            f"attribute {name!r}",
            "what the function returns",
            allowed=allowed,
            got=brief(result),
        )
    return row


@only_our_errors
def find_attribute(name: str) -> Attribute:
    """Return the attribute of that name."""
    if name not in ATTRIBUTES:
        load_plugins()
    if name not in ATTRIBUTES:
        raise UnknownName.of("find_attribute", "name", name, ATTRIBUTES)
    return ATTRIBUTES[name]


@only_our_errors
def attribute_names() -> tuple[str, ...]:
    """Return the names of all attributes: the library's, those of plug-ins, and your own."""
    load_plugins()
    return tuple(ATTRIBUTES)


@only_our_errors
def measure(texts: Texts, names: Iterable[str | Attribute]) -> Measured:
    """Measure texts: return the values (…, D) of some attributes side by side, and the names of their columns.

    names: names of attributes, or attributes themselves.
    """
    if isinstance(names, str | Attribute):
        remedy = "Put a single name into a list: [name]."
        raise InvalidInput(
            "measure", "names", allowed="a list of names", got=brief(names), remedy=remedy
        )
    attributes = [name if isinstance(name, Attribute) else find_attribute(name) for name in names]
    columns = tuple(column for attribute in attributes for column in attribute.columns)
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise InvalidInput(
            "measure",
            "names",
            allowed="attributes without a column in common",
            got=f"{repeated} twice",
        )
    flat, shape = flatten_texts("measure", texts)
    values = [attribute.rows(flat) for attribute in attributes]
    rows = np.concatenate([np.zeros((len(flat), 0)), *values], axis=1)
    return Measured(rows.reshape(*shape, len(columns)), columns)


# ------------------------------------------------------------------------------------- the rollouts of a training step


def measure_rollouts(rollouts: Sequence[Rollout]) -> NDArray[np.float64]:
    """Return (rollouts, 13): words of the reasoning and of the answer, and eleven Markdown densities of the answer."""
    rows = np.empty((len(rollouts), MEASURED_COLUMNS))
    for row, rollout in zip(rows, rollouts, strict=True):
        row[:WORD_COLUMNS] = count_words(rollout.thoughts), count_words(rollout.answer)
    rows[:, WORD_COLUMNS:] = markdown_density([rollout.answer for rollout in rollouts])
    return rows
