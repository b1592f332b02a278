"""Measure the parts of an audit: coverage, consistency, agreement, position and bias.

    coverage        how many verdicts are missing, how many pairs tie
    consistency     does a judge give the same verdicts when it is asked again?
    agreement       do two judges, or a judge and people, give the same verdicts?
    position        does the response that was shown first win more often?
    bias            do longer responses, or those with more Markdown, win more often than they should?

Each function returns rows of the result. What cannot be measured is appended to `unmeasured`, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.arrays import utilities
from rubrank.fusion.control.attribute import Attribute, Texts, flatten_texts
from rubrank.fusion.control.attributes import measure
from rubrank.studies.audit.cases import Cases, JudgeRun, compare_group, name_columns
from rubrank.studies.audit.result import (
    HUMANS,
    Agreement,
    Bias,
    Consistency,
    Coverage,
    Position,
    Unmeasured,
)
from rubrank.studies.statistics import (
    Draws,
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
        rows += measure_consistency(name, runs, cases, resampling)
    return tuple(rows)


def measure_consistency(
    name: str, runs: Sequence[JudgeRun], cases: Cases, resampling: Resampling
) -> list[Consistency]:
    """Return how alike the runs of one rater are: on each criterion that it was asked about, then the mean."""
    rows = []
    all_identical = []
    all_alphas = []
    for k, criterion in enumerate(cases.criteria):
        if not any(run.asked[:, k].any() for run in runs):
            continue
        ratings = np.stack([run.scores[:, k] for run in runs])  # (runs, responses)
        codes = read_ratings(_OWNER, ratings, texts=False)
        alpha = resampling.measure(make_alpha_measure(codes, "ordinal", resampling))
        # For each response: how many pairs of runs scored it, and how many of these gave the same score.
        pairs = np.zeros(ratings.shape[1])
        equal = np.zeros(ratings.shape[1])
        for x, y in combinations(ratings, 2):
            pairs += ~(np.isnan(x) | np.isnan(y))
            equal += x == y  # False if one of them is NaN
        share = ratio_measure(resampling.sum_by_cluster(equal), resampling.sum_by_cluster(pairs))
        identical = resampling.measure(share)
        # If responses were compared, shares of wins stand for their scores: these have no deviation.
        deviation = Estimate(math.nan)
        if not any(column == k for run in runs for _, column in run.outcomes):
            deviation = _measure_deviation(ratings, resampling)
        rows.append(
            Consistency(
                judge=name,
                criterion=criterion,
                runs=len(runs),
                identical=compute_interval(identical),
                alpha=compute_interval(alpha),
                deviation=deviation,
            )
        )
        all_identical.append(identical)
        all_alphas.append(alpha)
    mean = Consistency(
        judge=name,
        criterion=None,
        runs=len(runs),
        identical=compute_interval(average_draws(all_identical)),
        alpha=compute_interval(average_draws(all_alphas)),
        deviation=Estimate(math.nan),  # the scales of the criteria differ
    )
    return [*rows, mean]


def _measure_deviation(ratings: np.ndarray, resampling: Resampling) -> Estimate:
    """Return how much the scores of one response vary between runs, pooled over all responses.

    √( Σ (score − mean of the response's scores)² / Σ (number of its scores − 1) )

    ratings: (runs, responses).
    """
    count = (~np.isnan(ratings)).sum(axis=0)
    mean = np.nansum(ratings, axis=0) / np.maximum(count, 1)
    squares = resampling.sum_by_cluster(np.nansum((ratings - mean) ** 2, axis=0))
    degrees_of_freedom = resampling.sum_by_cluster(np.maximum(count - 1, 0))
    variance = resampling.estimate(ratio_measure(squares, degrees_of_freedom))
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
    """Return a pair (wins, comparisons) that the caller passed; raises InvalidInput for anything else."""
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


# ---------------------------------------------------------------------------------------------------------------- bias
#
# Does a judge prefer length or Markdown? RLVR²'s attribute model is fitted to its verdicts:
#
#     Pr[i beats j on k] = σ(u_ki − u_kj + γ_k·z_ij)          one γ for each criterion and attribute, over all groups
#
# γ > 0: of two responses that the judge otherwise finds equally good, the one with more of the attribute wins.
# Intervals come from drawing whole groups again and refitting. γ says what goes with winning, not why: if longer
# responses *are* better, an honest judge has γ > 0 too. With human labels, their γ is fitted in the same draws, and the
# judge's excess over them is reported: a clear excess is a preference that people do not share. The absence of an
# excess proves less, because noise makes any γ smaller.


@dataclass(frozen=True, eq=False)
class _GammaFit:
    """γ of one rater, as observed and in every draw, for K criteria and D attributes."""

    gamma: np.ndarray
    """(K, D)"""
    draws: np.ndarray
    """(draws, K, D)"""
    wins: np.ndarray
    """(groups, K, D): wins of the response with more of the attribute, ties counted half."""
    pairs: np.ndarray
    """(groups, K, D): compared pairs that differ in the attribute."""
    informative_groups: np.ndarray
    """(K,): number of groups in which the criterion tells rollouts apart."""

    def average_gamma(self, columns: list[int], d: int) -> Draws:
        """Return γ of attribute d, averaged over criteria; n counts groups in which they tell rollouts apart."""
        return Draws(
            value=float(self.gamma[columns, d].mean()),
            draws=self.draws[:, columns, d].mean(axis=1),
            n=int(self.informative_groups[columns].max()),
        )


def measure_biases(
    cases: Cases,
    raters: Mapping[str, JudgeRun],
    values: np.ndarray,
    names: Sequence[str],
    resampling: Resampling,
) -> tuple[Bias, ...]:
    """Return the bias of every rater by every attribute: on each criterion that it judged, and the mean over these.

    values, names: the attributes that `read_attributes` returns.
    """
    if not names:
        return ()
    fits = {rater: _fit_rater(cases, run, values, resampling) for rater, run in raters.items()}
    humans_fit = fits[HUMANS] if cases.humans else None
    spread = measure_spread(cases, values)
    biases = []
    for rater, fit in fits.items():
        for criterion, columns in cases.list_parts(fit.informative_groups > 0):
            for d, attribute in enumerate(names):
                gamma_draws = fit.average_gamma(columns, d)
                gamma = compute_interval(gamma_draws)
                # Twice as much of an attribute is z = (2 − 1)/(2 + 1) = 1/3. The model divides z by the spread.
                log_odds = np.array([gamma.value, gamma.low, gamma.high]) / (3.0 * spread[d])
                odds, low, high = np.exp(log_odds).tolist()
                win_shares = []
                for k in columns:
                    share = ratio_measure(fit.wins[:, k, d], fit.pairs[:, k, d])
                    win_shares.append(resampling.measure(share))
                excess = None
                if (
                    humans_fit is not None
                    and fit is not humans_fit
                    and humans_fit.informative_groups[columns].all()
                ):
                    humans_draws = humans_fit.average_gamma(columns, d)
                    difference = Draws(
                        value=gamma_draws.value - humans_draws.value,
                        draws=gamma_draws.draws - humans_draws.draws,
                        n=gamma_draws.n,
                    )
                    excess = compute_interval(difference)
                biases.append(
                    Bias(
                        judge=rater,
                        criterion=criterion,
                        attribute=attribute,
                        gamma=gamma,
                        odds=Estimate(odds, low, high, gamma.n),
                        wins=compute_interval(average_draws(win_shares)),
                        excess=excess,
                    )
                )
    return tuple(biases)


def _fit_rater(
    cases: Cases, run: JudgeRun, values: np.ndarray, resampling: Resampling
) -> _GammaFit:
    """Fit γ to the verdicts of one rater, and count the wins of responses with more of an attribute."""
    gamma = _fit_gamma(cases, run, values, np.ones(cases.group_count))
    K, D = gamma.shape
    draws = np.zeros((0, K, D))
    if resampling.draws and resampling.clusters > 1:  # a single group cannot be drawn differently
        draws = resampling.draw_values(lambda times: _fit_gamma(cases, run, values, times))
    wins = np.zeros((cases.group_count, K, D))
    pairs = np.zeros((cases.group_count, K, D))
    informative_groups = np.zeros(K, np.int64)
    for g in range(cases.group_count):
        group_values = values[cases.find_rows(g)]
        has_more = group_values[:, None, :] > group_values[None, :, :]
        for k in range(K):
            outcomes = compare_group(cases, run, g, k)
            is_compared = ~np.isnan(outcomes)
            # Of the two directions of a pair, only (more, less) counts.
            is_counted = has_more & is_compared[:, :, None]
            pairs[g, k] = is_counted.sum(axis=(0, 1))
            wins[g, k] = (np.nan_to_num(outcomes)[:, :, None] * is_counted).sum(axis=(0, 1))
            if (outcomes[is_compared] != 0.5).any():
                informative_groups[k] += 1
    return _GammaFit(gamma, draws, wins, pairs, informative_groups)


def _fit_gamma(cases: Cases, run: JudgeRun, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return γ (K, D), fitted to the groups that were drawn.

    times: how often each group was drawn. A group that was drawn twice is in the data twice.
    """
    groups = np.repeat(np.arange(len(times)), times.astype(int))
    sizes = np.diff(cases.starts)[groups]
    draw_of_row = np.repeat(np.arange(len(groups)), sizes)
    rows = np.concatenate([np.arange(cases.starts[g], cases.starts[g + 1]) for g in groups])
    scores = run.scores[rows]
    # Where responses were compared, the fit uses the comparisons, not the shares of wins that replace scores.
    outcomes: dict[int, list[np.ndarray | None]] = {}
    for k in sorted({k for _, k in run.outcomes}):
        outcomes[k] = [run.outcomes.get((int(g), k)) for g in groups]
        for draw, table in enumerate(outcomes[k]):
            if table is not None:
                scores[draw_of_row == draw, k] = np.nan
    fitted = utilities(
        scores,
        groups=draw_of_row,
        attributes=values[rows],
        margins=run.margins[groups],
        outcomes=outcomes,
        pool="batch",
    )
    return fitted.gamma[0]  # with a pool of all groups there is one γ for all of them


def measure_spread(cases: Cases, values: np.ndarray) -> np.ndarray:
    """Return the typical difference of each attribute, (D,): root mean square of z over the pairs of all groups.

    z = (a_i − a_j)/(a_i + a_j), and 0 if both are 0.
    """
    squares = np.zeros(values.shape[1])
    pairs = 0
    for g in range(cases.group_count):
        a = values[cases.find_rows(g)]
        difference = a[:, None] - a[None]
        total = a[:, None] + a[None]
        z = difference / np.where(total > 0.0, total, 1.0)  # values are ≥ 0: 0/1 if both are 0
        squares += (z * z).sum(axis=(0, 1))
        pairs += len(a) * (len(a) - 1)
    return np.sqrt(squares / max(pairs, 1))


# ---------------------------------------------------------------------------------------------------------- attributes


def _sum_markdown(texts: Texts) -> np.ndarray:
    """Return the sum of all kinds of Markdown per line, (…, 1)."""
    return measure(texts, ["markdown"]).values.sum(axis=-1, keepdims=True)


_DEFAULT_MEASURES = ("answer_length", Attribute("all_markdown", ("markdown",), _sum_markdown))
"""The words of the answer, and all its Markdown per line."""


def read_attributes(
    cases: Cases,
    texts: Texts | None,
    measures: Sequence[str | Attribute] | None,
    values: ArrayLike | None,
    names: Sequence[str] | None,
    unmeasured: list[Unmeasured],
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the attributes (M, D) in the rows of the cases, measured on texts or given as values, and their names.

    Attributes that never differ within a group are left out and listed in `unmeasured`. The other arguments are those
    of `audit`: texts, measures, attributes, attribute_names.
    """
    row_count = int(cases.starts[-1])
    if texts is not None and values is not None:
        raise InvalidInput(_OWNER, "attributes", allowed="left out if texts are given", got="both")
    if texts is not None:
        flat_texts = flatten_texts(_OWNER, texts)[0]
        if len(flat_texts) != row_count:
            allowed = f"{row_count}, one per rollout, in the order of rows"
            raise InvalidInput(_OWNER, "texts", allowed, str(len(flat_texts)))
        measured = measure(flat_texts, _DEFAULT_MEASURES if measures is None else measures)
        array = measured.values
        columns = measured.columns
    elif values is not None:
        array = np.asarray(values, dtype=float)
        if array.ndim > 1:
            array = array.reshape(row_count, -1) if array.size % row_count == 0 else array
        is_usable = array.ndim == 2 and len(array) == row_count and np.isfinite(array).all()
        if not is_usable or array.min() < 0.0:
            allowed = f"finite numbers ≥ 0 of shape ({row_count}, D)"
            remedy = "For one attribute add an axis: attributes[..., None]."
            raise InvalidInput(_OWNER, "attributes", allowed, f"shape {array.shape}", remedy)
        columns = name_columns("attribute_names", names, array.shape[1])
    else:
        reason = "neither texts nor attributes were given"
        unmeasured.append(Unmeasured("length and Markdown bias", "all judges", reason))
        return np.zeros((row_count, 0)), ()
    array = array[cases.order]
    varies = measure_spread(cases, array) > 0.0
    varying_names = []
    for name, is_varying in zip(columns, varies, strict=True):
        if is_varying:
            varying_names.append(name)
        else:
            reason = "no two responses of a group differ in it"
            unmeasured.append(Unmeasured(f"bias by {name}", "all judges", reason))
    return array[:, varies], tuple(varying_names)
