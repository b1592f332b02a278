"""One step of judging: ask judges about the cells that verifiers left open, and collect the judgments.

A cell is one rollout on one criterion. G is the number of rollouts of a group, K the number of its criteria.

    wanted = [find_judged_cells(criteria, scores, reasons, judges) for …]  after the verifiers have run
    judgments = judge_groups(groups, criteria, wanted, judges)
    judgments.groups[0].verdicts[2, "CoreIntentMatch"]                     Verdict(1.0, "asks for a lake, gets one")
    judgments.groups[0].outcomes["GeneralQuality"]                         (G, G): who beats whom
    judgments.account                                                      calls, tokens, cost, cache hits, latency

Judges come after the verifiers because they cost most; a rollout that a hard gate has stopped is not judged at all
(`cascade`). An answer that fails is missing with a reason. The step goes on with the other answers, and raises
`JudgingFailed` only if more are missing than `most_missing` allows; the replies are in the cache by then.

How a step runs (`_Step`):

    1. plan        one question for each judge and group with cells for it; it is known how many calls it makes at most
    2. start       the questions of a judge are started one after the other, as there is room for their calls
    3. answer      every reply makes room for the next question, and is reported as progress
    4. collect     the judgment about a question is added to the judgment of its group
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, JudgingFailed, JudgingInterrupted
from rubrank.judges import COMPARES, count_calls, judge_question
from rubrank.judges.judge import (
    AskerOf,
    Call,
    Judge,
    Judges,
    Judgment,
    Question,
    Reply,
    WrappedAsker,
)
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import NEEDS_JUDGE, OUTAGE

if TYPE_CHECKING:
    from rubrank.judges.client.usage import Account
    from rubrank.judges.kinds.comparisons import ArrivedGroup

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of calls that are answered, and of all calls."""

# Calls that are prepared at the same time: this multiple of the concurrency of the endpoints, so that the next call is
# ready when one is answered, but at least 64.
_CALLS_AHEAD = 2
_MIN_CALLS_AHEAD = 64
_MAX_REASONS = 5  # listed in an error
_REPORT_SECONDS = 1.0  # between reports of cost and failures

_log = logging.getLogger("rubrank.judges")
_warned_criteria: set[str] = set()  # criteria without any answer, of which this process has warned


# -------------------------------------------------------------------------------------------------------------- cells


def find_judged_cells(
    criteria: Sequence[Criterion],
    scores_GK: np.ndarray,
    reasons: Sequence[Sequence[str]],
    judges: Judges,
) -> np.ndarray:
    """Return (G, K): the cells of one group to be judged.

    scores_GK, reasons: what the verifiers gave; a missing score has the reason why.
    These are the cells that the verifiers left missing because they need a judge, of criteria that a judge decides and
    that can be put as a question; with `judges.cascade`, without the rollouts that a hard gate has stopped.
    """
    needs_judge = np.array(
        [[reason.startswith(NEEDS_JUDGE) for reason in row] for row in reasons], dtype=bool
    )
    judged_GK = needs_judge.reshape(scores_GK.shape) & np.isnan(scores_GK)
    from rubrank.judges.prompting.prompt_files import list_prompt_names

    for k, criterion in enumerate(criteria):
        # A user's verifier that gives up may have neither a question nor a prompt.
        has_prompt = criterion.prompt_name in list_prompt_names()
        can_be_asked = criterion.question is not None or has_prompt
        if judges.judge_of(criterion.name) is None or not can_be_asked:
            judged_GK[:, k] = False
    if judges.cascade:
        judged_GK[find_stopped(criteria, scores_GK)] = False
    return judged_GK


def find_stopped(criteria: Sequence[Criterion], scores_GK: np.ndarray) -> np.ndarray:
    """Return (G,): whether a hard gate has stopped a rollout.

    A hard gate is a criterion of the layer "global_quality". It stops every rollout without the best score on it; a
    missing score (NaN) stops none.
    """
    stopped = np.zeros(len(scores_GK), dtype=bool)
    for k, criterion in enumerate(criteria):
        if criterion.value_layer != "global_quality":
            continue
        domain = criterion.value_domain
        if criterion.direction == "higher":  # comparisons with NaN are False
            stopped |= scores_GK[:, k] < domain.high
        else:
            stopped |= scores_GK[:, k] > domain.low
    return stopped


# --------------------------------------------------------------------------------------------------------------- step


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
    """Judge all wanted cells of all groups.

    criteria: those of every group. wanted: (G, K) for every group; see `find_judged_cells`.
    progress: called with (done, total) numbers of calls; if it has a method `tell`, that is called with cost and
        failures so far.
    asker_of: returns the asker of a judge (or a member of its panel) to use instead of its endpoints, such as a model
        in this process; without the cache, retries and limits of the client.
    check: raise JudgingFailed if too many answers are missing (see `check_judgments`).
    """
    from rubrank.judges.client.runtime import runtime

    step = _Step(groups, criteria, wanted, judges, progress)
    try:
        judgments = runtime().run(step.run(asker_of))
    except KeyboardInterrupt:
        raise JudgingInterrupted(step.done, step.total, judges.cache) from None
    if check:
        check_judgments(judgments, judges)
    return judgments


