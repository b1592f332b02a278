"""Means over the steps of training, from the columns of an index.

    curves_of(index)["curves"][0]     {"kind": "run", "name": "groups without signal", "points": [[0, 0.1, 0.02], …]}
    steps_of(index)                   [{"step": 0, "groups": 128, "no_signal": 0.1, "stopped": 0.02, …}, …]

A point is (step, mean over groups, half of its 95% interval), as in the report.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rubrank.records import facts
from rubrank.records.report.moments import Moments
from rubrank.records.report.steps import Bins
from rubrank.records.viewer.index import EVALUATION, NO_STEP, UNREADABLE, Index

_SHOWN = 24  # curves of a kind


def curves_of(index: Index) -> dict[str, Any]:
    """The run's curves, then those of the criteria and attributes that most groups have."""
    n = index.ready
    at, steps, width = _binned(index, n)
    bits, used = index.facts["bits"][:n], at >= 0
    told = {
        "groups without signal": (bits & facts.NO_SIGNAL > 0).astype(float),
        "stopped by a gate": index.facts["stopped"][:n] / np.maximum(index.facts["size"][:n], 1),
        "judges failed": (bits & facts.JUDGES_FAILED > 0).astype(float),
        "the longest wins": (bits & facts.LONGEST_WINS > 0).astype(float),
        "spread of rewards": index.facts["spread"][:n].astype(float),
    }
    curves = [_curve(name, at[used], values[used], steps) for name, values in told.items()]
    return {"steps": steps, "width": width, "curves": curves + _series(index, n, at, steps)}


def _series(index: Index, n: int, at: np.ndarray, steps: list[int]) -> list[dict[str, Any]]:
    """All series at once: one count over (series, point)."""
    numbers, groups, values = index.series.columns("series", "group", "average")
    names = list(index.names.items())
    known = np.flatnonzero(groups < n)
    known = known[at[groups[known]] >= 0]
    places = numbers[known].astype(np.int64) * len(steps) + at[groups[known]]
    sums = _sums(places, values[known].astype(float), len(names) * len(steps))
    tables = [column[: len(names) * len(steps)].reshape(len(names), len(steps)) for column in sums]
    shown, curves = Counter[str](), []
    for (kind, name), number in sorted(names, key=lambda item: -tables[0][item[1]].sum()):
        shown[kind] += 1
        if shown[kind] <= _SHOWN and tables[0][number].any():
            points = _points([table[number] for table in tables], steps)
            curves.append({"kind": kind, "name": name, "points": points})
    return curves


def _sums(at: np.ndarray, values: np.ndarray, places: int) -> list[np.ndarray]:
    """Count, sum and sum of squares at every place."""
    return [np.bincount(at, weights, minlength=places) for weights in (None, values, values * values)]


def _points(sums: list[np.ndarray], steps: list[int]) -> list[list[Any]]:
    found = [(place, Moments.of(*(column[place] for column in sums))) for place in np.flatnonzero(sums[0])]
    return [[steps[place], moments.mean, moments.half_width] for place, moments in found]


def _curve(name: str, at: np.ndarray, values: np.ndarray, steps: list[int]) -> dict[str, Any]:
    return {"kind": "run", "name": name, "points": _points(_sums(at, values, len(steps)), steps)}


def _binned(index: Index, n: int) -> tuple[np.ndarray, list[int], int]:
    """Of every group the place of its step among the points, −1 where it belongs to none."""
    step, bits = index.facts["step"][:n], index.facts["bits"][:n]
    used = (step != NO_STEP) & (bits & (EVALUATION | UNREADABLE) == 0)
    every = np.unique(step[used])
    bins = Bins(every.tolist())
    steps = every[:: bins.width].tolist() if len(every) else []
    at = np.full(n, -1)
    at[used] = np.searchsorted(every, step[used]) // bins.width
    return at, steps, bins.width


def steps_of(index: Index) -> list[dict[str, Any]]:
    """One row for each step: groups, rollouts, and how often something is to be looked at."""
    n = index.ready
    columns = {name: index.facts[name][:n] for name in ("step", "bits", "size", "stopped")}
    good = columns["bits"] & UNREADABLE == 0
    every, at = np.unique(columns["step"][good], return_inverse=True)
    bits = columns["bits"][good]
    groups = np.bincount(at, minlength=len(every))

    def share(bit: int) -> np.ndarray:
        return np.bincount(at, (bits & bit > 0).astype(float), minlength=len(every)) / np.maximum(groups, 1)

    rollouts = np.bincount(at, columns["size"][good], minlength=len(every))
    stopped = np.bincount(at, columns["stopped"][good], minlength=len(every)) / np.maximum(rollouts, 1)
    marks = {"noSignal": facts.NO_SIGNAL, "judgesFailed": facts.JUDGES_FAILED, "rulesDisagree": facts.RULES_DISAGREE}
    shares = {name: share(bit) for name, bit in {**marks, "longestWins": facts.LONGEST_WINS}.items()}
    return [
        {
            "step": None if step == NO_STEP else int(step),
            "groups": int(groups[i]),
            "rollouts": int(rollouts[i]),
            "stopped": float(stopped[i]),
            **{name: float(column[i]) for name, column in shares.items()},
        }
        for i, step in enumerate(every.tolist())
    ]


def common_prompts(one: Index, other: Index) -> list[tuple[int, int, float, float]]:
    """(group of one, group of the other, mean score here, mean score there), what differs most first."""
    last = [_last_asked(index) for index in (one, other)]
    shared, mine, theirs = np.intersect1d(last[0][0], last[1][0], return_indices=True)
    groups = last[0][1][mine], last[1][1][theirs]
    means = [_mean_scores(index)[some] for index, some in zip((one, other), groups, strict=True)]
    order = np.argsort(-np.abs(np.nan_to_num(means[1] - means[0])), kind="stable")
    columns = (*groups, *(np.nan_to_num(mean) for mean in means))
    return [tuple(column[at].item() for column in columns) for at in order] if len(shared) else []


def _last_asked(index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Every prompt, and the last group in the file that has it."""
    n = index.ready
    good = np.flatnonzero(index.facts["bits"][:n] & UNREADABLE == 0)[::-1]
    prompts, first = np.unique(index.facts["same"][good], return_index=True)
    return prompts, good[first]


def _mean_scores(index: Index) -> np.ndarray:
    """(ready,): mean over the criteria of a group; NaN without any."""
    n, (numbers, groups, values) = index.ready, index.series.columns("series", "group", "average")
    criteria = np.array([kind == "criterion" for kind, _ in list(index.names)] or [False])
    mine = criteria[numbers] & (groups < n)
    counts = np.bincount(groups[mine], minlength=n)
    totals = np.bincount(groups[mine], values[mine], minlength=n)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
