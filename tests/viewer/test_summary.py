"""The figures of the summary, on groups small enough to count by hand, and against other implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rubrank.records.record import GateRecord, GroupRecord
from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import ScoreTable
from rubrank.viewer.attribute_summary import CorrelationSummary, GammaSummary
from rubrank.viewer.criteria_summary import ConflictSummary, CriteriaSummary
from rubrank.viewer.figures import GroupArrays, Moments, ReasonCounts, make_distribution, to_plain_numbers
from rubrank.viewer.index import Index, make_curves
from rubrank.viewer.summary import GateSummary, Overview, RuleSummary, RunSummary

Make = Callable[..., GroupRecord]


def counted(part, *records: GroupRecord):
    for record in records:
        part.add(GroupArrays(record))
    return part


def rows_of(*records: GroupRecord) -> dict[str, dict]:
    return {row["name"]: row for row in counted(CriteriaSummary(), *records).summarize()["rows"]}


def test_a_criterion_by_hand(record_of: Make) -> None:
    first = record_of({"A": [0.0, 1.0, 1.0, None], "B": [1.0, 1.0, 1.0, 1.0]}, [0.0, 1.0, 0.5, 0.5], weights=(3.0, 1.0))
    rows = rows_of(first, record_of({"A": [0.0, 0.0]}, [0.5, 0.5]))
    a, b = rows["A"], rows["B"]
    assert (a["groups"], a["rollouts"], a["missing"]) == (2, 6, 1)
    assert a["mean"] == pytest.approx(2 / 5)
    assert a["ties"] == pytest.approx((1 + 1) / (3 + 1))  # pairs of 0, 1, 1 and of 0, 0
    assert a["decides"] == pytest.approx(2 / (6 + 1))  # of all pairs, those with the missing one too
    assert a["signal"] == 0.5
    assert a["nominal"] == pytest.approx((0.75 + 1.0) / 2)
    assert a["distribution"] == {"values": [0.0, 1.0], "counts": [3, 2]}
    assert (b["ties"], b["decides"], b["signal"], b["with_reward"]) == (1.0, 0.0, 0.0, None)
    assert a["with_reward"] == pytest.approx(stats.kendalltau([0, 1, 1], [0.0, 1.0, 0.5]).statistic)


def test_criteria_agree_with_the_summary_of_a_table(
    graded: tuple[list[Group], ScoreTable], demo_records: list[GroupRecord]
) -> None:
    rows = rows_of(*demo_records)
    for summary in graded[1].summary():
        row = rows[summary.name]
        assert (row["rollouts"], row["groups"], row["missing"]) == (summary.rollouts, summary.groups, summary.missing)
        if summary.missing == 0:
            assert row["groups"] * (1 - row["signal"]) == pytest.approx(summary.all_tied)
            assert row["ties"] == pytest.approx(summary.tie_rate)


def test_direction_margin_and_comparisons(record_of: Make) -> None:
    criteria = (CriterionData("Fast", direction="lower", margin=0.5), CriterionData("Said"))
    won = ((None, 0.7, None), (0.3, None, 0.5), (None, 0.5, None))
    group = GroupArrays(
        record_of({"Fast": [1.0, 1.4, 3.0], "Said": [None] * 3}, [1, 0.5, 0], criteria=criteria, outcomes={"Said": won})
    )
    assert group.signs.tolist() == [[0, 1, 1], [1, 0, 0]]  # pairs 01, 02, 12
    assert group.compared.tolist() == [[True, True, True], [True, False, True]]
    assert not group.missing.any()


def test_effective_weights_are_means_over_groups_with_a_ranking(record_of: Make) -> None:
    scores = {"A": [0.0, 1.0], "B": [1.0, 0.0]}
    rows = rows_of(
        record_of(scores, [0.0, 1.0], effective_weights=(1.5, -0.5)),
        record_of(scores, [0.0, 1.0], effective_weights=(0.5, 0.5)),
        record_of(scores, [0.5, 0.5], effective_weights=(0.0, 0.0)),
    )
    assert (rows["A"]["effective"], rows["B"]["effective"]) == (1.0, 0.0)


def test_effective_weights_of_a_weighted_mean_are_shares_of_its_variance(record_of: Make) -> None:
    random = np.random.default_rng(0)
    records = []
    for _ in range(400):
        a, b = random.random((2, 8))
        records.append(record_of({"A": a.tolist(), "B": b.tolist()}, (0.8 * a + 0.2 * b).tolist()))
    rows = rows_of(*records)
    assert rows["A"]["effective"] + rows["B"]["effective"] == pytest.approx(1.0)
    assert rows["A"]["effective"] == pytest.approx(0.64 / 0.68, abs=0.02)


def test_conflicts_are_kendalls_tau_within_groups(record_of: Make) -> None:
    random = np.random.default_rng(1)
    drawn = [random.integers(0, 4, (3, 7)).astype(float) for _ in range(6)]
    records = [record_of(dict(zip("ABC", d.tolist(), strict=True)), [0.5] * 7) for d in drawn]
    found = counted(ConflictSummary(), *records).summarize()
    for i in range(3):
        for j in range(3):
            expected = np.mean([stats.kendalltau(d[i], d[j]).statistic for d in drawn])
            assert found["tau"][i][j] == pytest.approx(expected)
    assert found["groups"] == [[6] * 3] * 3


def test_conflicts_leave_out_what_is_missing_and_whoever_is_silent(record_of: Make) -> None:
    one = record_of({"A": [0.0, 1.0, 2.0, None], "B": [2.0, 1.0, None, 0.0], "C": [1.0] * 4}, [0.5] * 4)
    found = counted(ConflictSummary(), one).summarize()
    assert found["names"] == ["A", "B", "C"]
    assert found["tau"][0][1] == pytest.approx(-1.0)  # only the first two rollouts have both
    assert np.isnan(found["tau"][0][2])
    assert found["groups"][0] == [1, 1, 0]


def test_correlations_are_spearmans_within_groups(record_of: Make) -> None:
    random = np.random.default_rng(2)
    records, expected = [], []
    for _ in range(6):
        length, reward = random.integers(0, 5, 8).astype(float), random.random(8)
        given = {"attribute_names": ("words",), "attributes": tuple((x,) for x in length)}
        records.append(record_of({"A": [0.0] * 8}, reward.tolist(), others={"flat": (0.5,) * 8}, **given))
        expected.append(stats.spearmanr(length, reward).statistic)
    found = counted(CorrelationSummary(), *records).summarize()
    assert found["rules"] == ["rlvr2", "flat"]
    assert found["r"][0][0] == pytest.approx(np.mean(expected))
    assert found["half"][0][0] == pytest.approx(stats.t.ppf(0.975, 5) * stats.sem(expected), rel=1e-3)
    assert (found["r"][0][1], found["groups"][0]) == (None, [6, 0])


def gamma_record(record_of: Make, gamma: list[float], step: int | None = 0, **more: Any) -> GroupRecord:
    given = {
        "attribute_names": ("words",),
        "attributes": ((1.0,), (2.0,)),
        "mean_contrasts": ((-1.0,), (1.0,)),
        "gamma": tuple((g,) for g in gamma),
        "taken": ((0.25,), (0.75,)),
        "weights": (3.0, 1.0),
        "step": step,
        "pool": "group",
        "n": (1.0, 1.0),
    }
    return record_of({"A": [0.0, 1.0], "B": [1.0, 0.0]}, [0.0, 1.0], **{**given, **more})


def test_gamma_by_step_with_its_interval(record_of: Make) -> None:
    drawn = np.random.default_rng(3).normal(0.2, 0.1, (12, 2))
    part = counted(GammaSummary(), *(gamma_record(record_of, g.tolist(), step=n // 6) for n, g in enumerate(drawn)))
    found = part.summarize()
    assert (found["attributes"], found["criteria"]) == (["words"], ["", "A", "B"])
    for step, some in enumerate((drawn[:6], drawn[6:])):
        for k, values in enumerate((some @ [0.75, 0.25], some[:, 0], some[:, 1])):
            at, mean, half, n = found["points"][f"0|{k}"][step]
            assert (at, n) == (step, 6)
            assert mean == pytest.approx(values.mean())
            assert half == pytest.approx(stats.t.ppf(0.975, 5) * stats.sem(values), rel=1e-3)
    assert found["taken"] == [0.5]


def test_how_much_of_a_criterion_control_took_out(record_of: Make) -> None:
    """A: 0, 1 → 0.25, 0.75, a quarter of the variance is left; B is spread further, so nothing was taken out of it."""
    plain = counted(GammaSummary(), gamma_record(record_of, [0.3, 0.1], utilities=None, values=None))
    assert plain.summarize()["shares"] == [["A", pytest.approx(0.75)]]
    ranked = {"utilities": ((-1.0, 1.0), (1.0, -1.0)), "values": ((-1.0, 1.0), (1.0, -1.0)), "scale": (2.0, 1.0)}
    fitted = counted(GammaSummary(), gamma_record(record_of, [0.3, 0.1], **ranked))
    assert fitted.summarize()["shares"] == [["A", pytest.approx(0.75)]]


def test_a_pooled_gamma_has_the_interval_of_its_own_error(record_of: Make) -> None:
    """t·se over the groups behind the estimate, not the spread over groups, which is 0."""
    pooled = {"pool": "batch", "se": ((0.05,), (0.2,)), "shrunk": ((0.2,), (0.0,)), "n": (41.0, 21.0)}
    part = counted(GammaSummary(), *(gamma_record(record_of, [0.3, 0.1], step=None, **pooled) for _ in range(9)))
    points = part.summarize()["points"]
    halves = [stats.t.ppf(0.975, n - 1) * se for n, se in ((41, 0.05), (21, 0.2))]
    assert points["0|1"] == [[None, pytest.approx(0.3), pytest.approx(halves[0]), 41.0]]
    assert points["0|2"] == [[None, pytest.approx(0.1), pytest.approx(halves[1]), 21.0]]
    assert points["0|0"] == [[None, pytest.approx(0.25), pytest.approx(halves @ np.array([0.75, 0.25])), 36.0]]


def test_a_criterion_that_is_not_controlled_does_not_count(record_of: Make) -> None:
    pooled = {"pool": "run", "se": ((0.05,), (None,)), "n": (41.0, 0.0)}
    part = counted(GammaSummary(), *(gamma_record(record_of, [0.3, 0.0], step=2, **pooled) for _ in range(9)))
    points = part.summarize()["points"]
    assert [step for step, *_ in points["0|1"]] == [2]
    assert points.get("0|2", []) == []
    assert points["0|0"][0][1] == pytest.approx(0.3)


def gated_record(record_of: Make, **more) -> GroupRecord:
    criteria = (
        CriterionData("A"),
        CriterionData("Ends", layer="global_quality"),
        CriterionData("Plain", layer="low_quality"),
    )
    gate = GateRecord(
        passed=(True, True, False),
        factor=(1.0, 0.5, 1.0),
        low_quality=(1.0, 0.0, None),
        stopped_by=((), (), ("Ends",)),
        missing=(0, 0, 1),
        lifted=(1.0, 0.5, 0.0),
    )
    return record_of(
        {"A": [1.0, 0.5, 0.0], "Ends": [1.0, 1.0, 0.0], "Plain": [1.0, 0.0, None]},
        [1.0, 0.25, 0.0],
        criteria=criteria,
        gate=gate,
        ranking=(1.0, 0.5, 0.6),
        step=4,
        reasons=(("", "", ""), ("", "", "12 stock phrases"), ("", "stops at 80 words", "nobody asked")),
        **more,
    )


def test_gates_by_hand(record_of: Make) -> None:
    found = counted(GateSummary(), gated_record(record_of), record_of({"A": [1.0]}, [0.5])).summarize()
    assert {key: found[key] for key in ("rollouts", "groups", "stopped", "softened", "touched")} == {
        "rollouts": 3,
        "groups": 1,
        "stopped": 1,
        "softened": 1,
        "touched": 1,
    }
    assert found["lost"] == pytest.approx((0.25 + 0.6) / 3)
    hard, soft = found["criteria"]
    assert (hard["name"], hard["hit"], hard["asked"], hard["reasons"]) == ("Ends", 1, 3, [("stops at # words", 1)])
    assert (soft["name"], soft["hit"], soft["missing"], soft["reasons"]) == ("Plain", 1, 1, [("# stock phrases", 1)])


def test_a_lift_is_no_negative_loss(record_of: Make) -> None:
    """The two that passed are lifted from 0 and 1 to 0.25 and 1, and the second keeps 0.8 of it; the third had 0.5."""
    gate = GateRecord(
        passed=(True, True, False),
        factor=(1.0, 0.8, 1.0),
        low_quality=(1.0, 0.8, 1.0),
        stopped_by=((), (), ("Ends",)),
        missing=(0, 0, 0),
        lifted=(0.25, 1.0, 0.0),
    )
    criteria = (CriterionData("A"), CriterionData("Ends", layer="global_quality"))
    scores = {"A": [0.0, 1.0, 0.5], "Ends": [1.0, 1.0, 0.0]}
    record = record_of(scores, [0.25, 0.8, 0.0], criteria=criteria, gate=gate, ranking=(0.0, 1.0, 0.5))
    assert counted(GateSummary(), record).summarize()["lost"] == pytest.approx((0.2 + 0.5) / 3)


def test_rules_beside_each_other_and_in_records_of_their_own(record_of: Make) -> None:
    beside = record_of({"A": [0.0] * 3}, [0.0, 0.5, 1.0], others={"gdpo": (1.0, 0.5, 0.0)}, group="x")
    first = record_of({"A": [0.0] * 3}, [0.0, 0.5, 1.0], group="y")
    second = record_of({"A": [0.0] * 3}, [0.0, 0.5, 2.0], group="y", rule="gdpo")
    alone = record_of({"A": [0.0] * 3}, [0.0, 0.5, 2.0], group="z")
    found = counted(RuleSummary(), beside, first, second, alone).summarize()
    assert (found["names"], found["groups"], found["all_groups"]) == (["rlvr2", "gdpo"], 2, 3)
    assert found["kendall"][0][1] == pytest.approx(0.0)  # −1 in one group, +1 in the other
    assert found["winner"][0][1] == 0.5
    assert found["no_signal"] == [0.0, 0.0]
    assert counted(RuleSummary(), first).summarize()["kendall"] == []


def test_a_query_that_comes_again_is_another_group(record_of: Make) -> None:
    both = [record_of({"A": [0.0] * 2}, r, others={"gdpo": (0.0, 1.0)}) for r in ([0.0, 1.0], [1.0, 0.0])]
    found = counted(RuleSummary(), *both).summarize()
    assert (found["groups"], found["winner"][0][1]) == (2, 0.5)


def test_thousands_of_criteria_are_not_all_shown(record_of: Make) -> None:
    scores = {f"c{n}": [0.0, 1.0] for n in range(2100)}
    records = [record_of(scores, [0.0, 1.0]), record_of({"c2099": [0.0, 1.0]}, [0.0, 1.0])]
    found = counted(CriteriaSummary(), *records).summarize()
    assert (len(found["rows"]), found["left_out"], found["rows"][0]["name"]) == (2000, 100, "c2099")


def curves_of(*records: GroupRecord) -> dict[str, Any]:
    index = Index()
    for record in records:
        index.add_record(record)
    return make_curves(index)


def test_curves_over_steps(record_of: Make) -> None:
    steps = [0, 0, 0, 0, 0, 10]
    records = [record_of({"A": [x, x]}, [0.0, x], step=s) for x, s in zip([0, 1, 0, 1, 0.5, 1.0], steps, strict=True)]
    found = curves_of(*records, record_of({"A": [1.0]}, [1.0]))
    curves = {curve["name"]: curve["points"] for curve in found["curves"]}
    values = [0, 1, 0, 1, 0.5]
    half = stats.t.ppf(0.975, 4) * stats.sem(values)
    assert found["steps"] == [0, 10]
    assert curves["A"] == [[0, 0.5, pytest.approx(half, rel=1e-3)], [10, 1.0, None]]
    assert curves["groups without signal"][0][1] == pytest.approx(2 / 5)


def test_agreement_of_the_criteria(record_of: Make) -> None:
    """Groups in which fewer than two criteria say anything do not count."""
    said = [(0.2, (0.5, 1.5)), (0.6, (1.0, None)), (None, None)]
    records = [
        record_of({"A": [0.0, 1.0], "B": [1.0, 0.0]}, [0.0, 1.0], step=step, agreement=agreement, error=error)
        for step, (agreement, error) in enumerate(said)
    ]
    curves = {curve["name"]: curve["points"] for curve in curves_of(*records)["curves"]}
    assert [point[:2] for point in curves["agreement of the criteria"]] == [
        [0, pytest.approx(0.2)],
        [1, pytest.approx(0.6)],
    ]
    overview = counted(Overview(), *records).summarize()
    assert (overview["agreement"], overview["agreement_groups"]) == (pytest.approx(0.4), 2)
    assert overview["error"] == pytest.approx(1.0)


def test_evaluations_are_no_part_of_the_curves(record_of: Make) -> None:
    train, evaluation = (record_of({"A": [x, x]}, [0.0, x], step=0) for x in (0.0, 1.0))
    evaluation = evaluation.model_copy(update={"metadata": {"mode": "eval"}})
    found = curves_of(train, evaluation)
    assert {curve["name"]: curve["points"][0][1] for curve in found["curves"]}["A"] == 0.0


def test_many_steps_share_points(record_of: Make) -> None:
    found = curves_of(*(record_of({"A": [0.0, 1.0]}, [0.0, 1.0], step=step) for step in range(0, 5000, 5)))
    assert len(found["steps"]) <= 240
    assert (found["steps"][:2], found["last_steps"][:2]) == ([0, 25], [20, 45])
    assert (found["steps"][-1], found["last_steps"][-1]) == (4975, 4995)


def test_the_overview(record_of: Make) -> None:
    judge = [{"judge": {"calls": n, "model": "m"}} for n in (3, 4)]
    gated = [gated_record(record_of, metadata=m) for m in judge]
    found = counted(Overview(), *gated, record_of({"A": [1.0, 1.0]}, [0.5, 0.5])).summarize()
    assert (found["groups"], found["rollouts"], found["criteria"], found["steps"]) == (3, 8, 3, 1)
    assert (found["no_signal"], found["stopped"], found["softened"]) == (1, 2, 2)
    assert (found["scores"], found["missing"]) == (20, 2)
    assert "mean_reward" not in found  # relative to the group: as a headline it would be misread
    said = {row["key"]: row for row in found["metadata"]}
    assert (said["judge.calls"]["total"], said["judge.calls"]["mean"]) == (7.0, 3.5)
    assert (said["judge.model"]["values"], said["judge.model"]["in"]) == ([("m", 2)], 2)


def test_numbers_that_differ_in_every_group_are_summed_up(record_of: Make) -> None:
    records = [record_of({"A": [1.0]}, [0.5], metadata={"cost": n / 10}) for n in range(20)]
    (row,) = counted(Overview(), *records).summarize()["metadata"]
    assert (row["mean"], row["low"], row["high"]) == (pytest.approx(0.95), 0.0, 1.9)


def test_values_of_metadata_are_counted_in_all_groups(record_of: Make) -> None:
    models = [*"abcdefghi", *"aaab"]
    records = [record_of({"A": [1.0]}, [0.5], metadata={"model": name}) for name in models]
    (row,) = counted(Overview(), *records).summarize()["metadata"]
    assert row["values"] == [("a", 4), ("b", 2), ("c", 1), ("d", 1), ("e", 1), ("f", 1)]
    assert row["more"]


def test_groups_of_nobody_and_of_one_break_nothing(record_of: Make) -> None:
    parts = counted(RunSummary(), record_of({"A": []}, [], no_signal=True), record_of({"A": [1.0]}, [0.5]))
    assert parts.summarize()["overview"]["rollouts"] == 1


def test_intervals_need_five_and_are_students() -> None:
    moments = Moments()
    for x in (1.0, 2.0, 3.0, 4.0, None, float("nan")):
        moments.add(x)
    assert (moments.n, moments.mean, moments.half_width) == (4, 2.5, None)
    moments.add(9.0)
    numbers = [1.0, 2.0, 3.0, 4.0, 9.0]
    assert moments.half_width == pytest.approx(stats.t.ppf(0.975, 4) * stats.sem(numbers))


def test_distributions() -> None:
    assert make_distribution(np.array([1.0, 0.0, 1.0, np.nan])) == {"values": [0.0, 1.0], "counts": [1, 2]}
    many = make_distribution(np.linspace(0.1, 0.9, 100), (0.0, 1.0))
    assert (many["edges"][0], many["edges"][-1], sum(many["counts"])) == (0.0, 1.0, 100)
    beyond = make_distribution(np.linspace(-1.0, 2.0, 100), (0.0, 1.0))
    assert (beyond["edges"][0], beyond["edges"][-1]) == (-1.0, 2.0)


def test_reasons_are_counted_by_kind() -> None:
    reasons = ReasonCounts()
    for n in range(12):
        reasons.add(f"{n} words, {n}.5 asked")
        reasons.add("letters " + "abcdefghijkl"[n])
    reasons.add("  ")
    found = reasons.list_most_common()
    assert found[0] == ("# words, # asked", 12)
    assert found[-1] == ("others", 5)


def test_plain_data_have_no_nan() -> None:
    assert to_plain_numbers({1: (np.float64(0.5), float("nan"), np.int64(3), None, "x")}) == {
        "1": [0.5, None, 3, None, "x"]
    }
