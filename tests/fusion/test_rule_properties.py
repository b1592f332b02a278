"""Every rule on batches of every awkward kind: as the plain version says, finite, blind to order, local."""

from __future__ import annotations

import numpy as np
import pytest
from batches import batches, only, permuted, plain
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from plain_rules import PLAIN, weighted_mean

from rubrank.fusion.rules import find_rule, rule_names
from rubrank.scores.batch import ScoreBatch

drawn = examples(40)

EVERY = (*rule_names(), "rlrr-hybrid", "gear:method=exact", "gear:method=hard:normalise=absolute", "rvpo:kappa=inf")
COMPOSED = ("rlvr2*focal", "rlvr2*sa-mrpo", "rlvr2*dvao", "rlvr2*amrp", "rlvr2*pow3r")
# Rules whose value for one group depends on other groups of the batch.
WHOLE_BATCH = {"gdpo", "sa-mrpo", "amrp", "chebyshev", "run-quantile", "rlvr2*sa-mrpo", "rlvr2*amrp"}
LOCAL = [name for name in (*EVERY, *COMPOSED) if name not in WHOLE_BATCH]


@pytest.mark.parametrize("name", PLAIN)
@drawn
@given(batch=batches())
def test_as_the_plain_version_says(name, batch):
    expected = [value for group in plain(batch) for value in PLAIN[name](group)]
    assert find_rule(name)(batch).value_M == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", [*EVERY, *COMPOSED, *(f"{name}+" for name in (*EVERY, *COMPOSED))])
@drawn
@given(batch=batches())
def test_finite_and_within_bounds(name, batch):
    rule = find_rule(name)
    result = rule(batch)
    assert result.reward.shape == (len(batch.scores_MK),)
    assert np.isfinite(result.value_M).all()
    assert np.isfinite(result.reward).all()
    if rule.bounded:
        assert (result.reward >= 0.0).all()
        assert (result.reward <= 1.0 + 1.1e-3).all()  # the geometric mean reaches 1 + ε
    assert result.no_signal.shape == (batch.N,)


@pytest.mark.parametrize("name", [*EVERY, *COMPOSED])
@drawn
@given(batch=batches(), seed=st.integers(0, 1000))
def test_order_of_rollouts_does_not_matter(name, batch, seed):
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [start + rng.permutation(size) for start, size in zip(batch.starts[:-1], batch.sizes, strict=True)]
    )
    there = find_rule(name)(batch).value_M
    assert find_rule(name)(permuted(batch, order)).value_M == pytest.approx(there[order], abs=1e-9)


@pytest.mark.parametrize("name", LOCAL)
@drawn
@given(batch=batches())
def test_groups_are_independent(name, batch):
    whole = find_rule(name)(batch).value_M
    apart = np.concatenate([find_rule(name)(only(batch, g)).value_M for g in range(batch.N)])
    assert whole == pytest.approx(apart, abs=1e-9)


@pytest.mark.parametrize("name", sorted(WHOLE_BATCH - {"rlvr2*sa-mrpo", "rlvr2*amrp"}))
def test_the_others_look_at_the_whole_batch(name):
    """The list above is not longer than it has to be."""

    batch = ScoreBatch.of_arrays([[[1, 0.2], [0, 0.6]], [[1, 0.9], [1, 0.1]]])
    apart = np.concatenate([find_rule(name)(only(batch, g)).value_M for g in range(2)])
    assert find_rule(name)(batch).value_M != pytest.approx(apart, abs=1e-6)


@pytest.mark.parametrize("name", [*EVERY, *COMPOSED])
@drawn
@given(batch=batches(max_groups=3))
def test_a_criterion_that_nobody_is_scored_on_changes_nothing(name, batch):
    from dataclasses import replace

    from rubrank.scores.criterion import CriterionData

    M, extra = len(batch.scores_MK), CriterionData("nobody", weight=7.0, tier=0, points=9.0, category="Essential")
    wider = replace(
        batch,
        scores_MK=np.hstack([batch.scores_MK, np.full((M, 1), np.nan)]),
        criteria=(*batch.criteria, extra),
        weights_NK=np.hstack([batch.weights_NK, np.full((len(batch.weights_NK), 1), 7.0)]),
        margins_NK=np.hstack([batch.margins_NK, np.zeros((len(batch.margins_NK), 1))]),
    )
    assert find_rule(name)(wider).value_M == pytest.approx(find_rule(name)(batch).value_M, abs=1e-9)


def test_the_plain_version_can_disagree():
    """It is not the library under another name: a changed number is seen."""
    from plain_rules import PlainGroup

    batch = ScoreBatch.of_arrays([[1.0, 0.5], [0.0, 1.0]])
    other = weighted_mean(PlainGroup([[1.0, 0.4], [0.0, 1.0]], [1.0, 1.0], list(batch.criteria)))
    assert find_rule("weighted-mean")(batch).value_M != pytest.approx(other)
