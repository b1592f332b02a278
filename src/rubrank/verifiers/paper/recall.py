"""SummaryRecall: the share of reference points that an answer recalls. A point that it denies is not recalled.

    points    "Profits rose sharply in 2020.", "The plant closed."
    answer    "In 2020, profits rose sharply. The plant did not close."
    value     0.5: all words of the first point are there, and the second point is denied

The words of this file:

- A point is a sentence of the reference, or a phrase. Its words are compared without endings and without stop words;
  in scripts without spaces, pairs of neighbouring characters are compared instead of words.
- A statement is a sentence of the answer that can recall a point: not a question, not a bag of words (words in a row
  that form no sentence), and not a repetition of a point that the prompt lists.
- A denial is a word such as "not" with its clause (`verifiers/shared/negation.py`). It denies a point, or it does not,
  or that is unclear. A point is negated if it contains a denial itself: "The plant never closed."
"""

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

# Words that are not compared, because every text has them.
_STOP_WORDS = word_set("""
    a an the of to in on at for and or but is are was were be been it its this that these those with as by from he she
    they we you i his her their our your has have had do does did not no will would can could may
""")
# Scripts without spaces: Chinese characters, kana and Thai.
_UNSPACED_RANGES = "\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\u0e00-\u0e7f"
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]+")
# A run of characters of one kind: "PCA方法" is "PCA" and "方法". An underscore belongs to none.
_TOKEN = re.compile(f"[{_UNSPACED_RANGES}]+|[^\\W_{_UNSPACED_RANGES}]+")
# English endings: "rises", "rising" and "rise" become "ris". Three letters stay: "red" keeps its ending.
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed|ly|e|y)$")
_WINDOW = 3  # sentences over which one point may be spread
_MAX_SENTENCES = 20_000  # of the answer; the rest is not read
_MAX_PROMPT_CHARACTERS = 100_000  # of the prompt; the rest is not read


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
    Fails with 0: nothing of them. These sentences recall nothing:
        - one that denies the point ("did not rise" for "rose in May"), or states what the point denies;
        - a question;
        - words that form no sentence, or the point's words in another order (of five or more, at least two pairs must
          follow each other as they do there);
        - one that repeats a point which the prompt lists.
    Missing: no reference points; a point of which it is unclear whether it is denied, because a word of denial stands
        beside it in an unknown expression ("nicht eben langsam", "did not hesitate to approve").
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
    for sentence in sentences(visible_text)[:_MAX_SENTENCES]:
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
        # The recall if all unclear denials deny the point, and if none does. Where both agree, they do not matter.
        least = _measure_recall(point, statements, is_negated, unclear_denies=True)
        most = _measure_recall(point, statements, is_negated, unclear_denies=False)
        if threshold is not None:
            least = float(least >= threshold)
            most = float(most >= threshold)
        if least != most:
            return missing(f"a word of denial stands beside {point[:80]!r}: is it denied or not?")
        recalls.append(least)
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


# ------------------------------------------------------------------------------- sentences that recall nothing

# The number of a list entry, in a normalised text: "1 " in "1 profits rose 2 the plant closed". Not one: "2020 ".
_ENTRY_NUMBER = re.compile(r"(?<!\S)\d{1,2} ")
# A prompt that lists the points in one paragraph may have this many characters beside twice their length.
_MAX_INSTRUCTION = 300
# A prompt that lists points on lines of their own has at least this share of them: some may be worded differently.
_MIN_LISTED_SHARE = 0.8

_PIECE = re.compile(r"[^\W_]+")
_SMALL_WORDS = _STOP_WORDS.union(*read_words("small_words").values())
_MIN_BAG = 8  # words of a bag of words: fewer may be a heading or a list entry
# A sentence is a bag of words if it is so many times less connected than the points (see `_measure_connection`).
# In English prose (our own docs, 1,100 sentences) about 0.4 of the words are small, in one sentence of twenty less than
# 0.2: a quarter of 0.4 is rare. In Chinese, "公司 批准 合并" has pieces of 2 characters, "公司批准了合并。" one of 7.
_LESS_CONNECTED = 4
_LESS_CONNECTED_UNSPACED = 2
# Points with fewer small words than one in eight are keywords rather than sentences: they do not tell how connected an
# answer must be. Neither do points of small words only.
_MIN_CONNECTION_OF_POINTS = 0.12
_MAX_CONNECTION_OF_POINTS = 1


def _normalise(text: str) -> str:
    """Return the words on one line, without case and punctuation."""
    return " ".join(_TOKEN.findall(fold_visible(text)))


