"""Does adjusting find quality? A latent quality, and a judge who also likes length (docs/method.md §4).

    heard = quality + bias · (log length, standardised) + noise        on each of K criteria, told in five levels

Eight rollouts a group, 256 groups. What is measured is the correlation within groups, over the whole batch. Bounds are
about half of the smallest effect seen over 20 seeds: they fail when the effect goes, not when the seed changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from rubrank import attenuate, fuse, utilities

SEEDS = pytest.mark.parametrize("seed", range(4))
BIASES = pytest.mark.parametrize("bias", [0.5, 1.0])


class Judged(NamedTuple):
    scores: np.ndarray
    lengths: np.ndarray
    quality: np.ndarray
    log_length: np.ndarray


def judged(bias, seed, N=256, G=8, K=2):
    rng = np.random.default_rng(seed)
    quality, log_length = rng.normal(size=(2, N, G))
    heard = (quality + bias * log_length)[..., None] + 0.5 * rng.normal(size=(N, G, K))
    levels = np.digitize(heard, np.quantile(heard, [0.2, 0.4, 0.6, 0.8]))
    return Judged(levels.astype(float), np.exp(6.0 + 0.5 * log_length)[..., None], quality, log_length)


def within(a, b):
    """Correlation of two (N, G) arrays after taking out every group's mean."""
    a, b = (x - x.mean(1, keepdims=True) for x in (a, b))
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def estimates(data):
    """Fused utility unadjusted, adjusted in each group, and pooled."""
    grouped = utilities(data.scores, attributes=data.lengths, pool="group").utilities
    pooled = utilities(data.scores, attributes=data.lengths, pool="batch").utilities
    return [u.sum(-1) for u in (utilities(data.scores), grouped, pooled)]


@SEEDS
@BIASES
def test_adjusting_recovers_quality_when_the_bias_is_real(bias, seed):
    data = judged(bias, seed)
    unadjusted, grouped, pooled = (within(u, data.quality) for u in estimates(data))
    assert grouped > unadjusted + {0.5: 0.015, 1.0: 0.065}[bias]
    assert pooled > grouped + 0.01


@SEEDS
@BIASES
def test_pooling_leaves_less_of_the_length(bias, seed):
    data = judged(bias, seed)
    unadjusted, grouped, pooled = (abs(within(u, data.log_length)) for u in estimates(data))
    assert unadjusted > 0.35
    assert grouped < 0.55 * unadjusted
    assert pooled < 0.4 * grouped


@SEEDS
def test_little_is_lost_when_there_is_no_bias(seed):
    data = judged(0.0, seed)
    unadjusted, grouped, pooled = (within(u, data.quality) for u in estimates(data))
    assert pooled > unadjusted - 0.01
    assert grouped > unadjusted - 0.06


@SEEDS
def test_the_same_holds_for_rewards(seed):
    data = judged(1.0, seed)
    plain = within(fuse(data.scores), data.quality)
    grouped = within(fuse(data.scores, attributes=data.lengths, pool="group"), data.quality)
    pooled = within(fuse(data.scores, attributes=data.lengths, pool="batch"), data.quality)
    assert plain + 0.05 < grouped
    assert grouped + 0.009 < pooled


@SEEDS
def test_the_pooled_coefficient_shows_the_bias(seed):
    """γ is reported so that one can see what would be taken out: nothing, some, more."""
    none, some, more = (
        utilities(data.scores, attributes=data.lengths, pool="batch").gamma[0].mean()
        for data in (judged(bias, seed) for bias in (0.0, 0.5, 1.0))
    )
    assert abs(none) < 0.25
    assert 0.5 < some < more


@SEEDS
def test_larger_lambda_controls_harder(seed):
    data = judged(1.0, seed)
    options = {"attributes": data.lengths, "pool": "batch"}
    left = [
        within(fuse(data.scores, adjust=attenuate(lam), **options), data.log_length)
        for lam in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert np.all(np.diff(left) < -0.05)
