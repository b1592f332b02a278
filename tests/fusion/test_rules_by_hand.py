"""Each rule on a case small enough to work out by hand; the numbers are worked out in the comments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT, Domain

NAN = np.nan


def value(name, scores, **given):
    return find_rule(name)(ScoreBatch.of_arrays(scores, **given)).value_M


def near(*numbers):
    return pytest.approx(list(numbers), abs=1e-9)


def data(name, **more):
    return CriterionData(name, domain=more.pop("domain", UNIT), **more)


def test_weighted_mean():
    assert value("weighted-mean", [[1, 0.5], [0, 1]], weights=[2, 1]) == near(2.5 / 3, 1 / 3)


def test_weighted_mean_without_a_score():
    # (2·1)/2; (2·0 + 1)/3; nothing at all: the mean of the other two
    assert value("weighted-mean", [[1, NAN], [0, 1], [NAN, NAN]], weights=[2, 1]) == near(1, 1 / 3, 2 / 3)
    assert value("weighted-mean", [[NAN, NAN], [NAN, NAN]]) == near(0.5, 0.5)


def test_scores_are_taken_on_the_scale_of_their_domain():
    grades = data("Grade", domain=Domain("discrete", (1.0, 3.0, 5.0), 1.0, 5.0))
    errors = data("Errors", domain=Domain("continuous", (), 0.0, 10.0), direction="lower")
    # (3−1)/4 = 0.5 and 1 − 2/10 = 0.8; (5−1)/4 = 1 and 1 − 10/10 = 0
    assert value("weighted-mean", [[3, 2], [5, 10]], criteria=[grades, errors]) == near(0.65, 0.5)


def test_z_score():
    # 1, 0, 0, 1: mean 0.5, std 0.5 → ±1, weight 2; the second criterion is constant → 0
    scores = [[1, 0.3], [0, 0.3], [0, 0.3], [1, 0.3]]
    assert value("z-score", scores, weights=[2, 5]) == near(2, -2, -2, 2)
    # a missing score is neither in mean and std nor anywhere but at the mean
    assert value("z-score", [[1], [0], [NAN]]) == near(1, -1, 0)


def test_rule_fusion():
    given = {"weights": [2, 1], "gates": [[1], [0], [NAN]], "gate_criteria": ["NotEmpty"]}
    # kept; broken; a missing hard rule stops nobody
    assert value("rule-fusion", [[1, 0.5], [1, 1], [0, 1]], **given) == near(2.5 / 3, 0, 1 / 3)


def test_rule_fusion_by_name_and_by_program():
    batch = ScoreBatch.of_arrays(
        [[1, 0.5], [0, 1], [1, 1]], criteria=[CriterionData("Count", verifier="WordCount"), data("Style")]
    )
    by_program = find_rule("rule-fusion:hard=verified")(batch)
    assert by_program.value_M == near(0.5, 0, 1)
    assert by_program.details["broken"].tolist() == [False, True, False]
    assert find_rule("rule-fusion", hard=["Count"])(batch).value_M == near(0.5, 0, 1)
    assert find_rule("rule-fusion", hard=["Count", "Style"])(batch).value_M == near(0, 0, 1)  # nothing left to weigh
    with pytest.raises(UnknownName, match="Did you mean 'Style'"):
        find_rule("rule-fusion", hard=["Stile"])(batch)
    with pytest.raises(InvalidInput, match="Put a name in"):
        find_rule("rule-fusion", hard="Style")


def test_rule_fusion_reads_the_hard_gates_only():
    gates = [CriterionData("Empty", layer="global_quality"), CriterionData("Template", layer="low_quality")]
    assert value("rule-fusion", [[0.9], [0.8]], gates=[[1, 0], [1, 0.2]], gate_criteria=gates) == near(0.9, 0.8)


def test_rule_fusion_reads_hard_gates_on_the_scale_of_their_domain():
    grade = data("Grade", domain=Domain("continuous", (), 1.0, 5.0), layer="global_quality")
    slips = data("Slips", domain=Domain("continuous", (), 0.0, 10.0), layer="global_quality", direction="lower")
    # clean on both; (4 − 1)/4 < 1 on the first; 1 − 3/10 < 1 on the second
    gates = [[5, 0], [4, 0], [5, 3]]
    scores = [[0.9], [0.8], [0.7]]
    assert value("rule-fusion", scores, gates=gates, gate_criteria=[grade, slips]) == near(0.9, 0, 0)


def test_rar_explicit():
    criteria = [data("a", category="Essential"), data("b", category="important"), data("c", category="Pitfall")]
    assert value("rar-explicit", [[1, 0, 1]], criteria=criteria) == near(1.9 / 2.6)
    # Optional 0.3; a criterion of another category keeps its own weight 2: (0.3 + 2·0.5)/2.3
    criteria = [data("a", category="Optional"), data("b", category="Nice", weight=2.0)]
    assert value("rar-explicit", [[1, 0.5]], criteria=criteria) == near(1.3 / 2.3)
    assert value("rar-explicit:optional=1", [[1, 0.5]], criteria=criteria) == near(2 / 3)


POINTS = [data("a", points=5.0), data("b", points=3.0), data("c", points=-4.0, weight=4.0, direction="lower")]


def test_healthbench():
    # won 5 − 4 of 8; 8 of 8; −4 of 8, clipped
    scores = [[1, 0, 1], [1, 1, 0], [0, 0, 1]]
    assert value("healthbench", scores, criteria=POINTS) == near(0.125, 1, 0)
    assert value("healthbench:clip=false", scores, criteria=POINTS) == near(0.125, 1, -0.5)
    # without the second: 1 of 5; without any: the mean of the others
    assert value("healthbench:clip=false", [[1, NAN, 1], [NAN, NAN, NAN], [1, 1, 0]], criteria=POINTS) == near(
        0.2, 0.6, 1
    )


def test_healthbench_where_nothing_can_be_won():
    criteria = [data("c", points=-4.0, direction="lower")]
    assert value("healthbench", [[1], [0]], criteria=criteria) == near(0, 0)


def test_points_of_each_group():
    mine, yours = [data("a", points=1.0), data("b", points=1.0)], [data("b", points=3.0), data("a", points=1.0)]
    scores = [[[1, 0]], [[1, 0]]]
    # 1 of 2 in the first rubric; 1 of 4 in the second, whose criteria stand in another order
    assert value("healthbench", scores, criteria=mine, group_rubrics=[mine, yours]) == near(0.5, 0.25)


def test_all_or_nothing():
    assert value("all-or-nothing", [[1, 1], [1, 0.9], [1, NAN], [NAN, NAN]]) == near(1, 0, 1, 2 / 3)
    assert value("all-or-nothing:threshold=0.9", [[1, 1], [1, 0.9], [1, 0.8]]) == near(1, 1, 0)


def test_gdpo():
    # 1, 0: mean 0.5, std √0.5, z = 0.5/(√0.5 + 1e-4); 0.2, 0.6 the same in size; weights 2, 1 → z·(2 − 1)
    z = [0.5 / (math.sqrt(0.5) + 1e-4), 0.2 / (0.2 * math.sqrt(2) + 1e-4)]
    first = 2 * z[0] - z[1]
    result = find_rule("gdpo")(ScoreBatch.of_arrays([[1, 0.2], [0, 0.6]], weights=[2, 1]))
    assert result.details["pre_norm"] == near(first, -first)
    assert result.value_M == near(first / (first * math.sqrt(2) + 1e-4), -first / (first * math.sqrt(2) + 1e-4))


def test_gdpo_leaves_out_who_has_no_score():
    # z = ±a of two; the batch's std is that of these two, a·√2, not of three
    a = 0.5 / (math.sqrt(0.5) + 1e-4)
    assert value("gdpo", [[1], [0], [NAN]]) == near(a / (a * math.sqrt(2) + 1e-4), -a / (a * math.sqrt(2) + 1e-4), 0)


def test_gdpo_with_a_condition():
    batch = ScoreBatch.of_arrays([[1, 0.5], [0, 0.5], [1, 0.5], [NAN, 0.5]], criteria=["Correct", "Style"])
    rule = find_rule("gdpo", conditions=(("Style", "Correct", 1.0),), batch_norm=False)
    # Style becomes 0.5, 0, 0.5, missing: z of (0.5, 0, 0.5) and of (1, 0, 1) are alike
    up = (1 / 3) / (math.sqrt(1 / 3) + 1e-4) + (1 / 6) / (math.sqrt(1 / 12) + 1e-4)
    assert rule(batch).value_M == near(up, -2 * up, up, 0)
    with pytest.raises(UnknownName):
        find_rule("gdpo", conditions=(("Style", "Corect", 1.0),))(batch)
    with pytest.raises(InvalidInput, match="easy criterion, hard criterion"):
        find_rule("gdpo", conditions=(("Style", "Correct"),))


def test_focal():
    # everybody meets the first, one of two the second: d = 1, 0.5; π = σ(±0.5); pace 1, π_1
    top = 1 / (1 + math.exp(-0.5))
    f = [0.05**3, (1 - top + 0.05) ** 3]
    result = find_rule("focal")(ScoreBatch.of_arrays([[1, 1], [1, 0]]))
    assert result.details["pace"][0] == near(1, top)
    assert result.weights_NK[0] == near(f[0] / sum(f), f[1] / sum(f))
    assert result.value_M == near(1, f[0] / sum(f))


def test_focal_where_all_is_saturated():
    result = find_rule("focal:eps=0")(ScoreBatch.of_arrays([[1, 1], [1, 1]], weights=[3, 1]))
    assert result.weights_NK[0] == near(0.75, 0.25)
    assert result.value_M == near(1, 1)


def test_sa_mrpo():
    # batch means 0.75 and 0.25: weights 0.25 and 0.75 times their own
    batch = ScoreBatch.of_arrays([[[1, 0], [1, 1]], [[1, 0], [0, 0]]], weights=[4, 4])
    result = find_rule("sa-mrpo")(batch)
    assert result.weights_NK[0] == near(1, 3)
    z = 0.5 / (math.sqrt(0.5) + 1e-4)
    assert result.details["pre_norm"] == near(-3 * z, 3 * z, z, -z)
    assert find_rule("sa-mrpo:gamma=2")(batch).weights_NK[0] == near(0.25, 2.25)


def test_dvao():
    # σ = 0.5 and 0.1: shares 5/6 and 1/6
    result = find_rule("dvao")(ScoreBatch.of_arrays([[1, 0.4], [0, 0.6]]))
    assert result.weights_NK[0] == near(5 / 6, 1 / 6)
    up = 5 / 6 * 0.5 / 0.5001 - 1 / 6 * 0.1 / 0.1001
    assert result.value_M == near(up, -up)
    assert value("dvao", [[1, 0.4], [1, 0.4]]) == near(0, 0)
    # σ = 1e-5 is below ε: nothing tells them apart
    assert value("dvao", [[0.5], [0.50002]]).tolist() == [0.0, 0.0]
    assert value("dvao:eps=1e-6", [[0.5], [0.50002]])[1] == pytest.approx(1e-5 / 1.1e-5)


def test_rlrr():
    scores = [[0.9], [0.4], [0.9], [0.1]]
    assert value("rlrr", scores) == near(1, 0.5, 1, 0)
    assert value("rlrr", [[0.3], [0.3]]) == near(0, 0)
    # 0.1 · tanh(3/r − 1) on top of the mean
    extra = [0.1 * math.tanh(3 / r - 1) for r in (1, 2, 1, 3)]
    assert value("rlrr-hybrid", scores) == near(0.9 + extra[0], 0.4 + extra[1], 0.9 + extra[2], 0.1 + extra[3])


@pytest.mark.parametrize(("name", "tied"), [("rlrr", 0.0), ("lexicographic", 0.5)])
def test_rounding_makes_no_rank(name, tied):
    """0.1 + 0.2 is not 0.3 to a computer."""
    assert 0.1 + 0.2 != 0.3
    assert value(name, [[0.1, 0.2], [0.3, 0.0]]) == near(tied, tied)
    assert value(f"{name}:tie=0", [[0.1, 0.2], [0.3, 0.0]]) == near(1, 0)


def test_rlrr_hybrid_adds_to_what_a_program_decided():
    criteria = [CriterionData("Count", verifier="WordCount"), data("Style")]
    # means 0.6 and 0.4: ranks 1, 2
    expected = near(1 + 0.1 * math.tanh(1), 0)
    assert value("rlrr-hybrid", [[1, 0.2], [0, 0.8]], criteria=criteria) == expected


def test_rvpo():
    # ddof 1 of two: z = ±0.5/(√0.5 + 1e-4) =: ±a; criteria opposed: −ln((e^{−a} + e^{a})/2)
    a = 0.5 / (math.sqrt(0.5) + 1e-4)
    soft = -math.log(math.cosh(a))
    assert value("rvpo", [[1, 0], [0, 1]]) == near(soft, soft)
    assert value("rvpo", [[1, 1], [0, 0]]) == near(a, -a)


def test_worst_case():
    assert value("worst-case", [[1, 0.8, 0.3], [NAN, 0.8, 0.9], [NAN, NAN, NAN]]) == near(0.3, 0.8, 0.55)


def test_mean_variance():
    assert value("mean-variance", [[1, 0], [0.5, 0.5], [0.7, NAN]]) == near(0.25, 0.5, 0.7)
    assert value("mean-variance:lam=2", [[1, 0]]) == near(0)
    # weights 3, 1: mean 0.75, variance 0.75·0.25 = 0.1875
    assert value("mean-variance", [[1, 0]], weights=[3, 1]) == near(0.75 - 0.1875)


def test_geometric():
    assert value("geometric:eps=1e-12", [[1, 0.25], [0.5, NAN]]) == pytest.approx([0.5, 0.5])
    assert value("geometric", [[1, 0]]) == near(math.sqrt(1.001 * 0.001))
    assert value("geometric:eps=1e-12", [[0.25, 1]], weights=[1, 3]) == pytest.approx([0.25**0.25])


def test_log_sigmoid():
    logs = [-math.log(2), -math.log(1 + math.exp(-4)), -math.log(1 + math.exp(4))]
    assert value("log-sigmoid", [[0.5], [0.9], [0.1]], weights=[2]) == near(*(2 * x for x in logs))
    # one of two is missing: the other counts for both
    assert value("log-sigmoid", [[0.5, NAN], [0.5, 0.5]]) == near(2 * logs[0], 2 * logs[0])


def test_log_sigmoid_with_references():
    batch = ScoreBatch.of_arrays([[0.9, 0.5]], criteria=["Hard", "Easy"])
    assert find_rule("log-sigmoid", reference={"Hard": 0.9})(batch).value_M == near(-2 * math.log(2))
    with pytest.raises(UnknownName, match="Did you mean 'Hard'"):
        find_rule("log-sigmoid", reference={"Hart": 0.9})(batch)


def test_lexicographic():
    criteria = [data("a", tier=1), data("b", tier=2)]
    assert value("lexicographic", [[1, 0.2], [1, 0.9], [0, 1], [1, 0.9]], criteria=criteria) == near(0.5, 1, 0, 1)
    assert value("lexicographic", [[1, 0.2], [1, 0.2]], criteria=criteria) == near(0.5, 0.5)
    # no tier comes last, whatever its place among the columns
    criteria = [data("a"), data("b", tier=7)]
    assert value("lexicographic", [[1, 0.2], [0, 0.9]], criteria=criteria) == near(0, 1)


def test_lexicographic_with_more_tiers_than_a_double_has_digits():
    K, G = 40, 9
    scores = np.zeros((G, K))
    scores[0, K - 1] = 1.0  # only the last tier tells it apart
    criteria = [data(f"c{k}", tier=k) for k in range(K)]
    assert value("lexicographic", scores, criteria=criteria) == near(1, *[0] * (G - 1))


def test_borda():
    assert value("borda", [[1], [0.5], [0.5]], weights=[2]) == near(4, 1, 1)
    # the third is not compared: ½ for each pair
    assert value("borda", [[1], [0.5], [NAN]]) == near(1.5, 0.5, 1)


def test_copeland():
    assert value("copeland", [[1, 0.1], [0.5, 0.1], [0.2, 0.3]], weights=[2, 1]) == near(1, -1, -1)
    assert value("copeland", [[1], [0], [NAN]]) == near(1, -1, 0)


def test_margins_make_ties():
    scores = [[0.50], [0.52], [0.90]]
    assert value("borda", scores, margins=[0.05]) == near(0.5, 0.5, 2)
    assert value("copeland", scores, margins=[0.05]) == near(-1, -1, 1)
    assert value("rlvr2", scores, margins=[0.05]) == near(0, 0, 1)


def test_observed_outcomes():
    # the first beat the second and tied with the third, who beat the second
    outcomes = {0: np.array([[0.5, 1.0, 0.5], [0.0, 0.5, 0.0], [0.5, 1.0, 0.5]])}
    scores = [[NAN], [NAN], [NAN]]
    assert value("weighted-mean", scores, outcomes=outcomes) == near(0.75, 0, 0.75)
    assert value("borda", scores, outcomes=outcomes) == near(1.5, 0, 1.5)
    assert value("copeland", scores, outcomes=outcomes) == near(1, -1, 1)


def test_rlvr2_is_the_fusion():
    from rubrank import fuse

    scores = [[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]
    criteria = [data("a"), data("b"), data("c", domain=Domain("continuous", (), 0.0, 10.0))]
    assert value("rlvr2", scores, criteria=criteria).tolist() == fuse(scores).tolist()
    options = {"weights": [3, 1, 2], "margins": [0, 0.6, 2]}
    assert value("rlvr2", scores, criteria=criteria, **options).tolist() == fuse(scores, **options).tolist()
