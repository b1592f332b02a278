"""IFBench `sentence:`: what each sentence must hold, and how sentences grow.

    sentence:keyword(word="giraffe", N=7)    "The response must include keyword giraffe in the 7-th sentence."

"fixed" takes the sentences of `Text` (a paragraph ends one); "upstream" those of the public splitter, for which a line
break ends nothing and "1." is a sentence.
"""

from __future__ import annotations

from itertools import groupby, pairwise

from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ASCII_PUNCTUATION as MARKS
from rubrank.verifiers.ifbench.tokens import (
    count_whole,
    count_within,
    ifbench,
    public_sentences,
    without_punctuation,
)
from rubrank.verifiers.shared.relation import Count
from rubrank.verifiers.verifier import Answer, Compat


@ifbench("sentence:alliteration_increment", version=2)
def alliteration_increment(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The longest run of words with one first letter grows from sentence to sentence.

    Passes: "We go. Big bears nap. Six silly snakes hiss." (1, 2, 3).
    Fails: equal or shorter runs.
    Upstream adds up all runs of a sentence.
    Not covered: sounds ("cat", "kite"); a single sentence passes.
    """
    sizes: list[int] = []
    if compat == "upstream":
        for sentence in public_sentences(text.raw):
            words = [word.lstrip(MARKS + " ") for word in sentence.lower().split()]
            sizes.append(_count_alliterating([word[0] for word in words if word]))
    else:
        for sentence in text.sentences:
            first_letters = [word[0].casefold() for word in Text(sentence).words]
            runs = [len(list(run)) for _, run in groupby(first_letters)]
            sizes.append(max(runs, default=0))
    for number, (size, next_size) in enumerate(pairwise(sizes), start=1):
        if next_size <= size:
            return False, f"alliteration of {size} in sentence {number}, of {next_size} in the next"
    return True, f"alliteration grows over {len(sizes)} sentences"


def _count_alliterating(letters: list[str]) -> int:
    """Count words that share their first letter with a neighbour, as the public checker does: a run of n counts n."""
    total = 0
    in_run = False
    for letter, next_letter in pairwise(letters):
        is_same = letter == next_letter
        if is_same:
            total += 1 if in_run else 2
        in_run = is_same
    return total


@ifbench("sentence:keyword", version=2)
def keyword(text: Text, *, word: str, N: Count, compat: Compat = "fixed") -> Answer:
    """The `N`th sentence holds `word` as a word of its own, ignoring case.

    Passes: "One. A giraffe!" for giraffe, 2.
    Fails: fewer sentences; "giraffes", which upstream accepts.
    Not covered: inflected forms.
    """
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    if not 1 <= N <= len(sentences):
        return False, f"{len(sentences)} sentences found, so there is no sentence {N}"
    sentence = sentences[N - 1]
    count = count_within(word, sentence) if compat == "upstream" else count_whole(word, sentence)
    return count > 0, f"{word!r} {'is' if count else 'is not'} in sentence {N}"


@ifbench("sentence:increment", version=2)
def increment(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """Each sentence has exactly `small_n` words more than the one before.

    Passes: "I sing. You all dance." for 1.
    Fails: any other step; a single sentence, which upstream passes.
    Not covered: headings and list items, which count as sentences.
    """
    if compat == "upstream":
        sizes = [
            len(without_punctuation(sentence).split()) for sentence in public_sentences(text.raw)
        ]
    else:
        sizes = [len(Text(sentence).words) for sentence in text.sentences]
        if len(sizes) < 2:
            return False, "fewer than two sentences found"
    for number, (size, next_size) in enumerate(pairwise(sizes), start=1):
        if next_size - size != small_n:
            return (
                False,
                f"sentence {number} has {size} words, the next {next_size}; {small_n} more required",
            )
    return True, f"{len(sizes)} sentences, each {small_n} words longer than the one before"
