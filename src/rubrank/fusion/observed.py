"""Utilities of criteria on which responses were compared instead of scored."""

from __future__ import annotations

import numpy as np

from rubrank.fusion.model import UtilityModel
from rubrank.scores.observed import Cells, wins_of


def fit_observed(model: UtilityModel, prior: float, cells: Cells, starts: np.ndarray, u_MK: np.ndarray) -> None:
    """Write the utilities of every cell into u_MK; those of groups of a size are fitted side by side."""
    by_size: dict[int, list[tuple[int, int]]] = {}
    for cell, outcomes in cells.items():
        by_size.setdefault(len(outcomes), []).append(cell)
    for n, some in by_size.items():
        wins = np.stack([wins_of(cells[cell]) for cell in some])
        for (g, k), u in zip(some, model.fit(wins, np.full((len(some), n), prior)), strict=True):
            u_MK[starts[g] : starts[g + 1], k] = u
