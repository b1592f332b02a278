"""What is worth knowing about a rubric that is not wrong."""

from __future__ import annotations

from collections.abc import Iterable

from rubrank.verifiers.verifier import Domain, Layer

YES_NO = (
    "all criteria are yes/no: with every score there, ranking gives the weighted sum, stretched to 0–1 in each group "
    "(docs/when_it_matters.md)"
)


def yes_no_only(criteria: Iterable[tuple[Layer, Domain]]) -> bool:
    """Are all criteria that are ranked by yes/no, and more than one?"""
    ranked = [domain for layer, domain in criteria if layer == "quality"]
    return len(ranked) > 1 and all(domain.kind == "binary" for domain in ranked)
