"""Pairs of samples that are judged while their group waits for others.

pairs.enter(ticket, alone, graded)      a sample was graded: judges that compare two are asked about it and those there
pairs.take(ticket)                      what was asked, for who scores the group
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.service.samples import Ticket
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.shapes.arrivals import ArrivingPairs


class Pairs:
    """Of all groups that wait; belongs to one event loop.

    most: groups that are kept; of more, the oldest are forgotten, as those are whose callers never came back.
    """

    def __init__(self, engine: RewardEngine, most: int) -> None:
        self._engine, self._most = engine, most
        self._by_cohort: dict[int, ArrivingPairs] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        """Under way. They are paid for, so the end of the service waits for them."""

    def enter(self, ticket: Ticket, alone: Group, graded: Graded) -> None:
        """Ask about a sample and those there; its place is its number, which a restart does not change."""
        pairing = self._by_cohort.get(ticket.cohort)
        if pairing is None:
            pairing = ArrivingPairs(self._engine, ticket.group, alone.rubric, ticket.size, self._start)
            self._by_cohort[ticket.cohort] = pairing
            while len(self._by_cohort) > self._most:
                del self._by_cohort[next(iter(self._by_cohort))]
        pairing.enter(ticket.number, alone.rollouts[0], graded.groups[0])

    def take(self, ticket: Ticket) -> ArrivingPairs | None:
        """What was asked about its group, which is forgotten here."""
        return self._by_cohort.pop(ticket.cohort, None)

    def _start(self, work: Coroutine[Any, Any, Judgments]) -> asyncio.Task[Judgments]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task
