"""SummaryRecall: how much of known points an answer recalls; what it denies is not recalled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import fold_visible, sentences
from rubrank.verifiers.shared.negation import find_denials, has_denial
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_STOP = word_set("""
    a an the of to in on at for and or but is are was were be been it its this that these those with as by from he she
    they we you i his her their our your has have had do does did not no will would can could may
""")
_TOKEN = re.compile(
    "[\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\u0e00-\u0e7f]+"
    "|[^\\W_\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\u0e00-\u0e7f]+"
)
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed|ly|e|y)$")
_MOSTLY = 0.6  # of a point, from which a sentence is about it
_WINDOW = 3  # sentences over which one point may be spread
_LONGEST = 20_000  # sentences looked at


@verifier("SummaryRecall", family="format", domain=UNIT, version=3)
def summary_recall(
    rollout: Rollout,
    *,
    points: tuple[Annotated[str, Field(min_length=1)], ...] | None = None,
    reference: str | None = None,
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None,
    relation: Relation = "at most",
    words: Annotated[int, Field(ge=1)] | None = None,
) -> Answer:
    """How much of the reference points the answer recalls, 0 to 1: words in common, in Chinese pairs of characters.

    Each point counts by the share of its words found within three neighbouring sentences of the answer; with
    `threshold`, a point counts fully from there on and not at all below. 1: every point is there. 0: none, or the
    answer breaks the limit `relation words` (copying everything recalls everything). The points come from `points`,
    the sentences of `reference`, or the rollout's metadata of these names. Passes with 1: every point in its own words.
    Fails with 0: nothing of them. A sentence that denies a point ("did not rise" for "rose in May"), or states flatly
    what the point denies, recalls nothing of it. Not covered: other words for the same thing, opposites ("fell").
    """
    known = points or rollout.metadata.get("points") or rollout.metadata.get("reference_points")
    source = reference or rollout.metadata.get("reference")
    wanted = [str(p) for p in known] if known else sentences(str(source)) if source else []
    wanted = [point for point in wanted if _tokens(point)]
    if not wanted:
        return missing("no reference points are known")
    n = len(rollout.text.words)
    if words is not None and not holds(n, relation, words):
        return 0.0, f"{n} words, {relation} {words} asked"
    said = [_SaidWords.of(sentence) for sentence in sentences(rollout.text.shown.raw)[:_LONGEST]]
    recalls = [_recall(point, said) for point in wanted]
    if threshold is not None:
        recalls = [float(recall >= threshold) for recall in recalls]
    value = sum(recalls) / len(recalls)
    return value, f"{value:.2f} of {len(recalls)} reference points recalled"


@dataclass(frozen=True, slots=True)
class _SaidWords:
    """A sentence: its words, and of each clause that denies something the words and the first word denied."""

    tokens: frozenset[str]
    denied: tuple[tuple[frozenset[str], str], ...]

    @classmethod
    def of(cls, sentence: str) -> _SaidWords:
        found = find_denials(sentence) if has_denial(sentence) else []
        return cls(
            frozenset(_tokens(sentence)), tuple((frozenset(_tokens(clause)), _first(scope)) for clause, scope in found)
        )


def _recall(point: str, said: list[_SaidWords]) -> float:
    """The largest share of the point's words in neighbouring sentences that do not say the opposite."""
    wanted, negated = _tokens(point), has_denial(point)
    bags = [frozenset[str]() if _contradicts(one, wanted, negated) else one.tokens for one in said]
    windows = range(max(1, len(bags) - _WINDOW + 1)) if bags else range(0)
    found = (frozenset[str]().union(*bags[i : i + _WINDOW]) for i in windows)
    return max((len(wanted & window) / len(wanted) for window in found), default=0.0)


def _contradicts(said: _SaidWords, point: set[str], negated: bool) -> bool:
    if negated:
        return not said.denied and len(point & said.tokens) >= _MOSTLY * len(point)
    return any(first in point or len(point & clause) >= _MOSTLY * len(point) for clause, first in said.denied)


def _first(scope: str) -> str:
    """The first word of what is denied, usually the verb; in Chinese the first pair of characters."""
    for token in _TOKEN.findall(fold_visible(scope)):
        if _unspaced(token):
            return str(token[:2])
        if token not in _STOP:
            return _SUFFIX.sub("", token)
    return ""


def _tokens(text: str) -> set[str]:
    found: set[str] = set()
    for token in _TOKEN.findall(fold_visible(text)):
        if _unspaced(token):
            found.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        elif token not in _STOP:
            found.add(_SUFFIX.sub("", token))
    return found


def _unspaced(token: str) -> bool:
    code = ord(token[0])
    return 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0x0E00 <= code <= 0x0E7F