async def judge_groups_async(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    *,
    asker_of: AskerOf | None = None,
    arrived: ArrivedGroup | None = None,
) -> Judgments:
    """Judge all wanted cells without blocking the event loop; missing answers never raise an error.

    arrived: the state of a group that came in rollout by rollout; calls that it has answered are not sent again.
    """
    from rubrank.judges.client.runtime import runtime

    step = _Step(groups, criteria, wanted, judges, None, arrived)
    return await runtime().run_async(step.run(asker_of))


def check_judgments(judgments: Judgments, judges: Judges) -> None:
    """Raise JudgingFailed if more answers are missing than `most_missing` allows, or all of them.

    Also warns, once per process, of criteria for which no answer came. With `on_outage: continue`, answers lost to an
    outage are not counted.
    """
    reasons = judgments.reasons
    outage_losses = 0
    if judges.on_outage == "continue" and reasons[OUTAGE]:
        outage_losses = reasons[OUTAGE]
        message = "the judges do not answer: %s of %s answers of this step are missing; on_outage: continue"
        _log.warning(message, f"{outage_losses:,}", f"{judgments.asked:,}")
    all_missing = judgments.asked > 0 and judgments.lost == judgments.asked and not outage_losses
    too_many_missing = judgments.lost - outage_losses > judges.most_missing * judgments.asked
    if all_missing or too_many_missing:
        most_common = tuple(reasons.most_common(_MAX_REASONS))
        account = judgments.account
        spent = f"{account.calls:,} calls, {account.hits:,} from the cache, cost {account.cost:.4g}"
        remedy = "Without a cache, all calls are paid for again: set cache: FILE."
        if judges.cache is not None:
            remedy = f"Replies are cached in {judges.cache} and not paid for again: fix the judges and repeat the step."
        raise JudgingFailed(
            judgments.lost, judgments.asked, judges.most_missing, most_common, spent, remedy
        )
    for name, reason in judgments.missing_throughout.items():
        if name not in _warned_criteria:
            _warned_criteria.add(name)
            _log.warning(
                "criterion %r: no judge gave an answer in this step; the first reason: %s",
                name,
                reason,
            )


