"""Scores → outcomes: who beats whom on a criterion.

scores 1.0, 0.2, 0.9 with margin 0.15     →     0.5  1    0.5       row i, column j: 1 = i beats j,
                                                0    0.5  0         0.5 = tie, 0 = i loses,
                                                0.5  1    0.5       NaN = not compared
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""0.8 − 0.5 is a little more than 0.3, by rounding alone: a margin of 0.3 ties them all the same."""


def reach(a: np.ndarray, b: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """What a difference must exceed to count; without a margin every difference does."""
    return np.where(margins > 0.0, margins + ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0)


@only_our_errors
def outcomes(scores: ArrayLike, margins: ArrayLike = 0.0) -> np.ndarray:
    """Outcomes (G, G, K) of one group's scores (G, K); a missing score is not compared.

    `margins` is one number or one for each criterion: differences of at most that much are ties.
    """
    scores_GK = np.asarray(scores, dtype=float)
    if scores_GK.ndim != 2 or np.isinf(scores_GK).any():
        got = f"shape {scores_GK.shape}" if scores_GK.ndim != 2 else "infinity"
        raise InvalidInput("outcomes", "scores", "finite or NaN, of shape (rollouts, criteria)", got, "Pass one group.")
    if not (np.asarray(margins) >= 0.0).all():
        raise InvalidInput("outcomes", "margins", "≥ 0", repr(margins), "Use 0 for 'every difference counts'.")
    with np.errstate(over="ignore"):  # an infinite difference is beyond any margin
        difference = scores_GK[:, None, :] - scores_GK[None, :, :]
    least = reach(scores_GK[:, None, :], scores_GK[None, :, :], np.asarray(margins, dtype=float))
    result = 0.5 + 0.5 * (difference > least) - 0.5 * (difference < -least)
    return np.where(np.isnan(difference), np.nan, result)
