"""What a response thinks, and what it says.

>>> split_reasoning("<think>2 and 2 make 4</think>The answer is 4.")
('2 and 2 make 4', 'The answer is 4.')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from reprlib import repr as brief
from typing import TypeAlias

from rubrank.errors import InvalidInput, only_our_errors

Tags: TypeAlias = Sequence[tuple[str, str]]

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


@only_our_errors
def split_reasoning(text: str, tags: Tags = TAGS) -> tuple[str, str]:
    """The reasoning and the answer of one text; (“”, text) when it holds no tag.

    Blocks may be several and nested. A block that never closes takes the rest of the text; so a response cut short in
    its thoughts has no answer. An opening tag quoted in a thought does not hide the answer: when the tags do not
    balance, the last closing one ends the block. A text whose first tag is a closing one began inside its block, as
    when the prompt ends in `<think>`. Any other stray closing tag is text. Separate pieces are joined by a blank line,
    without the line breaks around them.
    """
    pattern, closing, first = _compiled(tags if tags is TAGS else tuple(map(tuple, tags)))
    patterns = [some for char, some in first.items() if char in text]
    if pattern is not None and any(some.search(text) for some in patterns):
        patterns = [pattern]
    marks = sorted((m.start(), m.end(), m[0]) for some in patterns for m in some.finditer(text))
    if not marks:
        return "", text
    if marks[0][2] not in closing:  # it closes a block that the prompt opened
        opening = next(first for first, last in closing.items() if last == marks[0][2])
        marks.insert(0, (0, 0, opening))
    marks.append((len(text), len(text), ""))
    return _cut(text, marks, closing)


@only_our_errors
def opening_tag(prompt: str, tags: Tags = TAGS) -> str | None:
    """The tag in which a prompt ends, as chat templates of reasoning models do: the response begins in its thoughts.

    >>> opening_tag("<|im_start|>assistant\\n<think>\\n")
    '<think>'
    """
    end = prompt[-_LAST:].rstrip()
    return next((first for first, _ in tags if end.endswith(first)), None)


@only_our_errors
def reopened(text: str, tag: str | None = None) -> str:
    """The text of a response that began in its thoughts, with the tag that the prompt had opened.

    >>> split_reasoning(reopened("2 and 2 make"))
    ('2 and 2 make', '')

    A response that was cut off in its thoughts holds no tag, and would be taken for an answer. One that opens the block
    once more, or says nothing, stays as it is. tag: the prompt's; None: the one that the text closes, or `<think>`.
    """
    start = text.lstrip()
    if not start or any(start.startswith(first) for first, _ in TAGS):
        return text
    return (tag or _closed(text) or TAGS[0][0]) + text


def _closed(text: str) -> str | None:
    """The opening tag of the block that a text closes first."""
    places = [(text.find(last), first) for first, last in TAGS if last in text]
    return min(places)[1] if places else None


_LAST = 100  # characters at the end of a prompt in which a tag may stand
_Mark: TypeAlias = tuple[int, int, str]


@lru_cache(maxsize=32)
def _compiled(
    tags: tuple[tuple[str, str], ...],
) -> tuple[re.Pattern[str] | None, dict[str, str], dict[str, re.Pattern[str]]]:
    """A pattern for any tag; the closing tag of every opening one; and, by first character, patterns for some tags.

    A pattern whose tags all begin alike skips to that character, several times as fast as one for all; that one is None
    where it is not needed, because no tag can begin within another.
    """
    for pair in tags:
        if len(pair) != 2 or not all(isinstance(tag, str) and tag for tag in pair) or pair[0] == pair[1]:
            allowed = "pairs of two different texts (opening, closing)"
            raise InvalidInput("split_reasoning", "tags", allowed, brief(pair), "Write (('<think>', '</think>'),).")
    # Longest first: of two tags that begin alike, the longer one is meant.
    literals = sorted({tag for pair in tags for tag in pair}, key=len, reverse=True)
    alike = {char: [tag for tag in literals if tag[0] == char] for char in {tag[0] for tag in literals}}
    apart = not any(char in tag[1:] for char in alike for tag in literals)
    return None if apart else _any_of(literals), dict(tags), {char: _any_of(some) for char, some in alike.items()}


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
