"""RLVR²: rank the rollouts of a group on every criterion, add up the utilities, stretch the sums to [0, 1].

    >>> import rubrank
    >>> rubrank.fuse([[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]).round(2)          # three rollouts, three criteria
    array([0.29, 1.  , 0.  ])

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

The steps of a call:

    1  utilities u of every criterion in every group, from the order of the scores      models/shapes.py
    2  the influence of attributes is taken out of the utilities                        models/attribute_fit.py
    3  `span` gives every criterion the same span, if asked for                         _measure_span
    4  weighted sum, stretched to [0, 1] within the group                               models/shapes.py: combine
    5  with scale="utility", advantages instead of rewards                              see below

`fuse` and `utilities` take and return plain arrays. `Composed` is RLVR² with the weights or scores of another rule.
A rollout with a missing score is not compared on that criterion; it never counts as a loss. If all rollouts of a group
are tied, each gets 0.5.

scale="utility" gives advantages, for trainers that do not scale rewards themselves:

    A_i = (u_i − ū) / (s_ref · √Σ w²)      over the criteria of the group's rubric

    u_i = Σ_k w_k u_ki, the weighted sum of step 4; ū its mean in the group; s_ref: the sd of a strict order

    eight rollouts, two criteria of weight 1 that order them alike      A = 2 u_i1 / (0.89 · √2): up to ±2.1
    the same two, one upside down                                       A = 0: nothing is amplified

Dividing by the standard deviation of the group, as trainers do, would give a noisy tie-break the same gradient as a
unanimous verdict.

Letters at the end of a name are the axes of an array: M rollouts of the batch, N groups, K criteria, n rollouts of
one group, B groups that are fitted together. (1, K) instead of (N, K): all groups share one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from rubrank._choices import (
    LARGEST_PRIOR,
    SMALLEST_PRIOR,
    Outcomes,
    Pool,
    Scale,
    Span,
    Width,
    Wins,
)
from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.fusion.control.adjustment import Adjustment, expand_adjustments
from rubrank.fusion.control.estimate import BatchEstimate, RunningEstimate
from rubrank.fusion.control.linear import check_pool, control_linearly, estimate_linearly
from rubrank.fusion.models.graded import STRICT_ORDER, RecentScores, grade_wins, measure_widths
from rubrank.fusion.models.model import UtilityModel, find_model
from rubrank.fusion.result import Fit, Fused
from rubrank.fusion.rule import (
    CheckedRule,
    Rescoring,
    Reweighting,
    Stateful,
    check_state,
    choice_field,
    number_field,
)
from rubrank.fusion.rules.group_math import subtract_mean
from rubrank.scores.arrays import make_safe_weights, refuse_infinite
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import Cells, count_wins, find_soft_cells

MOST_ROLLOUTS = 4096
"""Most rollouts in one group: a fit looks at all pairs."""
# Weights must be above 0. This share of a group's largest weight is too small to change a reward.
_LEAST_WEIGHT_SHARE = 1e-9


@refuses_wrong_kinds
@dataclass(frozen=True)
class RLVR2(CheckedRule):
    """Ordinal fusion with its options.

    adjust: how much of the attributes' influence is taken out: "remove" or `attenuate(lam)`, one for all attributes or
        one for each; None takes nothing out.
    pool: the groups over which an attribute's influence is estimated: the whole "batch", the "run" (all calls of this
        rule so far, for trainers), or each "group" by itself, as in the paper. In a single group the priors largely
        decide how much is taken out.
    adjust_criteria: the criteria whose verdicts are adjusted, or "all"; None: those that no program decides.
    prior, attribute_prior: precision of the normal priors on utilities (α) and coefficients (β).
    span: "model" takes utilities as fitted; "unit" gives every criterion the same span, best minus worst = 1; "sd" the
        same standard deviation, so that criteria of equal weight have equal influence.
    wins: "ordinal", as in the paper: only who is better counts; "graded": a win counts more the larger the difference
        of the scores, up to the share `tau` of the criterion's width, and no model is fitted (models/graded.py).
    width: with graded wins, the width of the "domain", or of the recent scores of the "run".
    scale: "ranking" stretches rewards to [0, 1] in each group; "utility" gives advantages that are small where the
        criteria disagree, for trainers that do not scale rewards themselves.
    model: "bradley-terry", "thurstone", "borda", or one of your own.
    seed: seed of the draws that `attenuate` makes.
    outcomes: "hard" compares scores. "soft" compares the distributions of verdicts, where judges gave some, so that a
        verdict counts less the less sure the judge is; see `rubrank.scores.outcomes`.
    retest: criterion → how much its scores vary from one judging to the next, for soft outcomes of criteria without
        distributions; `rubrank judge audit` measures it.
    """

    name: ClassVar[str] = "rlvr2"

    adjust: Adjustment | Sequence[Adjustment] | None = None
    pool: Pool = choice_field("batch", Pool)
    adjust_criteria: Sequence[str | int] | Literal["all"] | None = None
    prior: float = number_field(1.0, low=SMALLEST_PRIOR, high=LARGEST_PRIOR)
    attribute_prior: float = number_field(1.0, low=SMALLEST_PRIOR, high=LARGEST_PRIOR)
    span: Span = choice_field("model", Span)
    model: str | UtilityModel = "bradley-terry"
    seed: int = 0
    scale: Scale = choice_field("ranking", Scale)
    wins: Wins = choice_field("ordinal", Wins)
    tau: float = number_field(0.5, high=1.0, above=True)
    width: Width = choice_field("domain", Width)
    outcomes: Outcomes = choice_field("hard", Outcomes)
    retest: Mapping[str, float] = field(default_factory=dict, hash=False)
    running: RunningEstimate = field(default_factory=RunningEstimate, repr=False, compare=False)
    """What pool="run" has learnt. Copies of the rule with other options share it."""
    recent: RecentScores = field(default_factory=RecentScores, repr=False, compare=False)
    """What width="run" has seen. Copies of the rule with other options share it."""
    batch_estimate: BatchEstimate | None = field(default=None, repr=False, compare=False)
    """An estimate that was made over a whole batch, for fusing parts of the batch one by one."""

    def __post_init__(self) -> None:
        """Check the options: each one by itself, then those that exclude each other."""
        super().__post_init__()
        if not isinstance(self.seed, int | np.integer) or isinstance(self.seed, bool):
            raise InvalidInput(self.name, "seed", "a whole number", repr(self.seed), "Use 0.")
        is_mapping = isinstance(self.retest, Mapping)
        if not is_mapping or not all(0.0 <= spread < np.inf for spread in self.retest.values()):
            allowed = "finite numbers ≥ 0 by criterion"
            raise InvalidInput(self.name, "retest", allowed, repr(self.retest))
        if self.wins == "graded":
            for name in ("model", "prior", "outcomes"):
                # The class attributes of a dataclass are the defaults.
                if getattr(self, name) != getattr(RLVR2, name):
                    allowed = "left out with wins='graded', which fits no model"
                    raise InvalidInput(self.name, name, allowed, repr(getattr(self, name)))
            if self.adjust is not None:
                check_pool(self)
        criteria = self.adjust_criteria
        is_list = isinstance(criteria, Sequence) and not isinstance(criteria, str)
        if criteria is not None and criteria != "all" and not is_list:
            raise InvalidInput(
                self.name,
                "adjust_criteria",
                allowed="None, 'all', or a list of names",
                got=repr(criteria),
            )
        if self.adjust is not None:
            is_single = isinstance(self.adjust, str) or not isinstance(self.adjust, Sequence)
            adjustments: Any = [self.adjust] if is_single else self.adjust
            expand_adjustments(self.name, adjustments, len(adjustments))  # only for its checks

    @property
    def remembers(self) -> bool:
        """Does it learn from batch to batch?"""
        return self.pool == "run" or (self.wins == "graded" and self.width == "run")

    @property
    def bounded(self) -> bool:
        """Are the values from 0 to 1? They are, unless they are advantages."""
        return self.scale == "ranking"

    @property
    def local(self) -> bool:
        """Does a group's reward depend on that group alone?"""
        if self.wins == "graded" and self.width == "run":
            return False
        return self.pool == "group" or self.adjust is None or self.batch_estimate is not None

    def state(self) -> dict[str, Any]:
        """Return what was learnt about attributes, and with width="run" the recent scores, as JSON data."""
        state = {"rule": self.name, "version": 1, "running": self.running.state()}
        if self.recent.scores:
            state["recent"] = self.recent.state()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = check_state(self, 1, state)
        self.running.restore(saved["running"])
        self.recent.restore(saved.get("recent", {}))

    def __call__(self, batch: ScoreBatch, weights_NK: np.ndarray | None = None) -> Fused:
        """Return the reward of each rollout, and every number that led to it: the steps listed above.

        weights_NK: used instead of the weights of the batch.
        """
        # Imported here, as in other methods: these modules load numba, which `import rubrank` should not.
        from rubrank.fusion.models.shapes import combine

        used_weights_NK = batch.weights_NK if weights_NK is None else weights_NK
        u_MK, soft = self._fit_utilities(batch)
        values_MK = u_MK
        control = None
        has_attributes = batch.attributes_MD is not None and batch.attributes_MD.shape[1] > 0
        is_controlled = self.adjust is not None and has_attributes
        if is_controlled and self.wins == "ordinal":
            from rubrank.fusion.models.attribute_fit import control_attributes

            control = control_attributes(self, batch, u_MK, soft)
            values_MK = control.values_MK
        scale_NK = None
        if self.span != "model":
            span_NK = _measure_span(values_MK, batch, self.span)
            values_MK = values_MK / span_NK[batch.group_of_row]
            scale_NK = 1.0 / span_NK
        # Graded wins are differences of scores, so their control acts on the scale that `span` gives them.
        if is_controlled and self.wins == "graded":
            control = control_linearly(self, batch, values_MK)
            values_MK = control.values_MK
        fused_M = np.empty(len(values_MK))
        ranking_M = np.empty(len(values_MK))
        # Fills in fused_M and ranking_M.
        combine(values_MK, batch.starts, make_safe_weights(used_weights_NK), fused_M, ranking_M)
        fit = Fit(u_MK, values_MK, fused_M, ranking_M, scale_NK, soft)
        if self.scale == "ranking":
            return Fused(batch, self.name, ranking_M, weights_NK, fit=fit, control=control)

        # Advantages: divided by the sd that a strict order on all criteria alike would have; see the formula above.
        model: Any = STRICT_ORDER if self.wins == "graded" else find_model(self.model)
        references = [
            measure_reference_spread(model, float(self.prior), int(n)) for n in batch.sizes
        ]
        sd_N = np.array([reference.sd for reference in references])
        span_N = np.array([reference.span for reference in references])
        rubric_weights_NK = np.where(batch.scored_NK, used_weights_NK, 0.0)
        norm_N = np.sqrt((rubric_weights_NK * rubric_weights_NK).sum(1))
        divisor_N = np.where(norm_N > 0.0, sd_N * norm_N, 1.0)
        advantage_M = subtract_mean(fused_M / divisor_N[batch.group_of_row], batch)
        # The gate needs best minus worst of the strict order, on the scale of the advantages.
        details = {"reference_span": span_N / sd_N}
        return Fused(batch, self.name, advantage_M, weights_NK, details, fit=fit, control=control)

    def _fit_utilities(self, batch: ScoreBatch) -> tuple[np.ndarray, Cells]:
        """Fit the utilities (M, K) without attributes.

        Also returns the outcomes of uncertain verdicts, which were fitted instead of the order of the scores; there are
        none with outcomes="hard".
        """
        from rubrank.fusion.models.shapes import find_shape_table

        if batch.largest_group_size > MOST_ROLLOUTS:
            raise InvalidInput(
                self.name,
                "groups",
                allowed=f"of at most {MOST_ROLLOUTS:,} rollouts: all pairs enter a fit",
                got=f"one of {batch.largest_group_size:,}",
                remedy="Did you forget groups=?",
            )
        soft = {} if self.outcomes == "hard" else find_soft_cells(batch, self.retest)
        scores_MK = batch.oriented_MK
        if np.isinf(scores_MK).any():
            refuse_infinite(self.name, batch.restore_rollout_shape(batch.scores_MK))
        if self.wins == "graded":
            width_NK = measure_widths(batch, self.width, self.recent)
            return grade_wins(batch, self.tau, width_NK), soft
        model = find_model(self.model)
        prior = float(self.prior)
        u_MK = find_shape_table(model, prior).find_utilities(
            scores_MK, batch.starts, batch.margins_NK
        )
        # Where responses were compared instead of scored, or verdicts are uncertain, groups of one size are fitted side
        # by side.
        observed = {**batch.outcomes, **soft}
        cells_of_size: dict[int, list[tuple[int, int]]] = {}
        for cell, outcomes in observed.items():
            cells_of_size.setdefault(len(outcomes), []).append(cell)
        for n, cells in cells_of_size.items():
            wins = np.stack([count_wins(observed[cell]) for cell in cells])  # (B, n, n)
            u_Bn = model.fit(wins, np.full((len(cells), n), prior))
            for (g, k), u_n in zip(cells, u_Bn, strict=True):
                u_MK[batch.starts[g] : batch.starts[g + 1], k] = u_n
        return u_MK, soft

    def estimate(self, batch: ScoreBatch) -> BatchEstimate:
        """Estimate the influence of attributes over a batch, for fusing parts of it one by one.

        With pool="run" the rule learns from the batch.
        """
        u_MK, soft = self._fit_utilities(batch)
        if self.wins == "ordinal":
            from rubrank.fusion.models.attribute_fit import estimate_attributes

            return estimate_attributes(self, batch, u_MK, soft)
        # As in `__call__`: the control of graded wins acts on the scale that `span` gives them.
        if self.span != "model":
            span_NK = _measure_span(u_MK, batch, self.span)
            u_MK = u_MK / span_NK[batch.group_of_row]
        return estimate_linearly(self, batch, u_MK)

    def fit_jointly(self, batch: ScoreBatch) -> np.ndarray:
        """Return the utilities (M, K) that were fitted together with the coefficients of attributes."""
        u_MK, soft = self._fit_utilities(batch)
        if self.wins == "graded":
            return u_MK  # there is no fit
        from rubrank.fusion.models.attribute_fit import fit_jointly

        return fit_jointly(self, batch, u_MK, soft)


