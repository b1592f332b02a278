"""Make a batch from plain arrays, and check everything that a caller can get wrong about them.

    scores (G, K)                 one group
    scores (N, G, K)              N groups of equal size; groups= may name them
    scores (M, K), groups= (M,)   rollouts in any order, each with the label of its group

All of them become `scores_MK`, with rows sorted by group, and `starts`: group g is rows starts[g] .. starts[g + 1].
Frames and tensors are recognised by their methods, so that pandas, polars and torch need not be imported.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.criterion import CriterionData
from rubrank.scores.outcomes import find_column
from rubrank.tables.columns import BOOKKEEPING, GROUP_NAMES
from rubrank.verifiers.domain import UNIT, Domain, Layer

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

_LARGEST_EXACT_INTEGER = 2**53
"""Different integers beyond this can become the same double: their order would be lost."""
_SAFE_WEIGHTS = (1e-100, 1e100)
"""Weights are ordinary if the largest of the batch lies between these."""
_PANDAS_MISSING = "NAType"  # the type of pandas.NA
# NumPy's letters for types that it would convert to doubles, or fail on in another way.
_WRONG_KINDS = {
    "c": "complex numbers",
    **dict.fromkeys("US", "texts"),
    **dict.fromkeys("mM", "dates or times"),
}


def is_named_frame(value: Any) -> bool:
    """Is it a frame of pandas or polars whose columns have texts as names?"""
    if type(value) is np.ndarray or not _is_frame(value) or getattr(value, "ndim", 2) != 2:
        return False
    names = tuple(value.columns)
    return len(names) > 0 and all(isinstance(name, str) for name in names)


def read_frame(
    owner: str, frame: Any, groups: Any, criteria: Any, attributes: Any
) -> tuple[Any, Any, list[str | CriterionData], Any, list[str]]:
    """Return the scores, groups, criteria, attributes and attribute names of a frame.

    groups, attributes: names of columns, or values as for an array. criteria: names or data of columns, or "all".
    Raises InvalidInput unless the caller says which columns are criteria and, if there is one, which is the group.
    """
    columns = tuple(frame.columns)
    attribute_names = []
    if isinstance(attributes, str):
        attribute_names = [attributes]
    elif isinstance(attributes, list | tuple) and all(isinstance(a, str) for a in attributes):
        attribute_names = list(attributes)
    not_criteria = list(attribute_names)
    if isinstance(groups, str):
        not_criteria.append(groups)
    for name in not_criteria:
        if name not in columns:
            parameter = "attributes" if name in attribute_names else "groups"
            raise UnknownName.of(owner, parameter, name, columns)
    if attribute_names:
        attributes = frame[attribute_names]
    if isinstance(groups, str):
        groups = frame[groups]
    elif groups is None:
        group_column = next((name for name in columns if name in GROUP_NAMES), None)
        if group_column:
            got = f"a frame with a column {group_column!r}"
            remedy = f"Pass groups={group_column!r}, or the columns of one group without it."
            raise InvalidInput(owner, "groups", "given", got, remedy)

    candidates = [name for name in columns if name not in not_criteria]
    allowed = "named, because a column may be something else"
    if criteria is None:
        remedy = f'Name those that are criteria: criteria={candidates}; for all of these use criteria="all".'
        raise InvalidInput(owner, "criteria", allowed, ", ".join(map(repr, candidates)), remedy)
    if isinstance(criteria, str) and criteria == "all":
        for name in candidates:
            if name in GROUP_NAMES or name.lower() in BOOKKEEPING:
                got = f"'all', with a column {name!r}"
                remedy = 'Name them: criteria=["Facts", "Style"].'
                raise InvalidInput(owner, "criteria", allowed, got, remedy)
        criteria = candidates
    listed = [criteria] if isinstance(criteria, str | CriterionData) else list(criteria)
    names = [item.name if isinstance(item, CriterionData) else item for item in listed]
    for name in names:
        if name not in candidates:
            raise UnknownName.of(owner, "criteria", name, candidates)
    return frame[names], groups, listed, attributes, attribute_names


# ---------------------------------------------------------------------------------------------- scores and their groups


class SortedRows(NamedTuple):
    """Scores sorted by group, with the shape and order that the caller used. The fields are those of `ScoreBatch`."""

    scores_MK: np.ndarray
    starts: np.ndarray
    shape: tuple[int, ...]
    order: np.ndarray | None
    """Row i is the caller's row order[i]; None if the caller's rows were sorted."""
    labels: tuple[Hashable, ...] | None


def sort_rows(owner: str, scores: ArrayLike, groups: Any) -> SortedRows:
    """Return scores of any of the three forms as one matrix, with the rows of each group next to each other.

    Groups come in the order in which their labels first appear. Raises InvalidInput for another shape, or wrong labels.
    """
    array = _convert_to_doubles(owner, "scores", scores)
    if array.ndim not in (2, 3) or array.shape[-1] == 0:
        allowed = "of shape (rollouts, criteria) or (groups, rollouts, criteria) with at least one criterion"
        remedy = "One row is one rollout, one column one criterion."
        raise InvalidInput(owner, "scores", allowed, f"shape {array.shape}", remedy)
    if array.ndim == 3:
        N, G, K = array.shape
        labels = None
        if groups is not None:
            labels = tuple(_check_labels(owner, groups, N, "groups"))
            if len(set(labels)) < len(labels):
                repeated = next(label for i, label in enumerate(labels) if label in labels[:i])
                allowed = "a different label for each group of a (groups, rollouts, criteria) array"
                remedy = "For scattered rollouts pass scores as (rollouts, criteria) with one label per row."
                raise InvalidInput(owner, "groups", allowed, f"{repeated!r} twice", remedy)
        starts = np.arange(0, N * G + 1, G or 1)  # without rollouts (G = 0) there are no groups
        return SortedRows(array.reshape(N * G, K), starts, (N, G), None, labels)
    M = len(array)
    if groups is None:
        return SortedRows(array, np.array([0, M] if M else [0]), (M,), None, None)
    # Labels are numbered in the order of their first appearance: a, a, b, a → 0, 0, 1, 0.
    number_of: dict[Hashable, int] = {}
    row_labels = _check_labels(owner, groups, M, "rows")
    numbers = [number_of.setdefault(label, len(number_of)) for label in row_labels]
    group_of_row = np.array(numbers, np.int64)
    starts = np.concatenate([[0], np.bincount(group_of_row, minlength=len(number_of)).cumsum()])
    order = None
    if (np.diff(group_of_row) < 0).any():
        order = np.argsort(group_of_row, kind="stable")
        array = array[order]
    return SortedRows(array, starts, (M,), order, tuple(number_of))


def _check_labels(owner: str, groups: Any, length: int, what: str) -> list[Hashable]:
    """Return the labels as a list.

    Raises InvalidInput unless there are `length` labels that are hashable and not missing. what: "rows" or "groups".
    """
    if isinstance(groups, str | Mapping | set | frozenset) or not np.iterable(groups):
        raise InvalidInput(owner, "groups", "a list of labels", repr(groups))
    labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(labels) != length:
        allowed = f"{length} labels, one for each of the {what}"
        raise InvalidInput(owner, "groups", allowed, str(len(labels)))
    # Texts and integers are always valid; there may be millions, so they are not looked at one by one.
    if not set(map(type, labels)) <= {str, int}:
        for i, label in enumerate(labels):
            # NaN differs from itself.
            if not isinstance(label, Hashable) or label is None or label != label:
                allowed = "a number or a string for every rollout"
                raise InvalidInput(owner, "groups", allowed, f"{label!r} at {i}")
    return labels


# -------------------------------------------------------------------------------------------------------- the criteria


def read_criteria(
    owner: str, parameter: str, criteria: Any, count: int, layer: Layer
) -> tuple[CriterionData, ...]:
    """Return the data of `count` columns from their names or data; None: they are numbered, "criterion 0" …

    parameter: "criteria" or "gate_criteria", for messages. layer: of criteria that are given by name alone.
    Raises InvalidInput unless there is a different name for each column.
    """
    if criteria is None:
        word = "criterion" if parameter == "criteria" else "gate"
        return tuple(_make_criterion(f"{word} {k}", layer) for k in range(count))
    if isinstance(criteria, Set):
        remedy = "A set has no order: write a list."
        raise InvalidInput(owner, parameter, "a list of names", f"{criteria!r}", remedy)
    is_list = np.iterable(criteria) and not isinstance(criteria, str)
    listed = list(criteria) if is_list else [criteria]
    names = [item.name if isinstance(item, CriterionData) else item for item in listed]
    check_names(owner, parameter, names, count, "column of the scores")
    data = []
    for item in listed:
        data.append(item if isinstance(item, CriterionData) else _make_criterion(item, layer))
    return tuple(data)


# Cached: creating a dozen of them takes as long as a small fit.
@lru_cache(maxsize=4096)
def _make_criterion(name: str, layer: Layer) -> CriterionData:
    return CriterionData(name, domain=UNIT, layer=layer)


def check_names(owner: str, parameter: str, names: Sequence[Any], count: int, what: str) -> None:
    """Raise InvalidInput unless there are `count` different names, one for each `what` ("attribute", "column of …")."""
    different = 0
    if all(isinstance(name, Hashable) for name in names):
        different = len(set(names))
    if len(names) != count or different != count:
        allowed = f"{count} different names, one for each {what}"
        got = f"{len(names)}, {different} of them different"
        remedy = f"Name the {what.partition(' ')[0]}s in their order."
        raise InvalidInput(owner, parameter, allowed, got, remedy)


def _list_by_name(
    owner: str, parameter: str, value: Any, names: Sequence[str] | None, default: Any
) -> Any:
    """Return a mapping by criterion as a list, with the default for the others; anything else unchanged.

    names: of the criteria; None if the caller did not name them.
    """
    if not isinstance(value, Mapping):
        return value
    if names is None:
        allowed = "an array when the criteria have no names"
        raise InvalidInput(owner, parameter, allowed, "a mapping", "Pass criteria=[names].")
    for name in value:
        if name not in names:
            raise UnknownName.of(owner, f"{parameter} key", name, names)
    return [value.get(name, default) for name in names]


def replace_directions(
    owner: str,
    data: tuple[CriterionData, ...],
    directions: Any,
    names: Sequence[str] | None,
) -> tuple[CriterionData, ...]:
    """Return the criteria with these directions, which are a list or a mapping by name.

    names: of the criteria; None if the caller did not name them.
    """
    directions = _list_by_name(owner, "directions", directions, names, "higher")
    is_list = np.iterable(directions) and not isinstance(directions, str)
    listed = list(directions) if is_list else []
    if len(listed) != len(data) or any(item not in ("higher", "lower") for item in listed):
        allowed = f"'higher' or 'lower' for each of the {len(data)} criteria"
        got = repr([str(direction) for direction in listed] or directions)
        raise InvalidInput(owner, "directions", allowed, got)
    return tuple(
        replace(criterion, direction=str(direction))  # type: ignore[arg-type]
        for criterion, direction in zip(data, listed, strict=True)
    )


def replace_domains(
    owner: str, data: tuple[CriterionData, ...], domains: Any, names: Sequence[str] | None
) -> tuple[CriterionData, ...]:
    """Return the criteria with these scales, (low, high) by name; the others keep theirs.

    names: of the criteria; None if the caller did not name them.
    """
    if not isinstance(domains, Mapping):
        allowed = "the lowest and highest score by criterion"
        remedy = 'Such as {"Style": (1, 5)}.'
        raise InvalidInput(owner, "domains", allowed, repr(domains)[:80], remedy)
    replaced = []
    all_limits = _list_by_name(owner, "domains", domains, names, None)
    for criterion, limits in zip(data, all_limits, strict=True):
        if limits is None:
            replaced.append(criterion)
            continue
        try:
            low, high = (float(limit) for limit in limits)
        except (TypeError, ValueError):
            low = high = np.nan  # refused below
        if not -np.inf < low < high < np.inf:
            where = f"domains[{criterion.name!r}]"
            got = repr(limits)[:80]
            raise InvalidInput(owner, where, "two numbers, low < high", got, "Such as (1, 5).")
        replaced.append(replace(criterion, domain=Domain("continuous", (), low, high)))
    return tuple(replaced)


def read_per_criterion(
    owner: str, parameter: str, value: Any, names: Sequence[str] | None, batch: ScoreBatch
) -> np.ndarray:
    """Return weights or margins as (1, K), the same for all groups, or (N, K). `parameter` says which of the two.

    value: one number, (K,), (N, K), or a mapping by name, which leaves the others at their default.
    names: of the criteria; None if the caller did not name them.
    """
    is_weight = parameter == "weights"
    value = _list_by_name(owner, parameter, value, names, 1.0 if is_weight else 0.0)
    array = _convert_to_doubles(owner, parameter, value)
    N = batch.N
    K = batch.K
    if array.ndim == 0:
        array = np.full(K, float(array))
    if array.shape == (K,):
        array = array.reshape(1, K)
    elif array.shape != (N, K):
        allowed = f"of shape ({K},), one for each criterion, or ({N}, {K}), one for each group and criterion"
        remedy = "Columns of the scores are criteria."
        raise InvalidInput(owner, parameter, allowed, f"shape {array.shape}", remedy)
    is_valid = array > 0.0 if is_weight else array >= 0.0
    is_valid &= array < math.inf
    if not is_valid.all():
        g, k = np.argwhere(~is_valid)[0]
        where = f"criterion {k}" if names is None else f"criterion {names[k]!r}"
        if len(array) > 1:
            where += f" of group {g}"
        allowed = "finite and ≥ 0"
        remedy = "Use 0 for 'every difference counts'."
        if is_weight:
            allowed = "finite and > 0"
            remedy = "Leave out a criterion that should not count."
        raise InvalidInput(owner, parameter, allowed, f"{array[g, k]} for {where}", remedy)
    return array


def make_safe_weights(weights_NK: np.ndarray) -> np.ndarray:
    """Return weights (N, K) that can be multiplied and added up without overflow.

    Only the ratios of weights matter. Ordinary weights (`_SAFE_WEIGHTS`) are returned as they are, so that they are
    not rounded. Otherwise the largest of each group becomes 1.
    """
    if not weights_NK.size or _SAFE_WEIGHTS[0] < weights_NK.max() < _SAFE_WEIGHTS[1]:
        return weights_NK
    return np.asarray(weights_NK / weights_NK.max(axis=1, keepdims=True))


# ----------------------------------------------------------------------------------------------------------- the gates


def move_gates(
    owner: str,
    batch: ScoreBatch,
    global_quality: Sequence[str | int],
    low_quality: Sequence[str | int],
) -> ScoreBatch:
    """Return the batch with some of its ranked criteria, by name or number, as gate criteria.

    global_quality: criteria of the hard gate; a rollout that fails one gets the reward 0. Their columns are moved.
    low_quality: criteria of the soft gate, which lowers rewards. Their columns are copied: rules without a gate still
        rank by them.
    """
    layers: dict[int, Layer] = {}
    for criterion in global_quality:
        layers[find_column(owner, criterion, batch, "criterion of the gate")] = "global_quality"
    for criterion in low_quality:
        layers[find_column(owner, criterion, batch, "criterion of the gate")] = "low_quality"
    if len(layers) == batch.K:
        remedy = "Keep one to rank by."
        raise InvalidInput(owner, "the gate", "on some of the criteria", "all of them", remedy)
    # Gates read 1 as clean. Reversing the scores, or ignoring the direction, would surprise the caller either way.
    for k in layers:
        if batch.criteria[k].direction == "lower":
            allowed = "'higher' for criteria that the gate reads, whose scores are 1 for clean"
            got = f"'lower' for {batch.names[k]!r}"
            raise InvalidInput(owner, "directions", allowed, got, "Reverse its scores: 1 − s.")
        if any(column == k for _, column in batch.outcomes):
            got = f"those of {batch.names[k]!r}, which the gate reads"
            allowed = "of criteria that are ranked by"
            raise InvalidInput(owner, "outcomes", allowed, got, "Score it instead.")
        scores_M = batch.scores_MK[:, k]
        outside = (scores_M < 0.0) | (scores_M > 1.0)
        if batch.criteria[k].domain == UNIT and outside.any():
            allowed = "from 0 to 1, where 1 is clean, for a criterion that the gate reads"
            got = f"{scores_M[outside][0]:g} on {batch.names[k]!r}"
            remedy = f"Scale them, or give the scale: `domain.{batch.names[k]}=LOW:HIGH`."
            raise InvalidInput(owner, "scores", allowed, got, remedy)
    criteria = tuple(replace(c, layer=layers.get(k, c.layer)) for k, c in enumerate(batch.criteria))
    ranked_columns = [k for k in range(batch.K) if layers.get(k) != "global_quality"]
    gated = replace(batch, criteria=criteria).select_criteria(ranked_columns)
    gates_MC = np.ascontiguousarray(batch.scores_MK[:, list(layers)])
    if batch.gates_MC is not None:
        gates_MC = np.hstack([gates_MC, batch.gates_MC])
    gated.gates_MC = gates_MC
    gated.gate_criteria = (*(criteria[k] for k in layers), *batch.gate_criteria)
    return gated


# --------------------------------------------------------------------------------------------------- beside the scores


def read_attributes(owner: str, batch: ScoreBatch, attributes: ArrayLike) -> np.ndarray:
    """Return attributes, (…, D) with the leading shape of the scores, as (M, D) sorted by group.

    Raises InvalidInput unless every one is a finite number ≥ 0.
    """
    array = _convert_to_doubles(owner, "attributes", attributes)
    remedy = "For one attribute per rollout add an axis: attributes[..., None]."
    attributes_MD = align_with_scores(owner, batch, array, "attributes", "D", remedy)
    is_wrong = ~((array >= 0.0) & (array < np.inf))
    if is_wrong.any():
        index = np.argwhere(is_wrong)[0]
        got = f"{array[tuple(index)]} at {_describe_position(index)}"
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        raise InvalidInput(owner, "attributes", "finite numbers ≥ 0", got, remedy)
    return attributes_MD


def align_with_scores(
    owner: str, batch: ScoreBatch, array: np.ndarray, name: str, letter: str, remedy: str
) -> np.ndarray:
    """Return an array, (…, L) with the leading shape of the caller's scores, as (M, L) sorted by group like the batch.

    name, letter, remedy: for the message if the shape is another: name of the array, letter of its last axis, advice.
    """
    shape = batch.shape or (len(batch.scores_MK),)
    if array.shape[:-1] != shape or array.ndim != len(shape) + 1:
        allowed = f"of shape ({', '.join(map(str, shape))}, {letter}): that of the scores, with the {name} last"
        raise InvalidInput(owner, name, allowed, f"shape {array.shape}", remedy)
    flat = array.reshape(len(batch.scores_MK), array.shape[-1])
    return np.ascontiguousarray(flat if batch.order is None else flat[batch.order])


def refuse_infinite(owner: str, scores: ArrayLike) -> None:
    """Raise InvalidInput that says where the first infinity is. The scores must have one."""
    array = np.asarray(scores, dtype=float)
    index = np.argwhere(np.isinf(array))[0]
    got = f"{array[tuple(index)]} at {_describe_position(index)}"
    remedy = "If a verifier failed, use NaN."
    raise InvalidInput(owner, "scores", "finite, or NaN for 'not scored'", got, remedy)


def _describe_position(index: np.ndarray) -> str:
    """Return an index of a (M, K) or (N, G, K) array in words: "row 3, column 0"."""
    names = ("row", "column") if len(index) == 2 else ("group", "rollout", "column")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=True))


# --------------------------------------------------------------------------------------------- any values as doubles


def _convert_to_doubles(owner: str, parameter: str, value: Any) -> np.ndarray:
    """Return a C-contiguous array of doubles that may be written to; None and masked entries become NaN.

    Raises InvalidInput for values that are not real numbers, and for integers that a double cannot hold.
    """
    # carray: C-contiguous and writable
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.carray:
        return value
    allowed = "an array of numbers"
    remedy = "Convert them first; use NaN where there is no score."
    try:
        raw = np.asarray(_convert_for_numpy(value))
        if raw.dtype == object:
            cells = [
                np.nan if type(item).__name__ == _PANDAS_MISSING else item for item in raw.flat
            ]
            raw = np.array(cells, dtype=object).reshape(raw.shape)
        if raw.dtype.kind in _WRONG_KINDS:
            got = f"something else ({_WRONG_KINDS[raw.dtype.kind]})"
            raise InvalidInput(owner, parameter, allowed, got, remedy)
        array = np.ascontiguousarray(raw, dtype=np.float64).reshape(raw.shape)
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(owner, parameter, allowed, f"something else ({error})", remedy) from None
    # Equal, too: 2**53 + 1 has become 2**53.
    if (np.abs(array) >= _LARGEST_EXACT_INTEGER).any():
        _refuse_inexact_integers(owner, parameter, value)
    # numba compiles kernels for writable arrays; compiling them again for read-only ones would take seconds.
    return array if array.flags.writeable else array.copy()


def _convert_for_numpy(value: Any) -> Any:
    """Return frames, tensors and masked arrays, and lists of these, as something that NumPy can read."""
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.filled(value.astype(object), np.nan)
    if _is_frame(value):
        return value.to_numpy()
    if hasattr(value, "detach"):  # a tensor, on any device and of any type
        tensor = value.detach().cpu()
        if tensor.is_floating_point():
            tensor = tensor.double()  # NumPy has no bfloat16
        return tensor.numpy()
    if isinstance(value, list | tuple):
        is_foreign = any(hasattr(item, "detach") or _is_frame(item) for item in value)
        return [_convert_for_numpy(item) for item in value] if is_foreign else value
    return value


def _refuse_inexact_integers(owner: str, parameter: str, value: Any) -> None:
    """Raise InvalidInput if there is an integer that a double cannot hold.

    NumPy makes one array of doubles from a column of integers and one of fractions, and large integers have been
    rounded by then. So the original items are looked at.
    """
    if hasattr(value, "iloc"):
        items = value.to_numpy(dtype=object)  # pandas
    elif hasattr(value, "rows"):
        items = value.rows()  # polars
    else:
        items = _convert_for_numpy(value)
    for item in np.array(items, dtype=object).flat:
        if isinstance(item, int | np.integer) and abs(int(item)) > _LARGEST_EXACT_INTEGER:
            remedy = "Rank or rescale them first: doubles merge them."
            raise InvalidInput(owner, parameter, "integers within ±2**53", "larger ones", remedy)


def _is_frame(value: Any) -> bool:
    """Is it a frame or series of pandas (iloc) or polars (to_arrow)?"""
    return hasattr(value, "to_numpy") and (hasattr(value, "iloc") or hasattr(value, "to_arrow"))
