"""IFBench `count:`: how many words, names, numbers, pronouns, marks.

    count:word_count_range(min_words=57, max_words=61)    "The response must contain between 57 and 61 words."

"fixed" counts words as a reader does (`Text.words`: "don't" and "well-known" are one word each); "upstream" counts as
the public checker does, which each docstring describes where it matters.
"""

from __future__ import annotations

import re

from rubrank.texts.lexicon import word_list
from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import (
    count_whole,
    ifbench,
    trim,
    without_punctuation,
)
from rubrank.verifiers.shared.relation import Count, compare_count
from rubrank.verifiers.verifier import Answer, Compat

_RUN = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DIGITS = re.compile(r"\d+")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_LATIN = re.compile("[A-Za-z]")
_NAMES = re.compile(rf"\b(?:{'|'.join(word_list('person_names'))})\b")


@ifbench("count:word_count_range")
def word_count_range(
    text: Text, *, min_words: Count, max_words: Count, compat: Compat = "fixed"
) -> Answer:
    """Between `min_words` and `max_words` words, both included.

    Passes: 60 words for 57 to 61.
    Fails: 56 words.
    Upstream counts runs of letters and digits, so "don't" is two.
    Not covered: words of scripts without spaces, where every character counts as one.
    """
    words = _RUN.findall(text.raw) if compat == "upstream" else text.words
    count = len(words)
    return (
        min_words <= count <= max_words,
        f"{count} words found, {min_words} to {max_words} required",
    )


@ifbench("count:unique_word_count")
def unique_word_count(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` different words, ignoring case.

    Passes: "To be or not" for 4.
    Fails: "to be or not to be" for 5.
    Upstream takes what stands between spaces, so a lone dash is a word, too.
    Not covered: inflected forms ("run", "runs") are different words.
    """
    if compat == "upstream":
        words = {trim(word) for word in text.raw.lower().split()}
    else:
        words = {word.casefold() for word in text.words}
    return compare_count(len(words), "different word", "at least", N)


@ifbench("count:conjunctions")
def conjunctions(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """At least `small_n` different coordinating conjunctions (for, and, nor, but, or, yet, so).

    Passes: "salt and pepper, but no sugar" for 2.
    Fails: "and … And … and" for 2;
    upstream tells "And", "and" and "and," apart, so there it passes.
    Not covered: whether "for", "so" and "yet" join anything where they stand.
    """
    coordinators = word_list("coordinators")
    if compat == "upstream":
        conjunctions = {word for word in text.raw.split() if trim(word).lower() in coordinators}
    else:
        conjunctions = {word.lower() for word in text.words} & coordinators
    return compare_count(len(conjunctions), "different conjunction", "at least", small_n)


@ifbench("count:person_names")
def person_names(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` different names of the fifty that the prompt lists (Emma, Liam, Sophia …).

    Passes: "Emma met Liam." for 2.
    Fails: "Emma met Emma." for 2; "emma".
    Upstream finds them inside words as well ("Ella" in "Ellabell").
    Not covered: other names, and whether the word names a person ("Grace" always does).
    """
    names = word_list("person_names")
    if compat == "upstream":
        present = frozenset(name for name in names if name in text.raw)
    else:
        present = names.intersection(_RUN.findall(text.raw))
    return compare_count(len(present), "different listed name", "at least", N)


@ifbench("count:numbers")
def numbers(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `N` numbers written in digits.

    Passes: "1,250.5 of 3" for 2.
    Fails: "1, 2, 3" for 2. The number of a list item counts.
    Upstream removes punctuation first, which glues "2024-05" into one number.
    Not covered: numbers in words ("three").
    """
    if compat == "upstream":
        numbers = _DIGITS.findall(without_punctuation(text.raw))
    else:
        numbers = _NUMBER.findall(text.raw)
    return compare_count(len(numbers), "number", "exactly", N)


@ifbench("count:punctuation")
def punctuation(text: Text) -> Answer:
    """Each of . , ! ? ; : and an interrobang (?!, !? or ‽); the ! and ? of one interrobang count for it alone.

    Passes: "Yes, no; so: a! b? c?! d."
    Fails: the same without the semicolon.
    Not covered: other marks (dashes, quotation marks, brackets), which "every standard punctuation mark" may or may not
        mean.
    """
    interrobang = next((mark for mark in ("?!", "!?", "‽") if mark in text.raw), None)
    if interrobang is None:
        return False, "no interrobang found"
    rest = text.raw.replace(interrobang, "", 1)
    absent = [mark for mark in ".,!?;:" if mark not in rest]
    if absent:
        return False, f"not found: {' '.join(absent)}"
    return True, "all marks found"


@ifbench("count:words_japanese")
def words_japanese(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """Every `N`th word (between spaces) is in Japanese: it holds kana or kanji and no Latin letter.

    Passes: "one two 三 four five 六" for 3.
    Fails: "one two three". Fewer than N words fail;
    upstream passes them, lets a number stand for a Japanese word, and counts a lone dash as a word.
    Not covered: Japanese without spaces is one word; kanji may be Chinese.
    """
    if N < 1:
        return False, f"every {N}th word cannot be found"
    words = text.raw.split()
    if compat == "upstream":
        nth_words = [trim(word) for word in words[N - 1 :: N]]
        wrong = [
            word for word in nth_words if word and not word.isdigit() and not _JAPANESE.search(word)
        ]
        if wrong:
            return False, f"not Japanese: {wrong[0]!r}"
        return True, f"every {N}th word is Japanese"
    words = [word for word in words if any(char.isalnum() for char in word)]
    nth_words = [trim(word) for word in words[N - 1 :: N]]
    if not nth_words:
        return False, f"{len(words)} words found, so there is no {N}th"
    wrong = [word for word in nth_words if not _JAPANESE.search(word) or _LATIN.search(word)]
    if wrong:
        return False, f"not Japanese: {wrong[0]!r}"
    return True, f"all {len(nth_words)} of every {N}th word are Japanese"


@ifbench("count:pronouns")
def pronouns(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At least `N` pronouns: personal, possessive and reflexive ones, also inside "it's"; who, someone and the like.

    Passes: "I know you; she told everyone." for 4.
    Fails: "Dogs bark."
    Upstream recognises personal pronouns only, and treats "it's" as "its" and ignores "I'm".
    Not covered: this, that, which, one — often no pronouns.
    """
    pronouns_of_list = word_list("personal_pronouns")
    if compat == "upstream":
        words = without_punctuation(text.raw.replace("/", " ").lower()).split()
    else:
        pronouns_of_list |= word_list("other_pronouns")
        # "it's" counts as "it"
        words = [word.lower().replace("’", "'").partition("'")[0] for word in text.words]
    return compare_count(sum(word in pronouns_of_list for word in words), "pronoun", "at least", N)


@ifbench("count:keywords_multiple", version=2)
def keywords_multiple(
    text: Text, *, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> Answer:
    """The five keywords exactly once, twice, three, five and seven times, ignoring case.

    Passes: "a b b c c c d d d d d e e e e e e e" for a, b, c, d, e.
    Fails: any other count. "door" in "doorway" does not count.
    Not covered: inflected forms, which count as other words.
    """
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    for keyword, expected in zip(keywords, (1, 2, 3, 5, 7), strict=True):
        count = count_whole(keyword, text.raw)
        if count != expected:
            return False, f"{keyword!r}: {count} found, {expected} required"
    return True, "all five counts are right"
