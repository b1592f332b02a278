"""Rules that compute the weights of a weighted sum: Focal, SA-MRPO, DVAO. RLVR² can use their weights (rlvr2*focal)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.gdpo import (
    Conditions,
    apply_conditions,
    check_conditions,
    normalise_batch,
    sum_z_scores,
)
from rubrank.fusion.rules.group_math import (
    centre,
    expand_rows,
    normalise_weights,
    row_sums,
    sum_groups,
    weighted_mean,
    zero_missing,
)
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class Focal(checks.LocalRule):
    """Focal: less weight for the criteria that the group's best rollouts already meet.

        two criteria, equal weights; every rollout meets the first, half of them the second
        pace 1 and 0.62      f ∝ (0.05)³ and (0.43)³      nearly all weight goes to the second

        d_i = Σ b s,  π = softmax(d/T) within the group,  pace_k = Σ_i π_i s_ki, clipped to [0, 1]
        f_k ∝ b_k (1 − pace_k + ε)^γ,  R = Σ f s                                  grade B−: a reconstruction in part

    b and f add up to 1. T = 1, γ = 3, ε = 0.05 are for scores from 0 to 1. γ = 0 is the weighted mean. Where all is
    saturated and ε = 0, f = b.
    Missing: left out of d, of pace (π of the others adds up to 1) and of R, weights divided by their sum. A rollout
    without any score gets its group's mean.
    """

    name: ClassVar[str] = "focal"
    bounded: ClassVar[bool] = True

    temperature: float = checks.number(1.0, above=True)
    gamma: float = checks.number(3.0)
    eps: float = checks.number(0.05)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The re-weighted mean of each rollout's scores."""
        pace_NK = self.pace(batch)
        weights_NK = self._focus(batch, pace_NK)
        value_M = weighted_mean(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK, {"pace": pace_NK})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): f."""
        return self._focus(batch, self.pace(batch))

    def pace(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): mean score of each criterion, in which better rollouts count more; 0 if no rollout has a score."""
        unit_MK = batch.unit_MK
        score_M = weighted_mean(unit_MK, batch.weights_NK, batch)
        # Relative to the best of the group, so that no exponent is above 0.
        score_M = score_M - expand_rows(np.maximum.reduceat(score_M, batch.starts[:-1]), batch)
        odds_M1 = np.exp(score_M / self.temperature)[:, None]
        total = sum_groups(odds_M1, batch)
        if not batch.complete:
            total = sum_groups(np.where(batch.missing_MK, 0.0, odds_M1), batch)
        pace = np.divide(
            sum_groups(zero_missing(unit_MK * odds_M1, batch), batch),
            total,
            out=np.zeros((batch.N, batch.K)),
            where=total > 0.0,
        )
        return np.clip(pace, 0.0, 1.0, out=pace)

    def _focus(self, batch: ScoreBatch, pace_NK: np.ndarray) -> np.ndarray:
        base = normalise_weights(batch, batch.weights_NK)
        focus = base * (1.0 - pace_NK + self.eps) ** self.gamma
        total = focus.sum(1, keepdims=True)
        return np.where(total > 0.0, focus / np.where(total > 0.0, total, 1.0), base)


@dataclass(frozen=True)
class SAMRPO(checks.CheckedRule):
    """SA-MRPO: GDPO with less weight for what the whole batch does well already.

        batch means 0.9 and 0.2, equal weights, γ = 1      weights 0.1 and 0.8

        w̃_k = w_k (1 − m_k)^γ,  m_k = mean of s_k over the batch;  then GDPO with w̃          grade A

    γ = 0 is GDPO. The default γ = 1 is ours. Where all criteria are saturated no rollouts are told apart: 0 for all.
    Other parameters and missing scores as in GDPO; m_k is the mean of the scores that are there.
    """

    name: ClassVar[str] = "sa-mrpo"
    bounded: ClassVar[bool] = False

    gamma: float = checks.number(1.0)
    eps: float = checks.number(1e-4, above=True)
    floor: float = checks.number(1e-5)
    batch_norm: bool = checks.flag(True)
    conditions: Conditions = field(default=(), metadata={"check": check_conditions})

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The advantage of each rollout."""
        batch = apply_conditions(self.name, self.conditions, batch)
        weights_NK = self.weights(batch)
        pre_norm_M = sum_z_scores(batch, weights_NK, self.eps, self.floor)
        value_M = normalise_batch(pre_norm_M, batch, self.eps) if self.batch_norm else pre_norm_M
        return Fused(batch, self.name, value_M, weights_NK, {"pre_norm": pre_norm_M})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """w (1 − m)^γ."""
        headroom = np.clip(1.0 - batch_means(batch), 0.0, 1.0)
        return batch.weights_NK * headroom**self.gamma


def batch_means(batch: ScoreBatch) -> np.ndarray:
    """(K,): mean score of each criterion over the batch; 0 where no rollout has one."""
    if batch.complete:
        return np.asarray(batch.unit_MK.mean(0)) if len(batch.unit_MK) else np.zeros(batch.K)
    count = (~batch.missing_MK).sum(0)
    return np.asarray(zero_missing(batch.unit_MK, batch).sum(0) / np.maximum(count, 1))


@dataclass(frozen=True)
class DVAO(checks.LocalRule):
    """DVAO: the weight of a criterion grows with its spread in the group.

        std 0.5 and 0.1, equal weights      shares v = 0.83 and 0.17

        v_k = b_k σ_k / Σ b σ,  A = Σ v_k (s − mean)/(σ_k + ε),  population σ within the group; 0 where Σ b σ ≤ ε
                                                                                grade B; ε = 1e-4 is ours, as in GDPO
    b are the weights, divided by their sum.
    Missing: not part of mean and σ, and counts as the group's mean: 0.
    """

    name: ClassVar[str] = "dvao"
    bounded: ClassVar[bool] = False

    eps: float = checks.number(1e-4, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The advantage of each rollout."""
        around_MK, std_NK, _ = centre(batch.unit_MK, batch, 0)
        weights_NK = self._shares(batch, std_NK)
        value_M = row_sums(around_MK, expand_rows(weights_NK / (std_NK + self.eps), batch))
        return Fused(batch, self.name, value_M, weights_NK)

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): v, which add up to 1; all 0 in a group without any spread."""
        return self._shares(batch, centre(batch.unit_MK, batch, 0).std_NK)

    def _shares(self, batch: ScoreBatch, std_NK: np.ndarray) -> np.ndarray:
        weighted_NK = normalise_weights(batch, batch.weights_NK) * std_NK
        total_N1 = weighted_NK.sum(1, keepdims=True)
        return np.divide(
            weighted_NK, total_N1, out=np.zeros_like(weighted_NK), where=total_N1 > self.eps
        )
