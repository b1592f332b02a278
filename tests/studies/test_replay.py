"""The same rollouts under many rules."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rubrank import RLVR2, Gated, find_rule
from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.rules.weights import AMRP
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.replay import replay, run_rule
from rubrank.verifiers.verifier import UNIT

RULES = ["rlvr2", "rlvr2+", "weighted-mean", "gdpo", "amrp"]


def table(groups: int = 30, sizes: tuple[int, ...] = (8, 5), seed: int = 1) -> ScoreTable:
    rng = np.random.default_rng(seed)
    criteria = (
        CriterionData("Facts", weight=3.0, domain=UNIT),
        CriterionData("Style", domain=UNIT),
        CriterionData("Empty", layer="global_quality"),
    )
    made = []
    for g in range(groups):
        G = sizes[g % len(sizes)]
        scores = np.column_stack([rng.random(G), rng.random(G), rng.random(G) > 0.2])
        made.append(GroupScores(f"q{g}", criteria, scores.astype(float), (("",) * 3,) * G))
    return ScoreTable(tuple(made))


def test_rewards_are_those_of_the_rules() -> None:
    scores = table()
    found = replay(scores, RULES)
    assert found.names == ("rlvr2", "rlvr2+", "weighted-mean", "gdpo", "amrp")
    assert found["rlvr2+"].reward == pytest.approx(scores.fuse().reward)
    mean = scores.scores[:, :2] @ [0.75, 0.25]
    assert found["weighted-mean"].reward == pytest.approx(mean)
    assert found.kendall == pytest.approx(found.kendall.T)
    assert found.groups[3] == "q3"
    with pytest.raises(UnknownName):
        found["focal"]


def test_effective_weights_of_a_weighted_mean() -> None:
    found = replay(table(400), ["weighted-mean"])["weighted-mean"]
    assert found.effective.sum() == pytest.approx(1.0)
    assert found.effective == pytest.approx([0.9, 0.1], abs=0.04)  # shares of the variance: 3² to 1²
    assert found.influence[0] > found.influence[1] > 0.0


def test_the_nominal_weights() -> None:
    assert replay(table(3), ["borda"]).nominal == pytest.approx([0.75, 0.25])


def test_a_reward_that_is_length_follows_length() -> None:
    scores = table()
    length = scores.scores[:, [0]] * 1000
    found = replay(scores, ["weighted-mean", "rlvr2:adjust=remove"], attributes=length, attribute_names=["words"])
    assert found["weighted-mean"].follows[0] > 0.8
    assert found["rlvr2"].follows[0] < found["weighted-mean"].follows[0]


def test_winners() -> None:
    found = replay(table(4), ["weighted-mean", "rlvr2+"])
    for g, (winner, group) in enumerate(zip(found["weighted-mean"].winner, table(4).groups, strict=True)):
        assert winner == np.argmax(group.scores[:, 0] * 3 + group.scores[:, 1]), g
    single = ScoreTable((GroupScores("one", table(1).groups[0].criteria, np.ones((2, 3)), (("",) * 3,) * 2),))
    assert replay(single, ["rlvr2"])["rlvr2"].winner.tolist() == [-1]
    assert replay(single, ["rlvr2"])["rlvr2"].no_signal.tolist() == [True]


def test_steps_matter_to_rules_that_look_at_a_batch() -> None:
    batch = table().batch()
    whole, small = run_rule("gdpo", batch), run_rule("gdpo", batch, step=5)
    assert len(whole) == len(small)
    assert not np.allclose(whole, small)
    assert run_rule("rlvr2+", batch) == pytest.approx(run_rule("rlvr2+", batch, step=7))


def test_a_stateful_rule_starts_afresh() -> None:
    batch = table().batch()
    assert run_rule("amrp", batch, step=5).tolist() == run_rule("amrp", batch, step=5).tolist()


@pytest.mark.parametrize(
    "make",
    [AMRP, lambda: Gated(AMRP()), lambda: find_rule("rlvr2*amrp+"), lambda: RLVR2(wins="graded", width="run")],
)
def test_runs_of_a_rule_object_share_no_memory(make) -> None:
    batch = table().batch()
    expected = run_rule(make(), batch, step=5).tolist()
    rule = make()
    before = rule.state()
    assert run_rule(rule, batch, step=5).tolist() == expected
    assert rule.state() == before, "the caller's rule does not learn"
    rule(batch)
    assert run_rule(rule, batch, step=5).tolist() == expected, "a run begins with an empty memory"


def test_transforms_change_cardinal_rules_only() -> None:
    plain, mapped = replay(table(), RULES), replay(table(), RULES, transforms=["Style*10", "Style^2"])
    assert mapped["rlvr2"].reward.tolist() == plain["rlvr2"].reward.tolist()
    assert mapped["weighted-mean"].reward.tolist() != plain["weighted-mean"].reward.tolist()


def test_for_machines() -> None:
    found = replay(table(3), ["rlvr2", "gdpo"], attributes=np.ones((21, 1)), attribute_names=["words"])
    again = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert again["rules"][1]["rule"] == "gdpo"
    assert again["rules"][0]["follows"] == {"words": None}  # constant: no correlation
    assert len(again["kendall"]) == 2


@pytest.mark.parametrize("options", [{"rules": []}, {"rules": ["rlvr2"], "step": 0}])
def test_nothing_to_do(options: dict) -> None:
    with pytest.raises(InvalidInput):
        replay(table(2), **options)
