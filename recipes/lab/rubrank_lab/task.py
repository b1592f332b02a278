"""What the laboratory adds to the library: verifiers, a judge whose bias is known, and a sum of raw scores.

    rubrank --import rubrank_lab.task train config.yaml          (with this folder's parent on PYTHONPATH)

The judge is a kind, "lab". For every cell it makes the call that a model would get and reads the reply as any other;
the reply alone is written here. What it says is the truth, plus what it likes, plus noise:

    Accuracy   0 … 10   content                             + 0.20 · length + 0.10 · Markdown
    Helpful    1 … 5    mean of content, coverage, count    + 0.15 · length + 0.30 · Markdown
    Clear      0 or 1   share of sentences that are right                   + 0.50 · Markdown

length = log2(1 + words of thinking / 8) − 1, so 0 at 8 words and 1 at 24; Markdown = min(markers, 8) / 4 − ½. Its
endpoint's `extra_body` sets how much of the bias, how much noise and how many missing answers there are. Noise is a
function of the answer: the same text gets the same verdict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

import rubrank
from rubrank import Call, Judge, Judgment, Question, Reply
from rubrank.judges.parsing import read_absolute
from rubrank.judges.prompting import absolute_call
from rubrank.verifiers.verifier import TERNARY, Domain
from rubrank_lab import truth
from rubrank_lab.world import Ask, parsed

# ------------------------------------------------------------------------------------------------------------ verifiers


def _seen(rollout: rubrank.Rollout) -> tuple[Ask, truth.Reading]:
    ask = parsed(rollout.question)
    return ask, truth.read(ask, rollout.response)


@rubrank.verifier("LabFactCount", domain=rubrank.BINARY)
def fact_count(rollout: rubrank.Rollout) -> tuple[float, str]:
    """As many sentences as facts were asked for."""
    ask, seen = _seen(rollout)
    return float(seen.claims == ask.facts), f"{seen.claims} sentences for {ask.facts}"


@rubrank.verifier("LabCoverage", domain=TERNARY)
def covered(rollout: rubrank.Rollout) -> float:
    """None, some or all of the nouns to be mentioned."""
    return truth.coverage(*_seen(rollout))


@rubrank.verifier("LabOrder")
def ordered(rollout: rubrank.Rollout) -> float:
    """Share of neighbouring nouns in alphabetical order."""
    return truth.order(_seen(rollout)[1])


@rubrank.verifier("LabVariety")
def variety(rollout: rubrank.Rollout) -> float:
    """Different words over words."""
    return _seen(rollout)[1].distinct


@rubrank.verifier("LabDensity", domain=Domain("continuous", low=0.0, high=1e6))
def dense(rollout: rubrank.Rollout, *, times: float = 100.0, power: float = 1.0, plus: float = 0.0) -> float:
    """Share of the words that name something of the topic, on a scale of one's choice."""
    return times * truth.density(_seen(rollout)[1]) ** power + plus


@rubrank.verifier("LabRepeats", domain=rubrank.BINARY, layer="global_quality")
def repeats(rollout: rubrank.Rollout) -> float:
    """No sentence is said three times."""
    return float(_seen(rollout)[1].repeated < 3)


@rubrank.verifier("LabLanguage", domain=rubrank.BINARY, layer="global_quality")
def language(rollout: rubrank.Rollout) -> float:
    """Fewer than two foreign words."""
    return float(_seen(rollout)[1].foreign < 2)


@rubrank.verifier("LabNoOpening", domain=rubrank.BINARY, layer="low_quality")
def no_opening(rollout: rubrank.Rollout) -> float:
    """No template phrase at the beginning."""
    return float(not _seen(rollout)[1].opened)


# ------------------------------------------------------------------------------------------------------------ the judge

LIKES: Mapping[str, tuple[float, float]] = {"Accuracy": (0.2, 0.1), "Helpful": (0.15, 0.3), "Clear": (0.0, 0.5)}
"""Criterion → how much a unit of length and of Markdown are worth to the judge, on a scale from 0 to 1."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Habits:
    """How far the judge can be trusted; the keys of its endpoint's `extra_body`."""

    length: float = 1.0
    """1: the bias as in `LIKES`; 0: none."""
    markdown: float = 1.0
    noise: float = 0.1
    """Standard deviation, on a scale from 0 to 1."""
    missing: float = 0.0
    """Share of the cells that get no answer."""


def latent(name: str, ask: Ask, seen: truth.Reading) -> float:
    """What the criterion truly is, from 0 to 1."""
    told = truth.content(ask, seen)
    if name == "Accuracy":
        return told
    if name == "Clear":
        return seen.precision
    return (told + truth.coverage(ask, seen) + float(seen.claims == ask.facts)) / 3


def verdict(name: str, ask: Ask, response: str, habits: Habits) -> float:
    """What the judge says."""
    seen = truth.read(ask, response)
    length = math.log2(1 + seen.thinking / 8) - 1
    markdown = min(seen.markers, 8) / 4 - 0.5
    by_length, by_markdown = LIKES[name]
    liked = habits.length * by_length * length + habits.markdown * by_markdown * markdown
    felt = latent(name, ask, seen) + liked + habits.noise * _normal("noise", name, ask.prompt, response)
    held = min(1.0, max(0.0, felt))
    return {"Accuracy": float(round(10 * held)), "Helpful": float(round(1 + 4 * held))}.get(name, float(felt >= 0.5))


def _normal(*about: str) -> float:
    return _NORMAL.inv_cdf(_uniform(*about))


def _uniform(*about: str) -> float:
    digest = blake2b("\0".join(about).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


@rubrank.judge_kind("lab")
class Scripted:
    """One call a cell, answered here."""

    async def judge(self, question: Question, judge: Judge, asker: Any) -> Judgment:
        """A verdict, or missing, for every cell."""
        habits = Habits(**judge.endpoints[0].extra_body)
        given = {}
        for i, k in np.argwhere(question.wanted).tolist():
            rollout, criterion = question.group.rollouts[i], question.criteria[k]
            call = absolute_call(criterion, rollout, language="en")
            reply = self._reply(call, criterion.name, rollout, habits)
            given[i, criterion.name] = read_absolute(reply, criterion, call=call)
        return Judgment(given, asked=len(given), lost=sum(found.value is None for found in given.values()))

    def _reply(self, call: Call, name: str, rollout: rubrank.Rollout, habits: Habits) -> Reply:
        ask = parsed(rollout.question)
        said = str(rollout.response)
        if _uniform("missing", name, ask.prompt, said) < habits.missing:
            return Reply(None, failure="no answer, as the experiment wants it")
        told = {"reasoning": "by a script", "finding": "", "verdict": verdict(name, ask, said, habits)}
        return Reply(json.dumps(told), finish_reason="stop", model="script")


# ------------------------------------------------------------------------------------------------------------- the rule


@rubrank.rule("lab-raw-sum")
@dataclass(frozen=True)
class RawSum:
    """Scores as they are, times weights, added up: what a sum is where no scale is declared."""

    bounded: ClassVar[bool] = False

    def __call__(self, batch: Any) -> Any:
        """One sum for each rollout; a missing score counts nothing."""
        weights = np.broadcast_to(batch.weights_NK, (batch.N, batch.K)).repeat(batch.sizes, axis=0)
        total = np.nansum(weights * batch.scores_MK, axis=1)
        return rubrank.Fused(batch, self.name, total)  # type: ignore[attr-defined]
