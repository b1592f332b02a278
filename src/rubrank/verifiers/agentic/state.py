"""FinalStateMatch: the state in which an agent left its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.data.values import ABSENT, align_items
from rubrank.verifiers.shared.json_values import TooBig, are_equal, check_size, make_sort_key
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier


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
