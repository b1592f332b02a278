"""`FusedGroup`, one group of a result: every number between the scores of its rollouts and their rewards.

    >>> from rubrank import ScoreBatch, find_rule
    >>> batch = ScoreBatch.of_arrays([[1, 3], [0, 5], [1, 5]], criteria=["Facts", "Style"], weights={"Facts": 3})
    >>> group = find_rule("rlvr2")(batch)[0]         # group 0: three rollouts, two criteria
    >>> group.utilities.round(2)                     # fitted to the order of the scores on each criterion
    array([[ 0.29, -0.59],
           [-0.59,  0.29],
           [ 0.29,  0.29]])
    >>> group.fused.round(2)                         # 3 × Facts + 1 × Style
    array([ 0.29, -1.47,  1.17])
    >>> group.ranking.round(2)                       # stretched to [0, 1]
    array([0.67, 0.  , 1.  ])
    >>> group.reward.round(2)                        # the same: "rlvr2" has no gate, "rlvr2+" has one
    array([0.67, 0.  , 1.  ])

The numbers have the same names in `Fused`, for all groups at once, and in records; `result.py` defines them.

"Not there" has one form for each kind of thing:

    None             the rule or the batch has no such thing: utilities under GDPO, a gate without "+", no attributes
    NaN              one number of an array is unknown: a score that was not given, an error that cannot be estimated
    empty            there are none of them: no criterion was compared, none is only watched

Letters at the end of a name are the axes of an array: G rollouts of the group, K criteria of its rubric that rank
them, D attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput, counted
from rubrank.fusion.explain import explain_rollout
from rubrank.fusion.rules.group_math import measure_agreement, measure_errors
from rubrank.scores.outcomes import find_compared, outcomes
from rubrank.tables.html import Bar, Marked, Shaded, make_html_table, shade_column, write_cell

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate, GateResult


@dataclass(frozen=True, eq=False)
class FusedGroup:
    """One group: its criteria, its rollouts from scores to rewards, its attributes, and its gate."""

    label: Hashable

    # The criteria, each (K,).
    criteria: tuple[str, ...]
    weights: np.ndarray
    """As the rule used them."""
    margins: np.ndarray
    """Differences of scores up to the margin are ties."""
    higher_is_better: np.ndarray

    # From scores to rewards.
    scores: np.ndarray
    """(G, K), as given; NaN = not scored."""
    ranking: np.ndarray
    """(G,): before the gate; R̃ of RLVR², the value of another rule."""
    reward: np.ndarray
    """(G,): after the gate."""
    no_signal: bool
    """All rewards are equal."""

    # What RLVR² computed in between; None under a rule without utilities.
    utilities: np.ndarray | None = None
    """(G, K), as fitted, without attributes."""
    values: np.ndarray | None = None
    """(G, K): the utilities, adjusted for attributes and multiplied by `scale`."""
    scale: np.ndarray | None = None
    """(K,): the factor of each criterion that the option `span` asked for; 1 by default."""
    fused: np.ndarray | None = None
    """(G,): the weighted sum of the values."""

    # What was fitted instead of the order of the scores, for some criteria.
    compared: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes, for criteria on which responses were compared instead of scored."""
    soft: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes of uncertain verdicts."""
    ranked_scores: np.ndarray | None = None
    """(G, K): what was ranked instead of the scores, if another rule changed them (rlvr2*gear)."""

    # The attributes of the rollouts.
    attribute_names: tuple[str, ...] = ()
    attributes: np.ndarray | None = None
    """(G, D)"""

    # Attribute control (`AttributeControl`); all of them are None if nothing was controlled.
    pool: str | None = None
    """What γ̂ was estimated over: "batch", "run" or "group"."""
    mean_contrasts: np.ndarray | None = None
    """(G, D): how much more of each attribute a rollout has than its group."""
    gamma: np.ndarray | None = None
    """(K, D): γ̂, how strongly each attribute is associated with winning on each criterion."""
    se: np.ndarray | None = None
    """(K, D): standard error of γ̂; NaN if it cannot be estimated."""
    shrunk: np.ndarray | None = None
    """(K, D): γ̃, the part of γ̂ that chance does not explain."""
    n: np.ndarray | None = None
    """(K,): number of groups behind the estimate; 0 for a criterion that is not controlled."""
    taken: np.ndarray | None = None
    """(K, D): δ, the coefficients that were taken out in this group."""

    # The gate; both are None under a rule without one.
    gate: Gate | None = None
    """Its settings: criteria, threshold and lift."""
    gated: GateResult | None = None
    """What it decided for each rollout: who passed, by which factor rewards were multiplied."""

    watched: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Criterion of the layer `watch` → (G,) scores, which no rule sees. Batches do not have them, tables do."""

    def __repr__(self) -> str:
        best = "no signal" if self.no_signal else f"rollout {int(np.argmax(self.reward))} is best"
        size = f"{counted(len(self.reward), 'rollout')}, {counted(len(self.criteria), 'criterion')}"
        return f"FusedGroup({self.label!r}, {size}, {best})"

    def _repr_html_(self) -> str:
        """For notebooks: rollouts from best to worst, every score in the colour of its utility."""
        order = np.argsort(-self.reward, kind="stable")
        headings = ["rollout", "reward"]
        columns: list[list[Any]] = [
            [str(i) for i in order],
            [Bar(f"{reward:.3g}", reward) for reward in self.reward[order]],
        ]
        if self.gated is not None:
            headings.append("gate")
            decisions: list[Any] = []
            for passed, factor in zip(
                self.gated.passed[order], self.gated.factor[order], strict=True
            ):
                if not passed:
                    decisions.append(Marked("stopped", "bad"))
                elif factor < 1.0:
                    decisions.append(Marked(f"× {factor:.2g}", "warn"))
                else:
                    decisions.append("passed")
            columns.append(decisions)
        for k, name in enumerate(self.criteria):
            headings.append(f"{name} ×{self.weights[k]:g}")
            cells: list[Any] = [write_cell(float(score)) for score in self.scores[order, k]]
            if self.utilities is not None:
                shades = shade_column(self.utilities[order, k].tolist())
                for row, shade in enumerate(shades):
                    if isinstance(shade, Shaded):
                        cells[row] = replace(shade, text=cells[row])
            columns.append(cells)
        return make_html_table(repr(self), headings, zip(*columns, strict=True))

    @cached_property
    def outcomes(self) -> np.ndarray:
        """(G, G, K): 1 = row beats column, 0.5 = tie, 0 = loses, NaN = not compared."""
        scores = self.scores if self.ranked_scores is None else self.ranked_scores
        outcomes_GGK = outcomes(np.where(self.higher_is_better, scores, -scores), self.margins)
        for k, observed_GG in {**self.compared, **self.soft}.items():
            outcomes_GGK[:, :, k] = observed_GG
        return outcomes_GGK

    @cached_property
    def known(self) -> np.ndarray:
        """(G, K): was this rollout scored, or compared with another, on this criterion?"""
        is_known_GK = ~np.isnan(self.scores)
        for k, observed_GG in self.compared.items():
            is_known_GK[:, k] = find_compared(observed_GG)
        return is_known_GK

    @property
    def missing(self) -> np.ndarray:
        """(K,): for each criterion, the number of rollouts that were neither scored nor compared."""
        return np.asarray((~self.known).sum(0))

    @cached_property
    def constant(self) -> np.ndarray:
        """(K,): does the criterion tell no rollouts apart?"""
        if self.utilities is not None:
            return np.asarray(~self.utilities.any(0))  # utilities of tied rollouts are exactly 0
        # Under a rule without utilities, a criterion is constant if no comparison has a winner.
        was_compared = ~np.isnan(self.outcomes)
        has_winner_K = (self.outcomes != 0.5).any((0, 1), where=was_compared)
        return np.asarray(~has_winner_K)

    @cached_property
    def parts(self) -> np.ndarray | None:
        """(G, K): weight × value, the terms of the weighted sum; None without utilities, as for the next three."""
        return None if self.values is None else self.weights * self.values

    @property
    def effective_weights(self) -> np.ndarray | None:
        """(K,): each criterion's share of the variance of the weighted sum; 0 for all if the rollouts are tied.

        They add up to 1. One is negative if the criterion ranks the rollouts against the sum of all.
        """
        if self.parts is None:
            return None
        parts_GK = self.parts - self.parts.mean(0)
        total_G = parts_GK.sum(1)
        # The covariance of a part with the total, over the variance of the total. Both are G times too large.
        variance = total_G @ total_G
        if variance > 0.0 and self.ranking.max() > self.ranking.min():
            return np.asarray(parts_GK.T @ total_G / variance)
        return np.zeros(len(self.criteria))

    @cached_property
    def agreement(self) -> float | None:
        """How much the criteria agree, from 0 to 1; NaN if fewer than two tell rollouts apart."""
        if self.parts is None:
            return None
        return float(measure_agreement(self.parts, np.array([0, len(self.parts)]))[0])

    @cached_property
    def error(self) -> np.ndarray | None:
        """(G,): standard error of the weighted sum, with criteria as replicates; NaN as for the agreement."""
        if self.parts is None:
            return None
        return measure_errors(self.parts, np.array([0, len(self.parts)]))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings for the reader: "no signal", "missing: NAME (2)", "constant: NAME"."""
        flags = ["no signal"] if self.no_signal else []
        is_missing_GK = ~self.known
        if self.gated is not None:
            # Judges are not asked about rollouts that a gate has stopped.
            is_missing_GK &= self.gated.passed[:, None]
        for k, name in enumerate(self.criteria):
            if not self.known[:, k].any():
                continue  # no rollout was scored: a criterion of another query
            missing = int(is_missing_GK[:, k].sum())
            if missing:
                flags.append(f"missing: {name} ({missing})")
            if self.constant[k]:
                flags.append(f"constant: {name}")
        return tuple(flags)

    def explain(self, rollout: int) -> str:
        """Say in words why this rollout got its reward; raises InvalidInput if there is no such rollout."""
        if not 0 <= rollout < len(self.reward):
            raise InvalidInput(
                "explain",
                "rollout",
                allowed=f"a number from 0 to {len(self.reward) - 1}",
                got=str(rollout),
            )
        return explain_rollout(self, rollout)