def _measure_span(values_MK: np.ndarray, batch: ScoreBatch, span: Span) -> np.ndarray:
    """Measure how far apart a criterion puts the rollouts of a group: (N, K); 1 if it ties all of them.

    span: "unit" for best minus worst, "sd" for the standard deviation.
    """
    if not batch.N:
        return np.ones((0, batch.K))
    starts = batch.starts[:-1]
    width_NK = np.maximum.reduceat(values_MK, starts) - np.minimum.reduceat(values_MK, starts)
    is_tied_NK = ~(width_NK > 0.0)
    if span == "sd":
        sizes_N1 = batch.sizes[:, None]
        mean_NK = np.add.reduceat(values_MK, starts) / sizes_N1
        square_MK = (values_MK - mean_NK[batch.group_of_row]) ** 2
        width_NK = np.sqrt(np.add.reduceat(square_MK, starts) / sizes_N1)
    return np.where(is_tied_NK, 1.0, width_NK)


class ReferenceSpread(NamedTuple):
    """Standard deviation, and best minus worst, of the utilities of a group without ties."""

    sd: float
    span: float


@lru_cache(maxsize=512)
def measure_reference_spread(model: Any, prior: float, size: int) -> ReferenceSpread:
    """Return the spread of a strict order of this many rollouts; (1, 1) for a single rollout."""
    if size < 2:
        return ReferenceSpread(1.0, 1.0)
    wins = np.tril(np.ones((size, size)), -1)  # each rollout beats all those before it
    # One group: (n, n) wins give n utilities, while `_fit_utilities` fits several groups at once, (B, n, n).
    u_n = np.asarray(model.fit(wins, np.full(size, prior)))
    return ReferenceSpread(float(u_n.std()), float(np.ptp(u_n)))


