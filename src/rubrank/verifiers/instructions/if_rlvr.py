"""IF-RLVR: the constraints that only the training data has: keywords, counts, copying, layout, forbidden marks.

    last_word:last_word_sent(last_word="sea")    "The last word of each sentence, before punctuation, should be … sea."

Most have two readings, "fixed" and "upstream" (the public checker, faults included): see `instructions/__init__.py`.
A keyword may be given as a list of one word (`Word`), as in some of the data.
"""

from __future__ import annotations

import operator
import re
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator

from rubrank._plain import replace_surrogates
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import (
    DIVIDER,
    Count,
    Relation,
    check_parts,
    check_word_at,
    compare_count,
    count_within,
    count_word,
    forbid_marks,
    forbid_repeats,
    instruction,
    quote_some,
    require_none,
)
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.shared.word_tables import compile_re2
from rubrank.verifiers.verifier import Answer, Compat, missing

if_rlvr = partial(instruction, family="if_rlvr")
"""`@if_rlvr(name)` registers the verifier of an IF-RLVR constraint."""


Word = Annotated[
    str, BeforeValidator(lambda value: value[0] if isinstance(value, list) and value else value)
]
"""A parameter that is one word, given as "sea" or as ["sea"]."""
_LOWER_CASE_WORD = re.compile(r"\b[a-z]+\b")
_ASCII_LETTERS = re.compile("[A-Za-z]")
_NOT_WORD = re.compile(r"[^\w\s]")
# The joint of two sentences, with the mark before it: the ".-" of "One.-Two"
_SENTENCE_HYPHEN = re.compile(r"[.!?。！？][\"'”’)\]]{0,3}-(?=\S)")
# A piece between spaces that is in brackets, perhaps with marks around them: "[sea],"
_BRACKETED = re.compile(r"[^\w\[\]]*\[[^\[\]]+\][^\w\[\]]*\Z")
# "<<two words>>"
_PAIR = re.compile(r"<<[^<>\s]+[ \t\n]+[^<>\s]+>>")
# A single word in angular brackets at the end, which has no partner: "<<last>>."
_LAST_ALONE = re.compile(r"<<[^<>\s]+>>\W*\Z")
# "***" anywhere, or a rule of Markdown: "* * *", "*****" on a line
_WIDE_DIVIDER = re.compile(r"(?m)^[ \t]*(?:\*[ \t]*){3,}$|\*\*\*|\* \* \*")


# ---- keywords -------------------------------------------------------------------------------------------------------


