"""Is a judge swayed by length or Markdown? Our own attribute model, fitted to its verdicts.

    Pr[i beats j on k] = σ(u_ki − u_kj + γ_k·z_ij)          one γ for each criterion and attribute, all groups together

γ > 0: of two responses that the judge otherwise finds equally good, the one with more of the attribute wins. Intervals
come from drawing whole groups again and fitting anew. γ says what goes with winning, not why: if longer responses *are*
better, an honest judge has γ > 0 too. Where human labels are given, theirs is fitted in the same draws, and the excess
of the judge is reported: a clear excess is a liking that humans do not share. A lack of it proves less, because noise
makes any γ smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput
from rubrank.fusion.arrays import utilities
from rubrank.fusion.control.attribute import Attribute, Texts
from rubrank.fusion.control.attributes import measure
from rubrank.studies.audit.cases import Cases, JudgeRun, group_outcomes
from rubrank.studies.audit.result import Bias
from rubrank.studies.statistics import (
    Draws,
    Estimate,
    Measure,
    Resampling,
    mean_draws,
    percentile_interval,
    ratio_measure,
)


@dataclass(frozen=True, eq=False)
class RolloutAttributes:
    """(M, D) numbers of the rollouts, in the rows of the cases."""

    values: np.ndarray
    names: tuple[str, ...]


def biases(
    cases: Cases, everyone: Mapping[str, JudgeRun], attributes: RolloutAttributes, draw: Resampling, humans: str | None
) -> tuple[Bias, ...]:
    """The biases of everyone; `humans` is the name under which the humans' labels are among them."""
    fits = {name: _Fit.of(cases, run, attributes.values, draw) for name, run in everyone.items()}
    spread = typical_spread(cases, attributes.values)
    rows_of_bias = []
    for name, fit in fits.items():
        reference = fits[humans] if humans is not None and name != humans else None
        told = [k for k in range(len(cases.criteria)) if fit.groups[k]]
        rows: list[tuple[str | None, list[int]]] = [(cases.criteria[k], [k]) for k in told]
        for criterion, columns in [*rows, (None, told)] if told else ():
            for d, attribute in enumerate(attributes.names):
                rows_of_bias.append(fit.bias((name, criterion, attribute), columns, d, float(spread[d]), reference))
    return tuple(rows_of_bias)


@dataclass(frozen=True, eq=False)
class _Fit:
    """γ of one judge, as observed and in every draw."""

    gamma: np.ndarray
    """(K, D)"""
    draws: np.ndarray
    """(draws, K, D)"""
    won: np.ndarray
    """(groups, K, D): wins of the response with more of it, over pairs that differ in it."""
    pairs: np.ndarray
    groups: np.ndarray
    """(K,): in how many groups the criterion tells rollouts apart."""
    draw: Resampling

    @classmethod
    def of(cls, cases: Cases, run: JudgeRun, values: np.ndarray, draw: Resampling) -> _Fit:
        def fit_gamma(times: np.ndarray) -> np.ndarray:
            return _fit_gamma(cases, run, values, np.repeat(np.arange(len(times)), times.astype(int)))

        gamma = fit_gamma(np.ones(len(cases.labels)))
        draws = draw.values(Measure(fit_gamma, 0)).reshape(draw.draws, *gamma.shape)
        won, pairs, groups = _count_wins(cases, run, values)
        return cls(gamma, draws, won, pairs, groups, draw)

    def bias(
        self, names: tuple[str, str | None, str], columns: list[int], d: int, spread: float, reference: _Fit | None
    ) -> Bias:
        """On one criterion, or the mean over several."""
        level = self.draw.level
        gamma = percentile_interval(self.mean(columns, d), level)
        ends = np.exp(np.array([gamma.value, gamma.low, gamma.high]) / (3.0 * spread))
        odds = Estimate(float(ends[0]), float(ends[1]), float(ends[2]), gamma.n)
        wins = [self.draw.measure(ratio_measure(self.won[:, k, d], self.pairs[:, k, d])) for k in columns]
        excess = None
        if reference is not None and all(reference.groups[k] for k in columns):
            ours, theirs = self.mean(columns, d), reference.mean(columns, d)
            excess = percentile_interval(Draws(ours.value - theirs.value, ours.draws - theirs.draws, ours.n), level)
        return Bias(*names, gamma, odds, percentile_interval(mean_draws(wins), level), excess)

    def mean(self, columns: list[int], d: int) -> Draws:
        """γ of attribute d, averaged over criteria; n counts groups in which they tell rollouts apart."""
        value, draws = float(self.gamma[columns, d].mean()), self.draws[:, columns, d].mean(axis=1)
        return Draws(value, draws if self.draw.clusters > 1 else draws[:0], int(self.groups[columns].max()))


