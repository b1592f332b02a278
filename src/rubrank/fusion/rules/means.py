"""Rules that combine the scores of one rollout: means of several kinds, the worst score, thresholds, priorities.

Every class documents its rule in the same way: what it does, an example with numbers, the formula, how well the formula
is documented elsewhere ("grade"; docs/rules.md explains the letters), and what happens to missing scores.

In the formulas, s is a score scaled from 0 to 1 by its domain, w the weight of its criterion, and R the value of the
rollout.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K criteria, C gate criteria.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import LearningRule, LocalRule, number_field
from rubrank.fusion.rules.group_math import (
    average_scores,
    compute_z_scores,
    expand_rows,
    fill_unknown,
    mask_weights,
    normalise_weights,
    rank_densely,
    scale_ranks,
    sum_products,
    zero_missing,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.spread import SPREAD

_DEFAULT_REFERENCE = 0.5  # of LogSigmoid, for criteria without a reference of their own
_LARGEST_EXACT_INTEGER = 2.0**52  # integers beyond it are not all doubles


@dataclass(frozen=True)
class WeightedMean(LocalRule):
    """Weighted mean ("cardinal"): add up what was scored.

        scores 1, 0.5 with weights 2, 1      R = (2 · 1 + 1 · 0.5) / 3 = 0.83

        R = Σ w s / Σ w          grade A

    Missing: the criterion is left out for that rollout, and the weights of the others are divided by their own sum. A
    rollout without any score gets the mean of its group; 0.5 where no rollout has one.
    """

    name: ClassVar[str] = "weighted-mean"
    bounded: ClassVar[bool] = True

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted mean of each rollout's scores."""
        return Fused(batch, self.name, average_scores(batch.unit_MK, batch.weights_NK, batch))


