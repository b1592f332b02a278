"""The limits of endpoints in one Ray actor: replicas of the service and graders on a cluster share them through it.

    limits = ray.remote(LimitsActor).remote()
    share_through(limits, "grader-1")          in every process that asks judges: keeps to its part from now on

What the actor answers is in `sharing.py`; nothing here imports Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrank.judges.client.runtime import runtime
from rubrank.judges.client.sharing import LimitShares, Use


class LimitsActor:
    """`LimitShares` behind Ray."""

    def __init__(self) -> None:
        self._shares = LimitShares()

    async def report(self, owner: str, uses: Mapping[str, Use]) -> dict[str, int]:
        """See `LimitShares.report`."""
        return self._shares.report(owner, uses)

    async def held(self) -> dict[str, int]:
        """Places that are held, by endpoint."""
        return {name: self._shares.held(name) for name in self._shares._holders}


def share_through(actor: Any, owner: str) -> None:
    """Share the limits of this process's endpoints with all others that report to the actor."""

    async def report(name: str, uses: Mapping[str, Use]) -> Mapping[str, int]:
        places: Mapping[str, int] = await actor.report.remote(name, dict(uses))
        return places

    runtime().share_limits(report, owner)
