"""Comparisons in a group that is not complete yet: which pairs can be judged already, and their replies.

    arrivals = Arrivals(judges, "step-3/7", criteria, size=8)
    arrivals.add(4, rollout, wanted_K)      the first of its group: []
    arrivals.add(1, another, wanted_K)      the pair of places (1, 4), on every criterion whose design has it

`wanted_K` says for each of the K criteria whether it is to be judged for this rollout.
The design (which pairs are compared) depends only on the size of the group. It is a set of pairs of places, where the
place of a rollout is its number among its siblings. So the order of arrival does not matter: a run that is repeated, or
resumed after a kill, asks for the same pairs, finds them in the cache, and gives the same rewards. A design that
followed the order of arrival would be connected at any time, but would pay for other pairs whenever that order changed.
If a rollout is missing in the end, `design.choose_pairs_among` adds pairs within the same budget, so that the rest is
connected.

Replies that come before the group is complete are kept in a `Memo`. The group is then judged by the same code as one
that came whole; only calls that are not in the memo are sent. These wait until the group is complete:
- judges that rank lists, or choose pairs round by round;
- panels whose members have different designs;
- criteria that a program decides for some rollouts;
- all comparisons, if a hard gate needs the whole group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.judges.asker import AskerOf, WrappedAsker
from rubrank.judges.client.cache import CallKeys
from rubrank.judges.design import Pair
from rubrank.judges.judge import Asker, Call, Judge, Judges, Reply
from rubrank.judges.kinds.comparisons import plan_pairs
from rubrank.judges.kinds.panel import complete_members
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import NEEDS_JUDGE


class Memo:
    """Replies to the calls about one group, including those in flight; for the event loop of the runtime."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, bytes], asyncio.Future[Reply]] = {}
        """By name of the judge and key of the call."""
        self.unreadable: set[tuple[str, bytes]] = set()

    def wrap(self, asker_of: AskerOf, judges: Judges) -> AskerOf:
        """Return a function that gives the same askers, except that calls in the memo are answered from it."""
        names = {}
        for judge in judges.judges:
            for number, leaf in enumerate(judge.leaves):
                names[id(leaf)] = f"{judge.name}/{number}"
        return lambda leaf: _RememberingAsker(asker_of(leaf), leaf, names[id(leaf)], self)


class _RememberingAsker(WrappedAsker):
    """Answers calls from the memo, and adds the replies to all others."""

    def __init__(self, asker: Asker, judge: Judge, name: str, memo: Memo) -> None:
        super().__init__(asker)
        self._keys = CallKeys(judge)
        self._name = name
        self._memo = memo

    async def ask(self, call: Call) -> Reply:
        """Return the reply in the memo; if there is none, ask, and keep the reply for later calls."""
        replies = self._memo.replies
        key = (self._name, self._keys.key(call))
        while key in replies:
            future = replies[key]
            await asyncio.wait([future])
            if not future.cancelled():  # if that caller was cancelled, this one sends the call
                return future.result()
        future = asyncio.get_running_loop().create_future()
        replies[key] = future
        try:
            reply = await super().ask(call)
        except BaseException:
            del replies[key]
            future.cancel()
            raise
        future.set_result(reply)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Report a reply without a verdict, once."""
        key = (self._name, self._keys.key(call))
        # A reply is parsed when it comes, and again with the whole group, but reported once.
        if key not in self._memo.unreadable:
            self._memo.unreadable.add(key)
            super().unreadable(call, reply)


@dataclass(frozen=True, eq=False)
class ArrivedGroup:
    """The replies and places of a group that came in rollout by rollout."""

    memo: Memo
    slots: tuple[int, ...] | None = None
    """The places of the rollouts that came; None: none is missing."""
    size: int | None = None
    """How many rollouts were expected."""


class Arrivals:
    """The rollouts of one group that have arrived, and the pairs that each new one makes with them.

    size: how many rollouts are expected; None: not known, so that only judges that compare all pairs are asked ahead.
    """

    def __init__(
        self, judges: Judges, id: str, criteria: Sequence[Criterion], size: int | None
    ) -> None:
        self._id = id
        self._criteria = criteria
        self._judges = judges
        self._arrived: dict[int, tuple[Rollout, np.ndarray]] = {}
        """Place → the rollout, and the criteria to be judged for it, (K,)."""
        self._pairs_by_column: dict[int, set[Pair] | None] = {}
        """Columns that may be asked ahead → the pairs of places; None: all."""
        gates = [criterion for criterion in criteria if criterion.value_layer == "global_quality"]
        if judges.cascade and any(not gate.judged and gate.decided_by.sees_group for gate in gates):
            return  # a hard gate that needs the whole group decides who takes part
        for k, criterion in enumerate(criteria):
            judge = judges.judge_of(criterion.name)
            if judge is None or judge.kind != "pairwise" or not criterion.judged:
                continue
            # The members of a panel must all compare the same pairs.
            leaves = complete_members(judge).leaves
            if len({(leaf.pairs, leaf.seed) for leaf in leaves}) > 1 or isinstance(
                leaves[0].pairs, str
            ):
                continue
            if size is not None:
                self._pairs_by_column[k] = plan_pairs(leaves[0], id, criterion.name, size)
            elif leaves[0].pairs is None:
                self._pairs_by_column[k] = None

    @property
    def has_early_pairs(self) -> bool:
        """Are there pairs that can be judged before the group is complete?"""
        return bool(self._pairs_by_column)

    def has_decided_gates(self, reasons: Sequence[str]) -> bool:
        """Is every hard gate of a rollout decided? If not, it cannot be compared yet: a gate may still stop it."""
        if not self._judges.cascade:
            return True
        for criterion, reason in zip(self._criteria, reasons, strict=True):
            if criterion.value_layer == "global_quality" and reason.startswith(NEEDS_JUDGE):
                return False
        return True

    def add(
        self, place: int, rollout: Rollout, wanted_K: np.ndarray
    ) -> list[tuple[Group, np.ndarray]]:
        """Add a rollout; returns its pairs with earlier ones, each as a group of two with the cells to judge (2, K).

        wanted_K: bool (K,), the criteria that are to be judged for this rollout.
        """
        if place in self._arrived:  # a repeated request
            return []
        pairs = []
        for earlier_place, (earlier, earlier_wanted_K) in self._arrived.items():
            places = (min(place, earlier_place), max(place, earlier_place))
            rollouts = (rollout, earlier) if place < earlier_place else (earlier, rollout)
            compared_K = np.zeros(len(self._criteria), dtype=bool)
            for k, planned in self._pairs_by_column.items():
                compared_K[k] = (
                    wanted_K[k] and earlier_wanted_K[k] and (planned is None or places in planned)
                )
            if compared_K.any():
                pairs.append(
                    (Group(id=self._id, rollouts=rollouts), np.stack([compared_K, compared_K]))
                )
        self._arrived[place] = (rollout, wanted_K)
        return pairs
