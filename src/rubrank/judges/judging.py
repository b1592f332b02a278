"""Judged criteria × rollouts → judgments: the stage of grading that asks judges.

    wanted = [wanted_cells(criteria, scores, reasons, judges) for …]       after the verifiers have run
    judgments = judge_groups(groups, criteria, wanted, judges)
    judgments.groups[0].verdicts[2, "CoreIntentMatch"]                     Verdict(1.0, "asks for a lake, gets one")
    judgments.groups[0].outcomes["GeneralQuality"]                         (G, G): who beats whom
    judgments.account                                                      calls, tokens, cost, cache hits, latency

Cheapest first: rules have spoken before a judge is asked, and a rollout that a hard gate has stopped is not asked about
(`cascade`). What fails is missing with a reason; the step goes on with what was observed, and ends in `JudgingFailed`
only when more is missing than `most_missing` allows. Replies that were paid for are in the cache by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, JudgingFailed, JudgingInterrupted
from rubrank.judges import COMPARES, count_calls, judged
from rubrank.judges.judge import AWAY, JUDGED, Judge, Judges, Judgment, Question
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import JUDGE, Criterion

if TYPE_CHECKING:
    from rubrank.judges.arriving import Arrived
    from rubrank.judges.asking import AskerOf
    from rubrank.judges.client.usage import Account
    from rubrank.judges.running import AdmittedCalls

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many calls are answered, and how many there are."""

_LEAST = 64  # calls started ahead for a judge with a small endpoint
_AHEAD = 2  # times the concurrency of its endpoints: the next call is ready when one is answered
_MOST_REASONS = 5  # in an error
_NOW_AND_THEN = 1.0  # seconds


# ------------------------------------------------------------------------------------------------------ what is asked


def wanted_cells(
    criteria: Sequence[Criterion], scores_GK: np.ndarray, reasons: Sequence[Sequence[str]], judges: Judges
) -> np.ndarray:
    """(G, K): the cells that want a judge.

    Those that the verifiers left missing because they need one, of criteria that a judge decides and that can be put as
    a question; without the rollouts that a hard gate has stopped, if `judges.cascade`.
    """
    open_GK = np.array([[reason.startswith(JUDGED) for reason in row] for row in reasons], dtype=bool)
    decided = [judges.judge_of(criterion.name) is not None and _can_be_asked(criterion) for criterion in criteria]
    wanted = open_GK.reshape(scores_GK.shape) & np.isnan(scores_GK) & np.array(decided, dtype=bool)
    if judges.cascade:
        wanted &= ~stopped(criteria, scores_GK)[:, None]
    return wanted


def _can_be_asked(criterion: Criterion) -> bool:
    """Has it a question, or a prompt of its own? A user's verifier that gives up may have neither."""
    from rubrank.judges.prompting import has_prompt

    by_name = criterion.verifier in (None, JUDGE)
    return criterion.question is not None or has_prompt(criterion.name if by_name else str(criterion.verifier))


def stopped(criteria: Sequence[Criterion], scores_GK: np.ndarray) -> np.ndarray:
    """(G,): which rollouts are below the maximum of a global-quality criterion; a missing score stops none."""
    below = np.zeros(len(scores_GK), dtype=bool)
    for k, criterion in enumerate(criteria):
        if criterion.value_layer == "global_quality":
            domain, scores = criterion.value_domain, scores_GK[:, k]
            below |= scores < domain.high if criterion.direction == "higher" else scores > domain.low
    return below


# ------------------------------------------------------------------------------------------------------------ the step


def judge_groups(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    *,
    progress: Progress | None = None,
    asker_of: AskerOf | None = None,
    check: bool = True,
) -> Judgments:
    """Ask the judges about all wanted cells of all groups.

    criteria: those of every group. wanted: (G, K) for every group; see `wanted_cells`.
    progress: a function (done, total) of calls; if it has a method `tell`, that hears of cost and failures so far.
    asker_of: who answers for a judge (or a member of its panel) instead of its endpoints, such as a model in this
        process; without the cache, retries and limits of the client.
    check: raise where too much is missing (see `checked`).
    """
    from rubrank.judges.client.runtime import runtime

    step = _Step(groups, criteria, wanted, judges, progress)
    try:
        account = runtime().run(step.ask(asker_of))
    except KeyboardInterrupt:
        raise JudgingInterrupted(step.done, step.total, judges.cache) from None
    return checked(step.result(account), judges) if check else step.result(account)


