"""IFEval: keywords, letters, capitals, and the language of the answer."""

from __future__ import annotations

import string

from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import (
    AnyRelation,
    Lang,
    count_pattern,
    count_word,
    instruction,
    quote_some,
)
from rubrank.verifiers.ifeval.nltk_like import count_capital_words
from rubrank.verifiers.shared.language import detect_language, is_detectable, is_other
from rubrank.verifiers.shared.public_tools import (
    has_janome,
    has_langdetect,
    japanese_tokens,
    public_language,
)
from rubrank.verifiers.shared.relation import Count, compare_count, holds
from rubrank.verifiers.verifier import Answer, Compat, missing

_SURE = 0.5  # of another language, to say that the answer is not in the one asked for


@instruction("keywords:existence", version=2)
def existence(
    text: Text, *, keywords: list[str], lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """Every keyword occurs, in any case.

    Passes: "The cat sat." for ["cat"].
    Fails: "The category" for ["cat"].
    Not covered: inflected forms ("cats").
    upstream: a keyword is a pattern and may stand inside a word, so "category" passes; in Japanese it must be a word of
        the public analyser (janome, where it is installed).
    """
    absent = [word for word in keywords if not _count_keyword(text, word, lang, compat)]
    if absent:
        return False, f"without {quote_some(absent)}"
    return True, f"all {len(keywords)} keywords found"


@instruction("keywords:frequency", version=2)
def frequency(
    text: Text,
    *,
    keyword: str,
    frequency: Count,
    relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """The keyword occurs at least / less than … `frequency` times, in any case.

    Passes: "war and War" for "war" at least 2.
    Fails: "warm war" for at least 2.
    Not covered: inflected forms.
    upstream: a pattern that may match inside words ("warm" counts); in Japanese words of the public analyser.
    """
    count = _count_keyword(text, keyword.strip(), lang, compat)
    return compare_count(count, f"“{keyword}”", relation, frequency)


@instruction("keywords:forbidden_words", version=2)
def forbidden_words(
    text: Text, *, forbidden_words: list[str], lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """None of the words occurs as a word, in any case.

    Passes: "rocket" for ["rock"].
    Fails: "Rock!" for ["rock"].
    Not covered: inflected forms ("rocks").
    upstream: words are patterns; in Chinese a word inside a run of letters is not seen; in Japanese words of the public
        analyser count (without janome: the word wherever it stands).
    """
    if compat == "fixed":
        present = [word for word in forbidden_words if count_word(text.raw, word)]
    elif lang == "ja":
        present = [word for word in forbidden_words if _count_japanese(text.raw, word)]
    else:
        present = [word for word in forbidden_words if count_pattern(text.raw, word, bounded=True)]
    if present:
        return False, f"found {quote_some(present)}"
    return True, "no forbidden word found"


def _count_keyword(text: Text, word: str, lang: Lang, compat: Compat) -> int:
    if compat == "fixed":
        return count_word(text.raw, word)
    if lang == "ja":
        return _count_japanese(text.raw, word)
    return count_pattern(text.raw, word)


def _count_japanese(text: str, word: str) -> int:
    """Count the word among the words of the public analyser; without janome, wherever it stands."""
    if not has_janome():
        return text.count(word)
    return sum(surface == word for surface, _ in japanese_tokens(text))


@instruction("keywords:letter_frequency")
def letter_frequency(
    text: Text,
    *,
    letter: str,
    let_frequency: Count,
    let_relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """The letter (or any one character) occurs at least / less than … `let_frequency` times, in any case.

    Passes: "Queen q" for "q" at least 2.
    Fails: "hash" for "#" at least 1. In Japanese hiragana and katakana are one.
    Not covered: letters with accents count as themselves ("é" is no "e").
    upstream: for a character that is no English letter the public checker draws a random letter; here the majority of
        the letters decides, so that the verdict does not flicker.
    """
    lower = text.raw.lower()
    letter = letter.strip().lower()
    if compat == "upstream" and lang != "ja" and letter not in string.ascii_lowercase:
        right = sum(
            holds(lower.count(char), let_relation, let_frequency) for char in string.ascii_lowercase
        )
        return (
            right >= 13,
            f"{right} of 26 letters are right; the public checker draws one at random",
        )
    count = lower.count(letter)
    if len(letter) == 1 and "ぁ" <= letter <= "ん":
        katakana = chr(ord(letter) + 96)
        count += lower.count(katakana)
    return compare_count(count, f"“{letter}”", let_relation, let_frequency)


@instruction("language:response_language", version=2)
def response_language(text: Text, *, language: str, compat: Compat = "fixed") -> Answer:
    """The answer is in the language of that ISO 639-1 code.

    Passes: "Guten Tag, wie geht es dir?" for "de".
    Fails: the same for "fr", and a text without letters.
    Missing: a language that cannot be told apart here; too few words that show one (names, dates).
    Not covered: answers in two languages (the larger part decides).
    upstream: langdetect with a seed, where it is installed; a text without letters passes, and "zh" never does (it says
        "zh-cn").
    """
    expected = language.lower()
    if compat == "upstream":
        name = _detect_language_upstream(text.raw)
        return not name or name == expected, f"language {name or 'not found'}, {expected} required"
    detected, confidence = detect_language(text.raw)
    if not detected:
        return False, f"no letters found, {expected} required"
    if not is_detectable(expected):
        return missing(f"{expected} is not among the languages that can be detected")
    base_code = expected.split("-")[0]
    reason = f"language {detected} ({confidence:.0%} sure), {expected} required"
    if detected == base_code:
        return True, reason
    if not is_other(text.raw, {base_code}):
        return missing(f"too few words that show a language: {reason}")
    return False, reason


def _detect_language_upstream(text: str) -> str | None:
    """Return the language as the public detector names it; None if it finds none."""
    if has_langdetect():
        return public_language(text)
    detected, _ = detect_language(text)
    if detected == "zh":
        return "zh-cn"
    return detected or None


@instruction("change_case:capital_word_frequency")
def capital_word_frequency(
    text: Text,
    *,
    capital_frequency: Count,
    capital_relation: AnyRelation = "at least",
    compat: Compat = "fixed",
) -> Answer:
    """Words of capitals only, at least / less than … `capital_frequency` of them.

    Passes: "VERY NICE" for at least 2.
    Fails: "I AM" for at least 2: one letter is not a word in capitals.
    Not covered: scripts without capitals (no word counts).
    upstream: Treebank words: "I" counts, "DON'T" is two.
    """
    if compat == "upstream":
        count = count_capital_words(text.raw)
    else:
        capitals = [word for word in text.words if word.isupper()]
        count = sum(sum(map(str.isalpha, word)) > 1 for word in capitals)
    return compare_count(count, "capital word", capital_relation, capital_frequency)


@instruction("change_case:english_capital", version=3)
def english_capital(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no small letter.

    Passes: "THIS IS FINE."
    Fails: "This is fine.", "DAS IST GUT SO."
    Not covered: languages without capitals.
    upstream: in English the public detector reads the capitals, which it hardly knows, and guesses.
    """
    if not text.raw.isupper():
        wrong = next(filter(str.islower, text.raw), None)
        return False, f"small letter found: “{wrong}”" if wrong else "no letters found"
    return _check_language(text.raw, lang, compat)


@instruction("change_case:english_lowercase", version=2)
def english_lowercase(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no capital letter.

    Passes: "this is fine."
    Fails: "This is fine.", "das ist gut so."
    Not covered: languages without capitals.
    """
    if not text.raw.islower():
        wrong = next(filter(str.isupper, text.raw), None)
        return False, f"capital letter found: “{wrong}”" if wrong else "no letters found"
    return _check_language(text.raw, lang, compat)


def _check_language(text: str, lang: str, compat: Compat) -> tuple[bool, str]:
    """Check the language of a text whose case is right."""
    if compat == "upstream" and has_langdetect():
        # The French and the Spanish checker lower the text first, the English one does not.
        name = public_language(text if lang == "en" else text.lower())
        return (
            not name or name == lang,
            f"case as required; language {name or 'not found'}, {lang} required",
        )
    detected, confidence = detect_language(text.lower())
    # Names and single words say too little about the language to fail an answer for it.
    is_doubtful = confidence < _SURE or (compat == "fixed" and len(text.split()) < 4)
    is_right = not detected or detected == lang or is_doubtful
    return is_right, f"case as required; language {detected or 'not found'}, {lang} required"
