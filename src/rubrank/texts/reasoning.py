"""Split a response into its reasoning and its answer.

>>> split_reasoning("<think>2 and 2 make 4</think>The answer is 4.")
('2 and 2 make 4', 'The answer is 4.')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from reprlib import repr as brief
from typing import NamedTuple, TypeAlias

from rubrank.errors import InvalidInput, only_our_errors

Tags: TypeAlias = Sequence[tuple[str, str]]
"""Pairs (opening tag, closing tag)."""

# Tags that public reasoning models and recipes put around their reasoning.
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
_TAG_WINDOW = 100  # characters at the end of a prompt in which an opening tag is looked for


class _Mark(NamedTuple):
    """A tag found in a text."""

    start: int
    end: int
    tag: str


@only_our_errors
def split_reasoning(text: str, tags: Tags = TAGS) -> tuple[str, str]:
    """Return the reasoning and the answer of one text; ("", text) if it holds no tag.

    - There may be several blocks, also nested ones. Separate pieces are joined by a blank line.
    - A block that never closes takes the rest of the text: a response cut off in its reasoning has no answer.
    - An opening tag quoted in the reasoning does not hide the answer: if the tags do not balance, the last closing tag
      ends the block.
    - If the first tag is a closing one, the text began inside a block, as when the prompt ends in `<think>`. Any other
      stray closing tag is text.
    """
    closing_of, patterns = _compile_tags(tags if tags is TAGS else tuple(map(tuple, tags)))
    matches = [match for pattern in patterns for match in pattern.finditer(text)]
    marks = sorted(_Mark(match.start(), match.end(), match[0]) for match in matches)
    if not marks:
        return "", text
    first_tag = marks[0].tag
    if first_tag not in closing_of:
        opening = next(opening for opening, closing in closing_of.items() if closing == first_tag)
        marks.insert(0, _Mark(0, 0, opening))
    marks.append(_Mark(len(text), len(text), ""))

    reasoning: list[str] = []
    answer: list[str] = []
    answer_start = 0
    index = 0
    while index < len(marks):
        mark = marks[index]
        if mark.tag in closing_of:
            answer.append(text[answer_start : mark.start])
            last = _find_block_end(marks, index, closing_of)
            reasoning += [text[marks[k].end : marks[k + 1].start] for k in range(index, last)]
            answer_start = marks[last].end
            index = last
        index += 1
    answer.append(text[answer_start:])
    return _join_pieces(reasoning), _join_pieces(answer)


@only_our_errors
def opening_tag(prompt: str, tags: Tags = TAGS) -> str | None:
    """Return the tag that a prompt ends in, or None. Chat templates of reasoning models open the reasoning this way.

    >>> opening_tag("<|im_start|>assistant\\n<think>\\n")
    '<think>'
    """
    end = prompt[-_TAG_WINDOW:].rstrip()
    for opening, _ in tags:
        if end.endswith(opening):
            return opening
    return None


@only_our_errors
def reopen_reasoning(text: str, tag: str | None = None) -> str:
    """Put the opening tag of the prompt before a response that began inside its reasoning.

    >>> split_reasoning(reopen_reasoning("2 and 2 make"))
    ('2 and 2 make', '')

    Without it, a response that was cut off in its reasoning holds no tag and would be taken for an answer. A response
    that is empty or opens the block once more is returned unchanged. `tag`: the prompt's tag; None means the one that
    the text closes first, or else `<think>`.
    """
    start = text.lstrip()
    if not start or any(start.startswith(opening) for opening, _ in TAGS):
        return text
    if not tag:
        closed = [(text.find(closing), opening) for opening, closing in TAGS if closing in text]
        tag = min(closed)[1] if closed else TAGS[0][0]
    return tag + text


@lru_cache(maxsize=32)
def _compile_tags(
    tags: tuple[tuple[str, str], ...],
) -> tuple[dict[str, str], list[re.Pattern[str]]]:
    """Return the closing tag of every opening tag, and patterns that find the tags.

    There is a pattern for each character with which tags begin. It skips to that character, which is many times as
    fast in a long text as one pattern for all tags.
    """
    for pair in tags:
        is_text = [isinstance(tag, str) and tag != "" for tag in pair]
        if is_text != [True, True] or pair[0] == pair[1]:
            raise InvalidInput(
                "split_reasoning",
                "tags",
                allowed="pairs of two different texts (opening, closing)",
                got=brief(pair),
                remedy="Write (('<think>', '</think>'),).",
            )
    # Longest first: of two tags that begin alike, the longer one is meant.
    literals = sorted({tag for pair in tags for tag in pair}, key=len, reverse=True)
    patterns = []
    for first in sorted({tag[0] for tag in literals}):
        alternatives = [re.escape(tag) for tag in literals if tag[0] == first]
        patterns.append(re.compile("|".join(alternatives)))
    return dict(tags), patterns


def _find_block_end(marks: list[_Mark], first: int, closing_of: dict[str, str]) -> int:
    """Return the index of the mark that closes the block opened at `first`; the end of the text if nothing does."""
    closing = closing_of[marks[first].tag]
    depth = 0
    last = len(marks) - 1
    for index in range(first, len(marks)):
        tag = marks[index].tag
        if tag == closing:
            depth -= 1
            last = index
            if depth == 0:
                break
        elif closing_of.get(tag) == closing:
            depth += 1
    return last


def _join_pieces(pieces: list[str]) -> str:
    """Join the pieces that are not blank by blank lines."""
    return "\n\n".join(piece.strip("\r\n") for piece in pieces if piece and not piece.isspace())
