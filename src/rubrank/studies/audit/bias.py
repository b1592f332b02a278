"""Measure whether a judge prefers length or Markdown, by fitting RLVR²'s attribute model to its verdicts.

    Pr[i beats j on k] = σ(u_ki − u_kj + γ_k·z_ij)          one γ for each criterion and attribute, all groups together

γ > 0: of two responses that the judge otherwise finds equally good, the one with more of the attribute wins. Intervals
come from drawing whole groups again and fitting anew. γ says what goes with winning, not why: if longer responses *are*
better, an honest judge has γ > 0 too. With human labels, their γ is fitted in the same draws, and the excess of the
judge is reported: a clear excess is a preference that people do not share. No excess proves less, because noise makes
any γ smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput
from rubrank.fusion.arrays import utilities
from rubrank.fusion.control.attribute import Attribute, Texts, flatten_texts
from rubrank.fusion.control.attributes import measure
from rubrank.studies.audit.cases import Cases, JudgeRun, compare_group
from rubrank.studies.audit.result import Bias, Unmeasured
from rubrank.studies.statistics import (
    Draws,
    Estimate,
    Measure,
    Resampling,
    mean_draws,
    percentile_interval,
    ratio_measure,
)

_OWNER = "audit"


@dataclass(frozen=True, eq=False)
class RolloutAttributes:
    """(M, D) numbers of the rollouts, in the rows of the cases."""

    values: np.ndarray
    names: tuple[str, ...]


def measure_biases(
    cases: Cases,
    raters: Mapping[str, JudgeRun],
    attributes: RolloutAttributes,
    resampling: Resampling,
    humans: str | None,
) -> tuple[Bias, ...]:
    """The biases of all raters; `humans` is the name of the human labels among them."""
    if not attributes.names:
        return ()
    fits = {
        name: _fit_rater(cases, run, attributes.values, resampling) for name, run in raters.items()
    }
    spread = measure_spread(cases, attributes.values)
    biases = []
    for name, fit in fits.items():
        reference = fits[humans] if humans is not None and name != humans else None
        columns = [k for k in range(len(cases.criteria)) if fit.groups[k]]
        if not columns:
            continue
        rows: list[tuple[str | None, list[int]]] = [(cases.criteria[k], [k]) for k in columns]
        rows.append((None, columns))  # the mean over all criteria
        for criterion, row_columns in rows:
            for d, attribute in enumerate(attributes.names):
                biases.append(
                    fit.make_bias(
                        name, criterion, attribute, row_columns, d, float(spread[d]), reference
                    )
                )
    return tuple(biases)


@dataclass(frozen=True, eq=False)
class _Fit:
    """γ of one rater, as observed and in every draw."""

    gamma: np.ndarray
    """(K, D)"""
    draws: np.ndarray
    """(draws, K, D)"""
    wins: np.ndarray
    """(groups, K, D): wins of the response with more of the attribute."""
    pairs: np.ndarray
    """(groups, K, D): pairs that differ in it."""
    groups: np.ndarray
    """(K,): groups in which the criterion tells rollouts apart."""
    resampling: Resampling

    def make_bias(
        self,
        judge: str,
        criterion: str | None,
        attribute: str,
        columns: list[int],
        d: int,
        spread: float,
        reference: _Fit | None,
    ) -> Bias:
        """The bias by attribute d on one criterion, or the mean over several; reference: the fit of the humans."""
        mean_gamma = self._average_gamma(columns, d)
        gamma = percentile_interval(mean_gamma)
        # Twice as much of an attribute is z = (2 − 1)/(2 + 1) = 1/3, in units of the typical spread.
        value, low, high = np.exp(
            np.array([gamma.value, gamma.low, gamma.high]) / (3.0 * spread)
        ).tolist()
        shares = [
            self.resampling.measure(ratio_measure(self.wins[:, k, d], self.pairs[:, k, d]))
            for k in columns
        ]
        excess = None
        if reference is not None and all(reference.groups[k] for k in columns):
            humans_gamma = reference._average_gamma(columns, d)
            draws = mean_gamma.draws - humans_gamma.draws
            difference = Draws(mean_gamma.value - humans_gamma.value, draws, mean_gamma.n)
            excess = percentile_interval(difference)
        return Bias(
            judge,
            criterion,
            attribute,
            gamma,
            odds=Estimate(value, low, high, gamma.n),
            wins=percentile_interval(mean_draws(shares)),
            excess=excess,
        )

    def _average_gamma(self, columns: list[int], d: int) -> Draws:
        """γ of attribute d, averaged over criteria; n counts groups in which they tell rollouts apart."""
        draws = self.draws[:, columns, d].mean(axis=1)
        if self.resampling.clusters < 2:  # a single group cannot be drawn differently
            draws = draws[:0]
        return Draws(float(self.gamma[columns, d].mean()), draws, int(self.groups[columns].max()))


def _fit_rater(cases: Cases, run: JudgeRun, values: np.ndarray, resampling: Resampling) -> _Fit:
    def fit_drawn_groups(times: np.ndarray) -> np.ndarray:
        return _fit_gamma(cases, run, values, np.repeat(np.arange(len(times)), times.astype(int)))

    gamma = fit_drawn_groups(np.ones(len(cases.labels)))
    draws = resampling.values(Measure(fit_drawn_groups, 0)).reshape(resampling.draws, *gamma.shape)
    shape = (len(cases.labels), len(cases.criteria), values.shape[1])
    wins = np.zeros(shape)
    pairs = np.zeros(shape)
    groups = np.zeros(len(cases.criteria), np.int64)
    for g in range(len(cases.labels)):
        group_values = values[cases.rows_of(g)]
        has_more = group_values[:, None, :] > group_values[None, :, :]
        for k in range(len(cases.criteria)):
            outcomes = compare_group(cases, run, g, k)
            is_compared = ~np.isnan(outcomes)
            is_counted = has_more & is_compared[:, :, None]
            pairs[g, k] = is_counted.sum(axis=(0, 1))
            wins[g, k] = (np.nan_to_num(outcomes)[:, :, None] * is_counted).sum(axis=(0, 1))
            groups[k] += bool((outcomes[is_compared] != 0.5).any())
    return _Fit(gamma, draws, wins, pairs, groups, resampling)


def _fit_gamma(cases: Cases, run: JudgeRun, values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """γ (K, D) of these groups, each as often as it is named."""
    sizes = np.diff(cases.starts)[groups]
    labels = np.repeat(np.arange(len(groups)), sizes)
    rows = np.concatenate([np.arange(cases.starts[g], cases.starts[g + 1]) for g in groups])
    scores = run.scores[rows]
    outcomes: dict[int, list[np.ndarray | None]] = {}
    for k in sorted({k for _, k in run.outcomes}):
        outcomes[k] = [run.outcomes.get((int(g), k)) for g in groups]
        for label, table in enumerate(outcomes[k]):
            # The fit uses the comparisons, not the shares of wins that replace scores.
            if table is not None:
                scores[labels == label, k] = np.nan
    margins = run.margins[groups]
    fitted = utilities(
        scores,
        groups=labels,
        attributes=values[rows],
        margins=margins,
        outcomes=outcomes,
        pool="batch",
    )
    return fitted.gamma[0]


def measure_spread(cases: Cases, values: np.ndarray) -> np.ndarray:
    """(D,): root mean square of (a_i − a_j)/(a_i + a_j) over the pairs of all groups."""
    squares = np.zeros(values.shape[1])
    pairs = 0
    for g in range(len(cases.labels)):
        a = values[cases.rows_of(g)]
        total = a[:, None] + a[None]
        z = np.where(total > 0.0, (a[:, None] - a[None]) / np.where(total > 0.0, total, 1.0), 0.0)
        squares += (z * z).sum(axis=(0, 1))
        pairs += len(a) * (len(a) - 1)
    return np.sqrt(squares / max(pairs, 1))


# ---------------------------------------------------------------------------------------------------------- attributes


def _sum_markdown(texts: Texts) -> np.ndarray:
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
) -> RolloutAttributes:
    """The attributes, measured on texts or given as values; those that never differ within a group are left out."""
    row_count = int(cases.starts[-1])
    if texts is not None and values is not None:
        raise InvalidInput(_OWNER, "attributes", "left out if texts are given", "both", "")
    if texts is not None:
        flat_texts = flatten_texts(_OWNER, texts)[0]
        if len(flat_texts) != row_count:
            got = str(len(flat_texts))
            raise InvalidInput(
                _OWNER, "texts", f"{row_count}, one per rollout", got, "Keep the order of rows."
            )
        measured = measure(flat_texts, _DEFAULT_MEASURES if measures is None else measures)
        array = measured.values
        columns = measured.columns
    elif values is not None:
        array, columns = _check_attributes(values, names, row_count)
    else:
        reason = "neither texts nor attributes were given"
        unmeasured.append(Unmeasured("length and Markdown bias", "all judges", reason))
        return RolloutAttributes(np.zeros((row_count, 0)), ())
    array = array[cases.order]
    varies = measure_spread(cases, array) > 0.0
    for name, is_used in zip(columns, varies, strict=True):
        if not is_used:
            unmeasured.append(
                Unmeasured(
                    f"bias by {name}", "all judges", "no two responses of a group differ in it"
                )
            )
    used_names = tuple(name for name, is_used in zip(columns, varies, strict=True) if is_used)
    return RolloutAttributes(array[:, varies], used_names)


def _check_attributes(
    values: ArrayLike, names: Sequence[str] | None, row_count: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Attributes that were measured elsewhere, as (M, D), and their names."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            _OWNER, "attributes", "numbers", f"something else ({error})", ""
        ) from None
    if array.ndim > 1 and array.size and array.size % row_count == 0:  # also (N, G) and (N, G, D)
        array = array.reshape(row_count, -1)
    has_shape = array.ndim == 2 and len(array) == row_count
    if not has_shape or not (np.isfinite(array) & (array >= 0.0)).all():
        got = "negative or not finite" if has_shape else f"shape {array.shape}"
        remedy = "For one attribute add an axis: attributes[..., None]."
        raise InvalidInput(
            _OWNER, "attributes", f"finite numbers ≥ 0 of shape ({row_count}, D)", got, remedy
        )
    D = array.shape[1]
    columns = tuple(f"attribute {d + 1}" for d in range(D)) if names is None else tuple(names)
    if len(columns) != D or len(set(columns)) != D:
        raise InvalidInput(
            _OWNER, "attribute_names", f"{D} different names", repr(list(columns)), ""
        )
    return array, columns