@dataclass(frozen=True)
class RarExplicit(LocalRule):
    """RaR explicit: a weighted mean whose weights come from category words such as "Essential".

        Essential met, Important not, Pitfall avoided      R = (1.0 + 0 + 0.9) / (1.0 + 0.7 + 0.9) = 0.73

        R = Σ w c / Σ w,  w = 1.0 Essential, 0.7 Important, 0.3 Optional, 0.9 Pitfall          grade B

    The words are the criteria's categories, in any case; a criterion of another category, or none, has its own weight.
    A pitfall counts as met where it was avoided.
    Missing: left out, as in the weighted mean.
    """

    name: ClassVar[str] = "rar-explicit"
    bounded: ClassVar[bool] = True

    essential: float = number_field(1.0, above=True)
    important: float = number_field(0.7, above=True)
    optional: float = number_field(0.3, above=True)
    pitfall: float = number_field(0.9, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the mean of each rollout's scores, with the weights of their categories."""
        weight_of = {
            "essential": self.essential,
            "important": self.important,
            "optional": self.optional,
            "pitfall": self.pitfall,
        }
        category_weight_NK = batch.collect_per_group(  # NaN: not one of the four categories
            lambda criterion: weight_of.get((criterion.category or "").strip().lower(), np.nan)
        )
        weights_NK = np.where(np.isnan(category_weight_NK), batch.weights_NK, category_weight_NK)
        value_M = average_scores(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK)


@dataclass(frozen=True)
class RuleFusion(LocalRule):
    """Rule-Fusion: a weighted mean that is 0 if a hard rule is broken.

        hard rule "NotEmpty", weights 2, 1
        NotEmpty 1, scores 1, 0.5      R = (2 · 1 + 0.5)/3 = 0.83
        NotEmpty 0, scores 1, 1        R = 0

        R = Π_{h ∈ H} 1[s_h ≥ τ] · Σ_{k ∉ H} w s / Σ w,      τ = the domain's maximum          grade C: a reconstruction

    No public text defines it beyond "a weighted sum gated by hard rules".
    `hard` says what H is: "gates" (the rubric's criteria of the layer "global_quality"), "verified" (the ranked
    criteria that a program decides with yes or no), or names. If all criteria are hard rules, R is 1 or 0.
    `threshold` is τ on the scale from 0 to 1.
    Missing: a hard rule without a score does not stop a rollout; other criteria are left out as in the weighted mean. A
    rollout without any soft score gets its group's mean, whatever its hard rules say; only a group that asks for no
    soft criterion is decided by hard rules alone.
    """

    name: ClassVar[str] = "rule-fusion"
    bounded: ClassVar[bool] = True

    hard: str | Sequence[str] = "gates"
    threshold: float = number_field(1.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.hard, str) and self.hard not in ("gates", "verified"):
            raise InvalidInput(
                self.name,
                "hard",
                allowed='"gates", "verified", or a list of names',
                got=repr(self.hard),
                remedy="Put a name in [ ].",
            )

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted mean of each rollout's soft scores; 0 for a rollout that breaks a hard rule."""
        if not isinstance(self.hard, str):
            names = {*batch.names, *(criterion.name for criterion in batch.gate_criteria)}
            for name in self.hard:
                if name not in names:
                    raise UnknownName.of(self.name, "hard", name, names)
        hard_K = np.array([self._is_hard(c, ranked=True) for c in batch.criteria], bool)
        # Hard rules look at the scores themselves, not at scores from which attributes were taken out.
        is_broken_M = (batch.scored_unit_MK[:, hard_K] < self.threshold).any(1)
        if batch.gates_MC is not None:
            hard_C = np.array([self._is_hard(c, ranked=False) for c in batch.gate_criteria], bool)
            is_broken_M |= (batch.clean_MC[:, hard_C] < self.threshold).any(1)
        mean_M = average_scores(batch.unit_MK, np.where(hard_K, 0.0, batch.weights_NK), batch)
        if hard_K.any():
            # In a group with hard rules only, a rollout that breaks none of them gets 1.
            has_hard_N = batch.scored_NK[:, hard_K].any(1)
            has_soft_N = batch.scored_NK[:, ~hard_K].any(1)
            has_only_hard_N = np.asarray(has_hard_N & ~has_soft_N)
            mean_M = np.where(has_only_hard_N[batch.group_of_row], 1.0, mean_M)
        value_M = np.where(is_broken_M, 0.0, mean_M)
        return Fused(batch, self.name, value_M, details={"broken": is_broken_M})

    def _is_hard(self, criterion: CriterionData, ranked: bool) -> bool:
        """Tell whether it is a hard rule. ranked: it is one of the ranked criteria, not of the gate criteria."""
        if self.hard == "gates":
            return not ranked and criterion.layer == "global_quality"
        if self.hard == "verified":
            return ranked and criterion.verifier is not None and criterion.domain.kind == "binary"
        return criterion.name in self.hard


@dataclass(frozen=True)
class ZScore(LocalRule):
    """Weighted sum of z-scores ("normalised cardinal"): every criterion on the scale of its group.

        scores 1, 0, 0, 1 of a group      mean 0.5, std 0.5 → z = 1, −1, −1, 1; times its weight

        R = Σ w (s − mean)/std within the group, ddof 0; std 0 → 0          grade A

    `floor`: a std of at most this much (of a domain's width) counts as 0, so that a judge's noise of 1e-6 has no
    effect.
    Missing: not part of mean and std, and counts as the group's mean: z = 0.
    """

    name: ClassVar[str] = "z-score"
    bounded: ClassVar[bool] = False

    floor: float = number_field(1e-5)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted sum of each rollout's z-scores."""
        z_MK = compute_z_scores(batch.unit_MK, batch, ddof=0, eps=0.0, floor=self.floor)
        return Fused(batch, self.name, sum_products(z_MK, expand_rows(batch.weights_NK, batch)))


@dataclass(frozen=True)
class Geometric(LocalRule):
    """Geometric mean (Nash): a score near 0 drags everything down.

        scores 1 and 0.25, equal weights      R = √(1 · 0.25) = 0.5, where the weighted mean is 0.63

        R = exp( Σ w ln(s + ε) / Σ w )          grade A; ε = 1e-3 is ours: how far a score of 0 reaches (1 + ε at most)

    Missing: left out, as in the weighted mean.
    """

    name: ClassVar[str] = "geometric"
    bounded: ClassVar[bool] = True

    eps: float = number_field(1e-3, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the geometric mean of each rollout's scores."""
        logs_MK = np.log(np.maximum(batch.unit_MK, 0.0) + self.eps)
        value_M = np.exp(average_scores(logs_MK, batch.weights_NK, batch))
        if not batch.complete:
            # A rollout without any score gets the mean of its group's values; `average_scores` used the mean of logs.
            value_M = fill_unknown(np.where(batch.missing_MK.all(1), np.nan, value_M), batch, 0.5)
        return Fused(batch, self.name, value_M)


@dataclass(frozen=True)
class MeanVariance(LocalRule):
    """Mean minus variance: even strength is worth more than a mix of highs and lows.

        scores 1, 0 (equal weights)      mean 0.5, variance 0.25      R = 0.5 − 1 · 0.25 = 0.25

        R = mean − λ var over the criteria, both weighted          grade A; λ = 1 is ours

    Missing: left out of both. A rollout without any score gets its group's mean.
    """

    name: ClassVar[str] = "mean-variance"
    bounded: ClassVar[bool] = False

    lam: float = number_field(1.0)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the mean minus λ times the variance of each rollout's scores."""
        mean_M = average_scores(batch.unit_MK, batch.weights_NK, batch)
        deviation_MK = batch.unit_MK - mean_M[:, None]
        variance_M = average_scores(deviation_MK**2, batch.weights_NK, batch, empty=0.0)
        return Fused(batch, self.name, mean_M - self.lam * variance_M)


@dataclass(frozen=True)
class WorstCase(LocalRule):
    """Worst case: a rollout is as good as its worst criterion.

        scores 1, 0.8, 0.3      R = 0.3

        R = min_k s          grade A

    Weights do not count. Missing: left out; a rollout without any score gets its group's mean; 0.5 where none has one.
    """

    name: ClassVar[str] = "worst-case"
    bounded: ClassVar[bool] = True

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the worst score of each rollout."""
        worst_M = np.fmin.reduce(batch.unit_MK, axis=1)
        return Fused(batch, self.name, fill_unknown(worst_M, batch, 0.5))


@dataclass(frozen=True)
class AllOrNothing(LocalRule):
    """All or nothing (RIFL): one failed criterion is a failed rollout.

        scores 1, 1, 1 → 1        scores 1, 1, 0.9 → 0

        R = 1 if every criterion reaches `threshold` of its domain (1 = its maximum), else 0          grade A

    Missing: left out; a rollout without any score gets the mean of its group, 0.5 where no rollout has one.
    """

    name: ClassVar[str] = "all-or-nothing"
    bounded: ClassVar[bool] = True
    controllable: ClassVar[bool] = False

    threshold: float = number_field(1.0, high=1.0)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return 1 for a rollout that meets every criterion, 0 for the others."""
        # A missing score does not fail: NaN is not below anything.
        value_M = np.where((batch.unit_MK < self.threshold).any(1), 0.0, 1.0)
        if not batch.complete:
            value_M[batch.missing_MK.all(1)] = np.nan
        return Fused(batch, self.name, fill_unknown(value_M, batch, 0.5))


@dataclass(frozen=True)
class Chebyshev(LearningRule):
    """Chebyshev: minus the largest weighted distance from the best scores so far.

        best so far 1 and 0.6, τ = 0.05, weights 1; scores 0.9 and 0.2      −max(1.05 − 0.9, 0.65 − 0.2) = −0.45

        R = −max_k w_k |z*_k − s_k|,  z*_k = best score so far + τ          grade A; τ = 0.05 is ours

    **Stateful**: the best score of each criterion, by name, over all batches, this one included. A criterion that a
    batch does not have keeps its best.
    Missing: left out; a rollout without any score gets its group's mean.
    """

    name: ClassVar[str] = "chebyshev"
    bounded: ClassVar[bool] = False

    tau: float = number_field(0.05)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn the best scores of the batch; then return minus the largest distance of each rollout from the best."""
        best = self.memory  # criterion → its best score
        unit_MK = batch.unit_MK
        highest_K = np.fmax.reduce(unit_MK, axis=0) if len(unit_MK) else np.full(batch.K, np.nan)
        for name, highest in zip(batch.names, highest_K.tolist(), strict=True):
            if not np.isnan(highest):  # some rollout has a score
                best[name] = max(highest, best.get(name, highest))
        utopia_K = np.array([best.get(name, 0.0) for name in batch.names]) + self.tau
        distance_MK = expand_rows(batch.weights_NK, batch) * np.abs(utopia_K - unit_MK)
        value_M = fill_unknown(-np.fmax.reduce(distance_MK, axis=1), batch, 0.0)
        return Fused(batch, self.name, value_M, details={"utopia": utopia_K})


@dataclass(frozen=True)
class LogSigmoid(LocalRule):
    """Log-sigmoid sum (soft AND): every criterion must clear its reference.

        one criterion, reference 0.5, T = 0.1      score 0.5 → ln ½ = −0.69;  0.9 → −0.02;  0.1 → −4.02

        R = Σ w log σ((s − ref_k)/T)          grade A; ref = 0.5 and T = 0.1 are ours

    `reference` is one number on the scale from 0 to 1, or one for each criterion by name (0.5 for the others).
    Missing: left out, and the sum over the others is scaled up to the whole weight. A rollout without any score gets
    its group's mean.
    """

    name: ClassVar[str] = "log-sigmoid"
    bounded: ClassVar[bool] = False

    reference: float | Mapping[str, float] = _DEFAULT_REFERENCE
    temperature: float = number_field(0.1, above=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        references: Any = [self.reference]
        if isinstance(self.reference, Mapping):
            references = self.reference.values()
        for reference in references:
            if not isinstance(reference, int | float) or not np.isfinite(reference):
                raise InvalidInput(
                    self.name,
                    "reference",
                    allowed="a number, or one for each criterion by name",
                    got=repr(self.reference),
                    remedy="Use 0.5.",
                )

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted sum of each rollout's log-sigmoids."""
        reference: Any = self.reference
        if isinstance(self.reference, Mapping):
            for name in self.reference:
                if name not in batch.names:
                    raise UnknownName.of(self.name, "reference", name, batch.names)
            reference = np.array(
                [self.reference.get(name, _DEFAULT_REFERENCE) for name in batch.names]
            )
        distance_MK = zero_missing((batch.unit_MK - reference) / self.temperature, batch)
        logs_MK = -np.logaddexp(0.0, -distance_MK)  # log σ(x) = −log(1 + e^−x), without overflow
        # The mean times the whole weight of the group's criteria: missing scores do not make the sum smaller.
        whole_weight_M = expand_rows(mask_weights(batch, batch.weights_NK).sum(1), batch)
        value_M = whole_weight_M * average_scores(logs_MK, batch.weights_NK, batch, empty=0.0)
        return Fused(batch, self.name, value_M)


@dataclass(frozen=True)
class RVPO(LocalRule):
    """RVPO: a soft minimum over criteria, so that strength in one does not pay for weakness in another.

        z = +1 and −1, κ = 1      −ln((e^{−1} + e^{1})/2) = −0.43: below their mean 0, above their minimum −1

        R = −(1/κ) ln( Σ_k b_k e^{−κ z_k} ) on GDPO's z-scores          grade B

    b are the weights divided by their sum: equal weights give the mean over criteria. κ = 0 is the mean, κ = ∞ the
    minimum; the default κ = 1 is ours. `eps` and `floor` as in GDPO.
    Missing: counts as the group's mean, z = 0.
    """

    name: ClassVar[str] = "rvpo"
    bounded: ClassVar[bool] = False

    kappa: float = number_field(1.0)
    eps: float = number_field(1e-4, above=True)
    floor: float = number_field(1e-5)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the soft minimum of each rollout's z-scores."""
        z_MK = compute_z_scores(batch.unit_MK, batch, ddof=1, eps=self.eps, floor=self.floor)
        b_MK = expand_rows(normalise_weights(batch, batch.weights_NK), batch)
        if self.kappa == 0.0:
            return Fused(batch, self.name, sum_products(z_MK, b_MK))
        lowest_M = np.where(b_MK > 0.0, z_MK, np.inf).min(1, initial=np.inf)
        lowest_M = np.where(np.isinf(lowest_M), 0.0, lowest_M)  # a group without any score
        if np.isinf(self.kappa):
            return Fused(batch, self.name, lowest_M)
        # The formula with the lowest z taken out of the logarithm:
        #
        #     R = z_min − (1/κ) ln(1 + Σ_k b_k (e^{−κ (z_k − z_min)} − 1))
        #     z = +1, −1 and b = ½, ½, κ = 1:      −1 − ln(1 + ½ (e^{−2} − 1) + ½ (e^0 − 1)) = −1 − ln 0.57 = −0.43
        #
        # No exponent is above 0, so nothing overflows: with κ = 1000, e^{−κ z} of z = −1 would. And expm1(x) = e^x − 1
        # and log1p(x) = ln(1 + x) stay exact for tiny x, so R tends to the mean for κ → 0.
        above_lowest_MK = np.maximum(z_MK - lowest_M[:, None], 0.0)
        sum_M = sum_products(np.expm1(-self.kappa * above_lowest_MK), b_MK)
        return Fused(batch, self.name, lowest_M - np.log1p(sum_M) / self.kappa)


@dataclass(frozen=True)
class Lexicographic(LocalRule):
    """Lexicographic: a tier decides only between rollouts that tie on all tiers before it.

        tier 1: 1, 1, 0, 1      tier 2: 0.2, 0.9, 1, 0.9
        order: second and fourth, then first, then third      R = 0.5, 1, 0, 1

    Rollouts are compared by the weighted mean of tier 1 (the smallest number), ties by that of tier 2, and so on; R is
    the dense rank as a share from 0 (worst) to 1 (best), 0.5 for all if all rollouts are tied. Ours.

    Criteria without a tier come last. `tie`: means that differ by at most this much are equal.
    Missing: left out of its tier's mean; a rollout without any score in a tier has the group's mean there.
    """

    name: ClassVar[str] = "lexicographic"
    bounded: ClassVar[bool] = True

    tie: float = number_field(SPREAD)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the rank of each rollout in its group, as a share from 0 to 1."""
        tiers_NK = batch.collect_per_group(lambda c: np.inf if c.tier is None else float(c.tier))
        # The ranks of a rollout in the tiers are the digits of one number, its key (smaller is better): the first
        # tier is the leading digit, and later ones break ties. The base is larger than any rank. Four rollouts, base 5,
        # with the ranks 1, 1, 2, 1 in tier 1 and 3, 2, 1, 2 in tier 2:
        #
        #     keys after tier 1      1, 1, 2, 1              all below key_limit = 5
        #     keys after tier 2      8, 7, 11, 7             1·5 + 3, 1·5 + 2, 2·5 + 1, 1·5 + 2: all below 25
        #     ranks of the keys      2, 1, 3, 1
        base = batch.sizes.max(initial=0) + 1.0
        key_M = np.zeros(len(batch.unit_MK))
        key_limit = 1.0  # all keys are below it
        for tier in np.unique(tiers_NK):
            weights_NK = mask_weights(batch, batch.weights_NK) * (tiers_NK == tier)
            mean_M = average_scores(batch.unit_MK, weights_NK, batch)
            tier_rank_M = rank_densely(mean_M, batch, self.tie)
            if key_limit * base > _LARGEST_EXACT_INTEGER:
                # Replace the keys by their ranks, which are small numbers in the same order.
                key_M = rank_densely(-key_M, batch, 0.0).astype(float)
                key_limit = base
            key_M = key_M * base + tier_rank_M
            key_limit *= base
        ranks_M = rank_densely(-key_M, batch, 0.0)
        return Fused(batch, self.name, scale_ranks(ranks_M, batch, 0.5), details={"rank": ranks_M})
