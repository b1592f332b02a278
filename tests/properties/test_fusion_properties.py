"""The properties of docs/method.md §7; the sixth, agreement with other optimisers, is tests/fusion/test_oracles.py."""

from __future__ import annotations

import gzip
import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from cases import examples
from hypothesis import assume, example, given
from hypothesis import strategies as st
from strategies import MODELS, PATHS, batch_of, column, increasing_map, measured, scores_of, seeds, weight

from rubrank import RLVR2, InvalidInput, ScoreBatch, attenuate, fuse, utilities

paths = pytest.mark.parametrize("path", PATHS)
models = st.sampled_from(MODELS)
links = st.sampled_from(("bradley-terry", "thurstone"))
pools = st.sampled_from(("group", "batch"))

LONGFORM = Path(__file__).parents[2].parent / "shared" / "data" / "longform_writing" / "scores.jsonl.gz"


def draw_weights(data, K):
    return np.array(data.draw(st.lists(weight, min_size=K, max_size=K)))


def draw_margins(data, K):
    return np.array(data.draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5]), min_size=K, max_size=K)))


# ---------------------------------------------------------------- 1: invariance


@paths
@given(st.data())
def test_any_increasing_map_leaves_rewards_bit_identical(path, data):
    """Property 1."""
    scores = data.draw(scores_of(path))
    model, prior = data.draw(models), data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    weights = draw_weights(data, scores.shape[1])
    rng = np.random.default_rng(data.draw(seeds))
    mapped = np.stack([increasing_map(scores[:, k], rng) for k in range(scores.shape[1])], axis=1)
    options = {"model": model, "prior": prior}
    assert np.array_equal(utilities(mapped, **options), utilities(scores, **options))
    assert np.array_equal(fuse(mapped, weights=weights, **options), fuse(scores, weights=weights, **options))


@given(st.data())
def test_any_increasing_map_where_another_criterion_has_a_margin(data):
    """Property 1, for a criterion without a margin in a small group that is sorted because of its neighbour's."""
    G = data.draw(st.integers(2, 12))
    scores = np.stack([data.draw(column(G)), data.draw(column(G))], axis=1)
    mapped = scores.copy()
    mapped[:, 0] = increasing_map(scores[:, 0], np.random.default_rng(data.draw(seeds)))
    margins = [0.0, 0.5]
    assert np.array_equal(utilities(mapped, margins=margins), utilities(scores, margins=margins))
    assert np.array_equal(fuse(mapped, margins=margins), fuse(scores, margins=margins))


@pytest.mark.parametrize("transform", [np.exp, np.sqrt, lambda x: 3 * x - 40, lambda x: x**3 * 1e100, np.arctan])
def test_real_judgements_on_another_scale(transform):
    """Property 1, on real chapters: 58 models scored 0–20 by a judge on 14 criteria."""
    if not LONGFORM.exists():
        pytest.skip(f"no {LONGFORM}")
    scores, groups = read_longform()
    assert np.array_equal(fuse(transform(scores), groups=groups), fuse(scores, groups=groups))
    small = scores[:8]
    assert np.array_equal(utilities(transform(small)), utilities(small))


