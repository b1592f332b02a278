"""Fuse the group of a record again, with another rule, or with other weights, gates or λ: "what if" on the page.

    changes = read_changes('{"rule": "gdpo+", "weights": {"Tone": 0}, "layers": {"Facts": "global_quality"}}')
    changed = fuse_changed(record, changes)
    changed.record.reward, changed.notes

Scores, reasons and texts stay. Only this group is fused again, and two things about the original fusion have to be
recovered from its record:

**The rule's options.** A record has the name of its rule, but not all its options. The likely ones are tried until
fusing without any change gives the recorded rewards (`_find_recorded_rule`). If none does, a note says by how much the
closest rewards differ, because the changed rewards will be off by about as much.

**Attribute control.** γ, the influence of an attribute such as length on winning, was usually estimated from many
groups, which a record does not hold. So the recorded estimate is used again (`_apply_control`):

    gamma     γ̂, the estimate                   shrunk    γ̃, the estimate pulled towards 0 where it is uncertain
    se        its standard error                taken     δ, what was taken out of the scores; δ = λ·γ̃ if γ̃ > 0
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from rubrank._plain import Strict, validate_model
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.fusion.control.adjustment import Attenuate, attenuate
from rubrank.fusion.control.estimate import BatchEstimate, InfluenceEstimate
from rubrank.fusion.gate import Gated
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.options import has_rlvr2, with_options
from rubrank.fusion.rule import Rule
from rubrank.fusion.rules import find_rule
from rubrank.records.record import GroupRecord, record_table, to_fused_group, to_score_table

Layer: TypeAlias = Literal["quality", "global_quality", "low_quality", "watch"]
# Rewards that differ by less count as the same; the page shows two digits of them.
_SAME_REWARD = 1e-6
_UNCHANGED_FIELDS = (
    "group",
    "step",
    "prompt",
    "turns",
    "responses",
    "reasoning",
    "tokens",
    "metadata",
)
"""Fields that a group keeps when it is fused again."""


class Changes(Strict):
    """What to change about a group. Weight 0 leaves a criterion out."""

    rule: str = ""
    """Empty: the recorded one."""
    weights: Mapping[str, float] = {}
    layers: Mapping[str, Layer] = {}
    lam: float | None = Field(default=None, ge=0.0, le=1.0)
    """λ: the share of a positive influence of the attributes that is taken out; None: as recorded."""

    def __bool__(self) -> bool:
        return bool(self.rule or self.weights or self.layers or self.lam is not None)


@dataclass(frozen=True)
class ChangedGroup:
    """A group that was fused again."""

    record: GroupRecord
    notes: tuple[str, ...]
    """What a reader of the new rewards should know."""


def read_changes(text: str) -> Changes:
    """Return the changes of a JSON text; raises InvalidInput for anything else."""
    try:
        data = json.loads(text or "{}")
    except (ValueError, RecursionError):
        got = repr(text[:80])
        raise InvalidInput("view", "changes", "a JSON object", got) from None
    return validate_model(Changes, data, "view", "viewer")


def fuse_changed(record: GroupRecord, changes: Changes) -> ChangedGroup:
    """Fuse the group of a record with the changes.

    Raises UnknownName for criteria and rules that do not exist, and InvalidInput if no criterion is left to rank by.
    """
    changed_criteria = _find_changed_criteria(record, changes)
    group = to_fused_group(record)
    notes = []
    recorded_rule, difference = _find_recorded_rule(record, group)
    if recorded_rule is None:
        notes.append(f"The recorded rule {record.rule} is not known here.")
    elif difference > _SAME_REWARD:
        notes.append(
            "The record does not hold all options of its rule: fused again without any change, "
            f"rewards differ by up to {difference:.2g}."
        )

    if recorded_rule is not None and changes.rule in ("", record.rule):
        rule = recorded_rule  # with the recorded control
        if changes.lam is not None:
            rule = _apply_control(rule, group, changes.lam)
    else:
        rule = find_rule(changes.rule or record.rule)
        # γ of an ordinal fit is on another scale than γ of a rule that adds up scores.
        if recorded_rule is not None and has_rlvr2(rule) == has_rlvr2(recorded_rule):
            rule = _apply_control(rule, group, changes.lam)
        elif record.attribute_names:
            notes.append(
                "Attributes are not taken out: the record has no estimate for this kind of rule."
            )

    if changes.lam is not None:
        if not record.attribute_names:
            notes.append("λ changes nothing: the record has no attributes.")
        # With pool "group", what is taken out is estimated again, and not shrunk.
        elif group.shrunk is not None and group.pool != "group" and not (group.shrunk > 0.0).any():
            notes.append("λ changes nothing: no attribute has a positive influence on a criterion.")
    needs_gate = bool({"global_quality", "low_quality"} & set(changes.layers.values()))
    if needs_gate and not isinstance(rule, Gated):
        rule = Gated(rule)
        notes.append(f"A gate was added to the rule: {rule.name}.")
    return ChangedGroup(_fuse(record, group, rule, changed_criteria), tuple(notes))


def _find_changed_criteria(record: GroupRecord, changes: Changes) -> dict[str, dict[str, Any]]:
    """Return criterion → its layer and weight, for the criteria that differ from the record.

    A quality criterion with the weight 0 is only watched, because a rule cannot rank by it.
    Raises UnknownName for a criterion that the group does not have, and InvalidInput for an impossible weight.
    """
    names = [criterion.name for criterion in record.criteria]
    for name in (*changes.weights, *changes.layers):
        if name not in names:
            raise UnknownName.of(f"group {record.group!r}", "criterion", name, names)
    for name, weight in changes.weights.items():
        if not 0.0 <= weight < float("inf"):
            raise InvalidInput("view", f"weight of {name!r}", "finite and ≥ 0", f"{weight:g}")

    changed: dict[str, dict[str, Any]] = {}
    for k, criterion in enumerate(record.criteria):
        # A rule may set weights of its own; a changed group starts from the weights that were used.
        used_weight = record.weights[k] if k < len(record.weights) else criterion.weight
        layer = changes.layers.get(criterion.name, criterion.layer)
        weight = changes.weights.get(criterion.name, used_weight)
        if layer == "quality" and weight == 0.0:
            if criterion.name in changes.weights:
                layer = "watch"
            else:  # it was only watched before
                weight = 1.0
        fields = {"layer": layer, "weight": 0.0 if layer == "watch" else weight}
        if fields != {"layer": criterion.layer, "weight": criterion.weight}:
            changed[criterion.name] = fields
    return changed


def _fuse(
    record: GroupRecord,
    group: FusedGroup,
    rule: Rule,
    changed_criteria: Mapping[str, Mapping[str, Any]],
) -> GroupRecord:
    """Fuse the scores of a record under a rule. The recorded rewards are kept as those of another rule.

    changed_criteria: criterion → fields that replace those of the record.
    """
    table = to_score_table([record]).change_criteria(changed_criteria)
    if not any(criterion.layer == "quality" for criterion in table.groups[0].criteria):
        raise InvalidInput(
            "view",
            "changes",
            "such that a criterion ranks the rollouts",
            "none does",
            "Give one of them a weight.",
        )
    # What a rule with control takes out of the scores depends on these attributes.
    batch = table.batch(attributes=group.attributes, attribute_names=group.attribute_names)
    (fused,) = record_table(table, rule, batch=batch)
    other_rewards = {f"{record.rule}, as recorded": record.reward}
    for name, rewards in record.others.items():
        if name != fused.rule:
            other_rewards[name] = rewards
    unchanged_fields = {name: getattr(record, name) for name in _UNCHANGED_FIELDS}
    return fused.model_copy(update={**unchanged_fields, "others": other_rewards})


# ------------------------------------------------------------------------------------------ the rule of a record


def _find_recorded_rule(record: GroupRecord, group: FusedGroup) -> tuple[Rule | None, float]:
    """Return the rule whose options reproduce the recorded rewards best, and the largest difference that remains.

    The rule is None if a rule of this name is not known here.
    """
    best: Rule | None = None
    smallest = float("inf")
    for rule in _list_candidates(record, group):
        reward = np.array(_fuse(record, group, rule, {}).reward)
        difference = float(np.abs(reward - group.reward).max(initial=0.0))
        if difference < smallest:
            best = rule
            smallest = difference
        if difference <= _SAME_REWARD:
            break
    return best, smallest


def _list_candidates(record: GroupRecord, group: FusedGroup) -> Iterator[Rule]:
    """Yield rules of the recorded name with options that the record may have been made with, the usual ones first.

    Nothing is yielded if a rule of this name is not known here.
    """
    try:
        rule = find_rule(record.rule)
    except RubrankError:
        return
    variants = [rule]
    if has_rlvr2(rule):
        # `span` says how utilities were scaled: "model" leaves them as they are.
        is_scaled = group.scale is not None and (group.scale != 1.0).any()
        spans = ("unit", "sd") if is_scaled else ("model",)
        # Soft outcomes and γ of single groups exist in the ordinal fit only.
        if record.soft_outcomes:
            choices = [{"outcomes": "soft"}]
        elif record.pool == "group":
            choices = [{"wins": "ordinal"}]
        else:
            choices = [{"wins": "ordinal"}, {"wins": "graded"}]
        variants = []
        for choice in choices:
            for span in spans:
                variants.append(with_options(rule, "view", span=span, **choice))
    for variant in variants:
        controlled = _apply_control(variant, group, None)
        yield controlled
        if isinstance(controlled, Gated):  # the paper's gate
            yield replace(controlled, gate=replace(controlled.gate, lift=0.0))


def _apply_control(rule: Rule, group: FusedGroup, lam: float | None) -> Rule:
    """Return the rule with the recorded control of attributes; the rule itself if nothing was controlled.

    lam: the share of a positive γ to take out; None: take out exactly what was taken out before.
    """
    if group.gamma is None or group.taken is None or group.shrunk is None or group.se is None:
        return rule  # a record has all of them or none
    adjust: Literal["remove"] | Attenuate = "remove" if lam is None else attenuate(lam)
    if group.pool == "group":
        # γ was estimated from this group alone, so it can be estimated again. How much of it was taken out shows in the
        # ratio of `taken` to `gamma`: "remove" takes out all of it, `attenuate(λ)` the share λ of what is positive.
        is_positive = group.gamma > 0.0
        took_negative = bool((group.taken[group.gamma < 0.0] != 0.0).any())
        if lam is None and is_positive.any() and not took_negative:
            shares = group.taken[is_positive] / group.gamma[is_positive]
            adjust = attenuate(float(shares.mean()))
        return with_options(rule, "view", adjust=adjust, pool="group")
    counts = np.ones(len(group.criteria)) if group.n is None else group.n
    controlled = [name for name, n in zip(group.criteria, counts, strict=True) if n > 0.0]
    no_sums = np.zeros(
        (*group.gamma.shape, group.gamma.shape[1])
    )  # only needed to estimate further
    estimate = InfluenceEstimate(
        gamma_KD=group.gamma,
        se_KD=group.se,
        # A rule takes these out, adjusted. "remove" takes out all of the recorded coefficients, λ a share of γ̃.
        shrunk_KD=group.taken if lam is None else group.shrunk,
        n_K=counts,
        information_KDD=no_sums,
        variance_KDD=no_sums,
    )
    return with_options(
        rule,
        "view",
        adjust=adjust,
        pool="batch",
        adjust_criteria=controlled,
        batch_estimate=BatchEstimate(_find_scale(group), group.criteria, estimate),
    )


def _find_scale(group: FusedGroup) -> np.ndarray:
    """Return the factors of the attributes' contrasts, (D,); 1 for attributes in which rollouts do not differ.

    The factors came from the whole batch, and a record does not hold them. But it holds the contrasts after scaling.
    The contrasts are computed again without a factor, and the factor is the slope between the two.
    """
    # Imported here, because it compiles code.
    from rubrank.fusion.models import likelihood

    factors = np.ones(len(group.attribute_names))
    if group.mean_contrasts is None or group.attributes is None:
        return factors
    unscaled = np.empty(group.attributes.shape)
    starts = np.array([0, len(unscaled)])
    likelihood.average_contrasts(group.attributes, factors, starts, unscaled)
    squares = (unscaled * unscaled).sum(0)
    products = (group.mean_contrasts * unscaled).sum(0)
    return np.divide(products, squares, out=factors, where=squares > 0.0)
