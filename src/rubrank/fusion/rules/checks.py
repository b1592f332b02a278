"""Checks of a rule's constants when the rule is created: `focal:gamma=-1` fails before any score is read.

A rule declares each constant as a dataclass field with a check, and `CheckedRule` runs the checks:

    class Focal(CheckedRule):
        gamma: float = number(3.0)            Focal(gamma=-1): "focal: gamma must be a number ≥ 0; got -1. Use 3.0."
        batch_norm: bool = flag(True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, get_args

import numpy as np

from rubrank.errors import InvalidInput, UnknownName


@dataclass(frozen=True)
class CheckedRule:
    """Base of the built-in rules: runs the check of every constant. Raises InvalidInput for the first wrong one.

    The check of a field is called with the rule and the value, and returns what is allowed; None: the value is right.
    """

    def __post_init__(self) -> None:
        for constant in fields(self):
            value = getattr(self, constant.name)
            words = constant.metadata.get("words")
            if words and value not in words:
                raise UnknownName.of(self.name, constant.name, value, words)  # type: ignore[attr-defined]
            check = constant.metadata.get("check")
            allowed = check(self, value) if check else None
            if allowed is not None:
                raise InvalidInput(
                    self.name,  # type: ignore[attr-defined]
                    constant.name,
                    allowed=allowed,
                    got=repr(value),
                    remedy=f"Use {constant.default!r}.",
                )


@dataclass(frozen=True)
class LocalRule(CheckedRule):
    """Base of the built-in rules that look at each group by itself, so that a batch can be cut between groups."""

    local: ClassVar[bool] = True


@dataclass(frozen=True)
class LearningRule(CheckedRule):
    """Base of the built-in rules that learn from batch to batch."""

    memory: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What was learnt, as JSON data."""

    def state(self) -> dict[str, Any]:
        """Return what was learnt, for a checkpoint."""
        return {"rule": self.name, "version": 2, "memory": deepcopy(self.memory)}  # type: ignore[attr-defined]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = check_state(self, 2, state)["memory"]
        self.memory.clear()
        self.memory.update(deepcopy(saved))


def number(
    default: float, *, low: float | str = 0.0, high: float = math.inf, above: bool = False
) -> Any:
    """Declare a constant from `low` to `high`; `low` may name another constant, and above=True excludes `low`."""

    def check(rule: Any, value: Any) -> str | None:
        lowest = getattr(rule, low) if isinstance(low, str) else low
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if is_number and lowest <= value <= high and not (above and value == lowest):
            return None
        if math.isinf(high):
            return f"a number {'>' if above else '≥'} {lowest:g}"
        if above:
            return f"a number above {lowest:g} and at most {high:g}"
        return f"a number from {lowest:g} to {high:g}"

    return field(default=default, metadata={"check": check})


def choice(default: str, literal: Any) -> Any:
    """Declare a constant that is one of the words of a `Literal`."""
    return field(default=default, metadata={"words": get_args(literal)})


def flag(default: bool) -> Any:
    """Declare a constant that is True or False."""
    return field(
        default=default,
        metadata={
            "check": lambda rule, value: None if isinstance(value, bool) else "True or False"
        },
    )


def check_state(rule: Any, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the saved state of a rule that learns; raises InvalidInput if another rule or version saved it."""
    if (state.get("rule"), state.get("version")) != (rule.name, version):
        raise InvalidInput(
            rule.name,
            "state",
            allowed=f"one that {rule.name!r} saved, version {version}",
            got=f"{state.get('rule')!r}, version {state.get('version')}",
            remedy="Restore each rule from its own state.",
        )
    return state
