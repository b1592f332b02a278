"""Outcomes of comparisons go into the fit as they were observed: contradictory, incomplete, with fractions."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st
from ordinal import rlvr2
from scipy.optimize import minimize

from rubrank import Gate, InvalidInput, UnknownName, attenuate, fuse, utilities
from rubrank.scores.outcomes import outcomes

NAN = float("nan")


def random_outcomes(rng: np.random.Generator, n: int, share: float = 0.7) -> np.ndarray:
    """Answers about some of the pairs, contradictory and with fractions."""
    table = np.full((n, n), NAN)
    for i in range(n):
        for j in range(i):
            if rng.random() < share:
                table[i, j] = rng.choice([0, 0.25, 0.5, 1.0])
                table[j, i] = 1.0 - table[i, j]
    return table


def nobody(n: int, K: int = 1) -> np.ndarray:
    return np.full((n, K), NAN)


def by_scipy(table: np.ndarray, prior: float) -> np.ndarray:
    """The objective of docs/method.md, written out pair by pair and given to a general optimiser."""
    n = len(table)

    def loss(u: np.ndarray) -> float:
        total = 0.5 * prior * float(u @ u)
        for i in range(n):
            for j in range(i):
                if not np.isnan(table[i, j]):
                    x = u[i] - u[j]
                    total += table[i, j] * np.logaddexp(0, -x) + (1 - table[i, j]) * np.logaddexp(0, x)
        return total

    return minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-10}).x


@folded("seed", range(8))
@folded("prior", [0.3, 1.0, 4.0])
def test_against_a_general_optimiser(seed: int, prior: float) -> None:
    table = random_outcomes(np.random.default_rng(seed), 6)
    found = utilities(nobody(6), outcomes={0: table}, prior=prior).ravel()
    assert found == pytest.approx(by_scipy(table, prior), abs=1e-6)


@folded(
    "options",
    [
        {},
        {"weights": [2.0, 1.0, 0.5], "span": "unit"},
        {"model": "thurstone"},
        {"model": "borda"},
        {"attributes": True},
        {"attributes": True, "pool": "batch"},
        {"attributes": True, "adjust": attenuate(0.4, draw="fixed")},
        {"attributes": True, "model": "thurstone", "pool": "batch"},
    ],
)
def test_outcomes_that_scores_would_give(options: dict) -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 4, (6, 5, 3)).astype(float)
    if options.pop("attributes", False):
        options = {**options, "attributes": rng.random((6, 5, 2)) * 100}
    compared, given = scores.copy(), []
    for g in range(6):
        given.append(outcomes(scores[g, :, 1:2])[:, :, 0] if g % 2 else None)
        compared[g, :, 1] = NAN if g % 2 else scores[g, :, 1]
    assert fuse(compared, outcomes={1: given}, **options) == pytest.approx(fuse(scores, **options), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 7))
def test_reordering_rollouts_reorders_utilities(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    table, order = random_outcomes(rng, n), rng.permutation(n)
    first = utilities(nobody(n), outcomes={0: table}).ravel()
    second = utilities(nobody(n), outcomes={0: table[np.ix_(order, order)]}).ravel()
    assert second == pytest.approx(first[order], abs=1e-9)
    assert first.sum() == pytest.approx(0.0, abs=1e-9)


def test_together_is_one_by_one() -> None:
    rng = np.random.default_rng(0)
    tables = {f"q{g}": random_outcomes(rng, 3 + g) for g in range(5)}
    labels = [label for label, table in tables.items() for _ in table]
    together = utilities(nobody(len(labels)), groups=labels, outcomes={0: tables}).ravel()
    apart = [utilities(nobody(len(table)), outcomes={0: table}).ravel() for table in tables.values()]
    assert together == pytest.approx(np.concatenate(apart), abs=1e-12)


def test_scattered_rows_are_counted_within_their_group() -> None:
    labels = ["b", "a", "b", "a", "a"]
    a = [[NAN, 1, NAN], [0, NAN, 1], [NAN, 0, NAN]]
    found = utilities(nobody(5), groups=labels, outcomes={0: {"a": a}}).ravel()
    assert found[[0, 2]].tolist() == [0.0, 0.0]
    assert found[1] > found[3] > found[4]


def test_a_circle_and_an_outsider_say_nothing() -> None:
    circle = [[NAN, 1, 0, NAN], [0, NAN, 1, NAN], [1, 0, NAN, NAN], [NAN, NAN, NAN, NAN]]
    assert utilities(nobody(4), outcomes={0: circle}).ravel().tolist() == [0.0] * 4
    result = rlvr2(criteria=["Taste"])(nobody(4), outcomes={"Taste": circle})
    assert result.no_signal.all()
    assert result[0].missing.tolist() == [1]


def test_explained() -> None:
    said = [[NAN, 1, 0.75, NAN], [0, NAN, 0.5, NAN], [0.25, 0.5, NAN, NAN], [NAN] * 4]
    scores = [[1, NAN], [0, NAN], [1, NAN], [0, NAN]]
    result = rlvr2(criteria=["Facts", "Taste"])(scores, outcomes={"Taste": said})
    assert "  Taste: beats 1; ahead of 2 (0.75) → +0.44" in result.explain(0).splitlines()
    assert "  Taste: not compared" in result.explain(3).splitlines()
    assert result[0].outcomes[0, 2, 1] == 0.75
    assert result[0].flags == ("missing: Taste (1)",)


def test_what_is_kept_of_an_attribute_reaches_those_who_were_compared() -> None:
    rng = np.random.default_rng(5)
    table = random_outcomes(rng, 6, 1.0)
    length = rng.random((6, 1)) * 500
    options = {"outcomes": {0: table}, "attributes": length}
    kept = rlvr2(adjust=attenuate(0.0, draw="fixed"))(nobody(6), attributes=length, outcomes={0: table})
    gamma = utilities(nobody(6), **options).gamma
    assert gamma.shape == (1, 1)
    assert gamma[0, 0] != 0.0
    assert not np.allclose(kept.fused, utilities(nobody(6), **options).utilities.ravel())


@folded(
    ("given", "message"),
    [
        ({0: [[NAN, 1], [1, NAN]]}, "add up to 1"),
        ({0: [[NAN, 1], [NAN, NAN]]}, "add up to 1"),
        ({0: [[NAN, 2], [-1, NAN]]}, "from 0 to 1"),
        ({0: [[NAN, 1, 0], [0, NAN, 1]]}, "shape"),
        ({0: [[NAN, "won"], ["lost", NAN]]}, "numbers of shape"),
        ({3: [[NAN, 1], [0, NAN]]}, "a column from 0 to 1"),
        ({"Taste": [[NAN, 1], [0, NAN]]}, "or a name if `criteria` gives names"),
        ({1: [[NAN, 1], [0, NAN]]}, "scored or compared"),
    ],
)
def test_what_cannot_be_an_outcome(given: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fuse([[NAN, 1], [NAN, 2]], outcomes=given)


def test_unknown_names() -> None:
    table = [[NAN, 1], [0, NAN]]
    with pytest.raises(UnknownName, match="Taste"):
        fuse(nobody(2), criteria=["Tast"], outcomes={"Taste": table})
    with pytest.raises(UnknownName, match="q7"):
        fuse(nobody(2), groups=["q1", "q1"], outcomes={0: {"q7": table}})


def test_a_gate_cannot_read_comparisons() -> None:
    rule = rlvr2(criteria=["Facts", "Safe"], gate=Gate(global_quality=["Safe"]))
    with pytest.raises(InvalidInput, match="which the gate reads"):
        rule([[1, NAN], [0, NAN]], outcomes={"Safe": [[NAN, 1], [0, NAN]]})


def test_a_score_table_carries_them() -> None:
    from rubrank.scores.criterion import CriterionData
    from rubrank.scores.table import GroupScores, ScoreTable

    said = np.array([[NAN, 1, 1], [0, NAN, 0], [0, 1, NAN]])
    criteria = (CriterionData("Facts"), CriterionData("Taste", weight=3.0))
    scores = np.array([[0.0, NAN], [1.0, NAN], [1.0, NAN]])
    group = GroupScores("q", criteria, scores, (("", ""),) * 3, {"Taste": said})
    table = ScoreTable((group,))
    expected = fuse(scores, weights=[1, 3], outcomes={1: said})
    assert table.fuse().reward.tolist() == expected.tolist()
    assert table.batch().unit_MK[:, 1].tolist() == [1.0, 0.0, 0.5]
