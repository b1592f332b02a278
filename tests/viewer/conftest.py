"""Records for the viewer's and the report's tests: the demo's, odd ones, and hand-worked ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rubrank.cli.demo.demo import fuse_table
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.fusion.rules import find_rule
from rubrank.grading.grade import grade
from rubrank.records.record import GroupRecord, records_of
from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable

ROOT = Path(__file__).parents[2]
NAN = float("nan")


@pytest.fixture(scope="session")
def graded() -> tuple[list[Group], ScoreTable]:
    groups = list(load_demo_groups())
    return groups, grade(groups, workers=0)


@pytest.fixture(scope="session")
def demo_records(graded: tuple[list[Group], ScoreTable]) -> list[GroupRecord]:
    """The bundled groups, adjusted and gated, beside the plain ranking."""
    groups, table = graded
    others = {"unadjusted": table.fuse().reward}
    return list(records_of(fuse_table(table, groups), table, groups=groups, step=0, others=others))


@pytest.fixture(scope="session")
def rule_records(graded: tuple[list[Group], ScoreTable]) -> list[GroupRecord]:
    """The same under a rule without utilities."""
    groups, table = graded
    batch = table.batch()
    rule = find_rule("weighted-mean+")
    return list(records_of(rule(batch), table, groups=groups, step=1))


@pytest.fixture(scope="session")
def odd_records() -> list[GroupRecord]:
    """Everything that the demo does not have: comparisons, spans, margins, lower is better, nothing to compare with."""
    return [*_odd(span="model"), *_odd(span="unit"), *_odd(span="unit", attributes=True), *_odd(attributes=True)]


def _odd(attributes: bool = False, **options: Any) -> list[GroupRecord]:
    criteria = (
        CriterionData("Fast", weight=0.125, direction="lower", margin=0.1),
        CriterionData("Said", weight=2.5),
        CriterionData("Same"),
        CriterionData("Gone"),
        CriterionData("Big"),
    )
    random = np.random.default_rng(5)
    groups = []
    for name, G in (("crowd", 20), ("five", 5), ("alone", 1), ("tied", 3)):
        scores = np.column_stack(
            [
                random.random(G) * (1e-3 if name == "tied" else 1.0),
                np.full(G, NAN),
                np.ones(G),
                np.full(G, NAN),
                random.integers(0, 3, G) * (0.0 if name == "tied" else 1234567.0),
            ]
        )
        if name == "five":
            scores[1, 0] = scores[2, 4] = NAN
        won = np.full((G, G), NAN)
        for i in range(G - 1):  # a chain: not everybody meets everybody
            if name != "tied":
                won[i, i + 1] = random.choice([0.0, 0.5, 0.7, 1.0])
                won[i + 1, i] = 1.0 - won[i, i + 1]
        reasons = tuple(("",) * len(criteria) for _ in range(G))
        groups.append(GroupScores(name, criteria, scores, reasons, {"Said": won}))
    table = ScoreTable(tuple(groups))
    if attributes:
        options |= {"attributes": random.random((len(table), 2)) * 300.0, "attribute_names": ["words", "bold"]}
    return list(records_of(table.fuse(**options), table))


@pytest.fixture(scope="session")
def bench() -> ModuleType:
    """benchmarks/report.py, which makes long runs up and knows how to start a browser."""
    spec = importlib.util.spec_from_file_location("report_benchmark", ROOT / "benchmarks" / "report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def record_of() -> Callable[..., GroupRecord]:
    """A record from scores by criterion, with a reward made up."""

    def make(scores: dict[str, list[float | None]], reward: list[float], **more: Any) -> GroupRecord:
        named = {"group": "g", "ranking": tuple(reward), "no_signal": len(set(reward)) == 1, **more}
        given = named.pop("criteria", tuple(CriterionData(name) for name in scores))
        named.setdefault("weights", (1.0,) * sum(c.layer == "quality" for c in given))
        return GroupRecord(
            criteria=given, scores=tuple(zip(*scores.values(), strict=True)), reward=tuple(reward), **named
        )

    return make
