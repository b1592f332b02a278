"""Who answers in one step: a client for every judge that has endpoints, or an asker of the caller's.

    async with AsyncExitStack() as stack:                                 in the loop of the runtime
        askers = await open_askers(judges, asking, stack, None)
        askers.of(judge)                 the client of a judge, or of a member of a panel
        askers.account()                 what all of them spent

An asker that is given (a model in this process, a script in tests) gets the deadline and the accounts that a client has
by itself; the cache, retries and limits are the client's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rubrank.judges.asking import AskerOf, report_unreadable
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import DEADLINE_PASSED, Client, Deadline, OutagePolicy
from rubrank.judges.client.runtime import runtime
from rubrank.judges.client.usage import Account, UsageMeter
from rubrank.judges.judge import Asker, Call, Judge, Judges, Reply


@dataclass
class Askers:
    """By judge; two judges may be equal, so it is the object that counts."""

    _by_id: dict[int, Asker] = field(default_factory=dict)
    _meters: list[UsageMeter] = field(default_factory=list)

    def of(self, judge: Judge) -> Asker:
        """Who answers for it."""
        return self._by_id[id(judge)]

    def account(self) -> Account:
        """What all of them spent so far."""
        return Account.merge([meter.account() for meter in self._meters])

    def add(self, judge: Judge, asker: Asker, meter: UsageMeter) -> None:
        """One more."""
        self._by_id[id(judge)] = asker
        self._meters.append(meter)


def leaves(judge: Judge) -> tuple[Judge, ...]:
    """Those that are asked: the members of a panel, or the judge itself."""
    return judge.members or (judge,)


async def open_askers(judges: Judges, asking: Iterable[Judge], stack: AsyncExitStack, given: AskerOf | None) -> Askers:
    """An asker for each of the judges that ask; the stack closes them."""
    askers, deadline, store = Askers(), Deadline(judges.deadline), None
    if judges.cache is not None and given is None:
        store = stack.enter_context(_opened(judges.cache, judges.cache_only))
    outage = OutagePolicy(judges.on_outage, judges.outage_wait)
    for leaf in (leaf for judge in asking for leaf in leaves(judge)):
        if given is not None:
            timed = _Timed(given(leaf), deadline)
            askers.add(leaf, timed, timed.meter)
        else:
            client = Client(
                leaf,
                cache=store,
                cache_only=judges.cache_only,
                deadline=deadline,
                endpoints=runtime().endpoints,
                processes=judges.processes,
                outage=outage,
                check_first=True,
            )
            askers.add(leaf, await stack.enter_async_context(client), client.meter)
    return askers


def check_judges(judges: Judges) -> None:
    """A health check of every endpoint; InvalidInput if one is away, or refuses the key or the model."""
    runtime().run(_check(judges))


async def _check(judges: Judges) -> None:
    for leaf in (leaf for judge in judges.judges for leaf in leaves(judge)):
        async with Client(leaf, endpoints=runtime().endpoints) as client:
            await client.check()


def _opened(cache: str, only: bool) -> AbstractContextManager[ReplyCache]:
    """The file of replies. One that is only read stays as it is, unless a run that writes, or was killed, has left
    replies beside it (SQLite's log), which only a reader that may write gets to see."""
    return runtime().cache(cache, read_only=only and not Path(f"{cache}-wal").exists())


class _Timed:
    """An asker with a deadline and usage accounting."""

    def __init__(self, asker: Asker, deadline: Deadline) -> None:
        self._asker, self._deadline, self.meter = asker, deadline, UsageMeter()

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
