"""Grading: apply the criteria of a rubric to rollouts, which gives a table of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rubrank.grading.ray_grader import on_ray as on_ray


def __getattr__(name: str) -> Any:
    """`rubrank.grading.on_ray`, imported on first use: it needs all modules of grading."""
    if name != "on_ray":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rubrank.grading.ray_grader import on_ray

    return on_ray