def read_longform():
    with gzip.open(LONGFORM, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    names = sorted({name for row in rows for name in row["scores"]})
    scores = [[row["scores"].get(name, np.nan) for name in names] for row in rows]
    return np.array(scores, float), [f"{row['prompt_id']}/{row['part']}" for row in rows]


# ---------------------------------------------------------------- 2: permutation equivariance


@paths
@given(st.data())
def test_reordering_rollouts_reorders_rewards_bit_for_bit(path, data):
    """Property 2, without attributes; with and without margins."""
    scores = data.draw(scores_of(path))
    options = {"model": data.draw(models), "margins": data.draw(st.sampled_from([None, 0.3]))}
    order = np.random.default_rng(data.draw(seeds)).permutation(len(scores))
    weights = draw_weights(data, scores.shape[1])
    assert np.array_equal(utilities(scores[order], **options), utilities(scores, **options)[order])
    assert np.array_equal(
        fuse(scores[order], weights=weights, **options), fuse(scores, weights=weights, **options)[order]
    )


@paths
@given(st.data())
def test_rows_of_several_groups_in_any_order(path, data):
    """Property 2, for (M, K) with groups=: the rows of all groups shuffled together."""
    scores, groups = data.draw(batch_of(path))
    options = {
        "margins": data.draw(st.sampled_from([None, 0.3])),
        "span": data.draw(st.sampled_from(["model", "unit"])),
    }
    order = np.random.default_rng(data.draw(seeds)).permutation(len(scores))
    shuffled = fuse(scores[order], groups=groups[order], **options)
    assert np.array_equal(shuffled, fuse(scores, groups=groups, **options)[order])


@examples(40)
@given(st.data())
def test_reordering_rollouts_with_attributes(data):
    """Property 2, fitted: 1e-9, in the group and in rows shuffled over groups, pooled or not."""
    scores, groups = data.draw(batch_of("look-up"))
    attributes = data.draw(measured(len(scores)))
    order = np.random.default_rng(data.draw(seeds)).permutation(len(scores))
    options = {"pool": data.draw(pools), "model": data.draw(links)}
    u, gamma = utilities(scores, groups=groups, attributes=attributes, **options)
    again = utilities(scores[order], groups=groups[order], attributes=attributes[order], **options)
    by_first = [list(dict.fromkeys(groups)).index(label) for label in dict.fromkeys(groups[order])]
    np.testing.assert_allclose(again.utilities, u[order], rtol=0, atol=1e-9)
    np.testing.assert_allclose(again.gamma, gamma[by_first], rtol=0, atol=1e-9)


@examples(40)
@given(st.data())
def test_rewards_follow_the_reordering_with_attributes(data):
    """Property 2, fitted: rewards to 1e-9 of the utilities' spread, which min-max divides by."""
    scores = data.draw(scores_of("look-up", min_G=2))
    attributes = data.draw(measured(len(scores)))
    order = np.random.default_rng(data.draw(seeds)).permutation(len(scores))
    adjust = data.draw(st.sampled_from(["remove", attenuate(0.0), attenuate(0.5, "fixed")]))
    pool = data.draw(pools)
    fused = RLVR2(adjust=adjust, pool=pool)(ScoreBatch.of_arrays(scores, attributes=attributes))
    spread = np.ptp(fused.fused)
    assume(spread > 0.01 or fused.no_signal[0])
    again = fuse(scores[order], attributes=attributes[order], adjust=adjust, pool=pool)
    np.testing.assert_allclose(again, fused.ranking[order], rtol=0, atol=1e-9 / min(1.0, max(spread, 0.01)))


# ---------------------------------------------------------------- 3: order of criteria


@paths
@given(st.data())
def test_order_of_criteria_does_not_matter(path, data):
    """Property 3, to 1e-12."""
    scores = data.draw(scores_of(path))
    K = scores.shape[1]
    weights, margins = draw_weights(data, K), draw_margins(data, K)
    order = np.random.default_rng(data.draw(seeds)).permutation(K)
    plain = fuse(scores, weights=weights, margins=margins)
    assert np.array_equal(
        utilities(scores[:, order], margins=margins[order]), utilities(scores, margins=margins)[:, order]
    )
    again = fuse(scores[:, order], weights=weights[order], margins=margins[order])
    np.testing.assert_allclose(again, plain, rtol=0, atol=1e-12)


@paths
@given(st.data())
def test_a_criterion_twice_is_its_weight_twice(path, data):
    """Property 3, to 1e-12."""
    scores = data.draw(scores_of(path))
    weights = draw_weights(data, scores.shape[1])
    twice = weights.copy()
    twice[0] *= 2
    repeated = fuse(np.column_stack([scores, scores[:, 0]]), weights=[*weights, weights[0]])
    np.testing.assert_allclose(repeated, fuse(scores, weights=twice), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- 4: monotone


@paths
@given(st.data())
def test_better_everywhere_is_rewarded_more(path, data):
    """Property 4."""
    scores = data.draw(scores_of(path, min_G=2))
    weights = draw_weights(data, scores.shape[1])
    winner, loser = data.draw(st.permutations(range(len(scores))))[:2]
    one_missing = np.isnan(scores[[winner, loser]]).any(0)
    scores[winner], scores[loser] = np.where(
        one_missing, np.nan, [np.maximum(scores[winner], scores[loser]), np.minimum(scores[winner], scores[loser])]
    )
    assume((scores[winner] > scores[loser]).any())
    rewards = fuse(scores, weights=weights, model=data.draw(models), span=data.draw(st.sampled_from(["model", "unit"])))
    assert rewards[winner] > rewards[loser]


# ---------------------------------------------------------------- 5: criteria that say nothing


def silent_column(kind, G, rng):
    silent = np.full(G, {"constant": 3.5, "zeros": 0.0, "missing": np.nan}.get(kind, -7.0))
    if kind == "zeros":
        silent[rng.random(G) < 0.5] = -0.0
    if kind == "some missing":
        silent[rng.random(G) < 0.5] = np.nan
    if kind == "one scored":
        silent[1:] = np.nan
    return silent


silent_kinds = st.sampled_from(["constant", "zeros", "missing", "some missing", "one scored"])


@paths
@given(st.data())
def test_a_criterion_that_says_nothing_changes_nothing(path, data):
    """Property 5, bit for bit: tied over the whole group, or missing everywhere, or scored once."""
    scores = data.draw(scores_of(path))
    weights = draw_weights(data, scores.shape[1])
    rng = np.random.default_rng(data.draw(seeds))
    at = data.draw(st.integers(0, scores.shape[1]))
    silent = silent_column(data.draw(silent_kinds), len(scores), rng)
    longer, heavier = np.insert(scores, at, silent, axis=1), np.insert(weights, at, data.draw(weight))
    model = data.draw(models)
    assert not utilities(longer, model=model)[:, at].any()
    assert np.array_equal(fuse(longer, weights=heavier, model=model), fuse(scores, weights=weights, model=model))


@examples(40)
@given(st.data())
def test_a_criterion_that_says_nothing_changes_nothing_with_attributes(data):
    """Property 5, with attributes, whatever stays of them in the reward."""
    scores = data.draw(scores_of("look-up"))
    attributes = data.draw(measured(len(scores)))
    silent = silent_column(data.draw(silent_kinds), len(scores), np.random.default_rng(data.draw(seeds)))
    options = {
        "attributes": attributes,
        "pool": data.draw(pools),
        "adjust": data.draw(st.sampled_from(["remove", attenuate(0.0), attenuate(0.3, "fixed")])),
    }
    longer = np.column_stack([scores, silent])
    np.testing.assert_allclose(fuse(longer, **options), fuse(scores, **options), rtol=0, atol=1e-12)


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.0), attenuate(0.5, "fixed")])
def test_a_tied_group_has_no_ranking_in_a_pooled_batch(adjust):
    """Property 5: where every rollout ties, what other groups say about an attribute must not rank them."""
    rng = np.random.default_rng(0)
    attributes = rng.lognormal(size=(64, 8, 1))
    scores = rng.integers(0, 5, (64, 8, 1)) + 2.0 * (attributes > 1)
    scores[5] = 3.0
    rewards = fuse(scores, attributes=attributes, pool="batch", adjust=adjust)
    assert np.array_equal(rewards[5], np.full(8, 0.5))


