"""Make rules from options: `rubrank.options` declares the options, this module applies them to rules and batches.

    >>> from rubrank.options import FuseOptions
    >>> make_rule(FuseOptions(rule="focal+", gate={"lift": 0})).name
    'focal+'

Most constants belong to RLVR², which may stand alone, behind a gate (`rlvr2+`) or within a composition
(`rlvr2*focal+`). `with_options` finds it there and changes it; other rules have no such part and refuse the option.
Every rule takes the options of attribute control: one without RLVR² gets a stage before it (`Controlled`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control.adjustment import Adjustment, attenuate
from rubrank.fusion.control.linear import Controlled
from rubrank.fusion.gate import Gate, Gated
from rubrank.fusion.rlvr2 import RLVR2, Composed
from rubrank.fusion.rule import Rule
from rubrank.fusion.rules import CONTROL_OPTIONS, find_rule
from rubrank.options import AttributeOptions, FuseOptions, GateOptions, RewardOptions
from rubrank.verifiers.domain import Domain

CONSTANTS = (
    "prior",
    "span",
    "wins",
    "tau",
    "width",
    "scale",
    "model",
    "seed",
    "outcomes",
    "retest",
)
"""Options that are constants of RLVR²."""
CONTROL_CONSTANTS = ("pool", "adjust_criteria", "attribute_prior")
"""Constants of RLVR² that only matter if attributes are controlled."""
PAPER = {"span": "model", "wins": "ordinal", "pool": "group"}
"""What `edition: paper` sets, besides the lift of the gate (0) and no control unless attributes are named."""


def make_rule(
    options: RewardOptions, expression: str | None = None, *, owner: str = "options"
) -> Rule:
    """Return the rule with the options that were set.

    expression: used instead of `options.rule`, for each of several rules that are compared. Options that this rule does
    not have are then ignored; for `options.rule` itself they are an error.
    """
    is_compared = expression is not None
    written: Any = expression if is_compared else options.rule
    gate: Any = options.gate
    if isinstance(gate, GateOptions):
        # Constants that were not set are left out, so that the rule's own gate stays.
        gate_constants = gate.model_dump(exclude_unset=True)
        gate = Gate(**gate_constants) if gate_constants else None
    if is_compared and not written.strip().endswith("+"):
        gate = None
    rule = find_rule(written, gate=gate)

    constants = {}
    for name in (*CONSTANTS, *(CONTROL_CONSTANTS if options.attributes else ())):
        # Only `FuseOptions` has `model`.
        value = getattr(options, name) if name in options.model_fields_set else None
        if value is not None:
            constants[name] = value
    if has_rlvr2(rule):
        rule = with_options(rule, owner, **constants)
        return _as_in_paper(rule, constants, owner) if options.edition == "paper" else rule

    # Another rule refuses the constants of RLVR², except the options of the stage that controls attributes before it,
    # and those that are set to their defaults.
    if options.edition == "paper" and not is_compared:
        constants["edition"] = "paper"
    can_control = bool(options.attributes) and is_controllable(rule)
    changed = {}
    for name, value in constants.items():
        is_unused_seed = name == "seed" and not options.attributes  # it makes no random draws
        if value == type(options).model_fields[name].default or is_unused_seed:
            continue
        # Only RLVR² estimates the influence in a single group.
        is_usable = can_control and name in CONTROL_OPTIONS and value != "group"
        if is_usable or not is_compared:
            changed[name] = value
    return with_options(rule, owner, **changed) if changed else rule


def _as_in_paper(rule: Rule, constants: Mapping[str, Any], owner: str) -> Rule:
    """Return RLVR² with the paper's settings; raises InvalidInput if the rule or the options say something else."""
    part = find_parts(rule).controlling
    current = {name: getattr(part, name) for name in PAPER}
    conflicts: dict[str, Any] = {}
    for name, value in PAPER.items():
        is_chosen = name in constants or current[name] != getattr(RLVR2, name)
        if is_chosen and current[name] != value:
            conflicts[name] = value
    rule = with_options(rule, owner, **PAPER)
    if isinstance(rule, Gated):
        if rule.gate.lift:
            conflicts["gate.lift"] = 0
            current["gate.lift"] = rule.gate.lift
        rule = replace(rule, gate=replace(rule.gate, lift=0.0))
    for name, value in conflicts.items():
        raise InvalidInput(
            owner,
            name,
            allowed=f"{value!r} with `edition: paper`",
            got=repr(current[name]),
            remedy="Leave one of the two out.",
            field=name,
        )
    return rule


def make_fuse_rule(options: FuseOptions, expression: str | None = None) -> Rule:
    """Return the rule for a table of scores; it also controls the table's attributes."""
    rule = make_rule(options, expression)
    if not options.attributes:
        if "adjust" in options.model_fields_set:
            raise InvalidInput(
                "options",
                "adjust",
                allowed="given with `attributes`",
                got="no attributes",
                remedy="Name the columns.",
            )
        return rule
    if expression is not None and not is_controllable(rule):
        return rule
    adjustments = [make_adjustment(options, attribute) for attribute in options.attributes]
    return with_options(rule, "options", adjust=adjustments)


def make_adjustment(options: RewardOptions, attribute: AttributeOptions) -> Adjustment:
    """Return how much of an attribute's influence is taken out."""
    share = options.adjustment_of(attribute)
    return "remove" if share is None else attenuate(*share)


