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
from rubrank.tables.columns import BOOKKEEPING, GROUP_NAMES
from rubrank.verifiers.domain import UNIT, Domain, Layer

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

_LARGEST_EXACT_INTEGER = 2**53
"""Different integers beyond this can become the same double: their order would be lost."""
_SAFE_WEIGHTS = (1e-100, 1e100)
"""Weights between these cannot overflow when they are added up and divided."""
_PANDAS_MISSING = "NAType"  # the type of pandas.NA


class FrameColumns(NamedTuple):
    """The columns of a frame that a batch is made of."""

    scores: Any
    groups: Any
    criteria: list[str | CriterionData]
    attributes: Any
    attribute_names: list[str]


def is_named_frame(value: Any) -> bool:
    """Is it a frame of pandas or polars whose columns have texts as names?"""
    if type(value) is np.ndarray or not _is_frame(value) or getattr(value, "ndim", 2) != 2:
        return False
    names = tuple(value.columns)
    return len(names) > 0 and all(isinstance(name, str) for name in names)


def read_frame(owner: str, frame: Any, groups: Any, criteria: Any, attributes: Any) -> FrameColumns:
    """The columns that hold scores, groups and attributes; raises unless the caller says which are the criteria.

    groups, attributes: names of columns, or values as for an array.
    """
    columns = tuple(frame.columns)
    attribute_names = []
    if isinstance(attributes, str):
        attribute_names = [attributes]
    elif isinstance(attributes, list | tuple) and all(isinstance(a, str) for a in attributes):
        attribute_names = list(attributes)
    other_columns = list(attribute_names)
    for name in attribute_names:
        if name not in columns:
            raise UnknownName.of(owner, "attributes", name, columns)
    if attribute_names:
        attributes = frame[attribute_names]
    if isinstance(groups, str):
        if groups not in columns:
            raise UnknownName.of(owner, "groups", groups, columns)
        other_columns.append(groups)
        groups = frame[groups]
    elif groups is None:
        group_column = next((name for name in columns if name in GROUP_NAMES), None)
        if group_column:
            got = f"a frame with a column {group_column!r}"
            remedy = f"Pass groups={group_column!r}, or the columns of one group without it."
            raise InvalidInput(owner, "groups", "given", got, remedy)

    candidates = [name for name in columns if name not in other_columns]
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
        if name not in columns:
            raise UnknownName.of(owner, "criteria", name, columns)
    for name in names:
        if name in other_columns:
            allowed = "other columns than groups and attributes"
            raise InvalidInput(owner, "criteria", allowed, repr(name), "")
    return FrameColumns(frame[names], groups, listed, attributes, attribute_names)


# --------------------------------------------------------------------------------------------------------- the numbers


def _as_floats(owner: str, parameter: str, value: ArrayLike) -> np.ndarray:
    """A C-contiguous array of doubles that may be written to; None and masked entries become NaN."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.carray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        _check_kind(owner, parameter, value.compressed())
        value = np.ma.filled(value.astype(np.float64), np.nan)
    try:
        raw = np.asarray(_plain_array(value))
        _check_kind(owner, parameter, raw)
        array = np.ascontiguousarray(raw, dtype=np.float64).reshape(raw.shape)
        if (
            raw.dtype.kind == "f"
            and raw is not value
            and (np.abs(array) >= _LARGEST_EXACT_INTEGER).any()
        ):
            # NumPy turns integers into doubles if some column has fractions; the separate columns still have integers.
            for column in _separate_columns(value):
                _check_kind(owner, parameter, column)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        got = f"something else ({error})"
        remedy = "Use NaN where there is no score."
        raise InvalidInput(owner, parameter, "an array of numbers", got, remedy) from None
    # numba compiles kernels for writable arrays; compiling them again for read-only ones would take seconds.
    return array if array.flags.writeable else array.copy()


def _check_kind(owner: str, parameter: str, raw: np.ndarray) -> None:
    """Refuse values that NumPy would convert to doubles without a warning, and not exactly."""
    kind = raw.dtype.kind
    if kind == "c":
        raise InvalidInput(owner, parameter, "real numbers", "complex ones", "Take the real part.")
    if kind in "US":
        remedy = "Convert them; NaN where there is no score."
        raise InvalidInput(
            owner, parameter, "an array of numbers", "something else (texts)", remedy
        )
    if kind in "mM":
        remedy = "Convert them to numbers first."
        raise InvalidInput(
            owner, parameter, "an array of numbers", "something else (dates or times)", remedy
        )
    has_large = False
    if kind == "O":
        has_large = any(
            isinstance(x, int | np.integer) and abs(int(x)) > _LARGEST_EXACT_INTEGER
            for x in raw.flat
        )
    elif kind in "iu" and raw.size:
        has_large = max(abs(int(raw.max())), abs(int(raw.min()))) > _LARGEST_EXACT_INTEGER
    if has_large:
        remedy = "Rank or rescale them first: doubles merge them."
        raise InvalidInput(owner, parameter, "integers within ±2**53", "larger ones", remedy)


def _plain_array(value: Any) -> Any:
    """Frames and tensors, and lists of these, as something that NumPy can read; anything else unchanged."""
    if _is_frame(value):
        return _replace_pandas_missing(value.to_numpy())
    if hasattr(value, "detach"):  # a tensor, on any device and of any type
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, np.ndarray):
        return _replace_pandas_missing(value)
    if type(value).__name__ == _PANDAS_MISSING:
        return np.nan
    if not isinstance(value, list | tuple):
        return value
    return [_plain_array(item) for item in value] if _needs_conversion(value) else value


def _needs_conversion(value: Sequence[Any]) -> bool:
    """Is a tensor, a frame or pandas' NA among the items, at any depth?"""
    for item in value:
        if isinstance(item, list | tuple):
            if _needs_conversion(item):
                return True
        elif hasattr(item, "detach") or _is_frame(item) or type(item).__name__ == _PANDAS_MISSING:
            return True
    return False