@if_rlvr("keywords:no_adjacent_consecutive", version=2)
def no_adjacent_consecutive(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No word starts with the letter that follows, in the alphabet, the first letter of the word before.

    Passes: "Cats sleep".
    Fails: "a big", "like milk".
    Upstream takes what stands between spaces, with its marks, so that "(b" hides the b.
    Not covered: letters other than a to z compare by their code.
    """
    words = text.raw.split() if compat == "upstream" else text.words
    wrong: list[str] = []
    for word, follower in pairwise(words):
        letters = (word[0].lower(), follower[0].lower())
        if max(map(len, letters)) > 1:
            # In lower case "İ" is two characters: the public checker fails on it, and here no letter comes after it.
            is_wrong = compat == "upstream"
        else:
            is_wrong = ord(letters[1]) - ord(letters[0]) == 1
        if is_wrong:
            wrong.append(f"{word} {follower}")
    return require_none(wrong, "neighbours with consecutive first letters")


@if_rlvr("keywords:word_once")
def word_once(text: Text, *, keyword: Word, compat: Compat = "fixed") -> Answer:
    """`keyword` occurs exactly once, ignoring case.

    Passes: "The river runs." for river.
    Fails: none or two.
    Upstream also counts matches inside words ("rivers").
    Not covered: inflected forms, which are other words.
    """
    return compare_count(_count_keyword(keyword, text, compat), f"time {keyword!r}", "exactly", 1)


def _count_keyword(keyword: str, text: Text, compat: Compat) -> int:
    """Count the keyword, ignoring case: as a whole word, or upstream also inside words."""
    if compat == "upstream":
        return count_within(text.raw, keyword)
    return count_word(text.raw, keyword)


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

    Passes: "sea, sea" for sea, 2.
    Fails: one or three.
    Upstream applies the `relation` of the data, which the prompt never shows, and counts matches inside words; without
        a relation it would choose one at random, so the verdict is missing.
    Not covered: inflected forms.
    """
    expected: Relation = "exactly"
    if compat == "upstream":
        if relation is None:
            return missing("the public checker draws the relation at random when the data has none")
        expected = relation
    count = _count_keyword(keyword, text, compat)
    return compare_count(count, f"time {keyword!r}", expected, frequency)


@if_rlvr("keywords:exclude_word_harder")
def exclude_word_harder(text: Text, *, keyword: Word, compat: Compat = "fixed") -> Answer:
    """`keyword` does not occur as a word, ignoring case.

    Passes: "Boats drift." for sea.
    Fails: "The sea." — which upstream passes, because it looks for the word between two spaces and is case-sensitive.
    Not covered: inflected forms are allowed.
    """
    if compat == "upstream":
        count = text.raw.count(f" {keyword.strip()} ")
    else:
        count = count_word(text.raw, keyword)
    return compare_count(count, f"time {keyword!r}", "exactly", 0)


@if_rlvr("keywords:palindrome")
def palindrome(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A word of at least three letters that reads the same backwards, ignoring case.

    Passes: "Look at that radar."
    Fails: "I see a cat." — which upstream passes, because "I" and "a" read the same both ways.
    Not covered: palindromes of several words.
    """
    if compat == "upstream":
        words = text.raw.split()
    else:
        words = [word.lower() for word in text.words]
        words = [word for word in words if len(word) > 2 and word.isalpha() and len(set(word)) > 1]
    palindromes = [word for word in words if word == word[::-1]]
    return bool(palindromes), f"palindromes found: {quote_some(palindromes)}"


@if_rlvr("keywords:keyword_specific_position", version=2)
def keyword_specific_position(
    text: Text, *, keyword: Word, n: Count, m: Count, compat: Compat = "fixed"
) -> Answer:
    """`keyword` is the `m`th word of the `n`th sentence, ignoring case.

    Passes: "One. I giggle." for giggle, 2, 2.
    Fails: any other place.
    Upstream counts punctuation marks as words and minds the case.
    Not covered: keywords of several words.
    """
    return check_word_at(text, keyword, n, m, compat, case_sensitive=compat == "upstream")


@if_rlvr("keywords:start_end")
def start_end(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The first word is also the last, and nothing follows it, not even a mark.

    Passes: "Home is home".
    Fails: "Home is home."; a single word. Case does not matter.
    Not covered: marks before the first word, which are allowed (upstream: they are the first word).
    """
    words = split_public_tokens(text.raw) if compat == "upstream" else text.words
    if len(words) < 2:
        return False, f"{len(words)} words found, at least 2 required"
    is_same = words[0].lower() == words[-1].lower()
    reason = f"starts with {words[0]!r}, ends with {words[-1]!r}"
    if compat == "fixed" and not text.raw.rstrip().endswith(words[-1]):
        return False, f"{reason} and more"
    return is_same, reason


# ---- first and last words -------------------------------------------------------------------------------------------


@if_rlvr("first_word:first_word_sent", version=2)
def first_word_sent(text: Text, *, first_word: Word, compat: Compat = "fixed") -> Answer:
    """Every sentence starts with `first_word`, ignoring case.

    Passes: "Tea is hot. Tea, again." for tea.
    Fails: one sentence that does not. Marks around the word do not matter.
    Upstream requires the word without marks.
    Not covered: list markers and headings, which may count as sentences.
    """
    if compat == "upstream":
        split_sentences = [sentence.split() for sentence in split_public_sentences(text.raw)]
    else:
        split_sentences = [list(Text(sentence).words) for sentence in text.sentences]
    return _check_all_equal(["".join(words[:1]) for words in split_sentences], first_word)


@if_rlvr("first_word:first_word_answer")
def first_word_answer(text: Text, *, first_word: Word, compat: Compat = "fixed") -> Answer:
    """The answer starts with `first_word`, ignoring case.

    Passes: "Tea, then." for tea.
    Fails: "The tea." Marks around the word do not matter.
    Upstream requires the word without marks.
    Not covered: words of several parts.
    """
    words = text.raw.split() if compat == "upstream" else text.words
    return _check_all_equal(["".join(words[:1])], first_word)


@if_rlvr("last_word:last_word_sent", version=2)
def last_word_sent(text: Text, *, last_word: Word, compat: Compat = "fixed") -> Answer:
    """Every sentence ends with `last_word`, before its marks, ignoring case.

    Passes: "I like tea. You drink tea!" for tea.
    Fails: one sentence that does not.
    Not covered: sentences without a mark at their end run on to the next.
    """
    if compat == "upstream":
        last_words = [
            _last_word_upstream(sentence) for sentence in split_public_sentences(text.raw)
        ]
    else:
        last_words = ["".join(Text(sentence).words[-1:]) for sentence in text.sentences]
    return _check_all_equal(last_words, last_word)


@if_rlvr("last_word:last_word_answer")
def last_word_answer(text: Text, *, last_word: Word, compat: Compat = "fixed") -> Answer:
    """The answer ends with `last_word`, before its marks, ignoring case.

    Passes: "I like tea." for tea.
    Fails: "Tea is fine."
    Upstream removes marks inside the last word, too ("tea-time" is "teatime").
    Not covered: words of several parts.
    """
    word = _last_word_upstream(text.raw) if compat == "upstream" else "".join(text.words[-1:])
    return _check_all_equal([word], last_word)


def _last_word_upstream(sentence: str) -> str:
    """Return what stands behind the last space, without its marks; "" for an empty sentence."""
    return _NOT_WORD.sub("", "".join(sentence.split()[-1:]))


def _check_all_equal(words: list[str], expected: str) -> Answer:
    """Check that each of the words is the expected one, ignoring case; no words at all fail.

    words: the first or last word of each sentence; "" stands for a sentence without words.
    """
    if not words:
        return False, "no sentences found"
    required = expected.strip().lower()
    return require_none(
        [word for word in words if not word or word.lower() != required], "other word"
    )


# ---- counts ---------------------------------------------------------------------------------------------------------


@if_rlvr("count:lowercase_counting")
def lowercase_counting(text: Text, *, N: Count, compat: Compat = "fixed") -> Answer:
    """At most `N` words are written in lowercase only.

    Passes: "THE CAT sat" for 1.
    Fails: "the cat sat" for 2.
    Upstream recognises only words of the letters a to z ("don't" is two of them, "café" none).
    Not covered: scripts without capitals, whose words are not small.
    """
    if compat == "upstream":
        count = len(_LOWER_CASE_WORD.findall(text.raw))
    else:
        count = sum(word.islower() for word in text.words)
    return compare_count(count, "lowercase word", "at most", N)


@if_rlvr("count:counting_composition", version=2)
def counting_composition(
    text: Text, *, n_sent: Count, n_words: Count, compat: Compat = "fixed"
) -> Answer:
    """Three paragraphs divided by `***` or `* * *`, each of `n_sent` sentences of `n_words` words.

    Passes: "I am. We go. *** It is. He ran. *** You won. They did." for 2, 2.
    Fails: any other number.
    Upstream counts marks as words and does not recognise `* * *`, though its prompt asks for that.
    Not covered: headings count as sentences.
    """
    if compat == "upstream":
        parts = DIVIDER.split(text.raw)
    else:
        parts = [part for part in _WIDE_DIVIDER.split(text.raw) if part.strip()]
    sizes: list[list[int]] = []  # the numbers of words of the sentences of each paragraph
    for part in parts:
        if compat == "upstream":
            sentences = map(split_public_tokens, split_public_sentences(part))
            sizes.append([len(tokens) for tokens in sentences])
        else:
            sizes.append([len(Text(sentence).words) for sentence in Text(part).sentences])
    is_right = sizes == [[n_words] * n_sent] * 3
    reason = (
        f"paragraphs with sentences of {sizes[:3]} words, 3 times {n_sent} of {n_words} required"
    )
    return is_right, reason


@if_rlvr("count:count_unique")
def count_unique(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No word occurs twice, ignoring case.

    Passes: "Cats nap, dogs run."
    Fails: "The cat saw the dog."
    Upstream counts marks as words, so that two commas fail, and is case-sensitive.
    Not covered: inflected forms are different words.
    """
    if compat == "upstream":
        words = split_public_tokens(text.raw)
    else:
        words = [word.casefold() for word in text.words]
    return forbid_repeats(words)


@if_rlvr("count:count_increment_word")
def count_increment_word(
    text: Text, *, keyword1: Word, keyword2: Word, compat: Compat = "fixed"
) -> Answer:
    """`keyword1` occurs exactly once and `keyword2` exactly twice, ignoring case.

    Passes: "tea, milk, milk" for tea, milk.
    Fails: any other count.
    Upstream also counts matches inside words.
    Not covered: inflected forms.
    """
    first = _count_keyword(keyword1, text, compat)
    second = _count_keyword(keyword2, text, compat)
    reason = f"{keyword1!r} found {first} times, {keyword2!r} {second} times; 1 and 2 required"
    return first == 1 and second == 2, reason


@if_rlvr("letters:letter_counting")
def letter_counting(
    text: Text, *, N: Count, relation: Relation, compat: Compat = "fixed"
) -> Answer:
    """The answer has `relation` ("at least", "less than" …) `N` letters.

    Passes: "Tea" for less than 4.
    Fails: "Teas" for less than 4.
    Upstream counts a to z only.
    Not covered: digits and marks are not letters.
    """
    if compat == "upstream":
        count = len(_ASCII_LETTERS.findall(text.raw))
    else:
        count = sum(map(str.isalpha, text.raw))
    return compare_count(count, "letter", relation, N)


@if_rlvr("letters:letter_counting2")
def letter_counting2(
    text: Text, *, letter: Word, let_frequency: Count, let_relation: Relation
) -> Answer:
    """`letter` occurs `let_relation` ("at least", "less than" …) `let_frequency` times, ignoring case.

    Passes: "Banana" for a, at least 3.
    Fails: "Bread" for a, at least 3.
    Not covered: letters with accents are others.
    """
    letter = letter.strip().lower()
    count = text.raw.lower().count(letter) if letter else 0
    return compare_count(count, f"letter {letter!r}", let_relation, let_frequency)


# ---- copying --------------------------------------------------------------------------------------------------------


@if_rlvr("copy:repeat_phrase")
def repeat_phrase(text: Text, *, phrase: str, small_n: Count, compat: Compat = "fixed") -> Answer:
    """The phrase exactly `small_n` times, each time with another word in place of one of its inner words.

    Passes: "the old sea" and "the wide sea" for "the deep sea", 2.
    Fails: the phrase unchanged, another first or last word, two words replaced.
    Upstream checks the replacement for the last repetition only.
    Not covered: words inserted.
    """
    if len(phrase.split()) < 3:
        return False, f"the phrase {phrase!r} has no inner word"
    if compat == "upstream":
        return _check_repeated_upstream(text.raw, phrase.split(), small_n)
    phrase_words = [word.lower() for word in Text(phrase).words]
    words = [word.lower() for word in text.words]
    size = len(phrase_words)
    # How many words differ from the phrase, for each passage of its length that begins and ends with the same words.
    changes: list[int] = []
    for start in range(len(words) - size + 1):
        span = words[start : start + size]
        if span[0] == phrase_words[0] and span[-1] == phrase_words[-1]:
            changes.append(sum(map(operator.ne, span, phrase_words)))
    if 0 in changes:
        return False, "the phrase occurs unchanged"
    return compare_count(changes.count(1), "changed phrase", "exactly", small_n)


def _check_repeated_upstream(raw: str, phrase_words: list[str], small_n: int) -> Answer:
    """Return the public checker's verdict: `small_n` passages, at most one word changed in each, one in the last."""
    # The shortest passages of a line from the first word of the phrase to its last. RE2 takes linear time.
    pattern = rf"{re.escape(phrase_words[0])} .*? {re.escape(phrase_words[-1])}"
    changes: list[int] = []
    for span in compile_re2(pattern).findall(replace_surrogates(raw)):
        words = span.split()
        # A passage that is too long is as wrong as one with two changed words.
        is_longer = len(words) > len(phrase_words)
        changes.append(2 if is_longer else sum(map(operator.ne, words, phrase_words)))
    is_right = len(changes) == small_n > 0 and max(changes) <= 1 and changes[-1] == 1
    return is_right, f"{changes[:20]} words changed in {len(changes)} phrases, {small_n} required"


@if_rlvr("copy:copy")
@if_rlvr("copy:copying_simple")
def copy(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The request, copied as it is and nothing else; spaces and line breaks may differ.

    Passes: "Sing a song." for itself.
    Fails: "Sure! Sing a song."; an answer after it; other capitals, which upstream ignores.
    Not covered: quotes around it fail.
    """
    return _is_copy(text.raw, prompt_to_repeat, compat), f"the answer is {text.raw.strip()[:60]!r}"


@if_rlvr("copy:copying_multiple")
def copying_multiple(
    text: Text, *, prompt_to_repeat: str, N: Count, compat: Compat = "fixed"
) -> Answer:
    """The request again without change, `N` times, divided by six asterisks.

    Passes: "Sing.\\n******\\nSing." for "Sing.", 2.
    Fails: once more or less; asterisks at the end.
    Not covered: longer rows of asterisks, which divide where the first six end.
    """
    parts = text.raw.split("******")
    copies = sum(_is_copy(part, prompt_to_repeat, compat) for part in parts)
    return copies == len(parts) == N, f"{copies} of {len(parts)} parts are copies, {N} required"


def _is_copy(text: str, prompt: str, compat: Compat) -> bool:
    """Is the text the prompt, apart from white space, or upstream apart from case and white space around it?"""
    if compat == "upstream":
        return text.strip().lower() == prompt.strip().lower()
    return text.split() == prompt.split()


@if_rlvr("new:copy_span_idx")
def copy_span_idx(
    text: Text, *, prompt_to_repeat: str, n_start: Count, n_end: Count, compat: Compat = "fixed"
) -> Answer:
    """The characters of the request from index `n_start` to `n_end`, counted from 0, both included; nothing else.

    Passes: "bcd" for "abcdef", 1, 3.
    Fails: "bc", which is what upstream requires, because it leaves out the last one and ignores case. Spaces around do
        not matter.
    Not covered: quotes around it fail.
    """
    answer = text.raw.strip()
    if compat == "upstream":
        span = prompt_to_repeat[n_start:n_end].strip()
        is_same = answer.lower() == span.lower()
    else:
        span = prompt_to_repeat[n_start : n_end + 1].strip()
        is_same = answer == span
    return is_same, f"{'the' if is_same else 'not the'} span {span[:60]!r}"


# ---- layout ---------------------------------------------------------------------------------------------------------


@if_rlvr("detectable_format:sentence_hyphens", version=2)
def sentence_hyphens(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Sentences are joined by hyphens, without spaces.

    Passes: "It rains.-We stay."
    Fails: "It rains. We stay."; "It rains. - We stay."; a single sentence (upstream passes).
    Upstream treats every hyphen as a join and compares only as many pieces as there are sentences.
    Not covered: full stops of abbreviations before a hyphen.
    """
    if compat == "upstream":
        sentences = split_public_sentences(text.raw.replace("-", " "))
        pairs = zip(text.raw.split("-"), sentences, strict=False)
        return require_none(
            [piece for piece, sentence in pairs if piece != sentence], "piece of a sentence"
        )
    # Each joint is replaced by a comma, so that joined sentences become one. If several are left, some were not joined.
    without_joints, joints = _SENTENCE_HYPHEN.subn(",", text.raw)
    sentences_left = len(Text(without_joints).sentences)
    reason = f"{joints} hyphens join sentences; {sentences_left - 1} joints have spaces"
    return sentences_left == 1 and joints > 0, reason


@if_rlvr("detectable_format:square_brackets")
def square_brackets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word is in square brackets.

    Passes: "[Tea] [is] [hot]."
    Fails: "[Tea is] hot". Marks may stand inside or outside.
    Upstream requires every piece between spaces to start with [ and end with ].
    Not covered: a bracket around several words fails.
    """
    wrong: list[str] = []
    for piece in text.raw.split():
        if compat == "upstream":
            is_bracketed = piece.startswith("[") and piece.endswith("]")
        else:
            is_word = any(char.isalnum() or char in "[]" for char in piece)
            is_bracketed = not is_word or _BRACKETED.match(piece) is not None
        if not is_bracketed:
            wrong.append(piece)
    return require_none(wrong, "word outside brackets")


@if_rlvr("detectable_format:bigram_wrapping")
def bigram_wrapping(text: Text, *, compat: Compat = "fixed") -> Answer:
    """All words stand in pairs in double angular brackets; of an odd number the last may stand alone.

    Passes: "<<I am>> <<at home>>."
    Fails: "<<I am>> at home".
    Upstream looks at the brackets of every second piece between spaces only.
    Not covered: brackets inside words.
    """
    if compat == "upstream":
        pieces = text.raw.split()
        wrong: list[str] = []
        for first, second in zip(pieces[::2], pieces[1::2], strict=False):
            if not (first.startswith("<<") and second.endswith(">>")):
                wrong.append(f"{first} {second}")
        return require_none(wrong, "pair that is not wrapped")
    rest, pairs = _PAIR.subn(" ", text.raw)
    rest = _LAST_ALONE.sub("", rest)
    has_words_outside = any(char.isalnum() for char in rest)
    return pairs > 0 and not has_words_outside, f"{pairs} pairs; outside: {rest.strip()[:60]!r}"


@if_rlvr("paragraphs:paragraphs")
def paragraphs(text: Text) -> Answer:
    """Two paragraphs with the Markdown divider `***` between them.

    Passes: "One.\\n***\\nTwo."
    Fails: three parts, none, an empty one between dividers. A divider at the start or end does no harm.
    Not covered: other dividers (`---`, `* * *`).
    """
    return check_parts(DIVIDER.split(text.raw), "paragraph", 2)


@if_rlvr("paragraphs:paragraphs2")
def paragraphs2(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Two paragraphs with a blank line between them, and no other blank lines.

    Passes: "One.\\n\\nTwo."
    Fails: one or three. Blank lines may hold spaces and be several in a row.
    Upstream fails four line breaks in a row and sees no blank line that holds spaces.
    Not covered: headings and lists count as paragraphs.
    """
    parts = text.raw.split("\n\n") if compat == "upstream" else text.paragraphs
    return check_parts(parts, "paragraph", 2)


# ---- forbidden marks ------------------------------------------------------------------------------------------------


@if_rlvr("punctuation:punctuation_dot")
def punctuation_dot(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No full stop anywhere, not even in numbers and abbreviations; the Chinese 。 and ． are full stops, too.

    Passes: "No dots here!"
    Fails: "3.5", "Yes."
    Upstream recognises only ".".
    Not covered: the ellipsis sign …
    """
    marks = "." if compat == "upstream" else ".。．"
    return forbid_marks(text.raw, marks, "full stop")


@if_rlvr("punctuation:punctuation_exclamation")
def punctuation_exclamation(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No exclamation mark anywhere, not even in code; the Chinese ！ is one, too.

    Passes: "Calm."
    Fails: "Go!", "a != b".
    Upstream recognises only "!".
    Not covered: ¡ and the interrobang ‽.
    """
    marks = "!" if compat == "upstream" else "!！"
    return forbid_marks(text.raw, marks, "exclamation mark")