def _find_points_in_prompt(points: list[str], question: str) -> set[str]:
    """Return the points, normalised, if the prompt itself lists them: repeating that list recalls nothing.

    They are lines of the prompt, or follow each other in a prompt that says little else. In a longer prompt they may be
    sentences of the text that is to be summarised, and copying those is allowed.
    """
    question = question[:_MAX_PROMPT_CHARACTERS]
    normalised = [_normalise(point) for point in points]
    if len(points) >= 2:
        prompt = _normalise(question)
        points_in_a_row = " ".join(_ENTRY_NUMBER.sub("", point) for point in normalised)
        longest_list = 2 * sum(map(len, normalised)) + _MAX_INSTRUCTION
        if len(prompt) <= longest_list and points_in_a_row in _ENTRY_NUMBER.sub("", prompt):
            return set(normalised)
    lines = {_normalise(line) for line in question.splitlines()}
    listed = set(normalised) & lines
    if len(listed) >= 2 and len(listed) >= _MIN_LISTED_SHARE * len(points):
        return listed
    return set()


def _measure_connection(text: str) -> float:
    """Return how connected the words are.

    It is the share of small words ("the", "of"); in scripts without spaces the mean length of an unbroken piece.
    """
    pieces = _PIECE.findall(text.lower())
    if _UNSPACED.search(text):
        return sum(map(len, pieces)) / max(1, len(pieces))
    return sum(piece in _SMALL_WORDS for piece in pieces) / max(1, len(pieces))


def _is_bag_of_words(sentence: str, connection_of_points: float) -> bool:
    """Do the words merely stand in a row, far less connected than those of the reference points?

    A bag: "profits sharply rose 2020 exports board plant closed". Not one: "In 2020, the profits of the company rose."
    """
    if len(_PIECE.findall(sentence)) < _MIN_BAG:
        return False
    connection = _measure_connection(sentence)
    if _UNSPACED.search(sentence):
        return _LESS_CONNECTED_UNSPACED * connection < connection_of_points
    if not _MIN_CONNECTION_OF_POINTS < connection_of_points < _MAX_CONNECTION_OF_POINTS:
        return False
    return _LESS_CONNECTED * connection < connection_of_points


# ------------------------------------------------------------------------------------------------- recall of a point

_ABOUT_POINT = 0.6  # share of a point's words that makes a sentence one about the point
# Words of a point in one sentence from which on their order matters, and pairs of them that must follow each other as
# they do in the point. Fewer words may be reordered by an honest rewording.
_MIN_ORDERED_WORDS = 5
_MIN_ORDERED_PAIRS = 2


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

    def contradicts(
        self, point: str, point_tokens: set[str], *, is_negated: bool, unclear_denies: bool
    ) -> bool:
        """Does the sentence say the opposite of a point? unclear_denies: an unclear denial counts as one."""
        enough = _ABOUT_POINT * len(point_tokens)
        if is_negated:
            # "The plant closed." contradicts the point "The plant never closed."
            return not self.denials and len(point_tokens & self.tokens) >= enough
        for denial, clause_tokens in self.denials:
            is_denied = denial.denies(point)
            if is_denied is None:
                # Unclear: it can deny the point only in a clause about the point.
                is_about_point = denial.is_narrow or len(point_tokens & clause_tokens) >= enough
                is_denied = unclear_denies and is_about_point
            if is_denied:
                return True
        return False

    def scrambles(self, point: list[str]) -> bool:
        """Does the sentence have many words of a point, but hardly any two of them in its order?"""
        if len(self.tokens & set(point)) < _MIN_ORDERED_WORDS or any(map(_is_unspaced, point)):
            return False
        in_point = [word for word in dict.fromkeys(point) if word in self.tokens]
        in_sentence = [word for word in self.words if word in point]
        common_pairs = set(pairwise(in_point)) & set(pairwise(in_sentence))
        return len(common_pairs) < _MIN_ORDERED_PAIRS


def _measure_recall(
    point: str, statements: list[_Sentence], is_negated: bool, *, unclear_denies: bool
) -> float:
    """Return the largest share of the point's words in neighbouring sentences that do not contradict it."""
    point_words = _split_words(point)
    point_tokens = set(point_words)
    no_tokens: frozenset[str] = frozenset()
    tokens = []
    for sentence in statements:
        is_opposite = sentence.contradicts(
            point, point_tokens, is_negated=is_negated, unclear_denies=unclear_denies
        )
        is_useless = is_opposite or sentence.scrambles(point_words)
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
        elif token not in _STOP_WORDS:
            words.append(_SUFFIX.sub("", token))
    return words


def _is_unspaced(token: str) -> bool:
    return _UNSPACED.match(token) is not None
