"""Scores in, rewards out: the ordinal fusion of RLVR².

    >>> import rubrank
    >>> rubrank.fuse([[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]).round(2)          # three rollouts, three criteria
    array([0.29, 1.  , 0.  ])

For every criterion the scores become an ordering of the group, the ordering becomes utilities (`models/`), the weighted
utilities are added up and stretched to [0, 1]. docs/method.md has the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.adjust import Rule, kept_shares, rules_for
from rubrank.fusion.model import UtilityModel, find_model
from rubrank.fusion.observed import fit_observed
from rubrank.scores.arrays import Batch, attributes_like, check_each, make_batch, per_criterion, refuse_infinite
from rubrank.scores.observed import Cells, Observations, marked, observed_cells

Pool: TypeAlias = Literal["group", "batch"]
Span: TypeAlias = Literal["model", "unit"]
PerCriterion: TypeAlias = "ArrayLike | Mapping[str, float] | None"
Directions: TypeAlias = "Sequence[str] | Mapping[str, str] | None"
"""Each "higher" or "lower"; str, so that a dict built elsewhere fits."""
Groups: TypeAlias = "ArrayLike | Sequence[Hashable] | None"

_POOLS, _SPANS = ("group", "batch"), ("model", "unit")
# Beyond these, rounding rather than the data decides.
_SMALLEST_PRIOR, _LARGEST_PRIOR = 1e-9, 1e12
_PLAIN_WEIGHTS = (1e-100, 1e100)


class Options(NamedTuple):
    """What can be set about a fusion; see `fuse` for what each one means."""

    weights: PerCriterion = None
    margins: PerCriterion = None
    directions: Directions = None
    adjust: Rule | Sequence[Rule] | None = None
    pool: Pool = "group"
    prior: float = 1.0
    attribute_prior: float = 1.0
    span: Span = "model"
    model: str | UtilityModel = "bradley-terry"
    seed: int = 0
    criteria: Sequence[str] | None = None
    attribute_names: Sequence[str] | None = None
    outcomes: Observations = None
    owner: str = "fuse"

    def check(self) -> None:
        """Raise for what can be wrong before any score is seen."""
        if not isinstance(self.pool, str) or self.pool not in _POOLS:
            raise UnknownName.of(self.owner, "pool", self.pool, _POOLS)
        if not isinstance(self.span, str) or self.span not in _SPANS:
            raise UnknownName.of(self.owner, "span", self.span, _SPANS)
        self._check_prior("prior", self.prior)
        self._check_prior("attribute_prior", self.attribute_prior)
        if not isinstance(self.seed, int | np.integer):
            raise InvalidInput(self.owner, "seed", "an integer", repr(self.seed), "Use 0.")

    def _check_prior(self, name: str, value: float) -> None:
        if not isinstance(value, int | float | np.number) or not _SMALLEST_PRIOR <= value <= _LARGEST_PRIOR:
            raise InvalidInput(
                self.owner,
                name,
                f"a number from {_SMALLEST_PRIOR:g} to {_LARGEST_PRIOR:g}",
                repr(value),
                "Without a prior no best utility exists; use 1.0.",
            )


@dataclass(eq=False, slots=True)
class Fusion:
    """Everything computed about a batch, rows sorted by group."""

    batch: Batch
    weights: np.ndarray
    margins: np.ndarray
    utilities_MK: np.ndarray
    values_MK: np.ndarray
    """What is weighted and added up: the utilities, plus what is kept of the attributes, scaled if span="unit"."""
    fused_M: np.ndarray
    ranking_M: np.ndarray
    signal_N: np.ndarray
    gamma_NKD: np.ndarray | None = None
    kept_NKD: np.ndarray | None = None
    mean_contrast_MD: np.ndarray | None = None
    scale_NK: np.ndarray | None = None
    """What span="unit" multiplied the criteria of each group by."""
    outcomes: Cells | None = None
    """What was observed by comparing, by (group, criterion)."""


class Utilities(NamedTuple):
    """Utilities and the attributes' coefficients."""

    utilities: np.ndarray
    gamma: np.ndarray


