"""Attributes that are controlled, from a step on: measured on every rollout, and taken out of what is rewarded.

    controls_of(["markdown", Control("reasoning_length", attenuate(0.5), start=700)])

Before a control's step its attribute is left alone. Only RLVR² can control attributes, alone or with the weights of
another rule: they are part of its fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.fusion.adjust import Adjustment, Pool, rules_for
from rubrank.fusion.attribute import Attribute
from rubrank.fusion.options import part_of, with_options
from rubrank.fusion.rule import Rule, Stateful
from rubrank.rollouts.rollout import Rollout

if TYPE_CHECKING:
    from rubrank.fusion.attributes.length import Lengths

_OWNER = "attributes"
LENGTHS = {"reasoning_length": "reasoning", "answer_length": "answer", "total_length": "total"}
"""Attribute → the part of a response that it counts."""


@refuses_wrong_kinds
@dataclass(frozen=True)
class Control:
    """What is done about an attribute's influence from step `start` on: "remove" it, or `attenuate(lam)` it."""

    attribute: str | Attribute
    adjust: Adjustment = "remove"
    start: int = 0

    def __post_init__(self) -> None:
        rules_for(f"Control({self.name!r})", [self.adjust], 1)
        if isinstance(self.start, bool) or not isinstance(self.start, int) or self.start < 0:
            raise InvalidInput(f"Control({self.name!r})", "start", "a step ≥ 0", repr(self.start), "")

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
        raise InvalidInput(_OWNER, "columns", "each controlled once", f"{twice} twice", "")
    return controls


@dataclass(frozen=True, eq=False)
class ControlledStep:
    """The controls that are on at a step, measured."""

    values_MD: np.ndarray | None
    columns: tuple[str, ...]
    adjust: tuple[Adjustment, ...]


def token_lengths(rollouts: Sequence[Rollout]) -> Lengths | None:
    """Lengths in tokens; None where one rollout has not been counted: a step has one unit."""
    from rubrank.fusion.attributes.length import Lengths

    counts = [rollout.token_counts for rollout in rollouts]
    if not counts or any(found is None or not {"reasoning", "answer"} <= set(found) for found in counts):
        return None
    reasoning, answer = ([found[part] for found in counts if found] for part in ("reasoning", "answer"))
    return Lengths(reasoning, answer, unit="tokens")


# --------------------------------------------------------------------------------------------------------------- rules


def changed(rule: Rule, **options: Any) -> Rule:
    """The rule with other options of its RLVR² part; refused where it has none."""
    return with_options(rule, _OWNER, **options)


def remembers(rule: Rule) -> bool:
    """Does it, or what it is made of, learn from batch to batch?"""
    weighing, ordinal = part_of(rule, "rule", "weighing"), part_of(rule, "rule", "ordinal")
    return any(getattr(one, "remembers", isinstance(one, Stateful)) for one in (weighing, ordinal))


def pooled(rule: Rule, pool: Pool | None) -> Rule:
    """The rule as a trainer uses it: attributes are estimated over the run, unless it or the rule says otherwise."""
    own = pool_of(rule)
    return changed(rule, pool=pool or ("run" if own == "batch" else own))


def pool_of(rule: Rule) -> str | None:
    """What its RLVR² part estimates over; None where it has none."""
    found: str | None = getattr(part_of(rule, "rule", "ordinal"), "pool", None)
    return found


def warned_alone(owner: str, rule: Rule, groups: int, controlled: ControlledStep) -> bool:
    """Warn of one group, which has no spread over groups: nothing would ever be taken out, unnoticed."""
    if groups > 1 or controlled.values_MD is None or pool_of(rule) == "group":
        return False
    what = "attributes are estimated over the groups of a call, and this one has a single group, which says nothing"
    remedy = 'hand over the groups of a step together, or ask for pool="group", as in the paper'
    warnings.warn(f"{owner}: {what}: {remedy}", RuntimeWarning, stacklevel=5)
    return True
