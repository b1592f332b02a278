"""What attribute control takes out, and what it costs, where the truth is known: simulated judges.

    seen = quality + b · (log length, standardised) + noise        told as yes/no, in three levels, in ten, or as it is

    null            b = 0: length means nothing
    b = 0.3, b = 1  a judge who likes length a little, or as much as quality
    useful length   b = 0, and quality itself goes with log length (correlation 0.5): there is nothing to take out

All rewards are of `attenuate(1)`, which takes out all of a positive influence. Forms side by side:

    none    no control
    letter  pool="group": exactly as in the paper, v = u + keep·γ·z̃ with a γ for each group
    old     the pooled form of the first version: v = u + keep·γ·z̄, of the joint fit, not shrunk, not fitted again
    batch   pool="batch": pooled, shrunk, fitted again
    run     pool="run": the same with an estimate over ten steps or so, after ten steps

Letters: N groups of G rollouts, four criteria.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from first_form import control

from rubrank import RLVR2, ScoreBatch, attenuate

CASES = ("null", "b = 0.3", "b = 1", "useful length")
FORMS = ("none", "letter", "old", "batch", "run")
SIZES = (4, 8, 16)
GROUPS = (32, 128, 512)
_USEFUL = 0.5
_WARM_UP = 10


@dataclass(frozen=True, eq=False)
class Simulated:
    """A batch, and what is behind it."""

    batch: ScoreBatch
    quality_NG: np.ndarray
    log_length_NG: np.ndarray


def simulate(case: str, N: int, G: int, rng: np.random.Generator) -> Simulated:
    """One batch of simulated judges."""
    bias = {"b = 0.3": 0.3, "b = 1": 1.0}.get(case, 0.0)
    log_length, quality = rng.normal(size=(2, N, G))
    if case == "useful length":
        quality = _USEFUL * log_length + np.sqrt(1.0 - _USEFUL**2) * quality
    impression = (quality + bias * log_length)[..., None] + rng.normal(size=(N, G, 4))
    scale = np.sqrt(2.0 + bias**2)
    scores = np.stack(
        [
            (impression[..., 0] > 0.0).astype(float),
            np.digitize(impression[..., 1] / scale, [-0.43, 0.43]),
            np.digitize(impression[..., 2] / scale, [-1.28, -0.84, -0.52, -0.25, 0.0, 0.25, 0.52, 0.84, 1.28]),
            impression[..., 3],
        ],
        axis=-1,
    )
    lengths = np.exp(6.0 + 0.5 * log_length)[..., None]
    return Simulated(ScoreBatch.of_arrays(scores, attributes=lengths), quality, log_length)


def within(a_NG: np.ndarray, b_NG: np.ndarray) -> float:
    """Correlation after taking out every group's mean."""
    a, b = (x - x.mean(1, keepdims=True) for x in (a_NG, b_NG))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


@dataclass(frozen=True)
class Row:
    """Correlations of the reward with log length and with quality, by form; a mean over batches."""

    case: str
    G: int
    N: int
    length: dict[str, float]
    quality: dict[str, float]


def measure_row(case: str, G: int, N: int, *, rollout_groups: int = 2048, lam: float = 1.0, seed: int = 0) -> Row:
    """One row: as many batches as make up `rollout_groups`."""
    rng = np.random.default_rng([seed, G, N, CASES.index(case)])
    rule = attenuate(lam)
    forms = {"none": RLVR2(), **{form: control(form, rule) for form in FORMS[1:]}}
    for _ in range(_WARM_UP):
        forms["run"](simulate(case, N, G, rng).batch)
    correlations: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
    for _ in range(max(2, rollout_groups // N)):
        data = simulate(case, N, G, rng)
        rewards = {form: of(data.batch).reward for form, of in forms.items()}
        for form, reward in rewards.items():
            correlations[form].append((within(reward, data.log_length_NG), within(reward, data.quality_NG)))
    means = {form: np.mean(pairs, axis=0) for form, pairs in correlations.items()}
    return Row(case, G, N, {f: float(m[0]) for f, m in means.items()}, {f: float(m[1]) for f, m in means.items()})


def every_row(quick: bool = False) -> Iterator[Row]:
    """Cases × group sizes × groups in a batch."""
    for case in CASES:
        for G in SIZES:
            for N in GROUPS:
                yield measure_row(case, G, N, rollout_groups=256 if quick else 2048)


def rows_for_print(rows: list[Row]) -> list[tuple[str, ...]]:
    """The table: ρ with length by form, then with quality."""
    heading = ("judge", "G", "N", *(f"length: {FORMS[0]}", *FORMS[1:]), *(f"quality: {FORMS[0]}", *FORMS[1:]))
    lines = [
        (row.case, str(row.G), str(row.N), *(f"{of[form]:+.3f}" for of in (row.length, row.quality) for form in FORMS))
        for row in rows
    ]
    return [heading, *lines]
