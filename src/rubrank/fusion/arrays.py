"""`fuse` and `utilities`: RLVR², or another rule, on plain arrays.

>>> fuse([[1, 0.5, 7], [1, 1.0, 8], [0, 1.0, 3]]).round(2)          # three rollouts, three criteria
array([0.29, 1.  , 0.  ])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as brief
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import UnknownOption, only_our_errors
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import find_rule, list_parameters
from rubrank.scores.batch import ScoreBatch

PerCriterion: TypeAlias = "ArrayLike | Mapping[str, float] | None"
"""Numbers in the order of the criteria, or by name."""
Directions: TypeAlias = "Sequence[str] | Mapping[str, str] | None"
"""Each "higher" or "lower". Typed as str: a caller's dict[str, str] would not match a Literal."""


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
    """Return one reward for every rollout, from the ordering of its group on every criterion.

    Rewards are in [0, 1], except those of rules that are not bounded (such as "gdpo") and those of scale="utility".

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
        rollout; see `rubrank.scores.outcomes`.
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
    _take_options(arrays, options)
    chosen_rule = _make_rule("fuse", "rlvr2" if rule is None else rule, arrays, options, {"rule"})
    return apply_rule(chosen_rule, ScoreBatch.of_arrays(scores, **arrays, owner="fuse")).reward


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
    _take_options(arrays, options)
    rule: Any = _make_rule("utilities", "rlvr2", arrays, options, set())
    batch = ScoreBatch.of_arrays(scores, **arrays, owner="utilities")
    fused: Any = apply_rule(rule, batch)
    if attributes is None:
        return fused.utilities
    if fused.control is None:
        # `attributes` was an array of D = 0 attributes, so nothing was adjusted.
        no_attributes = np.zeros((batch.N, batch.K, 0))
        return Utilities(fused.utilities, batch.restore_group_shape(no_attributes))
    # `fused.utilities` are fitted without attributes. A γ belongs to the utilities that were fitted together with it.
    return Utilities(batch.restore_rollout_shape(rule.fit_jointly(batch)), fused.gamma)


def _take_options(arrays: dict[str, Any], options: dict[str, Any]) -> None:
    """Move what is an option of the rule from `arrays` to `options`; both are changed.

    arrays: the keywords of `ScoreBatch.of_arrays`; a value that means something else there becomes None.
    """
    if isinstance(arrays["outcomes"], str):  # "soft", the option of RLVR²
        options["outcomes"] = arrays["outcomes"]
        arrays["outcomes"] = None
    if isinstance(arrays["attributes"], list | tuple) and not arrays["attributes"]:
        # An empty list means no control, as `attributes: []` does in files.
        arrays["attributes"] = None


def _make_rule(
    owner: str,
    rule: str | Rule,
    arrays: Mapping[str, Any],
    options: Mapping[str, Any],
    other_keywords: set[str],
) -> Rule:
    """Return the rule with its options.

    owner: the function that the user called, for errors. other_keywords: what it takes besides arrays and options.
    """
    if not isinstance(rule, str):
        if options:
            name, value = next(iter(options.items()))
            raise UnknownOption(
                owner,
                name,
                allowed="left out: a rule object has its options already",
                got=brief(value),
                remedy="Set it on the rule, or pass the name of a rule.",
            )
        return find_rule(rule)
    keywords = {*arrays, *other_keywords, *list_parameters(rule)}
    for name in options:
        if name not in keywords:
            raise UnknownOption.of(owner, "keyword", name, keywords)
    if arrays["attributes"] is not None:
        options = {"adjust": "remove", **options}
    return find_rule(rule, **options)
