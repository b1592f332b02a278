"""Rewards of one fixed batch against those on file; tests/golden/make.py says how to write them anew."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parent
MADE = runpy.run_path(str(GOLDEN / "make.py"))
ON_FILE = json.loads((GOLDEN / "rewards.json").read_text(encoding="utf-8"))


def test_every_case_is_on_file():
    assert list(ON_FILE) == list(MADE["CASES"])


@pytest.mark.parametrize("name", MADE["LOOK_UP"])
def test_looked_up_rewards_bit_by_bit(name):
    np.testing.assert_array_equal(MADE["rewards"](name), ON_FILE[name])


@pytest.mark.parametrize("name", MADE["SOLVED"])
def test_solved_rewards(name):
    np.testing.assert_allclose(MADE["rewards"](name), ON_FILE[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MADE["FITTED"])
def test_fitted_rewards(name):
    np.testing.assert_allclose(MADE["rewards"](name), ON_FILE[name], rtol=0, atol=1e-9)


def test_cases_differ():
    """Options that did nothing would make their cases worthless."""
    kinds = {json.dumps(rewards) for rewards in ON_FILE.values()}
    assert len(kinds) == len(ON_FILE)


def test_the_batch_has_what_can_go_wrong():
    scores, attributes = MADE["SCORES_NGK"], MADE["ATTRIBUTES_NGD"]
    assert np.isnan(scores).any()
    assert (scores[2, :, 1] == 1).all()  # a criterion that ties a whole group
    assert not attributes[2, :, 1].any()  # an attribute that nobody has
    assert any(len(set(column)) < 6 for column in scores[..., 2])
