"""Maps that keep the order; everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.replay import Transform, parse_transform

NAN = float("nan")


def table(*columns: list[float], names: tuple[str, ...] = ("A", "words:count")) -> ScoreTable:
    scores = np.array(columns, dtype=float).T
    criteria = tuple(CriterionData(name) for name in names[: len(columns)])
    return ScoreTable((GroupScores("q", criteria, scores, (("",) * len(columns),) * len(scores)),))


@folded(
    ("text", "before", "after"),
    [
        ("A*10", [0, 0.5, NAN], [0, 5, NAN]),
        ("A * 2.5", [1, 2], [2.5, 5]),
        ("A^2", [0, 3, -2], [0, 9, -4]),
        ("A^0.5", [4, 9], [2, 3]),
        ("A=0:0,0.2:1,1:100", [1, 0, 0.2, NAN], [100, 0, 1, NAN]),
    ],
)
def test_maps(text: str, before: list[float], after: list[float]) -> None:
    found = parse_transform(text)(table(before)).groups[0].scores[:, 0]
    assert found == pytest.approx(np.array(after), nan_ok=True)


def test_a_name_with_a_colon() -> None:
    found = parse_transform("words:count*3")(table([1, 2], [5, 6])).groups[0].scores
    assert found.tolist() == [[1, 15], [2, 18]]


@folded("text", ["A", "*10", "A*", "A*ten", "A=0:x", "A=1", "A^nan", "A*inf"])
def test_what_is_no_map(text: str) -> None:
    with pytest.raises(InvalidInput, match="transform"):
        parse_transform(text)(table([0, 1]))


def test_the_order_must_stay() -> None:
    for text in ("A*-1", "A*0", "A=0:1,1:0"):
        with pytest.raises(InvalidInput, match="strictly increasing"):
            parse_transform(text)(table([0, 1]))
    with pytest.raises(InvalidInput, match="strictly increasing"):
        Transform("A", np.floor, "floor")(table([0.2, 0.4]))


def test_unknown() -> None:
    with pytest.raises(UnknownName, match="Did you mean"):
        parse_transform("words:coun*2")(table([0, 1], [1, 2]))
    with pytest.raises(InvalidInput, match=r"0\.5"):
        parse_transform("A=0:0,1:1")(table([0, 0.5, 1]))


def test_queries_without_the_criterion_are_left_alone() -> None:
    both = ScoreTable((*table([0, 1]).groups, *table([3, 4], names=("B",)).groups))
    mapped = parse_transform("A*2")(both)
    assert mapped.groups[1] is both.groups[1]
