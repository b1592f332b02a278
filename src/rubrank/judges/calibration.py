"""Calibrated probabilities: what a judge says is 80% likely should be so in 80% of the cases.

    fit_isotonic([0.1, 0.4, 0.8, 0.9], [0, 1, 0, 1])      ((0.1, 0.0), (0.4, 0.5), (0.8, 0.5), (0.9, 1.0))

A distribution over ordered levels is calibrated by its cumulative probabilities P(value ≥ level): one rising function
for each criterion maps what the judge says to the frequency that was observed (isotonic regression), so the result is a
distribution again. `rubrank judge calibrate` fits it, the setting `calibration` of a judge applies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from rubrank.judges.judge import Judge, Judgment, Question
from rubrank.verifiers.distribution import Distribution, mean_of, most_probable

Knots: TypeAlias = tuple[tuple[float, float], ...]
"""(probability that the judge gives, probability that is right), both rising."""


def fit_isotonic(given: Sequence[float], observed: Sequence[float]) -> Knots:
    """The rising function that is nearest to the observations, as the ends of its steps (pool adjacent violators)."""
    order = np.argsort(np.asarray(given, dtype=float), kind="stable")
    # Blocks of [lowest and highest probability given, sum of observations, their number].
    blocks: list[list[float]] = []
    for i in order.tolist():
        block = [float(given[i]), float(given[i]), float(observed[i]), 1.0]
        if blocks and blocks[-1][1] == block[1]:  # equal probabilities are one block
            block = _join(blocks.pop(), block)
        while blocks and blocks[-1][2] * block[3] >= block[2] * blocks[-1][3]:
            block = _join(blocks.pop(), block)
        blocks.append(block)
    knots: list[tuple[float, float]] = []
    for low, high, total, count in blocks:
        knots.append((low, total / count))
        if high > low:
            knots.append((high, total / count))
    return tuple(knots)


def _join(first: list[float], second: list[float]) -> list[float]:
    return [first[0], second[1], first[2] + second[2], first[3] + second[3]]


def calibrate_distribution(distribution: Distribution, knots: Knots) -> Distribution:
    """The distribution with calibrated cumulative probabilities."""
    given, right = zip(*knots, strict=True)
    values = [value for value, _ in distribution]
    at_least = np.cumsum([probability for _, probability in reversed(distribution)])[::-1]
    mapped = np.interp(at_least[1:], given, right)
    edges = np.concatenate([[1.0], mapped, [0.0]])
    return tuple((value, float(p)) for value, p in zip(values, -np.diff(edges), strict=True))


def calibrate_judgment(judgment: Judgment, question: Question, judge: Judge) -> None:
    """Calibrate the probabilities of all verdicts whose criterion has a calibration; scores follow them."""
    criteria = {criterion.name: criterion for criterion in question.criteria}
    for cell, verdict in judgment.verdicts.items():
        knots = judge.calibration.get(cell[1])
        if knots is None or len(verdict.probabilities) < 2:
            continue
        criterion = criteria[cell[1]]
        distribution = calibrate_distribution(verdict.probabilities, knots)
        if judge.expected or not criterion.value_domain.values:
            value = mean_of(distribution)
        else:
            value = most_probable(distribution, criterion.direction == "higher")
        judgment.verdicts[cell] = replace(verdict, value=value, probabilities=distribution)
