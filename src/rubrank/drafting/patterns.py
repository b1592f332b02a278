r"""Pieces of regular expressions that the rules share.

A rule is a function in `rules/` that finds one kind of constraint in a sentence of a prompt: `find_no_comma` finds "do
not use commas". It searches the sentence by regular expressions. In the sentence, tokens stand for what the prompt says
(`sentences.py`):

    ⟨q0⟩  a quantity: "at least 300", "no fewer than three hundred"
    ⟨s0⟩  a quoted string
    ⟨m⟩   material, such as a code block, that asks nothing of the response

Long lists of words are in data/words.tsv. Most expressions have gaps: `(?:\w+\s){0,3}?` allows up to three further
words, `[^.]{0,60}` any text within the sentence.

The expressions of the rules are compiled when their modules are imported, so data/words.tsv is read then, once.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


def pattern(*parts: str) -> re.Pattern[str]:
    """Compile the joined parts to a pattern that ignores case."""
    return re.compile("".join(parts), re.IGNORECASE)


def any_of(*alternatives: str) -> str:
    """Return a group that matches one of the alternatives; an argument may hold several.

    >>> any_of("words?|sentences?", "paragraphs?")
    '(?:words?|sentences?|paragraphs?)'
    """
    return f"(?:{'|'.join(alternatives)})"


def words(name: str) -> str:
    """Return a group that matches one of the alternatives of a list in data/words.tsv."""
    return any_of(*_read_words()[name])


def list_words(name: str) -> list[str]:
    """Return the entries of a list in data/words.tsv that holds plain words."""
    return "|".join(_read_words()[name]).split("|")


@cache
def _read_words() -> dict[str, list[str]]:
    """Read data/words.tsv: name of a list → its lines, each with alternatives that are separated by |."""
    lists: dict[str, list[str]] = {}
    for name, alternatives in read_table("words"):
        lists.setdefault(name, []).append(alternatives)
    return lists


def read_table(name: str) -> list[list[str]]:
    """Return the lines of data/NAME.tsv, split at tabs; empty lines and those that begin with # are left out."""
    text = (files("rubrank") / "drafting" / "data" / f"{name}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


def read_group(match: re.Match[str], name: str) -> str:
    """Return the text of the group `name`, or of `name_2` to `name_9`; empty if none of them matched.

    Python allows a group name only once in a pattern, so alternatives that capture the same thing number it.

    >>> match = re.search(r"use (?P<word>\\w+)|(?P<word_2>\\w+) must appear", "tide must appear")
    >>> read_group(match, "word")
    'tide'
    """
    for group, text in match.groupdict().items():
        if text and re.fullmatch(rf"{name}(?:_\d)?", group):
            return text
    return ""


# "⟨q0⟩" and "⟨s0⟩", for `Sentence.get_quantity` and `Sentence.get_string`
QUANTITY = r"⟨(?P<quantity>q\d+)⟩"
STRING = r"⟨(?P<string>s\d+)⟩"
# "answer", "entire response"
RESPONSE = r"(?:(?:entire|whole|full|complete|final|overall)\s+)?" + words("response")
# "do not", "avoid", "refrain from"
NOT = words("not")
# "include", "mention", "be used"
USE = words("use")
