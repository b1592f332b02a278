"""Vector arithmetic lane by lane against NumPy."""

from __future__ import annotations

import numpy as np
from cases import folded
from numba import njit

from rubrank.fusion.models.lanes import (
    LANES,
    any_positive,
    exponential,
    fma,
    larger,
    load,
    magnitude,
    minus_product,
    root,
    smaller,
    splat,
    store,
    where_greater,
)


@njit
def arithmetic(a, b, c, out):
    x, y, w = load(a, 0), load(b, 0), load(c, 0)
    store(out, 0, x + y)
    store(out, 1, x - y)
    store(out, 2, x * y)
    store(out, 3, x / y)
    store(out, 4, fma(x, y, w))
    store(out, 5, minus_product(w, x, y))
    store(out, 6, magnitude(x))
    store(out, 7, root(magnitude(x)))
    store(out, 8, splat(2.5))


@njit
def choices(a, b, yes, no, out):
    x, y = load(a, 0), load(b, 0)
    store(out, 0, larger(x, y))
    store(out, 1, smaller(x, y))
    store(out, 2, where_greater(x, y, load(yes, 0), load(no, 0)))
    return any_positive(x)


@njit
def exponentials(x, out):
    for row in range(x.shape[0]):
        store(out, row, exponential(load(x, row)))


def row(values):
    return np.resize(np.asarray(values, float), (1, LANES)).copy()


def test_arithmetic():
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 1, LANES))
    out = np.empty((9, LANES))
    arithmetic(a, b, c, out)
    a, b, c = a[0], b[0], c[0]
    assert np.array_equal(out[:4], [a + b, a - b, a * b, a / b])
    np.testing.assert_allclose(out[4:6], [a * b + c, c - a * b], rtol=0, atol=1e-15)  # fused: one rounding less
    assert np.array_equal(out[6:], [np.abs(a), np.sqrt(np.abs(a)), np.full(LANES, 2.5)])


def test_choices_with_nan():
    a, b = row([1.0, 2.0, np.nan, 1.0, np.nan]), row([2.0, 1.0, 3.0, np.nan, np.nan])
    out = np.empty((3, LANES))
    choices(a, b, row([10.0]), row([20.0]), out)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(out[0], np.where(a > b, a, b)[0], equal_nan=True)
        assert np.array_equal(out[1], np.where(a < b, a, b)[0], equal_nan=True)
        assert np.array_equal(out[2], np.where(a > b, 10.0, 20.0)[0])
    assert out[2].tolist()[:5] == [20.0, 10.0, 20.0, 20.0, 20.0]


@folded("lane", range(LANES))
def test_any_positive_sees_every_lane(lane):
    out = np.empty((3, LANES))
    for value, expected in ((1e-300, True), (0.0, False), (-1.0, False), (np.nan, False)):
        a = np.zeros((1, LANES))
        a[0, lane] = value
        assert choices(a, a, a, a, out) == expected


def test_exponential():
    x = np.concatenate([np.linspace(-700, 700, 80_001), np.linspace(-2, 2, 10_001), [0.0, -0.0, 1e-300, -700, 700]])
    x = np.resize(x, (-(-len(x) // LANES), LANES))
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-12)


def test_exponential_is_clamped():
    x = row([-701.0, 701.0, -1e308, 1e308, -np.inf, np.inf])
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(np.clip(x, -700, 700)), rtol=1e-12)