def _replace_pandas_missing(array: np.ndarray) -> np.ndarray:
    if array.dtype != object:
        return array
    replaced = np.empty(array.size, dtype=object)
    replaced[:] = [
        np.nan if type(item).__name__ == _PANDAS_MISSING else item for item in array.flat
    ]
    return replaced.reshape(array.shape)


def _is_frame(value: Any) -> bool:
    """Is it a frame or series of pandas (iloc) or polars (to_arrow)?"""
    return hasattr(value, "to_numpy") and (hasattr(value, "iloc") or hasattr(value, "to_arrow"))


def _separate_columns(value: Any) -> list[np.ndarray]:
    """The numbers of a frame or list in separate arrays, each with its original type."""
    if _is_frame(value):
        if getattr(value, "ndim", 2) != 2:
            return []
        if hasattr(value, "iloc"):
            return [
                _replace_pandas_missing(value.iloc[:, k].to_numpy()) for k in range(value.shape[1])
            ]
        return [column.to_numpy() for column in value.iter_columns()]
    if not isinstance(value, list | tuple):
        return []
    columns: list[np.ndarray] = []
    plain_items = []
    for item in value:
        if isinstance(item, list | tuple):
            columns += _separate_columns(item)
        elif hasattr(item, "__array__"):
            columns.append(np.asarray(_plain_array(item)))
        else:
            plain_items.append(item)
    return [*columns, np.array(plain_items, dtype=object)]


# ---------------------------------------------------------------------------------------------------------- the groups


class SortedRows(NamedTuple):
    """Scores sorted by group, with the shape and order that the caller used."""

    scores_MK: np.ndarray
    starts: np.ndarray
    shape: tuple[int, ...]
    order: np.ndarray | None
    labels: tuple[Hashable, ...] | None


def sort_rows(owner: str, scores: ArrayLike, groups: Any) -> SortedRows:
    """Scores of any of the three forms as one matrix, with the rows of each group next to each other."""
    array = _as_floats(owner, "scores", scores)
    if array.ndim not in (2, 3) or array.shape[-1] == 0:
        allowed = "of shape (rollouts, criteria) or (groups, rollouts, criteria) with at least one criterion"
        remedy = "One row is one rollout, one column one criterion."
        raise InvalidInput(owner, "scores", allowed, f"shape {array.shape}", remedy)
    if array.ndim == 3:
        N, G, K = array.shape
        labels = None
        if groups is not None:
            group_labels = _check_labels(owner, groups, N, "groups")
            if isinstance(group_labels, np.ndarray):
                group_labels = group_labels.tolist()
            labels = tuple(group_labels)
            if len(set(labels)) < len(labels):
                repeated = next(label for i, label in enumerate(labels) if label in labels[:i])
                allowed = "a different label for each group of a (groups, rollouts, criteria) array"
                remedy = "For scattered rollouts pass scores as (rollouts, criteria) with one label per row."
                raise InvalidInput(owner, "groups", allowed, f"{repeated!r} twice", remedy)
        return SortedRows(
            array.reshape(N * G, K), np.arange(0, N * G + 1, G or 1), (N, G), None, labels
        )
    M = len(array)
    if groups is None:
        return SortedRows(array, np.array([0, M] if M else [0]), (M,), None, None)
    group_of_row, names = _number_labels(_check_labels(owner, groups, M, "rows"))
    starts = np.concatenate([[0], np.bincount(group_of_row, minlength=len(names)).cumsum()])
    if M < 2 or bool((group_of_row[1:] >= group_of_row[:-1]).all()):
        return SortedRows(array, starts, (M,), None, names)
    order = np.argsort(group_of_row, kind="stable")
    return SortedRows(array[order], starts, (M,), order, names)


