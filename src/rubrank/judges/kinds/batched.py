"""All judged criteria of one response in one call: the cheapest kind, because the response is read once.

    8 rollouts × 3 judged criteria → 8 calls → 24 verdicts

If a call fails, the verdicts of that response are missing for all criteria. If only one entry of a reply cannot be
read, its verdict alone is missing. Duplicate rollouts that are judged on the same criteria share a call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from rubrank.judges.asker import ask_and_parse, gather_all
from rubrank.judges.design import find_duplicates
from rubrank.judges.judge import Asker, Judge, Judgment, Question, Reply
from rubrank.judges.parsing import add_probabilities, read_batched
from rubrank.judges.prompting import batched_call, prompt_options
from rubrank.judges.prompting.reply_form import batch_keys
from rubrank.verifiers.verifier import Verdict

Request: TypeAlias = tuple[int, tuple[int, ...]]
"""A rollout, and the columns of the criteria that it is judged on."""


class Batched:
    """Kind "batched"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every rollout with a wanted cell, not counting duplicates."""
        return len(set(request_of_rollout(question).values()))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A verdict for every wanted cell."""
        request_of = request_of_rollout(question)
        requests = list(dict.fromkeys(request_of.values()))
        answers = await gather_all(_ask(question, judge, asker, request) for request in requests)
        answer_of = dict(zip(requests, answers, strict=True))
        verdicts = {}
        for i, request in request_of.items():
            for name, verdict in answer_of[request].items():
                verdicts[i, name] = verdict
        lost = sum(verdict.value is None for verdict in verdicts.values())
        return Judgment(verdicts, asked=len(verdicts), lost=lost)


def request_of_rollout(question: Question) -> dict[int, Request]:
    """Every rollout with a wanted cell → its request; duplicates share a request."""
    first_of = find_duplicates(question.group.rollouts)
    requests = {}
    for i, row in enumerate(question.wanted):
        columns = tuple(row.nonzero()[0].tolist())
        if columns:
            requests[i] = (first_of[i], columns)
    return requests


async def _ask(question: Question, judge: Judge, asker: Asker, request: Request) -> dict[str, Verdict]:
    i, columns = request
    criteria = tuple(question.criteria[k] for k in columns)
    names = [criterion.name for criterion in criteria]
    examples = {name: judge.examples[name] for name in names if name in judge.examples}
    call = batched_call(criteria, question.group.rollouts[i], examples=examples, **prompt_options(judge))
    if judge.probabilities:
        call = replace(call, logprobs=True)

    def parse(reply: Reply) -> dict[str, Verdict]:
        verdicts = read_batched(reply, criteria, call=call)
        if judge.probabilities:
            for key, criterion in zip(batch_keys(criteria), criteria, strict=True):
                verdicts[criterion.name] = add_probabilities(verdicts[criterion.name], reply, criterion, key)
        return verdicts

    return await ask_and_parse(asker, call, parse, list_missing)


def list_missing(verdicts: dict[str, Verdict]) -> list[str]:
    """Why verdicts are missing."""
    return [verdict.reason for verdict in verdicts.values() if verdict.value is None]
