"""IF-RLVR — the constraints that only the training data has: keywords, first and last words, counts, letters.

    last_word:last_word_sent(last_word="sea")    "The last word of each sentence, before punctuation, should be … sea."

Copying and layout are in `if_rlvr_copy`. As in IFBench, "fixed" takes the words and sentences of `Text`, "upstream"
those of the public checkers; a word that the data gives as a list of one is accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import (
    count_whole,
    count_within,
    public_sentences,
    public_tokens,
)
from rubrank.verifiers.ifbench.words import word_at
from rubrank.verifiers.ifeval.common import instruction
from rubrank.verifiers.shared.relation import Count, Relation, compare_count
from rubrank.verifiers.verifier import Answer, Compat, missing

if_rlvr = partial(instruction, family="if_rlvr")
"""`@if_rlvr(name)` registers the verifier of an IF-RLVR constraint."""


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


Word = Annotated[str, BeforeValidator(_first)]
_SMALL = re.compile(r"\b[a-z]+\b")
_ASCII_LETTERS = re.compile("[A-Za-z]")
_NOT_WORD = re.compile(r"[^\w\s]")
_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_WIDE_DIVIDER = re.compile(r"(?m)^[ \t]*(?:\*[ \t]*){3,}$|\*\*\*|\* \* \*")


# ---- keywords -------------------------------------------------------------------------------------------------------


@if_rlvr("keywords:no_adjacent_consecutive")
def no_adjacent_consecutive(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No word starts with the letter that follows, in the alphabet, the first letter of the word before.

    Passes: "Cats sleep". Fails: "a big", "like milk". Upstream takes what stands between
    spaces, with its marks, so that "(b" hides the b. Not covered: letters other than a to z compare by their code.
    """
    words = text.raw.split() if compat == "upstream" else text.words
    firsts = [word[0].lower() for word in words]
    for i in range(len(words) - 1):
        one, two = firsts[i], firsts[i + 1]
        if len(one) != 1 or len(two) != 1 or ord(two) - ord(one) == 1:
            return False, f"{words[i]!r} and {words[i + 1]!r} start with consecutive letters"
    return True, f"no such neighbours among {len(words)} words"


@if_rlvr("keywords:word_once")
def word_once(text: Text, *, keyword: Word, compat: Compat = "fixed") -> Answer:
    """`keyword` occurs exactly once, whatever its case.

    Passes: "The river runs." for river. Fails: none or two. Upstream counts inside of words, too ("rivers"). Not
    covered: inflected forms, which are other words.
    """
    return compare_count(_count(keyword, text, compat), f"time {keyword!r}", "exactly", 1)


def _count(keyword: str, text: Text, compat: Compat) -> int:
    return (count_within if compat == "upstream" else count_whole)(keyword, text.raw)


@if_rlvr("keywords:word_count_different_numbers")
def word_count_different_numbers(
    text: Text,
    *,
    keyword: Word,
    frequency: Count,
    relation: Literal["less than", "at least"] | None = None,
    compat: Compat = "fixed",
) -> Answer:
    """`keyword` occurs exactly `frequency` times, as the instruction says ("should appear {frequency} times").

    Passes: "sea, sea" for sea, 2. Fails: one or three. Upstream applies the `relation` of the data, which the prompt
    never shows, and counts inside of words; without a relation it would roll a die, so the verdict is missing. Not
    covered: inflected forms.
    """
    if compat == "upstream" and relation is None:
        return missing("the public checker draws the relation at random when the data has none")
    asked: Relation = relation if compat == "upstream" and relation else "exactly"
    return compare_count(_count(keyword, text, compat), f"time {keyword!r}", asked, frequency)


@if_rlvr("keywords:exclude_word_harder")
def exclude_word_harder(text: Text, *, keyword: Word, compat: Compat = "fixed") -> Answer:
    """`keyword` does not occur as a word, whatever its case.

    Passes: "Boats drift." for sea. Fails: "The sea." — which upstream passes, for it looks for the word between two
    spaces and minds the case. Not covered: inflected forms are allowed.
    """
    if compat == "upstream":
        n = text.raw.count(f" {keyword.strip()} ")
    else:
        n = count_whole(keyword, text.raw)
    return compare_count(n, f"time {keyword!r}", "exactly", 0)


