"""Arrays in, arrays out: RLVR² for callers who have scores and want rewards.

    >>> import rubrank
    >>> rubrank.fuse([[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]).round(2)          # three rollouts, three criteria
    array([0.29, 1.  , 0.  ])

`fuse` is `RLVR2(…)(ScoreBatch.of_arrays(…)).ranking`, `utilities` its `.utilities`; docs/method.md has the mathematics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.result import Fused
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.scores.arrays import batch_of_arrays
from rubrank.scores.batch import ScoreBatch

PerCriterion: TypeAlias = "ArrayLike | Mapping[str, float] | None"
Directions: TypeAlias = "Sequence[str] | Mapping[str, str] | None"
"""Each "higher" or "lower"; str, so that a dict built elsewhere fits."""


class Utilities(NamedTuple):
    """Utilities and the attributes' coefficients."""

    utilities: np.ndarray
    gamma: np.ndarray


@only_our_errors
def fuse(
    scores: ArrayLike,
    *,
    weights: PerCriterion = None,
    margins: PerCriterion = None,
    groups: Any = None,
    attributes: ArrayLike | None = None,
    directions: Directions = None,
    criteria: Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    outcomes: Any = None,
    **options: Any,
) -> np.ndarray:
    """One reward in [0, 1] for every rollout, from the ordering of its group on every criterion.

    scores: (G, K), (N, G, K), or (M, K) with `groups`: one row per rollout, one column per criterion, NaN = not scored.
    weights: how much a criterion matters, > 0; (K,), (N, K), or by name. Only their ratios count.
    margins: differences of at most this much are ties, ≥ 0; the same forms.
    groups: for (M, K) the label of each row's group, in any order; for (N, G, K) optionally N labels.
    attributes: (…, D) numbers ≥ 0 whose influence is to be taken out, such as lengths.
    directions: "higher" or "lower" is better, for each criterion.
    criteria, attribute_names: names, so that options can be given by name and draws depend on names, not positions.
    outcomes: of criteria on which responses were compared instead of scored; see `rubrank.scores.observed`.
    options: those of `RLVR2`: adjust ("remove" where attributes are given), pool, prior, attribute_prior, span, model,
        seed; scale="utility" gives advantages instead of rewards.
    """
    numbers, named = (weights, margins, directions), (attributes, attribute_names)
    return _fused("fuse", scores, groups, criteria, numbers, named, outcomes, options).reward


@only_our_errors
def utilities(
    scores: ArrayLike,
    *,
    margins: PerCriterion = None,
    groups: Any = None,
    attributes: ArrayLike | None = None,
    directions: Directions = None,
    criteria: Sequence[str] | None = None,
    outcomes: Any = None,
    **options: Any,
) -> Any:
    """The utilities of every rollout on every criterion, in the shape of the scores.

    With attributes, a pair: utilities, and the coefficients γ of shape (K, D) for one group, else (groups, K, D) in the
    order in which groups first appear. Parameters as for `fuse`.
    """
    numbers, named = (None, margins, directions), (attributes, None)
    fused = _fused("utilities", scores, groups, criteria, numbers, named, outcomes, options)
    if attributes is None:
        return fused.utilities
    if fused.control is None or fused.gamma is None:  # attributes were given, but none of them: nothing was adjusted
        batch = fused.batch
        assert fused.utilities is not None  # RLVR² always has them
        return Utilities(fused.utilities, batch.per_group(np.zeros((batch.N, batch.K, 0))))
    return Utilities(fused.batch.per_rollout(fused.control.fitted_MK), fused.gamma)


def _fused(
    owner: str,
    scores: ArrayLike,
    groups: Any,
    criteria: Any,
    numbers: tuple[Any, Any, Any],
    attributes: tuple[Any, Any],
    outcomes: Any,
    options: dict[str, Any],
) -> Fused:
    """What `batch_of_arrays` takes, and the rule's options; a small fit takes little longer than a call with names."""
    if attributes[0] is not None:
        options.setdefault("adjust", "remove")
    try:
        rule, nothing = _rule(options), (None, None)
        return rule(
            batch_of_arrays(
                ScoreBatch, owner, scores, groups, criteria, numbers, ((), ()), nothing, attributes, outcomes, None
            )
        )
    except InvalidInput as error:
        if error.owner != RLVR2.name:
            raise
        raise type(error)(owner, error.parameter, error.allowed, error.got, error.remedy) from None


def _rule(options: dict[str, Any]) -> RLVR2:
    """The rule with these options; plain ones are checked once, since that takes longer than a small fit.

    A rule that learns from batch to batch is always a new one.
    """
    if not options:
        return _DEFAULT
    plain = all(type(value) in _PLAIN for value in options.values()) and options.get("pool") != "run"
    return _known(**options) if plain else RLVR2(**options)


_DEFAULT = RLVR2()
_PLAIN = frozenset({str, int, float})
_known = lru_cache(maxsize=64, typed=True)(RLVR2)
