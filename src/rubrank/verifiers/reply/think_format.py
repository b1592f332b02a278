"""The form of thinking: tags in order, something in them, in the language that was asked for."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_SURE = 0.8


@verifier("ThinkFormat", family="format", domain=BINARY, version=1)
def think_format(
    rollout: Rollout,
    *,
    tag: Annotated[str, Field(pattern=r"^[A-Za-z_]{1,40}$")] = "think",
    answer_tag: Annotated[str, Field(pattern=r"^[A-Za-z_]{1,40}$")] | None = None,
    least_words: Annotated[int, Field(ge=0, le=1_000_000)] = 1,
    language: str | None = None,
) -> Answer:
    """The response is one thinking block, then an answer: <think>…</think> and text after it.

    Passes: "<think>so …</think> 42"; thinking that the trainer keeps in a field of its own. With `answer_tag`, the
        answer stands in that tag and nothing after it.
    Fails: no block, two of them, one that is never closed, text before it, nothing in it (fewer than `least_words`), no
        answer; thinking in another `language` (a code such as "en").
    Missing: a language that cannot be detected.
    Not covered: whether the thinking is any good.
    """
    raw = rollout.response
    if rollout.reasoning:
        thoughts = rollout.reasoning
        rest = raw
    else:
        opens = raw.count(f"<{tag}>")
        closes = raw.count(f"</{tag}>")
        if (opens, closes) != (1, 1):
            return False, f"{opens} <{tag}> and {closes} </{tag}>"
        match = re.match(rf"\s*<{tag}>(.*)</{tag}>(.*)\Z", raw, re.DOTALL)
        if match is None:
            return False, "text stands before the thinking, or its tags are in the wrong order"
        thoughts = match[1]
        rest = match[2]
    if count_words(thoughts) < least_words:
        return False, f"fewer than {least_words} words of thinking"
    if answer_tag is not None and not _is_one_block(rest, answer_tag):
        return False, f"the answer is not one <{answer_tag}> block"
    if not rest.strip():
        return False, "there is no answer after the thinking"
    if language is not None:
        detected, sure = detect_language(thoughts)
        if sure < _SURE:
            return missing("the language of the reasoning cannot be detected")
        if detected != language:
            return False, f"the thinking is in {detected}, {language} required"
    return True, f"{count_words(thoughts)} words of thinking, then an answer"


def _is_one_block(text: str, tag: str) -> bool:
    """Is the text one <tag>…</tag> with something in it, and nothing around it?"""
    text = text.strip()
    opening = f"<{tag}>"
    closing = f"</{tag}>"
    inside = text[len(opening) : -len(closing)]
    return text == opening + inside + closing and inside != "" and closing not in inside