def _check_labels(owner: str, groups: Any, length: int, what: str) -> Any:
    """The labels: an array of integers or texts, a polars column, or a list of anything hashable."""
    if isinstance(groups, str | Mapping | set | frozenset) or not np.iterable(groups):
        raise InvalidInput(owner, "groups", "a list of labels", repr(groups), "")
    labels: Any = groups
    is_array = isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "iuUS"
    is_column = (
        hasattr(labels, "rle_id") and labels.null_count() == 0 and not labels.dtype.is_float()
    )
    if not is_array and not is_column:
        labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(labels) != length:
        raise InvalidInput(
            owner, "groups", f"{length} labels, one for each of the {what}", str(len(labels)), ""
        )
    if is_array or is_column or set(map(type, labels)) <= {str, int}:
        return labels
    for i, label in enumerate(labels):
        if not isinstance(label, Hashable) or label is None or label != label:
            raise InvalidInput(
                owner, "groups", "a number or a string for every rollout", f"{label!r} at {i}", ""
            )
    return labels


def _number_labels(labels: Any) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """The group number of every row, by first appearance, and the labels in that order."""
    run_of_row = None
    if not isinstance(labels, list) and len(labels):
        # Rows of a group are usually adjacent, so number the runs of equal labels: there are fewer than rows.
        begins = np.concatenate([[True], np.asarray(labels[1:] != labels[:-1])])
        run_of_row = begins.cumsum() - 1
        is_array = isinstance(labels, np.ndarray)
        labels = labels[begins].tolist() if is_array else labels.filter(begins).to_list()
    number_of: dict[Hashable, int] = {}
    numbers = np.array([number_of.setdefault(label, len(number_of)) for label in labels], np.int64)
    return numbers if run_of_row is None else numbers[run_of_row], tuple(number_of)


# -------------------------------------------------------------------------------------------------------- the criteria


def read_criteria(
    owner: str, parameter: str, criteria: Any, count: int, layer: Layer
) -> tuple[CriterionData, ...]:
    """Names or data of the columns as data."""
    if criteria is None:
        return _unnamed_criteria(count, "criterion" if parameter == "criteria" else "gate", layer)
    if isinstance(criteria, Set):
        raise InvalidInput(
            owner,
            parameter,
            "a list of names",
            f"{criteria!r}",
            "A set has no order: write a list.",
        )
    listed = (
        list(criteria) if np.iterable(criteria) and not isinstance(criteria, str) else [criteria]
    )
    names = [item.name if isinstance(item, CriterionData) else item for item in listed]
    check_names(owner, parameter, names, count, "column of the scores")
    return tuple(
        item if isinstance(item, CriterionData) else _criterion_named(item, layer)
        for item in listed
    )


# Cached: creating a dozen of them takes as long as a small fit.
@lru_cache(maxsize=4096)
def _criterion_named(name: str, layer: Layer) -> CriterionData:
    return CriterionData(name, domain=UNIT, layer=layer)


@lru_cache(maxsize=128)
def _unnamed_criteria(count: int, word: str, layer: Layer) -> tuple[CriterionData, ...]:
    return tuple(_criterion_named(f"{word} {k}", layer) for k in range(count))


@lru_cache(maxsize=128)
def make_default_weights_and_margins(K: int) -> tuple[np.ndarray, np.ndarray]:
    """Default weights and margins; the arrays are shared and must not be changed."""
    return np.ones((1, K)), np.zeros((1, K))


def check_names(owner: str, parameter: str, names: Sequence[Any], count: int, what: str) -> None:
    """Raise unless there are `count` different names, one for each `what`."""
    different = len(set(names)) if all(isinstance(name, Hashable) for name in names) else 0
    if len(names) != count or different != count:
        allowed = f"{count} different names, one for each {what}"
        got = f"{len(names)}, {different} of them different"
        raise InvalidInput(
            owner, parameter, allowed, got, f"Name the {what.partition(' ')[0]}s in their order."
        )


