"""Checks of the constants of a rule, made when the rule is: `focal:gamma=-1` fails before any score is seen.

focal: gamma must be a number ≥ 0; got -1. Use 3.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rubrank.errors import InvalidInput


def number(rule: Any, *names: str, low: float = 0.0, high: float = math.inf, above: bool = False) -> None:
    """Raise unless the constants are numbers from `low` (or above it) to `high`."""
    for name in names:
        value = getattr(rule, name)
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not (low < value if above else low <= value) or value > high:
            more = f"{'>' if above else '≥'} {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise InvalidInput(rule.name, name, f"a number {more}", repr(value), f"Use {default(rule, name)!r}.")


def choice(rule: Any, name: str, allowed: tuple[str, ...]) -> None:
    """Raise unless the constant is one of the words."""
    value = getattr(rule, name)
    if value not in allowed:
        raise InvalidInput(rule.name, name, f"one of {', '.join(map(repr, allowed))}", repr(value), "")


def flag(rule: Any, *names: str) -> None:
    """Raise unless the constants are True or False."""
    for name in names:
        if not isinstance(getattr(rule, name), bool):
            raise InvalidInput(rule.name, name, "True or False", repr(getattr(rule, name)), "")


def default(rule: Any, name: str) -> Any:
    """The default of a constant."""
    return next(f.default for f in fields(rule) if f.name == name)


def state_of(rule: Any, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A saved state, if it is this rule's and of this version."""
    name, found = (state.get("rule"), state.get("version")) if isinstance(state, Mapping) else (None, None)
    if name != rule.name or found != version:
        raise InvalidInput(
            rule.name,
            "state",
            f"one that {rule.name!r} saved, version {version}",
            f"{name!r}, version {found}",
            "Restore each rule from its own state.",
        )
    return state
