"""SummaryRecall: the share of reference points that an answer recalls. A point that it denies is not recalled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import fold_visible, sentences
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import Denial, find_denials
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.shared.word_tables import read_words
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_STOP = word_set("""
    a an the of to in on at for and or but is are was were be been it its this that these those with as by from he she
    they we you i his her their our your has have had do does did not no will would can could may
""")
_UNSPACED_RANGES = "\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\u0e00-\u0e7f"
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]+")
_TOKEN = re.compile(f"[{_UNSPACED_RANGES}]+|[^\\W_{_UNSPACED_RANGES}]+")
# English endings: "rises", "rising" and "rise" become "ris".
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed|ly|e|y)$")
_SMALL = frozenset(word for words in read_words("small_words").values() for word in words) | _STOP
_PIECE = re.compile(r"[^\W_]+")
_FEWEST_IN_BAG = 8  # words of a bag of words: fewer may be a heading or a list entry
_ABOUT_POINT = 0.6  # share of a point's words that makes a sentence one about the point
_WINDOW = 3  # sentences over which one point may be spread
_MOST_SENTENCES = 20_000  # of the answer, the rest is not read
_LONGEST_INSTRUCTION = 300  # characters that a prompt may have beside a list of points
_FEWEST_IN_ORDER = 5  # words of a point in one sentence: with fewer, their order does not matter
_ENTRY_NUMBER = re.compile(r"(?<!\S)\d{1,2} ")


@verifier("SummaryRecall", family="format", domain=UNIT, version=7)
def summary_recall(
    rollout: Rollout,
    *,
    points: tuple[Annotated[str, Field(min_length=1)], ...] | None = None,
    reference: str | None = None,
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None,
    relation: Relation = "at most",
    words: Annotated[int, Field(ge=1)] | None = None,
) -> Answer:
    """The share of the reference points that the answer recalls, by words in common (Chinese: pairs of characters).

    Each point counts by the share of its words found within three neighbouring sentences of the answer; with
    `threshold`, a point counts fully from there on and not at all below. 1: every point is there. 0: none, or the
    answer breaks the limit `relation words` (copying everything recalls everything). The points come from `points`, the
    sentences of `reference`, or the rollout's metadata of these names.
    Passes with 1: every point in its own words.
    Fails with 0: nothing of them. A sentence that denies a point ("did not rise" for "rose in May"), or states flatly
        what the point denies, recalls nothing of it; nor do questions, words without sentences (a bag of words, or a
        point's words in another order: at least two must follow each other as there), or sentences that repeat points
        which the prompt lists.
    Missing: no reference points; a point of which it is not clear whether it is denied, because a word of denial stands
        beside it in an expression that is not known ("nicht eben langsam", "did not hesitate to approve").
    Not covered: other words for the same thing, opposites ("fell").
    """
    reference_points = _find_points(rollout, points, reference)
    if not reference_points:
        return missing("no reference points are known")
    word_count = len(rollout.text.words)
    if words is not None and not holds(word_count, relation, words):
        return 0.0, f"{word_count} words, {relation} {words} required"
    visible_text = rollout.text.shown.raw
    language = detect_language(visible_text)[0]
    points_in_prompt = _find_points_in_prompt(reference_points, rollout.question)
    connection_of_points = _measure_connection("\n".join(reference_points))
    statements = []
    for sentence in sentences(visible_text)[:_MOST_SENTENCES]:
        normalised = _normalise(sentence)
        repeats_prompt = any(point in normalised for point in points_in_prompt)
        is_question = sentence.rstrip("*_\"'”’)） ").endswith(("?", "？"))
        is_bag = _is_bag_of_words(sentence, connection_of_points)
        if not (repeats_prompt or is_question or is_bag):
            statements.append(_Sentence.parse(sentence, language))
    recalls = []
    for point in reference_points:
        # Read in the answer's language, as its sentences are: else a point may contradict itself in a mixed text.
        is_negated = bool(find_denials(point, language or None))
        recall = _measure_recall(point, statements, is_negated, unclear_denies=True)
        most = _measure_recall(point, statements, is_negated, unclear_denies=False)
        if threshold is not None:
            recall = float(recall >= threshold)
            most = float(most >= threshold)
        if recall != most:
            return missing(f"a word of denial stands beside {point[:80]!r}: is it denied or not?")
        recalls.append(recall)
    value = sum(recalls) / len(recalls)
    return value, f"{value:.2f} of {len(recalls)} reference points recalled"


def _find_points(
    rollout: Rollout, points: Sequence[str] | None, reference: str | None
) -> list[str]:
    """Return the points that have words: those given, those of the metadata, or the sentences of the reference."""
    metadata = rollout.metadata
    listed = points or metadata.get("points") or metadata.get("reference_points")
    source = reference or metadata.get("reference")
    if listed:
        candidates = [str(point) for point in listed]
    elif source:
        candidates = sentences(str(source))
    else:
        candidates = []
    return [point for point in candidates if _split_words(point)]


def _normalise(text: str) -> str:
    """Return the words on one line, without case and punctuation."""
    return " ".join(_TOKEN.findall(fold_visible(text)))


def _find_points_in_prompt(points: list[str], question: str) -> set[str]:
    """Return the points, normalised, if the prompt itself lists them: repeating that list recalls nothing.

    They are lines of the prompt, or follow each other in a prompt that says little else. In a longer prompt they may be
    sentences of the text that is to be summarised, and copying those is allowed.
    """
    normalised = [_normalise(point) for point in points]
    prompt = _normalise(question[:100_000])
    points_in_a_row = " ".join(_ENTRY_NUMBER.sub("", point) for point in normalised)
    is_in_prompt = points_in_a_row in _ENTRY_NUMBER.sub("", prompt)
    longest_list = 2 * sum(map(len, normalised)) + _LONGEST_INSTRUCTION
    if is_in_prompt and len(points) >= 2 and len(prompt) <= longest_list:
        return set(normalised)
    lines = {_normalise(line) for line in question[:100_000].splitlines()}
    listed = set(normalised) & lines
    if len(listed) >= 2 and len(listed) >= 0.8 * len(points):
        return listed
    return set()


def _measure_connection(text: str) -> float:
    """Return how connected the words are.

    It is the share of small words ("the", "of"); in scripts without spaces the mean length of an unbroken piece.
    """
    pieces = _PIECE.findall(text.lower())
    if _UNSPACED.search(text):
        return sum(map(len, pieces)) / max(1, len(pieces))
    return sum(piece in _SMALL for piece in pieces) / max(1, len(pieces))


def _is_bag_of_words(sentence: str, connection_of_points: float) -> bool:
    """Do the words merely stand in a row, far less connected than those of the reference points?"""
    if len(_PIECE.findall(sentence)) < _FEWEST_IN_BAG:
        return False
    connection = _measure_connection(sentence)
    if _UNSPACED.search(sentence):
        return 2 * connection < connection_of_points  # a sentence has no space every few characters
    # Points without small words are keywords, not sentences: they say nothing about how connected an answer must be.
    return 0.12 < connection_of_points < 1 and 4 * connection < connection_of_points


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the answer, read once for all points."""

    words: tuple[str, ...]
    """The different words, in order."""
    tokens: frozenset[str]
    """The same words as a set."""
    denials: tuple[tuple[Denial, frozenset[str]], ...]
    """Each with the words of its clause."""

    @classmethod
    def parse(cls, sentence: str, language: str) -> _Sentence:
        denials = []
        for denial in find_denials(sentence, language or None):
            denials.append((denial, frozenset(_split_words(denial.part))))
        words = _split_words(sentence)
        return cls(tuple(dict.fromkeys(words)), frozenset(words), tuple(denials))

    def contradicts(self, point: str, point_tokens: set[str], is_negated: bool) -> bool | None:
        """Return whether the sentence says the opposite of a point; None if that is not clear."""
        enough = _ABOUT_POINT * len(point_tokens)
        if is_negated:
            return not self.denials and len(point_tokens & self.tokens) >= enough
        answers = set()
        for denial, clause_tokens in self.denials:
            is_denied = denial.denies(point)
            # A clause about something else denies nothing of the point, unless it denies one of its words for sure.
            is_about_point = denial.is_narrow or len(point_tokens & clause_tokens) >= enough
            if is_denied or (is_denied is None and is_about_point):
                answers.add(is_denied)
        if True in answers:
            return True
        return None if None in answers else False

    def scrambles(self, point: list[str]) -> bool:
        """Does the sentence have many words of a point, but fewer than two pairs of them in its order?"""
        if len(self.tokens & set(point)) < _FEWEST_IN_ORDER or any(map(_is_unspaced, point)):
            return False
        in_point = [word for word in dict.fromkeys(point) if word in self.tokens]
        in_sentence = [word for word in self.words if word in point]
        return len(set(pairwise(in_point)) & set(pairwise(in_sentence))) < 2


def _measure_recall(
    point: str, statements: list[_Sentence], is_negated: bool, *, unclear_denies: bool
) -> float:
    """Return the largest share of the point's words in neighbouring sentences that do not contradict it."""
    point_words = _split_words(point)
    point_tokens = set(point_words)
    no_tokens: frozenset[str] = frozenset()
    tokens = []
    for sentence in statements:
        contradicts = sentence.contradicts(point, point_tokens, is_negated)
        if contradicts is None:
            contradicts = unclear_denies
        is_useless = contradicts or sentence.scrambles(point_words)
        tokens.append(no_tokens if is_useless else sentence.tokens)
    best = 0
    for start in range(max(1, len(tokens) - _WINDOW + 1)):
        window = no_tokens.union(*tokens[start : start + _WINDOW])
        best = max(best, len(point_tokens & window))
    return best / len(point_tokens)


def _split_words(text: str) -> list[str]:
    """Return the stems of words in order, without stop words; in scripts without spaces, pairs of characters."""
    words: list[str] = []
    for token in _TOKEN.findall(fold_visible(text)):
        if _is_unspaced(token):
            words += [token[i : i + 2] for i in range(max(1, len(token) - 1))]
        elif token not in _STOP:
            words.append(_SUFFIX.sub("", token))
    return words


def _is_unspaced(token: str) -> bool:
    return _UNSPACED.match(token) is not None
