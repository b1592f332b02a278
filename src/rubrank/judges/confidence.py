"""How sure a judge is: calibrated probabilities, and which answers go to a better judge.

Calibration. What a judge says is 80% likely should be so in 80% of the cases.

    fit_isotonic([0.1, 0.4, 0.8, 0.9], [0, 1, 0, 1])      ((0.1, 0.0), (0.4, 0.5), (0.8, 0.5), (0.9, 1.0))

A distribution over ordered levels is calibrated by its cumulative probabilities P(value ≥ level): one rising function
for each criterion maps what the judge says to the frequency that was observed (isotonic regression), so the result is a
distribution again. `rubrank judge calibrate` fits it, the setting `calibration` of a judge applies it.

Cascade. A cheap judge decides where it is sure; a better one is asked about the rest.

    - name: quick
      kind: decision
      endpoints: […]
      escalate: 0.15                       at most 15% of its answers go to the fallback, the least sure first
      fallback: {kind: absolute, endpoints: […]}

    escalate: {threshold: 0.4, thresholds: {Tone: 0.2}}      or those below a margin; `rubrank judge calibrate` finds it

How sure an answer is, is the margin of its distribution: by how much the likeliest value is more probable than the
next. A missing answer is escalated first. Which cells are escalated depends on the question alone (the group, or the
single response that a trainer has so far), not on other groups, so a run that is repeated escalates the same ones. A
share that is not a whole number of cells is rounded by a seeded draw: one of four cells at 25%, on average, and never
more than one beyond the share.

If the fallback does not answer, the answer of the cheap judge is used; the failure counts as missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from rubrank.judges.design import find_duplicates, make_seeded_random
from rubrank.judges.judge import Judge, Judgment, Question
from rubrank.verifiers.distribution import Distribution, mean_of, most_probable, sureness
from rubrank.verifiers.verifier import LONGEST_REASON, Verdict

Knots: TypeAlias = tuple[tuple[float, float], ...]
"""Pairs of a probability that the judge states and the one that is right; neither falls from pair to pair."""


def fit_isotonic(stated: Sequence[float], observed: Sequence[float]) -> Knots:
    """Return the rising function nearest to the observations, as the ends of its steps.

    The method is called "pool adjacent violators".
    """
    # Equal probabilities are one block.
    levels, level_of = np.unique(np.asarray(stated, dtype=float), return_inverse=True)
    totals = np.bincount(level_of, weights=observed)
    counts = np.bincount(level_of)
    blocks: list[_Block] = []
    for level, total, count in zip(levels.tolist(), totals.tolist(), counts.tolist(), strict=True):
        block = _Block(level, level, total, count)
        # The means must rise: a block joins the one before it as long as that has no smaller mean.
        while blocks and blocks[-1].total * block.size >= block.total * blocks[-1].size:
            before = blocks.pop()
            block = _Block(
                before.low, block.high, before.total + block.total, before.size + block.size
            )
        blocks.append(block)
    knots: list[tuple[float, float]] = []
    for block in blocks:
        # One end if the block has one probability only.
        ends = dict.fromkeys((block.low, block.high))
        knots += [(end, block.total / block.size) for end in ends]
    return tuple(knots)


class _Block(NamedTuple):
    """Neighbouring observations to which the isotonic fit gives the same value, their mean."""

    low: float
    """Lowest stated probability."""
    high: float
    """Highest stated probability."""
    total: float
    """Sum of the observations."""
    size: int
    """How many there are."""


def calibrate_distribution(distribution: Distribution, knots: Knots) -> Distribution:
    """Return the distribution with calibrated cumulative probabilities."""
    stated, right = zip(*knots, strict=True)
    values = [value for value, _ in distribution]
    probabilities = [probability for _, probability in distribution]
    # P(value ≥ level) for every level. For the lowest level it is 1, whatever the calibration.
    at_least = np.cumsum(probabilities[::-1])[::-1]
    calibrated = np.interp(at_least[1:], stated, right)
    # P(value = level) is the difference between two neighbours; above the highest level there is nothing.
    edges = np.concatenate([[1.0], calibrated, [0.0]])
    differences = -np.diff(edges)
    return tuple((value, float(p)) for value, p in zip(values, differences, strict=True))


def complete_distribution(distribution: Distribution, levels: Sequence[float]) -> Distribution:
    """Return the distribution over all these levels; those that it does not name get probability 0.

    A unanimous panel names one level only; calibration measures how often it is wrong nevertheless.
    """
    return tuple(sorted({**dict.fromkeys(levels, 0.0), **dict(distribution)}.items()))


def calibrate_judgment(judgment: Judgment, question: Question, judge: Judge) -> None:
    """Calibrate the probabilities of all verdicts whose criterion has a calibration; scores follow them."""
    criteria = {criterion.name: criterion for criterion in question.criteria}
    for cell, verdict in judgment.verdicts.items():
        knots = judge.calibration.get(cell[1])
        if knots is None or not verdict.probabilities:
            continue
        criterion = criteria[cell[1]]
        levels = criterion.value_domain.values
        distribution = calibrate_distribution(
            complete_distribution(verdict.probabilities, levels), knots
        )
        if judge.expected or not levels:
            value = mean_of(distribution)
        else:
            value = most_probable(distribution, criterion.direction == "higher")
        judgment.verdicts[cell] = replace(verdict, value=value, probabilities=distribution)


# ------------------------------------------------------------------------------------------------------------ cascade

_MISSING = -1.0  # less sure than any answer


def count_most_escalated(question: Question, judge: Judge) -> int:
    """Return how many different cells may be escalated at most."""
    assert judge.escalate is not None
    # Without the small number, 0.14 × 50 = 7.000000000000001 would be rounded up to 8.
    return math.ceil(judge.escalate.most * len(_list_distinct_cells(question)) - 1e-9)


def choose_escalated(question: Question, judge: Judge, first: Judgment) -> np.ndarray:
    """Return (G, K): the cells that the fallback is asked about; equal responses are escalated together."""
    assert judge.escalate is not None
    escalate = judge.escalate
    cells = _list_distinct_cells(question)
    unsure = []
    for i, k in cells:
        name = question.criteria[k].name
        verdict = first.verdicts.get((i, name))
        if verdict is None:
            continue
        margin = _measure_margin(verdict)
        threshold = escalate.thresholds.get(name, escalate.threshold)
        # `escalate: 1.0` asks both judges about every cell, even if the first one is certain.
        is_all = threshold == escalate.most == 1.0
        if margin < threshold or is_all:
            unsure.append((margin, (i, k)))
    unsure.sort()
    answers = [question.group.rollouts[i].answer for i in sorted({i for i, _ in cells})]
    draw = make_seeded_random(judge.seed, question.group.id, answers).random()
    # Rounded up or down at random, so that the share is right on average; never above `count_most_escalated`.
    number = math.floor(escalate.most * len(cells) + draw * (1.0 - 1e-9))
    chosen = {cell for _, cell in unsure[:number]}
    first_of = find_duplicates(question.group.rollouts)
    escalated = np.zeros_like(question.wanted)
    for i, k in zip(*question.wanted.nonzero(), strict=True):
        escalated[i, k] = (first_of[i], int(k)) in chosen
    return escalated


def merge_judgments(first: Judgment, second: Judgment) -> Judgment:
    """Return the first judge's verdicts, with those of the fallback where it was asked and answered."""
    merged = Judgment(
        dict(first.verdicts),
        asked=first.asked + second.asked,
        disagreement=dict(first.disagreement),
    )
    for name, reasons in first.missing.items():  # of the members of a panel
        merged.missing[name] = list(reasons)
    for cell, verdict in second.verdicts.items():
        before = first.verdicts[cell]
        if verdict.value is not None:
            first_answer = "no answer"
            if before.value is not None:
                first_answer = f"{before.value:g} by a margin of {_measure_margin(before):.2f}"
            reason = f"escalated ({first_answer}): {verdict.reason}"
            merged.verdicts[cell] = replace(verdict, reason=reason[:LONGEST_REASON])
        else:
            merged.missing.setdefault(cell[1], []).append(verdict.reason)
    for name, reasons in second.missing.items():
        merged.missing.setdefault(name, []).extend(reasons)
    without_answer = sum(verdict.value is None for verdict in merged.verdicts.values())
    merged.lost = without_answer + sum(len(reasons) for reasons in merged.missing.values())
    return merged


def _list_distinct_cells(question: Question) -> list[tuple[int, int]]:
    """Return the wanted cells (rollout, column), without those of duplicate responses."""
    first_of = find_duplicates(question.group.rollouts)
    return sorted(
        {(first_of[int(i)], int(k)) for i, k in zip(*question.wanted.nonzero(), strict=True)}
    )


def _measure_margin(verdict: Verdict) -> float:
    """Return how sure a verdict is: -1 if it is missing, 1 if it has no probabilities."""
    if verdict.value is None:
        return _MISSING
    return sureness(verdict.probabilities) if verdict.probabilities else 1.0
