"""Plain arrays as a batch, and everything that a caller can get wrong about them.

    scores (G, K)                 one group
    scores (N, G, K)              N groups of equal size; groups= may name them
    scores (M, K), groups= (M,)   rollouts in any order, each with the label of its group

All of them become `scores_MK`, rows sorted by group, and `starts`: group g is rows starts[g] .. starts[g + 1].
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.criterion import CriterionData
from rubrank.scores.frames import column_names
from rubrank.scores.observed import observed_cells
from rubrank.scores.rows import as_floats, place_of, rows_of
from rubrank.verifiers.domain import UNIT, Layer

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

_PLAIN_WEIGHTS = (1e-100, 1e100)
_HARD: Layer = "global_quality"
_SOFT: Layer = "low_quality"


def batch_of_arrays(
    kind: type[ScoreBatch],
    owner: str,
    scores: ArrayLike,
    groups: Any,
    criteria: Any,
    numbers: tuple[Any, Any, Any],
    layers: tuple[Sequence[str | int], Sequence[str | int]],
    gates: tuple[Any, Any],
    attributes: tuple[Any, Any],
    outcomes: Any,
    own: Any,
) -> ScoreBatch:
    """`ScoreBatch.of_arrays`, which says what each of these is; numbers: weights, margins, directions."""
    weights, margins, directions = numbers
    if criteria is None and type(scores) is not np.ndarray:
        criteria = column_names(scores)
    scores_MK, starts, shape, order, labels = rows_of(owner, scores, groups)
    data = _criteria_data(owner, criteria, scores_MK.shape[1], directions)
    batch = kind(
        scores_MK,
        starts,
        data,
        _constant(len(data), 1.0),
        _constant(len(data), 0.0),
        labels,
        shape=shape,
        order=order,
        named=criteria is not None,
        declared=False,
    )
    names = None if criteria is None else [c.name for c in data]
    weights = [c.weight for c in data] if weights is None and names else weights
    margins = [c.margin for c in data] if margins is None and names else margins
    if weights is not None:
        batch.weights_NK = _weights(owner, weights, names, batch)
    else:
        batch.__dict__["plain_weights_NK"] = batch.weights_NK
    if margins is not None:
        batch.margins_NK = _margins(owner, margins, names, batch)
    if own is not None:
        batch.own = _own(owner, own, batch.N)
    elif criteria is None and directions is None:
        batch.__dict__["oriented_MK"] = scores_MK  # known already: plain columns are never turned round
    if outcomes:
        batch.outcomes = observed_cells(owner, outcomes, batch, names)
    if attributes[0] is not None:
        batch.attributes_MD = attributes_like(owner, batch, attributes[0])
        batch.attribute_names = _attribute_names(owner, attributes[1], batch.attributes_MD.shape[1])
    if gates[0] is not None:
        batch.gates_MC = _like_scores(
            owner, batch, np.asarray(gates[0], dtype=float), ("gates", "C"), "One column per gate."
        )
        batch.gate_criteria = _data_of(owner, "gate_criteria", gates[1], batch.gates_MC.shape[1], _HARD)
    return _split(owner, batch, *layers) if any(layers) else batch


def _criteria_data(owner: str, given: Any, K: int, directions: Any) -> tuple[CriterionData, ...]:
    if given is None and directions is None:
        return _unnamed(K, "criterion", "quality")
    data = _data_of(owner, "criteria", given, K, "quality")
    if directions is None:
        return data
    ways = _ways(owner, directions, [c.name for c in data], given is not None)
    return tuple(replace(c, direction=way) if c.direction != way else c for c, way in zip(data, ways, strict=True))


def _data_of(owner: str, parameter: str, given: Any, count: int, layer: Any) -> tuple[CriterionData, ...]:
    if given is None:
        return _unnamed(count, "criterion" if parameter == "criteria" else "gate", layer)
    listed = list(given) if np.iterable(given) and not isinstance(given, str) else [given]
    names = [c.name if isinstance(c, CriterionData) else c for c in listed]
    _check_names(owner, parameter, names, count, "column of the scores")
    return tuple(c if isinstance(c, CriterionData) else _criterion_in(c, layer) for c in listed)


@lru_cache(maxsize=128)
def _unnamed(count: int, word: str, layer: Any) -> tuple[CriterionData, ...]:
    return tuple(_criterion_in(f"{word} {k}", layer) for k in range(count))


@lru_cache(maxsize=4096)
def _criterion_in(name: str, layer: Any) -> CriterionData:
    return CriterionData(name, domain=UNIT, layer=layer)  # kept: making a dozen would take as long as a small fit


def _ways(owner: str, given: Any, names: list[str], named: bool) -> list[Any]:
    if isinstance(given, Mapping):
        for name in given:
            if not named or name not in names:
                raise UnknownName.of(owner, "directions key", name, names if named else ())
        given = [given.get(name, "higher") for name in names]
    listed = list(given) if np.iterable(given) and not isinstance(given, str) else []
    if len(listed) != len(names) or any(way not in ("higher", "lower") for way in listed):
        raise InvalidInput(
            owner,
            "directions",
            f"'higher' or 'lower' for each of the {len(names)} criteria",
            repr([str(way) for way in listed] or given),
            "",
        )
    return [str(way) for way in listed]


def _weights(owner: str, given: Any, names: Sequence[str] | None, batch: ScoreBatch) -> np.ndarray:
    weights = per_criterion(owner, "weights", given, names, batch, 1.0)
    low, high = extent(weights)
    if not (low > 0.0 and high < math.inf):
        good = (weights > 0.0) & (weights < math.inf)
        remedy = "Leave out a criterion that should not count."
        check_each(owner, "weights", weights, good, "finite and > 0", remedy, names)
    if _PLAIN_WEIGHTS[0] < high < _PLAIN_WEIGHTS[1]:
        batch.__dict__["plain_weights_NK"] = weights  # found out on the way
    return weights


def _margins(owner: str, given: Any, names: Sequence[str] | None, batch: ScoreBatch) -> np.ndarray:
    margins = per_criterion(owner, "margins", given, names, batch, 0.0)
    low, high = extent(margins)
    if not (low >= 0.0 and high < math.inf):
        good = (margins >= 0.0) & (margins < math.inf)
        remedy = "Use 0 for 'every difference counts'."
        check_each(owner, "margins", margins, good, "finite and ≥ 0", remedy, names)
    return margins


def plain_weights(weights_NK: np.ndarray) -> np.ndarray:
    """Weights in the same ratios that cannot overflow: only ratios count."""
    low, high = extent(weights_NK)
    if low > 0.0 and _PLAIN_WEIGHTS[0] < high < _PLAIN_WEIGHTS[1]:
        return weights_NK
    return np.asarray(weights_NK / weights_NK.max(axis=1, keepdims=True)) if weights_NK.size else weights_NK


def extent(array: np.ndarray) -> tuple[float, float]:
    """Smallest and largest; NaN if there is one. Python is faster than NumPy for a dozen numbers."""
    if array.size > 50:
        return float(array.min()), float(array.max())
    numbers = array.ravel().tolist() or [1.0]
    total = sum(numbers)  # NaN if there is one, or infinities of both signs
    return (min(numbers), max(numbers)) if total == total else (math.nan, math.nan)


def _attribute_names(owner: str, given: Sequence[str] | None, D: int) -> tuple[str, ...]:
    if given is not None and len(given):
        _check_names(owner, "attribute_names", given, D, "attribute")
    return tuple(given or ())


def _check_names(owner: str, parameter: str, names: Sequence[Any], count: int, what: str) -> None:
    different = len(set(names)) if all(isinstance(name, Hashable) for name in names) else 0
    if len(names) != count or different != count:
        allowed, got = f"{count} different names, one for each {what}", f"{len(names)}, {different} of them different"
        raise InvalidInput(owner, parameter, allowed, got, f"Name the {what.partition(' ')[0]}s in their order.")


def _own(owner: str, given: Any, N: int) -> tuple[tuple[CriterionData, ...], ...]:
    if len(given) != N:
        raise InvalidInput(owner, "own", f"{N}, one per group", str(len(given)), "List them in order.")
    return tuple(map(tuple, given))


# --------------------------------------------------------------------------------------------------------------- gates


def _split(owner: str, batch: ScoreBatch, hard: Sequence[str | int], soft: Sequence[str | int]) -> ScoreBatch:
    """Columns that a gate reads: hard ones are read by it alone, soft ones are ranked too where there is no gate."""
    layer = dict.fromkeys(_columns(owner, batch, hard), _HARD) | dict.fromkeys(_columns(owner, batch, soft), _SOFT)
    if len(layer) == batch.K:
        raise InvalidInput(owner, "the gate", "on some of the criteria", "all of them", "Keep one to rank by.")
    _check_gates(owner, batch, layer)
    data = tuple(replace(c, layer=layer.get(k, c.layer)) for k, c in enumerate(batch.criteria))
    ranked = replace(batch, criteria=data).columns([k for k in range(batch.K) if layer.get(k) != _HARD])
    gates = np.ascontiguousarray(batch.scores_MK[:, list(layer)])
    ranked.gates_MC = gates if batch.gates_MC is None else np.hstack([gates, batch.gates_MC])
    ranked.gate_criteria = (*(data[k] for k in layer), *batch.gate_criteria)
    return ranked


def _columns(owner: str, batch: ScoreBatch, wanted: Sequence[str | int]) -> list[int]:
    names = {name: k for k, name in enumerate(batch.names)} if batch.named else {}
    found = []
    for name in wanted:
        if isinstance(name, str) and not batch.named:
            raise InvalidInput(owner, "criteria", "given when a gate uses names", "None", "Name the columns.")
        if isinstance(name, str) and name not in names:
            raise UnknownName.of(owner, "criterion of the gate", name, names)
        k = names[name] if isinstance(name, str) else int(name)
        if not 0 <= k < batch.K:
            raise InvalidInput(owner, "criterion of the gate", f"a column from 0 to {batch.K - 1}", str(k), "")
        found.append(k)
    return found


def _check_gates(owner: str, batch: ScoreBatch, layer: Mapping[int, Layer]) -> None:
    """A gate reads scores as they are, 1 for clean: turning them round silently would be a trap, ignoring it too."""
    for k in layer:
        if batch.criteria[k].direction == "lower":
            allowed = "'higher' for criteria that the gate reads, whose scores are 1 for clean"
            got = f"'lower' for {batch.names[k]!r}"
            raise InvalidInput(owner, "directions", allowed, got, "Reverse its scores: 1 − s.")
        if any(at == k for _, at in batch.outcomes):
            got = f"those of {batch.names[k]!r}, which the gate reads"
            raise InvalidInput(owner, "outcomes", "of criteria that are ranked by", got, "Score it instead.")


# --------------------------------------------------------------------------------------------- beside the scores


def attributes_like(owner: str, batch: ScoreBatch, attributes: ArrayLike) -> np.ndarray:
    """Attributes (…, D) with the leading shape of the scores → (M, D), sorted by group."""
    array = as_floats(owner, "attributes", attributes)
    remedy = "For one attribute per rollout add an axis: attributes[..., None]."
    flat = _like_scores(owner, batch, array, ("attributes", "D"), remedy)
    wrong = ~((array >= 0.0) & (array < np.inf))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        got = f"{array[tuple(at)]} at {place_of(at)}"
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        raise InvalidInput(owner, "attributes", "finite numbers ≥ 0", got, remedy)
    return flat


def _like_scores(owner: str, batch: ScoreBatch, array: np.ndarray, what: tuple[str, str], remedy: str) -> np.ndarray:
    """What has one more axis than the scores have before their last → (M, …), sorted by group."""
    shape, (name, letter) = batch.shape or (len(batch.scores_MK),), what
    if array.shape[:-1] != shape or array.ndim != len(shape) + 1:
        allowed = f"of shape ({', '.join(map(str, shape))}, {letter}): that of the scores, with the {name} last"
        raise InvalidInput(owner, name, allowed, f"shape {array.shape}", remedy)
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
        f"{array[tuple(at)]} at {place_of(at)}",
        "If it stands for a failed verifier, use NaN.",
    )


def per_criterion(
    owner: str, parameter: str, value: Any, criteria: Sequence[str] | None, batch: ScoreBatch, default: float
) -> np.ndarray:
    """A number for every criterion, or for every group and criterion → (1, K) or (N, K)."""
    if value is None:
        return _constant(batch.K, default)
    if isinstance(value, Mapping):
        value = _by_name(owner, parameter, value, criteria, default)
    array = as_floats(owner, parameter, value)
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
