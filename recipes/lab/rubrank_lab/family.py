"""What a task family provides, so that one trainer and one page serve all families.

A family is a small world with prompts, supervised answers, criteria with a scripted judge, and a true quality that no
rule sees. `facts.py` is the first family, `kitchen.py` the second.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from statistics import NormalDist
from typing import Any

from rubrank.scores.criterion import CriterionData

PAD, END = "<|pad|>", "<|end|>"
"""The first two tokens of every family."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Answer:
    """A response to be scored."""

    text: str
    is_truncated: bool
    step: int
    """The training step; a judge may drift."""


@dataclass(frozen=True)
class Family:
    """The parts of a task family. A task is any object with a `prompt`."""

    name: str
    tokens: Sequence[str]
    draw_task: Callable[[random.Random], Any]
    write_answer: Callable[[Any, random.Random], str]
    """A middling answer, for the supervised start."""
    list_criteria: Callable[[Any, int], tuple[CriterionData, ...]]
    """The rubric of a task; the number of the task draws what the task itself leaves open."""
    score: Callable[[Any, Answer], Mapping[str, float]]
    """Every criterion of the family, decided by a program or by the scripted judge."""
    assess: Callable[[Any, Answer], Mapping[str, float]]
    """What the answer is truly worth (`quality`, from 0 to 1) and what else is reported."""
    most_tokens: int
    learning_rate: float

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.tokens[2:], key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text, cut from left to right, the longest token first."""
        return [self._numbers[token] for token in self._pattern.findall(text)]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of some tokens; end and padding are left out."""
        return "".join(self.tokens[number] for number in numbers if number > 1)


def draw_uniform(*key: str) -> float:
    """A number between 0 and 1 that depends on the key alone: the same answer always gets the same verdict."""
    digest = blake2b("\0".join(key).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def draw_normal(*key: str) -> float:
    """The same with a standard normal distribution."""
    return _NORMAL.inv_cdf(draw_uniform(*key))


# -------------------------------------------------------------------------------------------------------------- texts


def list_tokens(marks: Iterable[str], words: Iterable[str]) -> list[str]:
    """Every token of a family, as it stands in a text; words come with a space before them and without."""
    return [PAD, END, *marks, *(form for word in sorted(set(words)) for form in (word, f" {word}"))]


def write_prompt(wishes: Iterable[str]) -> str:
    """A prompt of short sentences, one for each wish that is not empty."""
    return " ".join(f"{wish}." for wish in wishes if wish) + "\n"


def join_parts(parts: Iterable[str]) -> str:
    """The text of an answer: a space between two sentences, none after a line break or before a decoration."""
    text = ""
    for part in parts:
        needs_space = text and not text.endswith("\n") and not part.startswith(("\n", " "))
        text += f" {part}" if needs_space else part
    return text


def split_thoughts(text: str) -> tuple[str, str]:
    """Thoughts and answer; all is thoughts if they do not end."""
    thoughts, end_of_thoughts, answer = text.partition("</think>")
    return thoughts.replace("<think>", ""), answer if end_of_thoughts else ""
