"""Choose among endpoints so that each gets its share, evenly spread.

    choice = Choice([("a", 2.0), ("b", 1.0)])
    choice.next(…)       a, b, a, a, b, a, …

Smooth weighted round robin: at each turn everybody gains its weight, the richest is chosen and pays what all gained
together. Those that may not be asked now stand aside and gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rubrank.judges.client.endpoint import Lane


class Choice:
    """Of the endpoints of one judge."""

    def __init__(self, weighted: Sequence[tuple[Lane, float]]) -> None:
        self._weights = {id(lane): weight for lane, weight in weighted}
        self._gained = dict.fromkeys(self._weights, 0.0)

    def next(self, lanes: Sequence[Lane], failed: Sequence[Lane]) -> Lane | None:
        """One that is ready, if possible one at which this call has failed least often."""
        ready = [lane for lane in lanes if lane.breaker.ready()]
        if len(ready) <= 1:
            return ready[0] if ready else None
        if failed:
            fewest = min(failed.count(lane) for lane in ready)
            ready = [lane for lane in ready if failed.count(lane) == fewest]
        return self._richest(ready)

    def _richest(self, lanes: Sequence[Lane]) -> Lane:
        for lane in lanes:
            self._gained[id(lane)] += self._weights[id(lane)]
        chosen = max(lanes, key=lambda lane: self._gained[id(lane)])
        self._gained[id(chosen)] -= sum(self._weights[id(lane)] for lane in lanes)
        return chosen