async def judge_groups_async(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    *,
    asker_of: AskerOf | None = None,
    arrived: Arrived | None = None,
) -> Judgments:
    """The same in an event loop, which goes on meanwhile; nothing is raised for what is missing (see `checked`).

    arrived: what is known of a group that came in rollout by rollout; what was answered before is not asked again.
    """
    from rubrank.judges.client.runtime import runtime

    step = _Step(groups, criteria, wanted, judges, None, arrived)
    return step.result(await runtime().run_async(step.ask(asker_of)))


def checked(judgments: Judgments, judges: Judges) -> Judgments:
    """The same judgments; JudgingFailed if more is missing than `most_missing` allows, or all of it."""
    away = lost_to_outage(judgments, judgments.reasons, judges)
    all_missing = judgments.asked > 0 and judgments.lost == judgments.asked and not away
    if all_missing or judgments.lost - away > judges.most_missing * judgments.asked:
        raise _failed(judgments, judges)
    for name, reason in judgments.missing_throughout.items():
        if name not in _told:
            _told.add(name)
            _log.warning("criterion %r: no judge gave an answer in this step; the first reason: %s", name, reason)
    return judgments


def lost_to_outage(judgments: Judgments, reasons: Mapping[str, int], judges: Judges) -> int:
    """How many answers an outage took, where training goes on without them (`on_outage: continue`); warns of it."""
    away = reasons.get(AWAY, 0) if judges.on_outage == "continue" else 0
    if away:
        said = "the judges do not answer: %s of %s answers of this step are missing; on_outage: continue"
        _log.warning(said, f"{away:,}", f"{judgments.asked:,}")
    return away


_log = logging.getLogger("rubrank.judges")
_told: set[str] = set()  # criteria about which was warned


_Asked: TypeAlias = list[tuple[Judge, list[tuple[int, Question]]]]
"""Every judge with its questions, and the number of the group that each is about."""


def _questions(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    arrived: Arrived | None,
) -> _Asked:
    slots, size = (None, None) if arrived is None else (arrived.slots, arrived.size)
    asked: _Asked = [(judge, []) for judge in judges.judges]
    for g, (group, own, wanted_GK) in enumerate(zip(groups, criteria, wanted, strict=True)):
        if wanted_GK.shape != (len(group.rollouts), len(own)):
            raise InvalidInput(
                "judge_groups",
                f"wanted of group {group.id!r}",
                f"of shape {(len(group.rollouts), len(own))}",
                f"shape {wanted_GK.shape}",
                "One row per rollout, one column per criterion.",
            )
        needed = [k for k in range(len(own)) if wanted_GK[:, k].any()]
        for judge, questions in asked:
            columns = [k for k in needed if judges.judge_of(own[k].name) is judge]
            if columns:
                questions.append(
                    (g, Question(group, tuple(own[k] for k in columns), wanted_GK[:, columns], slots, size))
                )
    return [(judge, questions) for judge, questions in asked if questions]


def _check(question: Question, judge: Judge) -> None:
    """Refuse what cannot be asked, before anything is spent."""
    for criterion in question.criteria:
        if not _can_be_asked(criterion):
            raise InvalidInput(
                f"criterion {criterion.name!r}",
                "question",
                "given, where a judge is to decide",
                "none",
                "Say what the judge is asked.",
            )
        if judge.kind in COMPARES and criterion.value_layer != "quality":
            # who is better than whom does not say who is good enough
            raise InvalidInput(
                f"judge {judge.name!r}",
                "kind",
                f'"absolute" or "batched" for {criterion.name!r}, which is a gate',
                repr(judge.kind),
                "Give its gates to another judge.",
            )
    rollouts = question.group.rollouts
    if judge.kind in COMPARES and any(rollout.prompt != rollouts[0].prompt for rollout in rollouts):
        raise InvalidInput(
            f"judge {judge.name!r}",
            "kind",
            '"absolute" or "batched" where the rollouts answer different prompts',
            f"{judge.kind!r}, for group {question.group.id!r}",
            "Or make them groups of their own.",
        )


