"""Open the askers of one step: a client for every judge with endpoints, or the caller's own askers.

    async with AsyncExitStack() as stack:                                 in the event loop of the runtime
        clients = await open_clients(judges, active_judges, stack, None)
        clients.asker_of(judge)          the client of a judge, or of a member of a panel
        clients.account()                usage of all of them

An asker of the caller (a model in this process, a script in tests) gets the deadline and the usage meter that a client
has by itself; the cache, retries and limits are the client's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from rubrank.judges.asker import AskerOf, report_unreadable
from rubrank.judges.client.client import DEADLINE_PASSED, Client, Deadline, OutagePolicy
from rubrank.judges.client.runtime import runtime
from rubrank.judges.client.usage import Account, UsageMeter
from rubrank.judges.judge import Asker, Call, Judge, Judges, Reply


class JudgeClients:
    """The asker and the usage meter of every judge in a step."""

    def __init__(self) -> None:
        self._askers: dict[int, Asker] = {}  # by the id of the judge: two judges may be equal
        self._meters: list[UsageMeter] = []

    def add(self, judge: Judge, asker: Asker, meter: UsageMeter) -> None:
        """Add the asker of a judge."""
        self._askers[id(judge)] = asker
        self._meters.append(meter)

    def asker_of(self, judge: Judge) -> Asker:
        """Who answers for a judge."""
        return self._askers[id(judge)]

    def account(self) -> Account:
        """Usage so far."""
        return Account.merge([meter.account() for meter in self._meters])


async def open_clients(
    judges: Judges, active_judges: Iterable[Judge], stack: AsyncExitStack, asker_of: AskerOf | None
) -> JudgeClients:
    """A client for each judge that has questions in this step; the stack closes them.

    asker_of: the caller's askers, which are used instead of clients.
    """
    clients = JudgeClients()
    deadline = Deadline(judges.deadline)
    leaves = [leaf for judge in active_judges for leaf in judge.leaves]
    if asker_of is not None:
        for leaf in leaves:
            timed = _TimedAsker(asker_of(leaf), deadline)
            clients.add(leaf, timed, timed.meter)
        return clients
    cache = None
    if judges.cache is not None:
        # A cache that is only read should be opened read-only. But if another run is writing, or was killed, the latest
        # replies are in SQLite's write-ahead log, which only a connection that may write can read.
        has_log = Path(f"{judges.cache}-wal").exists()
        cache = stack.enter_context(runtime().cache(judges.cache, read_only=judges.cache_only and not has_log))
    for leaf in leaves:
        client = Client(
            leaf,
            cache=cache,
            cache_only=judges.cache_only,
            deadline=deadline,
            endpoints=runtime().endpoints,
            processes=judges.processes,
            outage=OutagePolicy(judges.on_outage, judges.outage_wait),
            check_first=True,
            spending=judges.spending,
            most_cost=None if judges.most_cost is None else judges.most_cost / judges.processes,
        )
        clients.add(leaf, await stack.enter_async_context(client), client.meter)
    return clients


def check_judges(judges: Judges) -> None:
    """Check the health of every endpoint; InvalidInput if one is down, or refuses the key or the model."""

    async def check_all() -> None:
        for judge in judges.judges:
            for leaf in judge.leaves:
                async with Client(leaf, endpoints=runtime().endpoints) as client:
                    await client.check()

    runtime().run(check_all())


class _TimedAsker:
    """An asker with a deadline and a usage meter."""

    def __init__(self, asker: Asker, deadline: Deadline) -> None:
        self.meter = UsageMeter()
        self._asker = asker
        self._deadline = deadline

    async def ask(self, call: Call) -> Reply:
        try:
            async with asyncio.timeout(self._deadline.remaining()):
                reply = await self._asker.ask(call)
        except TimeoutError:
            reply = Reply(None, DEADLINE_PASSED, attempts=0)
        if reply.cached:
            self.meter.add_hit(call, reply)
        else:
            self.meter.add(call, reply, reply.attempts)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        report_unreadable(self._asker, call, reply)
