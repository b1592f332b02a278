"""What all parts of a summary need: a record as arrays, means with intervals, distributions, counts of reasons.

    group = GroupArrays(record)
    group.scores         (G, C), NaN = missing
    group.signs[2]       criterion 2, pair by pair: 1 = the first of the pair is better, −1 = worse, 0 = tie or unknown
    group.compared[2]    whether the pair was compared

    moments = Moments()
    moments.add(1.0)
    moments.add(2.0)
    moments.mean, moments.half_width          1.5, None: an interval needs five numbers

Letters: G rollouts, C criteria (the K ranked ones come first), P = G(G−1)/2 pairs, D attributes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rubrank.fusion.control.estimate import student_t_975
from rubrank.records.record import GroupRecord, to_array, to_fused_group
from rubrank.scores.outcomes import find_compared, outcomes
from rubrank.scores.spread import ROUNDING

# With fewer numbers, Student's factor is so large (4.3 for three) that the interval says nothing.
_FEWEST_FOR_INTERVAL = 5
# Relative variance up to which all numbers count as the same: well above what rounding leaves of equal numbers.
_SAME_VARIANCE = 1e-9
# Scores of a rubric have a few levels, each of which gets a bar; with more values, a distribution has bins.
_MOST_SEPARATE_BARS = 12
_BINS = 20
# 212, 1,000, 0.75
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Kinds of reasons that are counted separately. Judges write a new sentence for almost every response, so memory needs
# a bound.
_MOST_KINDS = 2000
_SHOWN_KINDS = 8
_LONGEST_KIND = 160  # characters

# ----------------------------------------------------------------------------------------- groups as arrays


class GroupArrays:
    """One group of a run, as the arrays that all parts of the summary use."""

    def __init__(self, record: GroupRecord, measured: dict[str, np.ndarray] | None = None) -> None:
        """measured: attribute → (G,), of those that the record does not hold."""
        self.record = record
        self.fused = to_fused_group(record)
        self.scores = to_array(record.scores, (record.size, len(record.criteria)))
        """(G, C): of all criteria, those that rank and those that do not."""
        self.reward = self.fused.reward
        self.ranking = self.fused.ranking
        self.names = tuple(criterion.name for criterion in record.criteria)
        self.ranked_count = len(record.weights)
        """How many of the criteria rank; they come first."""
        self.attributes: dict[str, np.ndarray] = {}
        """Attribute → (G,): those of the record, then measured ones with other names."""
        if self.fused.attributes is not None:
            columns = self.fused.attributes.T
            self.attributes.update(zip(record.attribute_names, columns, strict=True))
        for name, values in (measured or {}).items():
            self.attributes.setdefault(name, values)

        # Who beats whom on every criterion: from its scores, or observed by a judge who compared the responses.
        direction = np.array([1.0 if c.direction == "higher" else -1.0 for c in record.criteria])
        margins = np.array([criterion.margin for criterion in record.criteria])
        outcomes_GGC = outcomes(self.scores * direction, margins)
        self.missing = np.isnan(self.scores)
        """(G, C): no score, and not compared either."""
        for k, name in enumerate(self.names):
            if name in record.outcomes:
                observed = to_array(record.outcomes[name], (record.size, record.size))
                outcomes_GGC[:, :, k] = observed
                self.missing[:, k] = ~find_compared(observed)
        i, j = list_pairs(record.size)
        outcomes_CP = outcomes_GGC[i, j].T
        self.compared = ~np.isnan(outcomes_CP)
        """(C, P): whether each criterion compares the pair."""
        self.signs = np.sign(np.where(self.compared, outcomes_CP, 0.5) - 0.5)
        """(C, P): which rollout of the pair is better on each criterion; 0 for a tie, or if it is unknown."""
        self.has_signal = np.asarray(self.signs.any(1))
        """(C,): whether the criterion tells rollouts apart."""

        difference = self.ranking[i] - self.ranking[j]
        tolerance = ROUNDING * np.ptp(self.ranking) if len(i) else 0.0
        self.ranking_signs = np.sign(difference) * (np.abs(difference) > tolerance)
        """(P,): who is above whom in the ranking before the gate; differences by rounding are ties."""


@lru_cache(maxsize=64)
def list_pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second rollout of every pair i < j, (P,) each."""
    i, j = np.triu_indices(size, 1)
    return i, j


def compute_column_means(values: np.ndarray) -> np.ndarray:
    """Return the mean of every column, without missing values; NaN for a column that has none."""
    present = ~np.isnan(values)
    total = np.where(present, values, 0.0).sum(0)
    return np.where(present.any(0), total / np.maximum(present.sum(0), 1), np.nan)


