"""A batch for aggregation rules from plain arrays.

    >>> from rubrank.fusion.rules import score_batch
    >>> batch = score_batch([[1, 0.5], [1, 1.0], [0, 1.0]], criteria=["Facts", "Style"], weights={"Facts": 2})
    >>> batch.N, batch.K, batch.weights_NK.tolist()
    (1, 2, [[2.0, 1.0]])

Everything that a caller can get wrong about the arrays is found here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput
from rubrank.scores.arrays import Batch, attributes_like, check_each, make_batch, per_criterion
from rubrank.scores.batch import Outcomes, ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT


def score_batch(
    scores: ArrayLike,
    *,
    groups: ArrayLike | Sequence[Hashable] | None = None,
    criteria: Sequence[str | CriterionData] | None = None,
    weights: Any = None,
    margins: Any = None,
    gates: ArrayLike | None = None,
    gate_criteria: Sequence[str | CriterionData] | None = None,
    attributes: ArrayLike | None = None,
    attribute_names: Sequence[str] = (),
    outcomes: Outcomes | None = None,
    own: Sequence[Sequence[CriterionData]] | None = None,
) -> ScoreBatch:
    """A batch from plain arrays.

    scores: (G, K), (N, G, K), or (M, K) with `groups`, the label of each row's group; rows of a group stand together.
    criteria: names (scores from 0 to 1, more is better), or data with domains, directions, points, edges …
    weights, margins: (K,), (N, K), or by name; by default those of the criteria.
    gates: (…, C), from 0 to 1 = clean; `gate_criteria` says what they are: a name alone stops a rollout below 1.
    """
    rows = make_batch("score_batch", scores, groups)
    if rows.order is not None:
        raise InvalidInput(
            "score_batch", "groups", "the same for rows that stand together", "a group in pieces", "Sort the rows."
        )
    data = _criteria_data("criteria", criteria, rows.K, "quality")
    gates_MC = None if gates is None else _floats_like(rows, gates)
    C = 0 if gates_MC is None else gates_MC.shape[1]
    batch = ScoreBatch(
        rows.scores_MK,
        rows.starts,
        data,
        _numbers_of("weights", [c.weight for c in data] if weights is None else weights, data, rows),
        _numbers_of("margins", [c.margin for c in data] if margins is None else margins, data, rows),
        rows.labels,
        None if own is None else tuple(map(tuple, own)),
        dict(outcomes or {}),
        gates_MC,
        _criteria_data("gate_criteria", gate_criteria, C, "global_quality"),
        None if attributes is None else attributes_like("score_batch", rows, attributes),
        tuple(attribute_names),
    )
    _check_batch(batch)
    return batch


def _criteria_data(parameter: str, given: Any, count: int, layer: Any) -> tuple[CriterionData, ...]:
    word = "criterion" if parameter == "criteria" else "gate"
    listed = [f"{word} {k}" for k in range(count)] if given is None else list(given)
    data = tuple(CriterionData(c, domain=UNIT, layer=layer) if isinstance(c, str) else c for c in listed)
    if len(data) != count or len({c.name for c in data}) != count:
        got = f"{len(data)}, {len({c.name for c in data})} of them different"
        raise InvalidInput("score_batch", parameter, f"{count} different ones, one a column", got, "Name the columns.")
    return data


def _floats_like(rows: Batch, gates: ArrayLike) -> np.ndarray:
    array = np.asarray(gates, dtype=float)
    if array.shape[:-1] != rows.shape or array.ndim != len(rows.shape) + 1:
        allowed = f"of shape ({', '.join(map(str, rows.shape))}, C): that of the scores, with the gates last"
        raise InvalidInput("score_batch", "gates", allowed, f"shape {array.shape}", "One column a gate.")
    return array.reshape(len(rows.scores_MK), array.shape[-1])


def _numbers_of(parameter: str, value: Any, data: tuple[CriterionData, ...], rows: Batch) -> np.ndarray:
    names = [c.name for c in data]
    numbers = per_criterion("score_batch", parameter, value, names, rows, 1.0 if parameter == "weights" else 0.0)
    good = np.isfinite(numbers) & (numbers > 0.0 if parameter == "weights" else numbers >= 0.0)
    allowed = "finite and > 0" if parameter == "weights" else "finite and ≥ 0"
    check_each("score_batch", parameter, numbers, good, allowed, "Penalties have negative points, not weights.", names)
    return numbers


def _check_batch(batch: ScoreBatch) -> None:
    low = np.array([c.domain.low for c in batch.criteria])
    high = np.array([c.domain.high for c in batch.criteria])
    outside = (batch.scores_MK < low) | (batch.scores_MK > high)
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise InvalidInput(
            "score_batch", f"scores of {batch.names[k]!r}", f"from {low[k]:g} to {high[k]:g}, its domain",
            f"{batch.scores_MK[i, k]:g}", "Give its domain: criteria=[CriterionData(name, domain=…), …].",
        )  # fmt: skip
    if batch.own is not None and len(batch.own) != batch.N:
        raise InvalidInput("score_batch", "own", f"{batch.N}, one a group", str(len(batch.own)), "List them in order.")
