"""Steps of training as points of a curve: every step, or neighbours together where they are too many to draw.

Bins({0, 1, 2, …, 999}).of(7)        5: the first step of the five that make a point
"""

from __future__ import annotations

from collections.abc import Iterable

_MOST_POINTS = 240


class Bins:
    """At most 240 points, each of equally many neighbouring steps."""

    def __init__(self, steps: Iterable[int], most: int = _MOST_POINTS) -> None:
        ordered = sorted(set(steps))
        self.width = max(1, -(-len(ordered) // most))
        self._of = {step: ordered[at - at % self.width] for at, step in enumerate(ordered)}

    def of(self, step: int | None) -> int | None:
        """The first step of the point that a step belongs to; None stays None."""
        return None if step is None else self._of[step]
