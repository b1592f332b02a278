"""The one place where attributes enter a fusion: batch and options → values that are weighted and added up, and γ.

    pool="batch"    coefficients over all groups of the batch, shrunk, and utilities fitted again without them
    pool="run"      the same, over the steps of a run (`running.py`)
    pool="group"    exactly as in the paper: coefficients of every group by itself, v = u + keep·γ·z̃

`models/controlled.py` has the mathematics. In a group by itself the priors decide what is length and what is quality:
the third form is kept for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from rubrank.fusion.adjust import Adjustment, Naming, rules_for, taken_shares
from rubrank.fusion.estimate import InfluenceEstimate
from rubrank.fusion.model import UtilityModel, find_model
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.observed import marked

if TYPE_CHECKING:
    from rubrank.fusion.models.adjusted import Observed
    from rubrank.fusion.rlvr2 import RLVR2


@dataclass(frozen=True, eq=False)
class Known:
    """An estimate over more groups than are fused at a time, such as those of all partitions of a table."""

    scale_D: np.ndarray
    """What contrasts are multiplied by."""
    criteria: tuple[Hashable, ...]
    estimate: InfluenceEstimate

    def about(self, criteria: Sequence[Hashable]) -> InfluenceEstimate:
        """What it says about these criteria."""
        at = [self.criteria.index(name) for name in criteria]
        parts = {part.name: getattr(self.estimate, part.name)[at] for part in fields(self.estimate)}
        return InfluenceEstimate(**parts)


@dataclass(frozen=True, eq=False)
class Controlled:
    """What was found out about attributes, and what became of the utilities; N groups, K criteria, D attributes."""

    pool: str
    joint: Callable[[], np.ndarray]
    """What gives `fitted_MK`."""
    values_MK: np.ndarray
    """What reaches the reward."""
    gamma_NKD: np.ndarray
    """γ̂."""
    se_NKD: np.ndarray
    """Its standard error; NaN where there is none, as in a group by itself."""
    shrunk_NKD: np.ndarray
    """γ̃."""
    n_NK: np.ndarray
    """Groups that the estimate comes from; 0 where a criterion is not controlled."""
    taken_NKD: np.ndarray
    """δ: what is taken out."""
    contrasts_MD: np.ndarray
    """z̃: how much more of an attribute a rollout has than its group, as a mean over all of it."""

    @cached_property
    def fitted_MK(self) -> np.ndarray:
        """Utilities of the joint fit, beside γ̂; those without attributes where nothing was fitted.

        Nothing but `utilities` asks for them, so the pooled forms do not keep them: a large batch would not fit in
        memory. They are fitted again.
        """
        return self.joint()


def adjusted(rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray) -> Controlled:
    """From the utilities without attributes, which are left as they are, to those that reach the reward."""
    observed, wanted_NK = observed_in(rule, batch, u_MK)
    D = len(observed.attributes_DM)
    rules, naming = rules_for(rule.name, rule.adjust, D), Naming(batch.labels, *names_of(batch), rule.seed)
    if rule.pool == "group":
        return _letter(rule, observed, rules, wanted_NK, naming, u_MK)
    return _pooled(rule, observed, rules, wanted_NK, naming, u_MK)


def names_of(batch: ScoreBatch) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Criteria and attributes, by number where they have no names."""
    assert batch.attributes_MD is not None
    criteria: Sequence[Hashable] = batch.names if batch.named else range(batch.K)
    return criteria, batch.attribute_names or range(batch.attributes_MD.shape[1])


def observed_in(rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray) -> tuple[Observed, np.ndarray]:
    """What a fit sees of a batch; and the groups about which a criterion that is controlled says anything (N, K)."""
    from rubrank.fusion.models.adjusted import Observed

    assert batch.attributes_MD is not None
    observed = Observed(
        batch.oriented_MK,
        batch.starts,
        batch.margins_NK,
        np.ascontiguousarray(batch.attributes_MD.T),
        float(rule.prior),
        float(rule.attribute_prior),
        batch.outcomes,
        pooled=rule.pool != "group",
    )
    return observed, observed.informative(u_MK) & adjusted_criteria(rule, batch)


def adjusted_criteria(rule: RLVR2, batch: ScoreBatch) -> np.ndarray:
    """(N, K) or (1, K): the criteria that are controlled: those the rule names, else those that no program decided.

    A program's verdict cannot be swayed. Plain arrays do not say who decided: all of theirs are controlled.
    """
    if rule.adjust_criteria is None:
        return np.asarray(batch.read(lambda criterion: criterion.verifier is None), bool)
    if rule.adjust_criteria == "all":
        return np.ones((1, batch.K), bool)
    known = batch.names if batch.named else tuple(map(str, range(batch.K)))
    named = {str(name) for name in rule.adjust_criteria}
    return np.array([[name in named for name in known]], bool)


