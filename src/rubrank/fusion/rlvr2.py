"""RLVR²: rank the rollouts of a group on every criterion, add up the utilities, stretch them to [0, 1].

    >>> from rubrank import RLVR2, Gated, ScoreBatch
    >>> batch = ScoreBatch.of_arrays(
    ...     [[1, 3, 1], [0, 5, 1], [1, 4, 0]],                                    # three rollouts
    ...     criteria=["Facts", "Style", "NotEmpty"], weights={"Facts": 2}, global_quality=["NotEmpty"])
    >>> result = Gated(RLVR2())(batch)
    >>> result.reward.round(2)
    array([1.  , 0.25, 0.  ])
    >>> print(result.explain(2))
    rollout 2 of group 0: reward 0.00, 3rd of 3
      Facts (weight 2): 1; beats 1; ties 0 → +0.59
      Style: 4; beats 0; loses to 1
      together: +0.59 (se 0.59); agreement of the criteria 0.00
      gate: stopped by NotEmpty, so the reward is 0 instead of 1.00

    R = Σ w u stretched to [0, 1] within the group, u = utilities of the ordering      grade A: docs/method.md

`adjust` says what becomes of the batch's attributes ("remove", `attenuate(…)`); None leaves them alone. A group that
nothing tells apart, such as a single rollout, has 0.5.
Missing: not compared on that criterion, never a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, refuses_wrong_kinds
from rubrank.fusion.adjust import Adjustment, Pool, rules_for
from rubrank.fusion.adjusting import Known, adjusted, observed_in
from rubrank.fusion.advantages import advantages, reference, unit_of
from rubrank.fusion.model import UtilityModel, find_model
from rubrank.fusion.observed import fit_observed
from rubrank.fusion.result import Fit, Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.running import Running
from rubrank.scores.arrays import plain_weights, refuse_infinite
from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.models.partitioned import Part

Span: TypeAlias = Literal["model", "unit", "sd"]
Scale: TypeAlias = Literal["ranking", "utility"]

LARGEST = 4096
"""Rollouts in one group, at most: a fit looks at all pairs."""
# Beyond these, rounding rather than the data decides.
_SMALLEST_PRIOR, _LARGEST_PRIOR = 1e-9, 1e12


@refuses_wrong_kinds
@dataclass(frozen=True)
class RLVR2:
    """Ordinal fusion with its options.

    adjust: what becomes of the batch's attributes: "remove" or `attenuate(lam)`, one or one for each; None: nothing.
    pool: what an attribute's influence is estimated over: the whole "batch", the "run" (this rule's calls so far: for
        trainers), or every "group" by itself, exactly as in the paper, which takes a share that the priors set.
    adjust_criteria: the criteria whose verdicts are adjusted, or "all"; None: those that no program decided.
    prior, attribute_prior: precision of the normal priors on utilities (α) and coefficients (β).
    span: "model" takes utilities as fitted; "unit" gives every criterion the same span, best minus worst = 1; "sd" the
        same standard deviation, so that criteria of equal weight have equal influence.
    scale: of the rewards: "ranking" stretches them to [0, 1] in each group; "utility" gives advantages that are small
        where the criteria disagree, for trainers that do not scale rewards themselves.
    model: "bradley-terry", "thurstone", "borda", or one of your own.
    seed: of the draws that `attenuate` makes.
    """

    name: ClassVar[str] = "rlvr2"

    adjust: Adjustment | Sequence[Adjustment] | None = None
    pool: Pool = "batch"
    adjust_criteria: Sequence[str | int] | Literal["all"] | None = None
    prior: float = 1.0
    attribute_prior: float = 1.0
    span: Span = "model"
    model: str | UtilityModel = "bradley-terry"
    seed: int = 0
    scale: Scale = "ranking"
    running: Running = field(default_factory=Running, repr=False, compare=False)
    """What pool="run" has learnt; a copy of the rule with other options goes on learning in the same place."""

    known: Known | None = field(default=None, repr=False, compare=False)
    """With pool="batch": the estimate over a whole batch, for fusing its parts one by one."""

    def __post_init__(self) -> None:
        for parameter, allowed in (("pool", get_args(Pool)), ("span", get_args(Span)), ("scale", get_args(Scale))):
            value = getattr(self, parameter)
            if not isinstance(value, str) or value not in allowed:
                raise UnknownName.of(self.name, parameter, value, allowed)
        for parameter in ("prior", "attribute_prior"):
            self._check_prior(parameter, getattr(self, parameter))
        if not isinstance(self.seed, int | np.integer):
            raise InvalidInput(self.name, "seed", "an integer", repr(self.seed), "")
        self._check_adjusted()
        if self.adjust is not None:
            one = isinstance(self.adjust, str) or not isinstance(self.adjust, Sequence)
            given: Any = [self.adjust] if one else self.adjust
            rules_for(self.name, given, len(given))  # raises for what is none

    def _check_adjusted(self) -> None:
        given = self.adjust_criteria
        names = isinstance(given, Sequence) and not isinstance(given, str)
        if given is not None and given != "all" and not names:
            raise InvalidInput(self.name, "adjust_criteria", "None, 'all', or a list of names", repr(given), "")

    @property
    def remembers(self) -> bool:
        """Does it learn from batch to batch?"""
        return self.pool == "run"

    def state(self) -> dict[str, Any]:
        """What was learnt about attributes, as JSON can hold it."""
        return {"rule": self.name, "version": 1, "running": self.running.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.running.restore(checks.state_of(self, 1, state)["running"])

    @property
    def bounded(self) -> bool:
        """From 0 to 1, but for advantages."""
        return self.scale == "ranking"

    @property
    def local(self) -> bool:
        """Does a group's reward depend on that group alone?"""
        return self.pool == "group" or self.adjust is None or self.known is not None

    def _check_prior(self, parameter: str, value: float) -> None:
        if not isinstance(value, int | float | np.number) or not _SMALLEST_PRIOR <= value <= _LARGEST_PRIOR:
            allowed = f"a number from {_SMALLEST_PRIOR:g} to {_LARGEST_PRIOR:g}"
            raise InvalidInput(self.name, parameter, allowed, repr(value), "Without a prior no best utility exists.")

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The reward of each rollout, and all that it is due to."""
        return self.weighed(batch, None)

    def weighed(self, batch: ScoreBatch, weights_NK: np.ndarray | None) -> Fused:
        """The same by other weights than the batch's."""
        used_NK = batch.weights_NK if weights_NK is None else weights_NK
        fit = self._fit(batch, used_NK)
        if self.scale == "ranking":
            return Fused(batch, self.name, fit.ranking_M, weights_NK, fit=fit)
        model: Any = find_model(self.model)
        prior = float(self.prior)
        unit_N = unit_of(batch, used_NK, model, prior)
        span_N = np.array([reference(model, prior, int(n)) for n in batch.sizes]).reshape(-1, 2)
        details = {"reference_span": span_N[:, 1] / span_N[:, 0]}
        return Fused(batch, self.name, advantages(fit.fused_M, batch, unit_N), weights_NK, details, fit=fit)

    def _fit(self, batch: ScoreBatch, weights_NK: np.ndarray) -> Fit:
        kernels, shape_table = _engine()
        self._check(batch)
        model, scores_MK = find_model(self.model), batch.oriented_MK
        weights_NK = batch.plain_weights_NK if weights_NK is batch.weights_NK else plain_weights(weights_NK)
        (M, K), N = scores_MK.shape, batch.N
        u_MK, fused_M, ranking_M, signal_N = np.empty((M, K)), np.empty(M), np.empty(M), np.empty(N, np.bool_)
        table, results = shape_table(model, float(self.prior)), (u_MK, fused_M, ranking_M, signal_N)
        with table.lock:
            status, ranked = table.rank(batch.largest, scores_MK, batch.starts, batch.margins_NK, weights_NK, results)
        if status == kernels.INFINITE:
            refuse_infinite(self.name, batch.per_rollout(batch.scores_MK))
        if batch.outcomes:
            fit_observed(model, float(self.prior), batch.outcomes, batch.starts, u_MK)
        values_MK, control = u_MK, None
        if self.adjusts(batch):
            control = adjusted(self, batch, u_MK)
            values_MK = control.values_MK
        scale_NK = None
        if self.span != "model":
            values_MK, scale_NK = values_MK.copy(), np.empty((N, K))
            kernels.scale_span(values_MK, batch.starts, self.span == "sd", scale_NK)
        if not ranked or batch.outcomes or values_MK is not u_MK:
            kernels.combine(values_MK, batch.starts, weights_NK, fused_M, ranking_M, signal_N)
        return Fit(u_MK, values_MK, fused_M, ranking_M, control, scale_NK)

    def adjusts(self, batch: ScoreBatch) -> bool:
        """Is something taken out of its verdicts?"""
        return self.adjust is not None and batch.attributes_MD is not None and batch.attributes_MD.shape[1] > 0

    def part(self, batch: ScoreBatch) -> Part:
        """Some groups of a batch as the first pass over its parts takes them."""
        from rubrank.fusion.models.partitioned import Part

        plain = replace(self, adjust=None)
        u_MK = plain._fit(batch, batch.weights_NK).utilities_MK
        return Part(*observed_in(self, batch, u_MK), u_MK)

    def _check(self, batch: ScoreBatch) -> None:
        if batch.largest > LARGEST:
            allowed = f"of at most {LARGEST:,} rollouts: all pairs enter a fit"
            raise InvalidInput(self.name, "groups", allowed, f"one of {batch.largest:,}", "Did you forget groups=?")


@cache
def _engine() -> tuple[Any, Any]:
    """numba is loaded by the first fit, not by `import rubrank`."""
    from rubrank.fusion.models import kernels
    from rubrank.fusion.models.shapes import shape_table

    return kernels, shape_table
