"""Turn a record into arrays, with which every part of the summary computes.

    group = GroupArrays(record)
    group.scores         (G, C), NaN = missing
    group.signs[2]       criterion 2, pair by pair: 1 = the first of the pair is better, −1 = worse, 0 = tie or unknown
    group.compared[2]    whether the pair was compared

Letters: G rollouts, C criteria (the K ranked ones come first), P = G(G−1)/2 pairs, D attributes.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from rubrank.records.record import GroupRecord, to_array
from rubrank.scores.outcomes import compute_tie_width
from rubrank.scores.spread import ROUNDING, compute_tau_b


class GroupArrays:
    """One group of a run."""

    def __init__(self, record: GroupRecord, measured: dict[str, np.ndarray] | None = None) -> None:
        """measured: attribute → (G,), of those that the record does not hold."""
        self.record = record
        self.scores = to_array(record.scores, (record.size, len(record.criteria)))
        self.reward = np.array(record.reward)
        self.ranking = np.array(record.ranking)
        self.names = tuple(criterion.name for criterion in record.criteria)
        self.ranked = len(record.weights)
        self._measured = measured or {}

    @cached_property
    def signs(self) -> np.ndarray:
        """(C, P): who is better on each criterion."""
        return self._signs_and_compared[0]

    @cached_property
    def compared(self) -> np.ndarray:
        """(C, P): whether each criterion compares the pair."""
        return self._signs_and_compared[1]

    @cached_property
    def has_signal(self) -> np.ndarray:
        """(C,): whether the criterion tells rollouts apart."""
        return np.asarray(self.signs.any(1))

    @cached_property
    def missing(self) -> np.ndarray:
        """(G, C): no score, and not compared either."""
        missing = np.isnan(self.scores)
        for k, outcomes in self._outcomes.items():
            compared = ~np.isnan(outcomes)
            np.fill_diagonal(compared, False)
            missing[:, k] = ~compared.any(1)
        return missing

    @cached_property
    def ranking_signs(self) -> np.ndarray:
        """(P,): who is above whom in the ranking before the gate; differences by rounding are ties."""
        i, j = list_pairs(len(self.ranking))
        difference = self.ranking[i] - self.ranking[j]
        tolerance = ROUNDING * np.ptp(self.ranking) if len(i) else 0.0
        return np.sign(difference) * (np.abs(difference) > tolerance)

    @cached_property
    def attributes(self) -> dict[str, np.ndarray]:
        """Attribute → (G,): those of the record, then measured ones with other names."""
        record = self.record
        columns: dict[str, np.ndarray] = {}
        if record.attributes is not None:
            table = to_array(record.attributes, (record.size, len(record.attribute_names)))
            columns.update(zip(record.attribute_names, table.T, strict=True))
        for name, values in self._measured.items():
            columns.setdefault(name, values)
        return columns

    @cached_property
    def _outcomes(self) -> dict[int, np.ndarray]:
        """Criterion → (G, G), of criteria on which responses were compared instead of scored."""
        shape = (self.record.size, self.record.size)
        return {
            self.names.index(name): to_array(outcomes, shape)
            for name, outcomes in self.record.outcomes.items()
            if name in self.names
        }

    @cached_property
    def _signs_and_compared(self) -> tuple[np.ndarray, np.ndarray]:
        """`signs` and `compared`, from the scores, or from the outcomes of criteria that were compared."""
        i, j = list_pairs(self.record.size)
        direction = np.array(
            [1.0 if c.direction == "higher" else -1.0 for c in self.record.criteria]
        )
        margin = np.array([c.margin for c in self.record.criteria])
        difference = ((self.scores[i] - self.scores[j]) * direction).T
        compared = ~np.isnan(difference)
        tie_width = compute_tie_width(self.scores[i].T, self.scores[j].T, margin[:, None])
        signs = np.sign(difference) * (np.abs(difference) > tie_width)
        signs[~compared] = 0.0
        for k, outcomes in self._outcomes.items():
            compared[k] = ~np.isnan(outcomes[i, j])
            outcome_or_tie = np.where(compared[k], outcomes[i, j], 0.5)
            signs[k] = np.sign(outcome_or_tie - 0.5)
        return signs, compared


@lru_cache(maxsize=64)
def list_pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second rollout of every pair i < j, (P,) each."""
    i, j = np.triu_indices(size, 1)
    return i, j


def compute_column_means(values: np.ndarray) -> np.ndarray:
    """Return the mean of every column over what is present; NaN for an empty column."""
    present = ~np.isnan(values)
    total = np.where(present, values, 0.0).sum(0)
    return np.where(present.any(0), total / np.maximum(present.sum(0), 1), np.nan)


def compute_ranking_taus(group: GroupArrays) -> list[float]:
    """Return Kendall's τ-b of every criterion with the ranking over the pairs that it compares; NaN if it ties all."""
    agreement = group.signs @ group.ranking_signs
    decided_pairs = np.abs(group.signs).sum(1)
    ranked_pairs = group.compared @ np.abs(group.ranking_signs)
    return compute_tau_b(agreement, decided_pairs, ranked_pairs).tolist()


def compute_criterion_taus(group: GroupArrays) -> np.ndarray:
    """Return τ-b of every two ranked criteria over the pairs that both compare, (K, K); NaN if one ties everything."""
    signs = group.signs[: group.ranked]
    compared = group.compared[: group.ranked]
    agreement = signs @ signs.T
    decided = np.abs(signs) @ compared.T  # pairs that k decides and l compares
    return compute_tau_b(agreement, decided, decided.T)