def measure_responses(record: GroupRecord) -> dict[str, np.ndarray]:
    """Return attribute → (G,): words and Markdown of the responses; empty if the record does not hold them."""
    if not record.responses:
        return {}
    # Imported here, because records without texts need no parser of Markdown.
    from rubrank.fusion.control.length import lengths
    from rubrank.fusion.control.markdown import MARKERS, markdown_density

    answers = list(record.responses)
    thoughts = list(record.reasoning or [""] * record.size)
    words = lengths(answers, reasoning=thoughts)
    measured = {"answer words": words.answer, "reasoning words": words.reasoning}
    for marker, density in zip(MARKERS, markdown_density(answers).T, strict=True):
        measured[f"Markdown: {marker.replace('_', ' ')}"] = density
    return {name: np.asarray(values, dtype=float) for name, values in measured.items()}


# ------------------------------------------------------------------------ means, distributions, reasons


@dataclass
class Moments:
    """Count, sum and sum of squares of numbers; two of them can be merged."""

    n: int = 0
    total: float = 0.0
    sum_of_squares: float = 0.0

    def add(self, x: float | None) -> None:
        """Add a number; None and NaN are ignored."""
        if x is not None and x == x:
            self.n += 1
            self.total += x
            self.sum_of_squares += x * x

    def merge(self, other: Moments) -> None:
        """Add the numbers of another one."""
        self.n += other.n
        self.total += other.total
        self.sum_of_squares += other.sum_of_squares

    @property
    def mean(self) -> float | None:
        """None without numbers."""
        return self.total / self.n if self.n else None

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval of the mean (Student's t); None below five numbers, or if all are the same."""
        if not self.n:
            return None
        mean = self.total / self.n
        variance = (self.sum_of_squares - self.n * mean * mean) / max(1, self.n - 1)
        return compute_half_width(self.n, mean, variance)


def compute_half_width(n: int, mean: float, variance: float | None) -> float | None:
    """Return half of the 95% interval of a mean (Student's t); None below five numbers, or if all are the same.

    variance: the unbiased one of the n numbers; None for a single one.
    """
    if variance is None or n < _FEWEST_FOR_INTERVAL:
        return None
    if variance <= _SAME_VARIANCE * max(mean * mean, 1e-12):
        # A coefficient that all groups share: its spread over groups is not its uncertainty.
        return None
    return student_t_975(n - 1.0) * math.sqrt(variance / n)


def make_distribution(
    values: np.ndarray, bounds: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return numbers as bars: one per value if there are at most twelve values, otherwise 20 bins. NaN is left out.

        0, 0.5, 0.5, 1              {"values": [0, 0.5, 1], "counts": [1, 2, 1]}
        20,000 different numbers    {"edges": [0, 0.05, …, 1], "counts": [812, …]}

    bounds: ends of the bins, used if all values lie between them.
    """
    values = values[np.isfinite(values)]
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _MOST_SEPARATE_BARS:
        return {"values": distinct.tolist(), "counts": counts.tolist()}
    low = float(distinct[0])
    high = float(distinct[-1])
    if bounds is not None and bounds[0] <= low and high <= bounds[1]:
        low, high = bounds
    counts, edges = np.histogram(values, bins=_BINS, range=(low, high))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


class ReasonCounts:
    """Counts what verifiers and judges said, with numbers replaced by "#".

    "212 words, 80 to 120 required" and "76 words, 80 to 120 required" are one kind: "# words, # to # required".
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._uncounted = 0

    def add(self, reason: str) -> None:
        """Count a reason; an empty one is ignored."""
        kind = _NUMBER.sub("#", reason.strip())[:_LONGEST_KIND]
        if not kind:
            return
        if kind in self._counts or len(self._counts) < _MOST_KINDS:
            self._counts[kind] += 1
        else:
            self._uncounted += 1

    def list_most_common(self) -> list[tuple[str, int]]:
        """Return (kind, count) of the most frequent kinds, and ("others", count) for the rest."""
        kinds = self._counts.most_common(_SHOWN_KINDS)
        rest = sum(self._counts.values()) + self._uncounted - sum(count for _, count in kinds)
        return [*kinds, ("others", rest)] if rest else kinds


def to_plain_numbers(data: Any) -> Any:
    """Return a copy that JSON can hold: NumPy numbers become Python's, with nine digits, NaN and infinity None."""
    if isinstance(data, dict):
        return {str(key): to_plain_numbers(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_plain_numbers(item) for item in data]
    if isinstance(data, float | np.floating):
        return float(f"{data:.9g}") if math.isfinite(data) else None
    if isinstance(data, np.integer):
        return int(data)
    return data
