"""`Fused`, the result of every rule: the rewards of a batch, and every number that led to them.

    fused = find_rule("rlvr2+")(table.batch())
    fused.reward                  what the trainer gets, in the order and shape in which the scores were given
    fused.no_signal               (groups,): are all rewards of a group equal?
    fused["query-17"]             one group, a `FusedGroup`: utilities, coefficients, gate, flags
    fused.explain(3)              why a rollout got its reward, in words
    fused.record(0)               the data of a group's record

Explanations, metrics and records read the numbers that the rule computed; they compute nothing again.

RLVR² goes from scores to a reward in these steps. The numbers are those of three rollouts, scored 9, 8, 3 on A (weight
2) and 1, 0, 1 on B (weight 1), with the model "borda", utility = (wins − losses) / 2:

    of one criterion                                                              rollout 0     1        2
        score          as given                                             A     9             8        3
        utility        fitted to the order of the scores in the group       A     1             0       −1
        fit.values_MK  the utility, adjusted for attributes and scaled      A     1             0       −1
                       (here neither)                                       B     0.5          −1        0.5
    of the rollout
        fused          the weighted sum Σ w·value over the criteria               2.5          −1       −1.5
        ranking R̃      `fused` stretched to [0, 1] within the group               1             0.125    0
        value_M        what the rule returns: the ranking, or an advantage        1             0.125    0
                       with scale="utility"
        reward         what the trainer gets: value_M, or what the gate           1             0.125    0
                       makes of it if the rule has one

Another rule has only scores, value_M and reward; its ranking is value_M. The result object is called `Fused` after the
batch that was fused; its attribute `fused` is the weighted sum.

Only RLVR² has utilities, and therefore a `fit`. Rules such as Borda add up other numbers on each criterion; they are
split into `compute_values`, which makes these numbers, and `fuse_values`, which adds them up (rules/ranks.py).

Attribute control takes the influence of attributes, such as length, out of the utilities: γ̂ is the estimated influence
on a criterion, γ̃ the part of it that chance does not explain, δ what is taken out (docs/method.md, section 4).

A batch may hold groups of different rubrics, so an array over its criteria has columns that do not concern a group.
`FusedGroup` (group.py) has only those of its own rubric; it also says what None, NaN and empty mean.

Letters at the end of a name are the axes of an array: M rollouts of the batch, N groups, K ranked criteria, C gate
criteria, D attributes. (1, K) instead of (N, K): all groups share one row. Group g is rows starts[g] up to, but not
including, starts[g + 1].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput, counted
from rubrank.fusion.explain import make_record
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.rules.group_math import (
    expand_rows,
    fill_unknown,
    measure_agreement,
    measure_errors,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import Cells
from rubrank.scores.spread import find_no_signal
from rubrank.tables.html import Bar, Framed, shade_column, write_cell

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
            # A group without any score has no mean, and gets 0.5 for all its rollouts. Any number would do, also for a
            # rule that is not bounded: equal rewards give no advantage.
            value_M = fill_unknown(value_M, batch, empty=0.5)
        object.__setattr__(self, "value_M", value_M)  # the dataclass is frozen
        if self.weights_NK is None:
            return
        try:
            weights_NK = np.asarray(self.weights_NK, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                owner, "weights_NK", allowed="an array of numbers", got=brief(self.weights_NK)
            ) from None
        if weights_NK.shape not in ((1, batch.K), (batch.N, batch.K)):
            raise InvalidInput(
                owner,
                "weights_NK",
                allowed=f"of the shape (1, {batch.K}) or ({batch.N}, {batch.K})",
                got=f"shape {weights_NK.shape}",
            )
        object.__setattr__(self, "weights_NK", weights_NK)

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
        """(M,): R̃ of RLVR² (with scale="utility", too), or `value_M` of another rule; in the order of the batch."""
        return self.value_M if self.fit is None else self.fit.ranking_M

    @property
    def ranking(self) -> np.ndarray:
        """`ranking_M` in the caller's shape: R̃ of RLVR² (with scale="utility", too), or the value of another rule."""
        return self.batch.restore_rollout_shape(self.ranking_M)

    @property
    def fused(self) -> np.ndarray | None:
        """The weighted sum Σ w·value of each rollout, in the caller's shape; None for a rule without utilities."""
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
        return self.fit.values_MK * expand_rows(self.used_weights_NK, self.batch)

    # ------------------------------------------------------------------------------------------------------- groups

    def __len__(self) -> int:
        return self.batch.N

    def __iter__(self) -> Iterator[FusedGroup]:
        return (self.group(g) for g in range(self.batch.N))

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

        def select_row(values_NK: np.ndarray) -> np.ndarray:
            """Return the row of this group; the only row if all groups share it."""
            return values_NK[g if len(values_NK) > 1 else 0][columns]

        # Fields of FusedGroup that are None unless the rule or the batch has something to fill them with.
        optional: dict[str, Any] = {}
        if self.fit is not None:
            optional["utilities"] = self.fit.utilities_MK[rows][:, columns]
            optional["values"] = self.fit.values_MK[rows][:, columns]
            optional["fused"] = self.fit.fused_M[rows]
            optional["scale"] = np.ones(len(columns))
            if self.fit.scale_NK is not None:
                optional["scale"] = self.fit.scale_NK[g, columns]
        if "ranked_scores" in self.details:
            optional["ranked_scores"] = self.details["ranked_scores"][rows][:, columns]
        if batch.attributes_MD is not None:
            optional["attributes"] = batch.attributes_MD[rows]
        if self.control is not None:
            optional["pool"] = self.control.pool
            optional["mean_contrasts"] = self.control.contrasts_MD[rows]
            optional["n"] = self.control.n_NK[g, columns]
            for name in ("gamma", "se", "shrunk", "taken"):
                optional[name] = getattr(self.control, f"{name}_NKD")[g, columns]
        if self.gated is not None:
            optional["gate"] = self.gate
            optional["gated"] = self.gated.select_rows(rows)
        higher_is_better = np.ones(len(columns), bool)
        if batch.lower_NK is not None:
            higher_is_better = ~select_row(batch.lower_NK)
        compared, soft = self._outcomes_of_group.get(g, ({}, {}))
        return FusedGroup(
            label=batch.labels[g],
            criteria=tuple(batch.names[k] for k in columns),
            weights=select_row(self.used_weights_NK),
            margins=select_row(batch.margins_NK),
            higher_is_better=higher_is_better,
            scores=batch.scores_MK[rows][:, columns],
            ranking=self.ranking_M[rows],
            reward=self.reward_M[rows],
            no_signal=bool(self.no_signal[g]),
            compared={columns.index(k): outcome for k, outcome in compared.items()},
            soft={columns.index(k): outcome for k, outcome in soft.items()},
            attribute_names=self.attribute_names,
            **optional,
        )

    def columns_of(self, g: int) -> list[int]:
        """Return the columns of the criteria that rank a group; the others are criteria of other groups' rubrics."""
        if self.batch.group_rubrics is None:
            return list(range(self.batch.K))
        rubric = {criterion.name for criterion in self.batch.group_rubrics[g]}
        return [k for k, name in enumerate(self.batch.names) if name in rubric]

    @cached_property
    def _outcomes_of_group(self) -> dict[int, tuple[dict[int, np.ndarray], dict[int, np.ndarray]]]:
        """Group → (column → outcomes of compared responses, column → outcomes of uncertain verdicts).

        Groups that have neither are left out. Searching all outcomes for every group would take quadratic time.
        """
        outcomes_of_group: dict[int, Any] = {}
        for (g, k), outcome in self.batch.outcomes.items():
            outcomes_of_group.setdefault(g, ({}, {}))[0][k] = outcome
        soft = {} if self.fit is None else self.fit.soft
        for (g, k), outcome in soft.items():
            outcomes_of_group.setdefault(g, ({}, {}))[1][k] = outcome
        return outcomes_of_group

    def record(self, g: int) -> dict[str, Any]:
        """Return the data of a group's record, as JSON can hold them; see `rubrank.records`."""
        return make_record(self, g)
