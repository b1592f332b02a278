"""An asker that answers by a script, for tests of what is asked and of what is made of the answers.

    asker = Scripted(lambda shown: 1 if shown == ["r3"] else 0)
    asker.shown        [["r0"], ["r3"], …]: which answers each call showed, in order

Rollouts answer "r0", "r1" … in words that occur nowhere else in a prompt, so that the script can tell them apart
whatever the prompts say.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rubrank.judges.judge import Call, Endpoint, Judge, Question, Reply, Usage
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion

_MARK = re.compile(r"zq-(\w+)-qz")

LOST = Reply(None, "timeout after 1 s", usage=Usage(10, 0, 0, 0.001))
CRITERION = Criterion(name="Clear", question="Is it clear?")


def judge(**given: Any) -> Judge:
    if "members" not in given:
        given.setdefault("endpoints", (Endpoint(base_url="http://localhost:1/v1", model="m"),))
    return Judge(**given)


def group(*answers: str, id: str = "q") -> Group:
    rollouts = tuple(Rollout(prompt="Say something.", response=f"zq-{answer}-qz") for answer in answers)
    return Group(id=id, rollouts=rollouts)


def names(count: int) -> list[str]:
    return [f"r{i}" for i in range(count)]


def question(
    about: Group | int, criteria: Sequence[Criterion] = (CRITERION,), wanted: np.ndarray | None = None
) -> Question:
    about = group(*names(about)) if isinstance(about, int) else about
    everything = np.ones((len(about.rollouts), len(criteria)), dtype=bool)
    return Question(about, tuple(criteria), everything if wanted is None else wanted)


class Scripted:
    """Answers with what `script(shown)` says: a Reply, or what the verdict is made of (see `said`)."""

    def __init__(self, script: Callable[..., Any]) -> None:
        self._script = script
        self.calls: list[Call] = []

    async def ask(self, call: Call) -> Reply:
        self.calls.append(call)
        answer = self._script(shown_in(call))
        return answer if isinstance(answer, Reply) else said(answer)

    @property
    def shown(self) -> list[list[str]]:
        return [shown_in(call) for call in self.calls]


class Slow:
    """Answers after a while; says how many wait at once, and who was cancelled."""

    def __init__(self, seconds: float, fail: Callable[[int], None] | None = None) -> None:
        self.seconds, self.fail = seconds, fail
        self.asked = self.waiting = self.most = self.cancelled = 0

    async def ask(self, call: Call) -> Reply:
        self.asked += 1
        if self.fail is not None:
            self.fail(self.asked)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return said(1)


def shown_in(call: Call) -> list[str]:
    """The answers that a call shows, in order."""
    return _MARK.findall("\n".join(message["content"] for message in call.messages))


def said(verdict: Any, reasoning: str = "so it seems", *, high: float = 1.0) -> Reply:
    """A reply that says this, in the form that is asked for: a value of a domain from 0 to `high`; "A", "B" or "tie";
    the ranks of a list; or a mapping of criteria to values."""
    if isinstance(verdict, dict):
        body = {name: _entry(value, reasoning, high) for name, value in verdict.items()}
    elif isinstance(verdict, list):
        ranks = {str(i): rank for i, rank in enumerate(verdict, 1)}
        best = [i for i, rank in enumerate(verdict, 1) if rank == 1]
        body = {"reasoning": reasoning, "finding": best, "verdict": ranks}
    else:
        body = _entry(verdict, reasoning, high)
    return Reply(json.dumps(body), usage=Usage(100, 20, 0, 0.01), model="m")


def _entry(verdict: Any, reasoning: str, high: float) -> dict[str, Any]:
    if isinstance(verdict, str):
        finding = {"A": "A is better", "B": "B is better", "tie": "no difference"}[verdict]
    else:
        finding = "holds in part" if 2 * verdict == high else "holds" if 2 * verdict > high else "does not hold"
    return {"reasoning": reasoning, "finding": finding, "verdict": verdict}
