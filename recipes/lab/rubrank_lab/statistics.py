"""How arms differ: one linear model for all arms and seeds, and Holm's correction for all comparisons with one arm.

    value = arm + seed + residual

    effects = estimate_effects(values)            values: arm → seed → value
    compare(effects, reference="weighted mean+")  difference, standard error, p, and p after Holm's correction

Seeds make a block: they share prompts and random numbers, so their common part is taken out. The residual standard
deviation is estimated over all arms and seeds together, which a t-test for each pair does not do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.fusion.control.estimate import student_t_975


@dataclass(frozen=True)
class Effects:
    """Least-squares estimates of a linear model with arms and seeds."""

    arms: tuple[str, ...]
    means: np.ndarray
    """Of each arm, at the average seed."""
    covariance: np.ndarray
    """Of the means, up to the common part of the seeds."""
    residual_sd: float
    freedom: int
    seed_share: float
    """Share of the variance around the arms' means that seeds explain."""


@dataclass(frozen=True)
class Comparison:
    """An arm against the reference."""

    arm: str
    difference: float
    error: float
    """Standard error of the difference."""
    low: float
    high: float
    """95% interval, not corrected."""
    p: float
    p_holm: float


def estimate_effects(values: Mapping[str, Mapping[int, float]]) -> Effects:
    """Fit the model; arms may have different seeds."""
    arms = tuple(values)
    seeds = sorted({seed for by_seed in values.values() for seed in by_seed})
    rows = [(a, seeds.index(seed), value) for a, arm in enumerate(arms) for seed, value in values[arm].items()]
    design = np.zeros((len(rows), len(arms) + len(seeds)))
    target = np.array([value for _, _, value in rows])
    for i, (arm, seed, _) in enumerate(rows):
        design[i, arm] = 1.0
        design[i, len(arms) + seed] = 1.0
    # Only sums of an arm and a seed are determined. The pseudo-inverse splits them; then seeds are centred.
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ target
    residuals = target - design @ coefficients
    freedom = len(rows) - np.linalg.matrix_rank(design)
    variance = float(residuals @ residuals) / max(1, freedom)
    to_mean = np.hstack([np.eye(len(arms)), np.full((len(arms), len(seeds)), 1.0 / len(seeds))])
    arm_means = np.array([np.mean(list(values[arm].values())) for arm in arms])
    around_arms = target - arm_means[[arm for arm, _, _ in rows]]
    total = float(around_arms @ around_arms)
    return Effects(
        arms,
        to_mean @ coefficients,
        variance * to_mean @ inverse @ to_mean.T,
        math.sqrt(variance),
        int(freedom),
        1.0 - float(residuals @ residuals) / total if total else 0.0,
    )


def compare(effects: Effects, reference: str) -> list[Comparison]:
    """All arms against one, in the order of the arms."""
    base = effects.arms.index(reference)
    reach = student_t_975(effects.freedom)
    raw = []
    for a, arm in enumerate(effects.arms):
        if a == base:
            continue
        difference = float(effects.means[a] - effects.means[base])
        cross = effects.covariance
        error = math.sqrt(max(0.0, float(cross[a, a] + cross[base, base] - 2 * cross[a, base])))
        raw.append((arm, difference, error, two_sided_p(difference, error, effects.freedom)))
    adjusted = adjust_holm([p for *_, p in raw])
    return [
        Comparison(
            arm,
            difference,
            error,
            difference - reach * error,
            difference + reach * error,
            p,
            p_holm,
        )
        for (arm, difference, error, p), p_holm in zip(raw, adjusted, strict=True)
    ]


def adjust_holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for their number: the smallest times n, the next times n − 1 …, never falling."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def two_sided_p(difference: float, error: float, freedom: int) -> float:
    """p-value of Student's t-test."""
    if error == 0.0:
        return 1.0 if difference == 0.0 else 0.0
    from scipy.stats import t

    return float(2.0 * t.sf(abs(difference) / error, freedom))
