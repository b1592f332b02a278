"""Gates: defects that no other criterion can make up for. `Gate` decides; `Gated` applies it after a rule ("gdpo+").

A hard gate stops a rollout: a global-quality criterion is below its maximum, and the reward is 0. A soft gate shrinks
the reward by a factor: the mean of the low-quality criteria (1 = clean) is below a threshold.

    reward = 0                                        if a hard gate stops the rollout
           = factor · (lift + (1 − lift) · R̃)         otherwise; R̃ is the reward of the rule, stretched to [0, 1]
                                                      over the rollouts of the group that passed
    factor = 1                                        if the mean reaches the threshold
           = floor + (1 − floor) · softgate(mean)     below it; softgate rises from 0 at 0 to 1 at the threshold

    >>> from rubrank import Gate
    >>> gate = Gate(global_quality=["NotEmpty"], low_quality=["NoTemplate", "NoRepeats"], lift=0.25)
    >>> gate([0.9, 0.7, 0.8], [[1, 1, 1], [1, 0, 1], [0, 1, 1]], ["NotEmpty", "NoTemplate", "NoRepeats"]).reward
    array([1.    , 0.1875, 0.    ])

The lift keeps the worst rollout that passed (here 0.25, times a factor of 0.75 for its template) above the rollouts
that were stopped. `lift=0` is the gate of the paper: the rewards are not stretched, only multiplied by the factor.

Letters at the end of a name are the axes of an array: M rollouts of a batch, N groups, C gate criteria.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from reprlib import repr as brief
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rubrank._choices import GateMissing, GateShape
from rubrank._plugins import is_from_library
from rubrank.errors import InvalidInput, UnknownName, refuses_wrong_kinds
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import (
    CheckedRule,
    Rule,
    Stateful,
    apply_rule,
    check_state,
    choice_field,
    number_field,
)
from rubrank.fusion.rules.group_math import subtract_mean
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import stretch_groups

LIFT = 0.25
"""Default lift of `Gated`: the reward of the worst rollout that passes, before the factor."""
_ROUNDING = 1e-6
"""The values of a bounded rule may fall this far below 0 by rounding; they are then raised to 0."""


@dataclass(frozen=True, eq=False)
class GateResult:
    """The decisions of a gate; arrays have the shape of the rewards."""

    reward: np.ndarray
    passed: np.ndarray
    """False where a global-quality criterion stopped the rollout."""
    factor: np.ndarray
    """What the soft gate multiplies the reward by (ρ in docs/gates.md); 1 if there is no defect."""
    low_quality: np.ndarray
    """Mean of the low-quality criteria (1 = clean); NaN if none was scored."""
    stopped_by: np.ndarray
    """(…, number of global-quality criteria): which of them stopped the rollout."""
    missing: np.ndarray
    """The number of gate criteria without a score."""
    lifted: np.ndarray
    """The rewards before the factor: stretched over the rollouts that passed, and lifted."""

    def select_rows(self, rows: slice) -> GateResult:
        """Return the result for some of the rollouts."""
        return GateResult(**{array.name: getattr(self, array.name)[rows] for array in fields(self)})


@refuses_wrong_kinds
@dataclass(frozen=True)
class Gate(CheckedRule):
    """A hard gate on global quality and a soft one on low quality.

    global_quality, low_quality: names of criteria, or column numbers. Low-quality scores lie in [0, 1], 1 = clean.
    threshold: the mean of the low-quality scores from which the factor is 1. With 1, any defect counts.
    floor: the factor at a mean of 0.
    shape: "linear" or "smoothstep", between 0 and the threshold.
    missing: "pass" ignores a missing score; "fail" treats it as the worst score. A criterion that is not in a query's
        rubric never gates that query.
    maximum: the score that a global-quality criterion must reach; one number, or by name (1 for the others).
    lift: reward of the worst rollout that passed, before the factor; 0 leaves rewards as they are (the paper's gate).
        The default (None) is `LIFT` in a gated rule ("gdpo+"), and 0 for a gate that is called by itself.
    """

    name: ClassVar[str] = "Gate"

    global_quality: Sequence[str | int] = ()
    low_quality: Sequence[str | int] = ()
    threshold: float = number_field(1.0, high=1.0, above=True)
    floor: float = number_field(0.5, high=1.0)
    shape: GateShape = choice_field("linear", GateShape)
    missing: GateMissing = choice_field("pass", GateMissing)
    maximum: float | Mapping[str | int, float] = 1.0
    lift: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("global_quality", "low_quality"):
            criteria = getattr(self, name)
            if isinstance(criteria, str) or not isinstance(criteria, Sequence):
                raise InvalidInput("Gate", name, "a list of criteria", repr(criteria), "Use ().")
        is_share = isinstance(self.lift, int | float) and 0.0 <= self.lift < 1.0
        if self.lift is not None and not is_share:
            allowed = "in [0, 1); 0 is the paper's gate"
            raise InvalidInput("Gate", "lift", allowed, repr(self.lift), "Use None.")
        # Without criteria there is nothing to compare with: in a gated rule, they come from the batch (see `Gated`).
        if isinstance(self.maximum, Mapping) and self.global_quality:
            for key in self.maximum:
                if key not in self.global_quality:
                    raise UnknownName.of("Gate", "maximum key", key, map(str, self.global_quality))

    def __call__(
        self,
        rewards: ArrayLike,
        scores: ArrayLike,
        criteria: Sequence[str] | None = None,
        asked: np.ndarray | None = None,
        starts: np.ndarray | None = None,
    ) -> GateResult:
        """Gate rewards (…, G) ≥ 0 by scores (…, G, K).

        criteria: the names of the K columns; not needed if the gate's criteria are column numbers.
        asked: (…, G, K), False where a criterion is not in the query's rubric: a score there is ignored, and does not
            count as missing. None: all are in the rubric.
        starts: if `rewards` is one row of several groups, the first position of each group, and the end: [0, 4, 8] for
            two groups of four. None: each row is a group.
        Raises InvalidInput for negative rewards, and for low-quality scores outside [0, 1].
        """
        reward = np.asarray(rewards, dtype=float)
        score = np.asarray(scores, dtype=float)
        if score.shape[:-1] != reward.shape or score.ndim == 0:
            allowed = f"of shape {reward.shape} with the criteria last"
            raise InvalidInput("Gate", "scores", allowed=allowed, got=f"shape {score.shape}")
        if not (reward >= 0.0).all():
            allowed = "numbers ≥ 0: a factor would shrink a negative reward towards the good ones"
            got = f"{reward[~(reward >= 0.0)].flat[0]:g}"
            remedy = "Stretch them to [0, 1] within the group first."
            raise InvalidInput("Gate", "rewards", allowed=allowed, got=got, remedy=remedy)
        is_missing = np.isnan(score)
        if asked is not None:
            is_missing = is_missing & asked
            score = np.where(asked, score, np.nan)

        # The columns of the gate's criteria, which are given by name or by number.
        column_of: dict[str | int, int] = {k: k for k in range(score.shape[-1])}
        column_of |= {name: k for k, name in enumerate(criteria or ())}
        for key in (*self.global_quality, *self.low_quality):
            if key not in column_of:
                raise UnknownName.of("Gate", "criterion", key, map(str, column_of))
        hard_columns = [column_of[key] for key in self.global_quality]
        soft_columns = [column_of[key] for key in self.low_quality]
        columns = hard_columns + soft_columns

        # The hard gate: which criteria stop a rollout.
        limit: Any = self.maximum
        if isinstance(self.maximum, Mapping):
            limit = [self.maximum.get(name, 1.0) for name in self.global_quality]
        stopped_by = score[..., hard_columns] < np.asarray(limit)
        if self.missing == "fail":
            stopped_by = stopped_by | is_missing[..., hard_columns]
        passed = np.asarray(~stopped_by.any(-1))

        # The soft gate: the mean of the low-quality scores, NaN if there is none, and its factor.
        soft = score[..., soft_columns]
        is_wrong = (soft < 0.0) | (soft > 1.0)
        if is_wrong.any():
            index = tuple(np.argwhere(is_wrong)[0])
            parameter = f"low-quality criterion {self.low_quality[index[-1]]!r}"
            remedy = "Scale it, or reverse it if lower is better."
            got = f"{soft[index]:g}"
            raise InvalidInput(
                "Gate", parameter, allowed="in [0, 1], 1 = clean", got=got, remedy=remedy
            )
        if self.missing == "fail":
            soft = np.where(is_missing[..., soft_columns], 0.0, soft)
        count = (~np.isnan(soft)).sum(-1)
        total = np.nan_to_num(soft, nan=0.0).sum(-1)
        low_quality = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        # How far the mean is on the way from 0 to the threshold: mean 0.3, threshold 0.6 → 0.5. A rollout without
        # low-quality scores is clean.
        progress = np.clip(np.nan_to_num(low_quality, nan=1.0) / self.threshold, 0.0, 1.0)
        softgate = progress
        if self.shape == "smoothstep":
            softgate = progress * progress * (3.0 - 2.0 * progress)
        # floor + (1 − floor) may differ from 1 by rounding, hence the exact 1 for clean rollouts.
        factor = np.where(progress >= 1.0, 1.0, self.floor + (1.0 - self.floor) * softgate)

        lifted = reward
        if columns and self.lift:
            is_gated = np.ones(reward.shape, bool)
            if asked is not None:
                is_gated = np.asarray(asked[..., columns].any(-1))
            lifted = _lift_rewards(reward, passed, starts, is_gated, self.lift)
        return GateResult(
            reward=np.where(passed, factor * lifted, 0.0),
            passed=passed,
            factor=factor,
            low_quality=low_quality,
            stopped_by=stopped_by,
            missing=is_missing[..., columns].sum(-1),
            lifted=lifted,
        )


def _lift_rewards(
    reward: np.ndarray,
    passed: np.ndarray,
    starts: np.ndarray | None,
    is_gated: np.ndarray,
    lift: float,
) -> np.ndarray:
    """Stretch the rewards of the rollouts that passed to [0, 1] within their group, and then to [lift, 1].

    starts: as in `Gate.__call__`.
    is_gated: False where the query's rubric has no gate; such rewards are unchanged.
    """
    if not is_gated.any():
        return reward
    if starts is None:
        group_size = reward.shape[-1] if reward.ndim else 1
        starts = np.arange(0, reward.size + 1, max(group_size, 1))
    stretched = stretch_groups(reward.ravel(), starts, passed.ravel()).reshape(reward.shape)
    return np.where(is_gated, lift + (1.0 - lift) * stretched, reward)


@dataclass(frozen=True)
class Gated:
    """A rule followed by a gate on the gate criteria of the rubric. "gdpo+" is `Gated(gdpo)`.

        weighted means              0.9, 0.8, 0.7     the second rollout is empty (global quality 0),
                                                      the third has a template (low quality 0)
        stretched and lifted        1,   –,   0.25    0.9 and 0.7 passed: to [0, 1], and then to [0.25, 1]
        weighted-mean+              1,   0,   0.125   the second is stopped; the factor of the third is 0.5

    grade A: docs/gates.md. `gate` holds the options; its criteria come from the batch. If `maximum` is a mapping, its
    names must be hard gates of the batch (checked only if the batch has a hard gate).

    A factor below 1 would *raise* a negative number. The values of a rule that is not bounded (advantages, logarithms,
    counts) are therefore stretched to [0, 1] within each group first, also in a group without gate criteria. `value_M`
    of the result is still the rule's own number, and `details["stretched"]` is what was gated.
    Penalties (the layer "low_quality") act through the factor, and are not ranked.
    Missing: a missing score is ignored; `Gate(missing="fail")` treats it as the worst score.
    """

    rule: Rule
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        if not isinstance(self.gate, Gate):
            raise InvalidInput(
                "Gated",
                "gate",
                allowed="a Gate, such as Gate(floor=0.5)",
                got=brief(self.gate),
            )

    @property
    def bounded(self) -> bool:
        """Are the rewards from 0 to 1? They are, unless they are the advantages of RLVR² with scale="utility"."""
        return getattr(self.rule, "scale", None) != "utility"

    @property
    def name(self) -> str:
        """Such as "gdpo+"."""
        return f"{self.rule.name}+"

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the gated reward of each rollout."""
        # Penalties act through the factor; ranking them too would count them twice.
        batch = batch.drop_penalties()
        fused = apply_rule(self.rule, batch)
        values_M = _make_gate_input(self.rule, fused, batch)
        details = fused.details
        reference_span_N = details.get(
            "reference_span"
        )  # only RLVR² with scale="utility" reports it
        if reference_span_N is None and not self.rule.bounded:
            details = {**details, "stretched": values_M}
        hard_names = [c.name for c in batch.gate_criteria if c.layer == "global_quality"]
        soft_names = [c.name for c in batch.gate_criteria if c.layer == "low_quality"]
        gate = replace(
            self.gate,
            global_quality=tuple(hard_names),
            low_quality=tuple(soft_names),
            lift=LIFT if self.gate.lift is None else self.gate.lift,
        )
        names = [criterion.name for criterion in batch.gate_criteria]
        asked_MC = batch.gates_in_rubric_NC[batch.group_of_row]
        gated = gate(values_M, batch.clean_MC, names, asked_MC, batch.starts)
        if reference_span_N is not None:
            advantage_M = _gate_advantages(fused.value_M, batch, gate, gated, reference_span_N)
            gated = replace(gated, reward=advantage_M)
        return replace(fused, rule=self.name, details=details, gate=gate, gated=gated)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON data; "gated" holds that of the rule, None if the rule does not learn."""
        inner = self.rule.state() if isinstance(self.rule, Stateful) else None
        return {"rule": self.name, "version": 1, "gated": inner}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        inner = check_state(self, 1, state)["gated"]
        if isinstance(self.rule, Stateful):
            self.rule.restore(inner)


def _make_gate_input(rule: Rule, fused: Fused, batch: ScoreBatch) -> np.ndarray:
    """Return the values (M,) that the gate multiplies by its factor; they must be ≥ 0.

    Raises InvalidInput if a user's rule says that it is bounded, and gives a value below 0.
    """
    if fused.details.get("reference_span") is not None:
        # RLVR² with scale="utility" gives advantages. The gate sees its ranking, and `_gate_advantages` then applies
        # the gate's decisions to the advantages.
        return fused.ranking_M
    if not rule.bounded:
        return stretch_groups(fused.value_M, batch.starts)
    if fused.control is not None and fused.fit is None:
        # Attributes were taken out of the values of a bounded rule, which may have moved them out of [0, 1]. RLVR²
        # (which has a fit) takes attributes out before it ranks, and stays inside.
        return _fit_into_unit(fused.value_M, batch)
    lowest = fused.value_M.min(initial=0.0)
    # A user's rule may claim to be bounded and not be. The remedy is of no use for a rule of the library, whose
    # `bounded` nobody can set; the gate refuses its negative values.
    if lowest < -_ROUNDING and not is_from_library(rule):
        raise InvalidInput(
            f"rule {rule.name!r}",
            "the value",
            allowed="from 0 to 1, as its `bounded` says",
            got=f"{lowest:g}",
            remedy="Set bounded = False.",
        )
    if -_ROUNDING <= lowest < 0.0:
        return np.maximum(fused.value_M, 0.0)
    return fused.value_M


def _fit_into_unit(values_M: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Move and shrink the values of each group into [0, 1]; groups that are inside stay as they are.

        values −0.2, 0.3, 1.3      shifted by 0.2: 0, 0.5, 1.5; divided by 1.5: 0, 0.33, 1

    Values of a bounded rule may leave [0, 1] when attributes are controlled. There is one shift and one factor for a
    group, so a trainer that scales rewards by group does not notice.
    """
    if not batch.N:
        return values_M
    shift_N = np.minimum(np.minimum.reduceat(values_M, batch.starts[:-1]), 0.0)
    highest_N = np.maximum.reduceat(values_M, batch.starts[:-1]) - shift_N
    divisor_N = np.maximum(highest_N, 1.0)
    shifted_M = values_M - shift_N[batch.group_of_row]
    return np.asarray(shifted_M / divisor_N[batch.group_of_row])


def _gate_advantages(
    value_M: np.ndarray, batch: ScoreBatch, gate: Gate, gated: GateResult, span_N: np.ndarray
) -> np.ndarray:
    """Return the advantages (M,) after a gate.

    span_N: best minus worst of a strict order, on the scale of the advantages.

    A stopped rollout gets the stop value: it lies `lift/(1 − lift)` of that span below the worst rollout that passed.
    That is the same distance as with rewards, where stopped rollouts have 0 and those that passed lie in [lift, 1]:
    with lift 0.25, they span 0.75, and 0.25 / 0.75 = 1/3 of that span lies between 0 and the worst of them.

        lift 0.25, span 3; advantages 1.5, 0, −1.5, the second has the factor 0.5, and the third is stopped
        worst that passed 0 → stop value 0 − 1/3 · 3 = −1
        1.5;  −1 + 0.5 · (0 − (−1)) = −0.5;  −1        minus their mean 0: 1.5, −0.5, −1

    The factor of the soft gate pulls the others towards the stop value. A group whose rubric has no gate is unchanged.
    """
    if not batch.N:
        return value_M
    lift = gate.lift or 0.0
    worst_N = np.minimum.reduceat(np.where(gated.passed, value_M, np.inf), batch.starts[:-1])
    worst_N = np.where(np.isfinite(worst_N), worst_N, 0.0)  # no rollout of the group passed
    stop_N = worst_N - lift / (1.0 - lift) * span_N
    stop_M = stop_N[batch.group_of_row]
    gated_M = np.where(gated.passed, stop_M + gated.factor * (value_M - stop_M), stop_M)
    is_gated_M = np.asarray(batch.gates_in_rubric_NC.any(1))[batch.group_of_row]
    return subtract_mean(np.where(is_gated_M, gated_M, value_M), batch)
