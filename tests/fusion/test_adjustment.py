"""How much of an attribute stays: draws, and what they do and do not depend on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from cases import folded

from rubrank import RLVR2, InvalidInput, ScoreBatch, UnknownName, attenuate, fuse, utilities
from rubrank.fusion.control.adjustment import choose_taken, draw_uniform, expand_adjustments

LAMBDAS = pytest.mark.parametrize("lam", [0.0, 0.2, 0.5, 0.9, 1.0])


def shares(rule, count=20_000):
    """What is taken of `count` coefficients, one in each group."""
    return rule.choose_share(draw_uniform(0, range(count), [0], [0])[:, 0, 0])


def taken(adjust, gamma, N=4, K=3, **options):
    """What is taken of coefficients γ that all groups and criteria share, one for each attribute."""
    gamma_KD = np.tile(gamma, (K, 1))
    batch = ScoreBatch.of_arrays(np.zeros((N, 2, K)), attributes=np.ones((N, 2, len(gamma))))
    return choose_taken(RLVR2(adjust=adjust, **options), batch, gamma_KD, np.ones((N, K), bool))


def biased(N=6, G=8, K=3, D=2, seed=0):
    """Scores that go with the first attribute and against the second."""
    rng = np.random.default_rng(seed)
    attributes = rng.lognormal(3.0, 0.6, (N, G, D))
    taste = np.log(attributes[..., :1]) - np.log(attributes[..., 1:])
    return np.round(rng.normal(size=(N, G, K)) + 2 * taste), attributes


# --------------------------------------------------------------------------------------------------------- the draws


@LAMBDAS
def test_bernoulli_takes_all_or_nothing(lam):
    taken = shares(attenuate(lam, "bernoulli"))
    assert set(np.unique(taken)) <= {0.0, 1.0}
    assert taken.mean() == pytest.approx(lam, abs=0.015)  # four standard errors of 20,000 draws


@LAMBDAS
def test_uniform_has_the_mean_and_the_widest_range(lam):
    taken = shares(attenuate(lam, "uniform"))
    half = min(lam, 1 - lam)
    assert taken.mean() == pytest.approx(lam, abs=0.01)
    assert taken.min() >= lam - half - 1e-15
    assert taken.max() <= lam + half + 1e-15
    assert np.ptp(taken) >= 2 * half * 0.999
    quarter = np.quantile(taken, 0.25)
    assert quarter == pytest.approx(lam - half / 2, abs=0.01)


@LAMBDAS
def test_fixed_is_not_random_and_the_default(lam):
    assert (shares(attenuate(lam, "fixed")) == lam).all()
    assert attenuate(lam) == attenuate(lam, "fixed")


def test_remove_takes_all_of_either_sign():
    adjust = ("remove", attenuate(1.0))
    assert np.array_equal(taken(adjust, [2.0, 2.0]), np.full((4, 3, 2), 2.0))
    assert np.array_equal(taken(adjust, [-2.0, -2.0]), np.broadcast_to([-2.0, 0.0], (4, 3, 2)))


def test_one_rule_for_each_attribute():
    rules = ("remove", attenuate(0.25), attenuate(0.0))
    assert np.array_equal(taken(rules, [1.0, 1.0, 1.0]), np.broadcast_to([1.0, 0.25, 0.0], (4, 3, 3)))


def test_numbers_are_uniform_and_independent():
    numbers = draw_uniform(0, range(200), range(10), range(5))
    assert numbers.shape == (200, 10, 5)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert len(np.unique(numbers)) == numbers.size
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 45  # χ² with 19 degrees of freedom: one in a thousand lies beyond 43.8
    flat = numbers - 0.5
    for a, b in ((flat[1:], flat[:-1]), (flat[:, 1:], flat[:, :-1]), (flat[..., 1:], flat[..., :-1])):
        assert abs((a * b).mean()) < 4 / 12 / np.sqrt(a.size)


# -------------------------------------------------------------------------------- what they do and do not depend on


@pytest.mark.parametrize("draw", ["bernoulli", "uniform"])
def test_the_seed_matters(draw):
    first, again, other = (taken(attenuate(0.5, draw), [1.0], N=64, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_order_of_the_batch_and_other_groups_do_not_matter():
    scores, attributes = biased()
    labels = [f"query {g}" for g in range(len(scores))]
    options = {"adjust": attenuate(0.5, "uniform"), "seed": 3, "pool": "group"}
    together = fuse(scores, groups=labels, attributes=attributes, **options)
    backwards = fuse(scores[::-1], groups=labels[::-1], attributes=attributes[::-1], **options)
    np.testing.assert_allclose(backwards[::-1], together, rtol=0, atol=1e-12)
    for g, label in enumerate(labels):
        alone = fuse(scores[g : g + 1], groups=[label], attributes=attributes[g : g + 1], **options)
        np.testing.assert_allclose(alone[0], together[g], rtol=0, atol=1e-12)


def test_scattered_rollouts_draw_as_their_group_does():
    scores, attributes = biased()
    N, G, K = scores.shape
    order = np.random.default_rng(1).permutation(N * G)
    options = {"adjust": attenuate(0.5, "bernoulli"), "seed": 3, "pool": "group"}
    rewards = fuse(scores, attributes=attributes, groups=range(N), **options).ravel()
    rows, labels = scores.reshape(-1, K)[order], np.repeat(range(N), G)[order]
    scattered = fuse(rows, groups=labels, attributes=attributes.reshape(N * G, -1)[order], **options)
    np.testing.assert_allclose(scattered, rewards[order], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 2], (0, 1, 2), np.arange(3), np.arange(3, dtype=np.int32), list(np.arange(3))],
    ids=["list", "tuple", "array", "int32", "list of NumPy's"],
)
def test_the_type_that_holds_a_label_does_not_matter(labels):
    """A group is the same group in a list, in an array, and in rows with a label each."""
    scores, attributes = biased(N=3)
    options = {"adjust": attenuate(0.5, "uniform"), "pool": "group"}
    expected = fuse(scores, attributes=attributes, groups=[0, 1, 2], **options)
    assert np.array_equal(fuse(scores, attributes=attributes, groups=labels, **options), expected)
    rows = [label for label in labels for _ in range(8)]
    flat = fuse(scores.reshape(24, -1), groups=rows, attributes=attributes.reshape(24, -1), **options)
    np.testing.assert_allclose(flat.reshape(3, 8), expected, rtol=0, atol=1e-12)


def test_labels_of_mixed_types_keep_their_types():
    scores, attributes = biased(N=2)
    options = {"adjust": attenuate(0.5, "uniform"), "pool": "group"}
    cube = fuse(scores, attributes=attributes, groups=[1, "a"], **options)
    rows = fuse(scores.reshape(16, -1), attributes=attributes.reshape(16, -1), groups=[1] * 8 + ["a"] * 8, **options)
    np.testing.assert_allclose(rows.reshape(2, 8), cube, rtol=0, atol=1e-12)


def test_the_type_that_holds_a_seed_or_a_name_does_not_matter():
    scores, attributes = biased()
    options = {"attributes": attributes, "adjust": attenuate(0.5, "uniform"), "pool": "group"}
    assert np.array_equal(fuse(scores, seed=np.int64(3), **options), fuse(scores, seed=3, **options))
    names = ["a", "b", "c"]
    assert np.array_equal(
        fuse(scores, criteria=list(np.array(names)), **options), fuse(scores, criteria=names, **options)
    )


def test_draws_follow_names_not_positions():
    scores, attributes = biased()
    options = {"adjust": attenuate(0.5, "uniform"), "pool": "group"}
    names, kinds = ["clear", "correct", "kind"], ["length", "headings"]
    plain = fuse(scores, attributes=attributes, criteria=names, attribute_names=kinds, **options)
    order = [2, 0, 1]
    moved = fuse(
        scores[..., order],
        attributes=attributes[..., ::-1],
        criteria=[names[k] for k in order],
        attribute_names=kinds[::-1],
        **options,
    )
    np.testing.assert_allclose(moved, plain, rtol=0, atol=1e-9)
    assert not np.allclose(fuse(scores[..., order], attributes=attributes, **options), plain)


def test_the_number_one_and_the_string_one_are_different_groups():
    numbers = draw_uniform(0, [1, "1"], [0], [0])
    assert numbers[0] != numbers[1]


def test_another_process_draws_the_same():
    draw = "draw_uniform(7, ['a', 1], ['x'], ['tokens', 'bold']).tolist()"
    code = f"import rubrank.fusion.control.adjustment as adjust; print(adjust.{draw})"
    here = draw_uniform(7, ["a", 1], ["x"], ["tokens", "bold"]).tolist()
    for hash_seed in ("0", "1"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == str(here)


def test_draws_do_not_change_between_releases():
    """Golden: a training run that is resumed must draw what it drew before."""
    numbers = draw_uniform(0, ["query 1"], ["correct"], ["tokens", "headings"])[0, 0]
    assert numbers.tolist() == [0.5707274641865532, 0.6708282171158555]


# --------------------------------------------------------------------------------------------- what reaches the reward


def test_the_letter_is_utilities_plus_what_is_kept():
    """pool="group": v = u + Σ keep·γ·z̃, for every scored rollout."""
    scores, attributes = biased()
    scores[0, 0, 0] = np.nan
    rule = RLVR2(pool="group", adjust=(attenuate(0.3), attenuate(0.5, "bernoulli")), seed=1)
    batch = ScoreBatch.of_arrays(scores, attributes=attributes)
    control, joint = rule(batch).control, rule.fit_jointly(batch)
    kept = np.repeat(control.gamma_NKD - control.taken_NKD, scores.shape[1], axis=0)
    extra = np.einsum("mkd,md->mk", kept, control.contrasts_MD)
    expected = joint + np.where(np.isnan(scores.reshape(extra.shape)), 0.0, extra)
    np.testing.assert_allclose(control.values_MK, expected, atol=1e-12)
    fitted = utilities(scores, attributes=attributes, pool="group")
    np.testing.assert_allclose(joint.reshape(scores.shape), fitted.utilities, rtol=0, atol=1e-12)
    np.testing.assert_allclose(control.gamma_NKD, fitted.gamma, rtol=0, atol=1e-12)


def test_keeping_all_of_a_length_bias_rewards_length_more_than_removing_it():
    scores, attributes = biased(N=40, D=2)
    length = np.log(attributes[..., 0])

    def agreement(**options):
        rewards = fuse(scores, attributes=attributes[..., :1], pool="batch", **options)
        return np.corrcoef(
            (rewards - rewards.mean(1, keepdims=True)).ravel(), (length - length.mean(1, keepdims=True)).ravel()
        )[0, 1]

    kept, half, none = (agreement(adjust=attenuate(lam)) for lam in (0.0, 0.5, 1.0))
    assert kept > half + 0.05
    assert half > none + 0.05
    assert none == pytest.approx(agreement(adjust="remove"), abs=1e-9)


# ------------------------------------------------------------------------------------------------------------- rules


def test_rules():
    assert expand_adjustments("fuse", None, 2) == ("remove", "remove")
    assert expand_adjustments("fuse", attenuate(0.5), 2) == (attenuate(0.5), attenuate(0.5))
    assert expand_adjustments("fuse", ["remove", attenuate(1)], 2) == ("remove", attenuate(1))
    assert str(attenuate(0.25, "fixed")) == "attenuate(0.25, fixed)"


@folded("lam", [-0.1, 1.1, np.nan, np.inf, "0.5", None])
def test_lambda_outside_zero_and_one(lam):
    with pytest.raises(InvalidInput) as raised:
        attenuate(lam)
    error = raised.value
    assert (error.owner, error.parameter, error.got) == ("attenuate", "lam", repr(lam))
    assert "between 0" in error.allowed
    assert error.remedy


def test_unknown_draw():
    with pytest.raises(
        UnknownName, match=r"attenuate: draw must be one of .*got 'bernouli'. Did you mean 'bernoulli'\?"
    ):
        attenuate(0.5, "bernouli")


def test_a_group_named_by_half_a_surrogate_pair_gets_its_own_draws():
    numbers = draw_uniform(0, ["\ud800", "\udc00", "?"], ["x"], ["tokens"])
    assert len(set(numbers.ravel().tolist())) == 3