# ---------------------------------------------------------------- 7: range of rewards


@paths
@given(st.data())
def test_best_is_one_and_worst_is_zero(path, data):
    """Property 7: or, without any ranking, 0.5 for everyone."""
    scores = data.draw(scores_of(path))
    options = {"weights": draw_weights(data, scores.shape[1]), "span": data.draw(st.sampled_from(["model", "unit"]))}
    if data.draw(st.booleans()):
        options["margins"] = draw_margins(data, scores.shape[1])
    if data.draw(st.booleans()):
        options["attributes"] = data.draw(measured(len(scores)))
    rewards = fuse(scores, **options)
    assert (np.all(rewards == 0.5)) or (rewards.min() == 0.0 and rewards.max() == 1.0)


def test_rewards_stay_in_range_under_extreme_weights():
    """Property 7: weights are allowed to be any finite number > 0."""
    scores = np.arange(8.0)[:, None] * [1, -0.3] % 1.7
    for scale in (1e-300, 1.7e308):
        np.testing.assert_allclose(fuse(scores, weights=[scale, scale / 2]), fuse(scores, weights=[1, 0.5]), atol=1e-12)


def test_no_ranking_is_a_half():
    """Property 7: one rollout; all tied; all missing; two criteria that cancel."""
    for scores in ([[3.0, 1.0]], [[2.0], [2.0], [2.0]], [[np.nan], [np.nan]], [[1, 0], [0, 1]], np.zeros((20, 3))):
        assert (fuse(scores) == 0.5).all()


