"""Rollouts of a group graded as they come: only comparisons and fusion wait for the last.

    early = Early(engine, group_id, rubric)
    early.begin(0, rollout)                  when a rollout is complete: programs decide, judges that score are asked
    graded = await early.finish([0, 1])      the scores of the whole group; judges that compare are asked now

What passes between the first rollout and the last is hidden behind generation; `Graded.hidden` and `Graded.seconds` say
how much was, and how much was waited for. Rollouts that cannot be told apart are graded once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine

if TYPE_CHECKING:
    from rubrank.judges.judging import Judgments


class Early:
    """One group as it comes in; belongs to one event loop."""

    def __init__(self, engine: RewardEngine, id: str, rubric: Any = None) -> None:
        self._engine, self._id, self._rubric = engine, id, rubric
        self._rollouts: dict[Hashable, Rollout] = {}
        self._tasks: dict[Hashable, asyncio.Task[Graded]] = {}
        self._spans: list[list[float]] = []
        """When grading of a rollout began and ended; it may go on."""

    def begin(self, member: Hashable, rollout: Rollout) -> None:
        """Grade one rollout by itself."""
        same = next((other for other, known in self._rollouts.items() if known == rollout), None)
        self._rollouts[member] = rollout
        alone = Group(id=self._id, rollouts=(rollout,), rubric=self._rubric)
        self._tasks[member] = self._tasks[same] if same is not None else asyncio.create_task(self._grade(alone))

    async def _grade(self, alone: Group) -> Graded:
        span = [time.perf_counter(), math.inf]
        self._spans.append(span)
        try:
            table = await asyncio.to_thread(self._engine.decide, [alone])
            return await self._engine.ask(table, [alone], compare=False)
        finally:
            span[1] = time.perf_counter()

    async def finish(self, members: Sequence[Hashable]) -> Graded:
        """The scores of these rollouts as a group; raises what grading one of them raised."""
        complete = time.perf_counter()
        await asyncio.gather(*dict.fromkeys(self._tasks[member] for member in members))
        group = Group(id=self._id, rollouts=tuple(self._rollouts[member] for member in members), rubric=self._rubric)
        graded = await joined(self._engine, group, [self._tasks[member].result() for member in members])
        hidden = covered(self._spans, complete) if graded.judging is not None else 0.0
        return replace(graded, seconds=time.perf_counter() - complete, hidden=hidden)

    def cancel(self) -> None:
        """It is no longer wanted."""
        for task in self._tasks.values():
            task.cancel()


async def joined(engine: RewardEngine, group: Group, parts: Sequence[Graded]) -> Graded:
    """The scores of a group from those of its rollouts, each graded by itself; judges that compare are asked now.

    A rollout that occurs twice may be given as the same part twice: it is paid once.
    """
    table = engine.decide_groups(ScoreTable((_stacked(group.id, [part.groups[0] for part in parts]),)), [group])
    compared = await engine.ask(table, [group], compare=True)
    return Graded(compared.groups, _together(group, parts, compared))


def _stacked(id: str, parts: Sequence[GroupScores]) -> GroupScores:
    scores = np.concatenate([part.scores for part in parts])
    return GroupScores(id, parts[0].criteria, scores, tuple(part.reasons[0] for part in parts))


def _together(group: Group, parts: Sequence[Graded], compared: Graded) -> Judgments | None:
    """What all judges said about the group; a rollout that occurs twice counts twice, but is paid once."""
    from rubrank.judges.client.accounting import Account
    from rubrank.judges.judge import Judgment
    from rubrank.judges.judging import Judgments

    if compared.judging is None:
        return None
    (found,) = compared.judging.groups
    whole = Judgment(
        {},
        found.outcomes,
        found.words,
        found.missing,
        found.asked,
        found.lost,
        found.disagreement,
        found.first_wins,
        list(found.replies),
    )
    for i, part in enumerate(parts):
        judging = part.judging
        assert judging is not None
        (alone,) = judging.groups
        whole.verdicts |= {(i, name): verdict for (_, name), verdict in alone.verdicts.items()}
        whole.asked += alone.asked
        whole.lost += alone.lost
        whole.replies += alone.replies
        for name, reasons in alone.missing.items():
            whole.missing.setdefault(name, []).extend(reasons)
        whole.disagreement |= alone.disagreement
    once = {id(part): part for part in parts}.values()
    spent = [part.judging.account for part in once if part.judging is not None]
    return Judgments((whole,), Account.merged([*spent, compared.judging.account]), (group.id,))


def covered(spans: Sequence[list[float]], end: float) -> float:
    """Seconds before `end` in which at least one of these was under way: [[0, 2], [1, 3], [9, 12]], 10 → 4."""
    total, at = 0.0, -math.inf
    for begun, ended in sorted(spans):
        first, last = max(begun, at), min(ended, end)
        total, at = total + max(last - first, 0.0), max(at, last)
    return total
