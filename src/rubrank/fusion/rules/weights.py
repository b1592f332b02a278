"""Rules that compute the weights of a weighted sum: Focal, SA-MRPO, DVAO, AMRP, POW3R.

Each has `weights(batch)` beside `__call__`, so that RLVR² can use the weights in its own sum: rlvr2*focal.

In the formulas, s is a score scaled from 0 to 1 by its domain, w its criterion's weight, b the weights divided by their
sum, and R the value of a rollout; docs/rules.md explains the grades. Letters at the end of a name are the axes of an
array: M rollouts, N groups, K criteria. (N, 1) is one number for each group; (1, K) instead of (N, K): all groups share
one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rule import (
    CheckedRule,
    LearningRule,
    LocalRule,
    choice_field,
    flag_field,
    number_field,
)
from rubrank.fusion.rules.gdpo import (
    Conditions,
    apply_conditions,
    check_conditions,
    normalise_batch,
    sum_z_scores,
)
from rubrank.fusion.rules.group_math import (
    average_scores,
    centre,
    expand_rows,
    fill_unknown,
    mask_weights,
    normalise_weights,
    sum_groups,
    sum_products,
    zero_missing,
)
from rubrank.scores.batch import ScoreBatch

MemoryOf: TypeAlias = Literal["query", "criterion"]
_ALL_QUERIES = ""  # the only label of POW3R with memory_of="criterion"


@dataclass(frozen=True)
class Focal(LocalRule):
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

    temperature: float = number_field(1.0, above=True)
    gamma: float = number_field(3.0)
    eps: float = number_field(0.05)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the re-weighted mean of each rollout's scores."""
        pace_NK = self._measure_pace(batch)
        weights_NK = self._focus_weights(batch, pace_NK)
        value_M = average_scores(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK, {"pace": pace_NK})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Return f (N, K)."""
        return self._focus_weights(batch, self._measure_pace(batch))

    def _measure_pace(self, batch: ScoreBatch) -> np.ndarray:
        """Return the mean score (N, K) of each criterion, in which better rollouts count more.

        It is 0 if no rollout of the group has a score on the criterion.
        """
        unit_MK = batch.unit_MK
        score_M = average_scores(unit_MK, batch.weights_NK, batch)
        # Relative to the best of the group, so that no exponent is above 0.
        score_M = score_M - expand_rows(np.maximum.reduceat(score_M, batch.starts[:-1]), batch)
        odds_M1 = np.exp(score_M / self.temperature)[:, None]
        total = sum_groups(odds_M1, batch)
        if not batch.complete:
            total = sum_groups(np.where(batch.missing_MK, 0.0, odds_M1), batch)
        weighted_scores_NK = sum_groups(zero_missing(unit_MK * odds_M1, batch), batch)
        pace_NK = np.zeros((batch.N, batch.K))
        np.divide(weighted_scores_NK, total, out=pace_NK, where=total > 0.0)
        return np.clip(pace_NK, 0.0, 1.0, out=pace_NK)

    def _focus_weights(self, batch: ScoreBatch, pace_NK: np.ndarray) -> np.ndarray:
        """Return f (N, K) for this pace."""
        base_NK = normalise_weights(batch, batch.weights_NK)
        focus_NK = base_NK * (1.0 - pace_NK + self.eps) ** self.gamma
        total_N1 = focus_NK.sum(1, keepdims=True)
        has_focus_N1 = total_N1 > 0.0
        return np.where(has_focus_N1, focus_NK / np.where(has_focus_N1, total_N1, 1.0), base_NK)


@dataclass(frozen=True)
class SAMRPO(CheckedRule):
    """SA-MRPO: GDPO with less weight for what the whole batch does well already.

        batch means 0.9 and 0.2, equal weights, γ = 1      weights 0.1 and 0.8

        w̃_k = w_k (1 − m_k)^γ,  m_k = mean of s_k over the batch;  then GDPO with w̃          grade A

    γ = 0 is GDPO. The default γ = 1 is ours. Where all criteria are saturated no rollouts are told apart: 0 for all.
    Other parameters and missing scores as in GDPO; m_k is the mean of the scores that are there.
    """

    name: ClassVar[str] = "sa-mrpo"
    bounded: ClassVar[bool] = False

    gamma: float = number_field(1.0)
    eps: float = number_field(1e-4, above=True)
    floor: float = number_field(1e-5)
    batch_norm: bool = flag_field(True)
    conditions: Conditions = field(default=(), metadata={"check": check_conditions})

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the advantage of each rollout."""
        batch = apply_conditions(self.name, self.conditions, batch)
        weights_NK = self.weights(batch)
        pre_norm_M = sum_z_scores(batch, weights_NK, self.eps, self.floor)
        value_M = normalise_batch(pre_norm_M, batch, self.eps) if self.batch_norm else pre_norm_M
        return Fused(batch, self.name, value_M, weights_NK, {"pre_norm": pre_norm_M})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Return w̃ (N, K), or (1, K) if all groups have the same weights."""
        headroom_K = np.clip(1.0 - _average_batch(batch), 0.0, 1.0)
        return batch.weights_NK * headroom_K**self.gamma


@dataclass(frozen=True)
class DVAO(LocalRule):
    """DVAO: the weight of a criterion grows with its spread in the group.

        std 0.5 and 0.1, equal weights      shares v = 0.83 and 0.17

        v_k = b_k σ_k / Σ b σ,  A = Σ v_k (s − mean)/(σ_k + ε),  population σ within the group; 0 where Σ b σ ≤ ε
                                                                                grade B; ε = 1e-4 is ours, as in GDPO
    b are the weights, divided by their sum.
    Missing: not part of mean and σ, and counts as the group's mean: 0.
    """

    name: ClassVar[str] = "dvao"
    bounded: ClassVar[bool] = False

    eps: float = number_field(1e-4, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the advantage of each rollout."""
        around_MK, std_NK = centre(batch.unit_MK, batch, 0)
        weights_NK = self._share_weights(batch, std_NK)
        value_M = sum_products(around_MK, expand_rows(weights_NK / (std_NK + self.eps), batch))
        return Fused(batch, self.name, value_M, weights_NK)

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Return v (N, K). The weights of a group add up to 1; they are all 0 in a group without any spread."""
        return self._share_weights(batch, centre(batch.unit_MK, batch, 0)[1])

    def _share_weights(self, batch: ScoreBatch, std_NK: np.ndarray) -> np.ndarray:
        """Return v (N, K) for these standard deviations."""
        weighted_NK = normalise_weights(batch, batch.weights_NK) * std_NK
        total_N1 = weighted_NK.sum(1, keepdims=True)
        return np.divide(
            weighted_NK, total_N1, out=np.zeros_like(weighted_NK), where=total_N1 > self.eps
        )


@dataclass(frozen=True)
class AMRP(LearningRule):
    """AMRP: more weight for criteria that are far from their target, unsteady, or not improving.

        first batch: means 0.9 and 0.4, target 1, equal weights
        short 0.1 and 0.6; no spread and no progress yet      u = 0.15 and 0.65      w' = 0.375 and 1.625

        m ← m + a (x − m),  v ← (1 − a)(v + a (x − m)²)       x = batch mean of the scores, a = rate
        short = max(0, t − m)/(t − lo),  vol = √v/(m − lo + ε),  prog = max(0, m − m_old)/(range + ε)
        u = w (short + δ)(1 + vol) e^{−prog},  w' = u/Σu · Σw, clipped;  R = Σ w' s / Σ w'    grade C: a reconstruction

    lo = 0 and range = 1: scores are on the scale of their domains. Rate a = 0.1 and δ = 0.05 are given; target t = 1,
    ε = 0.01 and the clip to [low, high] times w are ours.
    **Stateful**: m, v and m_old of each criterion, by name, are updated by every batch, before it is weighted. A
    criterion that a batch does not have keeps its memory.
    Missing: left out, of x and of R, as in the weighted mean.
    """

    name: ClassVar[str] = "amrp"
    bounded: ClassVar[bool] = True

    rate: float = number_field(0.1, high=1.0, above=True)
    delta: float = number_field(0.05, above=True)
    target: float = number_field(1.0, high=1.0, above=True)
    eps: float = number_field(0.01, above=True)
    low: float = number_field(0.1, above=True)
    high: float = number_field(10.0, low="low")

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then return the re-weighted mean of each rollout's scores."""
        weights_NK = self.weights(batch)
        value_M = average_scores(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK)

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch, then return w' (N, K)."""
        self._learn(batch)
        statistics = [self.memory.get(name, (0.0, 0.0, 0.0)) for name in batch.names]
        mean_K, variance_K, mean_before_K = np.array(statistics).T
        short_K = np.maximum(0.0, self.target - mean_K) / self.target
        volatility_K = np.sqrt(variance_K) / (np.maximum(mean_K, 0.0) + self.eps)
        progress_K = np.maximum(0.0, mean_K - mean_before_K) / (1.0 + self.eps)
        urgency_K = (short_K + self.delta) * (1.0 + volatility_K) * np.exp(-progress_K)

        nominal_NK = mask_weights(batch, batch.weights_NK)
        urgent_NK = nominal_NK * urgency_K
        total_N1 = urgent_NK.sum(1, keepdims=True)
        nominal_total_N1 = nominal_NK.sum(1, keepdims=True)
        scale_N1 = np.divide(
            nominal_total_N1, total_N1, out=np.ones_like(total_N1), where=total_N1 > 0.0
        )
        return np.clip(urgent_NK * scale_N1, self.low * nominal_NK, self.high * nominal_NK)

    def _learn(self, batch: ScoreBatch) -> None:
        """Update mean and variance of every criterion that has a score in the batch."""
        memory = self.memory
        a = self.rate
        batch_mean_K = _average_batch(batch).tolist()
        has_score_K = np.asarray((~batch.missing_MK).any(0)).tolist()
        for name, x, has_score in zip(batch.names, batch_mean_K, has_score_K, strict=True):
            if not has_score:
                continue
            if name not in memory:
                memory[name] = [x, 0.0, x]
                continue
            mean, variance, _ = memory[name]
            new_mean = mean + a * (x - mean)
            new_variance = (1.0 - a) * (variance + a * (x - mean) ** 2)
            memory[name] = [new_mean, new_variance, mean]


