"""What if: the group of a record under another rule, with other weights, gates or λ.

    changes = read_changes('{"rule": "gdpo+", "weights": {"Tone": 0}, "layers": {"Facts": "global_quality"}}')
    changed = fuse_changed(record, changes)
    changed.record.reward, changed.notes

Scores, reasons and texts stay; the group is fused again, by itself. What was taken out for its attributes is known
from the record: the estimate of γ came from many groups, and is used as it was recorded.

A record does not hold all options of its rule. So the group is first fused without any change. If that does not give
the recorded rewards, a note says by how much it differs, because the changed rewards differ as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, ValidationError

from rubrank._plain import Strict
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.fusion.control.adjustment import Adjustment, attenuate
from rubrank.fusion.control.estimate import BatchEstimate, InfluenceEstimate
from rubrank.fusion.gate import Gated
from rubrank.fusion.options import has_rlvr2, with_options
from rubrank.fusion.rule import Rule
from rubrank.fusion.rules import find_rule
from rubrank.records.record import GroupRecord, record_table, to_array, to_score_table

Layer: TypeAlias = Literal["quality", "global_quality", "low_quality", "watch"]
_CLOSE = 1e-6  # rewards that differ by less are the same
_TEXT_FIELDS = ("prompt", "turns", "responses", "reasoning", "tokens")
_UNCHANGED_FIELDS = ("group", "step", *_TEXT_FIELDS, "metadata")
"""What a group that is fused again has in common with its record."""


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
        return Changes.model_validate(json.loads(text or "{}"))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "changes"
        raise InvalidInput(
            "view", place, allowed="as the page sends it", got=first["msg"]
        ) from None
    except (ValueError, RecursionError):
        raise InvalidInput(
            "view", "changes", allowed="a JSON object", got=repr(text[:80])
        ) from None


def fuse_changed(record: GroupRecord, changes: Changes) -> ChangedGroup:
    """Return the group with the changes."""
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
        shape = (len(record.weights), len(record.attribute_names))
        if not (to_array(record.shrunk, shape) > 0.0).any():
            notes.append("λ changes nothing: no attribute has a positive influence on a criterion.")
    if changes.layers and not isinstance(rule, Gated):
        rule = Gated(rule)
        notes.append(f"A gate was added to the rule: {rule.name}.")
    return ChangedGroup(_fuse(record, rule, _describe_changes(record, changes)), tuple(notes))


def _check_names(record: GroupRecord, changes: Changes) -> None:
    names = [criterion.name for criterion in record.criteria]
    for name in (*changes.weights, *changes.layers):
        if name not in names:
            raise UnknownName.of(f"group {record.group!r}", "criterion", name, names)
    for name, weight in changes.weights.items():
        if not 0.0 <= weight < float("inf"):
            raise InvalidInput(
                "view", f"weight of {name!r}", allowed="finite and ≥ 0", got=f"{weight:g}"
            )


def _describe_changes(record: GroupRecord, changes: Changes) -> dict[str, dict[str, Any]]:
    """Criterion → fields of its data that differ from the record."""
    described: dict[str, dict[str, Any]] = {}
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
            described[criterion.name] = fields
    return described


def _fuse(record: GroupRecord, rule: Rule, changes: Mapping[str, Mapping[str, Any]]) -> GroupRecord:
    table = to_score_table([record]).change_criteria(changes)
    ranked = [criterion for criterion in table.groups[0].criteria if criterion.layer == "quality"]
    if not ranked:
        raise InvalidInput(
            "view",
            "changes",
            allowed="such that a criterion ranks the rollouts",
            got="none does",
            remedy="Give one of them a weight.",
        )
    attributes = None
    if record.attributes is not None:
        attributes = to_array(record.attributes, _shape_of_attributes(record))
    batch = table.batch(attributes=attributes, attribute_names=record.attribute_names)
    (fused,) = record_table(table, rule, batch=batch)
    other_rewards = {f"{record.rule}, as recorded": record.reward}
    other_rewards |= {
        name: rewards for name, rewards in record.others.items() if name != fused.rule
    }
    unchanged_fields = {name: getattr(record, name) for name in _UNCHANGED_FIELDS}
    return fused.model_copy(update={**unchanged_fields, "others": other_rewards})


def _shape_of_attributes(record: GroupRecord) -> tuple[int, int]:
    return record.size, len(record.attribute_names)


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
    """Rules of the recorded name, with options that the record may have been made with; the usual ones come first."""
    try:
        rule = find_rule(record.rule)
    except RubrankError:
        return
    variants = [rule]
    if has_rlvr2(rule):
        is_scaled = record.scale is not None and any(factor != 1.0 for factor in record.scale)
        spans = ("unit", "sd") if is_scaled else ("model",)
        # Soft outcomes and γ of single groups exist in the ordinal fit only.
        if record.soft_outcomes:
            variants = [with_options(rule, "view", span=span, outcomes="soft") for span in spans]
        else:
            kinds_of_wins = ("ordinal",) if record.pool == "group" else ("ordinal", "graded")
            variants = [
                with_options(rule, "view", span=span, wins=wins)
                for wins in kinds_of_wins
                for span in spans
            ]
    for variant in variants:
        controlled = _apply_control(variant, record, None)
        yield controlled
        if isinstance(controlled, Gated):  # the paper's gate
            yield replace(controlled, gate=replace(controlled.gate, lift=0.0))


def _apply_control(rule: Rule, record: GroupRecord, lam: float | None) -> Rule:
    """Return the rule with the estimate of the record. lam None: what was taken out is taken out again, exactly."""
    if not record.attribute_names or record.shrunk is None or record.taken is None:
        return rule
    if record.pool == "group":
        # Nothing was pooled: the group itself has everything that the estimate needs.
        adjust = _find_adjustment(record) if lam is None else attenuate(lam)
        return with_options(rule, "view", adjust=adjust, pool="group")
    shape = (len(record.weights), len(record.attribute_names))
    names = [criterion.name for criterion in record.ranked]
    gamma = to_array(record.gamma or record.shrunk, shape)
    error = to_array(record.se or record.shrunk, shape)
    counts = np.ones(len(names)) if record.n is None else np.array(record.n, dtype=float)
    # With "remove", all of the given coefficients is taken out: those of the record, or the shrunk ones that λ scales.
    coefficients = to_array(record.taken if lam is None else record.shrunk, shape)
    squares = np.zeros((*shape, shape[1]))
    estimate = InfluenceEstimate(gamma, error, coefficients, counts, squares, squares)
    return with_options(
        rule,
        "view",
        adjust="remove" if lam is None else attenuate(lam),
        pool="batch",
        adjust_criteria=[name for name, count in zip(names, counts, strict=True) if count > 0.0],
        batch_estimate=BatchEstimate(_find_scale(record), tuple(names), estimate),
    )


def _find_adjustment(record: GroupRecord) -> Adjustment:
    """Return how much of each group's own γ was taken out, from what the record says."""
    shape = (len(record.weights), len(record.attribute_names))
    gamma = to_array(record.gamma or (), shape)
    taken_out = to_array(record.taken or (), shape)
    if (taken_out[gamma < 0.0] != 0.0).any():
        return "remove"
    shares = taken_out[gamma > 0.0] / gamma[gamma > 0.0]
    return attenuate(float(shares.mean())) if len(shares) else "remove"


def _find_scale(record: GroupRecord) -> np.ndarray:
    """(D,): what contrasts were multiplied by, from the contrasts of the record; 1 where rollouts do not differ."""
    from rubrank.fusion.models import likelihood

    attributes = len(record.attribute_names)
    unscaled = np.empty(_shape_of_attributes(record))
    values = to_array(record.attributes or (), _shape_of_attributes(record))
    likelihood.average_contrasts(values, np.ones(attributes), np.array([0, record.size]), unscaled)
    if record.mean_contrasts is None:
        return np.ones(attributes)
    recorded = to_array(record.mean_contrasts, _shape_of_attributes(record))
    squares = (unscaled * unscaled).sum(0)
    differs = squares > 0.0
    scale = (recorded * unscaled).sum(0) / np.where(differs, squares, 1.0)
    return np.where(differs, scale, 1.0)
