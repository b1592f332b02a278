"""`Fused`, the result of every rule: the rewards of a batch, and every number that led to them.

    fused = find_rule("rlvr2+")(table.batch())
    fused.reward                  what the trainer gets, in the order and shape in which the scores were given
    fused.no_signal               (groups,): are all rewards of a group equal?
    fused["query-17"]             one group, a `FusedGroup`: utilities, coefficients, gate, flags
    fused.explain(3)              why a rollout got its reward, in words
    fused.record(0)               the data of a group's record

Explanations, metrics and records read the numbers that the rule computed; they compute nothing again.

What the numbers of a rollout are called, in the order in which they arise:

    score        on one criterion, as given
    utility u    on one criterion: what RLVR² fits to the order of the scores in the group. Other rules have none
    value        on one criterion: the utility, adjusted for attributes and scaled
    fused        the weighted sum Σ w·value over the criteria
    ranking R̃    `fused` stretched to [0, 1] in each group; under another rule, the same as value_M
    value_M      the number that the rule returns: for RLVR² the ranking (an advantage with scale="utility"), for
                 another rule whatever it makes of the scores
    reward       what the trainer gets: value_M, after the gate if the rule has one

Only RLVR² has utilities, and therefore a `fit`. Rules such as Borda add up other numbers on each criterion; they are
split into `compute_values`, which makes these numbers, and `fuse_values`, which adds them up (rules/ranks.py).

Attribute control takes the influence of attributes, such as length, out of the utilities: γ̂ is the estimated influence
on a criterion, γ̃ the part of it that chance does not explain, δ what is taken out (docs/method.md, section 4).

Array names end in the letters of their axes: M rollouts of the batch, N groups, K ranked criteria, C gate criteria,
D attributes; G rollouts of one group. (1, K) instead of (N, K) means that all groups share one row. `starts` cuts the
rows of a batch into groups: group g is rows starts[g] up to, but not including, starts[g + 1].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput, counted
from rubrank.fusion.explain import explain_rollout, make_record
from rubrank.fusion.rules.group_math import fill_unknown
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import Cells, find_compared, outcomes
from rubrank.scores.spread import find_no_signal
from rubrank.tables.html import (
    Bar,
    Framed,
    Marked,
    Shaded,
    make_html_table,
    shade_column,
    write_cell,
)

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate, GateResult


@dataclass(frozen=True, eq=False)
class Fit:
    """What RLVR² computed between scores and rewards; rows are in the order of the batch."""

    utilities_MK: np.ndarray
    """As fitted, without attributes."""
    values_MK: np.ndarray
    """The terms of the weighted sum: the utilities, adjusted for attributes and scaled by `span`."""
    fused_M: np.ndarray
    """The weighted sum."""
    ranking_M: np.ndarray
    """R̃: the weighted sum stretched to [0, 1]."""
    scale_NK: np.ndarray | None = None
    """The factor of each group and criterion that `span` asked for; None: 1 everywhere."""
    soft: Cells = field(default_factory=dict)
    """(group, criterion) → outcomes of uncertain verdicts, which were fitted instead of the order of the scores."""


@dataclass(frozen=True, eq=False)
class AttributeControl:
    """The influence of attributes and what was taken out of the utilities; N groups, K criteria, D attributes."""

    pool: str
    """What γ̂ was estimated over: "batch", "run" or "group"."""
    values_MK: np.ndarray
    """The values that reach the reward: adjusted utilities, or adjusted scores under a rule without utilities."""
    gamma_NKD: np.ndarray
    """γ̂: how strongly each attribute is associated with winning on each criterion."""
    se_NKD: np.ndarray
    """Standard error of γ̂; NaN if it cannot be estimated, as with pool="group"."""
    shrunk_NKD: np.ndarray
    """γ̃: the part of γ̂ that chance does not explain."""
    n_NK: np.ndarray
    """Groups behind the estimate; 0 for a criterion that is not controlled."""
    taken_NKD: np.ndarray
    """δ: what is taken out."""
    contrasts_MD: np.ndarray
    """z̃: how much more of an attribute a rollout has than its group, on average."""


@dataclass(frozen=True, eq=False)
class FusedGroup:
    """One group: everything between its scores and its rewards, in the order of the list at the top of the file.

    G rollouts, the K criteria of the group's rubric that rank them, D attributes. Records hold most of them under
    the same names (`rubrank.records`), which therefore stay as they are.
    """

    label: Hashable

    # The criteria, each (K,).
    criteria: tuple[str, ...]
    weights: np.ndarray
    margins: np.ndarray
    higher_is_better: np.ndarray

    # From scores to rewards.
    scores: np.ndarray
    """(G, K), as given; NaN = not scored."""
    utilities: np.ndarray
    """(G, K), as fitted; NaN under a rule without utilities."""
    values: np.ndarray
    """(G, K): the utilities, adjusted for attributes and scaled by `scale`; NaN under a rule without utilities."""
    fused: np.ndarray
    """(G,): the weighted sum of the values; NaN under a rule without utilities."""
    ranking: np.ndarray
    """(G,): before the gate; R̃ of RLVR², the value of another rule."""
    reward: np.ndarray
    """(G,): after the gate."""
    no_signal: bool
    """All rewards are equal."""
    scale: np.ndarray | float = 1.0
    """(K,): the factor of each criterion that the option `span` of RLVR² asked for."""

    # What was fitted instead of the order of the scores, for some criteria.
    compared: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes, for criteria on which responses were compared instead of scored."""
    soft: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes of uncertain verdicts, which were fitted instead of the order of the scores."""
    ranked_scores: np.ndarray | None = None
    """(G, K): what was ranked instead of the scores, if another rule changed them (rlvr2*gear)."""

    # The attributes of the rollouts.
    attribute_names: tuple[str, ...] = ()
    attributes: np.ndarray | None = None
    """(G, D)"""

    # Attribute control: the fields of `AttributeControl` for this group; None if nothing was controlled.
    mean_contrasts: np.ndarray | None = None
    """(G, D): how much more of each attribute a rollout has than its group."""
    pool: str | None = None
    """What γ̂ was estimated over: "batch", "run" or "group"."""
    gamma: np.ndarray | None = None
    """(K, D): γ̂, how strongly each attribute is associated with winning on each criterion."""
    se: np.ndarray | None = None
    """(K, D): standard error of γ̂; NaN if it cannot be estimated."""
    shrunk: np.ndarray | None = None
    """(K, D): γ̃, the part of γ̂ that chance does not explain."""
    n: np.ndarray | None = None
    """(K,): number of groups behind the estimate γ̂; 0 for a criterion that is not controlled."""
    taken: np.ndarray | None = None
    """(K, D): δ, the coefficients that were taken out in this group."""

    # The gate.
    gate: Gate | None = None
    """The settings of the gate: its criteria, threshold and lift; None under a rule without a gate."""
    gated: GateResult | None = None
    """What the gate decided for each rollout of the group: who passed, by which factor rewards were multiplied."""

    watched: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Criterion of the layer `watch` → (G,) scores, which no rule sees. Batches do not have them, tables do."""

    def __repr__(self) -> str:
        best = "no signal" if self.no_signal else f"rollout {int(np.argmax(self.reward))} is best"
        size = f"{counted(len(self.reward), 'rollout')}, {counted(len(self.criteria), 'criterion')}"
        return f"FusedGroup({self.label!r}, {size}, {best})"

    def _repr_html_(self) -> str:
        """For notebooks: rollouts from best to worst, every score in the colour of its utility."""
        order = np.argsort(-self.reward, kind="stable")
        columns: list[list[Any]] = [
            [str(i) for i in order],
            [Bar(f"{x:.3g}", x) for x in self.reward[order]],
        ]
        headings = ["rollout", "reward"]
        if self.gated is not None:
            headings.append("gate")
            columns.append([self._describe_gate(int(i)) for i in order])
        for k, name in enumerate(self.criteria):
            headings.append(f"{name} ×{self.weights[k]:g}")
            scores = [write_cell(float(score)) for score in self.scores[order, k]]
            shaded = shade_column(self.utilities[order, k].tolist())
            cells: list[Any] = []
            for cell, score in zip(shaded, scores, strict=True):
                cells.append(replace(cell, text=score) if isinstance(cell, Shaded) else score)
            columns.append(cells)
        return make_html_table(repr(self), headings, zip(*columns, strict=True))

    def _describe_gate(self, i: int) -> str | Marked:
        assert self.gated is not None
        if not self.gated.passed[i]:
            return Marked("stopped", "bad")
        factor = float(self.gated.factor[i])
        return Marked(f"× {factor:.2g}", "warn") if factor < 1.0 else "passed"

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
        if np.isnan(self.utilities).any():
            # A rule without utilities: a criterion is constant if no comparison has a winner.
            was_compared = ~np.isnan(self.outcomes)
            has_winner_K = (self.outcomes != 0.5).any((0, 1), where=was_compared)
            return np.asarray(~has_winner_K)
        return np.asarray(~self.utilities.any(0))  # utilities of tied rollouts are exactly 0

    @property
    def effective_weights(self) -> np.ndarray:
        """(K,): each criterion's share of the variance of the weighted sum. They add up to 1, and may be negative.

        All are 0 if the rollouts are tied, and NaN under a rule without utilities.
        """
        parts_GK = self.weights * self.values
        parts_GK = parts_GK - parts_GK.mean(0)
        total_G = parts_GK.sum(1)
        # The covariance of a part with the total, over the variance of the total. Both are G times too large.
        variance = total_G @ total_G
        if variance > 0.0 and self.ranking.max() > self.ranking.min():
            return np.asarray(parts_GK.T @ total_G / variance)
        return np.full(len(self.criteria), np.nan if np.isnan(variance) else 0.0)

    @cached_property
    def agreement(self) -> float:
        """How much the criteria agree, from 0 to 1; NaN if fewer than two tell rollouts apart."""
        if np.isnan(self.values).any():  # a rule without utilities
            return np.nan
        return float(measure_agreement(self.weights * self.values, self._starts)[0])

    @cached_property
    def error(self) -> np.ndarray | None:
        """(G,): standard error of the weighted sum, with criteria as replicates; None without utilities."""
        if np.isnan(self.values).any():
            return None
        return measure_errors(self.weights * self.values, self._starts)

    @property
    def _starts(self) -> np.ndarray:
        """`starts` of a batch that holds this group alone, for `measure_errors` and `measure_agreement`."""
        return np.array([0, len(self.reward)])

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