def _fit_gamma(cases: Cases, run: JudgeRun, values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """γ (K, D) of these groups, each as often as it is named."""
    sizes = np.diff(cases.starts)[groups]
    labels = np.repeat(np.arange(len(groups)), sizes)
    rows = np.arange(len(labels)) + np.repeat(cases.starts[groups] - (sizes.cumsum() - sizes), sizes)
    scores = run.scores[rows]
    observed: dict[int, list[np.ndarray | None]] = {}
    for k in sorted({k for _, k in run.outcomes}):
        observed[k] = [run.outcomes.get((int(g), k)) for g in groups]
        for place, table in enumerate(observed[k]):
            if table is not None:
                scores[labels == place, k] = np.nan
    fitted = utilities(
        scores, groups=labels, attributes=values[rows], margins=run.margins[groups], outcomes=observed, pool="batch"
    )
    return fitted.gamma[0]


def _count_wins(cases: Cases, run: JudgeRun, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wins of more over pairs that differ, (groups, K, D); and in how many groups a criterion tells rollouts apart."""
    shape = (len(cases.labels), len(cases.criteria), values.shape[1])
    won, pairs, groups = np.zeros(shape), np.zeros(shape), np.zeros(shape[1], np.int64)
    for g in range(len(cases.labels)):
        rows = slice(cases.starts[g], cases.starts[g + 1])
        more = values[rows][:, None, :] > values[rows][None, :, :]
        for k in range(len(cases.criteria)):
            beaten = group_outcomes(cases, run, g, k)
            compared = ~np.isnan(beaten)
            counted = more & compared[:, :, None]
            pairs[g, k] = counted.sum(axis=(0, 1))
            won[g, k] = (np.nan_to_num(beaten)[:, :, None] * counted).sum(axis=(0, 1))
            groups[k] += bool((beaten[compared] != 0.5).any())
    return won, pairs, groups


def typical_spread(cases: Cases, values: np.ndarray) -> np.ndarray:
    """(D,): root mean square of (a_i − a_j)/(a_i + a_j) over the pairs of all groups."""
    squares, pairs = np.zeros(values.shape[1]), 0
    for g in range(len(cases.labels)):
        a = values[cases.starts[g] : cases.starts[g + 1]]
        total = a[:, None] + a[None]
        z = np.where(total > 0.0, (a[:, None] - a[None]) / np.where(total > 0.0, total, 1.0), 0.0)
        squares += (z * z).sum(axis=(0, 1))
        pairs += len(a) * (len(a) - 1)
    return np.sqrt(squares / max(pairs, 1))


def split_constant(cases: Cases, values: np.ndarray, names: Sequence[str]) -> tuple[RolloutAttributes, tuple[str, ...]]:
    """The attributes in which rollouts of a group differ somewhere, and the names of the others."""
    differ = typical_spread(cases, values) > 0.0
    attributes = RolloutAttributes(
        values[:, differ], tuple(name for name, yes in zip(names, differ, strict=True) if yes)
    )
    return attributes, tuple(name for name, yes in zip(names, differ, strict=True) if not yes)


# ------------------------------------------------------------------------------------------------------------ measuring


def measure_attributes(
    texts: list[str], measures: Sequence[str | Attribute] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(M, D) of the texts, and the names; by default the words of the answer, and all its Markdown per line."""
    measured = measure(texts, [*_MEASURES] if measures is None else measures)
    return measured.values, measured.columns


def _all_markdown(texts: Texts) -> np.ndarray:
    return measure(texts, ["markdown"]).values.sum(axis=-1, keepdims=True)


_MEASURES = ("answer_length", Attribute("all_markdown", ("markdown",), _all_markdown))


def read_attributes(
    given: ArrayLike | None, names: Sequence[str] | None, rows: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(M, D) of what was measured elsewhere, and the names."""
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput("audit", "attributes", "numbers", f"something else ({error})", "") from None
    values = values.reshape(rows, -1) if values.size and values.size % rows == 0 and values.ndim > 1 else values
    if values.ndim != 2 or len(values) != rows or not (np.isfinite(values) & (values >= 0.0)).all():
        got = f"shape {values.shape}" if values.ndim != 2 or len(values) != rows else "others"
        remedy = "For one attribute add an axis: attributes[..., None]."
        raise InvalidInput("audit", "attributes", f"finite numbers ≥ 0 of shape ({rows}, D)", got, remedy)
    D = values.shape[1]
    listed = tuple(f"attribute {d + 1}" for d in range(D)) if names is None else tuple(names)
    if len(listed) != D or len(set(listed)) != D:
        raise InvalidInput("audit", "attribute_names", f"{D} different names", repr(list(listed)), "")
    return values, listed
