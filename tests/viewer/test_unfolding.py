"""A record unfolds into the group it was made of, and explains itself in the same words."""

from __future__ import annotations

import numpy as np
import pytest

from rubrank.cli.demo.demo import fuse_table
from rubrank.errors import InvalidInput
from rubrank.records.record import GroupRecord, explain, records_of, to_fused_group
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable


def in_order(words: str) -> list[str]:
    """The headline, and the lines by name: criteria that mattered equally stand in the order of the table's columns."""
    head, *lines = words.split("\n")
    return [head, *sorted(lines)]


def test_the_demo_explains_itself_as_before(
    graded: tuple[list[Group], ScoreTable], demo_records: list[GroupRecord]
) -> None:
    groups, table = graded
    for record, fused in zip(demo_records, fuse_table(table, groups), strict=True):
        for i in range(record.size):
            assert in_order(explain(record, i)) == in_order(fused.explain(i))


def test_numbers_are_the_same(graded: tuple[list[Group], ScoreTable], demo_records: list[GroupRecord]) -> None:
    groups, table = graded
    for record, fused in zip(demo_records, fuse_table(table, groups), strict=True):
        again = to_fused_group(record)
        at = [fused.criteria.index(name) for name in again.criteria]
        np.testing.assert_array_equal(again.outcomes, fused.outcomes[:, :, at])
        np.testing.assert_allclose(again.effective_weights, fused.effective_weights[at], atol=1e-12)
        assert again.flags == fused.flags == record.flags
        assert again.gated is not None
        assert again.gated.passed.tolist() == [not names for names in record.gate.stopped_by]  # type: ignore[union-attr]


def test_the_scale_of_a_span_is_found_again(graded: tuple[list[Group], ScoreTable]) -> None:
    groups, table = graded
    lengths = np.array([[len(r.response)] for group in groups for r in group.rollouts], dtype=float)
    result = table.fuse(span="unit", attributes=lengths, attribute_names=["letters"])
    for record, fused in zip(records_of(result, table), result, strict=True):
        again = to_fused_group(record)
        at = [fused.criteria.index(name) for name in again.criteria]
        told = ~fused.constant[at]
        np.testing.assert_allclose(
            np.asarray(again.scale)[told], np.broadcast_to(fused.scale, fused.weights.shape)[at][told], rtol=1e-9
        )
        for i in range(record.size):
            assert in_order(again.explain(i)) == in_order(fused.explain(i))


def test_observed_outcomes_come_back(odd_records: list[GroupRecord]) -> None:
    five = to_fused_group(next(r for r in odd_records if r.group == "five"))
    assert list(five.compared) == [1]
    assert five.known[:, 1].all()
    assert "Said (weight 2.5): " in five.explain(0)


def test_a_rule_without_utilities_explains_without_shares(rule_records: list[GroupRecord]) -> None:
    record = rule_records[0]
    words = explain(record, 0)
    assert to_fused_group(record).utilities is None
    assert words.startswith(f"rollout 0 of group {record.group}: reward ")
    assert "beats " in words
    assert "gate: " in words
    assert "→" not in words


def test_a_rollout_that_is_not_there(demo_records: list[GroupRecord]) -> None:
    with pytest.raises(InvalidInput, match="a number from 0 to 7"):
        explain(demo_records[0], 8)
