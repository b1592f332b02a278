"""Non-negotiable quality: what no other criterion can make up for.

    reward = 0                                if a global-quality criterion is below its maximum      (hard gate)
    reward = factor · (lift + (1 − lift) · R̃)   otherwise: R̃ is stretched over those that passed      (soft gate)
    factor = 1                                if the mean of the low-quality criteria reaches the threshold
           = floor + (1 − floor) · softgate(mean)      below it; softgate rises from 0 at 0 to 1 at the threshold

    >>> from rubrank import Gate
    >>> gate = Gate(global_quality=["NotEmpty"], low_quality=["NoTemplate", "NoRepeats"], lift=0.25)
    >>> gate([0.9, 0.7, 0.8], [[1, 1, 1], [1, 0, 1], [0, 1, 1]], ["NotEmpty", "NoTemplate", "NoRepeats"]).reward
    array([1.    , 0.1875, 0.    ])

The lift keeps the worst rollout that passed (here 0.25, times a factor of 0.75 for its template) above those that did
not. `lift=0` is the paper: the rewards as they are, times the factor. It works after any rule whose rewards are not
negative: what a "+" after a rule's name means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName, refuses_wrong_kinds
from rubrank.scores.spread import stretched

Shape: TypeAlias = Literal["linear", "smoothstep"]
Missing: TypeAlias = Literal["pass", "fail"]

LIFT = 0.25
"""What the worst rollout that passes a gate behind a rule has."""


@dataclass(frozen=True, eq=False)
class GateResult:
    """What a gate did; arrays have the shape of the rewards."""

    reward: np.ndarray
    passed: np.ndarray
    """False where a global-quality criterion stopped the rollout."""
    factor: np.ndarray
    """ρ of the soft gate; 1 where nothing was found."""
    low_quality: np.ndarray
    """Mean of the low-quality criteria (1 = clean); NaN where none was scored."""
    stopped_by: np.ndarray
    """(…, number of global-quality criteria): which of them stopped the rollout."""
    missing: np.ndarray
    """How many of the gate's scores were missing."""
    lifted: np.ndarray
    """What the factor was applied to: the rewards, stretched over those that passed and lifted."""

    def part(self, rows: slice) -> GateResult:
        """Some of the rollouts."""
        return GateResult(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@refuses_wrong_kinds
@dataclass(frozen=True)
class Gate:
    """A hard gate on global quality and a soft one on low quality.

    global_quality, low_quality: names of criteria, or column numbers. Low-quality scores lie in [0, 1], 1 = clean.
    threshold: mean of the low-quality scores from which nothing is taken away. 1: any defect counts.
    floor: the factor at a mean of 0.
    shape: "linear" or "smoothstep", between 0 and the threshold.
    missing: "pass": a score that is missing does not gate; "fail": it counts as the worst. A criterion that a query
        does not ask for never gates there.
    maximum: the score that a global-quality criterion must reach; one number, or by name.
    lift: what the worst rollout that passed has before the factor; 0 leaves rewards as they are (the paper). By default
        `LIFT` behind a rule ("+"), and 0 for a gate that is called by itself, with whatever rewards.
    """

    global_quality: Sequence[str | int] = ()
    low_quality: Sequence[str | int] = ()
    threshold: float = 1.0
    floor: float = 0.5
    shape: Shape = "linear"
    missing: Missing = "pass"
    maximum: float | Mapping[str | int, float] = field(default=1.0)
    lift: float | None = None

    def __post_init__(self) -> None:
        for name in ("global_quality", "low_quality"):
            if isinstance(getattr(self, name), str) or not isinstance(getattr(self, name), Sequence):
                raise InvalidInput("Gate", name, "a list of criteria", repr(getattr(self, name)), "Put it in [ ].")
        if not 0.0 < self.threshold <= 1.0:
            raise InvalidInput("Gate", "threshold", "in (0, 1]", repr(self.threshold), "1 makes every defect count.")
        if not 0.0 <= self.floor <= 1.0:
            raise InvalidInput("Gate", "floor", "in [0, 1]", repr(self.floor), "0.5 halves the reward of the worst.")
        if self.lift is not None and not (isinstance(self.lift, int | float) and 0.0 <= self.lift < 1.0):
            raise InvalidInput(
                "Gate", "lift", "in [0, 1)", repr(self.lift), "The usual is 0.25; 0 is the paper's gate."
            )
        for key in self.maximum if isinstance(self.maximum, Mapping) else ():
            if key not in self.global_quality:
                raise UnknownName.of("Gate", "maximum key", key, map(str, self.global_quality))
        if self.shape not in get_args(Shape):
            raise UnknownName.of("Gate", "shape", self.shape, get_args(Shape))
        if self.missing not in get_args(Missing):
            raise UnknownName.of("Gate", "missing", self.missing, get_args(Missing))

    def __call__(
        self,
        rewards: ArrayLike,
        scores: ArrayLike,
        criteria: Sequence[str] | None = None,
        asked: np.ndarray | None = None,
        starts: np.ndarray | None = None,
    ) -> GateResult:
        """Gate rewards (…, G) by scores (…, G, K) whose columns are `criteria` (not needed if the gate uses numbers).

        asked: (…, G, K), False where a score is not missing but was never asked for; None: all were.
        starts: of the groups, where rewards of several stand in one row; None: each row is a group.
        """
        reward, score = np.asarray(rewards, dtype=float), np.asarray(scores, dtype=float)
        self._check_rewards(reward, score)
        lost = np.isnan(score) if asked is None else np.isnan(score) & asked
        hard_columns = self.columns(self.global_quality, score.shape[-1], criteria)
        soft_columns = self.columns(self.low_quality, score.shape[-1], criteria)
        hard, soft = score[..., hard_columns], score[..., soft_columns]
        self._check_low_quality(soft, criteria)
        stopped_by = self._stopped(hard, lost[..., hard_columns])
        low = self._low_mean(soft, lost[..., soft_columns])
        factor = self._factor(low)
        passed = np.asarray(~stopped_by.any(-1))
        missing = lost[..., hard_columns].sum(-1) + lost[..., soft_columns].sum(-1)
        gates = hard_columns + soft_columns
        some = np.ones(reward.shape, bool) if asked is None else np.asarray(asked[..., gates].any(-1))
        lifted = self._lifted(reward, passed, starts, some) if gates else reward
        return GateResult(np.where(passed, factor * lifted, 0.0), passed, factor, low, stopped_by, missing, lifted)

    def _lifted(
        self, reward: np.ndarray, passed: np.ndarray, starts: np.ndarray | None, some: np.ndarray
    ) -> np.ndarray:
        """Stretched over those that passed, and lifted, where the query asks for some gate."""
        lift = self.lift
        if not lift or not some.any():
            return reward
        if starts is None:
            G = reward.shape[-1] if reward.ndim else 1
            starts = np.arange(0, reward.size + 1, G or 1)
        share = stretched(reward.ravel(), starts, passed.ravel()).reshape(reward.shape)
        return np.where(some, lift + (1.0 - lift) * share, reward)

    def named(self, names: Sequence[str]) -> Gate:
        """The same gate with column numbers replaced by names."""

        def name(key: str | int) -> str:
            return key if isinstance(key, str) else names[key]

        maximum = self.maximum
        if isinstance(maximum, Mapping):
            maximum = {name(key): value for key, value in maximum.items()}
        hard, soft = tuple(map(name, self.global_quality)), tuple(map(name, self.low_quality))
        return replace(self, global_quality=hard, low_quality=soft, maximum=maximum)

    def columns(self, wanted: Sequence[str | int], K: int, criteria: Sequence[str] | None) -> list[int]:
        """Column numbers of criteria given by name or number."""
        names = {name: k for k, name in enumerate(criteria or ())}
        found = []
        for name in wanted:
            if isinstance(name, str) and criteria is None:
                raise InvalidInput("Gate", "criteria", "given when the gate uses names", "None", "Name the columns.")
            if isinstance(name, str) and name not in names:
                raise UnknownName.of("Gate", "criterion", name, names)
            k = names[name] if isinstance(name, str) else int(name)
            if not 0 <= k < K:
                raise InvalidInput("Gate", "criterion", f"a column from 0 to {K - 1}", str(k), "")
            found.append(k)
        return found

    def _stopped(self, hard: np.ndarray, lost: np.ndarray) -> np.ndarray:
        given = self.maximum
        limit = [given.get(name, 1.0) for name in self.global_quality] if isinstance(given, Mapping) else given
        below = hard < np.asarray(limit)
        return below | lost if self.missing == "fail" else below

    def _low_mean(self, soft: np.ndarray, lost: np.ndarray) -> np.ndarray:
        if self.missing == "fail":
            soft = np.where(lost, 0.0, soft)
        seen = (~np.isnan(soft)).sum(-1)
        return np.where(seen > 0, np.nan_to_num(soft, nan=0.0).sum(-1) / np.maximum(seen, 1), np.nan)

    def _factor(self, low: np.ndarray) -> np.ndarray:
        t = np.clip(np.nan_to_num(low, nan=1.0) / self.threshold, 0.0, 1.0)
        gate = t if self.shape == "linear" else t * t * (3.0 - 2.0 * t)
        return np.where(t >= 1.0, 1.0, self.floor + (1.0 - self.floor) * gate)

    def _check_rewards(self, reward: np.ndarray, score: np.ndarray) -> None:
        if score.shape[:-1] != reward.shape or score.ndim == 0:
            raise InvalidInput(
                "Gate",
                "scores",
                f"of shape {reward.shape} with the criteria last",
                f"shape {score.shape}",
                "",
            )
        if not (reward >= 0.0).all():
            raise InvalidInput(
                "Gate",
                "rewards",
                "numbers ≥ 0: a factor would shrink a negative reward towards the good ones",
                f"{reward[~(reward >= 0.0)].flat[0]:g}",
                "Stretch them to [0, 1] within the group first.",
            )

    def _check_low_quality(self, soft: np.ndarray, criteria: Sequence[str] | None) -> None:
        wrong = (soft < 0.0) | (soft > 1.0)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise InvalidInput(
                "Gate",
                f"low-quality criterion {self.low_quality[at[-1]]!r}",
                "in [0, 1], 1 = clean",
                f"{soft[at]:g}",
                "Scale it, or reverse it if lower is better.",
            )
