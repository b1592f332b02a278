"""Askers that wrap other askers, and functions that all kinds of judges share.

    SampledAsker(asker, 3)    the fourth answer to every call
    throttle.admit(calls)     limits how many calls of a judge are in flight
    report_if_unreadable(…)   report a reply in which a verdict could not be found
    gather_all(…)             run several coroutines at the same time; the first error cancels the rest

An `Asker` answers a call with a reply: the client of an endpoint, a local model, or a script in tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from reprlib import repr as brief
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Asker, Call, Declined, Judge, JudgeKind, Judgment, Question, Reply
from rubrank.verifiers.verifier import Verdict

T = TypeVar("T")

AskerOf: TypeAlias = Callable[[Judge], Asker]
"""Returns the asker of a judge, or of a member of a panel."""

_NUMBERS = (int, float, np.number, type(None))


class CountedKind(JudgeKind, Protocol):
    """A kind that knows beforehand how many calls it will make."""

    def calls(self, question: Question, judge: Judge) -> int:
        """How many calls it will make."""
        ...


@runtime_checkable
class _ReportedAsker(Protocol):
    def unreadable(self, call: Call, reply: Reply) -> None:
        """No verdict could be found in this reply."""
        ...


def report_unreadable(asker: Asker, call: Call, reply: Reply) -> None:
    """Tell an asker that has `unreadable` that no verdict could be found in this reply."""
    if isinstance(asker, _ReportedAsker):
        asker.unreadable(call, reply)


def report_if_unreadable(
    asker: Asker, call: Call, reply: Reply, verdicts: Iterable[Verdict]
) -> None:
    """Report a reply in which a verdict could not be found, so that the next run sends the call again.

    A judge that declined was understood, and is not asked again.
    """
    unreadable = [
        verdict
        for verdict in verdicts
        if verdict.value is None and not isinstance(verdict, Declined)
    ]
    if unreadable and reply.failure is None:
        report_unreadable(asker, call, reply)


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; when one raises, the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]


class WrappedAsker:
    """Passes calls on to another asker; subclasses change the calls, or look at the replies."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def ask(self, call: Call) -> Reply:
        """The reply of the other asker."""
        return await self._asker.ask(call)

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Tell the other asker."""
        report_unreadable(self._asker, call, reply)


class SampledAsker(WrappedAsker):
    """Asks for answer number `sample` to every call."""

    def __init__(self, asker: Asker, sample: int) -> None:
        super().__init__(asker)
        self._sample = sample

    async def ask(self, call: Call) -> Reply:
        """The reply to this sample of the call."""
        return await super().ask(replace(call, sample=self._sample))

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Report it for this sample of the call."""
        super().unreadable(replace(call, sample=self._sample), reply)


# ----------------------------------------------------------------------------------------------------------- throttle


class Throttle:
    """Limits how many calls of one judge are in flight. Only one task may call `admit`; any number may answer.

    A million questions would be a million tasks that all hold their prompts, so questions are started as others end.
    Calls are counted, not groups: a group that waits for its last answer does not hold back the others.
    """

    def __init__(self, limit: int, on_answer: Callable[[], None]) -> None:
        self._limit = limit
        self._on_answer = on_answer
        self._in_flight = 0
        self._has_room = asyncio.Event()

    async def admit(self, calls: int) -> AdmittedCalls:
        """Wait for room; a question is admitted as a whole, however many calls it makes."""
        while self._in_flight >= self._limit:
            self._has_room.clear()
            await self._has_room.wait()
        self._in_flight += calls
        return AdmittedCalls(self, calls)

    def release(self, calls: int) -> None:
        """This many calls are no longer in flight."""
        self._in_flight -= calls
        if self._in_flight < self._limit:
            self._has_room.set()

    def note_answer(self) -> None:
        """A call was answered."""
        self.release(1)
        self._on_answer()


class AdmittedCalls:
    """The calls of one question."""

    def __init__(self, throttle: Throttle, calls: int) -> None:
        self._throttle = throttle
        self._remaining = calls
        self.reply_ids: list[str] = []

    def wrap(self, asker: Asker) -> Asker:
        """The same asker, with its answers counted."""
        return _CountedAsker(asker, self)

    def note_answer(self, reply: Reply) -> None:
        """A call was answered."""
        if reply.id:
            self.reply_ids.append(reply.id)
        self._remaining -= 1
        self._throttle.note_answer()

    def close(self) -> None:
        """The question is done: release the calls that it announced but did not make."""
        self._throttle.release(self._remaining)
        self._remaining = 0


class _CountedAsker(WrappedAsker):
    def __init__(self, asker: Asker, admitted: AdmittedCalls) -> None:
        super().__init__(asker)
        self._admitted = admitted

    async def ask(self, call: Call) -> Reply:
        reply = await super().ask(call)
        self._admitted.note_answer(reply)
        return reply


# ---------------------------------------------------------------------------------------------------------- contracts


def check_judgment(kind: str, question: Question, judgment: Any) -> Judgment:
    """The judgment of a user's kind, if it keeps the contract; values outside a criterion's domain become missing."""
    owner = f"judge kind {kind!r}"
    remedy = "See `rubrank help extending`."
    if not isinstance(judgment, Judgment):
        raise InvalidInput(owner, "what it returns", "a rubrank.Judgment", brief(judgment), remedy)
    size = len(question.group.rollouts)
    criteria = {criterion.name: criterion for criterion in question.criteria}
    cells = {(i, name) for i in range(size) for name in criteria}
    for cell, verdict in judgment.verdicts.items():
        is_cell = cell in cells
        if (
            not is_cell
            or not isinstance(verdict, Verdict)
            or not isinstance(verdict.value, _NUMBERS)
        ):
            allowed = "rubrank.Verdict by (rollout, criterion) of the question"
            raise InvalidInput(owner, "verdicts", allowed, f"{brief(verdict)} for {cell!r}", remedy)
        domain = criteria[cell[1]].value_domain
        if verdict.value is not None and not domain.holds(verdict.value):
            reason = (
                f"{kind} gave {verdict.value:g}, which is not in its domain ({domain.description})"
            )
            judgment.verdicts[cell] = Verdict(None, reason)
    for name, outcomes in judgment.outcomes.items():
        if name not in criteria or np.shape(outcomes) != (size, size):
            got = f"shape {np.shape(outcomes)} for {name!r}"
            raise InvalidInput(
                owner, "outcomes", f"an array of shape ({size}, {size}) by criterion", got, remedy
            )
    return judgment
