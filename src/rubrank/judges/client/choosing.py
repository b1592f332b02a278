"""Choose among endpoints so that each gets its share, evenly spread.

    choice = EndpointChoice([("a", 2.0), ("b", 1.0)])
    choice.next(…)       a, b, a, a, b, a, …

Smooth weighted round robin: at each turn every endpoint gains its weight, the richest is chosen and pays what all
gained together. Those that may not be asked now stand aside and gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rubrank.judges.client.endpoint import JudgeEndpoint


class EndpointChoice:
    """Of the endpoints of one judge."""

    def __init__(self, weighted: Sequence[tuple[JudgeEndpoint, float]]) -> None:
        self._weights = {id(endpoint): weight for endpoint, weight in weighted}
        self._gained = dict.fromkeys(self._weights, 0.0)

    def next(self, endpoints: Sequence[JudgeEndpoint], failed: Sequence[JudgeEndpoint]) -> JudgeEndpoint | None:
        """One that is ready, if possible one at which this call has failed least often."""
        ready = [endpoint for endpoint in endpoints if endpoint.breaker.ready()]
        if len(ready) <= 1:
            return ready[0] if ready else None
        if failed:
            fewest = min(failed.count(endpoint) for endpoint in ready)
            ready = [endpoint for endpoint in ready if failed.count(endpoint) == fewest]
        return self._richest(ready)

    def _richest(self, endpoints: Sequence[JudgeEndpoint]) -> JudgeEndpoint:
        for endpoint in endpoints:
            self._gained[id(endpoint)] += self._weights[id(endpoint)]
        chosen = max(endpoints, key=lambda endpoint: self._gained[id(endpoint)])
        self._gained[id(chosen)] -= sum(self._weights[id(endpoint)] for endpoint in endpoints)
        return chosen
