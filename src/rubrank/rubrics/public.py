"""Read rubrics in the shapes that public data has.

    to_rubric({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})          IFEval, IFBench, M-IFEval
    to_rubric([{"criterion": "Advises to see a doctor", "points": 5, "tags": ["axis:accuracy"]}])        HealthBench
    to_rubric([{"title": "Dose", "description": "Essential Criteria: gives the dose", "weight": 5}])             RaR
    to_rubric([{"criterion": "Names the source", "weight": 2}, "Is polite"])                       lists of anything
    to_rubric({"requirements": "Reproduced", "sub_tasks": [{"requirements": "It runs", …}, …]})   trees of PaperBench
    to_rubric('{"criteria": [{"name": "WordCount", "params": {"low": 50}}]}')                       our own, as text

All shapes are converted to data in our own shape, {"criteria": [{"name": …, …}, …]}, which `parse_rubric` checks.

Text that no program can check becomes a question for a judge. Negative points say that the thing should not be there:
their size is the weight, and lower scores are better.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rubrank._plain import describe_type, shorten
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.rubrics.catalogue import is_a_name, name_or_question, shorten_name
from rubrank.rubrics.files import presets, read_data
from rubrank.rubrics.rubric import Criterion, Rubric, merge_extended, parse_rubric

CATEGORY_WEIGHTS = {"Essential": 1.0, "Important": 0.7, "Optional": 0.3, "Pitfall": 0.9}
"""What a category of RaR weighs where the data gives no weight."""

# A category at the beginning of a text: "Essential Criteria: gives the dose", "Pitfall: …"
_CATEGORY = re.compile(
    rf"\s*({'|'.join(CATEGORY_WEIGHTS)})\s*(?:Criteria|Criterion)?\s*[:：]\s*", re.IGNORECASE
)
# Keys that hold the text of a criterion. The first one with a text is read, and `title` if there is none.
_TEXT_KEYS = (
    "criterion",
    "criteria",
    "question",
    "description",
    "rubric",
    "text",
    "requirement",
    "name",
)
_WEIGHT_KEYS = ("points", "weight", "score", "importance")
_FOREIGN_KEYS = frozenset(
    {"criterion", "criteria", "description", "rubric", "text", "requirement", "title"}
)
"""Keys that only other shapes have: a criterion without any of them is in our own shape."""
# Keys of our own shape that a criterion of another shape may have, too.
_COPIED_KEYS = ("domain", "direction", "family", "layer", "margin", "tier", "depends")
_KNOWN_KEYS = {*Criterion.model_fields, *_TEXT_KEYS, *_WEIGHT_KEYS, "title", "tags"}
# Keys that a misspelt key may have been meant to be.
_SUGGESTED_KEYS = (
    *_WEIGHT_KEYS,
    *_COPIED_KEYS,
    "params",
    "verifier",
    "category",
    "reference",
    "question",
)
_MIN_SIMILARITY = 0.8  # of a misspelt key to the one that was meant
# Keys of a node of a tree: its children, and its text. The first one that is there is read.
_CHILDREN_KEYS = ("sub_tasks", "children", "subcriteria")
_NODE_TEXT_KEYS = (
    "requirements",
    "requirement",
    "criterion",
    "question",
    "description",
    "name",
)
_MOST_LEAVES = 5_000
_MOST_LEVELS = 50


@only_our_errors
def to_rubric(data: Any, where: str = "rubric", folder: Path = Path()) -> Rubric:
    """Return a rubric from what the column of a dataset holds; the top of this file lists the shapes.

    where: the file or row, for errors. folder: where files that it extends are looked for.
    """
    if isinstance(data, Rubric):
        return data
    if _is_path(data):  # so that errors name the file
        where = data if where == "rubric" else f"{where}: {data}"
    return parse_rubric(convert_rubric(data, where), where, folder)


def convert_rubric(data: Any, where: str = "rubric") -> dict[str, Any]:
    """Convert the data of a rubric to our own shape. Its criteria are not checked yet.

    data: a mapping, a list of criteria, a file, the name of a preset, or JSON text. Raises InvalidInput otherwise.
    """
    data = remove_nulls(data)
    if _is_path(data):
        # Criteria that the file inherits may be in any shape. They are converted below, together with its own criteria,
        # which do not change when they are converted again.
        own_data = convert_rubric(read_data(data), data)
        data = merge_extended(own_data, where=data, folder=Path(data).parent)
    elif isinstance(data, str) and data in presets():
        data = {"extends": data}
    elif isinstance(data, str):
        try:
            data = remove_nulls(json.loads(data))
        except ValueError as error:
            raise InvalidInput(where, "rubric", allowed="valid JSON", got=str(error)) from None
    if isinstance(data, Mapping):
        return _convert_mapping(data, where)
    if isinstance(data, list | tuple):
        return {"criteria": _number_names([_convert_item(item) for item in data])}
    raise InvalidInput(
        where,
        "rubric",
        allowed="a mapping, a list of criteria, or a name of a preset",
        got=describe_type(data),
        remedy="See `rubrank help rubrics` for the shapes.",
    )


def _is_path(data: Any) -> bool:
    """Does it name a file? Every text does that is neither JSON nor the name of a preset."""
    return isinstance(data, str) and data.lstrip()[:1] not in ("{", "[") and data not in presets()


def remove_nulls(data: Any) -> Any:
    """Return the data without keys whose value is null, at every depth: Parquet and `datasets` add them to all rows."""
    if isinstance(data, Mapping):
        return {key: remove_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list | tuple):
        return [remove_nulls(item) for item in data]
    return data


def _convert_mapping(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert a mapping: a row of IFEval, a tree, our own shape, or a wrapper around one of these."""
    if "instruction_id_list" in data:
        instructions = convert_ifeval(data["instruction_id_list"], data.get("kwargs"), where)
        return {"id": "instructions", "criteria": instructions}
    if any(isinstance(data.get(key), list | tuple) for key in _CHILDREN_KEYS):
        return {"criteria": _number_names(_list_leaves(data, where))}
    if "criteria" in data or "extends" in data:
        items = data.get("criteria", ())
        if not isinstance(items, list | tuple):
            return dict(data)  # checking the rubric later says what is wrong
        # This may be a rubric that a user wrote for us, so it is changed as little as possible: `parse_rubric` reads
        # texts, where a single word is a name and not a question, and refuses names that are given twice.
        criteria = [item if isinstance(item, str) else _convert_item(item) for item in items]
        return {**data, "criteria": criteria}
    for key in ("rubric", "rubrics", "tree"):
        if key in data:
            return convert_rubric(data[key], where)
    raise InvalidInput(
        where,
        "rubric",
        allowed="with `criteria`",
        got=f"the keys {', '.join(data)}",
        remedy="See `rubrank help rubrics`.",
    )


