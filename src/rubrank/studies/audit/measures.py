"""The parts of an audit that need no fit: coverage, consistency, position, agreement.

Whatever cannot be measured is appended to `missing`, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.studies.audit.cases import Cases, JudgeRun, group_outcomes
from rubrank.studies.audit.result import Agreement, Consistency, Coverage, Position, Unmeasured
from rubrank.studies.statistics import (
    Draws,
    Estimate,
    Resampling,
    alpha_measure,
    kappa_measure,
    kendall_measure,
    mean_draws,
    percentile_interval,
    ratio_measure,
    read_ratings,
    wilson,
    within_measure,
)

Positions: TypeAlias = Mapping[str, tuple[float, int]]
"""criterion → (wins of the response shown first, comparisons)"""

_OWNER = "audit"


# ------------------------------------------------------------------------------------------------ coverage, consistency


def coverage(cases: Cases, draw: Resampling) -> tuple[Coverage, ...]:
    """Missing verdicts of all runs, ties of the first."""
    rows = []
    for name, runs in cases.judges.items():
        for k, criterion in enumerate(cases.criteria):
            if not runs[0].asked[:, k].any():
                continue
            tables = [group_outcomes(cases, runs[0], g, k) for g in range(len(cases.labels))]
            pairs = np.array([np.count_nonzero(~np.isnan(table)) / 2.0 for table in tables])
            ties = np.array([np.count_nonzero(table == 0.5) / 2.0 for table in tables])
            cells = [run.scores[run.asked[:, k], k] for run in runs]
            asked, gone = sum(map(len, cells)), sum(int(np.isnan(cell).sum()) for cell in cells)
            share = draw.estimate(ratio_measure(ties, pairs))
            rows.append(Coverage(name, criterion, asked, gone, share, int(((ties == pairs) & (pairs > 0)).sum())))
    return tuple(rows)


def consistency(cases: Cases, draw: Resampling, missing: list[Unmeasured]) -> tuple[Consistency, ...]:
    """Every judge that was asked more than once: each criterion, and their mean."""
    rows = []
    for name, runs in cases.judges.items():
        if len(runs) < 2:
            missing.append(Unmeasured("self-consistency", name, "one run only: ask the same questions again"))
            continue
        columns = [k for k in range(len(cases.criteria)) if any(run.asked[:, k].any() for run in runs)]
        rows += [measure_consistency(name, k, runs, cases, draw) for k in [*columns, None]]
    return tuple(rows)


def measure_consistency(
    name: str, k: int | None, runs: Sequence[JudgeRun], cases: Cases, draw: Resampling
) -> Consistency:
    """How alike the runs are on criterion k; None: the mean over all criteria."""
    columns = range(len(cases.criteria)) if k is None else [k]
    identical = []
    alphas = []
    for column in columns:
        ratings = np.stack([run.scores[:, column] for run in runs])
        alphas.append(draw.measure(alpha_measure(read_ratings(_OWNER, ratings, texts=False), "ordinal", draw)))
        identical.append(draw.measure(ratio_measure(*_identical(ratings, draw))))
    return Consistency(
        name,
        None if k is None else cases.criteria[k],
        len(runs),
        percentile_interval(mean_draws(identical), draw.level),
        percentile_interval(mean_draws(alphas), draw.level),
        _measure_deviation(k, runs, draw),
    )


def _measure_deviation(k: int | None, runs: Sequence[JudgeRun], draw: Resampling) -> Estimate:
    """√( Σ (score − mean of the response's scores)² / Σ (number of its scores − 1) ): how much scores vary."""
    was_compared = any(column == k for run in runs for _, column in run.outcomes)
    if k is None or was_compared:  # scales differ between criteria, and shares of wins are no scores
        return Estimate(math.nan)
    ratings = np.stack([run.scores[:, k] for run in runs])
    count = (~np.isnan(ratings)).sum(axis=0)
    mean = np.nansum(ratings, axis=0) / np.maximum(count, 1)
    squares = np.nansum((ratings - mean) ** 2, axis=0)
    freedom = np.maximum(count - 1, 0)
    squares_of_group = np.bincount(draw.of_row, np.where(count > 1, squares, 0.0), minlength=draw.clusters)
    freedom_of_group = np.bincount(draw.of_row, freedom, minlength=draw.clusters)
    variance = percentile_interval(draw.measure(ratio_measure(squares_of_group, freedom_of_group)), draw.level)
    return Estimate(math.sqrt(variance.value), math.sqrt(variance.low), math.sqrt(variance.high), variance.n)


def _identical(ratings: np.ndarray, draw: Resampling) -> tuple[np.ndarray, np.ndarray]:
    """For every group, how many pairs of verdicts about the same rollout are equal, and how many there are."""
    same, pairs = np.zeros(ratings.shape[1]), np.zeros(ratings.shape[1])
    for x, y in combinations(ratings, 2):
        pairs += ~(np.isnan(x) | np.isnan(y))
        same += x == y
    count = draw.clusters
    return np.bincount(draw.of_row, same, minlength=count), np.bincount(draw.of_row, pairs, minlength=count)


# ---------------------------------------------------------------------------------------------------------- agreement


def agreement(
    cases: Cases, everyone: Mapping[str, JudgeRun], draw: Resampling, missing: list[Unmeasured]
) -> tuple[Agreement, ...]:
    """Every two of everyone: each criterion, and the mean over those."""
    if len(cases.judges) < 2:
        missing.append(Unmeasured("agreement between judges", next(iter(cases.judges)), "no other judge"))
    if not cases.humans:
        missing.append(Unmeasured("agreement with humans", "all judges", "no human labels"))
    agreements = []
    for a, b in combinations(everyone, 2):
        rows = []
        for k, criterion in enumerate(cases.criteria):
            x, y = everyone[a].scores[:, k], everyone[b].scores[:, k]
            if not (np.isnan(x) | np.isnan(y)).all():
                rows.append(_compare(x, y, draw))
                agreements.append(
                    Agreement(a, b, criterion, *(percentile_interval(measured, draw.level) for measured in rows[-1]))
                )
        if rows:
            means = (percentile_interval(mean_draws(some), draw.level) for some in zip(*rows, strict=True))
            agreements.append(Agreement(a, b, None, *means))
        else:
            missing.append(Unmeasured("agreement", f"{a} and {b}", "no rollout that both have judged"))
    return tuple(agreements)


def _compare(x: np.ndarray, y: np.ndarray, draw: Resampling) -> tuple[Draws, Draws, Draws, Draws]:
    rated = read_ratings(_OWNER, [x, y], texts=False)
    return (
        draw.measure(kappa_measure(rated, "quadratic", draw)),
        draw.measure(alpha_measure(rated, "ordinal", draw)),
        draw.measure(within_measure(x, y, draw)),
        draw.measure(kendall_measure(x, y, draw)),
    )


# ----------------------------------------------------------------------------------------------------------- position


def position(
    cases: Cases,
    positions: Mapping[str, Positions] | Positions | None,
    level: float,
    missing: list[Unmeasured],
) -> tuple[Position, ...]:
    """Wins of the response shown first, for every judge that compared: each criterion, and all together."""
    by_judge: dict[str, Any] = dict(positions or {})
    if by_judge and not any(isinstance(value, Mapping) for value in by_judge.values()):
        if len(cases.judges) > 1:
            allowed = "{judge: {criterion: (wins, comparisons)}} with several judges"
            raise InvalidInput(_OWNER, "positions", allowed, "one without judges", "Say whose they are.")
        by_judge = {next(iter(cases.judges)): by_judge}
    for name in by_judge:
        if name not in cases.judges:
            raise UnknownName.of(_OWNER, "positions key", name, cases.judges)
    rows = []
    for name in cases.judges:
        counts = {criterion: _count(name, criterion, pair) for criterion, pair in by_judge.get(name, {}).items()}
        total = (sum(wins for wins, _ in counts.values()), sum(n for _, n in counts.values()))
        if not total[1]:
            missing.append(Unmeasured("position bias", name, "no comparisons of responses shown in an order"))
            continue
        rows += [Position(name, criterion, wilson(*pair, level)) for criterion, pair in counts.items()]
        rows.append(Position(name, None, wilson(*total, level)))
    return tuple(rows)


def _count(judge: str, criterion: str, pair: Any) -> tuple[float, int]:
    try:
        wins, n = float(pair[0]), int(pair[1])
    except (TypeError, ValueError, IndexError, KeyError):
        wins, n = math.nan, 0
    if not 0.0 <= wins <= n:
        allowed = "(wins of the response shown first, comparisons)"
        where = f"positions of {judge!r} on {criterion!r}"
        raise InvalidInput(_OWNER, where, allowed, repr(pair), "Ties count half a win.")
    return wins, n
