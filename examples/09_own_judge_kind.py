"""A kind of judge of your own: a plain question, and yes or no in reply. A scripted model answers here.

Run it: python examples/09_own_judge_kind.py

In a file of judges it is `kind: yes-no`, with `rubrank --import MODULE …` on the command line.
"""

import asyncio
from typing import Any

import numpy as np

import rubrank


@rubrank.judge_kind("yes-no")
class YesNo:
    """One question for each cell, all asked at the same time."""

    async def judge(self, question: rubrank.Question, judge: rubrank.Judge, asker: Any) -> rubrank.Judgment:
        """Verdicts for the cells that want one."""
        cells = [(int(i), question.criteria[k]) for i, k in zip(*question.wanted.nonzero(), strict=True)]
        replies = await asyncio.gather(
            *(asker.ask(call_of(criterion, question.group.rollouts[i])) for i, criterion in cells)
        )
        found = {(i, criterion.name): read(reply) for (i, criterion), reply in zip(cells, replies, strict=True)}
        return rubrank.Judgment(found, asked=len(found), lost=sum(verdict.value is None for verdict in found.values()))


def call_of(criterion: rubrank.Criterion, rollout: rubrank.Rollout) -> rubrank.Call:
    asked = f"{criterion.question}\n\n<text>\n{rollout.answer}\n</text>\n\nAnswer yes or no."
    return rubrank.Call(messages=({"role": "user", "content": asked},))


def read(reply: rubrank.Reply) -> rubrank.Verdict:
    said = (reply.text or "").strip().lower().rstrip(".")
    if said not in ("yes", "no"):
        return rubrank.missing(reply.failure or f"neither yes nor no: {said[:40]!r}")
    return rubrank.Verdict(float(said == "yes"), said)


class Scripted:
    """Stands in for a model: it knows two lakes, and says nothing about tea."""

    async def ask(self, call: rubrank.Call) -> rubrank.Reply:
        """The reply."""
        text = call.messages[0]["content"]
        if "Tea" in text:
            return rubrank.Reply("I cannot say")
        return rubrank.Reply("Yes." if "Como" in text or "Baikal" in text else "No.")


texts = ("Como.", "Paris.", "Tea?", "Baikal.")
rollouts = tuple(rubrank.Rollout.model_validate({"prompt": "Name a lake.", "response": text}) for text in texts)
criterion = rubrank.Criterion(name="IsLake", question="Does the text name a lake?")
question = rubrank.Question(rubrank.Group(id="lakes", rollouts=rollouts), (criterion,), np.ones((4, 1), dtype=bool))
endpoint = {"base_url": "http://localhost:8000/v1", "model": "m"}
judge = rubrank.Judge.model_validate({"kind": "yes-no", "endpoints": [endpoint]})
judgment = asyncio.run(YesNo().judge(question, judge, Scripted()))
for (i, _), verdict in judgment.verdicts.items():
    print(f"{rollouts[i].response:<8} {verdict.value}  {verdict.reason}")
print(f"asked {judgment.asked}, lost {judgment.lost}")
