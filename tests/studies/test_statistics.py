"""Kappa, alpha, Kendall and Spearman agree with scikit-learn, SciPy, the krippendorff package and a published table."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from cases import examples, folded, spread, thinned
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from rubrank.errors import InvalidInput, UnknownName
from rubrank.studies.statistics import alpha, kappa, kendall, kendall_within, spearman, wilson

_ = None
# Four observers, twelve units, ratings 1 to 5: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=60)


def two_raters(n, seed, levels=5, noise=1):
    rng = np.random.default_rng(seed)
    a = rng.integers(1, levels + 1, n)
    return a, np.clip(a + rng.integers(-noise, noise + 1, n), 1, levels)


# --------------------------------------------------------------------------------------------------------------- kappa


@folded("weights", [None, "linear", "quadratic"])
@folded("seed", range(5))
def test_kappa_is_that_of_scikit_learn(weights, seed):
    a, b = two_raters(200, seed)
    assert kappa(a, b, weights=weights).value == pytest.approx(cohen_kappa_score(a, b, weights=weights), abs=1e-12)


def test_kappa_by_hand():
    # 2 × 2: 20 both yes, 15 both no, 5 and 10 apart; observed 0.7, expected 0.5.
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert kappa(a, b).value == pytest.approx(0.4)


def test_distances_are_those_of_the_values():
    """Nobody said 3: scikit-learn counts places in the list, unless told of it."""
    a, b = [1, 2, 5, 5, 1, 2], [1, 5, 5, 2, 1, 2]
    told = cohen_kappa_score(a, b, weights="quadratic", labels=[1, 2, 3, 4, 5])
    assert kappa(a, b, weights="quadratic").value == pytest.approx(told)
    assert kappa(a, b, weights="quadratic").value != pytest.approx(cohen_kappa_score(a, b, weights="quadratic"))


def test_what_one_rater_left_out_does_not_count():
    a, b = [1, 2, None, 3, 3], [1, 2, 3, 2, math.nan]
    assert kappa(a, b) == kappa([1, 2, 3], [1, 2, 2])
    assert kappa(a, b).n == 3


def test_without_variation_there_is_no_kappa():
    found = kappa([2, 2, 2], [2, 2, 2], bootstrap=50)
    assert math.isnan(found.value)
    assert math.isnan(found.low)


# --------------------------------------------------------------------------------------------------------------- alpha


@pytest.mark.parametrize(("metric", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_table(metric, published):
    found = alpha(OBSERVERS, metric=metric)
    assert found.value == pytest.approx(published, abs=5e-4)
    assert found.n == 11  # one unit was rated once: it says nothing


# What krippendorff 0.9.0 gives for `random_ratings(seed)`, see the function; made once, in an environment of its own.
KRIPPENDORFF = {
    0: {"nominal": 0.328498775664, "ordinal": 0.810942207314, "interval": 0.815336719646},
    1: {"nominal": 0.215695600476, "ordinal": 0.707518406654, "interval": 0.720448478377},
    2: {"nominal": 0.267844677138, "ordinal": 0.785245398106, "interval": 0.792525599569},
}


def random_ratings(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 6, 40)
    ratings = np.clip(truth + rng.integers(-1, 2, (4, 40)), 1, 5).astype(float)
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    return ratings


@folded("metric", ["nominal", "ordinal", "interval"])
@folded("seed", KRIPPENDORFF)
def test_alpha_is_that_of_the_krippendorff_package(metric, seed):
    assert alpha(random_ratings(seed), metric=metric).value == pytest.approx(KRIPPENDORFF[seed][metric], abs=1e-9)


def brute_alpha(ratings, distance):
    """The definition, value by value."""
    units = [[x for x in column if x == x] for column in np.asarray(ratings, float).T]
    units = [unit for unit in units if len(unit) > 1]
    every = [x for unit in units for x in unit]
    n = len(every)
    observed = sum(distance(x, y) / (len(unit) - 1) for unit in units for x in unit for y in unit) / n
    expected = sum(distance(x, y) for x in every for y in every) / (n * (n - 1))
    return 1.0 - observed / expected


@pytest.mark.parametrize("seed", range(3))
def test_alpha_is_its_definition(seed):
    ratings = random_ratings(seed)
    paired = ratings[:, (~np.isnan(ratings)).sum(0) > 1]
    counts = {v: int((paired == v).sum()) for v in range(1, 6)}

    def ordinal(x, y):
        low, high = int(min(x, y)), int(max(x, y))
        return (sum(counts[v] for v in range(low, high + 1)) - (counts[low] + counts[high]) / 2) ** 2

    assert alpha(ratings, metric="nominal").value == pytest.approx(brute_alpha(ratings, lambda x, y: x != y))
    assert alpha(ratings, metric="interval").value == pytest.approx(brute_alpha(ratings, lambda x, y: (x - y) ** 2))
    assert alpha(ratings, metric="ordinal").value == pytest.approx(brute_alpha(ratings, ordinal))


def test_alpha_of_texts_and_of_nothing():
    assert alpha([["a", "b", "b"], ["a", "b", None]], metric="nominal").value == 1.0
    assert math.isnan(alpha([[1, None], [None, 1]]).value)
    assert math.isnan(alpha([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]).value)


# ------------------------------------------------------------------------------------------------------------- ranking


@given(TIED)
def test_kendall_and_spearman_are_those_of_scipy(pairs):
    a, b = np.array(pairs, float).T
    if np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        assert math.isnan(kendall(a, b).value)
        assert math.isnan(spearman(a, b).value)
        return
    assert kendall(a, b).value == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12)
    assert spearman(a, b).value == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_kendall_within_groups_is_the_mean_of_those_in_which_there_is_one():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(20), 6)
    order = rng.permutation(120)  # rows of a group need not stand together
    a, b = rng.integers(0, 4, (2, 120)).astype(float)
    a[groups == 3] = 1.0
    b[rng.random(120) < 0.1] = np.nan
    taus = []
    for g in range(20):
        known = (groups == g) & ~np.isnan(b)
        if np.ptp(a[known]) and np.ptp(b[known]):
            taus.append(stats.kendalltau(a[known], b[known]).statistic)
    found = kendall_within(a[order], b[order], groups=groups[order])
    assert found.value == pytest.approx(np.mean(taus))
    assert found.n == len(taus) < 20


# ----------------------------------------------------------------------------------------------------------- intervals

COEFFICIENTS = {
    "kappa": lambda a, b, **o: kappa(a, b, weights="quadratic", **o),
    "linear kappa": lambda a, b, **o: kappa(a, b, weights="linear", **o),
    "nominal kappa": kappa,
    "alpha": lambda a, b, **o: alpha([a, b], **o),
    "nominal alpha": lambda a, b, **o: alpha([a, b], metric="nominal", **o),
    "kendall": kendall,
    "spearman": spearman,
}


@folded("name", COEFFICIENTS)
def test_a_draw_is_the_coefficient_of_the_rows_drawn(name):
    """Weights stand for repeated rows: the ends of the interval are those of a bootstrap that repeats them."""
    a, b = two_raters(60, 3)
    clusters = np.repeat(np.arange(12), 5)
    found = COEFFICIENTS[name](a, b, clusters=clusters, bootstrap=40, seed=5)
    drawn = np.random.default_rng(5).integers(12, size=(40, 12))
    again = []
    for row in drawn:
        rows = np.concatenate([np.flatnonzero(clusters == c) for c in row])
        again.append(COEFFICIENTS[name](a[rows], b[rows]).value)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(again, [0.025, 0.975])))


def test_the_seed_decides_the_draws():
    a, b = two_raters(40, 0)
    assert kappa(a, b, bootstrap=100, seed=3) == kappa(a, b, bootstrap=100, seed=3)
    assert kappa(a, b, bootstrap=100, seed=3) != kappa(a, b, bootstrap=100, seed=4)


def test_a_missing_scipy_is_one_message_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert kappa([1, 2, 3], [1, 2, 2]).value == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match=r"pip install 'rubrank\[studies\]'"):
        kendall([1, 2, 3], [1, 2, 2])


@pytest.mark.parametrize("name", thinned(["kappa", "alpha", "kendall", "spearman"]))
def test_intervals_cover(name):
    """95% intervals of samples of 150 hold the value of 30,000 in at least 85% of the cases, and are not endless."""
    a, b = two_raters(30_000, 0, noise=2)
    truth = COEFFICIENTS[name](a, b).value
    starts = spread(range(0, 15_000, 150))
    intervals = [COEFFICIENTS[name](a[i : i + 150], b[i : i + 150], bootstrap=100) for i in starts]
    assert np.mean([interval.low <= truth <= interval.high for interval in intervals]) >= 0.85
    assert np.mean([interval.high - interval.low for interval in intervals]) < 0.25


def test_clusters_widen_the_interval():
    """Ten copies of every unit are no more information than one."""
    a, b = two_raters(40, 1)
    clusters = np.repeat(np.arange(40), 10)
    a, b = np.repeat(a, 10), np.repeat(b, 10)
    honest, naive = (kappa(a, b, bootstrap=300, clusters=c) for c in (clusters, None))
    assert honest.high - honest.low > 2 * (naive.high - naive.low)


@examples(30)
@given(st.integers(1, 200), st.data())
def test_wilson_is_that_of_scipy(n, data):
    wins = data.draw(st.integers(0, n))
    theirs = stats.binomtest(wins, n).proportion_ci(0.95, method="wilson")
    assert (wilson(wins, n).low, wilson(wins, n).high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_of_nothing():
    assert math.isnan(wilson(0, 0).value)


# -------------------------------------------------------------------------------------------------------------- errors


@folded(
    ("call", "message"),
    [
        (lambda: kappa([1, 2], [1]), "ratings must be of at least two raters"),
        (lambda: alpha([[1, 2]]), "at least two raters"),
        (
            lambda: kappa(["a"], ["b"], weights="linear"),
            "ratings must be numbers; got could not convert string to float: 'a'",
        ),
        (lambda: alpha([["a"], ["b"]]), "ratings must be numbers; got could not convert string to float: 'a'"),
        (lambda: alpha([[1, math.inf], [1, 2]]), "ratings must be finite"),
        (lambda: kendall([1, 2], [1, 2, 3]), "ratings must be of at least two raters, each a list of one"),
        (lambda: spearman([1, math.inf], [1, 2]), "infinity"),
        (lambda: kendall(["x"], [1]), "ratings must be numbers"),
        (lambda: kappa([1], [1], bootstrap=-1), "bootstrap and seed must be whole numbers ≥ 0"),
        (lambda: kappa([1], [1], seed=-1), "bootstrap and seed must be whole numbers ≥ 0"),
        (lambda: kappa([1, 2], [1, 2], clusters=["a"]), "clusters must be 2 labels"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_unknown_names():
    with pytest.raises(UnknownName, match="Did you mean 'quadratic'"):
        kappa([1], [1], weights="quadratc")
    with pytest.raises(UnknownName, match="'ordinal'"):
        alpha([[1], [1]], metric="ratio")