def replace_directions(
    owner: str, data: tuple[CriterionData, ...], directions: Any, is_named: bool
) -> tuple[CriterionData, ...]:
    """The criteria with these directions, a list or by name. is_named: did the caller name the criteria?"""
    names = [criterion.name for criterion in data]
    if isinstance(directions, Mapping):
        for name in directions:
            if not is_named or name not in names:
                raise UnknownName.of(owner, "directions key", name, names if is_named else ())
        directions = [directions.get(name, "higher") for name in names]
    listed = list(directions) if np.iterable(directions) and not isinstance(directions, str) else []
    if len(listed) != len(names) or any(
        direction not in ("higher", "lower") for direction in listed
    ):
        allowed = f"'higher' or 'lower' for each of the {len(names)} criteria"
        got = repr([str(direction) for direction in listed] or directions)
        raise InvalidInput(owner, "directions", allowed, got, "")
    return tuple(
        replace(criterion, direction=str(direction))  # type: ignore[arg-type]
        for criterion, direction in zip(data, listed, strict=True)
    )


def replace_domains(
    owner: str, data: tuple[CriterionData, ...], domains: Any, is_named: bool
) -> tuple[CriterionData, ...]:
    """The criteria with these scales, (low, high) by name. is_named: did the caller name the criteria?"""
    if not isinstance(domains, Mapping):
        allowed = "the lowest and highest score by criterion"
        raise InvalidInput(
            owner, "domains", allowed, repr(domains)[:80], 'Such as {"Style": (1, 5)}.'
        )
    names = [criterion.name for criterion in data]
    read_domains = {}
    for name, limits in domains.items():
        if not is_named or name not in names:
            raise UnknownName.of(owner, "domains key", name, names if is_named else ())
        try:
            low, high = (float(limit) for limit in limits)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            got = repr(limits)[:80]
            raise InvalidInput(
                owner, f"domains[{name!r}]", "two numbers, low < high", got, "Such as (1, 5)."
            )
        read_domains[name] = Domain("continuous", (), low, high)
    return tuple(replace(c, domain=read_domains.get(c.name, c.domain)) for c in data)


def read_per_criterion(
    owner: str, parameter: str, value: Any, names: Sequence[str] | None, batch: ScoreBatch
) -> np.ndarray:
    """Weights or margins, for every criterion or for every group and criterion → (1, K) or (N, K)."""
    is_weight = parameter == "weights"
    if isinstance(value, Mapping):
        if names is None:
            allowed = "an array when the criteria have no names"
            raise InvalidInput(owner, parameter, allowed, "a mapping", "Pass criteria=[names].")
        for name in value:
            if name not in names:
                raise UnknownName.of(owner, f"{parameter} key", name, names)
        value = [value.get(name, 1.0 if is_weight else 0.0) for name in names]
    array = _as_floats(owner, parameter, value)
    N = batch.N
    K = batch.K
    if array.ndim == 0:
        array = np.full(K, float(array))
    if array.shape == (K,):
        array = array.reshape(1, K)
    elif array.shape != (N, K):
        allowed = f"of shape ({K},), one for each criterion, or ({N}, {K}), one for each group and criterion"
        raise InvalidInput(
            owner, parameter, allowed, f"shape {array.shape}", "Columns of the scores are criteria."
        )
    is_good = (array > 0.0 if is_weight else array >= 0.0) & (array < math.inf)
    if not is_good.all():
        g, k = np.argwhere(~is_good)[0]
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


def plain_weights(weights_NK: np.ndarray) -> np.ndarray:
    """Weights that cannot overflow, in the same ratios: only ratios matter."""
    if not weights_NK.size:
        return weights_NK
    smallest = weights_NK.min()
    largest = weights_NK.max()
    if smallest > 0.0 and _SAFE_WEIGHTS[0] < largest < _SAFE_WEIGHTS[1]:
        return weights_NK
    return np.asarray(weights_NK / weights_NK.max(axis=1, keepdims=True))


# ----------------------------------------------------------------------------------------------------------- the gates


