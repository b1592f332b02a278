"""A benchmark's judge: its prompts, its endpoint with cache, limits and cost, and how its replies are read.

    judge, name = open_judge("judges.yaml")
    judge([fill_prompt("frames", question=…, target=…, response=…)])        [Answer("Decision: TRUE")]
    judge.cost                                                              cost so far

    >>> parse_json_object('{"reasoning": "…", "verdict": "YES"}')
    {'reasoning': '…', 'verdict': 'YES'}
    >>> find_last_word("Explanation: …\\nDecision: TRUE", ("TRUE", "FALSE"))
    'TRUE'

A reply that cannot be read is a missing verdict, never a verdict.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from rubrank.evaluation.benchmark import Answer, Messages, MissingScore
from rubrank.judges.client.runtime import check_judges, open_clients, runtime
from rubrank.judges.judge import Call, Judge, Judges, Reply, load_judges

PROMPTS_VERSION = "1"
"""Increase it when the wording of a template changes, so that cached replies to the old wording are not used."""

_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class FileJudge:
    """Prompts → answers, in order; counts calls, failures and cost.

    progress: called with (done, total); if it has a method `tell`, that gets the cost and the failures so far.
    """

    def __init__(
        self, judges: Judges, judge: Judge, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._judges = judges
        self._judge = judge
        self._progress = progress
        self.cost = 0.0
        self.done = 0
        self.total = 0
        self.failed = 0

    def check(self) -> None:
        """Ask the endpoints whether they are up; InvalidInput if one is down, or refuses the key or the model."""
        check_judges(self._judges)

    def __call__(self, prompts: Sequence[Messages]) -> list[Answer]:
        """Ask all prompts, as fast as the judge's endpoint allows."""
        self.total += len(prompts)
        answers = []
        for reply in runtime().run(self._ask_all(prompts)):
            if reply.failure or reply.text is None:
                answers.append(Answer(None, reply.failure or "no reply"))
            else:
                answers.append(Answer(reply.text))
        return answers

    async def _ask_all(self, prompts: Sequence[Messages]) -> list[Reply]:
        """Ask all prompts at the same time; the client limits how many are in flight."""

        async def ask(prompt: Messages) -> Reply:
            call = Call(
                tuple(prompt), prompt_version=f"eval-{PROMPTS_VERSION}", purpose="evaluation"
            )
            reply = await asker.ask(call)
            self.done += 1
            self.cost += reply.usage.cost
            if reply.failure or reply.text is None:
                self.failed += 1
            if self._progress is not None:
                self._progress(self.done, self.total)
                tell = getattr(self._progress, "tell", None)
                if tell is not None:
                    tell(f"cost {self.cost:.4f}, {self.failed:,} failed")
            return reply

        async with AsyncExitStack() as stack:
            clients = await open_clients(self._judges, [self._judge], stack, None)
            asker = clients.asker_of(self._judge)
            return list(await asyncio.gather(*map(ask, prompts)))


def open_judge(
    source: str | Path | Judges, progress: Callable[[int, int], None] | None = None
) -> tuple[FileJudge, str]:
    """Return the first judge of a file as a function from prompts to answers, and its name for tables.

    Of a panel, the first member judges.
    """
    judges = load_judges(source)
    judge = judges.judges[0]
    member = judge.members[0] if judge.members else judge
    models = ", ".join(sorted({endpoint.model for endpoint in member.endpoints}))
    return FileJudge(judges, member, progress), f"{judge.name} ({models})"


# --------------------------------------------------------------------------------------------------- prompts, replies


def fill_prompt(name: str, **slots: Any) -> list[dict[str, str]]:
    """Fill the slots of a template of `prompts/`; returns one message."""
    template = (files("rubrank.evaluation") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    text = Template(template).substitute({slot: str(value) for slot, value in slots.items()})
    return [{"role": "user", "content": text}]


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse the JSON object that makes up a reply, bare or in a code fence; raises MissingScore for any other reply."""
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MissingScore("the judge's reply is no JSON object")
    return value


def read_mapping(reply: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping of verdicts in a judge's reply; raises MissingScore if there is none."""
    verdicts = reply.get(name)
    if not isinstance(verdicts, dict):
        raise MissingScore("the judge's reply contains no verdicts")
    return verdicts


def find_last_word(text: str, words: Sequence[str]) -> str | None:
    """Return the last of these words in a reply, as a whole word and in the same case; None if there is none."""
    matches = _find_words(text, words)
    return matches[-1] if matches else None


def find_only_word(text: str, words: Sequence[str]) -> str | None:
    """Return the one of these words that a reply contains; None if it contains none, or different ones."""
    matches = set(_find_words(text, words))
    return matches.pop() if len(matches) == 1 else None


def _find_words(text: str, words: Sequence[str]) -> list[str]:
    return re.findall(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z])", text)
