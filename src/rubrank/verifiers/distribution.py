"""Distributions over the values of a criterion: how likely a verdict holds each of them to be.

    ((0.0, 0.2), (1.0, 0.8))          0 with 20%, 1 with 80%

It comes from a decision model, from the log-probabilities of a judge's verdict, or from several answers to the same
question. `rubrank.scores.outcomes` compares two of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rubrank.errors import InvalidInput, only_our_errors

Distribution: TypeAlias = tuple[tuple[float, float], ...]
"""(value, probability) pairs, lowest value first, probabilities that add up to 1; empty: none is known."""

_SUM_TOLERANCE = 0.02  # servers round probabilities; their sum may be off by as much
_ROUNDING = 1e-9


@only_our_errors
def make_distribution(
    probabilities: Mapping[Any, Any] | Iterable[Any], owner: str = "probabilities"
) -> Distribution:
    """Return a distribution from {value: probability} or pairs, scaled to add up to 1.

    Raises if a probability is not a number from 0 to 1, a value occurs twice, or they do not add up to about 1.
    """
    pairs = probabilities.items() if isinstance(probabilities, Mapping) else probabilities
    try:
        distribution = sorted((float(value), float(probability)) for value, probability in pairs)
    except (TypeError, ValueError, OverflowError):  # the last: an integer of 400 digits in a reply
        distribution = []
    values = [value for value, _ in distribution]
    total = math.fsum(probability for _, probability in distribution)
    is_valid = (
        len(set(values)) == len(values)
        and all(map(math.isfinite, values))
        and all(0.0 <= probability <= 1.0 for _, probability in distribution)
        and abs(total - 1.0) <= _SUM_TOLERANCE
    )
    if not is_valid:
        raise InvalidInput(
            owner,
            "probabilities",
            allowed="pairs of different finite values and their probabilities, each from 0 to 1 and together 1",
            got=repr(probabilities)[:80],
            remedy="Give all levels.",
        )
    if abs(total - 1.0) < _ROUNDING:  # what a file holds must come back unchanged
        return tuple(distribution)
    return tuple((value, probability / total) for value, probability in distribution)


def mix_distributions(distributions: Sequence[Distribution]) -> Distribution:
    """Return the mean of several distributions: those of a panel, or of several samples of one judge."""
    total: dict[float, float] = {}
    for distribution in distributions:
        for value, probability in distribution:
            total[value] = total.get(value, 0.0) + probability
    return tuple((value, total[value] / len(distributions)) for value in sorted(total))


def mean_of(distribution: Distribution) -> float:
    """Return the expected value of a distribution."""
    return math.fsum(value * probability for value, probability in distribution)


def most_probable(distribution: Distribution, higher_is_better: bool) -> float:
    """Return the likeliest value; of equally likely ones the least favourable."""
    highest = max(probability for _, probability in distribution)
    tied = [value for value, probability in distribution if probability == highest]
    return tied[0] if higher_is_better else tied[-1]


def sureness(distribution: Distribution) -> float:
    """Return by how much the likeliest value is more probable than the next: 1 = certain, 0 = undecided."""
    probabilities = sorted((probability for _, probability in distribution), reverse=True)
    return probabilities[0] - probabilities[1] if len(probabilities) > 1 else 1.0
