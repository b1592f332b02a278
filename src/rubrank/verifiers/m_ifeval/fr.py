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
_ACCENTED = re.compile("[àáâãäåçèéêëìíîïñòóôõöùúûüýÿÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝ]")


def _bare(word: str) -> str:
    """The word without its accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@french("fr:special_character:accents", version=2)
def accents(text: Text, *, word_to_accentuate: dict[str, str], compat: Compat = "fixed") -> Answer:
    """The words of the map stand in the answer with their accents ({"deja": "déjà"}), and never without;
    a plural counts as the word.

    Passes: "Il est déjà là.", "leçons" for "leçon". Fails: "Il est deja là.", an answer without the
    word. Not covered: all other words.
    upstream: a word that does not occur is no fault.
    """
    body = text.raw if compat == "upstream" else unicodedata.normalize("NFC", text.raw)
    words = set(_WORD.findall(body.lower()))
    if compat == "upstream":
        wrong = sorted(word for word in words if word_to_accentuate.get(bare := _bare(word), word) != word and bare)
        return not wrong, f"wrong accents: {quote_some(wrong)}" if wrong else "no word without its accents"
    right = {f"{key}{end}": f"{word}{end}" for key, word in word_to_accentuate.items() for end in ("s", "es", "x")}
    right |= word_to_accentuate
    wrong = sorted(word for word in words if right.get(bare := _bare(word), word).lower() != word and bare)
    if wrong:
        return False, f"wrong accents: {quote_some(wrong)}"
    absent = [w for w in word_to_accentuate.values() if not {w.lower() + end for end in ("", "s", "es", "x")} & words]
    return not absent, f"without {quote_some(absent)}" if absent else "all words accented as asked"


@french("fr:special_character:no_accents")
def no_accents(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No letter with an accent, cedilla or diaeresis.

    Passes: "Il fait beau." Fails: "été", "garçon", also with combining accents. Not covered: œ is no accented letter.
    upstream: a list of letters of French and its neighbours; ő or a combining accent is not on it.
    """
    if compat == "upstream":
        found = _ACCENTED.findall(text.raw)
    else:
        found = [c for c in text.raw if not c.isascii() and c.isalpha() and _bare(c) != c and _bare(c).isascii()]
        found += [c for c in text.raw if "\u0300" <= c <= "\u036f"]
    return not found, f"accented letters: {quote_some(found)}" if found else "no accented letter"


@french("fr:special_character:ethel_or_cedilla")
def ethel_or_cedilla(text: Text, *, forbidden_char: str, compat: Compat = "fixed") -> Answer:
    """The character, œ or ç, does not occur, small or capital.

    Passes: "soeur" for œ. Fails: "SŒUR" for œ. Not covered: other characters than the one named.
    upstream: a ç written with a combining cedilla is not seen.
    """
    body = text.raw if compat == "upstream" else unicodedata.normalize("NFC", text.raw)
    return compare_count(body.lower().count(forbidden_char.lower()), f"“{forbidden_char}”", "exactly", 0)


_TU = re.compile(r"(?<!\w)(?:tu|te|toi|ton|ta|tes|tiens?|tiennes?|t['’](?=\w))(?!\w)|(?<!\w)t['’]\w", re.IGNORECASE)
_TU_UPSTREAM = re.compile(r"\b(?:tu|te|toi|ton|ta|tes|t')\b", re.IGNORECASE)
_BLANK = re.compile(r"\[[^\[\]\n]{1,60}\]")
_VOUS = re.compile(r"(?<!\w)(?:vous|votre|vos|vôtres?)(?!\w)", re.IGNORECASE)


@french("fr:detectable_content:informal_address", version=2)
def informal_address(rollout: Rollout, *, compat: Compat = "fixed") -> Answer:
    """The reader is addressed as "tu" and nowhere as "vous".

    A "vous" that the prompt itself demands, in quotation marks, is none of the answer's; nor is a blank to fill in,
    "[Votre nom]". Passes: "Comment vas-tu ?" Fails: "Comment allez-vous ?", "Tu vois ? Asseyez-vous." Not covered:
    imperatives alone ("Viens !"), and "vous" for several people, which fails.
    upstream: one form of "tu" is enough.
    """
    if compat == "upstream":
        found = _TU_UPSTREAM.search(rollout.answer)
        return found is not None, f"“{found[0]}” found" if found else "no form of “tu”"
    body = _BLANK.sub(" ", rollout.answer)
    for phrase in find_quotations(rollout.question):
        body = re.sub(r"\s+".join(map(re.escape, phrase.split())), " ", body, flags=re.IGNORECASE)
    formal = _VOUS.search(body)
    if formal:
        return False, f"“{formal[0]}” found"
    informal = _TU.search(body)
    return informal is not None, f"“{informal[0]}” found" if informal else "no form of “tu”"


@french("fr:detectable_content:no_digits")
def no_digits(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No digit: numbers are written in words.

    Passes: "vingt ans". Fails: "20 ans", "m²", "①". Not covered: Roman numerals.
    upstream: raised and circled digits (², ①) are not seen.
    """
    found = [c for c in text.raw if (c.isdecimal() if compat == "upstream" else c.isdigit())]
    return not found, f"digits: {quote_some(found)}" if found else "no digit"
