"""What a response took: seconds and money, from the data of the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_SECONDS = {
    "latency": 1.0,
    "latency_s": 1.0,
    "seconds": 1.0,
    "duration": 1.0,
    "elapsed": 1.0,
    "latency_ms": 1e-3,
    "duration_ms": 1e-3,
    "elapsed_ms": 1e-3,
}
_COSTS = ("cost", "cost_usd", "total_cost", "price")
_HOLDERS = ("usage", "metrics", "stats", "info", "extra_info")
Limit = Annotated[float, Field(gt=0)]


def _find_number(
    metadata: Mapping[str, Any], names: Mapping[str, float], key: str | None
) -> float | None:
    """The first of the names that holds a number, in the row or in what it nests; `key` names another."""
    factors = {key: names.get(key, 1.0)} if key is not None else names
    for holder in (metadata, *(metadata.get(name) for name in _HOLDERS)):
        for name, factor in factors.items():
            value = holder.get(name) if isinstance(holder, Mapping) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return factor * float(value)
    return None


@verifier("LatencyLimit", family="reply", domain=BINARY, version=1)
def latency_limit(rollout: Rollout, *, seconds: Limit, key: str | None = None) -> Answer:
    """The response took at most so many seconds, by the data: latency, seconds, duration, elapsed, or …_ms of them.

    They are looked for in the row and in its `usage`, `metrics`, `stats`, `info`; `key` names another.
    Passes: latency 1.2 for 2 seconds.
    Fails: latency_ms 2500 for 2.
    Missing: the data has none.
    Not covered: how it was measured.
    """
    value = _find_number(rollout.metadata, _SECONDS, key)
    if value is None:
        return missing(f"the data hold no {key or 'latency, seconds, duration or elapsed'}")
    return value <= seconds, f"{value:g} s, at most {seconds:g}"


@verifier("CostLimit", family="reply", domain=BINARY, version=1)
def cost_limit(rollout: Rollout, *, most: Limit, key: str | None = None) -> Answer:
    """The response cost at most so much, by the data: cost, cost_usd, total_cost or price, in whatever currency.

    They are looked for in the row and in its `usage`, `metrics`, `stats`, `info`; `key` names another.
    Passes: cost 0.01 for 0.02.
    Fails: cost 0.03 for 0.02.
    Missing: the data has none.
    Not covered: prices per token; conversion.
    """
    value = _find_number(rollout.metadata, dict.fromkeys(_COSTS, 1.0), key)
    if value is None:
        return missing(f"the data hold no {key or 'cost, cost_usd, total_cost or price'}")
    return value <= most, f"cost {value:g}, at most {most:g}"
