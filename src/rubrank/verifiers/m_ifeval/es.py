"""M-IFEval, the instructions that only Spanish has: tildes, ü, ñ, ¿…? and ¡…!"""

from __future__ import annotations

import re
import unicodedata
from functools import partial

from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import AnyRelation, instruction
from rubrank.verifiers.shared.relation import Count, compare_count
from rubrank.verifiers.verifier import Answer, Compat

spanish = partial(instruction, family="m_ifeval", languages=("es",))

_RUN = re.compile(r"\w+")
_TILDES = frozenset("áéíóúÁÉÍÓÚ")


def _count_words_with(text: Text, letters: frozenset[str], compat: Compat) -> int:
    """Count the words that hold one of the letters; a hyphen divides words only upstream."""
    if compat == "upstream":
        words: list[str] = _RUN.findall(text.raw)
    else:
        words = [unicodedata.normalize("NFC", word) for word in _HYPHENED.findall(text.raw)]
    return sum(not letters.isdisjoint(word) for word in words)


_HYPHENED = re.compile(r"[\w\u0300-\u036f]+(?:[-‐‑'’][\w\u0300-\u036f]+)*")


@spanish("es:special_character:tildes")
def tildes(
    text: Text, *, num_words: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / at most … `num_words` words with an acute accent (á é í ó ú).

    Passes: "Él está aquí" for at least 3.
    Fails: "año, pingüino" for at least 1 (ñ and ü are no tildes).
    Not covered: whether the accents are right.
    upstream: a hyphen divides words, and accents must be single characters.
    """
    return compare_count(
        _count_words_with(text, _TILDES, compat), "word with tilde", relation, num_words
    )


@spanish("es:special_character:enie")
def enie(text: Text, *, let_frequency: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `let_frequency` words with ñ.

    Passes: "El niño sueña" for 2.
    Fails: "año año año" for 2 (each counts).
    Not covered: whether they are Spanish.
    upstream: a hyphen divides words.
    """
    return compare_count(
        _count_words_with(text, frozenset("ñÑ"), compat), "word with ñ", "exactly", let_frequency
    )


@spanish("es:special_character:dieresis")
def dieresis(text: Text, *, let_frequency: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `let_frequency` words with ü.

    Passes: "El pingüino bilingüe" for 2.
    Fails: "guerra" for 1.
    Not covered: ü in foreign names counts too.
    upstream: a hyphen divides words.
    """
    return compare_count(
        _count_words_with(text, frozenset("üÜ"), compat), "word with ü", "exactly", let_frequency
    )


@spanish("es:punctuation:question_marks")
def question_marks(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A question between ¿ and ?.

    Passes: "¿Qué tal?"
    Fails: "Qué tal?", "¿?", "¿…?" (no letter inside).
    Not covered: whether it asks anything.
    upstream: anything but white space between the marks.
    """
    return _check_enclosed(text.raw, "¿", "?", compat)


@spanish("es:punctuation:exclamation_marks")
def exclamation_marks(text: Text, *, compat: Compat = "fixed") -> Answer:
    """An exclamation between ¡ and !.

    Passes: "¡Qué bien!"
    Fails: "Qué bien!", "¡!", "¡…!" (no letter inside).
    Not covered: its tone.
    upstream: anything but white space between the marks.
    """
    return _check_enclosed(text.raw, "¡", "!", compat)


def _check_enclosed(text: str, first: str, last: str, compat: Compat) -> tuple[bool, str]:
    """Check that something stands between the two marks."""
    start = text.find(first)
    while start >= 0:
        end = text.find(last, start)
        if end < 0:
            break
        inside = text[start:end].strip(first + last).strip()
        if inside and (compat == "upstream" or any(map(str.isalnum, inside))):
            return True, f"{first}{inside[:60]}{last} found"
        start = text.find(first, end)
    return False, f"nothing between {first} and {last}"
