"""All judged criteria of one response in one call to a decision model, which answers with probabilities and no text.

    8 rollouts × 3 judged criteria → 8 calls → 24 verdicts, each with a distribution over its levels

Decision models speak the System One protocol, hosted or self-hosted (`prompting/decisions.py`). They read the response
once for all questions and write nothing, so a call costs its input alone. There are no reasons beyond the
probabilities. Criteria that do not fit into one request are asked in several; a response that is too long by itself is
missing with a reason, without a call. Duplicate rollouts that are judged on the same criteria share a call.
"""

from __future__ import annotations

from rubrank.judges.asker import ask_and_parse, gather_all
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.kinds.batched import Request, list_missing, request_of_rollout
from rubrank.judges.parsing.decisions import read_decisions
from rubrank.judges.prompting.decisions import DecisionRequest, make_requests
from rubrank.verifiers.verifier import Verdict, missing


class Decision:
    """Kind "decision"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every different rollout with a wanted cell; more if its criteria do not fit into one request."""
        calls = 0
        for request in set(request_of_rollout(question).values()):
            calls += sum(part.call is not None for part in _split(question, request, judge))
        return calls

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A verdict for every wanted cell."""
        request_of = request_of_rollout(question)
        requests = list(dict.fromkeys(request_of.values()))
        answers = await gather_all(_ask(question, request, judge, asker) for request in requests)
        answer_of = dict(zip(requests, answers, strict=True))
        verdicts = {}
        for i, request in request_of.items():
            for name, verdict in answer_of[request].items():
                verdicts[i, name] = verdict
        lost = sum(verdict.value is None for verdict in verdicts.values())
        return Judgment(verdicts, asked=len(verdicts), lost=lost)


def _split(question: Question, request: Request, judge: Judge) -> list[DecisionRequest]:
    i, columns = request
    return make_requests([question.criteria[k] for k in columns], question.group.rollouts[i], judge)


async def _ask(question: Question, request: Request, judge: Judge, asker: Asker) -> dict[str, Verdict]:
    """The verdicts about one response."""

    async def ask_part(part: DecisionRequest) -> dict[str, Verdict]:
        if part.call is None:
            return {criterion.name: missing(part.problem) for criterion in part.criteria}
        return await ask_and_parse(
            asker, part.call, lambda reply: read_decisions(reply, part, expected=judge.expected), list_missing
        )

    verdicts: dict[str, Verdict] = {}
    for answered in await gather_all(ask_part(part) for part in _split(question, request, judge)):
        verdicts |= answered
    return verdicts
