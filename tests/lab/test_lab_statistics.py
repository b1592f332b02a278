"""The linear model and Holm's correction, against SciPy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from rubrank_lab.statistics import adjust_holm, compare, estimate_effects

stats = pytest.importorskip("scipy.stats")


def test_two_arms_give_the_paired_t_test():
    draws = np.random.default_rng(0)
    seeds = draws.normal(size=12)
    first, second = seeds + draws.normal(size=12), 0.5 + seeds + draws.normal(size=12)
    effects = estimate_effects({"a": dict(enumerate(first)), "b": dict(enumerate(second))})
    comparison = compare(effects, "a")[0]
    reference = stats.ttest_rel(second, first)
    assert comparison.difference == pytest.approx(float(np.mean(second - first)))
    assert comparison.p == pytest.approx(float(reference.pvalue))
    low, high = reference.confidence_interval()
    assert (comparison.low, comparison.high) == pytest.approx((low, high))
    assert effects.means.tolist() == pytest.approx([first.mean(), second.mean()])


def test_a_missing_cell_is_adjusted_for_its_seed():
    """b lacks the good seed 2; without noise, its difference to a is still exactly 1."""
    seeds = [0.0, 1.0, 10.0]
    values = {"a": dict(enumerate(seeds)), "b": {seed: seeds[seed] + 1.0 for seed in (0, 1)}}
    effects = estimate_effects(values)
    assert compare(effects, "a")[0].difference == pytest.approx(1.0)
    assert effects.residual_sd == pytest.approx(0.0, abs=1e-9)


def test_balanced_residuals_by_hand():
    """Two arms, two seeds, interaction ±1: residuals are ±½ in four cells with one degree of freedom."""
    effects = estimate_effects({"a": {0: 1.0, 1: 0.0}, "b": {0: 0.0, 1: 1.0}})
    assert effects.freedom == 1
    assert effects.residual_sd == pytest.approx(1.0)
    assert effects.seed_share == pytest.approx(0.0)


def test_holm_by_hand():
    assert adjust_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_holm([0.6, 0.9]) == [1.0, 1.0]
    assert adjust_holm([]) == []
