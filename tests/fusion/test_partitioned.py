"""An estimate over a batch, used to fuse parts of the batch one by one, gives the rewards of the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rubrank import RLVR2, ScoreBatch, attenuate


def groups(rng, N, K=3, D=2, missing=0.1, sizes=(2, 3, 4, 8)):
    """Groups of several sizes; a judge that likes the first attribute."""
    found = []
    for _ in range(N):
        n = int(rng.choice(sizes))
        attributes = rng.lognormal(5.0, 0.6, (n, D))
        scores = np.round(rng.normal(size=(n, K)) + 1.2 * np.log(attributes[:, :1]))
        scores[rng.random((n, K)) < missing] = np.nan
        scores[:, -1] = 1.0 if rng.random() < 0.3 else scores[:, -1]  # silent in some groups
        found.append((scores, attributes))
    return found


def batch_of(some, first=0):
    labels = np.repeat(np.arange(first, first + len(some)), [len(scores) for scores, _ in some])
    scores, attributes = (np.concatenate(list(column)) for column in zip(*some, strict=True))
    names = [f"c{k}" for k in range(scores.shape[1])]
    return ScoreBatch.of_arrays(scores, groups=labels, criteria=names, attributes=attributes, margins={"c0": 0.5})


def parts_of(some, cuts):
    edges = [0, *cuts, len(some)]
    return [batch_of(some[a:b], a) for a, b in pairwise(edges) if b > a]


def test_the_order_of_groups_does_not_matter():
    rng = np.random.default_rng(5)
    rule, some = RLVR2(adjust="remove"), groups(rng, 60)
    here = rule.estimate(batch_of(some)).estimate
    assert (here.shrunk_KD != 0.0).any()
    there = rule.estimate(batch_of([some[i] for i in rng.permutation(60)])).estimate
    for name in here.__dataclass_fields__:
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5), attenuate(0.5, "bernoulli"), ["remove", attenuate(1.0)]])
@pytest.mark.parametrize("span", ["model", "sd"])
def test_parts_are_fused_to_the_same_rewards(adjust, span):
    rule, some = RLVR2(adjust=adjust, span=span), groups(np.random.default_rng(3), 50)
    whole = rule(batch_of(some))
    apart = RLVR2(adjust=adjust, span=span, batch_estimate=rule.estimate(batch_of(some)))
    assert apart.local
    assert not rule.local
    fused = [apart(batch) for batch in parts_of(some, [7, 8, 31])]
    np.testing.assert_allclose(np.concatenate([part.reward for part in fused]), whole.reward, rtol=0, atol=1e-11)
    for name in ("gamma_NKD", "se_NKD", "shrunk_NKD", "n_NK", "taken_NKD", "contrasts_MD", "values_MK"):
        parts = np.concatenate([getattr(part.control, name) for part in fused])
        np.testing.assert_allclose(parts, getattr(whole.control, name), rtol=1e-10, atol=1e-11, err_msg=name)
