"""What fusion costs: every rule on the same step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from cases import folded

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import find_rule, rule_names
from rubrank.studies.overhead import measure_best_seconds, overhead, synthetic_step


@dataclass(frozen=True)
class Observer:
    """Notes whether something was computed on each batch before, and computes it."""

    name: ClassVar[str] = "observer"
    bounded: ClassVar[bool] = True
    was_computed: list[bool]

    def __call__(self, batch):
        self.was_computed.append("unit_MK" in batch.__dict__)
        return Fused(batch, self.name, batch.unit_MK.mean(1))


def test_every_case_once() -> None:
    rows = overhead(synthetic_step(groups=3).batch(), rounds=1)
    cases = [row.case for row in rows]
    assert cases[0] == "weighted-mean"
    assert set(rule_names()) < set(cases)
    assert [case for case in cases if "attribute" in case] == [
        "rlvr2, 1 attribute, γ per group",
        "rlvr2, 1 attribute, γ per batch",
        "rlvr2, 11 attributes, γ per group",
        "rlvr2, 11 attributes, γ per batch",
    ]
    assert len(cases) == len(set(cases))
    assert all(row.ratio == pytest.approx(row.seconds / rows[0].seconds) for row in rows)


def test_the_weighted_mean_is_always_there() -> None:
    done: list[tuple[int, int]] = []
    rows = overhead(rules=["gdpo+"], rounds=3, progress=lambda *at: done.append(at))
    assert [row.case for row in rows] == ["weighted-mean", "gdpo+"]
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_every_call_gets_a_batch_on_which_nothing_was_computed() -> None:
    """Else a rule would seem faster than it is, because an earlier one had done part of its work."""
    batch = synthetic_step(groups=2).batch()
    assert batch.unit_MK is not None
    observer = Observer([])
    assert measure_best_seconds(observer, batch, rounds=2) < np.inf
    assert len(observer.was_computed) > 2
    assert not any(observer.was_computed)


def test_mistakes() -> None:
    with pytest.raises(InvalidInput, match="rounds"):
        overhead(rounds=0)
    with pytest.raises(UnknownName):
        overhead(rules=["nothing"])


def test_the_synthetic_step() -> None:
    table = synthetic_step()
    assert (len(table.groups), len(table)) == (128, 1024)
    batch = table.batch()
    kinds = [np.unique(batch.scores_MK[:, k]) for k in range(12)]
    assert [len(values) for values in kinds[:8]] == [2] * 4 + [3] * 4
    assert all(len(values) > 1000 for values in kinds[8:])
    assert batch.gates_MC is not None
    assert batch.gates_MC.shape == (1024, 2)
    assert (batch.unit_MK >= 0).all()
    assert (batch.unit_MK <= 1).all()
    again = synthetic_step().scores
    np.testing.assert_array_equal(table.scores, again)
    assert not np.array_equal(synthetic_step(seed=1).scores, again)


@folded("rule", ["gear", "rar-explicit", "healthbench", "lexicographic", "weighted-mean+"])
def test_rules_have_their_work_in_it(rule: str) -> None:
    """Prerequisites, categories, points, tiers and gates make a difference to who uses them."""
    batch = synthetic_step(groups=8).batch()
    assert not np.allclose(find_rule(rule)(batch).reward, find_rule("weighted-mean")(batch).reward)
