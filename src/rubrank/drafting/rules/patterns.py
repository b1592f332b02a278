"""What a rule is, and the pieces of patterns that several rules share.

A rule is a function that yields the constraints of one sentence. It searches the prepared text of the sentence
(`drafting/sentences.py`), in which tokens stand for what the prompt says:

    ⟨q0⟩  a quantity: "at least 300", "no fewer than three hundred"
    ⟨s0⟩  a quoted string
    ⟨m⟩   material, such as a code block, that asks nothing of the response

The examples in the docstrings of the rules are tests (`tests/drafting/test_rules.py`): a prompt, and below it
everything that the rule compiles from it.

Most patterns use gaps: `(?:\\w+\\s){0,3}?` allows up to three further words, `[^.]{0,60}` any text within the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.sentences import Sentence

Rule = Callable[[Sentence, Sequence[Sentence]], Iterator[Constraint]]
"""Yields the constraints of one sentence; it also sees all sentences of the prompt."""


def pattern(*parts: str) -> re.Pattern[str]:
    """Compile the joined parts; case does not matter."""
    return re.compile("".join(parts), re.IGNORECASE)


def any_of(*alternatives: str) -> str:
    """A group that matches one of the alternatives; an argument may hold several.

    >>> any_of("words?|sentences?", "paragraphs?")
    '(?:words?|sentences?|paragraphs?)'
    """
    return f"(?:{'|'.join(alternatives)})"


def any_word(words: str) -> str:
    """A group that matches one of the words, which are separated by white space.

    >>> any_word("start begin")
    '(?:start|begin)'
    """
    return any_of(*words.split())


def read_group(match: re.Match[str], name: str) -> str:
    """The text of the group `name`, or of `name_2` or `name_3`; empty if none of them matched.

    Python allows a group name only once in a pattern, so alternatives that capture the same thing number it.

    >>> match = re.search(r"use (?P<word>\\w+)|(?P<word_2>\\w+) must appear", "tide must appear")
    >>> read_group(match, "word")
    'tide'
    """
    for group, text in match.groupdict().items():
        if text and re.fullmatch(rf"{name}(?:_\d)?", group):
            return text
    return ""


def read_string(sentence: Sentence, match: re.Match[str]) -> str:
    """What a match names: the quoted text behind its group `string`, or else the bare word of its group `bare`."""
    token = read_group(match, "string")
    if token:
        return sentence.string(token)
    return read_group(match, "bare")


# ---- shared pieces -------------------------------------------------------------------------------------------------

QUANTITY = r"⟨(?P<quantity>q\d+)⟩"
STRING = r"⟨(?P<string>s\d+)⟩"

# What a response is called. "Essay" and "story" are responses only if the prompt asks for one.
RESPONSE = r"(?:(?:entire|whole|full|complete|final|overall)\s+)?" + any_of(
    "response|answer|reply|output|text|essay|story|poem|letter|e-?mail|article|post",
    "blog post",
    "song|summary|paragraph|report|review|speech|script|resume",
    "cover letter",
    "riddle|joke|haiku|limerick|rap|pitch|proposal|itinerary|advertisement|ad|document|critique|tweet|caption",
    "description|explanation|content|message|conversation|dialogue|plan|outline|rubric|template|list|note|piece",
    "writing",
)

NOT = any_of(
    # "do not forget to use …" asks for the word
    r"(?:do(?:es)? not|don't|never|not)(?! (?:forget|fail|hesitate|worry|only|just))",
    "does not|doesn't|should not|shouldn't|must not|mustn't|cannot|can't|can not|may not|avoid|without",
    "refrain from|exclude|excluding|forbidden to|prohibited from|not allowed to|steer clear of|leave out|omit",
    "no|isn't|aren't|are not|is not|won't|will not|not to",
)
USE = any_of(
    "us(?:e|ing|es|ed)|includ(?:e|ing|es|ed)|contain(?:ing|s|ed)?|mention(?:ing|s|ed)?|say(?:ing|s)?|hav(?:e|ing)",
    "writ(?:e|ing)|appear(?:ing|s)?|employ(?:ing)?|utiliz(?:e|ing)|insert(?:ing)?|occur|featur(?:e|ing)",
    "put(?:ting)?|incorporat(?:e|ing)",
    "be (?:used|included|mentioned|found|present|in)",
    "show up|exist|use of|add(?:ing)?|repeat(?:ing)?|be in",
)
