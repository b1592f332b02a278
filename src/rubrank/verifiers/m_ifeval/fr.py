"""M-IFEval, the instructions that only French has: accents, œ and ç, tutoiement, numbers in words."""

from __future__ import annotations

import re
import unicodedata
from functools import partial

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import instruction, quote_some
from rubrank.verifiers.ifeval.prompts import find_quotations
from rubrank.verifiers.shared.relation import compare_count
from rubrank.verifiers.verifier import Answer, Compat

french = partial(instruction, family="m_ifeval", languages=("fr",))

_WORD = re.compile(r"\w+")
_PLURALS = ("s", "es", "x")
_ACCENTED = re.compile("[àáâãäåçèéêëìíîïñòóôõöùúûüýÿÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝ]")


def _remove_accents(word: str) -> str:
    return "".join(
        char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char)
    )


@french("fr:special_character:accents", version=2)
def accents(text: Text, *, word_to_accentuate: dict[str, str], compat: Compat = "fixed") -> Answer:
    """The words of the map stand in the answer with their accents ({"deja": "déjà"}), and never without;

    a plural counts as the word.

    Passes: "Il est déjà là.", "leçons" for "leçon".
    Fails: "Il est deja là.", an answer without the word.
    Not covered: all other words.
    upstream: a word that does not occur is no fault.
    """
    if compat == "upstream":
        words = set(_WORD.findall(text.raw.lower()))
        forms = word_to_accentuate
    else:
        words = set(_WORD.findall(text.composed.lower()))
        forms = {}
        for end in _PLURALS:
            forms |= {
                f"{bare}{end}": f"{accented}{end}".lower()
                for bare, accented in word_to_accentuate.items()
            }
        forms |= {bare: accented.lower() for bare, accented in word_to_accentuate.items()}
    wrong: list[str] = []
    for word in sorted(words):
        bare = _remove_accents(word)
        if bare and forms.get(bare, word) != word:
            wrong.append(word)
    if wrong:
        return False, f"wrong accents: {quote_some(wrong)}"
    if compat == "upstream":
        return True, "no word without its accents"
    absent: list[str] = []
    for accented in word_to_accentuate.values():
        spellings = {accented.lower() + end for end in ("", *_PLURALS)}
        if spellings.isdisjoint(words):
            absent.append(accented)
    if absent:
        return False, f"without {quote_some(absent)}"
    return True, "all words accented as required"


@french("fr:special_character:no_accents")
def no_accents(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No letter with an accent, cedilla or diaeresis.

    Passes: "Il fait beau."
    Fails: "été", "garçon", also with combining accents.
    Not covered: œ is no accented letter.
    upstream: a list of letters of French and its neighbours; ő or a combining accent is not on it.
    """
    if compat == "upstream":
        accented = _ACCENTED.findall(text.raw)
    else:
        letters = [char for char in text.raw if not char.isascii() and char.isalpha()]
        # "é" is an accented letter, "я" and "œ" are not: they are not ASCII without their accents.
        accented = [
            char
            for char in letters
            if _remove_accents(char) != char and _remove_accents(char).isascii()
        ]
        accented += [char for char in text.raw if "\u0300" <= char <= "\u036f"]
    if accented:
        return False, f"accented letters: {quote_some(accented)}"
    return True, "no accented letter"


@french("fr:special_character:ethel_or_cedilla")
def ethel_or_cedilla(text: Text, *, forbidden_char: str, compat: Compat = "fixed") -> Answer:
    """The character, œ or ç, does not occur, small or capital.

    Passes: "soeur" for œ.
    Fails: "SŒUR" for œ.
    Not covered: other characters than the one named.
    upstream: a ç written with a combining cedilla is not seen.
    """
    body = text.raw if compat == "upstream" else text.composed
    return compare_count(
        body.lower().count(forbidden_char.lower()), f"“{forbidden_char}”", "exactly", 0
    )


_TU = re.compile(
    r"(?<!\w)(?:tu|te|toi|ton|ta|tes|tiens?|tiennes?|t['’](?=\w))(?!\w)|(?<!\w)t['’]\w",
    re.IGNORECASE,
)
_TU_UPSTREAM = re.compile(r"\b(?:tu|te|toi|ton|ta|tes|t')\b", re.IGNORECASE)
_BLANK = re.compile(r"\[[^\[\]\n]{1,60}\]")
_VOUS = re.compile(r"(?<!\w)(?:vous|votre|vos|vôtres?)(?!\w)", re.IGNORECASE)


@french("fr:detectable_content:informal_address", version=2)
def informal_address(rollout: Rollout, *, compat: Compat = "fixed") -> Answer:
    """The reader is addressed as "tu" and nowhere as "vous".

    A "vous" that the prompt itself demands, in quotation marks, is none of the answer's; nor is a blank to fill in,
    "[Votre nom]".
    Passes: "Comment vas-tu ?"
    Fails: "Comment allez-vous ?", "Tu vois ? Asseyez-vous."
    Not covered: imperatives alone ("Viens !"), and "vous" for several people, which fails.
    upstream: one form of "tu" is enough.
    """
    if compat == "upstream":
        informal = _TU_UPSTREAM.search(rollout.answer)
    else:
        body = _BLANK.sub(" ", rollout.answer)
        for phrase in find_quotations(rollout.question):
            body = re.sub(
                r"\s+".join(map(re.escape, phrase.split())), " ", body, flags=re.IGNORECASE
            )
        formal = _VOUS.search(body)
        if formal:
            return False, f"“{formal[0]}” found"
        informal = _TU.search(body)
    if not informal:
        return False, "no form of “tu”"
    return True, f"“{informal[0]}” found"


@french("fr:detectable_content:no_digits")
def no_digits(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No digit: numbers are written in words.

    Passes: "vingt ans".
    Fails: "20 ans", "m²", "①".
    Not covered: Roman numerals.
    upstream: raised and circled digits (², ①) are not seen.
    """
    is_digit = str.isdecimal if compat == "upstream" else str.isdigit
    digits = list(filter(is_digit, text.raw))
    if digits:
        return False, f"digits: {quote_some(digits)}"
    return True, "no digit"