class _Step:
    """The state of one call: judgments as they come."""

    def __init__(
        self,
        groups: Sequence[Group],
        criteria: Sequence[Sequence[Criterion]],
        wanted: Sequence[np.ndarray],
        judges: Judges,
        progress: Progress | None,
        arrived: Arrived | None = None,
    ) -> None:
        from rubrank.judges.kinds.panel import completed

        self._judges = judges.model_copy(update={"judges": tuple(map(completed, judges.judges))})
        self._asked, self._progress = _questions(groups, criteria, wanted, self._judges, arrived), progress
        self._arrived = arrived
        for judge, questions in self._asked:
            for _, question in questions:
                _check(question, judge)
        self._ids = tuple(group.id for group in groups)
        self._judgments = [Judgment() for _ in groups]
        self._calls = [[count_calls(question, judge) for _, question in questions] for judge, questions in self._asked]
        self.total, self.done = sum(map(sum, self._calls)), 0
        self._account: Callable[[], Account] | None = None
        self._told = 0.0

    def result(self, account: Account) -> Judgments:
        """What was said."""
        return Judgments(tuple(self._judgments), account, self._ids)

    async def ask(self, asker_of: AskerOf | None) -> Account:
        """Everything, all judges at the same time."""
        from rubrank.judges.askers import open_askers
        from rubrank.judges.client.usage import Account

        if not self._asked:
            return Account()
        async with AsyncExitStack() as stack:
            askers = await open_askers(self._judges, [judge for judge, _ in self._asked], stack, asker_of)
            self._account = askers.account
            who = askers.of if self._arrived is None else self._arrived.memo.before(askers.of, self._judges)
            async with asyncio.TaskGroup() as tasks:
                for (judge, questions), calls in zip(self._asked, self._calls, strict=True):
                    tasks.create_task(self._feed(judge, questions, calls, who, tasks))
        return askers.account()

    async def _feed(
        self,
        judge: Judge,
        questions: list[tuple[int, Question]],
        calls: list[int],
        asker_of: AskerOf,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Start the questions of one judge as there is room for their calls."""
        from rubrank.judges.running import Throttle

        throttle = Throttle(max(_LEAST, _AHEAD * _concurrency(judge)), self._answered)
        for (g, question), number in zip(questions, calls, strict=True):
            batch = await throttle.admit(number)
            tasks.create_task(self._judge(g, question, judge, asker_of, batch))

    async def _judge(self, g: int, question: Question, judge: Judge, asker_of: AskerOf, batch: AdmittedCalls) -> None:
        judgment = await judged(question, judge, lambda leaf: batch.counting(asker_of(leaf)))
        judgment.replies = batch.replies
        _add(self._judgments[g], judgment)
        batch.close()

    def _answered(self) -> None:
        self.done += 1
        if self._progress is not None:
            self._progress(self.done, self.total)
            self._tell()

    def _tell(self) -> None:
        """Cost and failures so far, now and then: summing them up takes longer than an answer from the cache."""
        tell = getattr(self._progress, "tell", None)
        if tell is None or self._account is None or time.monotonic() - self._told < _NOW_AND_THEN:
            return
        self._told = time.monotonic()
        account = self._account()
        failed = sum(account.failures.values())
        tell(f"cost {account.cost:.4g}" + (f", {failed:,} failed" if failed else ""))


def _concurrency(judge: Judge) -> int:
    return sum(endpoint.concurrency for leaf in (judge.members or (judge,)) for endpoint in leaf.endpoints)


def _add(into: Judgment, more: Judgment) -> None:
    """Two judges of one group: their criteria differ."""
    for name in ("verdicts", "outcomes", "words", "missing", "disagreement", "first_wins"):
        getattr(into, name).update(getattr(more, name))
    into.replies += more.replies
    into.asked += more.asked
    into.lost += more.lost


def _failed(judgments: Judgments, judges: Judges) -> JudgingFailed:
    often = tuple(judgments.reasons.most_common(_MOST_REASONS))
    account = judgments.account
    spent = f"{account.calls:,} calls, {account.hits:,} from the cache, cost {account.cost:.4g}"
    kept = "Without a cache, all are paid again: say cache: FILE."
    if judges.cache is not None:
        kept = f"What was answered is in {judges.cache}, and is not paid again: see to the judges, and repeat the step."
    return JudgingFailed(judgments.lost, judgments.asked, judges.most_missing, often, spent, kept)