def _average_batch(batch: ScoreBatch) -> np.ndarray:
    """Return the mean score (K,) of each criterion over the batch; 0 where no rollout has a score."""
    if batch.complete:
        return np.asarray(batch.unit_MK.mean(0)) if len(batch.unit_MK) else np.zeros(batch.K)
    count_K = (~batch.missing_MK).sum(0)
    return np.asarray(zero_missing(batch.unit_MK, batch).sum(0) / np.maximum(count_K, 1))


@dataclass(frozen=True)
class POW3R(LearningRule):
    """POW3R: within a category, weight moves to the criteria that tell the policy's rollouts apart.

        one category, equal weights, std in the group 0.5 and 0, λ = 0.5
        g = 0.5 and 0, mean 0.25      α̂ = 0.5 + 0.5 · 2 = 1.5 and 0.5 + 0 = 0.5
        with β = 0.5: α = (1 + 1.5)/2 = 1.25 and (1 + 0.5)/2 = 0.75

        g_j = √(V_j + ε),  ḡ = its weighted mean in the category,  α̂ = clip((1 − λ) + λ g/ḡ, α_min, α_max)
        α ← (1 − β) α + β α̂ (from 1),  R = mean over categories of Σ w α s / Σ w α                           grade B

    V is the population variance in the group. No public source gives the constants; λ = 0.5, α from 0.5 to 2, β = 0.5
    and ε = 1e-6 are ours.
    **Stateful**: `memory_of="query"` (default) remembers α of every group label and criterion, so that it moves once an
    epoch if labels name queries; "criterion" remembers one α a criterion, moved by every batch (the mean α̂ of its
    groups), for trainers whose labels are new each step. What a batch does not have keeps its α.
    Missing: left out, of V and of R, as in the weighted mean; a category without any score is left out of its mean.
    """

    name: ClassVar[str] = "pow3r"
    bounded: ClassVar[bool] = True

    mix: float = number_field(0.5, high=1.0)
    rate: float = number_field(0.5, high=1.0)
    low: float = number_field(0.5, above=True)
    high: float = number_field(2.0, low="low")
    eps: float = number_field(1e-6, above=True)
    memory_of: MemoryOf = choice_field("query", MemoryOf)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then return the mean of each rollout's categories."""
        categories = _find_categories(batch)
        alpha_NK = self._learn(batch, categories)
        weights_NK = mask_weights(batch, batch.weights_NK) * alpha_NK
        unit_MK = zero_missing(batch.unit_MK, batch)
        has_score_MK = (~batch.missing_MK).astype(float)
        total_M = np.zeros(len(unit_MK))  # of the categories' means
        count_M = np.zeros(len(unit_MK))  # of the categories that a rollout has a score in
        for in_category in categories:
            category_weights = expand_rows(weights_NK * in_category, batch)
            weight_M = sum_products(has_score_MK, category_weights)
            score_M = sum_products(unit_MK, category_weights)
            has_score_M = weight_M > 0.0
            total_M += np.divide(score_M, weight_M, out=np.zeros_like(weight_M), where=has_score_M)
            count_M += has_score_M
        mean_M = np.divide(total_M, count_M, out=np.full(len(total_M), np.nan), where=count_M > 0.0)
        value_M = fill_unknown(mean_M, batch, 0.5)
        flat_weights_NK = _flatten_weights(weights_NK, categories)
        return Fused(batch, self.name, value_M, flat_weights_NK, {"alpha": alpha_NK})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch, and return the weight of each criterion in R. The weights of a group add up to 1."""
        categories = _find_categories(batch)
        weights_NK = mask_weights(batch, batch.weights_NK) * self._learn(batch, categories)
        return _flatten_weights(weights_NK, categories)

    def _learn(self, batch: ScoreBatch, categories: list[np.ndarray]) -> np.ndarray:
        """Return α (N, K) after this batch."""
        target_NK = self._compute_target(batch, categories)
        is_scored_NK = batch.scored_NK
        if self.memory_of == "query":
            labels = [str(label) for label in batch.labels]
            return self._move_alpha(labels, batch.names, target_NK, is_scored_NK)
        count_K = is_scored_NK.sum(0)
        mean_K = np.where(is_scored_NK, target_NK, 0.0).sum(0) / np.maximum(count_K, 1)
        alpha_1K = self._move_alpha([_ALL_QUERIES], batch.names, mean_K[None], count_K[None] > 0)
        return np.broadcast_to(alpha_1K, is_scored_NK.shape)

    def _compute_target(self, batch: ScoreBatch, categories: list[np.ndarray]) -> np.ndarray:
        """Return α̂ (N, K)."""
        _, std_NK = centre(batch.unit_MK, batch, 0)
        spread_NK = np.sqrt(std_NK * std_NK + self.eps)
        weights_NK = np.broadcast_to(mask_weights(batch, batch.weights_NK), spread_NK.shape)
        relative_NK = np.ones_like(spread_NK)  # g/ḡ
        for in_category in categories:
            category_weights_NK = weights_NK * in_category
            total_N1 = category_weights_NK.sum(1, keepdims=True)
            weighted_spread_N1 = (category_weights_NK * spread_NK).sum(1, keepdims=True)
            mean_N1 = weighted_spread_N1 / np.where(total_N1 > 0.0, total_N1, 1.0)
            has_mean_N1 = mean_N1 > 0.0
            ratio_NK = spread_NK / np.where(has_mean_N1, mean_N1, 1.0)
            relative_NK = np.where(in_category & has_mean_N1, ratio_NK, relative_NK)
        return np.clip((1.0 - self.mix) + self.mix * relative_NK, self.low, self.high)

    def _move_alpha(
        self,
        labels: list[str],
        names: tuple[str, ...],
        target_NK: np.ndarray,
        is_scored_NK: np.ndarray,
    ) -> np.ndarray:
        """Move α from its remembered value (1 at first) towards the target, where a group asks for the criterion."""
        alpha_NK = np.ones(is_scored_NK.shape)
        memory = self.memory.setdefault(self.memory_of, {})
        for g, label in enumerate(labels):
            remembered = memory.setdefault(label, {})
            for k in np.flatnonzero(is_scored_NK[g]).tolist():
                old = remembered.get(names[k], 1.0)
                remembered[names[k]] = (1.0 - self.rate) * old + self.rate * float(target_NK[g, k])
                alpha_NK[g, k] = remembered[names[k]]
        return alpha_NK


def _find_categories(batch: ScoreBatch) -> list[np.ndarray]:
    """Return an array for each category: is the criterion in it? (N, K), or (1, K) if all groups share a rubric."""
    words = batch.collect_per_group(lambda c: c.category or "")
    return [words == word for word in dict.fromkeys(words.ravel().tolist())]


def _flatten_weights(weights_NK: np.ndarray, categories: list[np.ndarray]) -> np.ndarray:
    """Turn weights within categories into weights over all criteria; each category counts the same."""
    flat_NK = np.zeros_like(weights_NK)
    count_N1 = np.zeros((len(weights_NK), 1))
    for in_category in categories:
        inside_NK = weights_NK * in_category
        total_N1 = inside_NK.sum(1, keepdims=True)
        flat_NK += np.divide(
            inside_NK, total_N1, out=np.zeros_like(inside_NK), where=total_N1 > 0.0
        )
        count_N1 += total_N1 > 0.0
    return flat_NK / np.maximum(count_N1, 1.0)
