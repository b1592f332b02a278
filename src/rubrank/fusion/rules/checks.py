"""Checks of a rule's constants when the rule is created: `focal:gamma=-1` fails before any score is read.

A rule declares each constant as a dataclass field with a check, and `CheckedRule` runs the checks:

    class Focal(CheckedRule):
        gamma: float = number(3.0)            Focal(gamma=-1): "focal: gamma must be a number ≥ 0; got -1. Use 3.0."
        batch_norm: bool = flag(True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

from rubrank.errors import InvalidInput


@dataclass(frozen=True)
class CheckedRule:
    """Base of the built-in rules: runs the check of every constant. Raises InvalidInput for the first wrong one."""

    def __post_init__(self) -> None:
        for constant in fields(self):
            if "check" in constant.metadata:
                constant.metadata["check"](self, constant.name)


@dataclass(frozen=True)
class LocalRule(CheckedRule):
    """Base of the built-in rules that look at each group by itself, so that a batch can be cut between groups."""

    local: ClassVar[bool] = True


def number(
    default: float, *, low: float | str = 0.0, high: float = math.inf, above: bool = False
) -> Any:
    """Declare a constant from `low` to `high`; `low` may name another constant, and above=True excludes `low`."""
    return field(
        default=default, metadata={"check": partial(_check_number, low=low, high=high, above=above)}
    )


def choice(default: str, allowed: tuple[str, ...]) -> Any:
    """Declare a constant that is one of the `allowed` words."""
    return field(default=default, metadata={"check": partial(_check_choice, allowed=allowed)})


def flag(default: bool) -> Any:
    """Declare a constant that is True or False."""
    return field(default=default, metadata={"check": _check_flag})


def _check_number(rule: Any, name: str, low: float | str, high: float, above: bool) -> None:
    """Raise InvalidInput if the constant `name` of the rule is not a number in the declared range."""
    value = getattr(rule, name)
    lowest = getattr(rule, low) if isinstance(low, str) else low
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and lowest <= value <= high and not (above and value == lowest):
        return
    allowed = f"a number {'>' if above else '≥'} {lowest:g}"
    if not math.isinf(high):
        allowed = f"a number from {lowest:g} to {high:g}"
        if above:
            allowed = f"a number above {lowest:g} and at most {high:g}"
    default = next(f.default for f in fields(rule) if f.name == name)
    raise InvalidInput(
        rule.name, name, allowed=allowed, got=repr(value), remedy=f"Use {default!r}."
    )


def _check_choice(rule: Any, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(rule, name)
    if value not in allowed:
        raise InvalidInput(
            rule.name,
            name,
            allowed=f"one of {', '.join(map(repr, allowed))}",
            got=repr(value),
            remedy="",
        )


def _check_flag(rule: Any, name: str) -> None:
    if not isinstance(getattr(rule, name), bool):
        raise InvalidInput(
            rule.name, name, allowed="True or False", got=repr(getattr(rule, name)), remedy=""
        )


def check_state(rule: Any, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the saved state of a rule that learns; raises InvalidInput if another rule or version saved it."""
    saved_name = state.get("rule") if isinstance(state, Mapping) else None
    saved_version = state.get("version") if isinstance(state, Mapping) else None
    if saved_name != rule.name or saved_version != version:
        allowed = f"one that {rule.name!r} saved, version {version}"
        got = f"{saved_name!r}, version {saved_version}"
        raise InvalidInput(
            rule.name,
            "state",
            allowed=allowed,
            got=got,
            remedy="Restore each rule from its own state.",
        )
    return state