# ---------------------------------------------------------------- 8: batch = one by one


@paths
@given(st.data())
def test_together_or_apart(path, data):
    """Property 8: bit for bit along one path; a small group beside a large one is sorted, and agrees to 1e-12."""
    scores, groups = data.draw(batch_of(path))
    options = {"model": data.draw(models), "span": data.draw(st.sampled_from(["model", "unit"]))}
    together = utilities(scores, groups=groups, model=options["model"])
    rewards = fuse(scores, groups=groups, **options)
    for label in np.unique(groups):
        rows = groups == label
        same_path = path == "look-up" or rows.sum() > 12
        tolerance = 0.0 if same_path else 1e-12
        np.testing.assert_allclose(
            together[rows], utilities(scores[rows], model=options["model"]), rtol=0, atol=tolerance
        )
        np.testing.assert_allclose(rewards[rows], fuse(scores[rows], **options), rtol=0, atol=1e3 * tolerance)


@examples(40)
@given(st.data())
def test_together_or_apart_with_attributes(data):
    """Property 8, fitted in each group."""
    scores, groups = data.draw(batch_of("look-up"))
    attributes = data.draw(measured(len(scores)))
    u, gamma = utilities(scores, groups=groups, attributes=attributes, pool="group")
    for g, (label, _) in enumerate(groupby(groups)):
        rows = groups == label
        alone = utilities(scores[rows], attributes=attributes[rows], pool="group")
        np.testing.assert_allclose(alone.utilities, u[rows], rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone.gamma, gamma[g], rtol=0, atol=1e-12)


@given(batch_of("look-up"))
def test_a_cube_of_groups_is_the_same_as_labelled_rows(batch):
    """Property 8, over input forms: (N, G, K) = (N·G, K) with groups=."""
    scores, _ = batch
    cube = np.stack([scores[:1], scores[-1:], scores[:1]])
    rows = cube.reshape(3, -1)
    assert np.array_equal(fuse(cube), fuse(rows, groups=[0, 1, 2]).reshape(3, 1))
    pairs = np.stack([np.concatenate([scores[:1], scores[-1:]])] * 2)
    assert np.array_equal(fuse(pairs), fuse(pairs.reshape(4, -1), groups=[0, 0, 1, 1]).reshape(2, 2))


# ---------------------------------------------------------------- 9: gamma


@examples(40)
@given(st.data())
def test_gamma_does_not_know_labels(data):
    """Property 9: exchanging two rollouts leaves γ unchanged."""
    scores = data.draw(scores_of("look-up", min_G=2))
    attributes = data.draw(measured(len(scores)))
    order = np.arange(len(scores))
    i, j = data.draw(st.permutations(range(len(scores))))[:2]
    order[[i, j]] = order[[j, i]]
    options = {"pool": data.draw(pools), "model": data.draw(links)}
    gamma = utilities(scores, attributes=attributes, **options).gamma
    exchanged = utilities(scores[order], attributes=attributes[order], **options).gamma
    np.testing.assert_allclose(exchanged, gamma, rtol=0, atol=1e-9)


@examples(40)
@given(st.data())
def test_the_unit_of_an_attribute_does_not_matter(data):
    """Property 9: to 1e-12 for powers of two, which do not round, and to 1e-9 for any factor."""
    scores = data.draw(scores_of("look-up"))
    attributes = data.draw(measured(len(scores)))
    pool = data.draw(pools)
    u, gamma = utilities(scores, attributes=attributes, pool=pool)
    doubled = utilities(scores, attributes=attributes * 2.0 ** data.draw(st.integers(-40, 40)), pool=pool)
    np.testing.assert_allclose(doubled.utilities, u, rtol=0, atol=1e-12)
    np.testing.assert_allclose(doubled.gamma, gamma, rtol=0, atol=1e-12)
    scaled = utilities(scores, attributes=attributes * data.draw(st.floats(1e-6, 1e6)), pool=pool)
    np.testing.assert_allclose(scaled.utilities, u, rtol=0, atol=1e-9)
    np.testing.assert_allclose(scaled.gamma, gamma, rtol=0, atol=1e-9)


