"""IFBench `ratio:`: shares and balances: stop words, kinds of sentences, overlap with a reference.

    ratio:overlap(reference_text="…", percentage=72)    "Maintain a trigram overlap of 72% (±2%) …"

A ratio of two kinds that do not occur is not met by the "fixed" readings; the "upstream" readings accept 0 = 0.
"""

from __future__ import annotations

import re
from collections import Counter

from rubrank.texts.lexicon import is_emoji, word_list
from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ifbench, public_sentences
from rubrank.verifiers.verifier import Answer, Compat

_RUN = re.compile(r"\w+")
_KINDS = {
    ".": "declarative",
    "。": "declarative",
    "?": "interrogative",
    "？": "interrogative",
    "!": "exclamatory",
    "！": "exclamatory",
}
_AFTER_MARK = " \t\n\"'”’»)]}*_~`\u200d\ufe0f"


@ifbench("ratio:stop_words")
def stop_words(text: Text, *, percentage: float, compat: Compat = "fixed") -> Answer:
    """English stop words (articles, pronouns, prepositions, auxiliaries …) are at most `percentage` % of the words.

    Passes: "Cats chase mice" for 0.
    Fails: "The cat is on the mat" for 50 (4 of 6).
    Upstream cuts "don't" into two stop words.
    Not covered: other languages; lists of stop words differ, this one has about 150.
    """
    if compat == "upstream":
        words = [word.lower() for word in _RUN.findall(text.raw)]
    else:
        # "it's" counts as "it"
        words = [word.lower().replace("’", "'").partition("'")[0] for word in text.words]
    if not words:
        return False, "no words found"
    stop_words = word_list("stop_words")
    share = 100 * sum(word in stop_words for word in words) / len(words)
    return share <= percentage, f"{share:.1f}% stop words found, at most {percentage:g}% required"


@ifbench("ratio:sentence_type")
def sentence_type(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Twice as many declarative sentences (ending in a full stop) as questions.

    Passes: "A. B. C?"
    Fails: "A. B?"; no question at all, which upstream passes where there is no full stop either. A mark followed by a
        closing quote, bracket, emoji or asterisks still counts;
    upstream requires it at the very end.
    Not covered: questions without a question mark.
    """
    kinds = _count_kinds(text, compat)
    declarative = kinds["declarative"]
    questions = kinds["interrogative"]
    is_two_to_one = declarative == 2 * questions and (questions > 0 or compat == "upstream")
    reason = (
        f"{declarative} declarative and {questions} interrogative sentences found, 2 to 1 required"
    )
    return is_two_to_one, reason


@ifbench("ratio:sentence_balance", version=2)
def sentence_balance(text: Text, *, compat: Compat = "fixed") -> Answer:
    """As many declarative sentences as questions as exclamations, by their last mark.

    Passes: "A. B? C!"
    Fails: "A. B. C?"; a text without any mark, which upstream passes. As in `ratio:sentence_type`, closing quotes and
        the like may follow the mark.
    Not covered: marks that say something else than the sentence.
    """
    kinds = _count_kinds(text, compat)
    counts = [kinds[kind] for kind in ("declarative", "interrogative", "exclamatory")]
    is_balanced = len(set(counts)) == 1 and (counts[0] > 0 or compat == "upstream")
    reason = "{} declarative, {} interrogative, {} exclamatory sentences found, equal numbers required".format(
        *counts
    )
    return is_balanced, reason


def _count_kinds(text: Text, compat: Compat) -> Counter[str]:
    """Count the kinds of sentences by their last mark."""
    if compat == "upstream":
        marks = [sentence[-1:] for sentence in public_sentences(text.raw)]
        marks = [mark if mark.isascii() else "" for mark in marks]
    else:
        marks = [_last_mark(sentence) for sentence in text.sentences]
    return Counter(_KINDS.get(mark, "other") for mark in marks)


def _last_mark(sentence: str) -> str:
    end = len(sentence)
    while end and (sentence[end - 1] in _AFTER_MARK or is_emoji(sentence[end - 1])):
        end -= 1
    return sentence[end - 1] if end else ""


@ifbench("ratio:overlap", version=3)
def overlap(
    text: Text, *, reference_text: str, percentage: float, compat: Compat = "fixed"
) -> Answer:
    """`percentage` % (±2) of the different trigrams of the answer occur in the reference: three words in a row.

    Passes: the reference itself for 100.
    Fails: a text without common word triples for 10.
    Upstream compares three characters in a row.
    Not covered: answers of fewer than three words, which fail.
    """
    if compat == "upstream":
        answer_words = list(text.raw)
        reference_words = list(reference_text)
    else:
        answer_words = [word.lower() for word in text.words]
        reference_words = [word.lower() for word in Text(reference_text).words]
    answer = _trigrams(answer_words)
    if not answer:
        return False, "the answer has no trigram"
    share = 100 * len(answer & _trigrams(reference_words)) / len(answer)
    return abs(
        share - percentage
    ) <= 2, f"{share:.1f}% of the trigrams overlap, {percentage:g}% ± 2 required"


def _trigrams(words: list[str]) -> set[tuple[str, str, str]]:
    return set(zip(words, words[1:], words[2:], strict=False))


@ifbench("ratio:sentence_words", version=3)
def sentence_words(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Three sentences of the same number of characters, and no word twice.

    Passes: "Cats nap. Dogs run. Owls fly."
    Fails: two sentences; lengths 9, 9, 10; "Cats nap. Cats run. Owls fly."
    upstream: sentences as the public splitter cuts them.
    Not covered: forms of one word ("cat", "cats") differ.
    """
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    if len(sentences) != 3:
        return False, f"{len(sentences)} sentences found, 3 required"
    sizes = [len(sentence.strip()) for sentence in sentences]
    if len(set(sizes)) > 1:
        return False, f"the sentences have {sizes[0]}, {sizes[1]} and {sizes[2]} characters"
    words = Counter(word.casefold() for word in text.words)
    repeated = next((word for word, count in words.items() if count > 1), None)
    if repeated:
        return False, f"{repeated!r} is used more than once"
    return True, f"three sentences of {sizes[0]} characters"