@dataclass(frozen=True, eq=False)
class Fused(Framed):
    """The result of a rule for a batch."""

    batch: ScoreBatch
    rule: str
    """The name of the rule, such as "gdpo+"."""
    value_M: np.ndarray
    """The rule's own number for each rollout, rows as in the batch."""
    weights_NK: np.ndarray | None = None
    """The weights, if the rule sets them; (1, K) if the same for all groups."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Other arrays or numbers that the rule reports, by name: "pre_norm" of GDPO, "pace" of Focal …"""
    fit: Fit | None = None
    """What RLVR² computed on the way; None for a rule without utilities."""
    gate: Gate | None = None
    """The settings of the gate; None for a rule without a gate."""
    gated: GateResult | None = None
    """What the gate decided for each rollout, rows as in the batch."""
    control: AttributeControl | None = None
    """The influence of attributes and what was taken out, rows and groups as in the batch; None if nothing was."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for values that cannot be rewards, and give unscored rollouts their group's mean.

        Users write rules too, so every result is checked.
        """
        if not isinstance(self.batch, ScoreBatch):
            raise InvalidInput(
                "Fused",
                "batch",
                allowed="the ScoreBatch that was fused",
                got=brief(self.batch),
            )
        owner = f"rule {self.rule!r}"
        batch = self.batch
        M = len(batch.scores_MK)
        try:
            value_M: np.ndarray | None = np.asarray(self.value_M, dtype=np.float64)
        except (TypeError, ValueError):
            value_M = None  # not numbers
        if value_M is None or value_M.shape != (M,):
            raise InvalidInput(
                owner,
                "the value",
                allowed=f"a number for each of the {counted(M, 'rollout')}",
                got=brief(self.value_M),
                remedy="See `rubrank help extending`.",
            )
        if not np.isfinite(value_M).all():
            # NaN is right for a rollout without scores.
            is_unscored_M = np.isnan(value_M) & batch.missing_MK.all(1)
            wrong = np.flatnonzero(~np.isfinite(value_M) & ~is_unscored_M)
            if len(wrong):
                raise InvalidInput(
                    owner,
                    "the value",
                    allowed="a finite number for each rollout that has scores",
                    got=f"{value_M[wrong[0]]} for rollout {wrong[0]}",
                )
            # A group without any score has no mean: its rollouts get the middle of the range from 0 to 1.
            value_M = fill_unknown(value_M, batch, empty=0.5)
        object.__setattr__(self, "value_M", value_M)  # the dataclass is frozen
        weights = self.weights_NK
        if weights is not None and np.shape(weights) not in ((1, batch.K), (batch.N, batch.K)):
            raise InvalidInput(
                owner,
                "weights_NK",
                allowed=f"of the shape (1, {batch.K}) or ({batch.N}, {batch.K})",
                got=f"shape {np.shape(weights)}",
            )

    def __repr__(self) -> str:
        groups_without_signal = int(np.count_nonzero(self.no_signal))
        return (
            f"Fused({self.rule}: {counted(len(self.value_M), 'rollout')} in {counted(self.batch.N, 'group')}, "
            f"{counted(self.batch.K, 'criterion')}, {groups_without_signal:,} without signal)"
        )

    def to_polars(self) -> Any:
        """Return a polars frame: group, rollout, reward, ranking (if gated), and `utility.NAME` (RLVR² only)."""
        import polars as pl

        batch = self.batch
        number_M = np.arange(len(self.value_M)) - batch.starts[:-1][batch.group_of_row]
        labels = [batch.labels[g] for g in batch.restore_rollout_shape(batch.group_of_row).ravel()]
        columns: dict[str, Any] = {
            "group": pl.Series(labels, strict=False),
            "rollout": batch.restore_rollout_shape(number_M).ravel(),
            "reward": self.reward.ravel(),
        }
        if self.gated is not None:
            columns["ranking"] = self.ranking.ravel()
        if self.utilities is not None:
            utilities_MK = np.asarray(self.utilities).reshape(len(self.value_M), -1)
            for k, name in enumerate(self.criteria):
                columns[f"utility.{name}"] = utilities_MK[:, k]
        return pl.DataFrame(columns)

    def _colour_column(self, name: str, values: Sequence[Any]) -> list[Any]:
        if name.startswith("utility."):
            return shade_column(values)
        if name in ("reward", "ranking"):
            return [Bar(f"{value:.4g}", value) for value in values]
        return [write_cell(value) for value in values]

    # ------------------------------------------------------------------------------------------ in the caller's shape

    @property
    def reward_M(self) -> np.ndarray:
        """(M,): the reward, in the order of the batch."""
        return self.value_M if self.gated is None else self.gated.reward

    @property
    def reward(self) -> np.ndarray:
        """The reward that the trainer gets, in the caller's shape: the value, after the gate if there is one."""
        return self.batch.restore_rollout_shape(self.reward_M)

    @property
    def ranking_M(self) -> np.ndarray:
        """(M,): the value before the gate, in the order of the batch: R̃ of RLVR², or the value of another rule."""
        return self.value_M if self.fit is None else self.fit.ranking_M

    @property
    def ranking(self) -> np.ndarray:
        """The value before the gate, in the caller's shape: R̃ of RLVR², or the value of another rule."""
        return self.batch.restore_rollout_shape(self.ranking_M)

    @property
    def fused(self) -> np.ndarray | None:
        """The weighted sum of the values; None for a rule without utilities."""
        if self.fit is None:
            return None
        return self.batch.restore_rollout_shape(self.fit.fused_M)

    @property
    def utilities(self) -> np.ndarray | None:
        """The fitted utilities, with criteria as the last axis; None for a rule without utilities."""
        if self.fit is None:
            return None
        return self.batch.restore_rollout_shape(self.fit.utilities_MK)

    @property
    def gamma(self) -> np.ndarray | None:
        """γ̂ (groups, K, D), or (K, D) for a single group; None without attributes."""
        return self._read_control("gamma_NKD")

    @property
    def se(self) -> np.ndarray | None:
        """The standard error of γ̂; the shape of gamma."""
        return self._read_control("se_NKD")

    @property
    def shrunk(self) -> np.ndarray | None:
        """γ̃: the part of γ̂ that chance does not explain; the shape of gamma."""
        return self._read_control("shrunk_NKD")

    @property
    def n(self) -> np.ndarray | None:
        """Groups behind each criterion's estimate, (groups, K) or (K,)."""
        return self._read_control("n_NK")

    @property
    def taken(self) -> np.ndarray | None:
        """δ: the coefficients that were taken out; the shape of gamma."""
        return self._read_control("taken_NKD")

    def _read_control(self, name: str) -> np.ndarray | None:
        """Return a field of `control`, with a row for each group; without that axis if the caller gave one group."""
        if self.control is None:
            return None
        return self.batch.restore_group_shape(getattr(self.control, name))

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the ranked criteria."""
        return self.batch.names

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """One label per group."""
        return self.batch.labels

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes; "attribute 0", … if they have none."""
        D = 0 if self.batch.attributes_MD is None else self.batch.attributes_MD.shape[1]
        return self.batch.attribute_names or tuple(f"attribute {d}" for d in range(D))

    @property
    def used_weights_NK(self) -> np.ndarray:
        """The weights of the weighted sum; (1, K) if the same for all groups."""
        return self.batch.weights_NK if self.weights_NK is None else self.weights_NK

    # ------------------------------------------------------------------------------------------- how much to trust it

    @cached_property
    def no_signal(self) -> np.ndarray:
        """(N,): groups whose rewards are all equal, so that nothing can be learnt from them."""
        return find_no_signal(self.reward_M, self.batch.starts)

    @cached_property
    def agreement(self) -> np.ndarray | None:
        """(N,): how much the criteria agree about a group, from 0 to 1; None for a rule without utilities."""
        return None if self.fit is None else measure_agreement(self._parts_MK, self.batch.starts)

    @property
    def error(self) -> np.ndarray | None:
        """Standard error of the weighted sum, with criteria as replicates; None for a rule without utilities."""
        if self.fit is None:
            return None
        return self.batch.restore_rollout_shape(self.error_M)

    @cached_property
    def error_M(self) -> np.ndarray:
        """(M,): the same, in the order of the batch."""
        return measure_errors(self._parts_MK, self.batch.starts)

    @property
    def _parts_MK(self) -> np.ndarray:
        """w·value, the terms of the weighted sum."""
        assert self.fit is not None
        weights = self.used_weights_NK
        if len(weights) > 1:
            weights = weights[self.batch.group_of_row]
        return self.fit.values_MK * weights

    # ------------------------------------------------------------------------------------------------------- groups

    def __len__(self) -> int:
        return self.batch.N

    def __iter__(self) -> Iterator[FusedGroup]:
        return (self.group(g) for g in range(len(self)))

    def __getitem__(self, label: Hashable) -> FusedGroup:
        """Return the group with this label; raises InvalidInput if there is none."""
        if not isinstance(label, Hashable) or label not in self._number_of_label:
            example = next(iter(self._number_of_label), None)
            allowed = f"the label of one of its {len(self)} groups, such as {example!r}"
            raise InvalidInput(
                "Fused", "label", allowed=allowed, got=repr(label), remedy="See .labels."
            )
        return self.group(self._number_of_label[label])

    @cached_property
    def _number_of_label(self) -> dict[Hashable, int]:
        return {label: g for g, label in enumerate(self.labels)}

    def explain(self, rollout: int | tuple[int, int]) -> str:
        """Say in words why a rollout got its reward.

        rollout: its row number, or (group, rollout) if the scores were given as (groups, rollouts, …).
        """
        batch = self.batch
        # The shape in which the caller gave the rollouts: (rows,) or (groups, rollouts).
        shape = batch.shape or (len(batch.scores_MK),)
        position = rollout if isinstance(rollout, tuple) else (rollout,)
        try:
            row = int(np.ravel_multi_index(position, shape))
        except (TypeError, ValueError):
            allowed = f"a row from 0 to {shape[0] - 1}"
            if len(shape) == 2:
                last = tuple(size - 1 for size in shape)
                allowed = f"a pair (group, rollout) from (0, 0) to {last}"
            raise InvalidInput("explain", "rollout", allowed=allowed, got=repr(rollout)) from None
        if batch.order is not None:  # the batch holds the caller's rows sorted by group
            row = int(np.flatnonzero(batch.order == row)[0])
        g = int(np.searchsorted(batch.starts, row, side="right")) - 1
        return self.group(g).explain(row - int(batch.starts[g]))

    def rows_of(self, g: int) -> slice:
        """Return the rows of a group in the batch."""
        return slice(int(self.batch.starts[g]), int(self.batch.starts[g + 1]))

    def group(self, g: int) -> FusedGroup:
        """Return everything about one group, given by its number."""
        batch = self.batch
        rows = self.rows_of(g)
        columns = self.columns_of(g)
        # Without a fit, as under all rules but RLVR², these three are NaN.
        utilities = np.full((rows.stop - rows.start, len(columns)), np.nan)
        values = utilities
        fused = np.full(len(utilities), np.nan)
        scale: np.ndarray | float = 1.0
        if self.fit is not None:
            utilities = self.fit.utilities_MK[rows][:, columns]
            values = self.fit.values_MK[rows][:, columns]
            fused = self.fit.fused_M[rows]
            if self.fit.scale_NK is not None:
                scale = self.fit.scale_NK[g, columns]
        # Fields of FusedGroup that keep their defaults if the batch or the rule has nothing to fill them with.
        optional: dict[str, Any] = {}
        if "ranked_scores" in self.details:
            optional["ranked_scores"] = self.details["ranked_scores"][rows][:, columns]
        if batch.attributes_MD is not None:
            optional["attributes"] = batch.attributes_MD[rows]
        if self.control is not None:
            optional["mean_contrasts"] = self.control.contrasts_MD[rows]
            optional["pool"] = self.control.pool
            optional["n"] = self.control.n_NK[g, columns]
            for name in ("gamma", "se", "shrunk", "taken"):
                optional[name] = getattr(self.control, f"{name}_NKD")[g, columns]
        higher_is_better = np.ones(len(columns), bool)
        if batch.lower_NK is not None:
            higher_is_better = ~_select_group(batch.lower_NK, g)[columns]
        compared = self._outcomes_of_group.get(g, {})
        soft = self._soft_outcomes_of_group.get(g, {})
        return FusedGroup(
            label=self.labels[g],
            criteria=tuple(batch.names[k] for k in columns),
            weights=_select_group(self.used_weights_NK, g)[columns],
            margins=_select_group(batch.margins_NK, g)[columns],
            scores=batch.scores_MK[rows][:, columns],
            higher_is_better=higher_is_better,
            utilities=utilities,
            values=values,
            fused=fused,
            scale=scale,
            ranking=self.ranking_M[rows],
            reward=self.reward_M[rows],
            no_signal=bool(self.no_signal[g]),
            attribute_names=self.attribute_names,
            gate=self.gate,
            gated=None if self.gated is None else self.gated.select_rows(rows),
            compared={columns.index(k): outcome for k, outcome in compared.items()},
            soft={columns.index(k): outcome for k, outcome in soft.items()},
            **optional,
        )

    def columns_of(self, g: int) -> list[int]:
        """Return the columns of the criteria that rank a group; the others are criteria of other groups' rubrics."""
        if self.batch.group_rubrics is None:
            return list(range(self.batch.K))
        rubric = {criterion.name for criterion in self.batch.group_rubrics[g]}
        return [k for k, name in enumerate(self.batch.names) if name in rubric]

    @cached_property
    def _outcomes_of_group(self) -> dict[int, dict[int, np.ndarray]]:
        """Group → column → outcomes. Searching all outcomes for every group would take quadratic time."""
        return _split_by_group(self.batch.outcomes)

    @cached_property
    def _soft_outcomes_of_group(self) -> dict[int, dict[int, np.ndarray]]:
        return {} if self.fit is None else _split_by_group(self.fit.soft)

    def record(self, g: int) -> dict[str, Any]:
        """Return the data of a group's record, as JSON can hold them; see `rubrank.records`."""
        return make_record(self, g)


