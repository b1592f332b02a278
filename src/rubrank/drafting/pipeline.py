"""Draft the rubrics of many prompts: compile, activate, let writers write items, keep those that data supports.

    result = draft_rubrics(read_prompts("prompts.jsonl"), writers=load_writers("writers.yaml"))
    result.rubrics[0].to_row()         a row that `check`, `grade` and `train` read
    result.account                     what the writers cost

    prompts ── compile, activate ─────────────┐
            ├─ a model finds what rules missed ┤
            └─ write, merge, break ────────────┴─ keep by data ──> rubrics      the last needs responses and judges

Calls are cached in the file that `writers.yaml` names: an interrupted run goes on without paying twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rubrank.drafting.draft import DraftedItem, DraftedRubric, draft_rubric, make_unique
from rubrank.drafting.keep import LEAST_RESPONSES, KeepTask, MeasuredRubric, keep_by_data
from rubrank.drafting.model import ModelFindings, ModelTask, find_with_model
from rubrank.drafting.names import name_criterion, name_question
from rubrank.drafting.prompts import PromptRow
from rubrank.drafting.writers import (
    Progress,
    WritingTask,
    WrittenItem,
    WrittenItems,
    load_templates,
    write_items,
)
from rubrank.errors import InvalidInput
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judges
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Rollout

Keep = Literal["data", "all"]
DraftProgress: TypeAlias = Callable[[str, int, int, float], None]
"""Called with (what is done, done, total, cost so far)."""


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
            responses[_prompt_of(rollouts[0])] = KnownResponses(
                texts, [float(strengths[i] or 0.0) for i in order]
            )
        else:
            responses[_prompt_of(rollouts[0])] = KnownResponses(
                [rollout.response for rollout in rollouts]
            )
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
    progress: DraftProgress | None = None,
) -> DraftResult:
    """Draft a rubric for every row.

    writers: models that write judged items. responses, judges: with both, an item is kept only if the figures of
    `keep.py` support it; keep="all" keeps every item. prompts: a folder with own prompts for the writers.
    progress: called while models work, with what they do and what has been done and spent.
    """
    if judges is not None and writers is None:
        raise InvalidInput(
            "draft",
            "judges",
            "given with writers",
            "no writers",
            "Judges measure what writers wrote.",
        )
    rubrics = [
        draft_rubric(
            row.prompt, turns=row.turns, tools=row.tools, reference=row.reference, activate=activate
        )
        for row in rows
    ]
    if writers is None:
        return DraftResult(rubrics)
    responses = responses or {}
    templates = load_templates(prompts)
    spendings = [models.spending for models in (writers, judges) if models is not None]
    cost_before = sum(spending.cost for spending in spendings)

    def report(label: str) -> Progress | None:
        """A function (done, total) that shows one part of the work, with the cost of all parts so far."""
        if progress is None:
            return None
        return lambda done, total: progress(
            label, done, total, sum(s.cost for s in spendings) - cost_before
        )

    model_result = find_with_model(
        [
            ModelTask(
                rubric.prompt, [item.name for item in rubric.items if item.step == "compiled"]
            )
            for rubric in rubrics
        ],
        writers,
        templates,
        report("finding constraints"),
    )
    rubrics = [
        _add_findings(rubric, findings, activate=activate)
        for rubric, findings in zip(rubrics, model_result.findings, strict=True)
    ]
    tasks = [
        WritingTask(
            row.prompt,
            row.reference,
            responses[row.prompt].texts if row.prompt in responses else (),
        )
        for row in rows
    ]
    result = write_items(tasks, writers, templates, report("writing items"))
    accounts = [
        account for account in (model_result.account, result.account) if account is not None
    ]
    measured: dict[int, MeasuredRubric] = {}
    if judges is not None and keep == "data":
        numbers = [
            number
            for number, task in enumerate(tasks)
            if len(task.responses) >= LEAST_RESPONSES and result.written[number].items
        ]
        keep_tasks = []
        for number in numbers:
            prompt = tasks[number].prompt
            known_responses = responses[prompt]
            keep_tasks.append(
                KeepTask(
                    prompt, result.written[number], known_responses.texts, known_responses.strengths
                )
            )
        decided = keep_by_data(keep_tasks, judges, writers, templates, report("measuring items"))
        measured = dict(zip(numbers, decided.rubrics, strict=True))
        accounts.append(decided.account)
    for number, rubric in enumerate(rubrics):
        rubrics[number] = _add_written(
            rubric, result.written[number], measured.get(number), templates.version
        )
    return DraftResult(rubrics, Account.merge(accounts))


def _add_findings(
    rubric: DraftedRubric, findings: ModelFindings, *, activate: bool
) -> DraftedRubric:
    """The rubric with the constraints and criteria of the library that a model findings."""
    items = list(rubric.items)
    names = {item.name for item in items}
    for constraint in findings.constraints:
        name = name_criterion(constraint.verifier, constraint.params)
        criterion: dict[str, Any] = {
            "name": make_unique(name, names),
            "verifier": constraint.verifier,
        }
        if constraint.params:
            criterion["params"] = dict(constraint.params)
        items.append(
            DraftedItem(
                criterion,
                "compiled by a model",
                constraint.evidence,
                kept=not constraint.reason,
                reason=constraint.reason,
                figures=constraint.figures,
                writer=constraint.writer,
                model=constraint.model,
                prompt_version=constraint.prompt_version,
            )
        )
    for name in findings.library if activate else ():
        if name not in names:
            names.add(name)
            item = DraftedItem({"name": name, "verifier": "judge"}, "activated by a model")
            items.append(
                replace(
                    item,
                    writer=findings.writer,
                    model=findings.model,
                    prompt_version=findings.prompt_version,
                )
            )
    notes = (
        {**rubric.notes, "problems": list(findings.problems)} if findings.problems else rubric.notes
    )
    return replace(rubric, items=items, notes=notes)


def _add_written(
    rubric: DraftedRubric,
    written: WrittenItems,
    measured: MeasuredRubric | None,
    prompt_version: str,
) -> DraftedRubric:
    """The rubric with the judged items that were written for it, and what was decided about them."""
    items = list(rubric.items)
    names = {item.name for item in items}
    written_items = []
    for position, item in enumerate(written.items):
        drafted = _to_drafted(item, names)
        if measured is not None:
            entry = measured.items[position]
            drafted = replace(drafted, kept=entry.kept, reason=entry.reason, figures=entry.figures)
        written_items.append(drafted)
    items += _add_dependencies(written.items, written_items)
    for refused in written.refused:
        criterion = {
            "name": make_unique(refused.question[:60], names),
            "question": refused.question,
        }
        items.append(
            DraftedItem(
                criterion,
                "written",
                kept=False,
                reason=refused.reason,
                writer=refused.writer,
                model=refused.model,
                prompt_version=prompt_version,
            )
        )
    notes: dict[str, Any] = {**rubric.notes, "prompt_version": prompt_version}
    if written.problems:
        notes["problems"] = [*rubric.notes.get("problems", []), *written.problems]
    if written.breaker is not None:
        notes["breaker"] = written.breaker
    if measured is not None and measured.breaker_wins is not None:
        notes["breaker_wins"] = measured.breaker_wins
    return replace(rubric, items=items, notes=notes)


def _to_drafted(item: WrittenItem, names: set[str]) -> DraftedItem:
    """A written item as a criterion with a name of its own."""
    return DraftedItem(
        item.criterion(make_unique(name_question(item.question), names)),
        "written",
        writer=item.writer,
        model=item.model,
        prompt_version=item.prompt_version,
        merged_with=item.merged_with,
    )


def _add_dependencies(
    written: Sequence[WrittenItem], drafted: Sequence[DraftedItem]
) -> list[DraftedItem]:
    """The items with `depends` by name, where the item that one builds on was kept, too."""
    name_of_question = {}
    for item, entry in zip(written, drafted, strict=True):
        if entry.kept:
            for question in (item.question, *item.merged_with):
                name_of_question[question] = entry.name
    items = []
    for item, entry in zip(written, drafted, strict=True):
        base = name_of_question.get(item.depends) if item.depends else None
        if base is not None and base != entry.name and entry.kept:
            entry = replace(entry, criterion={**entry.criterion, "depends": [base]})
        items.append(entry)
    return items
