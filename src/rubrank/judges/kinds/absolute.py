"""One criterion of one response in one call: the judge names a value of the criterion's domain.

    8 rollouts × 3 judged criteria → 24 calls → 24 verdicts

`expected: true` takes the mean of all values of the domain, weighted by the probabilities that the model gave them at
the place of the verdict: 0.83 instead of 1. Such a value may lie between the values of the domain. It breaks ties that
a coarse domain leaves, and needs a server that returns log-probabilities. `probabilities: true` leaves the score alone
and keeps these probabilities beside it, if the server returns them.

Duplicate rollouts are judged once.
"""

from __future__ import annotations

from dataclasses import replace

from rubrank.judges.asker import ask_and_parse, gather_all
from rubrank.judges.design import find_duplicates
from rubrank.judges.judge import Asker, Judge, Judgment, Question, Reply
from rubrank.judges.parsing import add_probabilities, missing_reasons, read_absolute, read_expected
from rubrank.judges.prompting import absolute_call, prompt_options
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict


class Absolute:
    """Kind "absolute"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every wanted cell, not counting duplicates."""
        return len(set(_call_of_cell(question).values()))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A verdict for every wanted cell."""
        call_of_cell = _call_of_cell(question)
        calls = list(dict.fromkeys(call_of_cell.values()))
        rollouts = question.group.rollouts
        verdicts = await gather_all(_ask(judge, asker, rollouts[i], question.criteria[k]) for i, k in calls)
        verdict_of_call = dict(zip(calls, verdicts, strict=True))
        by_cell = {(i, question.criteria[k].name): verdict_of_call[call] for (i, k), call in call_of_cell.items()}
        lost = sum(verdict.value is None for verdict in by_cell.values())
        return Judgment(by_cell, asked=len(by_cell), lost=lost)


def _call_of_cell(question: Question) -> dict[tuple[int, int], tuple[int, int]]:
    """Every wanted cell (rollout, criterion) → the cell whose call answers it; duplicates share a call."""
    first_of = find_duplicates(question.group.rollouts)
    calls = {}
    for i, row in enumerate(question.wanted):
        for k in row.nonzero()[0].tolist():
            calls[i, k] = (first_of[i], k)
    return calls


async def _ask(judge: Judge, asker: Asker, rollout: Rollout, criterion: Criterion) -> Verdict:
    examples = judge.examples.get(criterion.name, ())
    whole = judge.expected or judge.probabilities
    call = absolute_call(criterion, rollout, examples=examples, whole=whole, **prompt_options(judge))
    if judge.expected or judge.probabilities:
        call = replace(call, logprobs=True)

    def parse(reply: Reply) -> Verdict:
        if judge.expected:
            return read_expected(reply, criterion, call=call)
        verdict = read_absolute(reply, criterion, call=call)
        return add_probabilities(verdict, reply, criterion) if judge.probabilities else verdict

    return await ask_and_parse(asker, call, parse, missing_reasons)
