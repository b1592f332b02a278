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
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.control.attribute import Texts, flatten_texts
from rubrank.texts.reasoning import TAGS, Tags, split_reasoning
from rubrank.texts.words import count_words

Unit: TypeAlias = Literal["words", "tokens"]


@dataclass(frozen=True, eq=False)
class Lengths:
    """Lengths of the reasoning and the answer of every text, in one unit; `total` is their sum.

    Token counts that a trainer already has go in directly: `Lengths([812, 90], [40, 35], unit="tokens")`.
    """

    reasoning: Any
    """An array of numbers ≥ 0."""
    answer: Any
    """The same, of the same shape."""
    unit: Unit

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise UnknownName.of("Lengths", "unit", self.unit, get_args(Unit))
        for name in ("reasoning", "answer"):
            counts = np.asarray(getattr(self, name), dtype=np.float64)
            is_wrong = ~(np.isfinite(counts) & (counts >= 0))
            if is_wrong.any():
                got = str(counts[is_wrong].flat[0])
                raise InvalidInput("Lengths", name, allowed="finite and at least 0", got=got)
            object.__setattr__(self, name, counts)
        _check_shape("Lengths", "answer", np.shape(self.answer), np.shape(self.reasoning))

    @property
    def total(self) -> NDArray[np.float64]:
        """Reasoning and answer together."""
        return np.asarray(self.reasoning + self.answer)

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
        thoughts, reasoning_shape = flatten_texts(
            "lengths", reasoning, "reasoning", may_be_none=True
        )
        _check_shape("lengths", "reasoning", reasoning_shape, shape)
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


def _check_shape(
    owner: str, parameter: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    if shape != expected:
        raise InvalidInput(
            owner,
            parameter,
            allowed=f"of shape {expected}, one for every text",
            got=f"shape {shape}",
        )
