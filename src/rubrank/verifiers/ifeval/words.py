"""IFEval: keywords, letters, capitals, and the language of the answer."""

from __future__ import annotations

import string

from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import AnyRelation, Lang, brief, count_pattern, count_word, instruction
from rubrank.verifiers.ifeval.nltk_like import count_capital_words
from rubrank.verifiers.shared.language import detect_language, is_detectable, is_other
from rubrank.verifiers.shared.public_tools import has_janome, has_langdetect, japanese_tokens, public_language
from rubrank.verifiers.shared.relation import Count, compare_count, holds
from rubrank.verifiers.verifier import Answer, Compat, missing

_SURE = 0.5  # of another language, to say that the answer is not in the one asked for


@instruction("keywords:existence", version=2)
def existence(text: Text, *, keywords: list[str], lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """Every keyword occurs, in any case.

    Passes: "The cat sat." for ["cat"]. Fails: "The category" for ["cat"]. Not covered: inflected forms ("cats").
    upstream: a keyword is a pattern and may stand inside a word, so "category" passes; in Japanese it must be a word of
    the public analyser (janome, where it is installed).
    """
    absent = [word for word in keywords if not _count(text, word, lang, compat)]
    return not absent, f"without {brief(absent)}" if absent else f"all {len(keywords)} keywords found"


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

    Passes: "war and War" for "war" at least 2. Fails: "warm war" for at least 2. Not covered: inflected forms.
    upstream: a pattern that may match inside words ("warm" counts); in Japanese words of the public analyser.
    """
    return compare_count(_count(text, keyword.strip(), lang, compat), f"“{keyword}”", relation, frequency)


@instruction("keywords:forbidden_words", version=2)
def forbidden_words(text: Text, *, forbidden_words: list[str], lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """None of the words occurs as a word, in any case.

    Passes: "rocket" for ["rock"]. Fails: "Rock!" for ["rock"]. Not covered: inflected forms ("rocks").
    upstream: words are patterns; in Chinese a word inside a run of letters is not seen; in Japanese words of the public
    analyser count (without janome: the word wherever it stands).
    """
    if compat == "upstream" and lang == "ja":
        found = [word for word in forbidden_words if _count_japanese(text.raw, word)]
    elif compat == "upstream":
        found = [word for word in forbidden_words if count_pattern(text.raw, word, bounded=True)]
    else:
        found = [word for word in forbidden_words if count_word(text.raw, word)]
    return not found, f"found {brief(found)}" if found else "no forbidden word found"


def _count(text: Text, word: str, lang: Lang, compat: Compat) -> int:
    if compat == "upstream" and lang == "ja":
        return _count_japanese(text.raw, word)
    return count_pattern(text.raw, word) if compat == "upstream" else count_word(text.raw, word)


def _count_japanese(text: str, word: str) -> int:
    """How often it is a word of the public analyser; without janome, how often it stands anywhere."""
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

    Passes: "Queen q" for "q" at least 2. Fails: "hash" for "#" at least 1. In Japanese hiragana and katakana are one.
    Not covered: letters with accents count as themselves ("é" is no "e").
    upstream: for a character that is no English letter the public checker draws a random letter; here the majority of
    the letters decides, so that the verdict does not flicker.
    """
    lowered, letter = text.raw.lower(), letter.strip().lower()
    if compat == "upstream" and lang != "ja" and letter not in string.ascii_lowercase:
        right = sum(holds(lowered.count(c), let_relation, let_frequency) for c in string.ascii_lowercase)
        return right >= 13, f"{right} of 26 letters are right; the public checker draws one at random"
    count = lowered.count(letter)
    if len(letter) == 1 and "ぁ" <= letter <= "ん":
        count += lowered.count(chr(ord(letter) + 96))
    return compare_count(count, f"“{letter}”", let_relation, let_frequency)


@instruction("language:response_language", version=2)
def response_language(text: Text, *, language: str, compat: Compat = "fixed") -> Answer:
    """The answer is in the language of that ISO 639-1 code.

    Passes: "Guten Tag, wie geht es dir?" for "de". Fails: the same for "fr", and a text without letters. Missing: a
    language that cannot be told apart here; too few words that show one (names, dates). Not covered: answers in two
    languages (the larger part decides).
    upstream: langdetect with a seed, where it is installed; a text without letters passes, and "zh" never does (it says
    "zh-cn").
    """
    wanted = language.lower()
    if compat == "upstream":
        name = _public_language(text.raw)
        return not name or name == wanted, f"language {name or 'not found'}, {wanted} asked"
    found, sure = detect_language(text.raw)
    if not found:
        return False, f"no letters found, {wanted} asked"
    if not is_detectable(wanted):
        return missing(f"{wanted} is not among the languages that can be detected")
    reason = f"language {found} ({sure:.0%} sure), {wanted} asked"
    right = found == wanted.split("-")[0]
    if not right and not is_other(text.raw, {wanted.split("-")[0]}):
        return missing(f"too few words that show a language: {reason}")
    return right, reason


def _public_language(text: str) -> str | None:
    """The language as the public detector names it; None if it finds none."""
    if has_langdetect():
        return public_language(text)
    found, _ = detect_language(text)
    return {"zh": "zh-cn"}.get(found, found) or None


@instruction("change_case:capital_word_frequency")
def capital_word_frequency(
    text: Text, *, capital_frequency: Count, capital_relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """Words of capitals only, at least / less than … `capital_frequency` of them.

    Passes: "VERY NICE" for at least 2. Fails: "I AM" for at least 2: one letter is no word in capitals.
    Not covered: scripts without capitals (no word counts).
    upstream: Treebank words: "I" counts, "DON'T" is two.
    """
    if compat == "upstream":
        count = count_capital_words(text.raw)
    else:
        count = sum(word.isupper() and sum(map(str.isalpha, word)) > 1 for word in text.words)
    return compare_count(count, "capital word", capital_relation, capital_frequency)


@instruction("change_case:english_capital", version=2)
def english_capital(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no small letter.

    Passes: "THIS IS FINE." Fails: "This is fine.", "DAS IST GUT SO." Not covered: languages without capitals.
    upstream: the public detector hardly sees words in capitals, and guesses.
    """
    if not text.raw.isupper():
        return False, _first_wrong(text.raw, str.islower, "small letter")
    return _in_language(text.raw, lang, compat)


@instruction("change_case:english_lowercase", version=2)
def english_lowercase(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no capital letter.

    Passes: "this is fine." Fails: "This is fine.", "das ist gut so." Not covered: languages without capitals.
    """
    if not text.raw.islower():
        return False, _first_wrong(text.raw, str.isupper, "capital letter")
    return _in_language(text.raw, lang, compat)


def _first_wrong(text: str, wrong: object, what: str) -> str:
    first = next((c for c in text if wrong(c)), None)  # type: ignore[operator]
    return f"{what} found: “{first}”" if first else "no letters found"


def _in_language(text: str, lang: str, compat: Compat) -> tuple[bool, str]:
    if compat == "upstream" and has_langdetect():
        # The French checker lowers the text first, the English and the Spanish one do not.
        name = public_language(text.lower() if lang == "fr" else text)
        return not name or name == lang, f"case as asked; language {name or 'not found'}, {lang} asked"
    found, sure = detect_language(text.lower())
    # Names and single words say too little about the language to fail an answer for it.
    doubtful = sure < _SURE or (compat == "fixed" and len(text.split()) < 4)
    return not found or found == lang or doubtful, f"case as asked; language {found or 'not found'}, {lang} asked"
