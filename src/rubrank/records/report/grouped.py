"""A record as arrays: what every part of a report computes with.

    group = Grouped.of(record)
    group.scores         (G, C), NaN = missing
    group.signs[2]       criterion 2, pair by pair: 1 = the first of the pair is better, 0 = tie or not compared
    group.known[2]       was the pair compared?

Letters: G rollouts, C criteria (the K ranked by come first), P = G(G−1)/2 pairs, D attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from rubrank.records.record import GroupRecord
from rubrank.records.unfolding import number_table
from rubrank.scores.outcomes import least_difference
from rubrank.scores.spread import ROUNDING


@dataclass(frozen=True, eq=False)
class Grouped:
    """One group."""

    record: GroupRecord
    scores: np.ndarray
    reward: np.ndarray
    ranking: np.ndarray
    measured_names: tuple[str, ...] = ()
    measured: np.ndarray | None = None
    """(G, D): lengths and Markdown, measured for the report."""

    @classmethod
    def of(
        cls, record: GroupRecord, measured_names: tuple[str, ...] = (), measured: np.ndarray | None = None
    ) -> Grouped:
        """The arrays of a record."""
        scores = number_table(record.scores, (record.size, len(record.criteria)))
        return cls(record, scores, np.array(record.reward), np.array(record.ranking), measured_names, measured)

    @property
    def K(self) -> int:
        """Criteria ranked by."""
        return len(self.record.weights)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all criteria."""
        return tuple(c.name for c in self.record.criteria)

    @cached_property
    def signs(self) -> np.ndarray:
        """(C, P)"""
        return self._compared[0]

    @cached_property
    def known(self) -> np.ndarray:
        """(C, P)"""
        return self._compared[1]

    @cached_property
    def tells(self) -> np.ndarray:
        """(C,): does the criterion tell rollouts apart?"""
        return np.asarray(self.signs.any(1))

    @cached_property
    def missing(self) -> np.ndarray:
        """(G, C): no score, and not compared either."""
        missing = np.isnan(self.scores)
        for name, won in self._observed.items():
            compared = ~np.isnan(won)
            np.fill_diagonal(compared, False)
            missing[:, self.names.index(name)] = ~compared.any(1)
        return missing

    @cached_property
    def ranking_signs(self) -> np.ndarray:
        """(P,): who is above whom in the ranking before the gate; differences of rounding are ties."""
        i, j = pairs(len(self.ranking))
        difference = self.ranking[i] - self.ranking[j]
        return np.sign(difference) * (np.abs(difference) > ROUNDING * (np.ptp(self.ranking) if len(i) else 0.0))

    @cached_property
    def attributes(self) -> np.ndarray | None:
        """(G, D): as recorded."""
        table = self.record.attributes
        return None if table is None else number_table(table, (self.record.size, len(self.record.attribute_names)))

    @cached_property
    def measures(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Names and (G, D) values: recorded attributes, then what was measured under other names."""
        names: tuple[str, ...] = ()
        tables = [np.zeros((len(self.reward), 0))]
        if self.attributes is not None:
            names, tables = self.record.attribute_names, [self.attributes]
        if self.measured is not None:
            new = [d for d, name in enumerate(self.measured_names) if name not in names]
            names = (*names, *(self.measured_names[d] for d in new))
            tables.append(self.measured[:, new])
        return names, np.concatenate(tables, axis=1)

    @cached_property
    def _observed(self) -> dict[str, np.ndarray]:
        shape = (self.record.size, self.record.size)
        return {name: number_table(won, shape) for name, won in self.record.outcomes.items() if name in self.names}

    @cached_property
    def _compared(self) -> tuple[np.ndarray, np.ndarray]:
        i, j = pairs(self.record.size)
        turn = np.array([1.0 if c.direction == "higher" else -1.0 for c in self.record.criteria])
        margin = np.array([c.margin for c in self.record.criteria])
        difference = ((self.scores[i] - self.scores[j]) * turn).T
        known = ~np.isnan(difference)
        least = least_difference(self.scores[i].T, self.scores[j].T, margin[:, None])
        signs = np.sign(difference) * (np.abs(difference) > least)
        signs[~known] = 0.0
        for name, won in self._observed.items():
            k = self.names.index(name)
            known[k] = ~np.isnan(won[i, j])
            signs[k] = np.sign(np.where(known[k], won[i, j], 0.5) - 0.5)
        return signs, known


def column_means(values: np.ndarray) -> np.ndarray:
    """The mean of every column over what is known; NaN without any."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(0)
    return np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)


@lru_cache(maxsize=64)
def pairs(G: int) -> tuple[np.ndarray, np.ndarray]:
    """The rollouts of every pair i < j."""
    i, j = np.triu_indices(G, 1)
    return i, j
