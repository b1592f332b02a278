"""GEAR: credit along prerequisites, against exact marginals and by hand; graphs that make no sense are refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.rules import find_rule
from rubrank.fusion.rules.points import build_graph
from rubrank.records.record import explain, records_of
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT, Domain

NAN = np.nan
TEN = Domain("continuous", (), 0.0, 10.0)
LEAK = {"weak": 0.6, "strong": 0.2, "trigger": 0.0}
Edges = dict[int, list[tuple[int, str]]]


def criteria(edges: Edges, K: int, **more) -> list[CriterionData]:
    return [
        CriterionData(f"c{k}", domain=UNIT, depends=tuple((f"c{j}", kind) for j, kind in edges.get(k, ())), **more)
        for k in range(K)
    ]


def credit(scores, edges: Edges, method="recursive") -> np.ndarray:
    batch = ScoreBatch.of_arrays(scores, criteria=criteria(edges, len(scores[0])))
    return find_rule(f"gear:method={method}")(batch).details["credit"]


def marginals(p: list[float], edges: Edges) -> list[float]:
    """By listing all states: P(state) = Π_k P(k | its parents)."""
    q = [0.0] * len(p)
    for state in product((0, 1), repeat=len(p)):
        chance = 1.0
        for k, held in enumerate(state):
            yes = p[k]
            for j, kind in edges.get(k, ()):
                yes *= 1.0 if state[j] else LEAK[kind]
            chance *= yes if held else 1.0 - yes
        for k, held in enumerate(state):
            q[k] += chance * held
    return q


@st.composite
def graphs(draw, most_parents: int):
    K = draw(st.integers(1, 6))
    edges: Edges = {}
    for k in range(1, K):
        parents = draw(st.lists(st.integers(0, k - 1), max_size=most_parents, unique=True))
        edges[k] = [(j, draw(st.sampled_from(sorted(LEAK)))) for j in parents]
    scores = draw(st.lists(st.lists(st.floats(0, 1), min_size=K, max_size=K), min_size=1, max_size=4))
    return scores, edges


def test_by_hand():
    # a strong prerequisite at 0.5: 1 · [0.5 + 0.5 · 0.2] = 0.6; then weak on that: 0.8 · [0.6 + 0.4 · 0.6] = 0.672
    edges: Edges = {1: [(0, "strong")], 2: [(1, "weak")]}
    assert credit([[0.5, 1, 0.8]], edges)[0] == pytest.approx([0.5, 0.6, 0.672])
    batch = ScoreBatch.of_arrays([[0.5, 1, 0.8]], criteria=criteria(edges, 3), weights=[1, 1, 2])
    assert find_rule("gear")(batch).value_M == pytest.approx([(0.5 + 0.6 + 2 * 0.672) / 4])


def test_a_trigger_that_did_not_fire():
    assert credit([[0, 1], [1, 1]], {1: [(0, "trigger")]}) == pytest.approx(np.array([[0, 0], [1, 1]]))


@examples(100)
@given(graphs(most_parents=1))
def test_recursion_is_exact_on_trees(drawn):
    scores, edges = drawn
    expected = np.array([marginals(row, edges) for row in scores])
    assert credit(scores, edges) == pytest.approx(expected, abs=1e-12)
    assert credit(scores, edges, "exact") == pytest.approx(expected, abs=1e-12)


@examples(100)
@given(graphs(most_parents=3))
def test_exact_marginals_on_any_graph(drawn):
    scores, edges = drawn
    expected = np.array([marginals(row, edges) for row in scores])
    assert credit(scores, edges, "exact") == pytest.approx(expected, abs=1e-12)


def test_a_shared_ancestor_makes_them_differ():
    """Two parents that stand and fall together are not two independent chances."""
    edges: Edges = {1: [(0, "trigger")], 2: [(0, "trigger")], 3: [(1, "trigger"), (2, "trigger")]}
    recursive, exact = (credit([[0.5, 1, 1, 1]], edges, method)[0, 3] for method in ("recursive", "exact"))
    assert (recursive, exact) == pytest.approx((0.25, 0.5))


def test_hard_takes_the_parents_raw_verdicts():
    # 0.4 is no, 0.5 is yes; the middle one's verdict is its own score, not its credit
    edges: Edges = {1: [(0, "strong")], 2: [(1, "strong")]}
    assert credit([[0.4, 0.9, 1.0], [0.5, 0.3, 1.0]], edges, "hard") == pytest.approx(
        np.array([[0.4, 0.18, 1.0], [0.5, 0.3, 0.2]])
    )


def test_exact_has_a_limit():
    edges: Edges = {k: [(k - 1, "weak")] for k in range(1, 11)}
    batch = ScoreBatch.of_arrays(np.full((2, 11), 0.5), criteria=criteria(edges, 11))
    with pytest.raises(InvalidInput, match="'exact' with 11"):
        find_rule("gear:method=exact")(batch)
    # two chains of eight are two small problems
    edges = {k: [(k - 1, "weak")] for k in range(1, 16) if k != 8}
    batch = ScoreBatch.of_arrays(np.full((1500, 16), 0.5), criteria=criteria(edges, 16))
    there = find_rule("gear:method=exact")(batch).value_M
    assert there == pytest.approx(find_rule("gear")(batch).value_M)


def test_a_penalty_behind_a_trigger():
    """A dose that is invented only counts against a rollout that names a drug."""
    names = CriterionData("NamesDrug", points=1.0, domain=UNIT)
    invents = CriterionData(
        "InventsDose", points=-4.0, weight=4.0, direction="lower", domain=UNIT, depends=(("NamesDrug", "trigger"),)
    )
    batch = ScoreBatch.of_arrays([[1, 1], [1, 0], [0, 1]], criteria=[names, invents])
    assert find_rule("gear")(batch).value_M == pytest.approx([1 - 4, 1, 0])
    assert find_rule("gear:normalise=absolute")(batch).value_M == pytest.approx([-3 / 5, 1 / 5, 0])
    assert find_rule("gear:clip=true")(batch).value_M == pytest.approx([0, 1, 0])


def test_a_missing_prerequisite_counts_as_met():
    edges: Edges = {1: [(0, "strong")], 2: [(1, "strong")]}
    batch = ScoreBatch.of_arrays([[0, NAN, 1.0], [NAN, 1.0, 1.0]], criteria=criteria(edges, 3))
    # the first: the middle one passes on 0.2 from above: 0.2 + 0.8 · 0.2 = 0.36; its own place is left out of R
    assert find_rule("gear")(batch).value_M == pytest.approx([(0 + 0.36) / 2, 1.0])


def test_each_group_has_its_own_graph():
    chain, free = criteria({1: [(0, "strong")]}, 2), criteria({}, 2)
    scores = [[[0, 1], [1, 1]], [[0, 1], [1, 1]], [[0, 1], [1, 1]]]
    batch = ScoreBatch.of_arrays(scores, criteria=free, group_rubrics=[chain, free, chain])
    assert find_rule("gear")(batch).value_M == pytest.approx([0.1, 1, 0.5, 1, 0.1, 1])


@pytest.mark.parametrize(
    ("depends", "message"),
    [
        ([(("c0", "weak"),), ()], "c0': depends must be on other criteria; got itself"),
        ([(("c1", "weak"),), (("c0", "weak"),)], r"a cycle among \['c0', 'c1'\]"),
        ([(), (("c0", "weak"), ("c0", "strong"))], "'c0' twice"),
        ([(), (("c00", "weak"),)], "Did you mean 'c0'"),
    ],
)
def test_graphs_that_make_no_sense(depends, message):
    data = [CriterionData(f"c{k}", domain=UNIT, depends=edges) for k, edges in enumerate(depends)]
    with pytest.raises(InvalidInput, match=message):
        find_rule("gear")(ScoreBatch.of_arrays([[1, 0]], criteria=data))


def test_a_kind_of_edge_that_is_unknown():
    with pytest.raises(InvalidInput, match="kind of an edge must be one of weak, strong, trigger; got 'soft'"):
        credit([[1, 0]], {1: [(0, "soft")]})


def test_an_edge_to_a_gate_is_left_to_the_gate():
    data = [CriterionData("Style", domain=UNIT, depends=(("NotEmpty", "strong"),))]
    batch = ScoreBatch.of_arrays([[1.0], [1.0]], criteria=data, gates=[[0], [1]], gate_criteria=["NotEmpty"])
    assert find_rule("gear")(batch).value_M == pytest.approx([1, 1])
    # a group's own rubric lists its gates, too
    chain = [*criteria({1: [(0, "strong")]}, 2), CriterionData("NotEmpty", layer="global_quality")]
    batch = ScoreBatch.of_arrays(
        [[0, 1]], criteria=criteria({}, 2), group_rubrics=[chain], gates=[[1]], gate_criteria=["NotEmpty"]
    )
    assert find_rule("gear")(batch).value_M == pytest.approx([0.1])
    with pytest.raises(UnknownName):
        build_graph(("Style",), ((("NotEmpty", "strong"),),))


# ----------------------------------------------------------------------------------------------------------- rlvr2*gear


def test_rlvr2_ranks_by_credit():
    """ "Applies" needs "Cites": 1 without it is worth 0.2, so the rollout that has both at 0.5 is ahead on it."""
    criteria = [
        CriterionData("Cites", domain=UNIT),
        CriterionData(
            "Applies", domain=Domain("continuous", (), 0.0, 10.0), depends=(("Cites", "strong"),), margin=0.1
        ),
    ]
    batch = ScoreBatch.of_arrays([[0.0, 10.0], [0.5, 5.0], [1.0, 10.0]], criteria=criteria)
    credit = [10.0 * 0.2, 5.0 * (0.5 + 0.5 * 0.2), 10.0]
    result = find_rule("rlvr2*gear")(batch)
    assert result.details["ranked_scores"][:, 1] == pytest.approx(credit)
    assert result.rule == "rlvr2*gear"
    ranked = ScoreBatch.of_arrays([[0.0, 2.0], [0.5, 3.0], [1.0, 10.0]], criteria=criteria)
    assert np.array_equal(result.reward, find_rule("rlvr2")(ranked).reward)
    assert result.batch.scores_MK[0, 1] == 10.0
    assert "Applies: 10, ranked as 2; loses to all" in result.explain(0)
    record = next(records_of(result))
    assert explain(record, 0) == result.explain(0)
    assert record.scores[0] == (0.0, 10.0)


def test_rlvr2_ranks_by_credit_on_any_scale_and_in_both_directions():
    """Every order that the plain credits have, the composed rule's outcomes have."""
    rng = np.random.default_rng(0)
    criteria = [
        CriterionData("A", domain=UNIT),
        CriterionData("B", domain=UNIT, direction="lower", points=-2.0, depends=(("A", "weak"),)),
        CriterionData("C", domain=Domain("continuous", (), 1.0, 5.0), direction="lower", depends=(("B", "strong"),)),
    ]
    scores = np.stack([rng.random((3, 5)), rng.random((3, 5)), rng.uniform(1, 5, (3, 5))], -1)
    scores[0, 1, 1] = np.nan
    batch = ScoreBatch.of_arrays(scores, criteria=criteria)
    credit_MK = find_rule("gear").scores(batch)
    by_credit = ScoreBatch.of_arrays(credit_MK.reshape(3, 5, 3))
    assert find_rule("rlvr2*gear")(batch).reward == pytest.approx(find_rule("rlvr2")(by_credit).reward, abs=1e-12)


def test_without_prerequisites_it_is_rlvr2():
    scores = np.random.default_rng(1).random((4, 5, 3)).round(1)
    batch = ScoreBatch.of_arrays(scores, weights=[1, 2, 3])
    for name in ("rlvr2{}", "rlvr2:wins=graded{}", "rlvr2{}+"):
        composed = find_rule(name.format("*gear"))(batch).reward
        assert np.array_equal(composed, find_rule(name.format(""))(batch).reward)
