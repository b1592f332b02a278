"""Scores of a batch of groups → one reward for each rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rubrank.fusion.cluster import on_ray as on_ray


def __getattr__(name: str) -> Any:
    """Load `rubrank.fusion.on_ray` on first use: its module imports the grading package."""
    if name != "on_ray":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rubrank.fusion.cluster import on_ray

    return on_ray
