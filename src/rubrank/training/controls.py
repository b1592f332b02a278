"""Attributes that are controlled, from a step on: measured on every rollout, and taken out of what is rewarded.

    controls_of(["markdown", Control("reasoning_length", attenuate(0.5), start=700)])

Before a control's step its attribute is left alone. Only RLVR² can control attributes, alone or with the weights of
another rule: they are part of its fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.adjust import Rule as Adjustment
from rubrank.fusion.adjust import rules_for
from rubrank.fusion.attribute import Attribute
from rubrank.fusion.rule import Rule, Stateful
from rubrank.rollouts.rollout import Rollout

_OWNER = "attributes"


@dataclass(frozen=True)
class Control:
    """What becomes of an attribute's influence from step `start` on: "remove", or `attenuate(lam)` it."""

    attribute: str | Attribute
    adjust: Adjustment = "remove"
    start: int = 0

    def __post_init__(self) -> None:
        rules_for(f"Control({self.name!r})", [self.adjust], 1)
        if isinstance(self.start, bool) or not isinstance(self.start, int) or self.start < 0:
            raise InvalidInput(f"Control({self.name!r})", "start", "a step ≥ 0", repr(self.start), "Count from 0.")

    @property
    def name(self) -> str:
        """Of the attribute."""
        return self.attribute if isinstance(self.attribute, str) else self.attribute.name

    @property
    def found(self) -> Attribute:
        """The attribute itself."""
        from rubrank.fusion.attributes import find_attribute

        return find_attribute(self.attribute) if isinstance(self.attribute, str) else self.attribute


def controls_of(given: Iterable[str | Attribute | Control]) -> tuple[Control, ...]:
    """Names, attributes and controls as controls; unknown names and columns that occur twice are refused."""
    if isinstance(given, str | Attribute | Control):
        given = [given]
    controls = tuple(one if isinstance(one, Control) else Control(one) for one in given)
    columns = [column for control in controls for column in control.found.columns]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise InvalidInput(_OWNER, "columns", "each controlled once", f"{twice} twice", "Drop one.")
    return controls


@dataclass(frozen=True, eq=False)
class Controlled:
    """The controls that are on at a step, measured."""

    values_MD: np.ndarray | None
    columns: tuple[str, ...]
    adjust: tuple[Adjustment, ...]


def measured(controls: Sequence[Control], rollouts: Sequence[Rollout], step: int) -> Controlled:
    """Values of the attributes that are on at this step; none: no values."""
    on = [control for control in controls if step >= control.start]
    if not on:
        return Controlled(None, (), ())
    texts = [_tagged(rollout) for rollout in rollouts]
    values = np.concatenate([control.found.rows(texts) for control in on], axis=1)
    columns = [(column, control.adjust) for control in on for column in control.found.columns]
    return Controlled(values, tuple(name for name, _ in columns), tuple(adjust for _, adjust in columns))


def _tagged(rollout: Rollout) -> str:
    """The whole text, as attributes take it: the reasoning in tags."""
    if rollout.reasoning is None:
        return rollout.response
    return f"<think>{rollout.reasoning}</think>{rollout.response}"


# --------------------------------------------------------------------------------------------------------------- rules


def changed(rule: Rule, **options: Any) -> Rule:
    """The rule with other options of its RLVR² part; weights that remember go on remembering in the same place."""
    from rubrank.fusion.gated import GatedRule
    from rubrank.fusion.rules.ordinal import OrdinalFusion, Reweighted

    if isinstance(rule, GatedRule):
        return replace(rule, rule=changed(rule.rule, **options))
    if isinstance(rule, Reweighted):
        return replace(rule, ordinal=replace(rule.ordinal, **options))
    if isinstance(rule, OrdinalFusion):
        return replace(rule, **options)
    raise InvalidInput(
        _OWNER, "rule", "'rlvr2', alone or composed, where attributes are controlled", repr(rule.name),
        "Such as 'rlvr2+' or 'rlvr2*focal+'.",
    )  # fmt: skip


def is_ordinal(rule: Rule) -> bool:
    """Has it an RLVR² part?"""
    from rubrank.fusion.rules.ordinal import OrdinalFusion

    return isinstance(_part(rule, "rule", "ordinal"), OrdinalFusion)


def remembers(rule: Rule) -> bool:
    """Does it, or what it is made of, learn from batch to batch?"""
    return isinstance(_part(rule, "rule", "weighing"), Stateful)


def _part(rule: Rule, *names: str) -> Any:
    """What a gated or composed rule holds, down to the bottom."""
    from rubrank.fusion.gated import GatedRule
    from rubrank.fusion.rules.ordinal import Reweighted

    while isinstance(rule, GatedRule | Reweighted):
        rule = next(getattr(rule, name) for name in names if hasattr(rule, name))
    return rule
