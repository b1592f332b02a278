"""Counts and times in the text format that Prometheus reads.

metrics.count("groups", 3)
metrics.answered("/v1/groups", 200, 0.012)
metrics.text({"waiting": 12})

rubrank_groups_total 3
rubrank_requests_total{path="/v1/groups",status="200"} 1
rubrank_request_seconds_bucket{path="/v1/groups",le="0.025"} 1
rubrank_waiting 12
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Any

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_HELP = {
    "groups": "Groups that were fused.",
    "rewards": "Rewards that were computed.",
    "unknown": "Rewards about which nothing is known.",
    "repeated": "Calls that were answered from the store, or took up their place again.",
    "late": "Samples that came after their group was scored.",
    "complete": "Groups of single samples of which all siblings came.",
    "short": "Groups of single samples that were scored without some.",
    "turned_away": "Requests that were refused because too many rollouts were pending.",
    "judge_calls": "Calls of judges that went to a server.",
    "judge_hits": "Calls of judges that were answered from the cache.",
    "judge_cost": "What they cost.",
    "judge_missing": "Answers of judges that are missing.",
    "batches": "Batches that programs graded.",
    "rollouts": "Rollouts that programs graded.",
}


class Metrics:
    """For one event loop."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, tuple[list[int], float]] = {}

    def count(self, name: str, number: float = 1) -> None:
        """So many more."""
        self.counts[name] += number  # type: ignore[assignment]

    def spent(self, cost: Mapping[str, Any]) -> None:
        """What judges took for an answer."""
        for name in ("calls", "hits", "cost", "missing"):
            self.count(f"judge_{name}", cost[name])

    def answered(self, path: str, status: int, seconds: float) -> None:
        """One request."""
        self._requests[path, status] += 1
        buckets, total = self._seconds.get(path) or ([0] * (len(_BOUNDS) + 1), 0.0)
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[path] = (buckets, total + seconds)

    def text(self, now: Mapping[str, float], more: Mapping[str, float] | None = None) -> str:
        """All of it. now: what goes up and down; more: counts that are kept elsewhere."""
        counts = dict.fromkeys(_HELP, 0.0) | dict(self.counts) | dict(more or {})
        lines = []
        for name, value in counts.items():
            lines += _head(f"{name}_total", _HELP.get(name, name), "counter")
            lines.append(f"rubrank_{name}_total {_number(value)}")
        for name, value in now.items():
            lines += [*_head(name, name.replace("_", " "), "gauge"), f"rubrank_{name} {_number(value)}"]
        lines += _head("requests_total", "Requests by path and status.", "counter")
        for (path, status), number in sorted(self._requests.items()):
            lines.append(f'rubrank_requests_total{{path="{path}",status="{status}"}} {number}')
        lines += _head("request_seconds", "Seconds until a request was answered.", "histogram")
        for path in sorted(self._seconds):
            lines += self._histogram(path)
        return "\n".join(lines) + "\n"

    def _histogram(self, path: str) -> list[str]:
        buckets, total = self._seconds[path]
        lines, upto = [], 0
        for bound, number in zip((*map(str, _BOUNDS), "+Inf"), buckets, strict=True):
            upto += number
            lines.append(f'rubrank_request_seconds_bucket{{path="{path}",le="{bound}"}} {upto}')
        lines.append(f'rubrank_request_seconds_sum{{path="{path}"}} {_number(total)}')
        return [*lines, f'rubrank_request_seconds_count{{path="{path}"}} {upto}']


def _head(name: str, what: str, kind: str) -> list[str]:
    return [f"# HELP rubrank_{name} {what}", f"# TYPE rubrank_{name} {kind}"]


def _number(value: float) -> str:
    return repr(float(value)) if value != int(value) else str(int(value))
