"""Measure the parts of an audit that need no fitted model: coverage, consistency, agreement, position.

    coverage        how many verdicts are missing, how many pairs tie
    consistency     does a judge give the same verdicts when it is asked again?
    agreement       do two judges, or a judge and people, give the same verdicts?
    position        does the response that was shown first win more often?

Each function returns rows of the result. What cannot be measured is appended to `unmeasured`, with the reason.
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
    average_draws,
    compute_interval,
    make_alpha_measure,
    make_correlation_measure,
    make_kappa_measure,
    make_within_measure,
    ratio_measure,
    read_ratings,
    wilson,
)

Positions: TypeAlias = Mapping[str, tuple[float, int]]
"""criterion → (wins of the response shown first, comparisons)"""

_OWNER = "audit"


# ------------------------------------------------------------------------------------------------ coverage, consistency


def measure_coverage(cases: Cases, resampling: Resampling) -> tuple[Coverage, ...]:
    """Return the missing verdicts over all runs of each judge, and the ties in its first run.

    One row for each criterion, and one for all of them.
    """
    rows = []
    for name, runs in cases.judges.items():
        requested = sum(run.asked.sum(axis=0) for run in runs)
        missing = sum((run.asked & np.isnan(run.scores)).sum(axis=0) for run in runs)
        pairs = np.zeros((cases.group_count, len(cases.criteria)))
        ties = np.zeros(pairs.shape)
        for g, k in np.ndindex(*pairs.shape):
            outcomes = compare_group(cases, runs[0], g, k)
            # Every pair is in the matrix twice: as (i, j) and as (j, i).
            pairs[g, k] = np.count_nonzero(~np.isnan(outcomes)) / 2.0
            ties[g, k] = np.count_nonzero(outcomes == 0.5) / 2.0
        for criterion, columns in cases.list_parts(runs[0].asked.any(axis=0)):
            group_ties = ties[:, columns].sum(axis=1)
            group_pairs = pairs[:, columns].sum(axis=1)
            rows.append(
                Coverage(
                    judge=name,
                    criterion=criterion,
                    asked=int(requested[columns].sum()),
                    missing=int(missing[columns].sum()),
                    ties=resampling.estimate(ratio_measure(group_ties, group_pairs)),
                    all_tied=int(((group_ties == group_pairs) & (group_pairs > 0)).sum()),
                )
            )
    return tuple(rows)


def measure_all_consistency(
    cases: Cases, resampling: Resampling, unmeasured: list[Unmeasured]
) -> tuple[Consistency, ...]:
    """Return the consistency of every judge that was asked more than once: on each criterion, and the mean."""
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
    """Return how alike the runs of one rater are on criterion k; None: the mean over all criteria."""
    columns = range(len(cases.criteria)) if k is None else [k]
    identical = []
    alphas = []
    for column in columns:
        ratings = np.stack([run.scores[:, column] for run in runs])
        alpha = make_alpha_measure(
            read_ratings(_OWNER, ratings, texts=False), "ordinal", resampling
        )
        alphas.append(resampling.measure(alpha))
        # For each response: how many pairs of runs scored it, and how many of these gave the same score.
        pairs = np.zeros(ratings.shape[1])
        equal = np.zeros(ratings.shape[1])
        for x, y in combinations(ratings, 2):
            pairs += ~(np.isnan(x) | np.isnan(y))
            equal += x == y  # False if one of them is NaN
        share = ratio_measure(resampling.sum_by_cluster(equal), resampling.sum_by_cluster(pairs))
        identical.append(resampling.measure(share))
    return Consistency(
        judge=name,
        criterion=None if k is None else cases.criteria[k],
        runs=len(runs),
        identical=compute_interval(average_draws(identical)),
        alpha=compute_interval(average_draws(alphas)),
        deviation=_measure_deviation(k, runs, resampling),
    )


def _measure_deviation(k: int | None, runs: Sequence[JudgeRun], resampling: Resampling) -> Estimate:
    """Return how much the scores of one response vary between runs, pooled over all responses.

    √( Σ (score − mean of the response's scores)² / Σ (number of its scores − 1) )

    NaN for all criteria together (k is None), because their scales differ, and if responses were compared, because
    shares of wins are not scores.
    """
    was_compared = any(column == k for run in runs for _, column in run.outcomes)
    if k is None or was_compared:
        return Estimate(math.nan)
    ratings = np.stack([run.scores[:, k] for run in runs])
    count = (~np.isnan(ratings)).sum(axis=0)
    mean = np.nansum(ratings, axis=0) / np.maximum(count, 1)
    squares = np.nansum((ratings - mean) ** 2, axis=0)
    degrees_of_freedom = np.maximum(count - 1, 0)
    variance = resampling.estimate(
        ratio_measure(
            resampling.sum_by_cluster(squares), resampling.sum_by_cluster(degrees_of_freedom)
        )
    )
    return Estimate(
        value=math.sqrt(variance.value),
        low=math.sqrt(variance.low),
        high=math.sqrt(variance.high),
        n=variance.n,
    )


# ---------------------------------------------------------------------------------------------------------- agreement


def measure_agreement(
    cases: Cases,
    raters: Mapping[str, JudgeRun],
    resampling: Resampling,
    unmeasured: list[Unmeasured],
) -> tuple[Agreement, ...]:
    """Return the agreement of every two raters: on each criterion, and the mean over criteria."""
    if len(cases.judges) < 2:
        unmeasured.append(
            Unmeasured("agreement between judges", next(iter(cases.judges)), "no other judge")
        )
    if not cases.humans:
        unmeasured.append(Unmeasured("agreement with humans", "all judges", "no human labels"))
    agreements = []
    for a, b in combinations(raters, 2):
        draws_of_criteria = []
        for k, criterion in enumerate(cases.criteria):
            x = raters[a].scores[:, k]
            y = raters[b].scores[:, k]
            if (np.isnan(x) | np.isnan(y)).all():
                continue
            ratings = read_ratings(_OWNER, [x, y], texts=False)
            # In the order of the fields of Agreement.
            measures = (
                make_kappa_measure(ratings, "quadratic", resampling),
                make_alpha_measure(ratings, "ordinal", resampling),
                make_within_measure(x, y, resampling),
                make_correlation_measure(x, y, resampling, "kendall"),
            )
            draws = [resampling.measure(measure) for measure in measures]
            draws_of_criteria.append(draws)
            agreements.append(Agreement(a, b, criterion, *map(compute_interval, draws)))
        if not draws_of_criteria:
            unmeasured.append(
                Unmeasured("agreement", f"{a} and {b}", "no rollout that both have judged")
            )
            continue
        mean_of_measures = [average_draws(draws) for draws in zip(*draws_of_criteria, strict=True)]
        agreements.append(Agreement(a, b, None, *map(compute_interval, mean_of_measures)))
    return tuple(agreements)


# ----------------------------------------------------------------------------------------------------------- position


def measure_position(
    cases: Cases,
    positions: Mapping[str, Positions] | Positions | None,
    unmeasured: list[Unmeasured],
) -> tuple[Position, ...]:
    """Return the wins of the response shown first, for every judge that compared: each criterion, and all together.

    positions: the argument of `audit`; None: they are counted from the provenance of the tables. If there is one judge,
        its counts may be passed without its name.
    """
    by_judge: Mapping[str, Any] = _count_positions(cases) if positions is None else positions
    has_judges = any(isinstance(value, Mapping) for value in by_judge.values())
    if by_judge and not has_judges and len(cases.judges) == 1:
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


def _count_positions(cases: Cases) -> dict[str, dict[str, tuple[float, int]]]:
    """Return judge → criterion → (wins of the response shown first, comparisons), over all runs that compared."""
    totals: dict[str, dict[str, tuple[float, int]]] = {}
    for judge, runs in cases.provenance.items():
        counts = totals.setdefault(judge, {})
        for run in filter(None, runs):
            for criterion, (wins, comparisons) in run.positions.items():
                earlier_wins, earlier_comparisons = counts.get(criterion, (0.0, 0))
                counts[criterion] = (earlier_wins + wins, earlier_comparisons + comparisons)
    return totals


def _read_count(judge: str, criterion: str, pair: Any) -> tuple[float, int]:
    """Return a pair (wins, comparisons) that the caller passed; raises InvalidInput if it is none."""
    try:
        wins = float(pair[0])
        comparisons = int(pair[1])
    except (TypeError, ValueError, IndexError, KeyError):
        wins = math.nan
        comparisons = 0
    if not 0.0 <= wins <= comparisons:
        raise InvalidInput(
            _OWNER,
            f"positions of {judge!r} on {criterion!r}",
            allowed="(wins of the response shown first, comparisons)",
            got=repr(pair),
            remedy="Ties count half a win.",
        )
    return wins, comparisons