def fuse(
    scores: ArrayLike,
    *,
    weights: PerCriterion = None,
    margins: PerCriterion = None,
    groups: Groups = None,
    attributes: ArrayLike | None = None,
    adjust: Rule | Sequence[Rule] | None = None,
    pool: Pool = "group",
    prior: float = 1.0,
    attribute_prior: float = 1.0,
    span: Span = "model",
    seed: int = 0,
    model: str | UtilityModel = "bradley-terry",
    directions: Directions = None,
    criteria: Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    outcomes: Observations = None,
) -> np.ndarray:
    """One reward in [0, 1] for every rollout, from the ordering of its group on every criterion.

    scores: (G, K), (N, G, K), or (M, K) with `groups`: one row a rollout, one column a criterion, NaN = not scored.
    weights: how much a criterion matters, > 0; (K,), (N, K), or by name. Only their ratios count.
    margins: differences of at most this much are ties, ≥ 0; the same forms.
    groups: for (M, K) the label of each row's group, in any order; for (N, G, K) optionally N labels.
    attributes: (…, D) numbers ≥ 0 whose influence is to be taken out, such as lengths.
    adjust: "remove" (the default when attributes are given) or `attenuate(lam)`; one rule, or one for each attribute.
    pool: fit the influence of attributes for every "group", or one for the whole "batch".
    prior, attribute_prior: precision of the normal priors on utilities (α) and coefficients (β).
    span: "model" takes utilities as fitted; "unit" gives every criterion the same span, best minus worst = 1.
    seed: of the draws that `attenuate` makes.
    model: "bradley-terry", "thurstone", "borda", or one of your own.
    directions: "higher" or "lower" is better, for each criterion.
    criteria, attribute_names: names, so that options can be given by name and draws depend on names, not positions.
    outcomes: of criteria on which responses were compared instead of scored; see `rubrank.scores.observed`.
    """
    options = Options(
        weights=weights,
        margins=margins,
        directions=directions,
        adjust=adjust,
        pool=pool,
        prior=prior,
        attribute_prior=attribute_prior,
        span=span,
        model=model,
        seed=seed,
        criteria=criteria,
        attribute_names=attribute_names,
        outcomes=outcomes,
    )
    batch = make_batch("fuse", scores, groups)
    fusion = run(options, batch, attributes)
    return batch.per_rollout(fusion.ranking_M)


@overload
def utilities(
    scores: ArrayLike,
    *,
    margins: PerCriterion = ...,
    groups: Groups = ...,
    attributes: None = ...,
    pool: Pool = ...,
    prior: float = ...,
    attribute_prior: float = ...,
    model: str | UtilityModel = ...,
    directions: Directions = ...,
    criteria: Sequence[str] | None = ...,
    outcomes: Observations = ...,
) -> np.ndarray: ...
@overload
def utilities(
    scores: ArrayLike,
    *,
    margins: PerCriterion = ...,
    groups: Groups = ...,
    attributes: ArrayLike,
    pool: Pool = ...,
    prior: float = ...,
    attribute_prior: float = ...,
    model: str | UtilityModel = ...,
    directions: Directions = ...,
    criteria: Sequence[str] | None = ...,
    outcomes: Observations = ...,
) -> Utilities: ...
def utilities(
    scores: ArrayLike,
    *,
    margins: PerCriterion = None,
    groups: Groups = None,
    attributes: ArrayLike | None = None,
    pool: Pool = "group",
    prior: float = 1.0,
    attribute_prior: float = 1.0,
    model: str | UtilityModel = "bradley-terry",
    directions: Directions = None,
    criteria: Sequence[str] | None = None,
    outcomes: Observations = None,
) -> np.ndarray | Utilities:
    """The utilities of every rollout on every criterion, in the shape of the scores.

    With attributes, a pair: utilities, and the coefficients γ of shape (K, D) for one group, else (groups, K, D) in the
    order in which groups first appear. Parameters as for `fuse`.
    """
    options = Options(
        margins=margins,
        directions=directions,
        pool=pool,
        prior=prior,
        attribute_prior=attribute_prior,
        model=model,
        criteria=criteria,
        outcomes=outcomes,
        owner="utilities",
    )
    batch = make_batch("utilities", scores, groups)
    fusion = run(options, batch, attributes)
    fitted = batch.per_rollout(fusion.utilities_MK)
    return fitted if fusion.gamma_NKD is None else Utilities(fitted, batch.per_group(fusion.gamma_NKD))