def _split_by_group(cells: Cells) -> dict[int, dict[int, np.ndarray]]:
    """Turn (group, column) → outcomes into group → column → outcomes."""
    by_group: dict[int, dict[int, np.ndarray]] = {}
    for (g, k), outcome in cells.items():
        by_group.setdefault(g, {})[k] = outcome
    return by_group


def measure_errors(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return √( K/(K−1) Σ_k (w_k v_ki − mean)² ), the standard error (M,) of the weighted sum of K criteria.

    parts_MK: the terms w_k v_ki of the sum, weight × value. Only criteria that tell rollouts of the group apart count;
    NaN with fewer than two.
    """
    informative_MK = np.repeat(find_informative(parts_MK, starts), np.diff(starts), axis=0)
    count_M = informative_MK.sum(1)  # K of the formula
    mean_M = np.where(informative_MK, parts_MK, 0.0).sum(1) / np.maximum(count_M, 1)
    square_M = np.where(informative_MK, (parts_MK - mean_M[:, None]) ** 2, 0.0).sum(1)
    scale_M = count_M / np.maximum(count_M - 1, 1)
    return np.where(count_M > 1, np.sqrt(scale_M * square_M), np.nan)


def measure_agreement(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return how much the criteria of each group agree (N,), from 0 to 1.

    For one group, x[i,k] = w_k u_ki is a table of G rollouts × K criteria. A two-way analysis of variance splits its
    spread into what rollouts have in common over all criteria, and a residual on which criteria differ:

        SS_rollouts = K Σ_i (mean of rollout i − mean of all)²
        SS_residual = Σ_ik (x[i,k] − fitted[i,k])²,  fitted[i,k] = mean of rollout i + mean of criterion k − mean of all
        MS_rollouts = SS_rollouts/(G − 1),           MS_residual = SS_residual/((G − 1)(K − 1))
        agreement   = max(0, 1 − MS_residual/MS_rollouts)

        two rollouts, two criteria:  x = (1, 1), (−1, −1)      SS_rollouts 4, SS_residual 0: agreement 1
                                     x = (1, −1), (−1, 1)      SS_rollouts 0, SS_residual 4: agreement 0
                                     x = (2, −1), (−2, 1)      SS_rollouts 1, SS_residual 9: max(0, 1 − 9) = 0
                                     x = (3, 1), (−3, −1)      SS_rollouts 16, SS_residual 4: 1 − 4/16 = 0.75

    Only criteria that tell rollouts of the group apart count; NaN with fewer than two of them, or one rollout. Real
    trade-offs between criteria count as disagreement too, so low agreement alone is not a reason to drop a group.
    """
    sizes_N = np.diff(starts)  # G of each group
    if not len(sizes_N):
        return np.zeros(0)
    first_N = starts[:-1]
    group_of_row = np.repeat(np.arange(len(sizes_N)), sizes_N)
    informative_NK = find_informative(parts_MK, starts)
    informative_MK = informative_NK[group_of_row]
    K_N = informative_NK.sum(1)

    # Means of the table. Criteria that do not count are 0, and do not change the sums.
    parts_MK = np.where(informative_MK, parts_MK, 0.0)
    rollout_mean_M = parts_MK.sum(1) / np.maximum(K_N, 1)[group_of_row]
    criterion_mean_NK = np.add.reduceat(parts_MK, first_N, axis=0) / sizes_N[:, None]
    mean_N = np.add.reduceat(rollout_mean_M, first_N) / sizes_N

    # The two sums of squares.
    rollouts_N = K_N * np.add.reduceat((rollout_mean_M - mean_N[group_of_row]) ** 2, first_N)
    fitted_MK = rollout_mean_M[:, None] + (criterion_mean_NK - mean_N[:, None])[group_of_row]
    squares_MK = np.where(informative_MK, (parts_MK - fitted_MK) ** 2, 0.0)
    residual_N = np.add.reduceat(squares_MK.sum(1), first_N)

    # MS_residual/MS_rollouts: G − 1 cancels. Infinite, so that the agreement is 0, if rollouts do not differ: a sum of
    # squares up to 1e-18, differences of 1e-9, is rounding.
    ratio_N = np.full(len(sizes_N), np.inf)
    degrees_N = np.maximum(K_N - 1, 1)
    np.divide(residual_N, degrees_N * rollouts_N, out=ratio_N, where=rollouts_N > 1e-18)
    return np.where((K_N > 1) & (sizes_N > 1), np.maximum(0.0, 1.0 - ratio_N), np.nan)


def find_informative(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return (N, K): does the criterion tell rollouts of the group apart? Its utilities are all 0 if it does not."""
    if len(starts) < 2:
        return np.zeros((0, parts_MK.shape[1]), bool)
    return np.logical_or.reduceat(parts_MK != 0.0, starts[:-1], axis=0)


def _select_group(values_NK: np.ndarray, g: int) -> np.ndarray:
    """Return the row of group g; the only row if all groups share it."""
    return values_NK[g if len(values_NK) > 1 else 0]
