"""All judged criteria of one response in one call: the cheapest way, since the response is read once.

    8 rollouts × 3 judged criteria → 8 calls → 24 verdicts

What fails as a whole is missing for all criteria of that response; what fails for one criterion, for that one alone.
Rollouts that a judge cannot tell apart, and of which the same is wanted, are asked about once.
"""

from __future__ import annotations

from typing import TypeAlias

from rubrank.judges.asking import ask_and_read, together
from rubrank.judges.design import alike
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.parsing import read_batched
from rubrank.judges.prompting import asked_as, batched_call
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict

_Sheet: TypeAlias = tuple[int, tuple[int, ...]]
"""A rollout, and the numbers of the criteria that are asked of it."""


class Batched:
    """Kind "batched"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every different rollout of which something is wanted."""
        return len(set(_sheets(question).values()))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A verdict for every wanted cell."""
        sheets = _sheets(question)
        different = list(dict.fromkeys(sheets.values()))
        answers = await together(_ask(question, judge, asker, sheet) for sheet in different)
        found = dict(zip(different, answers, strict=True))
        given = {(i, name): verdict for i, sheet in sheets.items() for name, verdict in found[sheet].items()}
        return Judgment(given, asked=len(given), lost=sum(verdict.value is None for verdict in given.values()))


def _sheets(question: Question) -> dict[int, _Sheet]:
    """For every rollout that wants something, the call that answers it."""
    first = alike(question.group.rollouts)
    rows = ((i, tuple(int(k) for k in row.nonzero()[0])) for i, row in enumerate(question.wanted))
    return {i: (first[i], columns) for i, columns in rows if columns}


async def _ask(question: Question, judge: Judge, asker: Asker, sheet: _Sheet) -> dict[str, Verdict]:
    i, columns = sheet
    rollout: Rollout = question.group.rollouts[i]
    criteria: tuple[Criterion, ...] = tuple(question.criteria[k] for k in columns)
    examples = {c.name: judge.examples[c.name] for c in criteria if c.name in judge.examples}
    call = batched_call(criteria, rollout, examples=examples, **asked_as(judge))
    return await ask_and_read(asker, call, lambda reply: read_batched(reply, criteria, call=call), _missing_reasons)


def _missing_reasons(found: dict[str, Verdict]) -> list[str]:
    return [verdict.reason for verdict in found.values() if verdict.value is None]
