"""Fuse the group of a record again, with another rule, or with other weights, gates or λ: "what if" on the page.

    changes = read_changes('{"rule": "gdpo+", "weights": {"Tone": 0}, "layers": {"Facts": "global_quality"}}')
    changed = fuse_changed(record, changes)
    changed.record.reward, changed.notes

Scores, reasons and texts stay; the group is fused again, by itself. γ, the influence of an attribute such as length on
the scores, was estimated from many groups, which are not here. So the recorded estimate is used again:

    record.gamma     the estimate                  record.shrunk    the estimate, pulled towards 0 where it is uncertain
    record.se        its standard error            record.taken     the part of it that was taken out of the scores
    λ                the share of a positive shrunk estimate that is taken out

A record does not hold all options of its rule. So the group is first fused without any change. If that does not give
the recorded rewards, a note says by how much it differs, because the changed rewards differ as well.
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
from rubrank.fusion.control.adjustment import Adjustment, attenuate
from rubrank.fusion.control.estimate import BatchEstimate, InfluenceEstimate
from rubrank.fusion.gate import Gated
from rubrank.fusion.options import has_rlvr2, with_options
from rubrank.fusion.rule import Rule
from rubrank.fusion.rules import find_rule
from rubrank.records.record import GroupRecord, record_table, to_array, to_score_table

Layer: TypeAlias = Literal["quality", "global_quality", "low_quality", "watch"]
# Rewards that differ by less count as the same; the page shows two digits of them.
_CLOSE = 1e-6
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
    _check_names(record, changes)
    notes = []
    recorded_rule, difference = _find_recorded_rule(record)
    if difference is None:
        notes.append(f"The recorded rule {record.rule} is not known here.")
    elif difference > _CLOSE:
        notes.append(
            "The record does not hold all options of its rule: fused again without any change, "
            f"rewards differ by up to {difference:.2g}."
        )

    # The recorded rule has the recorded estimate already; another rule, or another λ, needs it again.
    rule = recorded_rule
    if rule is None or changes.rule not in ("", record.rule):
        rule = find_rule(changes.rule or record.rule)
        # γ of an ordinal fit is on another scale than γ of a rule that adds up scores.
        if recorded_rule is not None and has_rlvr2(rule) == has_rlvr2(recorded_rule):
            rule = _apply_control(rule, record, changes.lam)
        elif record.attribute_names:
            notes.append(
                "Attributes are not taken out: the record has no estimate for this kind of rule."
            )
    elif changes.lam is not None:
        rule = _apply_control(rule, record, changes.lam)

    if changes.lam is not None and not record.attribute_names:
        notes.append("λ changes nothing: the record has no attributes.")
    elif changes.lam is not None and record.shrunk is not None and record.pool != "group":
        shrunk = to_array(record.shrunk, _find_gamma_shape(record))
        if not (shrunk > 0.0).any():
            notes.append("λ changes nothing: no attribute has a positive influence on a criterion.")
    needs_gate = bool({"global_quality", "low_quality"} & set(changes.layers.values()))
    if needs_gate and not isinstance(rule, Gated):
        rule = Gated(rule)
        notes.append(f"A gate was added to the rule: {rule.name}.")
    changed_fields = _find_changed_fields(record, changes)
    return ChangedGroup(_fuse(record, rule, changed_fields), tuple(notes))


def _check_names(record: GroupRecord, changes: Changes) -> None:
    """Raise UnknownName for a criterion that the group does not have, and InvalidInput for an impossible weight."""
    names = [criterion.name for criterion in record.criteria]
    for name in (*changes.weights, *changes.layers):
        if name not in names:
            raise UnknownName.of(f"group {record.group!r}", "criterion", name, names)
    for name, weight in changes.weights.items():
        if not 0.0 <= weight < float("inf"):
            raise InvalidInput("view", f"weight of {name!r}", "finite and ≥ 0", f"{weight:g}")


def _find_changed_fields(record: GroupRecord, changes: Changes) -> dict[str, dict[str, Any]]:
    """Return criterion → its layer and weight, for the criteria that differ from the record.

    A quality criterion with the weight 0 is only watched, because a rule cannot rank by it.
    """
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
    record: GroupRecord, rule: Rule, changed_fields: Mapping[str, Mapping[str, Any]]
) -> GroupRecord:
    """Fuse the scores of a record under a rule; the recorded rewards become those of another rule.

    changed_fields: criterion → fields that replace those of the record.
    """
    table = to_score_table([record]).change_criteria(changed_fields)
    if not any(criterion.layer == "quality" for criterion in table.groups[0].criteria):
        raise InvalidInput(
            "view",
            "changes",
            "such that a criterion ranks the rollouts",
            "none does",
            "Give one of them a weight.",
        )
    # What a rule with control takes out of the scores depends on these attributes.
    attributes = None
    if record.attributes is not None:
        attributes = to_array(record.attributes, _find_attribute_shape(record))
    batch = table.batch(attributes=attributes, attribute_names=record.attribute_names)
    (fused,) = record_table(table, rule, batch=batch)
    other_rewards = {f"{record.rule}, as recorded": record.reward}
    for name, rewards in record.others.items():
        if name != fused.rule:
            other_rewards[name] = rewards
    unchanged_fields = {name: getattr(record, name) for name in _UNCHANGED_FIELDS}
    return fused.model_copy(update={**unchanged_fields, "others": other_rewards})


def _find_attribute_shape(record: GroupRecord) -> tuple[int, int]:
    """Return (G, D): rollouts and attributes."""
    return record.size, len(record.attribute_names)


def _find_gamma_shape(record: GroupRecord) -> tuple[int, int]:
    """Return (K, D): ranked criteria and attributes."""
    return len(record.weights), len(record.attribute_names)


# ------------------------------------------------------------------------------------------ the rule of a record


def _find_recorded_rule(record: GroupRecord) -> tuple[Rule | None, float | None]:
    """Return the rule whose options reproduce the recorded rewards best, and the largest difference that remains.

    None, None: a rule of this name is not known here.
    """
    best: Rule | None = None
    smallest: float | None = None
    for rule in _list_candidates(record):
        reward = np.array(_fuse(record, rule, {}).reward)
        difference = float(np.abs(reward - np.array(record.reward)).max(initial=0.0))
        if smallest is None or difference < smallest:
            best = rule
            smallest = difference
        if difference <= _CLOSE:
            break
    return best, smallest


def _list_candidates(record: GroupRecord) -> Iterator[Rule]:
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
        is_scaled = record.scale is not None and any(factor != 1.0 for factor in record.scale)
        spans = ("unit", "sd") if is_scaled else ("model",)
        # Soft outcomes and γ of single groups exist in the ordinal fit only.
        if record.soft_outcomes:
            variants = [with_options(rule, "view", span=span, outcomes="soft") for span in spans]
        else:
            kinds_of_wins = ("ordinal",) if record.pool == "group" else ("ordinal", "graded")
            variants = []
            for wins in kinds_of_wins:
                for span in spans:
                    variants.append(with_options(rule, "view", span=span, wins=wins))
    for variant in variants:
        controlled = _apply_control(variant, record, None)
        yield controlled
        if isinstance(controlled, Gated):  # the paper's gate
            yield replace(controlled, gate=replace(controlled.gate, lift=0.0))


def _apply_control(rule: Rule, record: GroupRecord, lam: float | None) -> Rule:
    """Return the rule with the recorded estimate of γ; the rule itself if the record has none.

    lam: the share of γ to take out; None: what was taken out is taken out again, exactly.
    """
    if not record.attribute_names or record.shrunk is None or record.taken is None:
        return rule
    if record.pool == "group":
        # Nothing was pooled: the group itself has everything that the estimate needs.
        adjust = _find_adjustment(record) if lam is None else attenuate(lam)
        return with_options(rule, "view", adjust=adjust, pool="group")
    shape = _find_gamma_shape(record)
    names = [criterion.name for criterion in record.ranked]
    # Only shown on the page; what is taken out are the coefficients below.
    gamma = to_array(record.gamma or record.shrunk, shape)
    error = to_array(record.se or record.shrunk, shape)
    counts = np.ones(len(names)) if record.n is None else np.array(record.n, dtype=float)
    # With "remove", all of the given coefficients is taken out: those of the record, or the shrunk ones that λ scales.
    coefficients = to_array(record.taken if lam is None else record.shrunk, shape)
    no_squares = np.zeros((*shape, shape[1]))  # only needed to estimate further
    estimate = InfluenceEstimate(gamma, error, coefficients, counts, no_squares, no_squares)
    return with_options(
        rule,
        "view",
        adjust="remove" if lam is None else attenuate(lam),
        pool="batch",
        adjust_criteria=[name for name, count in zip(names, counts, strict=True) if count > 0.0],
        batch_estimate=BatchEstimate(_find_scale(record), tuple(names), estimate),
    )


def _find_adjustment(record: GroupRecord) -> Adjustment:
    """Return how much of the group's own γ was taken out, found by comparing `taken` with `gamma`.

    "remove" takes out all of it, `attenuate(λ)` a share λ of what is positive and nothing of what is negative.
    """
    shape = _find_gamma_shape(record)
    gamma = to_array(record.gamma or (), shape)
    taken_out = to_array(record.taken or (), shape)
    if (taken_out[gamma < 0.0] != 0.0).any():
        return "remove"
    shares = taken_out[gamma > 0.0] / gamma[gamma > 0.0]
    return attenuate(float(shares.mean())) if len(shares) else "remove"


def _find_scale(record: GroupRecord) -> np.ndarray:
    """Return the factors of the attributes' contrasts, (D,); 1 for attributes in which rollouts do not differ.

    The factors came from the whole batch, and a record does not hold them. But it holds the contrasts after scaling:
    the contrasts are computed again without a factor, and the factor is the slope between the two.
    """
    # Imported here, because it compiles code.
    from rubrank.fusion.models import likelihood

    D = len(record.attribute_names)
    if record.mean_contrasts is None:
        return np.ones(D)
    shape = _find_attribute_shape(record)
    unscaled = np.empty(shape)
    values = to_array(record.attributes or (), shape)
    likelihood.average_contrasts(values, np.ones(D), np.array([0, record.size]), unscaled)
    recorded = to_array(record.mean_contrasts, shape)
    squares = (unscaled * unscaled).sum(0)
    differs = squares > 0.0
    slope = (recorded * unscaled).sum(0) / np.where(differs, squares, 1.0)
    return np.where(differs, slope, 1.0)
