"""What all kinds of judges share: asking at the same time, and who can be asked once for several.

answers = await together(asker.ask(call) for call in calls)        in the order of the calls; one error ends them all

calls = kind.calls(question, judge)      how many calls it will make, before anything is spent
judgment = await kind.judge(question, judge, asker)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from reprlib import repr as brief
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Asker, Call, Judge, JudgeKind, Judgment, Question, Reply
from rubrank.verifiers.verifier import Verdict

T = TypeVar("T")
_NUMBERS = (int, float, np.number, type(None))
_PAGE = "See docs/extending.md."

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


def check_judgment(kind: str, question: Question, judgment: Any) -> Judgment:
    """What a kind of a user's returned, if it keeps the contract; values outside a criterion's domain are missing."""
    owner, G = f"judge kind {kind!r}", len(question.group.rollouts)
    if not isinstance(judgment, Judgment):
        raise InvalidInput(owner, "what it returns", "a rubrank.Judgment", brief(judgment), _PAGE)
    known = {criterion.name: criterion for criterion in question.criteria}
    places = {(i, name) for i in range(G) for name in known}
    for place, verdict in judgment.verdicts.items():
        if place not in places or not isinstance(verdict, Verdict) or not isinstance(verdict.value, _NUMBERS):
            allowed = "rubrank.Verdict by (rollout, criterion) of the question"
            raise InvalidInput(owner, "verdicts", allowed, f"{brief(verdict)} for {place!r}", _PAGE)
        domain = known[place[1]].value_domain
        if verdict.value is not None and not domain.holds(verdict.value):
            said = f"{kind} gave {verdict.value:g}, which is not in its domain ({domain.said})"
            judgment.verdicts[place] = Verdict(None, said)
    for name, won in judgment.outcomes.items():
        if name not in known or np.shape(won) != (G, G):
            got = f"shape {np.shape(won)} for {name!r}"
            raise InvalidInput(owner, "outcomes", f"an array of shape ({G}, {G}) by criterion", got, _PAGE)
    return judgment
