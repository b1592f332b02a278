"""A benchmark's judge: an endpoint of a file of judges, with its cache, limits and accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rubrank.evaluation.benchmark import Answer, Messages
from rubrank.evaluation.scoring import Judge as AnswerAll
from rubrank.judges.askers import open_askers
from rubrank.judges.client.runtime import runtime
from rubrank.judges.judge import Call, Judges, Reply, load_judges

PROMPTS_VERSION = "1"
"""Raised when the wording of a template changes, so that kept replies are not taken for answers to it."""


def judge_of(source: str | Path | Judges) -> tuple[AnswerAll, str]:
    """The first judge of a file, as a function from prompts to answers, and what it is called."""
    judges = load_judges(source)
    judge = judges.judges[0]
    leaf = (judge.members or (judge,))[0]

    async def ask_all(prompts: Sequence[Messages]) -> list[Reply]:
        async with AsyncExitStack() as stack:
            asker = (await open_askers(judges, [leaf], stack, None)).of(leaf)
            calls = [
                Call(tuple(prompt), prompt_version=f"eval-{PROMPTS_VERSION}", purpose="evaluation")
                for prompt in prompts
            ]
            return list(await asyncio.gather(*(asker.ask(call) for call in calls)))

    def answer(prompts: Sequence[Messages]) -> list[Answer]:
        return [_answer(reply) for reply in runtime().run(ask_all(prompts))]

    models = ", ".join(sorted({endpoint.model for endpoint in leaf.endpoints}))
    return answer, f"{judge.name} ({models})"


def _answer(reply: Reply) -> Answer:
    if reply.failure or reply.text is None:
        return Answer(None, reply.failure or "no reply")
    return Answer(reply.text)
