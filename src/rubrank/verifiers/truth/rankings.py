"""Lists compared with a known one: precision, recall and F1 of a set, NDCG of a ranking.

>>> read_entries("1. Paris\\n2. Rome"), read_entries("[3] > [1] > [2]")
(['Paris', 'Rome'], ['3', '1', '2'])
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import list_items, strip_decoration
from rubrank.verifiers.shared.answers import DEFAULT, Extractor, read_answer
from rubrank.verifiers.shared.json_values import parse_json
from rubrank.verifiers.truth.claims import normalise
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

# What stands between entries in one line: "a, b and c", "a > b".
_SEPARATOR = re.compile(r"[,，、;；|\n>]|(?<=\s)(?:and|or)(?=\s)|和|与|以及|→")
_MOST_ENTRIES = 2_000
_FENCE = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)
# The bold name at the beginning of "- **Apple**: a fruit".
_LABEL = re.compile(r"(?:\*\*|__)([^*_\n]{1,200}?):?(?:\*\*|__)\s*[:：–—-]?")
# "The cities are: ", "The cities are "
_INTRODUCTION = re.compile(
    r"\A(?:[^:：]{0,60}[:：]|[^,，;；|\n>:：]{0,60}\s(?:are|were|include))\s"
)


def read_entries(answer: str, extractors: Sequence[Extractor] = DEFAULT) -> list[str]:
    """Return the entries of an answer in order: of a JSON list, a list of lines, or between commas, ">" and "and"."""
    reading = read_answer(answer, extractors)
    text = reading.text if reading.explicit else answer.strip()
    fenced = _FENCE.fullmatch(text)
    text = fenced[1] if fenced else text
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if isinstance(value, list):
        return [str(entry) for entry in value][:_MOST_ENTRIES]
    items = [item.text for item in list_items(text[-50_000:])]
    if items:
        labels = [_LABEL.match(item) for item in items]
        entries = [label[1] if label else item for item, label in zip(items, labels, strict=True)]
        return [strip_decoration(entry) for entry in entries][:_MOST_ENTRIES]
    line = _INTRODUCTION.sub("", text[-50_000:])
    parts = [strip_decoration(part).strip(" .{}[]()\"'“”") for part in _SEPARATOR.split(line)]
    return [part for part in parts if part][:_MOST_ENTRIES]


@verifier("SetMatch", family="truth", domain=UNIT, version=2)
def set_match(
    rollout: Rollout,
    *,
    truth: tuple[str | int | float, ...] | None = None,
    measure: Literal["f1", "precision", "recall"] = "f1",
) -> Answer:
    """F1, precision or recall of the entries that the answer names, in any order; case, width and articles aside.

    The entries are those of a JSON list, a bulleted or numbered list, or stand between commas.
    Passes (1): "b, a" for ["a", "b"].
    Part: one of two right is F1 2/3.
    Fails (0): none right; no entries. An entry named twice counts once.
    Missing: no truth.
    Not covered: entries that are equal only in meaning; prose around entries that are not a list.
    """
    truths = (
        tuple(map(str, truth)) if truth is not None else find_truths(None, rollout.metadata).values
    )
    expected = {normalise(entry) for entry in truths} - {""}
    if not expected:
        return missing("no truth is known")
    actual = {normalise(entry) for entry in read_entries(rollout.answer)} - {""}
    right = len(expected & actual)
    precision = right / len(actual) if actual else 0.0
    recall = right / len(expected)
    scores = {
        "precision": precision,
        "recall": recall,
        "f1": 2.0 * right / (len(actual) + len(expected)),
    }
    return scores[measure], f"{right} right of {len(actual)} named, {len(expected)} expected"


@verifier("Ndcg", family="truth", domain=UNIT, version=2)
def rank_by_ndcg(
    rollout: Rollout,
    *,
    relevance: dict[str, Annotated[float, Field(ge=0)]] | None = None,
    ranking: tuple[str, ...] = (),
    top: Annotated[int, Field(ge=1, le=1000)] = 10,
) -> Answer:
    """NDCG of the first `top` entries of the answer's ranking.

    `relevance` (or metadata["relevance"]) gives each entry's gain; `ranking` gives an order instead, its first entry
    having the largest gain.
    Passes (1): the best order.
    Part: good entries further down, or some left out.
    Fails (0): no relevant entry. An entry that is repeated counts once.
    Missing: neither is given, or nothing is relevant.
    Not covered: ties; an order that is only described ("the second is best").
    """
    gains = relevance if relevance is not None else rollout.metadata.get("relevance")
    if not gains and ranking:
        gains = {entry: float(len(ranking) - place) for place, entry in enumerate(ranking)}
    if not isinstance(gains, dict) or not any(gain > 0 for gain in gains.values()):
        return missing(
            "no relevance is known: give `relevance` or `ranking`, or metadata['relevance']"
        )
    gain_of = {normalise(str(entry)): float(gain) for entry, gain in gains.items()}
    entries = list(dict.fromkeys(normalise(entry) for entry in read_entries(rollout.answer)))[:top]
    score = _sum_gains([gain_of.get(entry, 0.0) for entry in entries])
    best = _sum_gains(sorted(gain_of.values(), reverse=True)[:top])
    return min(1.0, score / best), f"NDCG@{top} {score / best:.3f} of {len(entries)} entries"


def _sum_gains(gains: list[float]) -> float:
    """Return the discounted cumulative gain: the gain at place n counts 1 / log2(n + 1)."""
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