def move_gates(
    owner: str,
    batch: ScoreBatch,
    global_quality: Sequence[str | int],
    low_quality: Sequence[str | int],
) -> ScoreBatch:
    """Copy low-quality columns, and move global-quality columns, from the ranked criteria to the gate criteria."""
    layers: dict[int, Layer] = dict.fromkeys(
        _find_columns(owner, batch, global_quality), "global_quality"
    )
    layers |= dict.fromkeys(_find_columns(owner, batch, low_quality), "low_quality")
    if len(layers) == batch.K:
        raise InvalidInput(
            owner, "the gate", "on some of the criteria", "all of them", "Keep one to rank by."
        )
    # Gates read 1 as clean. Reversing the scores, or ignoring the direction, would surprise the caller either way.
    for k in layers:
        if batch.criteria[k].direction == "lower":
            allowed = "'higher' for criteria that the gate reads, whose scores are 1 for clean"
            got = f"'lower' for {batch.names[k]!r}"
            raise InvalidInput(owner, "directions", allowed, got, "Reverse its scores: 1 − s.")
        if any(column == k for _, column in batch.outcomes):
            got = f"those of {batch.names[k]!r}, which the gate reads"
            raise InvalidInput(
                owner, "outcomes", "of criteria that are ranked by", got, "Score it instead."
            )
        scores_M = batch.scores_MK[:, k]
        outside = (scores_M < 0.0) | (scores_M > 1.0)
        if batch.criteria[k].domain == UNIT and outside.any():
            allowed = "from 0 to 1, where 1 is clean, for a criterion that the gate reads"
            got = f"{scores_M[outside][0]:g} on {batch.names[k]!r}"
            remedy = f"Scale them, or give the scale: `domain.{batch.names[k]}=LOW:HIGH`."
            raise InvalidInput(owner, "scores", allowed, got, remedy)
    data = tuple(replace(c, layer=layers.get(k, c.layer)) for k, c in enumerate(batch.criteria))
    ranked = replace(batch, criteria=data).select_criteria(
        [k for k in range(batch.K) if layers.get(k) != "global_quality"]
    )
    gates = np.ascontiguousarray(batch.scores_MK[:, list(layers)])
    ranked.gates_MC = gates if batch.gates_MC is None else np.hstack([gates, batch.gates_MC])
    ranked.gate_criteria = (*(data[k] for k in layers), *batch.gate_criteria)
    return ranked


def _find_columns(owner: str, batch: ScoreBatch, criteria: Sequence[str | int]) -> list[int]:
    columns = []
    for criterion in criteria:
        if isinstance(criterion, str):
            if not batch.has_names:
                raise InvalidInput(
                    owner, "criteria", "given when a gate uses names", "None", "Name the columns."
                )
            if criterion not in batch.names:
                raise UnknownName.of(owner, "criterion of the gate", criterion, batch.names)
            columns.append(batch.names.index(criterion))
        elif 0 <= int(criterion) < batch.K:
            columns.append(int(criterion))
        else:
            allowed = f"a column from 0 to {batch.K - 1}"
            raise InvalidInput(owner, "criterion of the gate", allowed, str(criterion), "")
    return columns


# --------------------------------------------------------------------------------------------------- beside the scores


def read_attributes(owner: str, batch: ScoreBatch, attributes: ArrayLike) -> np.ndarray:
    """Attributes (…, D) with the leading shape of the scores → (M, D), sorted by group."""
    array = _as_floats(owner, "attributes", attributes)
    remedy = "For one attribute per rollout add an axis: attributes[..., None]."
    attributes_MD = align_with_scores(owner, batch, array, "attributes", "D", remedy)
    is_wrong = ~((array >= 0.0) & (array < np.inf))
    if is_wrong.any():
        index = np.argwhere(is_wrong)[0]
        got = f"{array[tuple(index)]} at {_place_of(index)}"
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        raise InvalidInput(owner, "attributes", "finite numbers ≥ 0", got, remedy)
    return attributes_MD


def align_with_scores(
    owner: str, batch: ScoreBatch, array: np.ndarray, name: str, letter: str, remedy: str
) -> np.ndarray:
    """An array with the leading shape of the scores and one more axis → (M, …), sorted by group."""
    shape = batch.shape or (len(batch.scores_MK),)
    if array.shape[:-1] != shape or array.ndim != len(shape) + 1:
        allowed = f"of shape ({', '.join(map(str, shape))}, {letter}): that of the scores, with the {name} last"
        raise InvalidInput(owner, name, allowed, f"shape {array.shape}", remedy)
    flat = array.reshape(len(batch.scores_MK), array.shape[-1])
    return np.ascontiguousarray(flat if batch.order is None else flat[batch.order])


def refuse_infinite(owner: str, scores: ArrayLike) -> None:
    """Raise an error that says where in the scores the first infinity is."""
    array = np.asarray(scores, dtype=float)
    index = np.argwhere(np.isinf(array))[0]
    got = f"{array[tuple(index)]} at {_place_of(index)}"
    remedy = "If a verifier failed, use NaN."
    raise InvalidInput(owner, "scores", "finite, or NaN for 'not scored'", got, remedy)


def _place_of(index: np.ndarray) -> str:
    names = ("row", "column") if len(index) == 2 else ("group", "rollout", "column")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=True))
