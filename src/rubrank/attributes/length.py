"""How long a response is: its reasoning, its answer, and both together.

    >>> lengths(["<think>2 and 2 make 4</think>The answer is 4."])
    Lengths(reasoning=array([5.]), answer=array([4.]), unit='words')

Reasoning is the text in thinking blocks (`TAGS`), or the trainer's own field when it keeps the two apart. The unit is
tokens when the caller can count them, else words. Tags are not counted, in either unit.

A word is what stands between spaces or punctuation, with at least one letter or digit; apostrophes, hyphens, full
stops, commas and underscores inside it do not divide it (`don't`, `state-of-the-art`, `3.14`, `snake_case`). In
scripts written without spaces every letter counts as a word: Han, Hiragana, Katakana, Bopomofo, Thai, Lao, Khmer and
Burmese. Korean has spaces, and its words are counted by them. Not covered: finding the words of the scripts without
spaces, where letters are about 1.5 times (Han) to 5 times (Thai) as many as words; sentences of emoji (no words).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from reprlib import repr as brief
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rubrank.attribute import Texts, flatten_optional, flatten_texts
from rubrank.errors import InvalidInput, UnknownName
from rubrank.texts.words import count_words

Tags: TypeAlias = Sequence[tuple[str, str]]
Unit: TypeAlias = Literal["words", "tokens"]

# What public reasoning models and recipes put around their thoughts.
TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)


@dataclass(frozen=True, eq=False)
class Lengths:
    """Lengths of the reasoning and the answer of every text, in one unit; `total` is their sum.

    Token counts that a trainer already has go in directly: `Lengths([812, 90], [40, 35], unit="tokens")`.
    """

    reasoning: NDArray[np.float64]
    answer: NDArray[np.float64]
    unit: Unit

    def __init__(self, reasoning: ArrayLike, answer: ArrayLike, unit: Unit) -> None:
        if unit not in ("words", "tokens"):
            raise UnknownName.of("Lengths", "unit", unit, ("words", "tokens"))
        object.__setattr__(self, "reasoning", _counted("reasoning", reasoning))
        object.__setattr__(self, "answer", _counted("answer", answer))
        object.__setattr__(self, "unit", unit)
        if self.reasoning.shape != self.answer.shape:
            raise _other_shape("Lengths", "answer", "reasoning", self.reasoning.shape, self.answer.shape)

    @property
    def total(self) -> NDArray[np.float64]:
        """Reasoning and answer together."""
        return self.reasoning + self.answer

    def stack(self) -> NDArray[np.float64]:
        """All three as attributes: an array (…, 3) of reasoning, answer, total."""
        return np.stack([self.reasoning, self.answer, self.total], axis=-1)


def lengths(
    texts: Texts,
    *,
    reasoning: Iterable[Any] | None = None,
    tokens: Callable[[str], int] | None = None,
    tags: Tags = TAGS,
) -> Lengths:
    """Measure every text, in the shape the texts come in.

    `reasoning` holds the trainer's own reasoning texts, in the shape of `texts`: the text beside one is all answer, and
    a None among them means "look for tags". `tokens` counts the tokens of a text, for instance
    `lambda text: len(tokenizer.encode(text, add_special_tokens=False))`; without it the unit is words.
    """
    flat, shape = flatten_texts("lengths", texts)
    own = [None] * len(flat) if reasoning is None else _own_reasoning(reasoning, shape)
    parts = [split_reasoning(text, tags) if r is None else (r, text) for text, r in zip(flat, own, strict=True)]
    count = count_words if tokens is None else _checked(tokens)
    counts = np.array([[count(thought), count(answer)] for thought, answer in parts], dtype=np.float64)
    counts = counts.reshape(*shape, 2)
    return Lengths(counts[..., 0], counts[..., 1], unit="words" if tokens is None else "tokens")


def split_reasoning(text: str, tags: Tags = TAGS) -> tuple[str, str]:
    """The reasoning and the answer of one text; (“”, text) when it holds no tag.

    Blocks may be several and nested. A block that never closes takes the rest of the text; so a response cut short in
    its thoughts has no answer. An opening tag quoted in a thought does not hide the answer: when the tags do not
    balance, the last closing one ends the block. A text whose first tag is a closing one began inside its block, as
    when the prompt ends in `<think>`. Any other stray closing tag is text. Separate pieces are joined by a blank line,
    without the line breaks around them.
    """
    pattern, closing, first = _compiled(tags if tags is TAGS else tuple(map(tuple, tags)))
    for char, some in first.items():
        if char in text and some.search(text):
            break
    else:
        return "", text
    marks = [(m.start(), m.end(), m[0]) for m in pattern.finditer(text)]
    if marks[0][2] not in closing:  # it closes a block that the prompt opened
        opening = next(first for first, last in closing.items() if last == marks[0][2])
        marks.insert(0, (0, 0, opening))
    marks.append((len(text), len(text), ""))
    return _cut(text, marks, closing)


_Mark: TypeAlias = tuple[int, int, str]


@lru_cache(maxsize=32)
def _compiled(
    tags: tuple[tuple[str, str], ...],
) -> tuple[re.Pattern[str], dict[str, str], dict[str, re.Pattern[str]]]:
    """A pattern for any tag; the closing tag of every opening one; and, by first character, patterns for some tags.

    A pattern whose tags all begin alike skips to that character, several times as fast as one for all.
    """
    for pair in tags:
        if len(pair) != 2 or not all(isinstance(tag, str) and tag for tag in pair) or pair[0] == pair[1]:
            allowed = "pairs of two different texts (opening, closing)"
            raise InvalidInput("split_reasoning", "tags", allowed, brief(pair), "Write (('<think>', '</think>'),).")
    # Longest first: of two tags that begin alike, the longer one is meant.
    literals = sorted({tag for pair in tags for tag in pair}, key=len, reverse=True)
    alike = {char: [tag for tag in literals if tag[0] == char] for char in {tag[0] for tag in literals}}
    return _any_of(literals), dict(tags), {char: _any_of(some) for char, some in alike.items()}


def _any_of(literals: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, literals)))


def _cut(text: str, marks: list[_Mark], closing: dict[str, str]) -> tuple[str, str]:
    thoughts: list[str] = []
    answers: list[str] = []
    here, mark = 0, 0
    while mark < len(marks):
        start, _, tag = marks[mark]
        if tag in closing:
            answers.append(text[here:start])
            last = _block_end(marks, mark, closing)
            thoughts += [text[marks[k][1] : marks[k + 1][0]] for k in range(mark, last)]
            here, mark = marks[last][1], last
        mark += 1
    answers.append(text[here:])
    return _join(thoughts), _join(answers)


def _block_end(marks: list[_Mark], first: int, closing: dict[str, str]) -> int:
    """The mark that ends the block opened at `first`; the end of the text when nothing closes it."""
    wanted, depth, last = closing[marks[first][2]], 0, len(marks) - 1
    for index in range(first, len(marks)):
        tag = marks[index][2]
        if tag == wanted:
            depth, last = depth - 1, index
            if depth == 0:
                break
        elif closing.get(tag) == wanted:
            depth += 1
    return last


def _join(pieces: list[str]) -> str:
    return "\n\n".join(piece.strip("\r\n") for piece in pieces if piece and not piece.isspace())


def _own_reasoning(reasoning: Iterable[Any], shape: tuple[int, ...]) -> list[str | None]:
    own, own_shape = flatten_optional("lengths", "reasoning", reasoning)
    if own_shape != shape:
        raise _other_shape("lengths", "reasoning", "texts", shape, own_shape)
    return own


def _checked(tokens: Callable[[str], int]) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text:  # without asking: a tokenizer may count its own special tokens
            return 0
        number = tokens(text)
        if not isinstance(number, Integral) or number < 0:
            remedy = "Count the tokens, as in tokens=lambda text: len(tokenizer.encode(text))."
            got = f"one that returned {type(number).__name__} {brief(number)}"
            raise InvalidInput("lengths", "tokens", "a function from a text to a whole number", got, remedy)
        return int(number)

    if not callable(tokens):
        remedy = "Counts that are known already go into Lengths(reasoning, answer, unit='tokens')."
        raise InvalidInput("lengths", "tokens", "a function from a text to a number", type(tokens).__name__, remedy)
    return count


def _counted(parameter: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        bad = array[~(np.isfinite(array) & (array >= 0))].flat[0]
        raise InvalidInput("Lengths", parameter, "finite and at least 0", str(bad), "Count nothing as 0.")
    return array


def _other_shape(owner: str, parameter: str, other: str, wanted: object, got: object) -> InvalidInput:
    return InvalidInput(
        owner, parameter, f"of the shape of {other}, {wanted}", f"shape {got}", "Give one for every text."
    )
