"""Limits in which a rule becomes a simpler one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cases import folded

from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT

RNG = np.random.default_rng(3)
SCORES = RNG.random((4, 6, 5)).round(2)
HOLES = np.where(RNG.random(SCORES.shape) < 0.2, np.nan, SCORES)
WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.0]
BATCHES = [ScoreBatch.of_arrays(SCORES, weights=WEIGHTS), ScoreBatch.of_arrays(HOLES, weights=WEIGHTS)]


@folded("batch", BATCHES)
@folded(
    ("rule", "simpler"),
    [
        ("focal:gamma=0", "weighted-mean"),
        ("sa-mrpo:gamma=0", "gdpo"),
        ("mean-variance:lam=0", "weighted-mean"),
        ("pow3r:mix=0", "weighted-mean"),
        ("gear", "weighted-mean"),  # without edges
        ("healthbench", "weighted-mean"),  # without points
        ("rar-explicit", "weighted-mean"),  # without categories
        ("rule-fusion", "weighted-mean"),  # without hard rules
        ("rlvr2*focal:gamma=0", "rlvr2"),
        ("rlvr2*sa-mrpo:gamma=0", "rlvr2"),
        ("rlvr2*pow3r:mix=0", "rlvr2"),
        ("lexicographic", "rlrr"),  # one tier
    ],
)
def test_becomes(rule, simpler, batch):
    assert find_rule(rule)(batch).value_M == pytest.approx(find_rule(simpler)(batch).value_M, abs=1e-9)


def test_gdpo_without_epsilon_is_the_z_score_but_for_ddof():
    """A std with ddof 1 is larger by √(n/(n − 1))."""
    pre_norm = find_rule("gdpo:batch_norm=false:eps=1e-15")(BATCHES[0]).value_M
    assert pre_norm * np.sqrt(6 / 5) == pytest.approx(find_rule("z-score")(BATCHES[0]).value_M)


@pytest.mark.parametrize("batch", BATCHES)
def test_rvpo_between_mean_and_minimum(batch):
    """κ → 0 is the mean of z-scores, κ → ∞ their minimum, and it falls in between."""
    total = np.broadcast_to(batch.weights_NK, (batch.N, batch.K)).sum(1).repeat(6)
    mean = find_rule("gdpo:batch_norm=false")(batch).value_M / total
    assert find_rule("rvpo:kappa=0")(batch).value_M == pytest.approx(mean)
    assert find_rule("rvpo:kappa=1e-9")(batch).value_M == pytest.approx(mean, abs=1e-7)
    lowest = find_rule("rvpo:kappa=inf")(batch).value_M
    assert find_rule("rvpo:kappa=1e6")(batch).value_M == pytest.approx(lowest, abs=1e-4)
    values = [find_rule(f"rvpo:kappa={kappa}")(batch).value_M for kappa in (0, 0.1, 1, 10, 100)]
    for more, less in pairwise(values):
        assert (more >= less - 1e-12).all()
    assert (values[-1] >= lowest - 1e-12).all()


def test_rvpo_minimum_by_loop():
    batch = BATCHES[0]
    for g in range(batch.N):
        group = SCORES[g]
        z = (group - group.mean(0)) / (group.std(0, ddof=1) + 1e-4)
        assert find_rule("rvpo:kappa=inf")(batch).value_M[g * 6 : g * 6 + 6] == pytest.approx(z.min(1))


def test_focal_far_from_zero_temperature_looks_at_the_best_only():
    """T → 0: pace is the score of the best rollout; T → ∞: the mean of the group."""
    batch = ScoreBatch.of_arrays([[1.0, 0.8], [0.2, 0.4], [0.0, 0.3]])
    assert find_rule("focal:temperature=1e-6")(batch).details["pace"][0] == pytest.approx([1.0, 0.8])
    assert find_rule("focal:temperature=1e9")(batch).details["pace"][0] == pytest.approx([0.4, 0.5])


def test_geometric_of_equal_scores_is_the_score():
    assert find_rule("geometric:eps=1e-15")(ScoreBatch.of_arrays([[0.3, 0.3, 0.3]])).value_M == pytest.approx([0.3])


def test_log_sigmoid_hot_is_the_weighted_sum():
    """T → ∞: log σ(x) ≈ −ln 2 + x/2, a straight line in the scores."""
    batch, T = BATCHES[0], 1e5
    values = (find_rule(f"log-sigmoid:temperature={T}")(batch).value_M / sum(WEIGHTS) + np.log(2)) * 2 * T + 0.5
    assert values == pytest.approx(find_rule("weighted-mean")(batch).value_M, abs=1e-4)


def test_borda_is_rlvr2_with_a_large_prior():
    """Utilities become proportional to wins − losses, and stretching takes the rest away."""
    batch = BATCHES[0]
    stretched = find_rule("borda+")(batch).reward_M
    assert find_rule("rlvr2:prior=1e9")(batch).value_M == pytest.approx(stretched, abs=1e-6)
    assert find_rule("rlvr2:model=borda")(batch).value_M == pytest.approx(stretched, abs=1e-9)


def test_pow3r_of_categories_of_one_is_the_plain_mean():
    criteria = [CriterionData(f"c{k}", domain=UNIT, category=f"k{k}", weight=k + 1.0) for k in range(5)]
    batch = ScoreBatch.of_arrays(SCORES, criteria=criteria)
    assert find_rule("pow3r")(batch).value_M == pytest.approx(SCORES.mean(2).ravel())