@if_rlvr("keywords:palindrome")
def palindrome(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A word of at least three letters that reads the same backwards, whatever its case.

    Passes: "Look at that radar." Fails: "I see a cat." — which upstream passes, for "I" and "a" read the same both
    ways. Not covered: palindromes of several words.
    """
    if compat == "upstream":
        found = next((word for word in text.raw.split() if word == word[::-1]), None)
    else:
        small = (word.lower() for word in text.words)
        found = next((w for w in small if len(w) > 2 and w.isalpha() and len(set(w)) > 1 and w == w[::-1]), None)
    return found is not None, f"palindrome: {found!r}" if found else "no palindrome found"


@if_rlvr("keywords:keyword_specific_position", version=2)
def keyword_specific_position(text: Text, *, keyword: Word, n: Count, m: Count, compat: Compat = "fixed") -> Answer:
    """`keyword` is the `m`th word of the `n`th sentence, whatever its case.

    Passes: "One. I giggle." for giggle, 2, 2. Fails: any other place. Upstream counts punctuation marks as words and
    minds the case. Not covered: keywords of several words.
    """
    (found, why), wanted = word_at(text, n, m, compat), keyword.strip()
    if found is None:
        return False, why
    same = found == wanted if compat == "upstream" else found.casefold() == wanted.casefold()
    return same, f"word {m} of sentence {n} is {found!r}, {wanted!r} asked"


@if_rlvr("keywords:start_end")
def start_end(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The first word is also the last, and nothing follows it, not even a mark.

    Passes: "Home is home". Fails: "Home is home."; a single word. Case does not matter. Not covered: marks before the
    first word, which are allowed (upstream: they are the first word).
    """
    words = public_tokens(text.raw) if compat == "upstream" else text.words
    if len(words) < 2:
        return False, f"{len(words)} words found, at least 2 asked"
    bare = compat == "upstream" or text.raw.rstrip().endswith(words[-1])
    same = words[0].lower() == words[-1].lower()
    return same and bare, f"starts with {words[0]!r}, ends with {words[-1]!r}{'' if bare else ' and more'}"


# ---- first and last words -------------------------------------------------------------------------------------------


@if_rlvr("first_word:first_word_sent", version=2)
def first_word_sent(text: Text, *, first_word: Word, compat: Compat = "fixed") -> Answer:
    """Every sentence starts with `first_word`, whatever its case.

    Passes: "Tea is hot. Tea, again." for tea. Fails: one sentence that does not. Marks around the word do not matter;
    upstream wants it bare. Not covered: list markers and headings, which may count as sentences.
    """
    if compat == "upstream":
        found = [sentence.split()[:1] for sentence in public_sentences(text.raw)]
    else:
        found = [list(Text(sentence).words[:1]) for sentence in text.sentences]
    return _all_are(found, first_word, "starts")


@if_rlvr("first_word:first_word_answer")
def first_word_answer(text: Text, *, first_word: Word, compat: Compat = "fixed") -> Answer:
    """The answer starts with `first_word`, whatever its case.

    Passes: "Tea, then." for tea. Fails: "The tea." Marks around the word do not matter; upstream wants it bare.
    Not covered: words of several parts.
    """
    words = text.raw.split() if compat == "upstream" else text.words
    return _all_are([list(words[:1])], first_word, "starts")


@if_rlvr("last_word:last_word_sent", version=2)
def last_word_sent(text: Text, *, last_word: Word, compat: Compat = "fixed") -> Answer:
    """Every sentence ends with `last_word`, before its marks, whatever its case.

    Passes: "I like tea. You drink tea!" for tea. Fails: one sentence that does not. Not covered: sentences without a
    mark at their end run on to the next.
    """
    if compat == "upstream":
        found = [_bare_last(sentence) for sentence in public_sentences(text.raw)]
    else:
        found = [list(Text(sentence).words[-1:]) for sentence in text.sentences]
    return _all_are(found, last_word, "ends")


@if_rlvr("last_word:last_word_answer")
def last_word_answer(text: Text, *, last_word: Word, compat: Compat = "fixed") -> Answer:
    """The answer ends with `last_word`, before its marks, whatever its case.

    Passes: "I like tea." for tea. Fails: "Tea is fine." Upstream removes marks inside of the last word, too
    ("tea-time" is "teatime"). Not covered: words of several parts.
    """
    found = _bare_last(text.raw) if compat == "upstream" else list(text.words[-1:])
    return _all_are([found], last_word, "ends")


def _bare_last(sentence: str) -> list[str]:
    return [_NOT_WORD.sub("", word) for word in sentence.split()[-1:]]


def _all_are(found: list[list[str]], wanted: str, verb: str) -> Answer:
    """Is each of these (lists of one word, or none) the wanted word?"""
    small = wanted.strip().lower()
    wrong = next((words for words in found if [word.lower() for word in words] != [small]), None)
    if wrong is not None:
        return False, f"one {verb} with {''.join(wrong)!r}, {wanted!r} asked"
    return bool(found), f"all {len(found)} {verb[:-1]} with {wanted!r}"


# ---- counts ---------------------------------------------------------------------------------------------------------


@if_rlvr("count:lowercase_counting")
def lowercase_counting(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At most `N` words are written in small letters only.

    Passes: "THE CAT sat" for 1. Fails: "the cat sat" for 2. Upstream knows words of a to z alone ("don't" is two of
    them, "café" none). Not covered: scripts without capitals, whose words are not small.
    """
    n = len(_SMALL.findall(text.raw)) if compat == "upstream" else sum(word.islower() for word in text.words)
    return compare_count(n, "lowercase word", "at most", N)


@if_rlvr("count:counting_composition", version=2)
def counting_composition(text: Text, *, n_sent: Count, n_words: Count, compat: Compat = "fixed") -> Answer:
    """Three paragraphs divided by `***` or `* * *`, each of `n_sent` sentences of `n_words` words.

    Passes: "I am. We go. *** It is. He ran. *** You won. They did." for 2, 2. Fails: any other number. Upstream counts
    marks as words and knows no `* * *`, though its prompt asks for that. Not covered: headings count as sentences.
    """
    divider = _DIVIDER if compat == "upstream" else _WIDE_DIVIDER
    parts = divider.split(text.raw)
    if compat == "fixed":
        parts = [part for part in parts if part.strip()]
    for i, part in enumerate(parts):
        sentences = public_sentences(part) if compat == "upstream" else Text(part).sentences
        sizes = [len(public_tokens(s) if compat == "upstream" else Text(s).words) for s in sentences]
        if sizes != [n_words] * n_sent:
            return False, f"paragraph {i + 1} has sentences of {sizes} words, {n_sent} of {n_words} asked"
    return len(parts) == 3, f"{len(parts)} paragraphs found, 3 asked"


@if_rlvr("count:count_unique")
def count_unique(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No word occurs twice, whatever its case.

    Passes: "Cats nap, dogs run." Fails: "The cat saw the dog." Upstream counts marks as words, so that two commas fail,
    and minds the case. Not covered: inflected forms are different words.
    """
    units = public_tokens(text.raw) if compat == "upstream" else [word.casefold() for word in text.words]
    twice = next((unit for unit, n in Counter(units).items() if n > 1), None)
    return twice is None, "all words are different" if twice is None else f"{twice!r} occurs more than once"


@if_rlvr("count:count_increment_word")
def count_increment_word(text: Text, *, keyword1: Word, keyword2: Word, compat: Compat = "fixed") -> Answer:
    """`keyword1` occurs exactly once and `keyword2` exactly twice, whatever their case.

    Passes: "tea, milk, milk" for tea, milk. Fails: any other count. Upstream counts inside of words, too. Not covered:
    inflected forms.
    """
    one, two = _count(keyword1, text, compat), _count(keyword2, text, compat)
    return (one, two) == (1, 2), f"{keyword1!r} found {one} times, {keyword2!r} {two} times; 1 and 2 asked"


@if_rlvr("letters:letter_counting")
def letter_counting(text: Text, *, N: Count, relation: Relation, compat: Compat = "fixed") -> Answer:
    """The answer has `relation` ("at least", "less than" …) `N` letters.

    Passes: "Tea" for less than 4. Fails: "Teas" for less than 4. Upstream counts a to z only. Not covered: digits and
    marks are no letters.
    """
    n = len(_ASCII_LETTERS.findall(text.raw)) if compat == "upstream" else sum(map(str.isalpha, text.raw))
    return compare_count(n, "letter", relation, N)


@if_rlvr("letters:letter_counting2")
def letter_counting2(text: Text, *, letter: Word, let_frequency: Count, let_relation: Relation) -> Answer:
    """`letter` occurs `let_relation` ("at least", "less than" …) `let_frequency` times, whatever its case.

    Passes: "Banana" for a, at least 3. Fails: "Bread" for a, at least 3. Not covered: letters with accents are others.
    """
    wanted = letter.strip().lower()
    n = text.raw.lower().count(wanted) if wanted else 0
    return compare_count(n, f"letter {wanted!r}", let_relation, let_frequency)
