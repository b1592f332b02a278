"""RLVR² as an object: options once, batches many times, everything about each kept.

>>> from rubrank import RLVR2, Gate
>>> rule = RLVR2(criteria=["Facts", "Style", "NotEmpty"], weights={"Facts": 2}, gate=Gate(global_quality=["NotEmpty"]))
>>> result = rule([[1, 3, 1], [0, 5, 1], [1, 4, 0]])
>>> result.reward.round(2)
array([0.49, 0.  , 0.  ])
>>> print(result.explain(2))
rollout 2 of group 0: reward 0.00, 2nd of 3, with 1 other
  Facts (weight 2): 1; beats 1; ties 0 → +0.59
  Style: 4; beats 0; loses to 1
  gate: stopped by NotEmpty, so the reward is 0 instead of 1.00
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput
from rubrank.fusion.adjust import Rule, rules_for
from rubrank.fusion.fusing import Directions, Groups, Options, PerCriterion, Pool, Span, run
from rubrank.fusion.gate import Gate
from rubrank.fusion.model import UtilityModel
from rubrank.fusion.result import FusedBatch
from rubrank.scores.arrays import Batch, attributes_like, make_batch
from rubrank.scores.observed import Observations


@dataclass(frozen=True, kw_only=True, eq=False)
class RLVR2:
    """Ordinal fusion with its options; call it with scores. See `rubrank.fuse` for what the options mean.

    gate: applied after the fusion. A criterion that the gate names is read by the gate and not fused: it has one job.
    """

    criteria: Sequence[str] | None = None
    weights: PerCriterion = None
    margins: PerCriterion = None
    directions: Directions = None
    adjust: Rule | Sequence[Rule] | None = None
    attribute_names: Sequence[str] | None = None
    pool: Pool = "group"
    prior: float = 1.0
    attribute_prior: float = 1.0
    span: Span = "model"
    model: str | UtilityModel = "bradley-terry"
    seed: int = 0
    gate: Gate | None = None

    def __post_init__(self) -> None:
        self._options(None, ()).check()

    def __call__(
        self,
        scores: ArrayLike,
        *,
        groups: Groups = None,
        attributes: ArrayLike | None = None,
        outcomes: Observations = None,
    ) -> FusedBatch:
        """Fuse a batch of groups; shapes, and outcomes of comparisons, as for `rubrank.fuse`."""
        everything = make_batch("RLVR2", scores, groups)
        names = self._names(everything)
        columns = self._fused_columns(names)
        batch = _only(everything, columns)
        options = self._options(names, columns, _only_fused(outcomes, names, columns))
        fusion = run(options, batch, attributes)
        attributes_MD = None if attributes is None else attributes_like("RLVR2", batch, attributes)
        D = 0 if attributes_MD is None else attributes_MD.shape[1]
        gated = None if self.gate is None else self.gate(fusion.ranking_M, everything.scores_MK, names)
        return FusedBatch(
            fusion=fusion,
            all_scores_MC=everything.scores_MK,
            names=names,
            fused_columns=tuple(columns),
            higher_is_better=_higher_is_better(options, len(columns)),
            attribute_names=tuple(self.attribute_names or (f"attribute {d}" for d in range(D))),
            attributes_MD=attributes_MD,
            rules=rules_for("RLVR2", self.adjust, D),
            gate=None if self.gate is None else self.gate.named(names),
            gated=gated,
        )

    def _names(self, batch: Batch) -> tuple[str, ...]:
        if self.criteria is None:
            return tuple(f"criterion {k}" for k in range(batch.K))
        if len(self.criteria) != batch.K or len(set(self.criteria)) != batch.K:
            raise InvalidInput(
                "RLVR2",
                "criteria",
                f"{batch.K} different names, one for each column of the scores",
                f"{len(self.criteria)}, {len(set(self.criteria))} of them different",
                "Name the columns in their order.",
            )
        return tuple(self.criteria)

    def _fused_columns(self, names: tuple[str, ...]) -> list[int]:
        if self.gate is None:
            return list(range(len(names)))
        gate = self.gate
        used = {
            *gate.columns(gate.global_quality, len(names), names),
            *gate.columns(gate.low_quality, len(names), names),
        }
        left = [k for k in range(len(names)) if k not in used]
        if not left:
            raise InvalidInput(
                "RLVR2", "gate", "on some of the criteria", "all of them", "Keep at least one criterion to rank by."
            )
        return left

    def _options(self, names: tuple[str, ...] | None, columns: Sequence[int], outcomes: Observations = None) -> Options:
        """The options of the columns that are fused."""
        return Options(
            weights=_columns_of("weights", self.weights, names, columns),
            margins=_columns_of("margins", self.margins, names, columns),
            directions=_columns_of("directions", self.directions, names, columns),
            adjust=self.adjust,
            pool=self.pool,
            prior=self.prior,
            attribute_prior=self.attribute_prior,
            span=self.span,
            model=self.model,
            seed=self.seed,
            criteria=self._identities(names, columns),
            attribute_names=self.attribute_names,
            outcomes=outcomes,
            owner="RLVR2",
        )

    def _identities(self, names: tuple[str, ...] | None, columns: Sequence[int]) -> Sequence[Any] | None:
        """What draws go by: names, or the numbers of the columns where there are no names, as in `fuse`."""
        if names is None or self.criteria is None:
            return None if names is None else columns
        return [names[k] for k in columns]


def _columns_of(parameter: str, value: Any, names: tuple[str, ...] | None, columns: Sequence[int]) -> Any:
    """What was given for all columns, for those that are fused; what cannot be cut is left for the checks to come."""
    if value is None or names is None:
        return value
    gated = {names[k] for k in range(len(names)) if k not in columns}
    if isinstance(value, Mapping):
        _refuse_lower(parameter, [name for name in gated if value.get(name) == "lower"])
        return {name: v for name, v in value.items() if name not in gated}
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        return value
    if not array.ndim or array.shape[-1] != len(names):
        return value
    if parameter == "directions":
        _refuse_lower(
            parameter, [name for name, way in zip(names, array, strict=True) if name in gated and way == "lower"]
        )
    return array[..., list(columns)]


def _only_fused(outcomes: Observations, names: tuple[str, ...], columns: Sequence[int]) -> Observations:
    """Outcomes of fused criteria; a gate reads scores, and cannot read who beats whom."""
    fused = {names[k] for k in columns} | set(columns)
    for key in outcomes or {}:
        if key not in fused and (key in names or key in range(len(names))):
            raise InvalidInput(
                "RLVR2", "outcomes", "of criteria that are ranked by", f"those of {key!r}, which the gate reads",
                "Score it, or take it out of the gate.",
            )  # fmt: skip
    return outcomes


def _refuse_lower(parameter: str, names: list[str]) -> None:
    """A gate reads scores as they are, 1 for clean: turning them around silently would be a trap, ignoring it too."""
    if names:
        raise InvalidInput(
            "RLVR2",
            parameter,
            "'higher' for criteria that the gate reads, whose scores are 1 for clean",
            f"'lower' for {names[0]!r}",
            "Turn its scores around: 1 − s.",
        )


def _only(batch: Batch, columns: Sequence[int]) -> Batch:
    if len(columns) == batch.K:
        return batch
    some = np.ascontiguousarray(batch.scores_MK[:, list(columns)])
    return Batch(some, batch.starts, batch.shape, batch.order, batch.given_labels)


def _higher_is_better(options: Options, K: int) -> np.ndarray:
    given = options.directions
    if given is None:
        return np.ones(K, bool)
    if isinstance(given, Mapping):
        given = [given.get(name, "higher") for name in options.criteria or ()]
    return np.array([way == "higher" for way in given])
