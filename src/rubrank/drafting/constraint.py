"""One constraint that a prompt states, as a criterion of the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rubrank.drafting.sentences import Quantity


@dataclass(frozen=True)
class Constraint:
    """A verifier with its parameters, and the words of the prompt that ask for it."""

    verifier: str
    params: Mapping[str, Any] = field(default_factory=dict)
    evidence: str = ""


def count_constraint(
    quantity: Quantity,
    evidence: str,
    *,
    public: tuple[str, str] | None,
    general: str,
    relation_name: str = "relation",
    plain: str = "exactly",
    extra: Mapping[str, Any] | None = None,
) -> Constraint:
    """A constraint on a count.

    public: id of the benchmark's instruction and the name of its number; it knows "at least", "at most", "more than"
        and "less than" only.
    general: the library's criterion, which takes every relation and a range.
    plain: what a number without a relation means.
    """
    extra = dict(extra or {})
    relation = quantity.relation
    if relation == "between":
        return Constraint(general, {"low": quantity.low, "high": quantity.high, **extra}, evidence)
    if relation == "plain":
        relation = plain  # type: ignore[assignment]
    if public and relation in ("at least", "at most", "more than", "less than"):
        identifier, number_name = public
        return Constraint(
            identifier, {relation_name: relation, number_name: quantity.number, **extra}, evidence
        )
    return Constraint(general, {"relation": relation, "count": quantity.number, **extra}, evidence)
