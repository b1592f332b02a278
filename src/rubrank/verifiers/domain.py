"""Domains: the values that a criterion can take. Verifiers, judges and rubrics share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rubrank.errors import InvalidInput

Layer: TypeAlias = Literal["quality", "low_quality", "global_quality", "watch"]
"""What a criterion is for: "quality" is ranked, "low_quality" feeds the soft gate and "global_quality" the hard one;
"watch" is graded and logged but never rewarded."""


@dataclass(frozen=True)
class Domain:
    """The values that a criterion can take: those in `values`, or all from `low` to `high` if `values` is empty."""

    kind: Literal["binary", "ternary", "discrete", "continuous"]
    values: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @property
    def description(self) -> str:
        """The values in words: "0, 0.5, 1" or "0 to 1"."""
        return ", ".join(f"{value:g}" for value in self.values) or f"{self.low:g} to {self.high:g}"

    def holds(self, value: float) -> bool:
        """Does the domain contain the value?"""
        if self.values:
            return value in self.values
        return self.low <= value <= self.high


BINARY = Domain("binary", (0.0, 1.0))
TERNARY = Domain("ternary", (0.0, 0.5, 1.0))
UNIT = Domain("continuous")


def discrete(*values: float) -> Domain:
    """Return a domain of these values, such as discrete(-1, 0, 1). Raises InvalidInput for fewer than two."""
    if len(set(values)) < 2:
        raise InvalidInput(
            owner="discrete",
            parameter="values",
            allowed="two or more different numbers",
            got=repr(values),
        )
    return Domain("discrete", tuple(sorted(values)), min(values), max(values))
