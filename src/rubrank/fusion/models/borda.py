"""Borda: wins minus losses, no probability model.

    u_i = (wins_i − losses_i) / (2 · ridge_i)

which is what Bradley–Terry becomes as its prior grows strong.
"""

from __future__ import annotations

import numpy as np


class BordaCount:
    """Half of wins minus losses, over the prior's precision."""

    name = "borda"
    weighted = True

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """See the module."""
        return (wins.sum(-1) - wins.sum(-2)) / (2.0 * ridge)
