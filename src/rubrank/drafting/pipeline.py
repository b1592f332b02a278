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

from rubrank.drafting.draft import (
    DraftedItem,
    DraftedRubric,
    draft_rubric,
    make_criterion,
    make_unique,
)
from rubrank.drafting.keep import LEAST_RESPONSES, KeepTask, MeasuredRubric, keep_by_data
from rubrank.drafting.model import ModelFindings, ModelTask, find_with_model
from rubrank.drafting.names import name_question
from rubrank.drafting.prompts import PromptRow, join_prompt
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

Keep = Literal["data", "all"]
DraftProgress: TypeAlias = Callable[[str, int, int, float], None]
"""Called with (name of the work, done, total, cost so far)."""


@dataclass(frozen=True)
class KnownResponses:
    """The responses to one prompt, the strongest first if their strength is known."""

    texts: Sequence[str]
    strengths: Sequence[float] | None = None
    """How good each response is; None if that is not known."""


@dataclass(frozen=True)
class DraftResult:
    """The rubrics of all prompts, and what the writers cost."""

    rubrics: list[DraftedRubric]
    account: Account | None = None


def read_responses(source: Any) -> dict[str, KnownResponses]:
    """Prompt → its responses, from any file that `grade` reads; a column `strength` says how good each is.

    A prompt is written as in `PromptRow`, after its system prompt; the prompt alone is a key as well.
    """
    responses: dict[str, KnownResponses] = {}
    for group in read_groups(source):
        texts = [rollout.response for rollout in group.rollouts]
        strengths: list[Any] = [rollout.metadata.get("strength") for rollout in group.rollouts]
        if all(isinstance(s, int | float) and not isinstance(s, bool) for s in strengths):
            order = sorted(range(len(texts)), key=lambda i: -strengths[i])
            known_responses = KnownResponses(
                [texts[i] for i in order], [float(strengths[i]) for i in order]
            )
        else:
            known_responses = KnownResponses(texts)
        messages = [(message.role, message.content) for message in group.rollouts[0].prompt]
        prompt, user_turns = join_prompt(messages)
        responses[prompt] = known_responses
        if user_turns:
            responses.setdefault(user_turns[-1], known_responses)
    return responses


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

    writers: models that write judged items.
    responses, judges: with both, an item is kept only if the figures of `keep.py` support it.
    keep: "all" keeps every item.
    prompts: a folder with own prompts for the writers.
    progress: called while models work, with what they do and what has been done and spent.
    """
    if judges is not None and writers is None:
        raise InvalidInput(
            "draft",
            "judges",
            allowed="given with writers",
            got="no writers",
            remedy="Judges measure what writers wrote.",
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

    model_tasks = []
    for rubric in rubrics:
        compiled = [item.name for item in rubric.items if item.step == "compiled"]
        model_tasks.append(ModelTask(rubric.prompt, compiled))
    model_result = find_with_model(model_tasks, writers, templates, report("finding constraints"))

    writing_tasks = []
    for row in rows:
        texts = responses[row.prompt].texts if row.prompt in responses else ()
        writing_tasks.append(WritingTask(row.prompt, row.reference, texts))
    result = write_items(writing_tasks, writers, templates, report("writing items"))
    accounts = [model_result.account, result.account]

    measured: dict[int, MeasuredRubric] = {}
    if judges is not None and keep == "data":
        keep_tasks = {}
        for number, (row, written) in enumerate(zip(rows, result.written, strict=True)):
            answers = responses.get(row.prompt, KnownResponses(()))
            if len(answers.texts) >= LEAST_RESPONSES and written.items:
                task = KeepTask(row.prompt, written, answers.texts, answers.strengths)
                keep_tasks[number] = task
        tasks = list(keep_tasks.values())
        decided = keep_by_data(tasks, judges, writers, templates, report("measuring items"))
        measured = dict(zip(keep_tasks, decided.rubrics, strict=True))
        accounts.append(decided.account)

    for number, rubric in enumerate(rubrics):
        rubric = _add_findings(rubric, model_result.findings[number], activate=activate)
        written = result.written[number]
        rubrics[number] = _add_written(rubric, written, measured.get(number), templates.version)
    return DraftResult(rubrics, Account.merge(accounts))


def _add_findings(
    rubric: DraftedRubric, findings: ModelFindings, *, activate: bool
) -> DraftedRubric:
    """The rubric with the constraints, and criteria of the library, that a model found."""
    items = list(rubric.items)
    names = {item.name for item in items}
    for constraint in findings.constraints:
        item = DraftedItem(
            make_criterion(constraint.verifier, constraint.params, names),
            "compiled by a model",
            constraint.evidence,
            kept=not constraint.reason,
            reason=constraint.reason,
            figures=constraint.figures,
            author=constraint.author,
        )
        items.append(item)
    for name in findings.library if activate else ():
        if name not in names:
            names.add(name)
            criterion = {"name": name, "verifier": "judge"}
            items.append(DraftedItem(criterion, "activated by a model", author=findings.author))
    notes = dict(rubric.notes)
    if findings.problems:
        notes["problems"] = list(findings.problems)
    return replace(rubric, items=items, notes=notes)


def _add_written(
    rubric: DraftedRubric,
    written: WrittenItems,
    measured: MeasuredRubric | None,
    prompt_version: str,
) -> DraftedRubric:
    """The rubric with the judged items that were written for it, and what was decided about them."""
    names = {item.name for item in rubric.items}
    drafted = []
    for position, item in enumerate(written.items):
        name = make_unique(name_question(item.question), names)
        entry = DraftedItem(
            item.criterion(name), "written", author=item.author, merged_with=item.merged_with
        )
        if measured is not None:
            decision = measured.items[position]
            entry = replace(
                entry, kept=decision.kept, reason=decision.reason, figures=decision.figures
            )
        drafted.append(entry)
    items = [*rubric.items, *_add_dependencies(written.items, drafted)]
    for refused in written.refused:
        name = make_unique(refused.question[:60], names)
        criterion = {"name": name, "question": refused.question}
        items.append(
            DraftedItem(
                criterion, "written", kept=False, reason=refused.reason, author=refused.author
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


def _add_dependencies(
    written: Sequence[WrittenItem], drafted: Sequence[DraftedItem]
) -> list[DraftedItem]:
    """The items, with `depends` on the name of the item that they build on, if both were kept."""
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
