"""One criterion of one response in one call: the judge names a value of the criterion's domain.

    8 rollouts × 3 judged criteria → 24 calls → 24 verdicts

`expected: true` takes the mean of all values of the domain, weighted by the probabilities that the model gave them
where it wrote its verdict: 0.83 instead of 1. Such a value lies between the values of the domain. It breaks ties that a
coarse domain leaves, and needs a server that returns log-probabilities.

Rollouts that a judge cannot tell apart are asked about once.
"""

from __future__ import annotations

from dataclasses import replace

from rubrank.judges.asking import ask_and_read, together
from rubrank.judges.design import alike
from rubrank.judges.judge import Asker, Call, Judge, Judgment, Question, cells
from rubrank.judges.parsing import missing_reason, read_absolute, read_expected
from rubrank.judges.prompting import absolute_call, asked_as
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict


class Absolute:
    """Kind "absolute"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every cell of a different rollout."""
        return len(_asked(question))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A verdict for every wanted cell."""
        asked = _asked(question)
        rollouts, first = question.group.rollouts, alike(question.group.rollouts)
        verdicts = await together(_ask(judge, asker, rollouts[i], criterion) for (i, _), criterion in asked.items())
        found = dict(zip(asked, verdicts, strict=True))
        wanted = cells(question.wanted, question.criteria)
        given = {(i, criterion.name): found[first[i], criterion.name] for i, criterion in wanted}
        return Judgment(given, asked=len(given), lost=sum(verdict.value is None for verdict in given.values()))


def _asked(question: Question) -> dict[tuple[int, str], Criterion]:
    """The cells to ask about: those of rollouts that differ."""
    first = alike(question.group.rollouts)
    wanted = cells(question.wanted, question.criteria)
    return {(first[i], criterion.name): criterion for i, criterion in wanted}


async def _ask(judge: Judge, asker: Asker, rollout: Rollout, criterion: Criterion) -> Verdict:
    call = _call(judge, rollout, criterion)
    read = read_expected if judge.expected else read_absolute
    return await ask_and_read(asker, call, lambda reply: read(reply, criterion, call=call), missing_reason)


def _call(judge: Judge, rollout: Rollout, criterion: Criterion) -> Call:
    examples, whole = judge.examples.get(criterion.name, ()), judge.expected
    call = absolute_call(criterion, rollout, examples=examples, whole=whole, **asked_as(judge))
    return replace(call, logprobs=True) if judge.expected else call
