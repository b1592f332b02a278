"""The parts of an audit that work without fitting a model: coverage, consistency, position, agreement.

What cannot be measured is appended to `unmeasured`, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.studies.audit.cases import Cases, JudgeRun, compare_group
from rubrank.studies.audit.result import Agreement, Consistency, Coverage, Position, Unmeasured
from rubrank.studies.statistics import (
    Estimate,
    Resampling,
    alpha_measure,
    correlation_measure,
    kappa_measure,
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


def measure_coverage(cases: Cases, resampling: Resampling) -> tuple[Coverage, ...]:
    """Missing verdicts over all runs of a judge, and ties in its first run."""
    rows = []
    for name, runs in cases.judges.items():
        for k, criterion in enumerate(cases.criteria):
            if not runs[0].asked[:, k].any():
                continue
            requested = sum(int(run.asked[:, k].sum()) for run in runs)
            missing = sum(int(np.isnan(run.scores[run.asked[:, k], k]).sum()) for run in runs)
            tables = [compare_group(cases, runs[0], g, k) for g in range(len(cases.labels))]
            pairs = np.array([np.count_nonzero(~np.isnan(table)) / 2.0 for table in tables])
            ties = np.array([np.count_nonzero(table == 0.5) / 2.0 for table in tables])
            share = resampling.estimate(ratio_measure(ties, pairs))
            all_tied = int(((ties == pairs) & (pairs > 0)).sum())
            rows.append(Coverage(name, criterion, requested, missing, share, all_tied))
    return tuple(rows)


def measure_all_consistency(
    cases: Cases, resampling: Resampling, unmeasured: list[Unmeasured]
) -> tuple[Consistency, ...]:
    """Every judge that was asked more than once: each criterion, and their mean."""
    rows = []
    for name, runs in cases.judges.items():
        if len(runs) < 2:
            unmeasured.append(
                Unmeasured("self-consistency", name, "one run only: ask the same questions again")
            )
            continue
        columns = [
            k for k in range(len(cases.criteria)) if any(run.asked[:, k].any() for run in runs)
        ]
        rows += [measure_consistency(name, k, runs, cases, resampling) for k in [*columns, None]]
    return tuple(rows)


def measure_consistency(
    name: str, k: int | None, runs: Sequence[JudgeRun], cases: Cases, resampling: Resampling
) -> Consistency:
    """How alike the runs are on criterion k; None: the mean over all criteria."""
    identical = []
    alphas = []
    for column in range(len(cases.criteria)) if k is None else [k]:
        ratings = np.stack([run.scores[:, column] for run in runs])
        alpha = alpha_measure(read_ratings(_OWNER, ratings, texts=False), "ordinal", resampling)
        alphas.append(resampling.measure(alpha))
        equal = np.zeros(ratings.shape[1])
        pairs = np.zeros(ratings.shape[1])
        for x, y in combinations(ratings, 2):
            pairs += ~(np.isnan(x) | np.isnan(y))
            equal += x == y
        share = ratio_measure(resampling.sum_by_cluster(equal), resampling.sum_by_cluster(pairs))
        identical.append(resampling.measure(share))
    return Consistency(
        name,
        None if k is None else cases.criteria[k],
        len(runs),
        percentile_interval(mean_draws(identical)),
        percentile_interval(mean_draws(alphas)),
        _measure_deviation(k, runs, resampling),
    )


def _measure_deviation(k: int | None, runs: Sequence[JudgeRun], resampling: Resampling) -> Estimate:
    """√( Σ (score − mean of the response's scores)² / Σ (number of its scores − 1) ): how much scores vary."""
    was_compared = any(column == k for run in runs for _, column in run.outcomes)
    # Scales differ between criteria, and shares of wins are not scores.
    if k is None or was_compared:
        return Estimate(math.nan)
    ratings = np.stack([run.scores[:, k] for run in runs])
    count = (~np.isnan(ratings)).sum(axis=0)
    mean = np.nansum(ratings, axis=0) / np.maximum(count, 1)
    squares = np.where(count > 1, np.nansum((ratings - mean) ** 2, axis=0), 0.0)
    freedom = np.maximum(count - 1, 0)
    measure = ratio_measure(resampling.sum_by_cluster(squares), resampling.sum_by_cluster(freedom))
    variance = resampling.estimate(measure)
    return Estimate(
        math.sqrt(variance.value), math.sqrt(variance.low), math.sqrt(variance.high), variance.n
    )


# ---------------------------------------------------------------------------------------------------------- agreement


def measure_agreement(
    cases: Cases,
    raters: Mapping[str, JudgeRun],
    resampling: Resampling,
    unmeasured: list[Unmeasured],
) -> tuple[Agreement, ...]:
    """Every two raters: each criterion, and the mean over criteria."""
    if len(cases.judges) < 2:
        unmeasured.append(
            Unmeasured("agreement between judges", next(iter(cases.judges)), "no other judge")
        )
    if not cases.humans:
        unmeasured.append(Unmeasured("agreement with humans", "all judges", "no human labels"))
    agreements = []
    for a, b in combinations(raters, 2):
        rows = []
        for k, criterion in enumerate(cases.criteria):
            x = raters[a].scores[:, k]
            y = raters[b].scores[:, k]
            if (np.isnan(x) | np.isnan(y)).all():
                continue
            ratings = read_ratings(_OWNER, [x, y], texts=False)
            measures = (
                kappa_measure(ratings, "quadratic", resampling),
                alpha_measure(ratings, "ordinal", resampling),
                within_measure(x, y, resampling),
                correlation_measure(x, y, resampling, "kendall"),
            )
            row = [resampling.measure(measure) for measure in measures]
            rows.append(row)
            agreements.append(Agreement(a, b, criterion, *(percentile_interval(d) for d in row)))
        if not rows:
            unmeasured.append(
                Unmeasured("agreement", f"{a} and {b}", "no rollout that both have judged")
            )
            continue
        means = [mean_draws(column) for column in zip(*rows, strict=True)]
        agreements.append(Agreement(a, b, None, *(percentile_interval(d) for d in means)))
    return tuple(agreements)


# ----------------------------------------------------------------------------------------------------------- position


def measure_position(
    cases: Cases,
    positions: Mapping[str, Positions] | Positions,
    unmeasured: list[Unmeasured],
) -> tuple[Position, ...]:
    """Wins of the response shown first, for every judge that compared: each criterion, and all together."""
    by_judge: Mapping[str, Any] = positions
    if by_judge and not any(isinstance(value, Mapping) for value in by_judge.values()):
        if len(cases.judges) > 1:
            allowed = "{judge: {criterion: (wins, comparisons)}} with several judges"
            raise InvalidInput(
                _OWNER, "positions", allowed, "one without judges", "Say whose they are."
            )
        by_judge = {next(iter(cases.judges)): by_judge}
    for name in by_judge:
        if name not in cases.judges:
            raise UnknownName.of(_OWNER, "positions key", name, cases.judges)
    rows = []
    for name in cases.judges:
        counts = {
            criterion: _read_count(name, criterion, pair)
            for criterion, pair in by_judge.get(name, {}).items()
        }
        wins = sum(criterion_wins for criterion_wins, _ in counts.values())
        comparisons = sum(n for _, n in counts.values())
        if not comparisons:
            unmeasured.append(
                Unmeasured("position bias", name, "no comparisons of responses shown in an order")
            )
            continue
        rows += [Position(name, criterion, wilson(*count)) for criterion, count in counts.items()]
        rows.append(Position(name, None, wilson(wins, comparisons)))
    return tuple(rows)


def _read_count(judge: str, criterion: str, pair: Any) -> tuple[float, int]:
    try:
        wins = float(pair[0])
        comparisons = int(pair[1])
    except (TypeError, ValueError, IndexError, KeyError):
        wins = math.nan
        comparisons = 0
    if not 0.0 <= wins <= comparisons:
        allowed = "(wins of the response shown first, comparisons)"
        where = f"positions of {judge!r} on {criterion!r}"
        raise InvalidInput(_OWNER, where, allowed, repr(pair), "Ties count half a win.")
    return wins, comparisons
