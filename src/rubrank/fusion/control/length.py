"""How long a response is: its reasoning, its answer, and both together.

    >>> lengths(["<think>2 and 2 make 4</think>The answer is 4."])
    Lengths(reasoning=array([5.]), answer=array([4.]), unit='words')

Reasoning is the text in thinking blocks (`texts/reasoning.py`), or a separate field if the trainer has one. The unit
is tokens if the caller passes a function that counts them, else words. Tags are not counted in either unit.

A word is a run of characters between spaces or punctuation that has at least one letter or digit. Apostrophes, hyphens,
full stops, commas and underscores inside a word do not split it (`don't`, `state-of-the-art`, `3.14`, `snake_case`). In
scripts without spaces every letter counts as a word: Han, Hiragana, Katakana, Bopomofo, Thai, Lao, Khmer and Burmese.
This overstates their words about 1.5 times (Han) to 5 times (Thai). Korean has spaces and is counted by them. Emoji are
not words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from reprlib import repr as brief
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.control.attribute import Texts, flatten_optional, flatten_texts
from rubrank.texts.reasoning import TAGS, Tags, split_reasoning
from rubrank.texts.words import count_words

Unit: TypeAlias = Literal["words", "tokens"]


@dataclass(frozen=True, eq=False)
class Lengths:
    """Lengths of the reasoning and the answer of every text, in one unit; `total` is their sum.

    Token counts that a trainer already has go in directly: `Lengths([812, 90], [40, 35], unit="tokens")`.
    """

    reasoning: NDArray[np.float64]
    answer: NDArray[np.float64]
    unit: Unit

    def __init__(self, reasoning: ArrayLike, answer: ArrayLike, unit: Unit) -> None:
        if not isinstance(unit, str) or unit not in ("words", "tokens"):
            raise UnknownName.of("Lengths", "unit", unit, ("words", "tokens"))
        object.__setattr__(self, "reasoning", _check_counts("reasoning", reasoning))
        object.__setattr__(self, "answer", _check_counts("answer", answer))
        object.__setattr__(self, "unit", unit)
        if self.reasoning.shape != self.answer.shape:
            raise _wrong_shape(
                "Lengths", "answer", "reasoning", self.reasoning.shape, self.answer.shape
            )

    @property
    def total(self) -> NDArray[np.float64]:
        """Reasoning and answer together."""
        return self.reasoning + self.answer

    def stack(self) -> NDArray[np.float64]:
        """All three as attributes: an array (…, 3) of reasoning, answer, total."""
        return np.stack([self.reasoning, self.answer, self.total], axis=-1)


@only_our_errors
def lengths(
    texts: Texts,
    *,
    reasoning: Iterable[Any] | None = None,
    tokens: Callable[[str], int] | None = None,
    tags: Tags = TAGS,
) -> Lengths:
    """Measure every text, in the shape the texts come in.

    reasoning: reasoning texts in the shape of `texts`, if the trainer stores them separately. The text that goes with
        one is all answer; None means that the reasoning is in the text, between tags.
    tokens: counts the tokens of a text, for instance
        `lambda text: len(tokenizer.encode(text, add_special_tokens=False))`. Without it the unit is words.
    """
    flat, shape = flatten_texts("lengths", texts)
    thoughts: list[str | None] = [None] * len(flat)
    if reasoning is not None:
        thoughts, reasoning_shape = flatten_optional("lengths", "reasoning", reasoning)
        if reasoning_shape != shape:
            raise _wrong_shape("lengths", "reasoning", "texts", shape, reasoning_shape)
    if tokens is not None and not callable(tokens):
        remedy = "Counts that are known already go into Lengths(reasoning, answer, unit='tokens')."
        raise InvalidInput(
            "lengths",
            "tokens",
            allowed="a function from a text to a number",
            got=type(tokens).__name__,
            remedy=remedy,
        )
    counts = np.zeros((len(flat), 2))
    for i, (text, thought) in enumerate(zip(flat, thoughts, strict=True)):
        parts = split_reasoning(text, tags) if thought is None else (thought, text)
        for part, string in enumerate(parts):
            counts[i, part] = (
                count_words(string) if tokens is None else _count_tokens(string, tokens)
            )
    counts = counts.reshape(*shape, 2)
    return Lengths(counts[..., 0], counts[..., 1], unit="words" if tokens is None else "tokens")


def _count_tokens(text: str, tokens: Callable[[str], int]) -> int:
    if not text:  # a tokenizer may count its special tokens even here
        return 0
    count = tokens(text)
    if not isinstance(count, Integral) or count < 0:
        remedy = "Count the tokens, as in tokens=lambda text: len(tokenizer.encode(text))."
        got = f"one that returned {type(count).__name__} {brief(count)}"
        raise InvalidInput(
            "lengths",
            "tokens",
            allowed="a function from a text to a whole number",
            got=got,
            remedy=remedy,
        )
    return int(count)


def _check_counts(parameter: str, values: ArrayLike) -> NDArray[np.float64]:
    counts = np.asarray(values, dtype=np.float64)
    is_wrong = ~(np.isfinite(counts) & (counts >= 0))
    if is_wrong.any():
        got = str(counts[is_wrong].flat[0])
        raise InvalidInput(
            "Lengths",
            parameter,
            allowed="finite and at least 0",
            got=got,
            remedy="Count nothing as 0.",
        )
    return counts


def _wrong_shape(
    owner: str, parameter: str, reference: str, expected: object, got: object
) -> InvalidInput:
    allowed = f"of the shape of {reference}, {expected}"
    return InvalidInput(
        owner, parameter, allowed=allowed, got=f"shape {got}", remedy="Give one for every text."
    )
