"""What an answer shares with other texts: the material it cites, its earlier turns, the other rollouts of the group.

    Citations        are quotations, references such as [1] and numbers taken from the material?
    DistinctN        how much does the answer repeat itself?
    TurnRepetition   how much does it repeat of earlier turns?
    GroupDiversity   of ["one two three", "one two three", "four five six"]: 0.5, 0.5, 1
    Readability      the school grade of the text

Repetition is measured by n-grams of the tokens of `similarity`: words without case and punctuation, single characters
of Chinese, Japanese and Thai.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Group, Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.text.similarity import list_grams, tokenize
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

Check = Literal["quotes", "numbers", "references"]
# A quotation within one line, in the marks of many languages. The one group that matches is the text.
_QUOTATION = re.compile(
    r"""“([^“”\n]{1,500})”
    | "([^"\n]{1,500})"
    | 「([^「」\n]{1,500})」
    | «([^«»\n]{1,500})»
    | „([^„“”\n]{1,500})[“”]
    | »([^«»\n]{1,500})«
    | 『([^『』\n]{1,500})』
    | ‹([^‹›\n]{1,500})›
    | ‚([^‚‘’\n]{1,500})[‘’](?!\w)
    | ‘([^‘’\n]{1,500})’(?!\w)
    | (?<![\w'])'(?![ ])((?:[^'\n]|(?<=\w)'(?=\w)){1,500})'(?!\w)  # an apostrophe inside a word is no mark
    """,
    re.VERBOSE,
)
# The source of the quotation before it: ". [3]".
_REFERENCE_AFTER = re.compile(r"[.,;:]?\s{0,3}\[(\d{1,3})\]")
# "[1]", "[2, 5]", "[3-6]"; not the link "[1](…)", nor the index of "x[1]".
_REFERENCE = re.compile(r"(?<![\w\]])\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\](?!\()")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
# Characters: shorter quotations are words that are mentioned, not passages.
_SHORTEST_QUOTATION = 12
_SHORTEST_WIDE_QUOTATION = 5  # in Chinese, Japanese, Korean and Thai
_WIDE = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@verifier("Citations", family="faithfulness", domain=UNIT, version=5)
def check_citations(
    rollout: Rollout,
    *,
    material: str | tuple[str, ...] | None = None,
    check: tuple[Check, ...] = ("quotes", "references"),
    at_least: int = 0,
) -> Answer:
    """The share of quotations, [n] and numbers of the answer that are supported by the material.

    The material is `material` or metadata["material"/"context"/"documents"/"sources"]: a text, or a list whose entries
    are [1], [2] … Quotations of a few words and more, in double or single marks or as a block (`> …`), must occur in
    it, spaces, case and quotation marks aside, and in source n if [n] follows; [n] must be an entry; numbers (if asked
    for) must occur.
    Passes (1): "“the moon pulls the sea” [1]" where source 1 says so.
    Part: one of two numbers.
    Fails (0): a made-up quotation, whatever stands beside it; [7] of three sources; fewer citations than `at_least`.
    Missing: no material.
    Not covered: whether the cited source supports the sentence (ask a judge).
    """
    sources = _find_sources(material, rollout)
    if not sources:
        return missing(
            "no material: give `material`, or metadata['material'], 'context', 'documents' or 'sources'"
        )
    folded_sources = [_fold(source) for source in sources]
    answer = rollout.text.shown.raw
    citations: list[tuple[str, bool]] = []  # what is cited, and whether the material supports it
    if "quotes" in check:
        for quotation, number in _find_quotations(answer):
            places = folded_sources
            if number is not None and 1 <= number <= len(sources):
                places = [folded_sources[number - 1]]
            if not any(_fold(quotation) in place for place in places):
                return 0.0, f"not in the material: {quotation[:80]!r}"
            citations.append((quotation, True))
    if "references" in check:
        for number in _find_references(answer):
            citations.append((f"[{number}]", 1 <= number <= len(sources)))
    if "numbers" in check:
        numbers = {_normalise_number(number) for number in _NUMBER.findall(" ".join(sources))}
        for number in _NUMBER.findall(_REFERENCE.sub(" ", answer)):
            citations.append((number, _normalise_number(number) in numbers))
    if at_least and not any(map(str.isalpha, _REFERENCE.sub(" ", answer))):
        return 0.0, "references without a text"
    if len(citations) < at_least:
        return 0.0, f"{len(citations)} citation(s), at least {at_least} required"
    if not citations:
        return 1.0, "nothing is cited"
    unsupported = [citation for citation, is_supported in citations if not is_supported]
    supported = len(citations) - len(unsupported)
    reason = f"{supported} of {len(citations)} citations are supported by the material"
    if unsupported:
        reason += f", not {unsupported[0][:80]!r}"
    return 1.0 - len(unsupported) / len(citations), reason


def _find_quotations(answer: str) -> list[tuple[str, int | None]]:
    """Return the quotations of a few words and more, each with the number of the source that follows it, if any."""
    quotations: list[tuple[str, int | None]] = []
    for match in _QUOTATION.finditer(answer):
        quotation = next(filter(None, match.groups())).strip()
        reference = _REFERENCE_AFTER.match(answer, match.end())
        quotations.append((quotation, int(reference[1]) if reference else None))
    # Quotations as a block: "> the moon pulls the sea".
    for line in answer.splitlines():
        if not line.startswith(">"):
            continue
        line = line.lstrip("> \t").strip()
        names_speaker = line.startswith(("—", "–", "-"))
        if not names_speaker and not _QUOTATION.search(line):
            text = _REFERENCE.sub("", line).strip(" \"“”'‘’*_—–-")
            quotations.append((text, None))
    long_enough = []
    for quotation, number in quotations:
        shortest = _SHORTEST_WIDE_QUOTATION if _WIDE.search(quotation) else _SHORTEST_QUOTATION
        if len(quotation) >= shortest:
            long_enough.append((quotation, number))
    return long_enough


def _find_sources(material: str | tuple[str, ...] | None, rollout: Rollout) -> list[str]:
    """Return the texts of the material, from the parameter or the metadata; a single text is one source."""
    sources: Any = material
    for name in ("material", "context", "documents", "sources"):
        if sources is None and rollout.metadata.get(name):
            sources = rollout.metadata[name]
    if sources is None:
        return []
    if isinstance(sources, str):
        return [sources]
    return [
        str(source.get("text", source)) if isinstance(source, dict) else str(source)
        for source in sources
    ]


def _fold(text: str) -> str:
    """Return the letters, digits and apostrophes: spaces, case and other punctuation make no difference."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return "".join(char for char in text if char.isalnum() or char == "'")


def _find_references(answer: str) -> list[int]:
    """Return the numbers in "[1]", "[2, 5]" and "[3-6]", in order."""
    numbers: list[int] = []
    for inside in _REFERENCE.findall(answer):
        for part in re.split(r"\s*[,;]\s*", inside):
            ends = [int(number) for number in re.split(r"\s*[–-]\s*", part)]
            if len(ends) == 2:
                first, last = ends
                numbers += range(first, min(last, first + 50) + 1)
            else:
                numbers += ends
    return numbers


def _normalise_number(text: str) -> str:
    """Return one spelling for equal numbers: 1,200 and 1200 are the same; 3.50 and 3.5 too."""
    whole = text
    decimals = ""
    if "." in text:
        whole, _, decimals = text.rpartition(".")
    whole = whole.replace(",", "").lstrip("0") or "0"
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


# ---- variety and repetition ------------------------------------------------------------------------------------------

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_WORDS = 15  # that show how hard a text is
_LONGEST = 20_000  # tokens of an answer that are compared with other texts


@verifier("Readability", family="style")
def readability(text: Text, *, low: float | None = None, high: float | None = None) -> Answer:
    """The text's school grade (Flesch–Kincaid) is from `low` to `high`.

    Passes: short sentences of short words for high=6.
    Fails: long ones. Chinese and Japanese: a third of the characters of a sentence, so that 20 characters are about
        grade 7.
    Missing: no limit, or fewer than 15 words.
    Not covered: other languages are measured with the English formula, which is only a rough guide there.
    """
    if low is None and high is None:
        return missing("no limit is asked for: give `low` or `high`")
    sentences = max(1, len(text.sentences))
    characters = len(_CJK.findall(text.raw))
    is_unspaced = characters > len(text.raw) / 4
    if is_unspaced:
        words = characters
    else:
        words = sum(re.search("[A-Za-z]", word) is not None for word in text.words)
    if words < _FEWEST_WORDS:
        return missing(f"fewer than {_FEWEST_WORDS} words to measure")
    if is_unspaced:
        grade = 0.35 * characters / sentences
    else:
        grade = 0.39 * words / sentences + 11.8 * sum(text.syllables) / words - 15.59
    in_range = (low is None or grade >= low) and (high is None or grade <= high)
    return in_range, f"grade {grade:.1f}"


@verifier("DistinctN", family="style", domain=UNIT, version=2)
def distinct_n(
    text: Text, *, n: Annotated[int, Field(ge=1, le=8)] = 2, fewest: Annotated[int, Field(ge=1)] = 4
) -> Answer:
    """The share of different n-grams among all n-grams of the answer: 1 = nothing is said twice.

    Passes (1): "one two three four".
    Part: "one two one two" has two of three bigrams.
    Fails (0): an empty answer, or fewer than `fewest` tokens, which show no variety. Only what a reader sees counts.
    Not covered: saying the same in other words.
    """
    tokens = tokenize(text.shown.raw)
    if len(tokens) < max(fewest, n):
        return 0.0, f"{len(tokens)} tokens show no variety: at least {max(fewest, n)} are needed"
    grams = list_grams(tokens, n)
    distinct = len(set(grams))
    return distinct / len(grams), f"{distinct} of {len(grams)} {n}-grams are different"


@verifier("TurnRepetition", family="reply", domain=UNIT, version=2)
def turn_repetition(rollout: Rollout, *, n: Annotated[int, Field(ge=1, le=20)] = 5) -> Answer:
    """The share of the answer's runs of `n` words that the assistant has not said in an earlier turn.

    Passes (1): nothing is repeated, or there is no earlier turn of the assistant.
    Half: half of it is copied from before.
    Fails (0): the same answer again; an empty answer. What only the user said may be repeated.
    Missing: an answer of fewer than `n` words after earlier turns.
    Not covered: repetition in other words; within one answer (RepeatSegment).
    """
    earlier: set[tuple[str, ...]] = set()
    has_earlier_turn = False
    for message in rollout.prompt:
        if message.role == "assistant":
            has_earlier_turn = True
            earlier.update(list_grams(tokenize(str(message.content or ""))[:_LONGEST], n))
    tokens = tokenize(rollout.answer)
    if not tokens:
        return 0.0, "an empty answer"
    if not has_earlier_turn:
        return 1.0, "no earlier turn of the assistant"
    runs = set(list_grams(tokens[:_LONGEST], n))
    if not runs:
        return missing(f"the answer has only {len(tokens)} words, runs of {n} are compared")
    repeated = len(runs & earlier)
    reason = f"{repeated} of {len(runs)} runs of {n} words were said before"
    return 1.0 - repeated / len(runs), reason


@verifier("GroupDiversity", family="style", domain=UNIT)
def group_diversity(
    group: Group,
    *,
    n: Annotated[int, Field(ge=1, le=10)] = 2,
    against: Literal["all", "nearest"] = "all",
) -> Sequence[Answer]:
    """1 minus the similarity with the other rollouts of the query: the mean over all of them, or with the nearest.

    Similarity of two is the share of n-grams that both have (Jaccard); a text of fewer tokens is one gram.
    Passes (1): nothing in common with any other.
    Fails: 0 for the same words as all others, or an empty answer, which is not compared with either.
    Missing: a group of one, or no other answer that is not empty; where rollouts are graded one by one, it is decided
        once the group is complete, and about those that came.
    Not covered: the same thing said in other words counts as different, and so does nonsense: use it beside criteria of
        quality.
    """
    all_grams = []
    for rollout in group.rollouts:
        tokens = tokenize(rollout.text.shown.raw)[:_LONGEST]
        is_short = 0 < len(tokens) < n
        all_grams.append(frozenset([tuple(tokens)] if is_short else list_grams(tokens, n)))
    return [_compare_with_others(i, all_grams, against) for i in range(len(all_grams))]


def _compare_with_others(
    i: int, all_grams: Sequence[frozenset[tuple[str, ...]]], against: str
) -> Answer:
    """Return the verdict on rollout `i`, given the n-grams of all rollouts of the group."""
    if len(all_grams) < 2:
        return missing("there is no other rollout of the query to compare with")
    grams = all_grams[i]
    if not grams:
        return 0.0, "an empty answer"
    similarities = []
    for j, other_grams in enumerate(all_grams):
        if j != i and other_grams:
            similarities.append(len(grams & other_grams) / len(grams | other_grams))
    if not similarities:
        return missing(f"none of the {len(all_grams) - 1} other answers has words to compare with")
    if against == "nearest":
        similarity = max(similarities)
    else:
        similarity = sum(similarities) / len(similarities)
    compared = f"{against} of {len(similarities)} other answers"
    return 1.0 - similarity, f"similarity {similarity:.2f} with {compared}"
