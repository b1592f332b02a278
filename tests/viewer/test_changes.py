"""Other rules, weights, gates and λ: what the page shows is what Python computes from the start."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control.adjustment import attenuate
from rubrank.records.record import GroupRecord, records_of
from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.domain import UNIT
from rubrank.viewer.changes import Changes, fuse_changed, read_changes


def fuse_biased(**options: Any) -> list[GroupRecord]:
    """Forty groups whose judge likes long answers, and a criterion that does not."""
    random = np.random.default_rng(3)
    words = random.integers(20, 400, (40, 6)).astype(float)
    liked = 1.0 / (1.0 + np.exp(-(words - 200.0) / 60.0 - random.normal(size=words.shape)))
    criteria = (CriterionData("Liked", domain=UNIT), CriterionData("Facts", domain=UNIT))
    groups = []
    for g in range(40):
        scores = np.column_stack([liked[g], random.random(6)])
        groups.append(GroupScores(f"q{g}", criteria, scores, (("", ""),) * 6))
    table = ScoreTable(tuple(groups))
    fused = table.fuse(attributes=words.reshape(-1, 1), attribute_names=["words"], **options)
    return list(records_of(fused, table))


@pytest.mark.parametrize(
    "options", [{"span": "unit"}, {"span": "sd"}, {"wins": "graded"}, {"span": "unit", "wins": "graded"}]
)
def test_without_a_change_the_recorded_rewards_come_out(
    graded: tuple[list[Group], ScoreTable], demo_records: list[GroupRecord], options: dict[str, str]
) -> None:
    groups, table = graded
    for record in [*demo_records, *records_of(table.fuse(**options), table, groups=groups)]:
        changed = fuse_changed(record, Changes(rule=record.rule))
        assert changed.notes == ()
        assert changed.record.reward == pytest.approx(record.reward, abs=1e-9)
        assert (changed.record.responses, changed.record.group) == (record.responses, record.group)


def test_a_weight_is_that_of_a_table_with_this_weight(graded: tuple[list[Group], ScoreTable]) -> None:
    groups, table = graded
    records = list(records_of(table.fuse(), table, groups=groups))
    name = next(
        c.name for c in records[2].ranked if len({row[records[2].ranked.index(c)] for row in records[2].scores}) > 1
    )
    expected = table.change_criteria({name: {"weight": 7.0}}).fuse().group(2).reward
    changed = fuse_changed(records[2], Changes(weights={name: 7.0})).record
    assert changed.reward == pytest.approx(expected)
    assert changed.reward != pytest.approx(records[2].reward)


def test_lambda_without_a_positive_influence_says_that_it_changes_nothing(demo_records: list[GroupRecord]) -> None:
    record = demo_records[0]
    assert record.attribute_names
    assert not np.any(np.array(record.shrunk) > 0.0)
    (note,) = fuse_changed(record, Changes(lam=0.5)).notes
    assert "no attribute has a positive influence" in note


@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("pool", ["batch", "group"])
def test_lambda_is_that_of_a_batch_fused_with_it(lam: float, pool: str) -> None:
    """γ was estimated over all groups: one group alone could not give it."""
    recorded = fuse_biased(adjust=attenuate(0.75), pool=pool)
    expected = fuse_biased(adjust=attenuate(lam), pool=pool)
    assert max(row[0] or 0.0 for record in recorded for row in record.taken or ()) > 0.1  # something is taken out
    for record, other in zip(recorded, expected, strict=True):
        assert fuse_changed(record, Changes(lam=lam)).record.reward == pytest.approx(other.reward, abs=1e-7)
    assert any(r.reward != pytest.approx(e.reward) for r, e in zip(recorded, expected, strict=True))


def test_a_criterion_becomes_a_gate_and_a_gate_is_switched_off(record_of: Any) -> None:
    record = record_of({"A": [1.0, 0.5, 0.0], "B": [0.0, 1.0, 1.0]}, [0.5, 1.0, 0.0], rule="weighted-mean+")
    changed = fuse_changed(record, Changes(layers={"B": "global_quality"})).record
    assert changed.reward == pytest.approx([0.0, 1.0, 0.25])  # by hand: A over those that passed, lifted to [0.25, 1]
    assert changed.gate is not None
    assert changed.gate.stopped_by == (("B",), (), ())
    again = fuse_changed(changed, Changes(layers={"B": "watch"})).record
    assert again.reward == pytest.approx([1.0, 0.5, 0.0])


def test_watching_a_criterion_adds_no_gate(record_of: Any) -> None:
    record = record_of({"A": [1.0, 0.2, 0.0], "B": [0.0, 1.0, 1.0]}, [0.5, 1.0, 0.0], rule="gdpo")
    changed = fuse_changed(record, Changes(layers={"B": "watch"}))
    assert changed.record.rule == "gdpo"
    left_out = fuse_changed(record, Changes(weights={"B": 0.0}))
    assert changed.record.reward == pytest.approx(left_out.record.reward)


def test_weight_zero_leaves_a_criterion_out_but_not_all(record_of: Any) -> None:
    record = record_of({"A": [1.0, 0.0], "B": [0.0, 1.0]}, [0.5, 0.5], rule="weighted-mean+")
    assert fuse_changed(record, Changes(weights={"B": 0.0})).record.reward == pytest.approx([1.0, 0.0])
    with pytest.raises(InvalidInput, match="none does"):
        fuse_changed(record, Changes(weights={"A": 0.0, "B": 0.0}))


def test_a_record_that_cannot_be_reproduced_says_so(record_of: Any) -> None:
    record = record_of({"A": [1.0, 0.0]}, [0.9, 0.2], rule="weighted-mean+")
    (note,) = fuse_changed(record, Changes(weights={"A": 2.0})).notes
    assert "differ by up to 0.2" in note
    unknown = record_of({"A": [1.0, 0.0]}, [0.9, 0.2], rule="somebody's own")
    assert "not known" in fuse_changed(unknown, Changes(rule="borda+")).notes[0]


@pytest.mark.parametrize(
    "text", ["[", "[1]", '{"lam": -1}', '{"lam": "x"}', '{"layers": {"A": "best"}}', '{"more": 1}']
)
def test_damaged_changes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_changes(text)
    assert not read_changes("")
    assert read_changes(json.dumps({"weights": {"A": 2}})).weights == {"A": 2.0}


def test_names_and_weights_are_checked(record_of: Any) -> None:
    record = record_of({"A": [1.0, 0.0]}, [1.0, 0.0])
    with pytest.raises(UnknownName):
        fuse_changed(record, Changes(weights={"B": 1.0}))
    with pytest.raises(InvalidInput, match="weight of 'A'"):
        fuse_changed(record, Changes(weights={"A": -1.0}))
