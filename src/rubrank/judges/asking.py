"""What all kinds of judges share: asking at the same time, and who can be asked once for several.

answers = await together(asker.ask(call) for call in calls)        in the order of the calls; one error ends them all

calls = kind.calls(question, judge)      how many calls it will make, before anything is spent
judgment = await kind.judge(question, judge, asker)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from rubrank.judges.judge import Asker, Call, Judge, JudgeKind, Question, Reply

T = TypeVar("T")

AskerOf: TypeAlias = Callable[[Judge], Asker]
"""Who answers for a judge, or for a member of a panel."""


class CountedKind(JudgeKind, Protocol):
    """A kind that says beforehand what it will ask."""

    def calls(self, question: Question, judge: Judge) -> int:
        """How many calls it will make."""
        ...


class Sampled:
    """Answer number `sample` to every call."""

    def __init__(self, asker: Asker, sample: int) -> None:
        self._asker, self._sample = asker, sample

    async def ask(self, call: Call) -> Reply:
        """The reply to the call under its new number."""
        return await self._asker.ask(replace(call, sample=self._sample))

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Of the call under its new number."""
        report_unreadable(self._asker, replace(call, sample=self._sample), reply)


@runtime_checkable
class _Reported(Protocol):
    """An asker that wants to know whether its replies could be read."""

    def unreadable(self, call: Call, reply: Reply) -> None:
        """No verdict could be read in this reply."""
        ...


def report_unreadable(asker: Asker, call: Call, reply: Reply) -> None:
    """Tell an asker that can use it that no verdict could be read in this reply."""
    if isinstance(asker, _Reported):
        asker.unreadable(call, reply)


_MEANT = ("refused", "the judge cannot tell")


async def ask_and_read(
    asker: Asker, call: Call, read: Callable[[Reply], T], problems: Callable[[T], Iterable[str]]
) -> T:
    """What was read of the reply. `problems`: reasons for which something is missing in it.

    A judge that refuses or cannot tell has been understood; what cannot be read is reported.
    """
    reply = await asker.ask(call)
    found = read(reply)
    if reply.failure is None and any(not reason.startswith(_MEANT) for reason in problems(found)):
        report_unreadable(asker, call, reply)
    return found


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; when one raises, the others are cancelled."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in running]
