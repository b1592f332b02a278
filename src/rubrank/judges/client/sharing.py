"""The limits of an endpoint, shared by processes on any number of machines: each holds a part, by what it needs.

    shares = LimitShares()                                          in one place, such as an actor
    shares.report("replica-1", {"http://…": Use(64, 80, 10)})      {"http://…": 57}: so many places it may use
    shares.report("replica-2", {"http://…": Use(64, 10, 0)})       {"http://…": 7}

    runtime().share_limits(report)                             in every process: asks again and again, and keeps to it

Never are more places held than the endpoint has: a process that is to give some up does so when its calls end, and only
then are they given to another. What a process holds is free again `lease` seconds after it was last heard of. Rates
(requests and tokens a minute) are divided in the same proportion.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

LEASE = 3.0
"""Seconds after which a process that is not heard of has died."""


@dataclass(frozen=True)
class Use:
    """What one process does with one endpoint."""

    ceiling: int
    """Places that the endpoint has for all."""
    wanted: int
    """Calls that are under way or wait."""
    taken: int
    """Calls that are under way."""


Report: TypeAlias = Callable[[str, Mapping[str, Use]], Awaitable[Mapping[str, int]]]
"""owner, endpoint → use; answers endpoint → places."""


@dataclass(eq=False)
class _Holder:
    use: Use
    granted: int
    seen: float

    @property
    def held(self) -> int:
        return max(self.granted, self.use.taken)


@dataclass(eq=False)
class LimitShares:
    """Who holds how much of what."""

    lease: float = LEASE
    clock: Callable[[], float] = time.monotonic
    _holders: dict[str, dict[str, _Holder]] = field(default_factory=dict)

    def report(self, owner: str, uses: Mapping[str, Use]) -> dict[str, int]:
        """What a process needs and uses, endpoint by endpoint → the places it may use from now on."""
        now = self.clock()
        return {name: self._grant(self._alive(name, now), owner, use, now) for name, use in uses.items()}

    def leave(self, owner: str) -> None:
        """A process that has ended."""
        for holders in self._holders.values():
            holders.pop(owner, None)

    def held(self, name: str) -> int:
        """Places of an endpoint that are held."""
        return sum(holder.held for holder in self._alive(name, self.clock()).values())

    def _alive(self, name: str, now: float) -> dict[str, _Holder]:
        holders = self._holders.setdefault(name, {})
        for owner in [owner for owner, holder in holders.items() if now - holder.seen > self.lease]:
            del holders[owner]
        return holders

    def _grant(self, holders: dict[str, _Holder], owner: str, use: Use, now: float) -> int:
        ceiling = min([use.ceiling, *(holder.use.ceiling for holder in holders.values())])
        others = {name: holder for name, holder in holders.items() if name != owner}
        needs = sum(max(holder.use.wanted, 1) for holder in others.values())
        fair = max(1, int(ceiling * max(use.wanted, 1) / (needs + max(use.wanted, 1))))
        free = ceiling - sum(holder.held for holder in others.values())
        granted = max(min(fair, free), 0)
        holders[owner] = _Holder(use, granted, now)
        return granted
