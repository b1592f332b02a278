"""FinalStateMatch: the state in which an agent left its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.json_values import TooBig, are_equal, check_size, make_sort_key
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_ABSENT = object()  # None is a value that a state may have


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
        return any(_covers_path(pattern, parts) for pattern in self.ignore)


@verifier("FinalStateMatch", family="agentic", domain=UNIT, version=2)
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
        expected_state = rollout.metadata.get("expected_state", _ABSENT)
    final_state = rollout.metadata.get("final_state", _ABSENT)
    if expected_state is _ABSENT:
        return missing("no expected state given")
    if final_state is _ABSENT:
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
                f"{path}.{key}", expected.get(key, _ABSENT), actual.get(key, _ABSENT), options
            )
    elif (
        isinstance(expected, (list, tuple))
        and isinstance(actual, (list, tuple))
        and (expected or actual)
    ):
        if options.unordered and max(len(expected), len(actual)) > 1:
            expected, actual = _align_items(path, expected, actual, options)
        for i, (left, right) in enumerate(zip_longest(expected, actual, fillvalue=_ABSENT)):
            yield from _compare_leaves(f"{path}[{i}]", left, right, options)
    elif expected is _ABSENT:
        yield f"{path}: unexpected"
    elif actual is _ABSENT:
        yield f"{path}: absent"
    else:
        # With `subset`, an empty list or object expects nothing of what is there, only its type.
        is_empty_subset = options.subset and expected in ({}, []) and type(expected) is type(actual)
        if is_empty_subset or are_equal(expected, actual, options.tolerance):
            yield ""
        else:
            yield f"{path}: {_shorten(expected)} expected, {_shorten(actual)} found"


def _covers_path(pattern: list[str], parts: list[str]) -> bool:
    """Does an ignored path stand for this path? Both are split into their parts."""
    if len(pattern) != len(parts):
        return False
    for pattern_part, part in zip(pattern, parts, strict=True):
        is_any_index = pattern_part == "[*]" and part.startswith("[")
        if pattern_part not in (part, "*") and not is_any_index:
            return False
    return True


def _align_items(
    path: str, expected: Sequence[Any], actual: Sequence[Any], options: _CompareOptions
) -> tuple[list[Any], list[Any]]:
    """Return both lists with the items that agree first, in the same order, and the rest sorted.

    Sorting puts items that differ in a single value beside each other, so that few leaves are reported as different.
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

    remaining: dict[Any, list[Any]] = {}  # key → the actual items that have it and no partner yet
    for item in actual:
        remaining.setdefault(make_sort_key(item, item_path, is_compared), []).append(item)
    paired_expected = []
    paired_actual = []
    only_expected = []
    for item in expected:
        key = make_sort_key(item, item_path, is_compared)
        partners = remaining.get(key)
        if partners:
            paired_expected.append(item)
            paired_actual.append(partners.pop())
        else:
            only_expected.append((key, item))
    only_expected.sort(key=lambda entry: entry[0])
    paired_expected += [item for _, item in only_expected]
    for key in sorted(remaining):
        paired_actual += remaining[key]
    return paired_expected, paired_actual


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
