"""A benchmark's judge: an endpoint of a file of judges, with its cache, limits and accounts.

judge, name = judge_of("judges.yaml")
judge(prompts), judge.cost             answers in order; what they cost so far
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rubrank.evaluation.benchmark import Answer, Messages
from rubrank.judges.client.runtime import runtime
from rubrank.judges.clients import open_clients
from rubrank.judges.judge import Asker, Call, Judge, Judges, Reply, load_judges

PROMPTS_VERSION = "1"
"""Raised when the wording of a template changes, so that kept replies are not taken for answers to it."""


class FileJudge:
    """Prompts → answers, in order; counts what they cost.

    progress: hears (done, total); its `tell`, where it has one, cost and failures so far.
    """

    def __init__(self, judges: Judges, leaf: Judge, progress: Callable[[int, int], None] | None = None) -> None:
        self._judges, self._leaf, self._progress = judges, leaf, progress
        self.cost, self.done, self.total, self.failed = 0.0, 0, 0, 0

    def __call__(self, prompts: Sequence[Messages]) -> list[Answer]:
        """Ask all of them at the pace that the judge's endpoint allows."""
        self.total += len(prompts)
        return [_answer(reply) for reply in runtime().run(self._ask_all(prompts))]

    async def _ask_all(self, prompts: Sequence[Messages]) -> list[Reply]:
        async with AsyncExitStack() as stack:
            asker = (await open_clients(self._judges, [self._leaf], stack, None)).asker_of(self._leaf)
            return list(await asyncio.gather(*(self._ask(asker, prompt) for prompt in prompts)))

    async def _ask(self, asker: Asker, prompt: Messages) -> Reply:
        call = Call(tuple(prompt), prompt_version=f"eval-{PROMPTS_VERSION}", purpose="evaluation")
        reply = await asker.ask(call)
        self.done, self.cost = self.done + 1, self.cost + reply.usage.cost
        self.failed += int(bool(reply.failure) or reply.text is None)
        self._show()
        return reply

    def _show(self) -> None:
        if self._progress is None:
            return
        self._progress(self.done, self.total)
        tell = getattr(self._progress, "tell", None)
        if tell is not None:
            tell(f"cost {self.cost:.4f}, {self.failed:,} failed")


def judge_of(source: str | Path | Judges, progress: Callable[[int, int], None] | None = None) -> tuple[FileJudge, str]:
    """The first judge of a file, as a function from prompts to answers, and what it is called."""
    judges = load_judges(source)
    judge = judges.judges[0]
    leaf = (judge.members or (judge,))[0]
    models = ", ".join(sorted({endpoint.model for endpoint in leaf.endpoints}))
    return FileJudge(judges, leaf, progress), f"{judge.name} ({models})"


def _answer(reply: Reply) -> Answer:
    if reply.failure or reply.text is None:
        return Answer(None, reply.failure or "no reply")
    return Answer(reply.text)
