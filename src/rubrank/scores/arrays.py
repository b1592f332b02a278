"""A batch of groups as the kernels see it, made from whatever the caller has.

    scores (G, K)                 one group
    scores (N, G, K)              N groups of equal size; groups= may name them
    scores (M, K), groups= (M,)   rollouts in any order, each with the label of its group

All of them become `scores_MK`, rows sorted by group, and `starts`: group g is rows starts[g] .. starts[g + 1].
Everything a caller can get wrong about arrays is found here, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName

_EXACT = 2**53  # integers beyond this are not exact as doubles, so their order could be lost


@dataclass(eq=False)  # not frozen: that would make it five times as slow to make, on the hot path
class Batch:
    """Scores, sorted by group; never changed once made."""

    scores_MK: np.ndarray
    starts: np.ndarray
    shape: tuple[int, ...]
    """Shape of the caller's array without the criteria: what rewards are given back in."""
    order: np.ndarray | None = None
    """Row i of scores_MK is the caller's row order[i]; None: the same order."""
    given_labels: tuple[Hashable, ...] | None = None

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """One label for each group; their numbers when the caller gave none."""
        return tuple(range(self.N)) if self.given_labels is None else self.given_labels

    @property
    def N(self) -> int:
        """Number of groups."""
        return len(self.starts) - 1

    @property
    def K(self) -> int:
        """Number of criteria."""
        return self.scores_MK.shape[1]

    @cached_property
    def largest(self) -> int:
        """Rollouts in the largest group."""
        if len(self.shape) == 2:
            return self.shape[1]
        return int(np.diff(self.starts).max(initial=0))

    def per_rollout(self, values: np.ndarray) -> np.ndarray:
        """(M, ...) sorted by group → the caller's order and shape."""
        if self.order is not None:
            unsorted = np.empty_like(values)
            unsorted[self.order] = values
            values = unsorted
        return values.reshape(self.shape + values.shape[1:])

    def per_group(self, values: np.ndarray) -> np.ndarray:
        """(N, ...) → (...) when the caller gave a single group without labels."""
        return values[0] if self.order is None and self.given_labels is None and len(self.shape) == 1 else values


def make_batch(owner: str, scores: ArrayLike, groups: ArrayLike | Sequence[Hashable] | None) -> Batch:
    """Check the scores' type and shape and sort them by group."""
    array = _as_floats(owner, "scores", scores)
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
        return Batch(array.reshape(N * G, K), np.arange(0, N * G + 1, G or 1), (N, G), None, labels)
    M = len(array)
    if groups is None:
        return Batch(array, np.array([0, M] if M else [0]), (M,))
    starts, order, labels = _sort_by_group(_labels(owner, groups, M, "rows"))
    return Batch(array if order is None else array[order], starts, (M,), order, labels)


def attributes_like(owner: str, batch: Batch, attributes: ArrayLike) -> np.ndarray:
    """Attributes (…, D) with the leading shape of the scores → (M, D), sorted by group."""
    array = _as_floats(owner, "attributes", attributes)
    if array.shape[:-1] != batch.shape or array.ndim != len(batch.shape) + 1:
        raise InvalidInput(
            owner,
            "attributes",
            f"of shape ({', '.join(map(str, batch.shape))}, D): that of the scores, with the attributes last",
            f"shape {array.shape}",
            "For one attribute per rollout add an axis: attributes[..., None].",
        )
    wrong = ~((array >= 0.0) & (array < np.inf))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise InvalidInput(
            owner,
            "attributes",
            "finite numbers ≥ 0",
            f"{array[tuple(at)]} at {_place(at)}",
            "Attributes are counts, lengths or densities; measure them on every rollout.",
        )
    flat = array.reshape(len(batch.scores_MK), array.shape[-1])
    return np.ascontiguousarray(flat if batch.order is None else flat[batch.order])


