"""Counters and times of the service, for Prometheus.

metrics.count("groups", 3)
metrics.observe_request("/v1/groups", 200, 0.012)
metrics.render({"waiting_rollouts": 12})                     the text that GET /metrics returns:

rubrank_groups_total 3.0
rubrank_requests_total{path="/v1/groups",status="200"} 1.0
rubrank_request_seconds_bucket{path="/v1/groups",le="0.025"} 1.0
rubrank_waiting_rollouts 12.0
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# Upper bounds of the histogram, in seconds: from a repeated request to a group with slow judges.
# fmt: off
_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# fmt: on
_COUNTERS = {
    "groups": "Groups that were fused.",
    "rewards": "Rewards that were computed.",
    "unknown": "Rewards of rollouts without any score.",
    "repeated": "Repeated calls, answered from the store or attached to their waiting sample.",
    "late": "Samples that arrived after their group was scored.",
    "complete": "Groups of single samples that were complete.",
    "short": "Groups of single samples that were scored incomplete.",
    "starved": "Groups that were refused because most groups lately were incomplete.",
    "turned_away": "Requests that were refused because too many rollouts were pending.",
    "judge_calls": "Calls of judges that went to a server.",
    "judge_hits": "Calls of judges that were answered from the cache.",
    "judge_cost": "Cost of the calls of judges, in the currency of the endpoints' prices.",
    "judge_missing": "Answers that judges failed to give.",
    "rollouts": "Rollouts that verifiers graded.",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one service; a process may have several."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"rubrank_{name}", text, registry=self._registry)
            for name, text in _COUNTERS.items()
        }
        self._gauges: dict[str, Gauge] = {}
        self._requests = Counter(
            "rubrank_requests",
            "Requests by path and status.",
            ["path", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "rubrank_request_seconds",
            "Seconds until a request was answered.",
            ["path"],
            buckets=_SECONDS_BUCKETS,
            registry=self._registry,
        )

    def count(self, name: str, number: float = 1) -> None:
        """Add to a counter. name: a key of `_COUNTERS`, such as "groups"."""
        self._counters[name].inc(number)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered, and its time."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def render(self, current: Mapping[str, float]) -> bytes:
        """Return all metrics as text.

        current: the current values of gauges, which go up and down. A gauge is created when it first has a value.
        """
        for name, value in current.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(
                    f"rubrank_{name}", name.replace("_", " "), registry=self._registry
                )
            self._gauges[name].set(value)
        return generate_latest(self._registry)