# --------------------------------------------------------------------------------------------- instructions of IFEval


def convert_ifeval(ids: Any, kwargs: Any, where: str = "rubric") -> list[dict[str, Any]]:
    """Return the criteria of a row of IFEval or IFBench as data in our own shape, not checked yet.

    ids, kwargs: lists, or lists as JSON text, as CSV files have them. Raises InvalidInput for anything else; a text is
    never the name of a file here.
    """
    from rubrank.verifiers.instruction_items import public_params

    allowed_ids = 'a list of ids, such as ["punctuation:no_comma"]'
    ids = _parse_list(ids, where, "instruction_id_list", allowed_ids)
    allowed_kwargs = "a list with the arguments of each instruction"
    kwargs = _parse_list(kwargs, where, "kwargs", allowed_kwargs) or [{}] * len(ids)
    if len(kwargs) != len(ids):
        raise InvalidInput(
            where,
            "kwargs",
            allowed=f"{len(ids)}, one for each instruction",
            got=str(len(kwargs)),
        )
    criteria = []
    for name, arguments in zip(ids, kwargs, strict=True):
        parsed = _parse_json_text(arguments)
        if parsed is not None and not isinstance(parsed, Mapping):
            raise InvalidInput(
                where,
                "kwargs",
                allowed="a list of mappings",
                got=_describe_value(parsed),
            )
        try:
            verifier, params = public_params(name, parsed)
        except InvalidInput:
            # An unknown id is reported when the criterion is checked, together with the mistakes of others.
            criteria.append({"name": name, "verifier": name})
            continue
        criteria.append(
            {"name": name, "verifier": verifier.name, "params": params, "family": verifier.family}
        )
    return _number_names(criteria)


