"""Comparisons in a group that is not complete yet: which pairs may be asked for, and what was answered.

    arrivals = Arrivals(judges, "step-3/7", criteria, size=8)
    arrivals.add(4, rollout, wanted_K)      the first of its group: []
    arrivals.add(1, another, wanted_K)      the pair of places (1, 4), on every criterion whose design has it

The design is decided before the first rollout comes, by the size of the group, and belongs to places (the number of a
rollout among its siblings). So it does not matter who is faster: a run that is repeated, or resumed after a kill, asks
for the same pairs, finds them in the cache, and gives the same rewards. A design that followed the order of arrival
would be connected at any time, but it would pay for other pairs whenever that order changed. Here, whatever is fused is
connected: where a rollout is missing, `design.pairs_among` adds pairs, within the same budget.

What is answered ahead is in a `Memo`. The group's judgment is made from it by the same code as that of a group that
came whole; only what is not in the memo is asked then. These wait for the group: judges that rank lists, panels whose
members have designs of their own, criteria that a program may decide for some, and everything where a hard gate is
decided about the whole group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.judges.asking import AskerOf, report_unreadable
from rubrank.judges.client.cache import CallKeys
from rubrank.judges.design import Pair
from rubrank.judges.judge import JUDGED, Asker, Call, Judge, Judges, Reply
from rubrank.judges.kinds.pairwise import planned
from rubrank.judges.kinds.panel import completed
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion


class Memo:
    """Replies to the calls about one group, those under way among them; for the loop of the runtime."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, bytes], asyncio.Future[Reply]] = {}
        self.unreadable: set[tuple[str, bytes]] = set()

    def before(self, asker_of: AskerOf, judges: Judges) -> AskerOf:
        """The same askers; what one of them was asked before, it is not asked again."""
        names = {id(leaf): f"{j.name}/{i}" for j in judges.judges for i, leaf in enumerate(j.members or (j,))}
        return lambda leaf: _Remembering(asker_of(leaf), leaf, names[id(leaf)], self)


class _Remembering:
    def __init__(self, asker: Asker, judge: Judge, name: str, memo: Memo) -> None:
        self._asker, self._keys, self._name, self._memo = asker, CallKeys(judge), name, memo

    async def ask(self, call: Call) -> Reply:
        key, replies = (self._name, self._keys.key(call)), self._memo.replies
        while key in replies:
            found = replies[key]
            await asyncio.wait([found])
            if not found.cancelled():  # who asked was sent away: it is asked again
                return found.result()
        replies[key] = asyncio.get_running_loop().create_future()
        return await self._asked(call, key)

    async def _asked(self, call: Call, key: tuple[str, bytes]) -> Reply:
        future = self._memo.replies[key]
        try:
            reply = await self._asker.ask(call)
        except BaseException:
            del self._memo.replies[key]
            future.cancel()
            raise
        future.set_result(reply)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        key = (self._name, self._keys.key(call))
        if key not in self._memo.unreadable:  # it may be read twice
            self._memo.unreadable.add(key)
            report_unreadable(self._asker, call, reply)


@dataclass(frozen=True, eq=False)
class Arrived:
    """What is known of a group that came in rollout by rollout."""

    memo: Memo
    slots: tuple[int, ...] | None = None
    """The places of those that came; None: none is missing."""
    size: int | None = None
    """How many were to come."""


class Arrivals:
    """The rollouts of one group that are there, and the pairs that each makes with them.

    size: how many are to come; None: not known, so that only judges that compare all pairs are asked ahead.
    """

    def __init__(self, judges: Judges, id: str, criteria: Sequence[Criterion], size: int | None) -> None:
        self._id, self._criteria, self._judges = id, criteria, judges
        self._plans = {} if _gated_by_group(judges, criteria) else _plans(judges, id, criteria, size)
        self._there: dict[int, tuple[Rollout, np.ndarray]] = {}

    @property
    def possible(self) -> bool:
        """Can anything be asked ahead?"""
        return bool(self._plans)

    def may_enter(self, reasons: Sequence[str]) -> bool:
        """Has every hard gate spoken, so far as a rollout is not to be compared once it is stopped?"""
        gates = [k for k, criterion in enumerate(self._criteria) if criterion.value_layer == "global_quality"]
        return not self._judges.cascade or not any(reasons[k].startswith(JUDGED) for k in gates)

    def add(self, slot: int, rollout: Rollout, wanted_K: np.ndarray) -> list[tuple[Group, np.ndarray]]:
        """Its pairs with those there, each a group of two, and what is asked about them (2, K)."""
        if slot in self._there:  # it comes once more
            return []
        found = []
        for other, (sibling, its_K) in self._there.items():
            pair = (min(slot, other), max(slot, other))
            asked = [wanted_K[k] and its_K[k] and self._has(k, pair) for k in range(len(self._criteria))]
            two = (rollout, sibling) if slot < other else (sibling, rollout)
            if any(asked):
                found.append((Group(id=self._id, rollouts=two), np.array([asked, asked], dtype=bool)))
        self._there[slot] = (rollout, wanted_K)
        return found

    def _has(self, column: int, pair: Pair) -> bool:
        if column not in self._plans:
            return False
        plan = self._plans[column]
        return plan is None or pair in plan


def _plans(judges: Judges, id: str, criteria: Sequence[Criterion], size: int | None) -> dict[int, set[Pair] | None]:
    """Columns that may be asked ahead → the pairs of places; None: all."""
    plans: dict[int, set[Pair] | None] = {}
    for k, criterion in enumerate(criteria):
        judge = judges.judge_of(criterion.name)
        leaf = None if judge is None or not criterion.judged else _of_one_design(judge)
        if leaf is not None and (size is not None or leaf.pairs is None):
            plans[k] = None if size is None else planned(leaf, id, criterion.name, size)
    return plans


def _of_one_design(judge: Judge) -> Judge | None:
    """One who is asked, if all who are compare the same pairs."""
    asked = completed(judge).members or (judge,)
    same = len({(leaf.pairs, leaf.seed) for leaf in asked}) == 1
    return asked[0] if judge.kind == "pairwise" and same else None


def _gated_by_group(judges: Judges, criteria: Sequence[Criterion]) -> bool:
    """Is it known only of the whole group whom a hard gate stops?"""
    gates = [one for one in criteria if one.value_layer == "global_quality" and not one.judged]
    return judges.cascade and any(one.decided_by.sees_group for one in gates)
