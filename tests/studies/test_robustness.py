"""The paper's table: a rule that reads only the order does not care how scores are written."""

from __future__ import annotations

import numpy as np
import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.rules import find_rule
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.replay import parse_transform
from rubrank.studies.robustness import MAPS, robustness, summarise_rows
from rubrank.verifiers.verifier import BINARY, UNIT, discrete


def mixed(groups: int = 40, seed: int = 0) -> ScoreTable:
    rng = np.random.default_rng(seed)
    criteria = (
        CriterionData("Yes", domain=BINARY),
        CriterionData("Grade", domain=discrete(0, 0.2, 1), weight=2.0),
        CriterionData("Metric", domain=UNIT, direction="lower"),
        CriterionData("Stop", layer="global_quality"),
    )
    made = []
    for g in range(groups):
        columns = [rng.integers(0, 2, 8), rng.choice([0, 0.2, 1], 8), rng.random(8), np.ones(8)]
        made.append(GroupScores(f"q{g}", criteria, np.array(columns, dtype=float).T, (("",) * 4,) * 8))
    return ScoreTable(tuple(made))


def test_the_order_is_all_that_rlvr2_reads() -> None:
    rows = robustness(mixed())
    assert {row.criterion for row in rows} == {"Yes", "Grade", "Metric"}
    assert {row.map for row in rows} == set(MAPS)
    ordinal = [row for row in rows if row.rule == "rlvr2"]
    assert [row.signs for row in ordinal] == [1.0] * len(ordinal)
    assert [row.spearman for row in ordinal] == pytest.approx([1.0] * len(ordinal), abs=1e-12)


def test_others_do_care() -> None:
    found = {(row.map, row.rule): row for row in summarise_rows(robustness(mixed()))}
    assert found["× 10", "weighted-mean"].signs < 1.0
    assert found["0, 0.2, 1 → 0, 1, 100", "z-score"].spearman < 1.0
    assert found["× 10", "z-score"].spearman == pytest.approx(1.0)  # an affine map is what a z-score takes out


def test_the_levels_go_where_the_paper_puts_them() -> None:
    steep = MAPS["0, 0.2, 1 → 0, 1, 100"]
    assert steep(np.array([0.0, 0.2, 1.0])) == pytest.approx([0.0, 1.0, 100.0])


def test_own_maps_and_criteria() -> None:
    rows = robustness(mixed(5), rules=["borda"], criteria=["Grade"], maps={"cubed": lambda x: x**3})
    assert [(row.criterion, row.map, row.rule, row.signs) for row in rows] == [("Grade", "cubed", "borda", 1.0)]
    rows = robustness(mixed(5), rules=["borda"], transforms=[parse_transform("Yes*10")])
    assert [row.map for row in rows] == ["Yes*10"]
    with pytest.raises(UnknownName):
        robustness(mixed(2), criteria=["Stop"])


def test_groups_that_a_criterion_ties_are_not_counted() -> None:
    table = mixed(4)
    table.groups[0].scores[:, 0] = 1.0
    rows = robustness(table, rules=["rlvr2"], criteria=["Yes"])
    assert {row.groups for row in rows} == {3}


def test_means_are_over_the_groups_of_all_criteria() -> None:
    table = mixed(4)
    for group in table.groups[:3]:
        group.scores[:, 0] = 1.0  # one group is left in which "Yes" says something
    rows = [row for row in robustness(table, rules=["weighted-mean"]) if row.map == "× 10"]
    (found,) = [row for row in summarise_rows(rows) if row.map == "× 10"]
    assert (found.criterion, found.groups) == ("all 3", 1 + 4 + 4)
    assert found.signs == pytest.approx(sum(row.groups * row.signs for row in rows) / 9)
    assert np.isnan(summarise_rows(robustness(mixed(2), rules=["all-or-nothing"], criteria=["Metric"]))[0].spearman)


def test_nothing_to_do() -> None:
    with pytest.raises(InvalidInput):
        robustness(ScoreTable(()))
    with pytest.raises(InvalidInput):
        robustness(mixed(1), step=0)


def test_rules_of_one_name_are_told_apart() -> None:
    rules = [find_rule("focal"), find_rule("focal", gamma=0.0), "gdpo"]
    rows = robustness(mixed(3), rules=rules, criteria=["Grade"], maps={"cubed": lambda x: x**3})
    assert [row.rule for row in rows] == ["focal (1)", "focal (2)", "gdpo"]