def _parse_list(data: Any, where: str, field: str, allowed: str) -> Collection[Any]:
    """Return the list, parsed if it is JSON text; null is an empty list. Raises InvalidInput for anything else."""
    parsed = _parse_json_text(data)
    if parsed is None:
        return ()
    if isinstance(parsed, str | Mapping) or not isinstance(parsed, Collection):
        raise InvalidInput(where, field, allowed=allowed, got=_describe_value(data))
    return parsed


def _parse_json_text(data: Any) -> Any:
    """Return the data in a JSON text, without nulls. Other texts and other data are returned unchanged."""
    if not isinstance(data, str):
        return data
    try:
        return remove_nulls(json.loads(data))
    except ValueError:
        return data


def _describe_value(value: Any) -> str:
    """Return a text itself, and the type of anything else, for errors."""
    return shorten(repr(value), 80) if isinstance(value, str) else describe_type(value)


# --------------------------------------------------------------------------------------------------- lists of criteria


def _convert_item(item: Any) -> Any:
    """Convert a criterion of a public rubric to our own shape. The first line of this table that fits decides:

        a text                                            a criterion of the library, or a question
        no mapping, or a mapping without foreign keys     unchanged: it is in our own shape
        foreign keys, but no text under any of them       unchanged
        a name of the library, and no key `name`          the text becomes the name: {"criterion": "WordCount", …}
        `verifier` or `params`                            unchanged: it is in our own shape, with an unknown key
        anything else                                     a question with a weight

    If an item that is returned unchanged is wrong, checking the criterion later says what is wrong with it.
    """
    if isinstance(item, str):
        return name_or_question(item, foreign=True)
    if not isinstance(item, Mapping) or _FOREIGN_KEYS.isdisjoint(item):
        return item

    # A title is the text only if there is no other, and is never the name of a criterion of the library.
    text_keys = [key for key in _TEXT_KEYS if isinstance(item.get(key), str) and item[key]]
    text_key = text_keys[0] if text_keys else "title"
    text = str(item.get(text_key) or "")
    if not text:
        return item
    if text_key != "title" and "name" not in item and is_a_name(text):
        other_fields = {key: value for key, value in item.items() if key != text_key}
        return {"name": text, **other_fields}
    if "verifier" in item or "params" in item:
        return item

    category_in_text = _read_category(text)
    category = item.get("category") or category_in_text
    if not category and isinstance(item.get("tags"), list | tuple):
        # HealthBench tags a criterion with its axis: "axis:accuracy".
        axes = [str(tag) for tag in item["tags"] if str(tag).startswith("axis:")]
        category = axes[0].removeprefix("axis:") if axes else None
    question = text
    if category_in_text:
        question = _CATEGORY.sub("", text, count=1).strip()
    name = str(item.get("title") or item.get("name") or question)
    fields: dict[str, Any] = {"name": shorten_name(name), "question": question or name}
    if category:
        fields["category"] = str(category)
    if item.get("reference") is not None:
        fields["reference"] = item["reference"]
    fields |= _convert_weight(item, text)
    for key, value in item.items():
        # A misspelt key such as `wieght` is carried along: checking the criterion says what was meant.
        is_misspelt = key not in _KNOWN_KEYS and get_close_matches(
            str(key), _SUGGESTED_KEYS, n=1, cutoff=_MIN_SIMILARITY
        )
        if key in _COPIED_KEYS or is_misspelt:
            fields[key] = value
    return fields


