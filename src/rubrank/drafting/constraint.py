"""One constraint that a prompt states, as a criterion of the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rubrank.drafting.sentences import Quantity


@dataclass(frozen=True)
class Constraint:
    """A verifier with its parameters, and the words of the prompt that state it."""

    verifier: str
    params: Mapping[str, Any] = field(default_factory=dict)
    evidence: str = ""
    """The words of the prompt that state it; a rule may leave them to the compiler, which adds the sentence."""


def constrain_count(
    quantity: Quantity,
    general: str,
    *,
    public: tuple[str, str] | None = None,
    plain: str = "exactly",
    unit: str | None = None,
) -> Constraint:
    """Return a constraint on a count, such as the number of words.

    general: the library's criterion, which takes every relation and a range.
    public: id of a benchmark's instruction and the name of its number. It is preferred, but it only knows "at least",
        "at most", "more than" and "less than".
    plain: what a number without a relation means.
    unit: parameter of `general`, if it needs one.
    """
    relation = quantity.relation if quantity.relation != "plain" else plain
    params: dict[str, Any]
    if relation == "between":
        params = {"low": quantity.low, "high": quantity.high}
    elif public and relation in ("at least", "at most", "more than", "less than"):
        identifier, number_name = public
        return Constraint(identifier, {"relation": relation, number_name: quantity.number})
    else:
        params = {"relation": relation, "count": quantity.number}
    if unit is not None:
        params["unit"] = unit
    return Constraint(general, params)


def split_bounds(quantity: Quantity) -> list[tuple[str, int]]:
    """Return a quantity as (relation, number) pairs: "at least" and "at most" for a range, else one pair."""
    if quantity.relation == "between":
        return [("at least", quantity.low), ("at most", quantity.high)]
    if quantity.relation == "plain":
        return [("exactly", quantity.number)]
    return [(quantity.relation, quantity.number)]
