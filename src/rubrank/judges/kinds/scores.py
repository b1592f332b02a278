"""Kinds of judges that score responses: "absolute" asks about one criterion in a call, "batched" about all of them.

    8 rollouts × 3 judged criteria     absolute: 24 calls → 24 verdicts     batched: 8 calls → 24 verdicts

"batched" is cheaper, because the response is read once. If its call fails, the verdicts about that response are missing
for all criteria; if only one entry of the reply cannot be read, its verdict alone is missing.

`probabilities: true` keeps beside each score how likely the model found the other values, if the server returns
log-probabilities. `expected: true` (absolute only) scores by their mean, 0.83 instead of 1: that breaks ties which a
coarse domain leaves, but may lie between the values of the domain.

Duplicate rollouts that are judged on the same criteria share a call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rubrank.judges.design import find_duplicates
from rubrank.judges.judge import Asker, Judge, Judgment, Question, gather_all, report_if_unreadable
from rubrank.judges.parsing import add_probabilities, read_absolute, read_batched, read_expected
from rubrank.judges.prompting import absolute_call, batched_call, select_prompt_options
from rubrank.judges.prompting.reply_form import make_batch_keys
from rubrank.verifiers.verifier import Verdict


class Request(NamedTuple):
    """One call: a rollout, and the criteria that it is judged on."""

    rollout: int
    """Its number in the group; of duplicates the first."""
    columns: tuple[int, ...]
    """The places of the criteria in `Question.criteria`."""


def list_rollout_requests(question: Question) -> list[tuple[int, Request]]:
    """Return (rollout, request about all its wanted cells) for every rollout that has any.

    Duplicates share a request.
    """
    first_of = find_duplicates(question.group.rollouts)
    columns_of_rollouts = [tuple(row.nonzero()[0].tolist()) for row in question.wanted]
    return [
        (i, Request(first_of[i], columns))
        for i, columns in enumerate(columns_of_rollouts)
        if columns
    ]


async def judge_requests(
    requests: Sequence[tuple[int, Request]],
    ask: Callable[[Request], Coroutine[Any, Any, dict[str, Verdict]]],
) -> Judgment:
    """Make each request once, and give its verdicts to all rollouts that share it."""
    distinct = list(dict.fromkeys(request for _, request in requests))
    answers = dict(zip(distinct, await gather_all(map(ask, distinct)), strict=True))
    verdicts = {}
    for i, request in requests:
        for name, verdict in answers[request].items():
            verdicts[i, name] = verdict
    missing_count = sum(verdict.value is None for verdict in verdicts.values())
    return Judgment(verdicts, asked=len(verdicts), lost=missing_count)


class Absolute:
    """Kind "absolute"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return one call for every wanted cell, not counting duplicates."""
        return len({request for _, request in self._list_cell_requests(question)})

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a verdict for every wanted cell."""
        needs_logprobs = judge.expected or judge.probabilities

        async def ask(request: Request) -> dict[str, Verdict]:
            i, (column,) = request
            criterion = question.criteria[column]
            examples = judge.examples.get(criterion.name, ())
            rollout = question.group.rollouts[i]
            call = absolute_call(
                criterion,
                rollout,
                examples=examples,
                whole=needs_logprobs,
                **select_prompt_options(judge),
            )
            if needs_logprobs:
                call = replace(call, logprobs=True)

            reply = await asker.ask(call)
            if judge.expected:
                verdict = read_expected(reply, criterion, call=call)
            else:
                verdict = read_absolute(reply, criterion, call=call)
                if judge.probabilities:
                    verdict = add_probabilities(verdict, reply, criterion)
            report_if_unreadable(asker, call, reply, [verdict])
            return {criterion.name: verdict}

        return await judge_requests(self._list_cell_requests(question), ask)

    def _list_cell_requests(self, question: Question) -> list[tuple[int, Request]]:
        """Return a request for every wanted cell."""
        return [
            (i, Request(request.rollout, (column,)))
            for i, request in list_rollout_requests(question)
            for column in request.columns
        ]


class Batched:
    """Kind "batched"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return one call for every rollout with a wanted cell, not counting duplicates."""
        return len({request for _, request in list_rollout_requests(question)})

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a verdict for every wanted cell."""

        async def ask(request: Request) -> dict[str, Verdict]:
            i, columns = request
            criteria = [question.criteria[k] for k in columns]
            rollout = question.group.rollouts[i]
            call = batched_call(
                criteria, rollout, examples=judge.examples, **select_prompt_options(judge)
            )
            if judge.probabilities:
                call = replace(call, logprobs=True)

            reply = await asker.ask(call)
            verdicts = read_batched(reply, criteria, call=call)
            if judge.probabilities:
                for key, criterion in zip(make_batch_keys(criteria), criteria, strict=True):
                    verdicts[criterion.name] = add_probabilities(
                        verdicts[criterion.name], reply, criterion, key
                    )
            report_if_unreadable(asker, call, reply, verdicts.values())
            return verdicts

        return await judge_requests(list_rollout_requests(question), ask)