def _pooled(
    rule: RLVR2,
    observed: Observed,
    rules: tuple[Adjustment, ...],
    wanted_NK: np.ndarray,
    naming: Naming,
    u_MK: np.ndarray,
) -> Controlled:
    """One estimate for all groups, and a refit with what is taken out of each."""
    from rubrank.fusion.models.controlled import estimate, refit

    model = find_model(rule.model)
    if rule.known is not None:
        found = rule.known.about(naming.criteria)
        observed.scaled(rule.known.scale_D.copy())  # from Ray's store it is read-only: another type to compile for
    else:
        found = estimate(model, observed, wanted_NK, u_MK)
    if rule.pool == "run":
        found = rule.running.learn(found, naming.criteria, naming.attributes, observed.attribute_prior)
    taken_NKD = _taken(found, rules, naming, wanted_NK)
    values_MK, shape = refit(model, observed, taken_NKD, u_MK), taken_NKD.shape
    return Controlled(
        rule.pool,
        partial(_joint, model, observed, wanted_NK, u_MK, None if rule.known is None else found.gamma_KD),
        values_MK,
        gamma_NKD=np.broadcast_to(found.gamma_KD, shape),
        se_NKD=np.broadcast_to(found.se_KD, shape),
        shrunk_NKD=np.broadcast_to(found.shrunk_KD, shape),
        n_NK=np.broadcast_to(found.n_K, wanted_NK.shape),
        taken_NKD=taken_NKD,
        contrasts_MD=observed.mean_contrasts(),
    )


def _joint(
    model: UtilityModel, observed: Observed, wanted_NK: np.ndarray, u_MK: np.ndarray, gamma_KD: np.ndarray | None
) -> np.ndarray:
    """gamma_KD: the coefficients, where more groups than these gave them: then utilities are fitted beside them."""
    from rubrank.fusion.models.controlled import estimate, refit

    if gamma_KD is not None:
        return refit(model, observed, np.where(wanted_NK[:, :, None], gamma_KD, 0.0), u_MK)
    fitted_MK = np.empty_like(u_MK)
    estimate(model, observed, wanted_NK, u_MK, fitted_MK)
    return fitted_MK


def _taken(
    found: InfluenceEstimate, rules: tuple[Adjustment, ...], naming: Naming, wanted_NK: np.ndarray
) -> np.ndarray:
    """δ: γ̃ as a whole, or a share of it where it is positive; 0 where a criterion says nothing about a group."""
    shares_NKD, two_sided_D = taken_shares(rules, wanted_NK.shape, naming)
    allowed_KD = np.where(two_sided_D, found.shrunk_KD, np.maximum(found.shrunk_KD, 0.0))
    return np.where(wanted_NK[:, :, None], shares_NKD * allowed_KD, 0.0)


def _letter(
    rule: RLVR2,
    observed: Observed,
    rules: tuple[Adjustment, ...],
    wanted_NK: np.ndarray,
    naming: Naming,
    u_MK: np.ndarray,
) -> Controlled:
    """v = u + keep·γ·z̃, with u and γ of each group's joint fit; nothing is shrunk."""
    from rubrank.fusion.models.adjusted import fit_adjusted
    from rubrank.fusion.models.fit import add_kept

    fitted_MK = u_MK.copy()
    gamma_NKD = fit_adjusted(find_model(rule.model), observed, wanted_NK, fitted_MK)
    shares_NKD, two_sided_D = taken_shares(rules, wanted_NK.shape, naming)
    taken_NKD = np.where(two_sided_D | (gamma_NKD > 0.0), shares_NKD * gamma_NKD, 0.0)
    mean_MD, values_MK = observed.mean_contrasts(), fitted_MK.copy()
    if (gamma_NKD != taken_NKD).any():
        known_MK = marked(observed.scores_MK, observed.outcomes, observed.starts)
        add_kept(gamma_NKD - taken_NKD, mean_MD, observed.starts, known_MK, values_MK)
    return Controlled(
        rule.pool,
        partial(np.asarray, fitted_MK),
        values_MK,
        gamma_NKD=gamma_NKD,
        se_NKD=np.full(gamma_NKD.shape, np.nan),
        shrunk_NKD=gamma_NKD,
        n_NK=wanted_NK.astype(int),
        taken_NKD=taken_NKD,
        contrasts_MD=mean_MD,
    )
