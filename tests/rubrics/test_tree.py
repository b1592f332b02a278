"""Trees of requirements: leaves with the weights that the tree gives them."""

import json

import pytest

from rubrank.errors import InvalidInput
from rubrank.rubrics.public import to_rubric


def node(text, weight, *children):
    return {"id": text, "requirements": text, "weight": weight, "sub_tasks": list(children)}


def test_leaves_have_the_product_of_their_shares():
    tree = node("all", 1, node("runs", 3), node("match", 1, node("table 1", 1), node("table 2", 1)))
    rubric = to_rubric(tree)
    assert {c.name: c.weight for c in rubric.criteria} == {"runs": 0.75, "table 1": 0.125, "table 2": 0.125}
    assert rubric.criteria[1].category == "match"
    assert to_rubric(json.dumps(tree)).criteria == rubric.criteria


def test_weight_zero_is_left_out_and_equal_texts_stay_apart():
    rubric = to_rubric(node("all", 1, node("a", 0), node("b", 1, node("x", 1)), node("c", 1, node("x", 2))))
    assert len(rubric.criteria) == 2
    assert len({c.name for c in rubric.criteria}) == 2
    assert sum(c.weight for c in rubric.criteria) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "tree",
    [
        node("all", 1, node("a", -1), node("b", 1)),
        node("all", 1, node("a", 0)),
        node("all", 1, {"weight": 1, "sub_tasks": []}),
        node("all", 1, "a text"),
    ],
)
def test_mistakes_are_one_clear_error(tree):
    with pytest.raises(InvalidInput):
        to_rubric(tree)


def test_depth_is_bounded():
    tree = node("leaf", 1)
    for level in range(60):
        tree = node(f"level {level}", 1, tree)
    with pytest.raises(InvalidInput, match="depth"):
        to_rubric(tree)
