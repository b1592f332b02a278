"""What a rule says about a batch, and everything it is due to: the one result of every rule.

    fused = find_rule("rlvr2+")(table.batch())
    fused.reward                  what the trainer gets, in the order and shape in which the scores were given
    fused.no_signal               (groups,): are all rewards of a group equal?
    fused["query-17"]             one group: utilities, coefficients, gate, flags; `fused.explain(3)` in words
    fused.record(0)               the data of a group's record

Nothing is computed twice: explanations, metrics and records are views on what the rule kept. `fit` is there for RLVR²,
which has utilities; other rules have their value alone.

Letters: M rollouts, N groups, K criteria that are ranked by, C gate criteria, D attributes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as brief
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, counted
from rubrank.fusion.adjusting import Controlled
from rubrank.fusion.advantages import agreement, errors
from rubrank.fusion.gate import Gate, GateResult
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.record_data import record_data
from rubrank.fusion.rules.within import neutral
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.frames import Framed
from rubrank.scores.spread import no_signal


@dataclass(frozen=True, eq=False)
class Fit:
    """What RLVR² computed on the way, rows as in the batch."""

    utilities_MK: np.ndarray
    """As fitted, without attributes."""
    values_MK: np.ndarray
    """What is weighted and added up: the utilities, adjusted for attributes and scaled by `span`."""
    fused_M: np.ndarray
    """The weighted sum."""
    ranking_M: np.ndarray
    """R̃: the weighted sum stretched to [0, 1]."""
    control: Controlled | None = None
    """What was found out about attributes and taken out; None where nothing was to be."""
    scale_NK: np.ndarray | None = None
    """What `span` multiplied the criteria of each group by."""


@dataclass(frozen=True, eq=False)
class Fused(Framed):
    """The result of a rule for a batch."""

    batch: ScoreBatch
    rule: str
    value_M: np.ndarray
    """The rule's own number for each rollout, rows as in the batch."""
    weights_NK: np.ndarray | None = None
    """The weights that were used, where the rule sets them; (1, K) if the same for all groups."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader may want to know, by name: "pre_norm" of GDPO, "pace" of Focal … arrays or numbers."""
    fit: Fit | None = None
    gate: Gate | None = None
    gated: GateResult | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be rewards, whoever wrote the rule; who has no score at all has the mean of its group."""
        if not isinstance(self.batch, ScoreBatch):
            raise InvalidInput("Fused", "batch", "the ScoreBatch that was fused", brief(self.batch), "")
        if self.fit is None:  # else it is RLVR²'s own, whose models are checked where they fit
            self._check_values()
        weights, batch = self.weights_NK, self.batch
        if weights is not None and np.shape(weights) not in ((1, batch.K), (batch.N, batch.K)):
            allowed = f"of the shape (1, {batch.K}) or ({batch.N}, {batch.K})"
            raise InvalidInput(f"rule {self.rule!r}", "weights_NK", allowed, _shape(weights, -1), "")

    def _check_values(self) -> None:
        value_M, rows = self.value_M, len(self.batch.scores_MK)
        whole = type(value_M) is np.ndarray and value_M.dtype.char == "d" and value_M.shape == (rows,)
        if not whole or not math.isfinite(value_M.dot(value_M)):  # the cheapest look at all of them
            object.__setattr__(self, "value_M", self._checked())

    def _checked(self) -> np.ndarray:
        owner, batch = f"rule {self.rule!r}", self.batch
        M = len(batch.scores_MK)
        try:
            value_M = np.asarray(self.value_M, dtype=np.float64)
        except (TypeError, ValueError):
            value_M = np.zeros(0)
        if value_M.shape != (M,):
            allowed = f"a number for each of the {counted(M, 'rollout')}"
            raise InvalidInput(owner, "the value", allowed, _shape(self.value_M, M), "See docs/extending.md.")
        unknown = np.isnan(value_M) & batch.missing_MK.all(1)
        wrong = np.flatnonzero(~np.isfinite(value_M) & ~unknown)
        if len(wrong):
            where = f"{value_M[wrong[0]]} for rollout {wrong[0]}"
            raise InvalidInput(owner, "the value", "a finite number for each rollout that has scores", where, "")
        return neutral(value_M, batch, 0.5)

    # -------------------------------------------------------------------------------------------------------- shown

    def __repr__(self) -> str:
        quiet = int(np.count_nonzero(self.no_signal))
        return (
            f"Fused({self.rule}: {counted(len(self.value_M), 'rollout')} in {counted(self.batch.N, 'group')}, "
            f"{counted(self.batch.K, 'criterion')}, {quiet:,} without signal)"
        )

    def to_polars(self) -> Any:
        """A polars frame: group, rollout, reward, ranking (where there is a gate), and `utility.NAME` of RLVR²."""
        import polars as pl

        batch = self.batch
        numbers = np.arange(len(self.value_M)) - batch.starts[:-1][batch.group_of_row]
        labels = [batch.labels[g] for g in batch.per_rollout(batch.group_of_row).ravel()]
        columns: dict[str, Any] = {
            "group": pl.Series(labels, strict=False),
            "rollout": batch.per_rollout(numbers).ravel(),
        }
        columns["reward"] = np.asarray(self.reward).ravel()
        if self.gated is not None:
            columns["ranking"] = np.asarray(self.ranking).ravel()
        if self.utilities is not None:
            flat = np.asarray(self.utilities).reshape(len(self.value_M), -1)
            columns |= {f"utility.{name}": flat[:, k] for k, name in enumerate(self.criteria)}
        return pl.DataFrame(columns)

    # ------------------------------------------------------------------------------------------ in the caller's form

    @property
    def reward_M(self) -> np.ndarray:
        """The reward, rows as in the batch."""
        return self.value_M if self.gated is None else self.gated.reward

    @property
    def reward(self) -> np.ndarray:
        """What the trainer gets: the value, or what the gate made of it."""
        return self.batch.per_rollout(self.reward_M)

    @property
    def ranking_M(self) -> np.ndarray:
        """Before the gate: R̃ of RLVR², the value of another rule; rows as in the batch."""
        return self.value_M if self.fit is None else self.fit.ranking_M

    @property
    def ranking(self) -> np.ndarray:
        """Before the gate: R̃ of RLVR², the value of another rule."""
        return self.batch.per_rollout(self.ranking_M)

    @property
    def fused(self) -> np.ndarray | None:
        """The weighted sum of utilities."""
        return None if self.fit is None else self.batch.per_rollout(self.fit.fused_M)

    @property
    def utilities(self) -> np.ndarray | None:
        """Fitted utilities, criteria last."""
        return None if self.fit is None else self.batch.per_rollout(self.fit.utilities_MK)

    @property
    def control(self) -> Controlled | None:
        """What was found out about attributes and taken out; rows and groups as in the batch."""
        return None if self.fit is None else self.fit.control

    @property
    def gamma(self) -> np.ndarray | None:
        """γ̂ (groups, K, D), or (K, D) for a single group; None without attributes."""
        return None if self.control is None else self.batch.per_group(self.control.gamma_NKD)

    @property
    def se(self) -> np.ndarray | None:
        """The standard error of γ̂; the shape of gamma."""
        return None if self.control is None else self.batch.per_group(self.control.se_NKD)

    @property
    def shrunk(self) -> np.ndarray | None:
        """γ̃: what of γ̂ is more than chance; the shape of gamma."""
        return None if self.control is None else self.batch.per_group(self.control.shrunk_NKD)

    @property
    def n(self) -> np.ndarray | None:
        """Groups that each criterion's estimate comes from, (groups, K) or (K,)."""
        return None if self.control is None else self.batch.per_group(self.control.n_NK)

    @property
    def taken(self) -> np.ndarray | None:
        """δ: what was taken out; the shape of gamma."""
        return None if self.control is None else self.batch.per_group(self.control.taken_NKD)

    @cached_property
    def no_signal(self) -> np.ndarray:
        """(N,): groups whose rewards are all equal, so that nothing can be learnt from them."""
        return no_signal(self.reward_M, self.batch.starts)

    @cached_property
    def agreement(self) -> np.ndarray | None:
        """(N,): how far the criteria say the same about a group, from 0 to 1; None for a rule without utilities."""
        return None if self.fit is None else agreement(self._parts, self._telling, self.batch)

    @property
    def error(self) -> np.ndarray | None:
        """Standard error of the weighted sum, criteria taken as replicates; None for a rule without utilities."""
        return None if self.fit is None else self.batch.per_rollout(self.error_M)

    @cached_property
    def error_M(self) -> np.ndarray:
        """The same, rows as in the batch."""
        return errors(self._parts, self._telling, self.batch)

    @property
    def _parts(self) -> np.ndarray:
        assert self.fit is not None
        weights, batch = self.used_weights_NK, self.batch
        return self.fit.values_MK * (weights if len(weights) == 1 else weights[batch.group_of_row])

    @property
    def _telling(self) -> np.ndarray:
        """(N, K): does a criterion tell rollouts apart?"""
        assert self.fit is not None
        if not self.batch.N:
            return np.zeros((0, self.batch.K), bool)
        return np.asarray(np.logical_or.reduceat(self.fit.values_MK != 0.0, self.batch.starts[:-1], axis=0))

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria that are ranked by."""
        return self.batch.names

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """One label per group."""
        return self.batch.labels

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes; their numbers where they have none."""
        D = 0 if self.batch.attributes_MD is None else self.batch.attributes_MD.shape[1]
        return self.batch.attribute_names or tuple(f"attribute {d}" for d in range(D))

    @property
    def used_weights_NK(self) -> np.ndarray:
        """The weights that were used; (1, K) if the same for all groups."""
        return self.batch.weights_NK if self.weights_NK is None else self.weights_NK

    # ------------------------------------------------------------------------------------------------------- groups

    def __len__(self) -> int:
        return self.batch.N

    def __iter__(self) -> Iterator[FusedGroup]:
        return (self.group(g) for g in range(len(self)))

    def __getitem__(self, label: Hashable) -> FusedGroup:
        """The group with this label."""
        if not isinstance(label, Hashable) or label not in self._numbers:
            such = next(iter(self._numbers), None)
            allowed = f"the label of one of its {len(self)} groups, such as {such!r}"
            raise InvalidInput("Fused", "label", allowed, repr(label), "See .labels.")
        return self.group(self._numbers[label])

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {label: g for g, label in enumerate(self.labels)}

    def explain(self, rollout: int | tuple[int, int]) -> str:
        """Why a rollout got its reward: its row number, or (group, rollout) for a (groups, rollouts, …) batch."""
        g, i = self._locate(rollout)
        return self.group(g).explain(i)

    def _locate(self, rollout: int | tuple[int, int]) -> tuple[int, int]:
        batch = self.batch
        shape = batch.shape or (len(batch.scores_MK),)
        at = rollout if isinstance(rollout, tuple) else (rollout,)
        whole = isinstance(rollout, tuple) == (len(shape) == 2) and len(at) == len(shape)
        whole = whole and all(isinstance(i, int | np.integer) for i in at)
        if not whole or not all(0 <= i < size for i, size in zip(at, shape, strict=True)):
            allowed = f"a row from 0 to {shape[0] - 1}"
            if len(shape) == 2:
                allowed = f"a pair (group, rollout) from (0, 0) to {tuple(size - 1 for size in shape)}"
            raise InvalidInput("explain", "rollout", allowed, repr(rollout), "")
        index = int(np.ravel_multi_index(at, shape))
        row = int(index if batch.order is None else np.flatnonzero(batch.order == index)[0])
        g = int(np.searchsorted(batch.starts, row, side="right")) - 1
        return g, row - int(batch.starts[g])

    def group(self, g: int) -> FusedGroup:
        """Everything about one group, by its number."""
        batch, rows = self.batch, self.rows_of(g)
        nothing = np.full((rows.stop - rows.start, batch.K), np.nan)
        lower, fit, gated = batch.lower_NK, self.fit, self.gated
        return FusedGroup(
            label=self.labels[g],
            criteria=batch.names,
            weights=_of_group(self.used_weights_NK, g),
            margins=_of_group(batch.margins_NK, g),
            scores=batch.scores_MK[rows],
            higher_is_better=np.ones(batch.K, bool) if lower is None else ~_of_group(lower, g),
            utilities=nothing if fit is None else fit.utilities_MK[rows],
            values=nothing if fit is None else fit.values_MK[rows],
            fused=np.full(len(nothing), np.nan) if fit is None else fit.fused_M[rows],
            ranking=self.ranking_M[rows],
            reward=self.reward_M[rows],
            no_signal=bool(self.no_signal[g]),
            attribute_names=self.attribute_names,
            attributes=None if batch.attributes_MD is None else batch.attributes_MD[rows],
            gate=self.gate,
            gated=None if gated is None else gated.part(rows),
            compared=dict(self._compared.get(g, {})),
            **self._adjusted(g, rows),
        )

    @cached_property
    def _compared(self) -> dict[int, dict[int, np.ndarray]]:
        """Group → column → outcomes: every group looking through all of them would take the square of their number."""
        found: dict[int, dict[int, np.ndarray]] = {}
        for (g, k), won in self.batch.outcomes.items():
            found.setdefault(g, {})[k] = won
        return found

    def rows_of(self, g: int) -> slice:
        """Of a group, in the batch."""
        return slice(int(self.batch.starts[g]), int(self.batch.starts[g + 1]))

    def _adjusted(self, g: int, rows: slice) -> dict[str, Any]:
        if self.fit is None:
            return {}
        scale, control = self.fit.scale_NK, self.fit.control
        found: dict[str, Any] = {
            "scale": 1.0 if scale is None else scale[g],
            "agreement": float(np.nan if self.agreement is None else self.agreement[g]),
            "error": self.error_M[rows],
        }
        if control is None:
            return found
        return found | {
            "mean_contrasts": control.contrasts_MD[rows],
            "pool": control.pool,
            "gamma": control.gamma_NKD[g],
            "se": control.se_NKD[g],
            "shrunk": control.shrunk_NKD[g],
            "n": control.n_NK[g],
            "taken": control.taken_NKD[g],
        }

    def record(self, g: int) -> dict[str, Any]:
        """The data of a group's record, as JSON can hold them; see `rubrank.records`."""
        return record_data(self, g)


def _shape(values: Any, M: int) -> str:
    """What came instead of M numbers: its shape, or what it holds where that is what is wrong."""
    try:
        shape = np.shape(values)
    except ValueError:  # lists of different lengths
        shape = ()
    return f"an array of shape {shape}" if shape and shape != (M,) else brief(np.asarray(values, object).tolist())


def _of_group(values_NK: np.ndarray, g: int) -> np.ndarray:
    return values_NK[g if len(values_NK) > 1 else 0]