def run(options: Options, batch: Batch, attributes: ArrayLike | None) -> Fusion:
    """Fuse a batch, keeping everything that was computed on the way."""
    options.check()
    kernels, shape_table = _engine()
    _check_names(options, batch)
    weights, margins = _checked_weights(options, batch), _checked_margins(options, batch)
    batch = _oriented(options, batch)
    cells = observed_cells(options.owner, options.outcomes, batch, options.criteria) if options.outcomes else {}
    attributes_MD = None if attributes is None else attributes_like(options.owner, batch, attributes)
    rules = _checked_rules(options, attributes_MD)
    M, N = len(batch.scores_MK), batch.N
    u_MK = np.empty((M, batch.K))
    fused_M, ranking_M, signal_N = np.empty(M), np.empty(M), np.empty(N, np.bool_)
    shapes = shape_table(find_model(options.model), float(options.prior))
    largest = batch.largest
    small = largest <= kernels.SMALL and not (options.margins is not None and margins.any())
    with shapes.lock:
        if small:
            status = shapes.rank_small(
                largest, batch.scores_MK, batch.starts, weights, u_MK, fused_M, ranking_M, signal_N
            )
        else:
            status = shapes.place(batch.scores_MK, batch.starts, margins, u_MK)
    if status == kernels.INFINITE:
        refuse_infinite(options.owner, batch.per_rollout(batch.scores_MK))
    if cells:
        fit_observed(find_model(options.model), float(options.prior), cells, batch.starts, u_MK)
    values_MK, gamma, kept, mean_MD = u_MK, None, None, None
    if attributes_MD is not None:
        values_MK, gamma, kept, mean_MD = _adjust(options, batch, margins, attributes_MD, rules, u_MK, cells)
    scale_NK = None
    if options.span == "unit":
        values_MK, scale_NK = values_MK.copy(), np.empty((N, batch.K))
        kernels.unit_span(values_MK, batch.starts, scale_NK)
    if not small or cells or values_MK is not u_MK:
        kernels.combine(values_MK, batch.starts, weights, fused_M, ranking_M, signal_N)
    return Fusion(
        batch, weights, margins, u_MK, values_MK, fused_M, ranking_M, signal_N, gamma, kept, mean_MD, scale_NK,
        cells or None,
    )  # fmt: skip


@cache
def _engine() -> tuple[Any, Any]:
    """numba is loaded by the first fit, not by `import rubrank`."""
    from rubrank.fusion.models import kernels
    from rubrank.fusion.models.shapes import shape_table

    return kernels, shape_table