@given(st.data())
def test_a_constant_attribute_has_no_coefficient(data):
    """Property 9's neighbour: z = 0, so γ = 0, and the utilities are those without attributes."""
    scores = data.draw(scores_of("look-up"))
    fitted = utilities(scores, attributes=np.full((len(scores), 1), 12.0))
    assert not fitted.gamma.any()
    np.testing.assert_allclose(fitted.utilities, utilities(scores), rtol=0, atol=1e-9)


# ---------------------------------------------------------------- 10: attenuate


def test_the_letter_at_one_is_remove_where_longer_always_wins():
    """Property 10 for pool="group"; the pooled forms are in test_control_properties.py."""
    scores = np.array([[1, 2], [2, 1], [3, 4], [4, 3], [5, 5]])
    lengths = {"attributes": np.array([[10], [20], [30], [40], [50]]), "pool": "group"}
    assert (utilities(scores, **lengths).gamma > 0).all()
    removed = fuse(scores, **lengths, adjust="remove")
    np.testing.assert_allclose(fuse(scores, **lengths, adjust=attenuate(1.0)), removed, rtol=0, atol=1e-12)
    assert not np.array_equal(fuse(scores, **lengths, adjust=attenuate(0.0)), removed)


# ---------------------------------------------------------------- the same numbers in other arrays


@paths
@given(st.data())
def test_how_an_array_lies_in_memory_does_not_matter(path, data):
    """Fortran order, strides, read-only: the same bits, and the caller's array is left alone."""
    scores = data.draw(scores_of(path))
    before, expected = scores.copy(), fuse(scores)
    spaced = np.full((2 * len(scores), 3 * scores.shape[1]), 99.0)
    spaced[::2, ::3] = scores
    frozen = scores.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(scores), spaced[::2, ::3], scores[::-1][::-1], frozen, scores.tolist()):
        assert np.array_equal(fuse(same), expected)
    assert np.array_equal(scores, before, equal_nan=True)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, object])
@given(data=st.data())
@examples(15)
def test_integers_and_booleans_are_scores(dtype, data):
    G, K = data.draw(st.integers(1, 15)), data.draw(st.integers(1, 4))
    whole = np.random.default_rng(data.draw(seeds)).integers(0, 2 if dtype is bool else 5, (G, K))
    assert np.array_equal(fuse(whole.astype(dtype)), fuse(whole.astype(float)))


@paths
@given(st.data())
@example(data=None)
def test_infinity_is_refused(path, data):
    """An infinity anywhere is an error that says where it stands in the caller's array."""
    if data is None:
        scores, sign, (row, k), order = np.zeros((13, 2)), -1, (12, 1), np.arange(13)[::-1]
    else:
        scores, sign = data.draw(scores_of(path)), data.draw(st.sampled_from([-1, 1]))
        row, k = data.draw(st.integers(0, len(scores) - 1)), data.draw(st.integers(0, scores.shape[1] - 1))
        order = np.random.default_rng(data.draw(seeds)).permutation(len(scores))
    scores[row, k] = sign * np.inf
    for options in ({}, {"margins": 1.0}, {"groups": np.arange(len(scores)) % 3}):
        with pytest.raises(InvalidInput, match=f"scores must be finite.*inf at row {row}, column {k}"):
            fuse(scores, **options)
    place = int(np.flatnonzero(order == row)[0])
    with pytest.raises(InvalidInput, match=f"row {place}, column {k}"):
        utilities(scores[order], groups=order % 2)


@given(scores_of("sorting"))
def test_negative_zero_is_zero(scores):
    zeros = np.where(np.abs(scores) < 0.5, 0.0, scores)
    signed = np.where((zeros == 0.0) & (np.arange(len(zeros))[:, None] % 2 == 0), -0.0, zeros)
    assert np.array_equal(utilities(signed), utilities(zeros))
    assert np.array_equal(utilities(signed[:8]), utilities(zeros[:8]))
