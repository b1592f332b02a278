"""Compile the numeric kernels before they are needed: when an image is built, or before many ranks start.

    warm_up()      {"bradley-terry: attributes, pool batch": 3.1, …}: seconds for each case; nearly 0 the next time

Kernels are compiled on first use and cached in numba's folder (NUMBA_CACHE_DIR, else beside the installed files).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rubrank.fusion.models.model import model_names
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.scores.batch import ScoreBatch


def warm_up(progress: Callable[[int, int], None] | None = None) -> dict[str, float]:
    """Fit small batches of every shape with every model. Returns the seconds of each case."""
    batches = _make_batches()
    with_attributes = _make_batches(attributes=True)
    cases: dict[str, tuple[list[ScoreBatch], dict[str, Any]]] = {}
    for model in model_names():
        cases[f"{model}: no attributes"] = (batches, {"model": model})
        if model == "borda":  # it counts wins, without a fit that could use attributes
            continue
        for pool in ("group", "batch", "run"):
            controlled = {"model": model, "pool": pool, "adjust": "remove"}
            cases[f"{model}: attributes, pool {pool}"] = (with_attributes, controlled)

    seconds: dict[str, float] = {}
    for name, (case_batches, options) in cases.items():
        began = time.perf_counter()
        for batch in case_batches:
            RLVR2(**options)(batch)
        seconds[name] = time.perf_counter() - began
        if progress is not None:
            progress(len(seconds), len(cases))
    return seconds


def _make_batches(attributes: bool = False) -> list[ScoreBatch]:
    """Make batches that use all code paths: small and large groups, with and without missing scores and margins."""
    rng = np.random.default_rng(0)
    batches = []
    for shape in ((8, 4, 3), (8, 64, 3), (2, 300, 2)):
        scores = rng.random(shape)
        options: dict[str, Any] = {"attributes": rng.random((*shape[:2], 2))} if attributes else {}
        with_missing = np.where(rng.random(shape) < 0.2, np.nan, scores)
        batches.append(ScoreBatch.of_arrays(scores, **options))
        batches.append(ScoreBatch.of_arrays(with_missing, margins=0.1, **options))
    return batches
