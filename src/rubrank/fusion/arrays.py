"""`fuse` and `utilities`: RLVR², or another rule, on plain arrays.

>>> fuse([[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]).round(2)          # three rollouts, three criteria
array([0.29, 1.  , 0.  ])
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from reprlib import repr as brief
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName, UnknownOption, only_our_errors
from rubrank.fusion.result import Fused
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch

PerCriterion: TypeAlias = "ArrayLike | Mapping[str, float] | None"
"""Numbers in the order of the criteria, or by name."""
Directions: TypeAlias = "Sequence[str] | Mapping[str, str] | None"
"""Each "higher" or "lower". Typed as str: a caller's dict[str, str] would not match a Literal."""

_RLVR2_OPTIONS = tuple(option.name for option in fields(RLVR2) if option.repr)
"""The options of RLVR². Fields with repr=False are not options: they hold what the rule has learnt."""
_make_cached_rlvr2 = lru_cache(maxsize=64, typed=True)(RLVR2)


class Utilities(NamedTuple):
    """Utilities, and the coefficients γ of the attributes."""

    utilities: np.ndarray
    gamma: np.ndarray


@only_our_errors
def fuse(
    scores: ArrayLike,
    *,
    rule: str | Rule | None = None,
    weights: PerCriterion = None,
    margins: PerCriterion = None,
    groups: Any = None,
    attributes: ArrayLike | None = None,
    directions: Directions = None,
    domains: Mapping[str, tuple[float, float]] | None = None,
    criteria: Sequence[str] | None = None,
    attribute_names: Sequence[str] | None = None,
    outcomes: Any = None,
    probabilities: Mapping[str, Any] | None = None,
    **options: Any,
) -> np.ndarray:
    """Return one reward in [0, 1] for every rollout, from the ordering of its group on every criterion.

    scores: (G, K), (N, G, K), or (M, K) with `groups`: one row per rollout, one column per criterion, NaN = not scored.
    rule: another rule than RLVR², such as "gdpo"; see `find_rule`.
    weights: how much a criterion matters, > 0; (K,), (N, K), or by name. Only their ratios count.
    margins: differences of at most this much are ties, ≥ 0; the same forms.
    groups: for (M, K) the label of each row's group, in any order; for (N, G, K) optionally N labels.
    attributes: (…, D) numbers ≥ 0 whose influence is to be taken out, such as lengths.
        If `scores` is a data frame, groups and attributes may be names of columns, and `criteria` says which columns
        are scores: fuse(frame, groups="prompt_id", criteria=["Facts", "Style"], attributes=["tokens"]);
        criteria="all" means all other columns.
    directions: "higher" or "lower" is better, for each criterion.
    domains: the lowest and highest score by criterion, such as {"Style": (1, 5)}, for rules that add scores up; (0, 1)
        by default. RLVR² only compares scores and needs none.
    criteria, attribute_names: names, so that options can be given by name and draws depend on names, not positions.
    outcomes: for criteria on which responses were compared instead of scored; see `rubrank.scores.outcomes`. "soft":
        the option of `RLVR2`.
    probabilities: how sure the scores are, for outcomes="soft": by criterion, {value: probability} or None for each
        rollout; see `rubrank.scores.probabilities`.
    options: those of `RLVR2`: adjust ("remove" if attributes are given), pool, prior, attribute_prior, span, model,
        seed; scale="utility" gives advantages instead of rewards. With another rule, constants of that rule.
    """
    arrays = {
        "weights": weights,
        "margins": margins,
        "groups": groups,
        "attributes": attributes,
        "directions": directions,
        "domains": domains,
        "criteria": criteria,
        "attribute_names": attribute_names,
        "outcomes": outcomes,
        "probabilities": probabilities,
    }
    return _fuse_arrays("fuse", scores, arrays, options, rule).reward


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
    probabilities: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return the utilities of every rollout on every criterion, in the shape of the scores.

    With attributes, a pair: utilities, and the coefficients γ of shape (K, D) for one group, else (groups, K, D) in the
    order in which groups first appear. Parameters as for `fuse`.
    """
    arrays = {
        "margins": margins,
        "groups": groups,
        "attributes": attributes,
        "directions": directions,
        "criteria": criteria,
        "outcomes": outcomes,
        "probabilities": probabilities,
    }
    fused = _fuse_arrays("utilities", scores, arrays, options)
    if attributes is None:
        return fused.utilities
    batch = fused.batch
    if fused.control is None or fused.gamma is None:
        # `attributes` was an array of D = 0 attributes, so nothing was adjusted.
        assert fused.utilities is not None
        no_attributes = np.zeros((batch.N, batch.K, 0))
        return Utilities(fused.utilities, batch.restore_group_shape(no_attributes))
    return Utilities(batch.restore_rollout_shape(fused.control.fitted_MK), fused.gamma)


def _fuse_arrays(
    owner: str,
    scores: ArrayLike,
    arrays: dict[str, Any],
    options: dict[str, Any],
    rule: str | Rule | None = None,
) -> Fused:
    """Fuse with RLVR², or another rule.

    owner: the function that the user called; errors name it.
    arrays: the keywords of `ScoreBatch.of_arrays`. options: those of RLVR², or the constants of `rule`.
    """
    if isinstance(arrays["outcomes"], str):  # the option of that name, not observed outcomes
        options["outcomes"] = arrays["outcomes"]
        arrays["outcomes"] = None
    if isinstance(arrays["attributes"], list | tuple) and not arrays["attributes"]:
        # an empty list means no control, as `attributes: []` does in files
        arrays["attributes"] = None
    if rule is not None and not isinstance(rule, str):
        if options:
            name = next(iter(options))
            raise UnknownOption(
                owner,
                name,
                allowed="left out: a rule object has its options already",
                got=brief(options[name]),
                remedy="Set it on the rule, or pass the name of a rule.",
            )
        return apply_rule(find_rule(rule), ScoreBatch.of_arrays(scores, **arrays, owner=owner))
    if isinstance(rule, str):
        named_rule = _find_named_rule(owner, rule, arrays, options)
        return apply_rule(named_rule, ScoreBatch.of_arrays(scores, **arrays, owner=owner))

    for name in options:
        if name not in _RLVR2_OPTIONS:
            # `utilities` is RLVR²'s alone; only `fuse` has a keyword `rule`.
            keywords = {*arrays, *_RLVR2_OPTIONS} | ({"rule"} if owner == "fuse" else set())
            allowed_names = sorted(keywords)
            raise UnknownOption.of(owner, "keyword", name, allowed_names)
    if arrays["attributes"] is not None:
        options.setdefault("adjust", "remove")
    try:
        # Checking options takes longer than a small fit, so rules with plain options are cached. A rule that learns
        # from batch to batch must not be: calls would share what it has learnt.
        is_plain = all(type(value) in (str, int, float) for value in options.values())
        learns = options.get("pool") == "run" or options.get("width") == "run"
        rlvr2 = _make_cached_rlvr2(**options) if is_plain and not learns else RLVR2(**options)
        return rlvr2(ScoreBatch.of_arrays(scores, **arrays, owner=owner))
    except InvalidInput as error:
        # The user called `fuse` or `utilities`, and may not know the class RLVR2.
        if error.owner != RLVR2.name:
            raise
        raise type(error)(owner, error.parameter, error.allowed, error.got, error.remedy) from None


def _find_named_rule(
    owner: str, name: str, arrays: dict[str, Any], options: dict[str, Any]
) -> Rule:
    """Return the rule of that name with these constants; an unknown constant is reported as an unknown keyword."""
    # Imported here: the options need pydantic, which takes as long to load as NumPy.
    from rubrank.fusion.options import find_controlled_rule

    if arrays["attributes"] is not None:
        options.setdefault("adjust", "remove")
    try:
        return find_rule(find_controlled_rule(name, owner, options))
    except UnknownName as error:
        unknown_options = [option for option in options if repr(option) == error.got]
        if not unknown_options:
            raise
        # The error lists the constants of the rule ("one of 'eps', 'gamma'"); a keyword may be one of the arrays, too.
        constants = re.findall(r"'(\w+)'", error.allowed)
        allowed_names = sorted({*arrays, *constants, "rule"})
        raise UnknownOption.of(owner, "keyword", unknown_options[0], allowed_names) from None
