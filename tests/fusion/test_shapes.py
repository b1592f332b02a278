"""The memory of solved orderings: growth, limits, users' models, and scores that are hard to sort."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded
from scipy.stats import rankdata

from rubrank import InvalidInput, fuse, utilities, utility_model
from rubrank.fusion.models import BordaCount, BradleyTerry, shapes
from rubrank.fusion.models.model import UtilityModel, find_model, model_names
from rubrank.fusion.models.shapes import ShapeTable


def borda(scores):
    """wins − losses over two, from ranks: what model="borda" must say, by another way; NaN is not compared."""
    expected = np.zeros_like(scores)
    for k in range(scores.shape[1]):
        present = ~np.isnan(scores[:, k])
        ranks = rankdata(scores[present, k])
        expected[present, k] = ranks - (present.sum() + 1) / 2
    return expected


TABLES = 16  # pairs of a model and a prior that are remembered. A new instance of a model begins with an empty table.


# ------------------------------------------------------------------------------------- growth and limits


def test_many_shapes_in_one_call():
    """Thousands of shapes, all new at once; then all known."""
    model = BordaCount()
    scores = np.random.default_rng(0).integers(0, 12, (40, 4000)).astype(float)
    first = utilities(scores, model=model)
    np.testing.assert_allclose(first, borda(scores))
    assert np.array_equal(utilities(scores, model=model), first)


def test_shapes_keep_their_values_while_the_table_grows():
    model = BradleyTerry()
    rng = np.random.default_rng(1)
    early = rng.integers(0, 4, (35, 30)).astype(float)
    before = utilities(early, model=model)
    utilities(rng.integers(0, 14, (35, 3000)).astype(float), model=model)
    assert np.array_equal(utilities(early, model=model), before)


@pytest.mark.slow
@pytest.mark.parametrize("G", [13, 16, 31, 32])
def test_many_shapes_of_groups_that_are_compared_but_not_indexed(G):
    """Groups just beyond the indexed sizes, with and without missing scores."""
    model = BordaCount()
    rng = np.random.default_rng(G)
    scores = rng.integers(0, 12, (G, 9000)).astype(float)
    scores[:, ::3][rng.random((G, 3000)) < 0.2] = np.nan
    for _ in range(2):  # solved, then looked up
        np.testing.assert_allclose(utilities(scores, model=model), borda(scores))


def test_a_full_table_is_emptied(monkeypatch):
    monkeypatch.setattr(shapes, "_MOST_VALUES", 100)
    model = BordaCount()
    rng = np.random.default_rng(2)
    for G in (5, 14, 14, 36, 36, 9):
        scores = rng.integers(0, 9, (G, 40)).astype(float)
        np.testing.assert_allclose(utilities(scores, model=model), borda(scores))


def test_more_scores_than_are_sorted_at_a_time(monkeypatch):
    scores = np.random.default_rng(3).integers(0, 5, (30, 34, 3)).astype(float)
    expected = utilities(scores)
    monkeypatch.setattr(shapes, "_SCORES_AT_ONCE", 100)
    assert np.array_equal(utilities(scores, model=BradleyTerry()), expected)


def test_many_priors():
    """A sweep over priors forgets the oldest tables and gets the same numbers when it comes back."""
    scores = np.random.default_rng(4).normal(size=(5, 2))
    priors = np.linspace(0.1, 4.0, 3 * TABLES)
    first = [utilities(scores, prior=prior) for prior in priors]
    for prior, expected in zip(priors, first, strict=True):
        assert np.array_equal(utilities(scores, prior=prior), expected)
    spans = [np.ptp(u) for u in first]
    assert np.all(np.diff(spans) < 0)


def test_small_table_is_the_sorting_table():
    """The two ways of solving a shape agree to rounding, for all weak orders of up to nine rollouts."""
    for n in range(1, 10):
        bits = (np.arange(1 << (n - 1))[:, None] >> np.arange(n - 1)) & 1
        scores = np.concatenate([np.zeros((1, len(bits))), bits.T.cumsum(0)]).astype(float)
        np.testing.assert_allclose(utilities(scores, margins=0.5), utilities(scores), rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------------------------ users' models


def test_a_users_model():
    """The example at the top of models/model.py, small and large groups."""

    @utility_model
    class Copeland:
        name = "test-copeland"

        def fit(self, wins, ridge):
            return np.sign(wins - wins.swapaxes(-1, -2)).sum(-1) / ridge

    assert isinstance(find_model("test-copeland"), UtilityModel)
    assert "test-copeland" in model_names()
    scores = np.array([[1.0, 5.0], [2.0, 3.0], [3.0, 4.0]])
    assert utilities(scores, model="test-copeland").tolist() == [[-2, 2], [0, -2], [2, 0]]
    assert np.array_equal(fuse(scores, model="test-copeland", weights=[3, 1]), [0.0, 0.2, 1.0])
    distinct = np.random.default_rng(0).permutation(20).astype(float)[:, None]
    np.testing.assert_allclose(utilities(distinct, model="test-copeland"), 2 * distinct - 19)


def test_a_new_model_of_the_same_name_replaces_the_old():
    class Constant:
        name = "test-sign"

        def __init__(self, sign):
            self.sign = sign

        def fit(self, wins, ridge):
            return self.sign * (wins.sum(-1) - wins.sum(-2)) / ridge

    utility_model(Constant(1))
    up = fuse([[1.0], [2.0]], model="test-sign")
    utility_model(Constant(-1))
    assert np.array_equal(fuse([[1.0], [2.0]], model="test-sign"), 1 - up)
    assert np.array_equal(fuse([[1.0], [2.0]], model=Constant(1)), up)


@folded("G", [3, 20])
@folded(
    ("answer", "got"),
    [
        (lambda wins, ridge: ridge[..., :1], "shape"),
        (lambda wins, ridge: ridge.sum(), r"shape \(\)"),
        (lambda wins, ridge: ridge * np.nan, "NaN or infinity"),
        (lambda wins, ridge: ridge * np.inf, "NaN or infinity"),
    ],
)
def test_a_model_with_a_wrong_answer(answer, got, G):
    class Wrong:
        name = "wrong"

        def fit(self, wins, ridge):
            return answer(wins, ridge)

    model = Wrong()
    scores = np.arange(2.0 * G).reshape(G, 2)
    for _ in range(2):  # the second time it must not find half-solved shapes
        with pytest.raises(InvalidInput, match=got) as raised:
            fuse(scores, model=model)
        assert raised.value.owner == "utility model 'wrong'"
        assert raised.value.parameter == "fit(wins, ridge)"


@pytest.mark.parametrize("model", [object(), type("NoFit", (), {"name": "x"}), type("NoName", (), {"fit": print})])
def test_what_is_not_a_model_is_not_registered(model):
    with pytest.raises(InvalidInput, match=r"utility_model: model must be .*`name` and such a `fit`"):
        utility_model(model)


# ------------------------------------------------------------------------------------------------------ hard to sort


@pytest.mark.slow
@folded("G", [13, 31, 32, 33, 64, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 600])
def test_group_sizes(G):
    """With ties and missing scores."""
    rng = np.random.default_rng(G)
    scores = np.column_stack([rng.normal(size=G), rng.integers(0, 7, G), rng.permutation(G), np.full(G, 2.0)])
    scores[rng.random(scores.shape) < 0.1] = np.nan
    np.testing.assert_allclose(utilities(scores, model="borda"), borda(scores), atol=1e-9)


@folded("G", [13, 300, 2000])
@folded("base", [1.0, -1.0, 1e-310, -1e300])
def test_scores_that_differ_in_the_last_bits(G, base):
    rng = np.random.default_rng(G)
    bits = np.float64(base).view(np.int64) + np.arange(G)
    steps = bits.view(np.float64)
    assert len(np.unique(steps)) == G
    few = steps[rng.integers(0, 5, G)]
    scores = np.column_stack([rng.permutation(steps), few, steps[::-1], steps])
    assert np.array_equal(utilities(scores, model="borda"), borda(scores))


@pytest.mark.slow
def test_neighbouring_scores_in_a_fitted_model():
    """600 rollouts at 1 + i·eps, shuffled: the order decides, as for any other 600 distinct scores."""
    order = np.random.default_rng(0).permutation(600)
    close = 1.0 + order * np.finfo(float).eps
    rewards = fuse(close[:, None])
    assert np.array_equal(np.argsort(rewards), np.argsort(order))
    assert np.array_equal(rewards, fuse(order[:, None].astype(float)))


@pytest.mark.parametrize("G", [4, 12, 13, 300])
def test_signed_zeros_tie(G):
    zeros = np.where(np.arange(G) % 2, 0.0, -0.0)
    scores = np.column_stack(
        [zeros, np.where(np.arange(G) == 1, 5e-324, zeros), np.where(np.arange(G) == 1, -1.0, zeros)]
    )
    assert np.array_equal(utilities(scores, model="borda"), borda(scores))
    assert not utilities(scores)[:, 0].any()


@pytest.mark.parametrize("G", [7, 40, 300])
def test_margins_by_sorting_and_by_comparing_all_pairs(G):
    rng = np.random.default_rng(G)
    scores = np.column_stack([rng.normal(size=G), rng.integers(0, 20, G), rng.normal(size=G) * 1e300])
    margins = np.array([0.3, 2.0, 1e299])
    difference = scores[:, None] - scores[None]
    expected = ((difference > margins).sum(1) - (difference < -margins).sum(1)) / 2
    assert np.array_equal(utilities(scores, margins=margins, model="borda"), expected)


def test_a_table_is_made_for_a_model_and_a_prior():
    model = BradleyTerry()
    table = shapes.find_shape_table(model, 1.0)
    assert isinstance(table, ShapeTable)
    assert shapes.find_shape_table(model, 1.0) is table
    assert shapes.find_shape_table(model, 2.0) is not table
    assert shapes.find_shape_table(BradleyTerry(), 1.0) is not table


@pytest.mark.parametrize("G", [257, 300, 512, pytest.param(1000, marks=pytest.mark.slow)])
def test_large_groups_whose_scores_are_hard_to_sort(G):
    rng = np.random.default_rng(G)
    scores = np.stack(
        [
            1.0 + 1e-15 * rng.permutation(G),  # differ in the last bits
            np.where(np.arange(G) == 5, -1e300, 1.0 + 1e-12 * rng.permutation(G)),  # and one far away
            rng.choice([-0.0, 0.0, -5e-324, 5e-324], G),
            rng.normal(size=G) * 10.0 ** rng.integers(-300, 300, G),
            np.where(rng.random(G) < 0.3, np.nan, rng.integers(0, 5, G).astype(float)),
            np.full(G, np.nan),
            np.where(np.arange(G) == G - 1, 3.0, np.nan),
            np.arange(G)[::-1].astype(float),
            np.full(G, 7.0),
        ],
        axis=1,
    )
    np.testing.assert_allclose(utilities(scores, model="borda"), borda(scores))
    permuted = rng.permutation(G)
    assert np.array_equal(fuse(scores)[permuted], fuse(scores[permuted]))


def test_an_infinite_score_in_a_large_group_is_refused():
    scores = np.random.default_rng(0).normal(size=(400, 3))
    scores[399, 2] = -np.inf
    with pytest.raises(InvalidInput, match="-inf at row 399, column 2"):
        fuse(scores)