def _convert_weight(item: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Convert what a criterion of another shape says about its weight. text: its text, which may name a category.

    {"points": -4}                        {"weight": 4, "direction": "lower", "points": -4}
    {"weight": 2}                         {"weight": 2}
    {"importance": "Optional"}            {"weight": 0.3}
    {"category": "Pitfall"}, or {}        {"weight": 0.9}, {"weight": 1.0}
    """
    value = next((item[key] for key in _WEIGHT_KEYS if item.get(key) is not None), None)
    if value is None:
        category = str(item.get("category") or _read_category(text) or "").capitalize()
        return {"weight": CATEGORY_WEIGHTS.get(category, 1.0)}
    if isinstance(value, str):
        named = CATEGORY_WEIGHTS.get(value.strip().capitalize())
        return {"weight": value if named is None else named}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {"weight": value}  # checking the criterion says that it is no number
    fields: dict[str, Any] = {"weight": abs(value)}
    if value < 0:
        fields["direction"] = "lower"
    if "points" in item:
        fields["points"] = value
        # A weight beside points is kept: some fusion rules count points, all others use weights.
        weight = item.get("weight")
        if isinstance(weight, int | float) and not isinstance(weight, bool):
            fields["weight"] = abs(weight)
    return fields


def _read_category(text: str) -> str | None:
    """Return the category at the beginning of a text; None if there is none."""
    match = _CATEGORY.match(text)
    return match[1].capitalize() if match else None


def _number_names(items: Iterable[Any]) -> list[Any]:
    """Add a number to a name that occurs again: `keywords:existence (2)`."""
    counts: dict[str, int] = {}
    named = []
    for item in items:
        if isinstance(item, Mapping) and "name" in item:
            name = str(item["name"])
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1:
                item = {**item, "name": f"{name} ({counts[name]})"}
                # A criterion without a verifier is decided by the verifier of its name, which has just been changed.
                if not item.get("question"):
                    item.setdefault("verifier", name)
        named.append(item)
    return named


# -------------------------------------------------------------------------------------------------------------- trees


def _list_leaves(tree: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the leaves of a tree of requirements as criteria in our own shape, with weights that sum to 1.

        {"requirements": "The paper is reproduced", "sub_tasks": [
            {"requirements": "The code runs", "weight": 3},
            {"requirements": "The results match", "weight": 1, "sub_tasks": [
                {"requirements": "Table 1", "weight": 1},
                {"requirements": "Table 2", "weight": 1}]}]}

        The code runs 0.75, Table 1 0.125, Table 2 0.125

    A node's score in PaperBench is the weighted mean of its children's scores. So the score of the root is the weighted
    sum of the leaves' scores, where the weight of a leaf is the product of the shares on the way down. Only leaves are
    judged. The requirements above a leaf are shown with its question; the first one below the root is its category.
    """
    leaves: list[dict[str, Any]] = []
    # A node, its share of the whole, and the requirements above it.
    stack: list[tuple[Mapping[str, Any], float, tuple[str, ...]]] = [(tree, 1.0, ())]
    while stack:
        node, share, above = stack.pop()
        children = next((node[key] for key in _CHILDREN_KEYS if node.get(key)), ())
        if not isinstance(children, list | tuple) or not all(
            isinstance(child, Mapping) for child in children
        ):
            raise InvalidInput(
                where,
                _CHILDREN_KEYS[0],
                allowed="a list of requirements",
                got=describe_type(children),
            )
        text = _read_node_text(node, where)
        if not children:
            leaf: dict[str, Any] = {"name": shorten(text, 80), "question": text, "weight": share}
            between = above[1:]  # the requirements between the root and the leaf
            if between:
                leaf["question"] = f"{text} (part of: {' › '.join(between)})"
                leaf["category"] = between[0]
            leaves.append(leaf)
            if len(leaves) > _MOST_LEAVES:
                raise InvalidInput(where, "leaves", allowed=f"at most {_MOST_LEAVES:,}", got="more")
            continue
        if len(above) >= _MOST_LEVELS:
            raise InvalidInput(where, "depth", allowed=f"at most {_MOST_LEVELS} levels", got="more")
        weights = [_read_node_weight(child, where) for child in children]
        total = math.fsum(weights)
        if total <= 0.0:
            raise InvalidInput(
                where,
                f"weights below {text[:60]!r}",
                allowed="more than 0 together",
                got=f"{total:g}",
            )
        # The last one is pushed first, so that leaves come in the order of the file. Weight 0 means left out.
        for child, weight in zip(reversed(children), reversed(weights), strict=True):
            if weight > 0.0:
                stack.append((child, share * weight / total, (*above, text)))
    return leaves


def _read_node_text(node: Mapping[str, Any], where: str) -> str:
    """Return the requirement of a node. Raises InvalidInput if it has none."""
    for key in _NODE_TEXT_KEYS:
        if isinstance(node.get(key), str) and node[key].strip():
            return str(node[key]).strip()
    raise InvalidInput(
        where,
        _NODE_TEXT_KEYS[0],
        allowed="a text for every requirement",
        got=f"the keys {', '.join(map(str, node))}",
    )


def _read_node_weight(node: Mapping[str, Any], where: str) -> float:
    """Return the weight of a node, 1 if it has none. Raises InvalidInput if it is not a number ≥ 0."""
    value = node.get("weight", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InvalidInput(where, "weight", allowed="a number ≥ 0", got=repr(value))
    return float(value)
