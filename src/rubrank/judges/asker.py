"""Askers that wrap other askers, and functions that all kinds of judges share.

An asker answers a call (a prompt for a judge) with a reply. It is the client of an endpoint, a local model, or a script
in tests; the protocol is `Asker` in `judges/judge.py`. An asker may also have a method `unreadable`, to be told of
replies that are useless.

    WrappedAsker(asker)       passes calls on; the base class of askers that change calls or look at replies
    SampledAsker(asker, 3)    asks for the fourth answer to every call, for judges that vote (samples count from 0)

    report_if_unreadable(…)   tell the asker of a reply in which a verdict could not be found
    gather_all(…)             run several coroutines at the same time; the first error cancels the rest
    check_judgment(…)         check what a user's kind of judge returned
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from reprlib import repr as brief
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Asker, Call, Declined, Judge, JudgeKind, Judgment, Question, Reply
from rubrank.verifiers.verifier import Verdict

T = TypeVar("T")

AskerOf: TypeAlias = Callable[[Judge], Asker]
"""A function that returns the asker of a judge, or of a member of a panel."""

_VERDICT_VALUES = (int, float, np.number, type(None))  # bool is an int: True is 1, as for verifiers


class CountedKind(JudgeKind, Protocol):
    """A kind of judge that knows beforehand how many calls it will make."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return how many calls it will make at most for this question."""
        ...


def report_if_unreadable(
    asker: Asker, call: Call, reply: Reply, verdicts: Iterable[Verdict]
) -> None:
    """Tell the asker of a reply in which a verdict could not be found, so that the next run sends the call again.

    verdicts: what was found in the reply. A judge that declined was understood, and is not asked again. A call that
    failed is not reported, because its reply has no text. An asker without `unreadable` is told nothing.
    """
    is_unreadable = any(
        verdict.value is None and not isinstance(verdict, Declined) for verdict in verdicts
    )
    if is_unreadable and reply.failure is None and hasattr(asker, "unreadable"):
        asker.unreadable(call, reply)


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the coroutines at the same time, and return all results in order; an error cancels the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]


class WrappedAsker:
    """Passes calls on to another asker; subclasses change the calls, or look at the replies."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def ask(self, call: Call) -> Reply:
        """Return the reply of the other asker."""
        return await self._asker.ask(call)

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Tell the other asker that no verdict could be found in this reply."""
        if hasattr(self._asker, "unreadable"):
            self._asker.unreadable(call, reply)


class SampledAsker(WrappedAsker):
    """Asks for answer number `sample` to every call, counted from 0."""

    def __init__(self, asker: Asker, sample: int) -> None:
        super().__init__(asker)
        self._sample = sample

    async def ask(self, call: Call) -> Reply:
        """Return the reply to this sample of the call."""
        return await super().ask(replace(call, sample=self._sample))

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Report it for this sample of the call."""
        super().unreadable(replace(call, sample=self._sample), reply)


def check_judgment(kind: str, question: Question, judgment: Any) -> Judgment:
    """Check the judgment of a kind of judge that a user has written, and return it.

    Values outside the domain of their criterion are replaced by missing verdicts, in the judgment itself. Raises
    InvalidInput if it is not a judgment, or about other cells than the question.
    """

    def refuse(what: str, allowed: str, got: str) -> InvalidInput:
        remedy = "See `rubrank help extending`."
        return InvalidInput(f"judge kind {kind!r}", what, allowed, got, remedy)

    if not isinstance(judgment, Judgment):
        raise refuse("what it returns", "a rubrank.Judgment", brief(judgment))
    size = len(question.group.rollouts)
    criteria = {criterion.name: criterion for criterion in question.criteria}
    cells = set(itertools.product(range(size), criteria))
    for cell, verdict in judgment.verdicts.items():
        is_verdict = isinstance(verdict, Verdict) and isinstance(verdict.value, _VERDICT_VALUES)
        if cell not in cells or not is_verdict:
            allowed = "rubrank.Verdict by (rollout, criterion) of the question"
            raise refuse("verdicts", allowed, f"{brief(verdict)} for {cell!r}")
        domain = criteria[cell[1]].value_domain
        if verdict.value is not None and not domain.holds(verdict.value):
            reason = (
                f"{kind} gave {verdict.value:g}, which is not in its domain ({domain.description})"
            )
            judgment.verdicts[cell] = Verdict(None, reason)
    for name, outcomes in judgment.outcomes.items():
        if name not in criteria or np.shape(outcomes) != (size, size):
            allowed = f"an array of shape ({size}, {size}) by criterion"
            raise refuse("outcomes", allowed, f"shape {np.shape(outcomes)} for {name!r}")
    return judgment
