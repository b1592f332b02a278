"""Leave an endpoint alone that keeps failing, and find out with one call whether it is back.

    breaker = Breaker(failures=8, pause=20.0)
    breaker.failed()  ×8         closed → open: for 20 s no call is let through
    breaker.ready()              after 20 s: True, for one call; it is half-open while that call is out
    breaker.succeeded()          closed again; had it failed: open for another 20 s

A server that asks for patience (Retry-After) is not failing: `hold` keeps calls away until then, and counts nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "half-open"]


def _nothing() -> None:
    pass


class Breaker:
    """The state of one endpoint; `changed` is called whenever waiting calls should look again."""

    def __init__(
        self,
        failures: int,
        pause: float,
        changed: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state: State = "closed"
        self.openings = 0
        self.openings_in_a_row = 0
        """Without an answer in between."""
        self.away_since: float | None = None
        """When it opened first without an answer since."""
        self._allowed, self._pause, self._changed, self._clock = failures, pause, changed, clock
        self._in_a_row = 0
        self._not_before = 0.0

    def allow(self, failures: int, pause: float) -> None:
        """Other settings."""
        self._allowed, self._pause = failures, pause

    def ready(self) -> bool:
        """May a call go out now?"""
        return self.ready_in() <= 0.0

    def ready_in(self) -> float:
        """Seconds until one may; infinite while a trial is out."""
        if self.state == "half-open":
            return math.inf
        return self._not_before - self._clock() if self._not_before else 0.0

    def enter(self) -> bool:
        """A call goes out; of an open breaker, it is the trial, and True is returned."""
        if self.state != "open":
            return False
        self.state = "half-open"
        return True

    def hold(self, seconds: float) -> None:
        """The server asks for patience."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    def succeeded(self) -> None:
        """The endpoint answered; whatever it said."""
        self._in_a_row = self.openings_in_a_row = 0
        self.away_since = None
        if self.state != "closed":
            self.state, self._not_before = "closed", 0.0
            self._changed()

    def failed(self) -> None:
        """It did not, or not as it should."""
        self._in_a_row += 1
        if self.state == "half-open" or (self.state == "closed" and self._in_a_row >= self._allowed):
            self.state = "open"
            self.openings += 1
            self.openings_in_a_row += 1
            self.away_since = self.away_since or self._clock()
            self.hold(self._pause)
            self._changed()

    def abandoned(self) -> None:
        """The call was cancelled: if it was the trial, another may try."""
        if self.state == "half-open":
            self.state = "open"
            self._changed()
