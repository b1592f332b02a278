"""What an answer shares with other texts: the material it cites, its earlier turns, other rollouts, reference points.

    Citations        are quotations, references such as [1] and numbers taken from the material?
    Readability      the school grade of the text
    DistinctN        how much does the answer repeat itself?
    TurnRepetition   how much of earlier turns does it repeat?
    GroupDiversity   how much does it differ from the other rollouts of the group?
    SummaryRecall    how much of the reference points does it state?

Repetition is measured by n-grams of the tokens of `similarity`: words without case and punctuation, single characters
of Chinese, Japanese and Thai.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.texts.prose import fold_visible, sentences
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import Relation, holds
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import Denial, find_denials
from rubrank.verifiers.shared.word_tables import read_words
from rubrank.verifiers.similarity import list_grams, tokenize
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
# "[1]", "[2, 5]", "[3-6]". Not the link "[1](…)" or the index of "x[1]".
_REFERENCE = re.compile(r"(?<![\w\]])\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\](?!\()")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
# Characters: shorter quotations are words that are mentioned, not passages.
_SHORTEST_QUOTATION = 12
_SHORTEST_WIDE_QUOTATION = 5  # in Chinese, Japanese, Korean and Thai
_LONGEST_RANGE = 50  # entries of "[3-6]"
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
    entries: Any = material
    for name in ("material", "context", "documents", "sources"):
        if entries is None:
            entries = rollout.metadata.get(name) or None
    entries = [entries] if isinstance(entries, str) else entries or ()
    sources = [
        str(entry.get("text", entry)) if isinstance(entry, dict) else str(entry)
        for entry in entries
    ]
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
        for inside in _REFERENCE.findall(answer):
            for part in re.split(r"\s*[,;]\s*", inside):
                ends = [int(number) for number in re.split(r"\s*[–-]\s*", part)]
                if (
                    len(ends) == 2
                ):  # "3-6"; a long range is cut, so that "[1-999]" is not a thousand citations
                    ends = list(range(ends[0], min(ends[1], ends[0] + _LONGEST_RANGE) + 1))
                citations += [(f"[{number}]", 1 <= number <= len(sources)) for number in ends]
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


def _fold(text: str) -> str:
    """Return the letters, digits and apostrophes: spaces, case and other punctuation make no difference."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return "".join(char for char in text if char.isalnum() or char == "'")


def _normalise_number(text: str) -> str:
    """Return one spelling for equal numbers: 1,200 and 1200 are the same; 3.50 and 3.5 too."""
    whole, point, decimals = text.rpartition(".")
    if not point:
        return text.replace(",", "").lstrip("0") or "0"
    whole = whole.replace(",", "").lstrip("0") or "0"
    return f"{whole}.{decimals}".rstrip("0").rstrip(".")


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
    sentence_count = max(1, len(text.sentences))
    characters = len(_CJK.findall(text.raw))
    is_unspaced = characters > len(text.raw) / 4
    if is_unspaced:
        words = characters
    else:
        words = sum(re.search("[A-Za-z]", word) is not None for word in text.words)
    if words < _FEWEST_WORDS:
        return missing(f"fewer than {_FEWEST_WORDS} words to measure")
    if is_unspaced:
        grade = 0.35 * characters / sentence_count
    else:
        grade = 0.39 * words / sentence_count + 11.8 * sum(text.syllables) / words - 15.59
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
    Missing: a group of one, or one in which all other answers are empty. If rollouts are graded one by one, this is
        decided once the group is complete.
    Not covered: paraphrases count as different, and so does nonsense: use it beside criteria of quality.
    """
    all_grams: list[set[tuple[str, ...]]] = []
    for rollout in group.rollouts:
        tokens = tokenize(rollout.text.shown.raw)[:_LONGEST]
        is_short = 0 < len(tokens) < n
        all_grams.append({tuple(tokens)} if is_short else set(list_grams(tokens, n)))
    if len(all_grams) < 2:
        return [missing("there is no other rollout of the query to compare with")]
    verdicts: list[Answer] = []
    for i, grams in enumerate(all_grams):
        compared = [other for other in all_grams[:i] + all_grams[i + 1 :] if other]
        if not grams:
            verdicts.append((0.0, "an empty answer"))
        elif not compared:
            no_words = f"none of the {len(all_grams) - 1} other answers has words to compare with"
            verdicts.append(missing(no_words))
        else:
            shares = [len(grams & other) / len(grams | other) for other in compared]
            similarity = max(shares) if against == "nearest" else sum(shares) / len(shares)
            reason = f"similarity {similarity:.2f} with {against} of {len(shares)} other answers"
            verdicts.append((1.0 - similarity, reason))
    return verdicts


# ---- SummaryRecall ---------------------------------------------------------------------------------------------------
#
#     points    "Profits rose sharply in 2020.", "The plant closed."
#     answer    "In 2020, profits rose sharply. The plant did not close."
#     value     0.5: all words of the first point are there, and the second point is denied
#
# - A point is a sentence of the reference, or a phrase. Its words are compared without endings and without stop words;
#   in scripts without spaces, pairs of neighbouring characters are compared instead of words.
# - A statement is a sentence of the answer that can recall a point: not a question, not a bag of words (words in a row
#   that form no sentence), and not a repetition of a point that the prompt lists.
# - A denial is a word such as "not" with its clause (`verifiers/shared/negation.py`). It denies a point, or it does
#   not, or that is unclear. A point is negated if it contains a denial itself: "The plant never closed."

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
    metadata = rollout.metadata
    listed = points or metadata.get("points") or metadata.get("reference_points")
    source = reference or metadata.get("reference")
    candidates = map(str, listed) if listed else sentences(str(source or ""))
    reference_points = [point for point in candidates if _split_words(point)]
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


# Sentences that recall nothing: those that repeat a list of the prompt, and words in a row.

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


# The recall of one point, by neighbouring sentences that do not contradict it.

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
        if len(self.tokens & set(point)) < _MIN_ORDERED_WORDS or any(map(_UNSPACED.match, point)):
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
        if _UNSPACED.match(token):
            words += [token[i : i + 2] for i in range(max(1, len(token) - 1))]
        elif token not in _STOP_WORDS:
            words.append(_SUFFIX.sub("", token))
    return words
