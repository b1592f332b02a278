"""Attribute control on real rollouts: what means nothing changes nothing, and programs are left alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import plain_control as plain
import pytest

from rubrank import RLVR2, attenuate
from rubrank.records.agreement import compute_mean, measure_kendall, rank_rewards
from rubrank.studies.replay import run_rule, split_steps

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "m_ifeval").exists(), reason="needs ../shared/data"),
]


@pytest.fixture(scope="module")
def studies():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import real_data

    found = {"chapters": real_data.longform_writing(), "verdicts": real_data.m_ifeval()}
    sys.path.remove(str(ROOT / "benchmarks"))
    return found


def batch_of(study, shuffled=False, seed=0):
    batch, words = study.table.batch(), study.attributes[:, :1]
    if shuffled:
        rng = np.random.default_rng(seed)
        words = np.concatenate([rng.permutation(words[a:b]) for a, b in pairwise(batch.starts)])
    return replace(batch, attributes_MD=words, attribute_names=("words",))


def tau(batch, **options):
    """Agreement with no adjustment, in steps of 128 groups."""
    plain, adjusted = (run_rule(rule, batch) for rule in (RLVR2(), RLVR2(**options)))
    return compute_mean(measure_kendall(rank_rewards(adjusted, batch.starts), rank_rewards(plain, batch.starts)))


@pytest.mark.parametrize("adjust", ["remove", attenuate(1.0)], ids=str)
@pytest.mark.parametrize("pool", ["batch", "run"])
def test_shuffled_lengths_change_nothing_of_a_judge(studies, adjust, pool):
    assert tau(batch_of(studies["chapters"], shuffled=True), adjust=adjust, pool=pool) >= 0.995


@pytest.mark.parametrize("shuffled", [False, True])
def test_verdicts_of_programs_adjusted_by_name(studies, shuffled):
    found = tau(batch_of(studies["verdicts"], shuffled), adjust=attenuate(1.0), adjust_criteria="all")
    assert found >= 0.995


@pytest.mark.parametrize("name", ["en:punctuation:no_comma", "en:combination:repeat_prompt", "fr:keywords:existence"])
def test_what_is_found_about_verdicts_is_what_the_oracle_finds(studies, name):
    """`remove` changes the verdicts of programs where length does matter: γ̂, its error and γ̃ are those of §4."""
    batch = batch_of(studies["verdicts"])
    control = RLVR2(adjust="remove", adjust_criteria="all")(batch).control
    k, rows = batch.names.index(name), [slice(a, b) for a, b in pairwise(batch.starts)]
    contrasts = plain.batch_contrasts([batch.attributes_MD[of] for of in rows])
    outcomes = [plain.outcomes_of(batch.scores_MK[of, k]) for of in rows]
    gamma, se, n, _, _ = plain.joint(outcomes, contrasts, batch.sizes, 1.0, 1.0, "bradley-terry")
    assert control.n_NK[0, k] == n
    assert control.gamma_NKD[0, k] == pytest.approx(gamma, abs=1e-9)
    assert control.se_NKD[0, k] == pytest.approx(se, abs=1e-9)
    assert control.shrunk_NKD[0, k] == pytest.approx(plain.shrunk(gamma, se, n), abs=1e-9)
    assert control.shrunk_NKD[0, k] != 0.0


@pytest.mark.parametrize("pool", ["batch", "run"])
def test_shuffled_lengths_are_found_to_matter_as_often_as_chance_allows(studies, pool):
    """Two-sided, at 5%, over 20 shuffles: what `remove` then changes is the level of the test, not a fault."""
    found = []
    for seed in range(20):
        rule = RLVR2(adjust="remove", adjust_criteria="all", pool=pool)
        for step in split_steps(batch_of(studies["verdicts"], shuffled=True, seed=seed), 128):
            control = rule(step).control
            found.append(control.shrunk_NKD[0, control.n_NK[0] >= 8, 0] != 0.0)
    assert 0.02 <= np.concatenate(found).mean() <= 0.08


@pytest.mark.parametrize("pool", ["batch", "run", "group"])
def test_verdicts_of_programs_are_bit_identical_by_default(studies, pool):
    batch = batch_of(studies["verdicts"])
    plain = RLVR2()(batch).reward
    assert np.array_equal(RLVR2(adjust="remove", pool=pool)(batch).reward, plain)


def test_the_old_forms_did_change_them(studies):
    """What the figures above are to be compared with."""
    batch = batch_of(studies["verdicts"], shuffled=True)
    assert tau(batch, adjust=attenuate(1.0), pool="group", adjust_criteria="all") < 0.8
