"""A caller's numbers and labels as arrays: doubles, rows sorted by group, and everything that can be wrong with them.

rows_of("fuse", scores, ["b", "a", "b"])      scores in the order b, b, a; starts 0, 2, 3; labels ("b", "a")
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput
from rubrank.scores.frames import columns_of, plain_array

_DOUBLE = np.dtype(np.float64)
_EXACT = 2**53  # integers beyond this are not exact as doubles, so their order could be lost


def rows_of(owner: str, scores: ArrayLike, groups: Any) -> tuple[Any, Any, tuple[int, ...], Any, Any]:
    """Scores sorted by group, where groups start, the caller's shape and order, and the labels that were given."""
    array = as_floats(owner, "scores", scores)
    if array.ndim not in (2, 3) or array.shape[-1] == 0:
        raise InvalidInput(
            owner,
            "scores",
            "of shape (rollouts, criteria) or (groups, rollouts, criteria) with at least one criterion",
            f"shape {array.shape}",
            "One row is one rollout, one column one criterion.",
        )
    K = array.shape[-1]
    if array.ndim == 3:
        N, G = array.shape[:2]
        labels = None if groups is None else tuple(_listed(_labels(owner, groups, N, "groups")))
        if labels is not None:
            _no_duplicates(owner, labels)
        return array.reshape(N * G, K), np.arange(0, N * G + 1, G or 1), (N, G), None, labels
    M = len(array)
    if groups is None:
        return array, np.array([0, M] if M else [0]), (M,), None, None
    starts, order, labels = _sort_by_group(_labels(owner, groups, M, "rows"))
    return array if order is None else array[order], starts, (M,), order, labels


def as_floats(owner: str, parameter: str, value: ArrayLike) -> np.ndarray:
    """A C-contiguous array of doubles that may be written to; None and masked entries become NaN."""
    if type(value) is np.ndarray and value.dtype is _DOUBLE and value.flags.carray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        _check_kind(owner, parameter, value.compressed())
        value = np.ma.filled(value.astype(np.float64), np.nan)
    try:
        raw = np.asarray(plain_array(value))
        _check_kind(owner, parameter, raw)
        array = np.ascontiguousarray(raw, dtype=np.float64).reshape(raw.shape)
        if raw.dtype.kind == "f" and raw is not value and (np.abs(array) >= _EXACT).any():
            for part in columns_of(value):  # beside numbers with fractions, integers are doubles by now
                _check_kind(owner, parameter, part)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            owner, parameter, "an array of numbers", f"something else ({error})", "Use NaN where there is no score."
        ) from None
    # Kernels are compiled for arrays that may be written to; another version for those that may not takes seconds.
    return array if array.flags.writeable else array.copy()


def _check_kind(owner: str, parameter: str, raw: np.ndarray) -> None:
    """Refuse what NumPy would convert to doubles without a word, losing something on the way."""
    kind = raw.dtype.kind
    if kind == "c":
        raise InvalidInput(owner, parameter, "real numbers", "complex ones", "Take the real part.")
    if kind in "US":
        raise InvalidInput(
            owner,
            parameter,
            "an array of numbers",
            "something else (texts)",
            "Convert them; NaN where there is no score.",
        )
    if kind == "O":
        large = any(isinstance(x, int | np.integer) and abs(int(x)) > _EXACT for x in raw.flat)
    else:
        large = kind in "iu" and raw.size > 0 and max(abs(int(raw.max())), abs(int(raw.min()))) > _EXACT
    if large:
        raise InvalidInput(
            owner, parameter, "integers within ±2**53", "larger ones", "Rank or rescale them first: doubles merge them."
        )


def _listed(labels: Any) -> list[Any]:
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)


def _labels(owner: str, groups: Any, length: int, what: str) -> Any:
    """The labels as an array of integers or strings if they are one, else as a list of hashable objects."""
    if isinstance(groups, str) or not np.iterable(groups):
        raise InvalidInput(owner, "groups", "a list of labels", repr(groups), "")
    simple = isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "iuUS"
    labels: Any = groups if simple else _listed(groups)
    if len(labels) != length:
        raise InvalidInput(owner, "groups", f"{length} labels, one for each of the {what}", str(len(labels)), "")
    if simple or set(map(type, labels)) <= {str, int}:
        return labels
    for i, label in enumerate(labels):
        if not isinstance(label, Hashable) or label is None or label != label:
            raise InvalidInput(owner, "groups", "a number or a string for every rollout", f"{label!r} at {i}", "")
    return labels


def _no_duplicates(owner: str, labels: tuple[Hashable, ...]) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InvalidInput(
            owner,
            "groups",
            "a different label for each group of a (groups, rollouts, criteria) array",
            f"{twice!r} twice",
            "For scattered rollouts pass scores as (rollouts, criteria) with one label per row.",
        )


def _sort_by_group(labels: Any) -> tuple[np.ndarray, np.ndarray | None, tuple[Hashable, ...]]:
    """Group boundaries, the sorting permutation (None if sorted already) and labels in order of first appearance."""
    numbers, names = _numbered(labels)
    starts = np.concatenate([[0], np.bincount(numbers, minlength=len(names)).cumsum()])
    is_sorted = len(numbers) < 2 or bool((numbers[1:] >= numbers[:-1]).all())
    return starts, None if is_sorted else np.argsort(numbers, kind="stable"), names


def _numbered(labels: Any) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Number the groups by first appearance: the group number of every row, and the labels in that order."""
    if isinstance(labels, np.ndarray) and len(labels):
        # Rows of a group usually stand together: number the runs, which are few, rather than the rows.
        changes = np.concatenate([[True], labels[1:] != labels[:-1]])
        of_run, names = _numbered(labels[changes].tolist())
        return of_run[changes.cumsum() - 1], names
    number: dict[Hashable, int] = {}
    numbers = [number.setdefault(label, len(number)) for label in labels]
    return np.array(numbers, np.int64), tuple(number)


def place_of(index: np.ndarray) -> str:
    """Of an entry, in words."""
    names = ("row", "column") if len(index) == 2 else ("group", "rollout", "column")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=True))