# -------------------------------------------------------------------------------------- other rules' weights and scores


@dataclass(frozen=True)
class Composed:
    """RLVR² with the weights or the scores of another rule: "rlvr2*focal", "rlvr2*gear".

    Focal gives nearly all weight to the criteria that the better rollouts do not meet yet, so these decide the ranking.
    GEAR gives less credit where prerequisites are not met; rollouts are ranked by the credit.
    grade C: a reconstruction
    """

    ordinal: RLVR2
    weighing: Reweighting | Rescoring

    def __post_init__(self) -> None:
        if not isinstance(self.ordinal, RLVR2):
            raise InvalidInput(
                "find_rule",
                "rule before '*'",
                allowed="'rlvr2'",
                got=repr(self.ordinal.name),
                remedy="Such as 'rlvr2*focal'.",
            )
        if not isinstance(self.weighing, Reweighting | Rescoring):
            reweighting = "'focal', 'sa-mrpo', 'dvao', 'amrp', 'pow3r'"
            raise InvalidInput(
                "find_rule",
                "rule after '*'",
                allowed=f"one that re-weights criteria, such as {reweighting}, or changes scores: 'gear'",
                got=repr(self.weighing.name),
            )

    @property
    def bounded(self) -> bool:
        """Are the values from 0 to 1? As those of RLVR²."""
        return self.ordinal.bounded

    @property
    def scale(self) -> str:
        """The scale of the rewards, as of RLVR²."""
        return self.ordinal.scale

    @property
    def name(self) -> str:
        """Such as "rlvr2*focal"."""
        return f"{self.ordinal.name}*{self.weighing.name}"

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the reward of each rollout."""
        weights_NK = None
        if isinstance(self.weighing, Reweighting):
            weights_NK = make_positive(self.weighing.weights(batch), batch)
        if not isinstance(self.weighing, Rescoring):
            return replace(self.ordinal(batch, weights_NK), rule=self.name)
        rescored = batch.replace_ranked_scores(self.weighing.scores(batch))
        fused = self.ordinal(rescored, weights_NK)
        details = {**fused.details, "ranked_scores": rescored.scores_MK}
        return replace(fused, batch=batch, rule=self.name, details=details)

    def state(self) -> dict[str, Any]:
        """Return the states of the other rule and of RLVR², as JSON data; None for one that does not learn."""
        weighing = self.weighing.state() if isinstance(self.weighing, Stateful) else None
        ordinal = self.ordinal.state() if self.ordinal.remembers else None
        return {"rule": self.name, "version": 1, "weighing": weighing, "ordinal": ordinal}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = check_state(self, 1, state)
        if isinstance(self.weighing, Stateful):
            self.weighing.restore(saved["weighing"])
        if self.ordinal.remembers and saved.get("ordinal") is not None:
            self.ordinal.restore(saved["ordinal"])


def make_positive(weights_NK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Replace weights of 0 by tiny ones, and the weights of a group whose weights are all 0 by those of the batch."""
    largest_N1 = weights_NK.max(1, keepdims=True)
    if not np.isfinite(largest_N1).all():
        raise InvalidInput("rlvr2", "weights", allowed="finite", got="an infinite or missing one")
    positive_NK = np.maximum(weights_NK, _LEAST_WEIGHT_SHARE * largest_N1)
    return np.where(largest_N1 > 0.0, positive_NK, batch.weights_NK)