def _adjust(
    options: Options,
    batch: Batch,
    margins: np.ndarray,
    attributes_MD: np.ndarray,
    rules: tuple[Rule, ...],
    u_MK: np.ndarray,
    cells: Cells,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fit again with attributes (u_MK is overwritten); returns what reaches the reward, γ, kept shares and mean z."""
    if not rules:  # attributes were given, but none of them: nothing to fit again
        nothing = np.zeros((batch.N, batch.K, 0))
        return u_MK, nothing, nothing, attributes_MD
    from rubrank.fusion.models.adjusted import Observed, fit_adjusted
    from rubrank.fusion.models.fit import add_kept, mean_contrasts

    attributes_DM = np.ascontiguousarray(attributes_MD.T)
    observed = Observed(
        batch.scores_MK, batch.starts, margins, attributes_DM, float(options.prior), float(options.attribute_prior),
        cells,
    )  # fmt: skip
    gamma, informative_NK = fit_adjusted(find_model(options.model), observed, options.pool, u_MK)
    mean_MD = np.empty_like(attributes_MD)
    mean_contrasts(attributes_DM, batch.starts, mean_MD)
    criteria = range(batch.K) if options.criteria is None else options.criteria
    names = range(len(rules)) if options.attribute_names is None else options.attribute_names
    kept = kept_shares(rules, gamma, options.seed, batch.labels, criteria, names)
    values_MK = u_MK.copy()
    if kept.any():
        known_MK = marked(batch.scores_MK, cells, batch.starts)
        add_kept(kept * gamma * informative_NK[:, :, None], mean_MD, batch.starts, known_MK, values_MK)
    return values_MK, gamma, kept, mean_MD


def _checked_weights(options: Options, batch: Batch) -> np.ndarray:
    weights = per_criterion(options.owner, "weights", options.weights, options.criteria, batch, 1.0)
    if options.weights is None:
        return weights
    low, high = _extent(weights)
    if low > 0.0 and _PLAIN_WEIGHTS[0] < high < _PLAIN_WEIGHTS[1]:
        return weights
    good = (weights > 0.0) & (weights < math.inf)
    remedy = "Leave out a criterion that should not count."
    check_each(options.owner, "weights", weights, good, "finite and > 0", remedy, options.criteria)
    return weights / weights.max(axis=1, keepdims=True)  # only ratios count, and these would overflow


def _extent(array: np.ndarray) -> tuple[float, float]:
    """Smallest and largest; NaN if there is one. Python is faster than NumPy for a dozen numbers."""
    if array.size > 50:
        return float(array.min()), float(array.max())
    numbers = array.ravel().tolist() or [1.0]
    return (min(numbers), max(numbers)) if all(x == x for x in numbers) else (math.nan, math.nan)


def _checked_margins(options: Options, batch: Batch) -> np.ndarray:
    margins = per_criterion(options.owner, "margins", options.margins, options.criteria, batch, 0.0)
    if options.margins is not None:
        good = (margins >= 0.0) & (margins < math.inf)
        check_each(
            options.owner,
            "margins",
            margins,
            good,
            "finite and ≥ 0",
            "Use 0 for 'every difference counts'.",
            options.criteria,
        )
    return margins


def _checked_rules(options: Options, attributes_MD: np.ndarray | None) -> tuple[Rule, ...]:
    if attributes_MD is None:
        return ()
    D, names = attributes_MD.shape[1], options.attribute_names
    if names is not None and (len(names) != D or len(set(names)) != D):
        raise InvalidInput(
            options.owner,
            "attribute_names",
            f"{D} different names, one for each attribute",
            f"{len(names)}, {len(set(names))} of them different",
            "Name the attributes in their order.",
        )
    return rules_for(options.owner, options.adjust, D)


def _check_names(options: Options, batch: Batch) -> None:
    names = options.criteria
    if names is None:
        return
    listed = list(names) if np.iterable(names) and not isinstance(names, str) else [names]
    different = len(set(listed)) if all(isinstance(name, Hashable) for name in listed) else 0
    if len(listed) != batch.K or different != batch.K:
        raise InvalidInput(
            options.owner,
            "criteria",
            f"{batch.K} different names, one for each column of the scores",
            f"{len(listed)}, {different} of them different",
            "Name the columns in their order.",
        )


def _oriented(options: Options, batch: Batch) -> Batch:
    """Flip the criteria on which lower is better."""
    if options.directions is None:
        return batch
    given = options.directions
    if isinstance(given, Mapping):
        known = () if options.criteria is None else list(options.criteria)
        for name in given:
            if name not in known:
                raise UnknownName.of(options.owner, "directions key", name, known)
        given = [given.get(name, "higher") for name in known]
    listed = list(given) if np.iterable(given) and not isinstance(given, str) else []
    if len(listed) != batch.K or any(way not in ("higher", "lower") for way in listed):
        raise InvalidInput(
            options.owner,
            "directions",
            f"'higher' or 'lower' for each of the {batch.K} criteria",
            repr([str(way) for way in listed] or given),
            "Say which way is better.",
        )
    sign = np.array([-1.0 if way == "lower" else 1.0 for way in listed])
    return Batch(batch.scores_MK * sign, batch.starts, batch.shape, batch.order, batch.given_labels)
