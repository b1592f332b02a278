"""IFBench `sentence:` — what each sentence must hold, and how sentences grow.

    sentence:keyword(word="giraffe", N=7)    "The response must include keyword giraffe in the 7-th sentence."

"fixed" takes the sentences of `Text` (a paragraph ends one); "upstream" those of the public splitter, for which a line
break ends nothing and "1." is a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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

    Passes: "We go. Big bears nap. Six silly snakes hiss." (1, 2, 3). Fails: equal or shorter runs. Upstream adds up all
    runs of a sentence. Not covered: sounds ("cat", "kite"); a single sentence passes.
    """
    if compat == "upstream":
        sizes = [_alliterating(_first_letters(sentence)) for sentence in public_sentences(text.raw)]
    else:
        sizes = [_longest_run([word[0].casefold() for word in Text(s).words]) for s in text.sentences]
    short = next((i for i, (one, two) in enumerate(pairwise(sizes)) if two <= one), None)
    if short is not None:
        return False, f"alliteration of {sizes[short]} in sentence {short + 1}, of {sizes[short + 1]} in the next"
    return True, f"alliteration grows over {len(sizes)} sentences"


def _first_letters(sentence: str) -> list[str]:
    words = (word.lstrip(MARKS + " ") for word in sentence.lower().split())
    return [word[0] for word in words if word]


def _alliterating(letters: Sequence[str]) -> int:
    """How many words have a neighbour with the same first letter; one between two such counts as upstream counts it."""
    total, running = 0, False
    for one, two in pairwise(letters):
        total += (one == two) * (1 if running else 2)
        running = one == two
    return total


def _longest_run(letters: Sequence[str]) -> int:
    longest = size = min(1, len(letters))
    for one, two in pairwise(letters):
        size = size + 1 if one == two else 1
        longest = max(longest, size)
    return longest


@ifbench("sentence:keyword", version=2)
def keyword(text: Text, *, word: str, N: Count, compat: Compat = "fixed") -> Answer:
    """The `N`th sentence holds `word` as a word of its own, whatever its case.

    Passes: "One. A giraffe!" for giraffe, 2. Fails: fewer sentences; "giraffes", which upstream accepts. Not covered:
    inflected forms.
    """
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    if not 1 <= N <= len(sentences):
        return False, f"{len(sentences)} sentences found, so there is no sentence {N}"
    found = (count_within if compat == "upstream" else count_whole)(word, sentences[N - 1])
    return found > 0, f"{word!r} {'is' if found else 'is not'} in sentence {N}"


@ifbench("sentence:increment", version=2)
def increment(text: Text, *, small_n: Count, compat: Compat = "fixed") -> Answer:
    """Each sentence has exactly `small_n` words more than the one before.

    Passes: "I sing. You all dance." for 1. Fails: any other step; a single sentence, which upstream passes. Not
    covered: headings and list items, which count as sentences.
    """
    if compat == "upstream":
        sizes = [len(without_punctuation(sentence).split()) for sentence in public_sentences(text.raw)]
    else:
        sizes = [len(Text(sentence).words) for sentence in text.sentences]
        if len(sizes) < 2:
            return False, "fewer than two sentences found"
    wrong = next((i for i, (one, two) in enumerate(pairwise(sizes)) if two - one != small_n), None)
    if wrong is not None:
        return (
            False,
            f"sentence {wrong + 1} has {sizes[wrong]} words, the next {sizes[wrong + 1]}; {small_n} more asked",
        )
    return True, f"{len(sizes)} sentences, each {small_n} words longer than the one before"
