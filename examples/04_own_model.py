"""Utility models of your own: a formula, and a probability that attributes can enter.

Run it: python examples/04_own_model.py

A model turns wins (n, n) into utilities (n,): wins[i, j] says how often i beat j, half for a tie.
"""

import numpy as np

import rubrank
from rubrank.fusion.models.newton import maximise


@rubrank.utility_model
class Bold:
    """Wins minus losses, squared with their sign: the best and the worst stand out."""

    name = "bold"

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The formula."""
        lead = (wins.sum(-1) - wins.sum(-2)) / ridge
        return np.sign(lead) * lead**2


@rubrank.utility_model
class Laplace:
    """i beats j with probability F(u_i − u_j), F being Laplace's distribution function."""

    name = "laplace"

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log F and its first two derivatives: all that a fit needs, with attributes and without."""
        tail = 0.5 * np.exp(-np.abs(x))
        below = x < 0.0  # there F is the tail itself, and its logarithm a straight line
        slope = np.where(below, 1.0, tail / (1.0 - tail))
        return np.where(below, x - np.log(2.0), np.log1p(-tail)), slope, np.where(below, 0.0, -slope * (1.0 + slope))

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The most probable utilities, by Newton's method."""
        return maximise(wins, ridge, self.link)


# Five rollouts on one criterion: one far ahead of two that tie, two behind.
scores = [[9], [5], [5], [3], [1]]
for model in ("bradley-terry", "thurstone", "borda", "laplace", "bold"):
    utilities = rubrank.utilities(scores, model=model)[:, 0]
    rewards = rubrank.fuse(scores, model=model)
    print(f"{model:<14} utilities", *(f"{u:+6.2f}" for u in utilities), "  rewards", *(f"{r:.2f}" for r in rewards))

# A model with a link can adjust for attributes; one without says so.
tokens = [[900], [700], [300], [250], [200]]
print("\nlaplace, length removed:", rubrank.fuse(scores, attributes=tokens, model="laplace").round(2))
try:
    rubrank.fuse(scores, attributes=tokens, model="bold")
except rubrank.InvalidInput as error:
    print(f"bold: {error}")
