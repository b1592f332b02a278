"""What hypothesis draws for the property tests: groups of scores of every awkward kind.

    scores_of(path)      one group (G, K)                         path says which way the library will take:
    batch_of(path)       ragged groups (M, K) with labels             "look-up"   at most 12 rollouts, no margins
    measured(G)          attributes (G, D) ≥ 0                        "sorting"   more than 12 rollouts

Columns are drawn from a few values (ties are the rule, not the exception) that hypothesis picks among yes/no answers,
grades, doubles of any size, both zeros, and neighbours that differ in the last bit. Some scores are missing.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

MODELS = ("bradley-terry", "thurstone", "borda")
PATHS = ("look-up", "sorting")

_SIZES = {"look-up": st.integers(1, 12), "sorting": st.integers(13, 24)}
_VALUES = (
    st.sampled_from([0.0, 1.0]),
    st.integers(0, 5).map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 0.0, 5e-324, -5e-324, 1.7e308, -1.7e308]),
    st.integers(-3, 3).map(lambda steps: 1.0 + steps * np.finfo(float).eps),
)

seeds = st.integers(0, 2**32 - 1)
weight = st.integers(1, 40).map(lambda tenths: tenths / 10)


@st.composite
def column(draw, G: int, missing: bool = True) -> np.ndarray:
    """Scores of G rollouts on one criterion, in (G,)."""
    rng = np.random.default_rng(draw(seeds))
    if draw(st.booleans()):
        scores = rng.choice(draw(st.lists(draw(st.sampled_from(_VALUES)), min_size=1, max_size=6)), G)
    else:
        scores = rng.normal(size=G)
    if missing and draw(st.integers(0, 3)) == 0:
        scores[rng.random(G) < rng.choice([0.2, 0.5, 1.0])] = np.nan
    return scores


@st.composite
def scores_of(draw, path: str, missing: bool = True, min_G: int = 1) -> np.ndarray:
    """One group, (G, K)."""
    G = max(min_G, draw(_SIZES[path]))
    return np.stack([draw(column(G, missing)) for _ in range(draw(st.integers(1, 5)))], axis=1)


@st.composite
def batch_of(draw, path: str) -> tuple[np.ndarray, np.ndarray]:
    """Groups of different sizes, each without scores on the criteria it does not use: (M, K), labels (M,)."""
    K = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    if path == "sorting":
        sizes.append(draw(_SIZES[path]))
    rng = np.random.default_rng(draw(seeds))
    groups = []
    for G in sizes:
        group = np.stack([draw(column(G)) for _ in range(K)], axis=1)
        group[:, rng.random(K) < 0.2] = np.nan
        groups.append(group)
    return np.concatenate(groups), np.repeat(rng.permutation(100)[: len(sizes)], sizes)


@st.composite
def measured(draw, G: int, max_D: int = 3) -> np.ndarray:
    """Attributes of G rollouts, (G, D): lengths, small counts with many zeros, and constants."""
    rng = np.random.default_rng(draw(seeds))
    kinds = draw(st.lists(st.sampled_from(["length", "count", "constant"]), min_size=1, max_size=max_D))
    columns = {
        "length": lambda: np.round(rng.lognormal(6.0, 0.7, G)),
        "count": lambda: rng.poisson(0.8, G).astype(float),
        "constant": lambda: np.full(G, 7.0),
    }
    return np.stack([columns[kind]() for kind in kinds], axis=1)


def increasing_map(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random strictly increasing map of one criterion's scores: each level to some larger double than the last."""
    mapped = np.full(scores.shape, np.nan)
    present = ~np.isnan(scores)
    levels, level = np.unique(scores[present], return_inverse=True)
    if len(levels):
        mapped[present] = _larger_and_larger(len(levels), rng)[level]
    return mapped


def _larger_and_larger(count: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct doubles in increasing order; as integers their bits are in the same order, so draw those."""
    style = rng.integers(3)
    if style == 0:
        return np.unique(rng.integers(0, 0x7FEFFFFFFFFFFFFF, 2 * count + 8))[:count].view(float)
    if style == 1:
        return -np.unique(rng.integers(0, 0x7FEFFFFFFFFFFFFF, 2 * count + 8))[:count].view(float)[::-1]
    return (np.float64(1.0).view(np.int64) + np.arange(count)).view(float)
