"""How many requests an endpoint is given at once: as many as it bears, and never more than its ceiling.

    places = AdaptivePlaces(ceiling=256)
    await places.take()           waits while all places are taken
    places.overloaded(begun)      a 429, a timeout: half as many from now on
    places.succeeded()            a few more after every round of answers
    places.give_back()

Additive increase, multiplicative decrease: what keeps the flows of a network fair and full. A cut counts once for all
requests that were out at the time: their complaints are about the same moment.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress

_CUT = 0.5
_STEP = 1 / 16  # of the ceiling, after as many answers as there are places


class AdaptivePlaces:
    """Of one endpoint, for one event loop."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = float(ceiling)
        self.taken = 0
        self._answered = 0
        self._cut_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def set_ceiling(self, ceiling: int) -> None:
        """Another ceiling; what was learnt below it stays."""
        if ceiling == self.ceiling:
            return
        was_full = self.limit >= self.ceiling
        self.ceiling = ceiling
        self.limit = float(ceiling) if was_full else min(self.limit, float(ceiling))
        self._wake()

    @property
    def free(self) -> bool:
        """Is there a free place that no call waits for?"""
        return self.taken < int(self.limit) and not self._waiting

    @property
    def wanted(self) -> int:
        """Places that are taken or waited for."""
        return self.taken + len(self._waiting)

    async def take(self) -> None:
        """Wait for a place; first come, first served."""
        if self.free:
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.give_back()  # it was given a place at the very moment
            else:
                with suppress(ValueError):  # passed over already
                    self._waiting.remove(turn)
            raise

    def give_back(self) -> None:
        """A request has ended."""
        self.taken -= 1
        self._wake()

    def succeeded(self) -> None:
        """It was answered."""
        if self.limit >= self.ceiling:
            return
        self._answered += 1
        if self._answered >= self.limit:
            self._answered = 0
            self.limit = min(self.limit + max(1.0, _STEP * self.ceiling), float(self.ceiling))
            self._wake()

    def overloaded(self, begun: float) -> None:
        """The server complained about a request that went out at `begun` (time.monotonic)."""
        if begun < self._cut_at:
            return
        self._cut_at, self._answered = time.monotonic(), 0
        cut = max(1.0, _CUT * min(self.limit, float(max(self.taken, 1))))
        self.limit = min(cut, float(self.ceiling))  # which is 0 where other processes hold all places

    def _wake(self) -> None:
        while self._waiting and self.taken < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)
