"""Data in answers (JSON, CSV, YAML, TOML, XML) and the final state of an agent: does it have the expected values?

The JSON of an answer is its last code fence that holds JSON, or else the whole answer. Neither the answer nor the
schema is trusted: size, depth, steps and patterns are limited.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import yaml
from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import split_code
from rubrank.verifiers.shared.json_values import (
    BadSchema,
    TooBig,
    are_equal,
    check_size,
    find_schema_error,
    is_number,
    make_sort_key,
    parse_json,
)
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

ABSENT = object()
_MOST_CHARACTERS = (
    200_000  # of CSV, YAML, TOML and XML that are parsed: answers have a few thousand
)
_MOST_XML_DEPTH = 100  # Python's own limit of recursion is 1,000 calls
# "-12", "3.50", "1e-3": at most 15 digits on either side of the point, so that no float loses one
_NUMBER = re.compile(r"[-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?")
# "&base" in "a: &base {x: 1}" and "*base" in "b: *base" or "[*base]": a name of YAML where a value begins
_YAML_ANCHOR_OR_ALIAS = re.compile(r"(?m)(?:^|[\s:\-,\[{])[&*][A-Za-z_]\w*(?=\s|$|[,\]}])")


def find_json(answer: str, bare: bool = False) -> Any:
    """Return the JSON value of an answer. With `bare`, no text may stand around it.

    Raises ValueError if the answer holds no JSON.
    """
    text = answer.strip()
    candidates = [text]
    if not bare:
        fences = split_code(text)[1]
        candidates += [code for tag, code in fences if tag.lower() in ("", "json", "json5")]
    problem = ""
    for candidate in reversed(candidates):  # the last fence first, the whole answer last
        try:
            return parse_json(candidate)
        except ValueError as error:
            problem = str(error)
    raise ValueError(f"no JSON: {problem}")


@verifier("JsonSchema", family="data")
def json_schema(
    rollout: Rollout, *, schema: dict[str, Any] | None = None, bare: bool = False
) -> Answer:
    """The answer is JSON that fits a JSON Schema (`schema`, or `metadata["schema"]`).

    Passes: {"age": 3} for {"type": "object", "required": ["age"]}, also in a ```json fence with words around it.
    Fails: no JSON; JSON that breaks the schema; NaN; words around it where `bare` is set; JSON too large to be checked.
    Missing: no schema, or one that cannot be used.
    Not covered: remote references, unevaluatedProperties.
    """
    definition = rollout.metadata.get("schema") if schema is None else schema
    if not isinstance(definition, Mapping):
        return missing("no schema: give `schema`, or metadata['schema']")
    try:
        value = find_json(rollout.answer, bare)
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, str(error)[:200]
    try:
        problem = find_schema_error(definition, value)
    except BadSchema as error:
        return missing(f"the schema cannot be used: {error}")
    return problem is None, problem or "fits the schema"


@verifier("JsonMatch", family="data", domain=UNIT, version=3)
def json_match(
    rollout: Rollout,
    *,
    expected: Any = None,
    tolerance: Annotated[float, Field(ge=0)] = 1e-9,
    order: Literal["matters", "ignored"] = "matters",
    extra: Literal["allowed", "counted"] = "counted",
) -> Answer:
    """The share of expected values (`expected`, or `metadata["expected"]`) that the answer's JSON has at their place.

    Passes (1): {"a": 1, "b": [2]} for itself; 1.0 for 1; lists in another order with `order="ignored"`.
    Half: one of two values right.
    Fails (0): no JSON; nothing right. Keys that were not asked for count as wrong values with `extra="counted"`.
    Missing: nothing expected, or too much to be compared.
    Not covered: values that are equal only in meaning ("3" is not 3); with `order="ignored"`, objects and lists that
        differ by rounding in one value and clearly in another may be compared with the wrong partner.
    """
    return _match_values(
        rollout, expected, find_json, tolerance, order, count_extra=extra == "counted"
    )


@verifier("DataMatch", family="data", domain=UNIT, version=4)
def data_match(
    rollout: Rollout,
    *,
    format: Literal["csv", "yaml", "toml", "xml"],
    expected: Any = None,
    tolerance: Annotated[float, Field(ge=0)] = 1e-9,
    order: Literal["matters", "ignored"] = "matters",
) -> Answer:
    """The share of expected values that the answer's CSV, YAML, TOML or XML has at their place.

    `expected` (or metadata["expected"]) is the same data: as plain values, or as a text of that format. CSV is a list
    of rows by column; XML an element as {tag: {"@attribute": …, child: …, "#text": …}}. Values that were not asked for
    count as wrong.
    Passes (1): the data itself, numbers written otherwise (1.0 for 1), rows in another order with `order="ignored"`.
    Half: one of two values right.
    Fails (0): nothing right; text that does not parse; aliases of YAML and entities of XML, which can explode.
    Missing: nothing expected.
    Not covered: comments, namespaces, dates.
    """
    if expected is None:
        expected = rollout.metadata.get("expected")
    if isinstance(expected, str):
        try:
            expected = _parse_data(expected, format)
        except ValueError as error:
            return missing(f"what is expected is no {format}: {error}"[:200])

    def find_value(answer: str) -> Any:
        blocks = split_code(answer)[1]
        # "yml" is as common as "yaml". Words may follow in the tag: "csv title=prices".
        names = ("yaml", "yml") if format == "yaml" else (format,)
        tagged = [code for tag, code in blocks if tag.lower().startswith(names)]
        sources = tagged or [code for _, code in blocks] or [answer.strip()]
        return _parse_data(sources[-1], format)

    return _match_values(rollout, expected, find_value, tolerance, order)


def _match_values(
    rollout: Rollout,
    expected: Any,
    find_value: Callable[[str], Any],
    tolerance: float,
    order: str,
    count_extra: bool = True,
) -> Answer:
    """Return the share of expected values, those of the parameter or the metadata, that the answer's data has."""
    reference = rollout.metadata.get("expected", ABSENT) if expected is None else expected
    if reference is ABSENT:
        return missing("nothing expected: give `expected`, or metadata['expected']")
    try:
        check_size(reference, "expected")
    except TooBig as error:
        return missing(str(error))
    try:
        value = find_value(rollout.answer)
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, f"no data: {error}"[:200]
    right, total, unexpected = count_leaves(
        reference, value, tolerance, any_order=order == "ignored"
    )
    reason = f"{right} of {total} expected values, {unexpected} not asked for"
    if count_extra:
        total += unexpected
    return right / total if total else 1.0, reason


def count_leaves(
    expected: Any, actual: Any, tolerance: float, any_order: bool
) -> tuple[int, int, int]:
    """Count the values inside two values: (right, expected, unexpected).

    A value is right if the actual one has an equal value at the same place. Does not recurse, so deep values are safe.
    """
    right = 0
    total = 0
    unexpected = 0
    stack = [(expected, actual)]
    while stack:
        reference, value = stack.pop()
        if isinstance(reference, Mapping) and reference:
            entries = value if isinstance(value, Mapping) else {}
            stack += [(item, entries.get(key, ABSENT)) for key, item in reference.items()]
            extra_keys = [key for key in entries if key not in reference]
            unexpected += sum(_count_values(entries[key]) for key in extra_keys)
        elif isinstance(reference, (list, tuple)) and reference:
            items = list(value) if isinstance(value, (list, tuple)) else []
            if any_order:
                is_same = partial(_is_same, tolerance=tolerance)
                items = align_items(reference, items, make_sort_key, is_same)
            stack += zip_longest(reference, items[: len(reference)], fillvalue=ABSENT)
            unexpected += sum(map(_count_values, items[len(reference) :]))
        else:
            total += 1
            if _is_same(reference, value, tolerance):
                right += 1
    return right, total, unexpected


def align_items(
    expected: Sequence[Any],
    actual: Sequence[Any],
    make_key: Callable[[Any], Any],
    is_same: Callable[[Any, Any], bool],
) -> list[Any]:
    """Return the actual items in the order of the expected ones they are compared with; items left over follow.

        expected [1, 2, 3], actual [3, 9, 1.0000000001] → [1.0000000001, 9, 3]

    3 has the same key, 1.0000000001 is the same within the tolerance, and 9 fills the gap. Several gaps are filled in
    sorted order, because items that differ in a single value are then often compared with each other. ABSENT stands in
    gaps without an item.
    """
    remaining: dict[Any, list[Any]] = {}  # key → the actual items that have it and no partner yet
    for item in actual:
        remaining.setdefault(make_key(item), []).append(item)
    aligned: list[Any] = [ABSENT] * len(expected)
    unequal: list[tuple[Any, int]] = []  # keys and places of expected items without an equal one
    for place, item in enumerate(expected):
        key = make_key(item)
        if remaining.get(key):
            aligned[place] = remaining[key].pop()
        else:
            unequal.append((key, place))

    # Numbers within the tolerance. Both sides are sorted, so numbers below the current one have no partner.
    candidates = deque((key, item) for key in sorted(remaining) for item in remaining[key])
    leftovers = []
    gaps = []
    for key, place in sorted(unequal):
        while candidates and not is_same(expected[place], candidates[0][1]):
            if candidates[0][0] > key:
                break
            leftovers.append(candidates.popleft()[1])
        if candidates and is_same(expected[place], candidates[0][1]):
            aligned[place] = candidates.popleft()[1]
        else:
            gaps.append(place)
    leftovers += [item for _, item in candidates]
    for place, item in zip(gaps, leftovers, strict=False):
        aligned[place] = item
    return aligned + leftovers[len(gaps) :]


def _is_same(left: Any, right: Any, tolerance: float) -> bool:
    if is_number(left) and is_number(right):
        try:
            return bool(abs(left - right) <= tolerance * max(1.0, abs(left)))
        except OverflowError:  # a whole number too large for a float
            return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _count_values(value: Any) -> int:
    """Return how many values there are inside a value; an empty list or object is one."""
    count = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping) and item:
            stack += item.values()
        elif isinstance(item, (list, tuple)) and item:
            stack += item
        else:
            count += 1
    return count


# ---- CSV, YAML, TOML and XML -----------------------------------------------------------------------------------------


def _read_scalar(text: str) -> Any:
    """Return a number if the text is one, because CSV and XML have no types; else the text with single spaces."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    return " ".join(text.split())


def _parse_data(source: str, format: str) -> Any:
    """Return the data of a text. Raises ValueError if it is not of this format."""
    # Aliases of aliases and entities of entities can make gigabytes out of a few lines ("billion laughs").
    if format == "yaml" and _YAML_ANCHOR_OR_ALIAS.search(source):
        raise ValueError("anchors and aliases are not read")
    if format == "xml" and ("<!DOCTYPE" in source or "<!ENTITY" in source):
        raise ValueError("document types and entities are not read")
    source = source[:_MOST_CHARACTERS]
    try:
        if format == "csv":
            return _parse_csv(source)
        if format == "yaml":
            return yaml.safe_load(source)
        if format == "toml":
            return tomllib.loads(source)
        root = ElementTree.fromstring(source.strip())
        return {root.tag: _read_element(root, 0)}
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (csv.Error, yaml.YAMLError, ElementTree.ParseError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _parse_csv(source: str) -> list[dict[str, Any]]:
    """Return the rows of a table, each by column."""
    # Where the comma is the decimal sign, tables are written with semicolons.
    first_line = source.lstrip().split("\n", 1)[0]
    delimiter = next((sign for sign in ",;\t" if sign in first_line), ",")
    rows = [row for row in csv.reader(io.StringIO(source), delimiter=delimiter, strict=True) if row]
    if not rows:
        raise ValueError("no rows")
    header = [name.strip() for name in rows[0]]
    if any(len(row) != len(header) for row in rows):
        raise ValueError("rows of different lengths")
    return [
        {name: _read_scalar(cell) for name, cell in zip(header, row, strict=True)}
        for row in rows[1:]
    ]


def _read_element(element: ElementTree.Element, depth: int) -> Any:
    """Return an element as {"@attribute": …, child: …, "#text": …}, or as its text if it has nothing else.

    Children with the same tag become a list. Raises ValueError if elements are nested too deeply.
    """
    if depth > _MOST_XML_DEPTH:
        raise ValueError("nested too deeply")
    content: dict[str, Any] = {
        f"@{name}": _read_scalar(value) for name, value in element.attrib.items()
    }
    for child in element:
        value = _read_element(child, depth + 1)
        if child.tag not in content:
            content[child.tag] = value
        elif isinstance(content[child.tag], list):
            content[child.tag].append(value)
        else:
            content[child.tag] = [content[child.tag], value]
    text = _read_scalar(element.text or "")
    if not content:
        return text
    if text != "":
        content["#text"] = text
    return content


# ---- the final state of an agent -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CompareOptions:
    """The parameters of FinalStateMatch that say when two states agree."""

    subset: bool
    unordered: bool
    tolerance: float
    ignore: tuple[list[str], ...]
    """Paths that are left out, each split into its parts."""

    def ignores(self, path: str) -> bool:
        """Is the path one of those that are left out? There, "*" stands for any part and "[*]" for any index."""
        if not self.ignore:
            return False
        parts = _split_path(path)
        patterns = [pattern for pattern in self.ignore if len(pattern) == len(parts)]
        return any(all(map(_covers_part, pattern, parts)) for pattern in patterns)


@verifier("FinalStateMatch", family="agentic", domain=UNIT, version=3)
def final_state_match(
    rollout: Rollout,
    *,
    expected: Any = None,
    partial: bool = False,
    subset: bool = False,
    unordered: bool = False,
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    ignore: list[str] = [],  # noqa: B006 - pydantic copies it
) -> Answer:
    """The state at the end (`metadata["final_state"]`) is the expected one.

    The expected one is `expected` or `metadata["expected_state"]`. All leaves are compared; the reason names the first
    places that differ: `$.orders[2].status`. `subset`: keys that are not expected are allowed. `unordered`: the order
    of lists is ignored. `tolerance`: for numbers, relative or absolute. `ignore`: places left out, with `*` for any
    key or index (`$.orders[*].id`). Value 1 or 0; with `partial` the share of leaves that agree, over those of both
    states (an unexpected leaf counts against it, too).
    Missing: one of the two states is not given, or the expected one is too large.
    Passes: the same leaves.
    Fails: one that differs, or a final state that is too large.
    Not covered: how the state came about; values with a meaning of their own (dates, paths) are compared as they are
        written; with `unordered` and `tolerance`, objects that differ by rounding in one value and clearly in another
        may be compared with the wrong partner.
    """
    expected_state = expected
    if expected_state is None:
        expected_state = rollout.metadata.get("expected_state", ABSENT)
    final_state = rollout.metadata.get("final_state", ABSENT)
    if expected_state is ABSENT:
        return missing("no expected state given")
    if final_state is ABSENT:
        return missing("no final state given")
    check_size(expected_state, "expected state")
    try:
        check_size(final_state, "final state")
    except TooBig as error:  # the expected state is not so large
        return 0.0, str(error)
    options = _CompareOptions(
        subset=subset,
        unordered=unordered,
        tolerance=tolerance,
        ignore=tuple(map(_split_path, ignore)),
    )
    leaves = list(_compare_leaves("$", expected_state, final_state, options))
    differences = [difference for difference in leaves if difference]
    if not differences:
        return 1.0, f"all {len(leaves)} leaves agree"
    reason = f"{len(differences)} of {len(leaves)} leaves differ: {'; '.join(differences[:3])}"
    value = 1 - len(differences) / len(leaves) if partial else 0.0
    return value, reason


def _covers_part(pattern: str, part: str) -> bool:
    is_any_index = pattern == "[*]" and part.startswith("[")
    return pattern in (part, "*") or is_any_index


def _split_path(path: str) -> list[str]:
    """Split a path into its parts: $.orders[2].id → ["$", "orders", "[2]", "id"]."""
    return path.replace("[", ".[").split(".")


def _compare_leaves(
    path: str, expected: Any, actual: Any, options: _CompareOptions
) -> Iterator[str]:
    """For each leaf at or below the path, yield how it differs ("$.a: 1 expected, 2 found"), or "" if it agrees."""
    if options.ignores(path):
        return
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and (expected or actual):
        keys = list(expected)
        if not options.subset:
            keys += [key for key in actual if key not in expected]
        for key in keys:
            yield from _compare_leaves(
                f"{path}.{key}", expected.get(key, ABSENT), actual.get(key, ABSENT), options
            )
    elif (
        isinstance(expected, (list, tuple))
        and isinstance(actual, (list, tuple))
        and (expected or actual)
    ):
        if options.unordered and max(len(expected), len(actual)) > 1:
            actual = _align_items(path, expected, actual, options)
        for i, (left, right) in enumerate(zip_longest(expected, actual, fillvalue=ABSENT)):
            yield from _compare_leaves(f"{path}[{i}]", left, right, options)
    elif expected is ABSENT:
        yield f"{path}: unexpected"
    elif actual is ABSENT:
        yield f"{path}: absent"
    else:
        # With `subset`, an empty list or object expects nothing of what is there, only its type.
        is_empty_subset = options.subset and expected in ({}, []) and type(expected) is type(actual)
        if is_empty_subset or are_equal(expected, actual, options.tolerance):
            yield ""
        else:
            yield f"{path}: {_shorten(expected)} expected, {_shorten(actual)} found"


def _align_items(
    path: str, expected: Sequence[Any], actual: Sequence[Any], options: _CompareOptions
) -> list[Any]:
    """Return the actual items in the order of the expected ones that they are compared with.

    Places that are not compared do not count: neither ignored ones nor, with `subset`, those that no expected item has.
    """
    # Which item stands at which index is what the alignment decides, so paths have "[*]" instead of an index.
    item_path = f"{path}[*]"
    expected_places: set[str] = set()
    if options.subset:
        for item in expected:
            expected_places.update(_list_places(item_path, item))

    def is_compared(place: str) -> bool:
        if options.subset and place not in expected_places:
            return False
        return not options.ignores(place)

    return align_items(
        expected,
        actual,
        lambda item: make_sort_key(item, item_path, is_compared),
        lambda left, right: are_equal(left, right, options.tolerance),
    )


def _list_places(path: str, value: Any) -> Iterator[str]:
    """Yield the path itself and all paths below it, with "[*]" for every index."""
    yield path
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _list_places(f"{path}.{key}", child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _list_places(f"{path}[*]", child)


def _shorten(value: Any) -> str:
    """Return the value as Python writes it, cut to fewer than 60 characters if it is longer."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