def refuse_infinite(owner: str, scores: ArrayLike) -> None:
    """Say where the infinity is that a kernel has come across."""
    array = np.asarray(scores, dtype=float)
    at = np.argwhere(np.isinf(array))[0]
    raise InvalidInput(
        owner,
        "scores",
        "finite, or NaN for 'not scored'",
        f"{array[tuple(at)]} at {_place(at)}",
        "If it stands for a failed verifier, use NaN.",
    )


def per_criterion(
    owner: str, parameter: str, value: Any, criteria: Sequence[str] | None, batch: Batch, default: float
) -> np.ndarray:
    """A number for every criterion, or for every group and criterion → (1, K) or (N, K)."""
    if value is None:
        return _constant(batch.K, default)
    if isinstance(value, Mapping):
        value = _by_name(owner, parameter, value, criteria, default)
    array = _as_floats(owner, parameter, value)
    if array.ndim == 0:
        array = np.full(batch.K, float(array))
    if array.shape == (batch.K,):
        return array.reshape(1, batch.K)
    if array.shape == (batch.N, batch.K):
        return array
    raise InvalidInput(
        owner,
        parameter,
        f"of shape ({batch.K},), one for each criterion, or ({batch.N}, {batch.K}), one for each group and criterion",
        f"shape {array.shape}",
        "Columns of the scores are criteria.",
    )


@lru_cache(maxsize=128)
def _constant(K: int, value: float) -> np.ndarray:
    return np.full((1, K), value)  # shared, never written to: making it anew would cost as much as a small fit


def check_each(
    owner: str,
    parameter: str,
    array: np.ndarray,
    good: np.ndarray,
    allowed: str,
    remedy: str,
    criteria: Sequence[str] | None = None,
) -> None:
    """Raise for the first entry that is not good."""
    if not good.all():
        at = np.argwhere(~good)[0]
        name = f"criterion {at[-1]}" if criteria is None else f"criterion {criteria[at[-1]]!r}"
        where = name + (f" of group {at[0]}" if len(array) > 1 else "")
        raise InvalidInput(owner, parameter, allowed, f"{array[tuple(at)]} for {where}", remedy)


def _by_name(
    owner: str, parameter: str, value: Mapping[str, float], criteria: Sequence[str] | None, default: float
) -> list[float]:
    if criteria is None:
        raise InvalidInput(
            owner, parameter, "an array when the criteria have no names", "a mapping", "Pass criteria=[names]."
        )
    for name in value:
        if name not in criteria:
            raise UnknownName.of(owner, f"{parameter} key", name, criteria)
    return [value.get(name, default) for name in criteria]


def _as_floats(owner: str, parameter: str, value: ArrayLike) -> np.ndarray:
    """A C-contiguous array of doubles that may be written to; None and masked entries become NaN."""
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(np.float64), np.nan)
    try:
        raw = np.asarray(value)
        _check_kind(owner, parameter, raw)
        array = np.ascontiguousarray(raw, dtype=np.float64).reshape(raw.shape)
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
        large = any(isinstance(x, int) and abs(x) > _EXACT for x in raw.flat)
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
        raise InvalidInput(owner, "groups", "a list of labels", repr(groups), "Give every group a label.")
    simple = isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "iuUS"
    labels: Any = groups if simple else _listed(groups)
    if len(labels) != length:
        raise InvalidInput(
            owner, "groups", f"{length} labels, one for each of the {what}", str(len(labels)), "Check their lengths."
        )
    for i, label in enumerate(() if simple else labels):
        if not isinstance(label, Hashable) or label is None or label != label:
            raise InvalidInput(
                owner, "groups", "a number or a string for every rollout", f"{label!r} at {i}", "Name every group."
            )
    return labels


def _no_duplicates(owner: str, labels: tuple[Hashable, ...]) -> None:
    if len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InvalidInput(
            owner,
            "groups",
            "a different label for each group of a (groups, rollouts, criteria) array",
            f"{twice!r} twice",
            "For scattered rollouts pass scores as (rollouts, criteria) with one label a row.",
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


def _place(index: np.ndarray) -> str:
    names = ("row", "column") if len(index) == 2 else ("group", "rollout", "column")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=True))