# ----------------------------------------------------------------------------------------------------- tables of scores


def check_options_of_table(
    options: RewardOptions, criteria: Collection[str], has_gates: bool
) -> None:
    """Raise if the options name a criterion that the table does not have, or set a gate that it does not have."""
    adjusted = () if options.adjust_criteria == "all" else options.adjust_criteria or ()
    for option, names in (("retest", options.retest), ("adjust_criteria", adjusted)):
        for name in names:
            if name not in criteria:
                raise UnknownName.of("options", option, name, criteria)
    sets_gate = isinstance(options.gate, GateOptions) and options.gate.model_fields_set
    if sets_gate and not has_gates:
        field = f"gate.{sorted(options.gate.model_fields_set)[0]}"
        allowed = "given with a gate: `global_quality` or `low_quality`"
        raise InvalidInput(
            "options", field, allowed=allowed, got="none", remedy="Name a criterion for the gate."
        )


def collect_criterion_changes(options: FuseOptions) -> dict[str, dict[str, Any]]:
    """Return criterion → the fields of its `CriterionData` that the options change."""
    changes: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, weight in options.weight.items():
        changes[name]["weight"] = weight
    for name, margin in options.margin.items():
        changes[name]["margin"] = margin
    for name, (low, high) in options.domain.items():
        changes[name]["domain"] = Domain("continuous", (), low, high)
    for name in options.lower:
        changes[name]["direction"] = "lower"
    for name in options.global_quality:
        changes[name]["layer"] = "global_quality"
    for name in options.low_quality:
        changes[name]["layer"] = "low_quality"
    return dict(changes)


def check_changes(
    owner: str, changes: Mapping[str, Mapping[str, Any]], names: Collection[str]
) -> None:
    """Raise UnknownName for a criterion that the table does not have; the error names the option that changes it."""
    for name, change in changes.items():
        if name not in names:
            first = next(iter(change))
            option = {"direction": "lower", "layer": str(change.get("layer"))}.get(first, first)
            raise UnknownName.of(owner, option, name, names)


# -------------------------------------------------------------------------------------------------- the parts of a rule


class RuleParts(NamedTuple):
    """The two parts of a rule that have a say over other groups: a rule without such parts is both of them.

    rule                     weighing       controlling
    "rlvr2*focal+"           Focal          RLVR2
    "gdpo+", controlled      GDPO           Controlled
    "gdpo+"                  GDPO           GDPO
    """

    weighing: Any
    """The rule that sets the weights, or that adds up the scores."""
    controlling: Any
    """The part that takes out the influence of attributes."""


def find_parts(rule: Rule) -> RuleParts:
    """Return the parts of a rule, without its gate."""
    if isinstance(rule, Gated):
        rule = rule.rule
    if isinstance(rule, Composed):
        return RuleParts(rule.weighing, rule.ordinal)
    if isinstance(rule, Controlled):
        return RuleParts(rule.rule, rule)
    return RuleParts(rule, rule)


def is_local(rule: Rule) -> bool:
    """Do the rewards of a group depend on that group alone? A rule that does not say so gets whole batches."""
    return all(getattr(part, "local", False) for part in find_parts(rule))


def can_fuse_in_parts(rule: Rule) -> bool:
    """Can groups be fused in batches that have only their own criteria, with the same rewards?

    Only if the rule is local, and none of its options names a criterion: a batch without this criterion would refuse
    the option, because the name may be a typing error.
    """
    weighing = find_parts(rule).weighing
    names_criteria = (
        not isinstance(getattr(weighing, "hard", ""), str)  # of RuleFusion
        or isinstance(getattr(weighing, "reference", None), Mapping)  # of LogSigmoid
        or bool(getattr(weighing, "conditions", ()))  # of GDPO and SA-MRPO
        or (isinstance(rule, Gated) and isinstance(rule.gate.maximum, Mapping))
    )
    return is_local(rule) and not names_criteria


def has_memory(rule: Rule) -> bool:
    """Does the rule, or a part of it, learn from batch to batch?"""
    return any(getattr(part, "remembers", hasattr(part, "state")) for part in find_parts(rule))


def is_controllable(rule: Rule) -> bool:
    """Can the influence of attributes be taken out? Not of a rule that compares scores with thresholds."""
    return bool(getattr(find_parts(rule).weighing, "controllable", True))


def has_rlvr2(rule: Rule) -> bool:
    """Is it RLVR², alone, gated or composed?"""
    return isinstance(find_parts(rule).controlling, RLVR2)


def with_options(rule: Rule, owner: str, **options: Any) -> Rule:
    """Return the rule with other options of its RLVR² part, or of the stage before it.

    A rule that learns continues from what it has learnt.
    """
    if isinstance(rule, Gated):
        return replace(rule, rule=with_options(rule.rule, owner, **options))
    if isinstance(rule, Composed):
        return replace(rule, ordinal=replace(rule.ordinal, **options))
    if isinstance(rule, RLVR2):
        return replace(rule, **options)
    for name in options:
        if name not in (*CONTROL_OPTIONS, "batch_estimate"):
            allowed = f"'rlvr2', alone or composed, if `{name}` is given"
            raise InvalidInput(
                owner,
                "rule",
                allowed=allowed,
                got=repr(rule.name),
                remedy="Such as 'rlvr2+' or 'rlvr2*focal+'.",
            )
    return replace(rule, **options) if isinstance(rule, Controlled) else Controlled(rule, **options)