@dataclass
class _JudgePlan:
    """The questions of one judge in a step."""

    judge: Judge
    questions: list[tuple[int, Question, int]] = field(default_factory=list)
    """(index of the group, question about it, how many calls it makes at most)"""
    in_flight: int = 0
    """Calls of the questions that were started, without those that are answered."""
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when calls are answered; see `_Step._start_questions`."""

    def release(self, calls: int) -> None:
        """Make room for other questions: this many calls are no longer in flight."""
        self.in_flight -= calls
        self.has_room.set()


@dataclass(eq=False)
class _ReportingAsker(WrappedAsker):
    """Passes calls on to another asker, and calls `on_reply` with every reply."""

    on_reply: Callable[[Reply], None]

    async def ask(self, call: Call) -> Reply:
        reply = await self.asker.ask(call)
        self.on_reply(reply)
        return reply


class _Step:
    """The state of one step: the plan, the judgments so far, and the progress.

    total: how many calls will be made at most. done: how many of them are answered.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        criteria: Sequence[Sequence[Criterion]],
        wanted: Sequence[np.ndarray],
        judges: Judges,
        progress: Progress | None,
        arrived: ArrivedGroup | None = None,
    ) -> None:
        # Members of a panel inherit the settings of their judge that they leave out.
        completed = tuple(judge.complete_members() for judge in judges.judges)
        self._judges = judges.model_copy(update={"judges": completed})
        self._arrived = arrived
        self._progress = progress
        self._last_report = 0.0
        self._usage_so_far: Callable[[], Account] | None = None
        self._ids = tuple(group.id for group in groups)
        self._judgments = [Judgment() for _ in groups]
        self._plans = _plan_questions(groups, criteria, wanted, self._judges, arrived)
        self.total = sum(calls for plan in self._plans for _, _, calls in plan.questions)
        self.done = 0

    async def run(self, asker_of: AskerOf | None) -> Judgments:
        """Ask all judges at the same time; return their judgments and what the calls cost.

        asker_of: see `judge_groups`.
        """
        from rubrank.judges.client.runtime import open_clients

        async with AsyncExitStack() as stack:
            clients = await open_clients(
                self._judges, [plan.judge for plan in self._plans], stack, asker_of
            )
            self._usage_so_far = clients.account
            asker_of_judge: AskerOf = clients.asker_of
            if self._arrived is not None:
                # Calls that were answered while rollouts were still arriving are not sent again.
                asker_of_judge = self._arrived.memo.wrap(clients.asker_of, self._judges)
            async with asyncio.TaskGroup() as tasks:
                for plan in self._plans:
                    tasks.create_task(self._start_questions(plan, asker_of_judge, tasks))
        return Judgments(tuple(self._judgments), clients.account(), self._ids)

    async def _start_questions(
        self, plan: _JudgePlan, asker_of: AskerOf, tasks: asyncio.TaskGroup
    ) -> None:
        """Start the questions of one judge, each as soon as there is room for its calls.

        A million questions would be a million tasks that all hold their prompts, so questions are started as others
        end. Calls are counted, not groups: a group that waits for its last answer does not hold back the others.
        """
        concurrency = sum(
            endpoint.concurrency for leaf in plan.judge.leaves for endpoint in leaf.endpoints
        )
        limit = max(_MIN_CALLS_AHEAD, _CALLS_AHEAD * concurrency)
        for g, question, calls in plan.questions:
            while plan.in_flight >= limit:
                plan.has_room.clear()
                await plan.has_room.wait()
            plan.in_flight += calls
            tasks.create_task(self._judge_group(plan, g, question, calls, asker_of))

    async def _judge_group(
        self, plan: _JudgePlan, g: int, question: Question, calls: int, asker_of: AskerOf
    ) -> None:
        """Ask the question about group g, for whose calls there is room, and add the judgment."""
        reply_ids: list[str] = []

        def note_reply(reply: Reply) -> None:
            reply_ids.append(reply.id)
            plan.release(1)
            self._report_progress()

        judgment = await judge_question(
            question, plan.judge, lambda leaf: _ReportingAsker(asker_of(leaf), note_reply)
        )
        judgment.replies = [id for id in reply_ids if id]
        self._judgments[g].add(judgment)
        # `count_calls` gives an upper bound: some of the calls may not have been made.
        plan.release(calls - len(reply_ids))

    def _report_progress(self) -> None:
        """Count one more answered call; about once a second, also report cost and failures."""
        self.done += 1
        if self._progress is None:
            return
        self._progress(self.done, self.total)
        # Not for every answer: summing up the usage takes longer than an answer from the cache.
        tell = getattr(self._progress, "tell", None)
        now = time.monotonic()
        if tell is None or self._usage_so_far is None or now - self._last_report < _REPORT_SECONDS:
            return
        self._last_report = now
        account = self._usage_so_far()
        message = f"cost {account.cost:.4g}"
        failures = sum(account.failures.values())
        if failures:
            message += f", {failures:,} failed"
        tell(message)


def _plan_questions(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    arrived: ArrivedGroup | None,
) -> list[_JudgePlan]:
    """Return the questions of each judge; judges without questions are left out.

    Raises InvalidInput if `wanted` has a wrong shape, or a judge cannot answer a question.
    """
    plans = [_JudgePlan(judge) for judge in judges.judges]
    slots = None if arrived is None else arrived.slots
    size = None if arrived is None else arrived.size
    for g, (group, group_criteria, wanted_GK) in enumerate(
        zip(groups, criteria, wanted, strict=True)
    ):
        shape = (len(group.rollouts), len(group_criteria))
        if wanted_GK.shape != shape:
            raise InvalidInput(
                owner="judge_groups",
                parameter=f"wanted of group {group.id!r}",
                allowed=f"of shape {shape}",
                got=f"shape {wanted_GK.shape}",
                remedy="One row per rollout, one column per criterion.",
            )
        for plan in plans:
            columns = []
            for k, criterion in enumerate(group_criteria):
                if wanted_GK[:, k].any() and judges.judge_of(criterion.name) is plan.judge:
                    columns.append(k)
            if not columns:
                continue
            question = Question(
                group=group,
                criteria=tuple(group_criteria[k] for k in columns),
                wanted=wanted_GK[:, columns],
                slots=slots,
                size=size,
            )
            _check_question(question, plan.judge)
            plan.questions.append((g, question, count_calls(question, plan.judge)))
    return [plan for plan in plans if plan.questions]


def _check_question(question: Question, judge: Judge) -> None:
    """Raise InvalidInput for a question that this judge cannot answer, before anything is spent."""
    if judge.kind not in COMPARES:
        return
    for criterion in question.criteria:
        if criterion.value_layer not in ("quality", "watch"):
            # A comparison tells which rollout is better, but a gate needs to know which are good enough.
            raise judge.make_error(
                "kind",
                allowed=f'"absolute" or "batched" for {criterion.name!r}, which is a gate',
                got=repr(judge.kind),
                remedy="Give its gates to another judge.",
            )
    rollouts = question.group.rollouts
    if any(rollout.prompt != rollouts[0].prompt for rollout in rollouts):
        raise judge.make_error(
            "kind",
            allowed='"absolute" or "batched" if the rollouts answer different prompts',
            got=f"{judge.kind!r}, for group {question.group.id!r}",
            remedy="Give each prompt a group of its own.",
        )
