"""Draft the rubrics of many prompts: compile, activate, let writers write items, keep those that data supports.

    result = draft_rubrics(read_prompts("prompts.jsonl"), writers=load_writers("writers.yaml"))
    result.rubrics[0].to_row()         a row that `check`, `grade` and `train` read
    result.account                     what the writers cost

    prompts ── compile, activate ──┐
            └─ write, merge, break ┴─ keep by data ──> rubrics         the last needs responses and judges

Calls are cached in the file that `writers.yaml` names: an interrupted run goes on without paying twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rubrank.drafting.draft import DraftedItem, DraftedRubric, draft_rubric
from rubrank.drafting.keep import KeepTask, MeasuredRubric, keep_by_data
from rubrank.drafting.prompts import PromptRow
from rubrank.drafting.writers import PROMPT_VERSION, WritingTask, WrittenItem, load_templates, write_items
from rubrank.errors import InvalidInput
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judges
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Rollout

Keep = Literal["data", "all"]
_LEAST_RESPONSES = 3


@dataclass(frozen=True)
class KnownResponses:
    """The responses to one prompt, the strongest first where that is known."""

    texts: Sequence[str]
    strengths: Sequence[float] | None = None


@dataclass
class DraftResult:
    """The rubrics of all prompts, and what the writers cost."""

    rubrics: list[DraftedRubric]
    account: Account | None = None


def read_responses(source: Any) -> dict[str, KnownResponses]:
    """Prompt → its responses, from any file that `grade` reads; a column `strength` says how good each is."""
    responses = {}
    for group in read_groups(source):
        rollouts = list(group.rollouts)
        strengths = [_read_strength(rollout) for rollout in rollouts]
        if all(strength is not None for strength in strengths):
            order = sorted(range(len(rollouts)), key=lambda i: -float(strengths[i] or 0.0))
            texts = [rollouts[i].response for i in order]
            responses[_prompt_of(rollouts[0])] = KnownResponses(texts, [float(strengths[i] or 0.0) for i in order])
        else:
            responses[_prompt_of(rollouts[0])] = KnownResponses([rollout.response for rollout in rollouts])
    return responses


def _prompt_of(rollout: Rollout) -> str:
    users = [message.content for message in rollout.prompt if message.role == "user"]
    return users[-1] if users else ""


def _read_strength(rollout: Rollout) -> float | None:
    value = rollout.metadata.get("strength")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def draft_rubrics(
    rows: Sequence[PromptRow],
    *,
    activate: bool = True,
    writers: Judges | None = None,
    responses: Mapping[str, KnownResponses] | None = None,
    judges: Judges | None = None,
    keep: Keep = "data",
    prompts: Path | None = None,
) -> DraftResult:
    """Draft a rubric for every row.

    writers: models that write judged items. responses, judges: with both, an item is kept only if the figures of
    `keep.py` support it; keep="all" keeps every item. prompts: a folder with own prompts for the writers.
    """
    if judges is not None and writers is None:
        raise InvalidInput("draft", "judges", "given with writers", "no writers", "Judges measure what writers wrote.")
    rubrics = [
        draft_rubric(row.prompt, turns=row.turns, tools=row.tools, reference=row.reference, activate=activate)
        for row in rows
    ]
    if writers is None:
        return DraftResult(rubrics)
    responses = responses or {}
    templates = load_templates(prompts)
    tasks = [
        WritingTask(row.prompt, row.reference, responses[row.prompt].texts if row.prompt in responses else ())
        for row in rows
    ]
    result = write_items(tasks, writers, prompts)
    measured: dict[int, MeasuredRubric] = {}
    if judges is not None and keep == "data":
        numbers = [
            number
            for number, task in enumerate(tasks)
            if len(task.responses) >= _LEAST_RESPONSES and result.written[number].items
        ]
        keep_tasks = []
        for number in numbers:
            prompt = tasks[number].prompt
            known_responses = responses[prompt]
            keep_tasks.append(
                KeepTask(prompt, result.written[number], known_responses.texts, known_responses.strengths)
            )
        measured = dict(zip(numbers, keep_by_data(keep_tasks, judges, writers, templates), strict=True))
    for number, rubric in enumerate(rubrics):
        written = result.written[number]
        items = list(rubric.items)
        names = {item.name for item in items}
        if number in measured:
            for entry in measured[number].items:
                item = _drafted(entry.item, names)
                items.append(replace(item, kept=entry.kept, reason=entry.reason, figures=entry.figures))
        else:
            items += [_drafted(item, names) for item in written.items]
        for question, reason in written.refused:
            items.append(
                DraftedItem({"name": question[:60], "question": question}, "written", kept=False, reason=reason)
            )
        notes: dict[str, Any] = {"prompt_version": PROMPT_VERSION}
        if written.problems:
            notes["problems"] = list(written.problems)
        if written.breaker is not None:
            notes["breaker"] = written.breaker
        if number in measured and measured[number].breaker_wins is not None:
            notes["breaker_wins"] = measured[number].breaker_wins
        rubrics[number] = replace(rubric, items=items, notes=notes)
    return DraftResult(rubrics, result.account)


def _drafted(item: WrittenItem, names: set[str]) -> DraftedItem:
    """A written item as a criterion with a name of its own."""
    words = item.question.rstrip("?？ ").split()
    short = " ".join(words[:8])[:60] or item.question[:60]
    name = short
    number = 2
    while name in names:
        name = f"{short} ({number})"
        number += 1
    names.add(name)
    return DraftedItem(item.criterion(name), "written", writer=item.writer, merged_with=item.merged_with)
