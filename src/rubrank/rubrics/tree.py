"""Nested rubrics, rolled up: a tree of requirements becomes its leaves, each with its share of the whole.

    {"requirements": "The paper is reproduced", "weight": 1, "sub_tasks": [
        {"requirements": "The code runs", "weight": 3, "sub_tasks": []},
        {"requirements": "The results match", "weight": 1, "sub_tasks": [
            {"requirements": "Table 1", "weight": 1, "sub_tasks": []},
            {"requirements": "Table 2", "weight": 1, "sub_tasks": []}]}]}

    The code runs 0.75, Table 1 0.125, Table 2 0.125

A node's score in PaperBench is the weighted mean of its children's, so the root's is the sum of the leaves' scores,
each times the product of its shares on the way down: these products are the weights here. Only leaves are judged; the
requirements above a leaf are kept in its category, and shown with its question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rubrank._plain import describe_type, shortened
from rubrank.errors import InvalidInput

CHILDREN = ("sub_tasks", "children", "subcriteria")
TEXTS = ("requirements", "requirement", "criterion", "question", "description", "name")
_MOST_LEAVES = 5_000
_DEEPEST = 50


def is_tree(data: Mapping[str, Any]) -> bool:
    """Does it have children, which no flat rubric has?"""
    return any(
        isinstance(data.get(key), Sequence) and not isinstance(data.get(key), str)
        for key in CHILDREN
    )


def list_leaves(data: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """The leaves as criteria in our own shape, with rolled-up weights that sum to 1."""
    leaves: list[dict[str, Any]] = []
    stack: list[tuple[Mapping[str, Any], float, tuple[str, ...]]] = [(data, 1.0, ())]
    while stack:
        node, share, above = stack.pop()
        children = _read_children(node, where)
        text = _read_text(node, where)
        if not children:
            leaf: dict[str, Any] = {"name": shortened(text, 80), "question": text, "weight": share}
            if len(above) > 1:  # the requirements between the root and the leaf
                leaf["question"] = f"{text} (part of: {' › '.join(above[1:])})"
                leaf["category"] = above[1]
            leaves.append(leaf)
            if len(leaves) > _MOST_LEAVES:
                raise InvalidInput(where, "leaves", allowed=f"at most {_MOST_LEAVES:,}", got="more")
            continue
        if len(above) >= _DEEPEST:
            raise InvalidInput(where, "depth", allowed=f"at most {_DEEPEST} levels", got="more")
        weights = [_read_weight(child, where) for child in children]
        total = math.fsum(weights)
        if total <= 0.0:
            raise InvalidInput(
                where,
                f"weights below {text[:60]!r}",
                allowed="more than 0 together",
                got=f"{total:g}",
            )
        shares = [share * weight / total for weight in weights]
        # The first child is taken next, so that leaves come in the order of the file; weight 0 means left out.
        for child, child_share in reversed(list(zip(children, shares, strict=True))):
            if child_share > 0.0:
                stack.append((child, child_share, (*above, text)))
    return leaves


def _read_children(node: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    listed = next((node[key] for key in CHILDREN if node.get(key)), ())
    is_list = isinstance(listed, Sequence) and not isinstance(listed, str)
    if not is_list or not all(isinstance(child, Mapping) for child in listed):
        raise InvalidInput(
            where,
            CHILDREN[0],
            allowed="a list of requirements",
            got=describe_type(listed),
        )
    return list(listed)


def _read_text(node: Mapping[str, Any], where: str) -> str:
    for key in TEXTS:
        if isinstance(node.get(key), str) and node[key].strip():
            return str(node[key]).strip()
    raise InvalidInput(
        where,
        TEXTS[0],
        allowed="a text for every requirement",
        got=f"the keys {', '.join(map(str, node))}",
    )


def _read_weight(node: Mapping[str, Any], where: str) -> float:
    value = node.get("weight", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InvalidInput(where, "weight", allowed="a number ≥ 0", got=repr(value))
    return float(value)
