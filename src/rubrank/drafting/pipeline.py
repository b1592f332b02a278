"""Draft the rubrics of many prompts: by rules, and if there are writers (models), by what they write.

    result = draft_rubrics(list(read_prompts("prompts.jsonl")), writers=load_writers("writers.yaml"))
    result.rubrics[0].to_row()         a row that `check`, `grade` and `train` read
    result.account                     what the writers cost

The steps, of which only the first two work without a model:

    compile     rules read constraints from the prompt: "at most 100 words"                              compiler.py
    activate    criteria of the library are chosen that fit the type of task                             draft.py
    find        a model finds constraints that the rules missed, and further criteria of the library     model.py
    write       writers write items (questions for a judge), which are merged. A breaker then writes a
                cheap text that fulfils them badly                                                       writers.py
    keep        judges grade known responses on the items, and items that do not help are dropped        keep.py

Calls are cached in the file that `writers.yaml` names: an interrupted run goes on without paying twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rubrank._plain import word_list
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
from rubrank.tables.rows import Source, read_rows

Keep = Literal["data", "all"]
"""Which written items are kept: those that the grades of known responses support, or all."""
DraftProgress: TypeAlias = Callable[[str, int, int, float], None]
"""Called with (name of the work, done, total, cost so far)."""

# Columns that hold the prompt, a known right answer, and ids; of several, the first one with a value is read.
_PROMPT_KEYS = word_list("prompt question instruction query input messages problem text")
_REFERENCE_KEYS = word_list("reference reference_answer answer truth solution ground_truth target")
_ID_KEYS = word_list("id key prompt_id uid source")


@dataclass(frozen=True)
class PromptRow:
    """One prompt with what is known about it."""

    prompt: str
    """What the user asked last, after the system prompt if there is one."""
    turns: int = 1
    """Number of the user's turns."""
    tools: Sequence[Any] = ()
    """Tools that the model may call."""
    reference: str | None = None
    """A known right answer."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Ids of the row by column, which the output repeats."""


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
    """None without writers."""


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

    activate: also choose criteria of the library that fit the type of task.
    writers: models that find constraints and write judged items; None: only rules are used.
    responses: prompt → its known responses. judges: with both, an item is kept only if the figures of `keep.py` support
        it. Raises InvalidInput for judges without writers.
    keep: "all" keeps every item.
    prompts: a folder with the user's own templates of the messages to writers.
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

    def make_progress(label: str) -> Progress | None:
        """Return a function (done, total) that reports one part of the work, with the cost of all parts so far."""
        if progress is None:
            return None

        def report(done: int, total: int) -> None:
            cost = sum(spending.cost for spending in spendings) - cost_before
            progress(label, done, total, cost)

        return report

    # Find: a model finds constraints that the rules missed, and criteria of the library that fit.
    model_tasks = []
    for rubric in rubrics:
        compiled = [item.name for item in rubric.items if item.step == "compiled"]
        model_tasks.append(ModelTask(rubric.prompt, compiled))
    model_result = find_with_model(
        model_tasks, writers, templates, make_progress("finding constraints")
    )

    # Write: all writers write judged items.
    writing_tasks = []
    for row in rows:
        texts = responses[row.prompt].texts if row.prompt in responses else ()
        writing_tasks.append(WritingTask(row.prompt, row.reference, texts))
    writing_result = write_items(writing_tasks, writers, templates, make_progress("writing items"))
    accounts = [model_result.account, writing_result.account]

    # Keep: judges grade known responses on the items of a row, if it has enough of them.
    keep_tasks: dict[int, KeepTask] = {}  # by the number of the row
    if judges is not None and keep == "data":
        for number, (row, written) in enumerate(zip(rows, writing_result.written, strict=True)):
            known_responses = responses.get(row.prompt, KnownResponses(()))
            if len(known_responses.texts) >= LEAST_RESPONSES and written.items:
                keep_tasks[number] = KeepTask(
                    row.prompt, written, known_responses.texts, known_responses.strengths
                )
    measured: dict[int, MeasuredRubric] = {}  # by the number of the row
    if judges is not None and keep_tasks:
        tasks = list(keep_tasks.values())
        keep_result = keep_by_data(
            tasks, judges, writers, templates, make_progress("measuring items")
        )
        measured = dict(zip(keep_tasks, keep_result.rubrics, strict=True))
        accounts.append(keep_result.account)

    # Everything is added to the rubrics, with the decision about each item.
    for number, rubric in enumerate(rubrics):
        rubric = _add_findings(rubric, model_result.findings[number], activate=activate)
        written = writing_result.written[number]
        rubrics[number] = _add_written(rubric, written, measured.get(number), templates.version)
    return DraftResult(rubrics, Account.merge(accounts))


def _add_findings(
    rubric: DraftedRubric, findings: ModelFindings, *, activate: bool
) -> DraftedRubric:
    """Return the rubric with the constraints, and criteria of the library, that a model found."""
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
    if activate:
        for name in findings.library:
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
    """Return the rubric with the judged items that were written for it, and what was decided about them.

    measured: the decisions; None: the items were not measured, and all are kept.
    """
    names = {item.name for item in rubric.items}
    drafted = []
    for position, item in enumerate(written.items):
        name = make_unique(name_question(item.question), names)
        entry = DraftedItem(
            item.to_criterion(name), "written", author=item.author, merged_with=item.merged_with
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
    """Return the drafted items, with `depends` on the name of the item that they build on, if both were kept.

    written, drafted: the same items, as they were written and as entries of the rubric. A written item names the
    question that it depends on; after merging, another item may stand for that question.
    """
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


# ---- prompts and responses ------------------------------------------------------------------------------------------


def read_prompts(source: Source) -> Iterator[PromptRow]:
    """Yield the prompts of any source that `read_rows` reads: texts, lists of chat messages, IFEval-like rows.

    Raises InvalidInput for a row without a prompt, or if there are no rows.
    """
    number = 0
    for number, row in enumerate(read_rows(source), start=1):
        place = f"{source}: row {number}" if isinstance(source, str) else f"row {number}"
        yield _read_row(row, place)
    if number == 0:
        raise InvalidInput(str(source), "prompts", allowed="at least one row", got="none")


def _read_row(row: Mapping[str, Any], place: str) -> PromptRow:
    """Read one row. place: file and row, for errors."""
    present = [name for name in _PROMPT_KEYS if row.get(name) is not None]
    if not present:
        keys = ", ".join(map(str, row)) or "none"
        raise InvalidInput(
            place,
            "prompt",
            allowed=f"in one of the columns {', '.join(_PROMPT_KEYS)}",
            got=f"the columns {keys}",
        )
    # A column may be empty if another one has the prompt.
    key = next((name for name in present if row[name]), present[0])
    value = row[key]
    turns = 1
    if isinstance(value, list | tuple):
        prompt, turns = _read_messages(value, place)
    elif isinstance(value, str):
        prompt = value
    else:
        raise InvalidInput(
            place,
            key,
            allowed="a text or a list of messages",
            got=type(value).__name__,
        )
    if not prompt.strip():
        raise InvalidInput(place, key, allowed="a text that can be read", got="an empty one")
    reference = None
    for name in _REFERENCE_KEYS:
        if isinstance(row.get(name), str | int | float):
            reference = str(row[name])
            break
    ids = {name: row[name] for name in _ID_KEYS if row.get(name) is not None}
    return PromptRow(prompt, turns, row.get("tools") or (), reference, ids)


def _read_messages(messages: Sequence[Any], place: str) -> tuple[str, int]:
    """Return the prompt in a list of messages, and the number of the user's turns."""
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise InvalidInput(
                place,
                "messages",
                allowed="a list of {role, content}",
                got=repr(message)[:80],
            )
    prompt, user_turns = join_prompt(
        [(str(message.get("role")), message["content"]) for message in messages]
    )
    if not user_turns:
        raise InvalidInput(place, "messages", allowed="with a turn of the user", got="none")
    return prompt, len(user_turns)


def join_prompt(messages: Iterable[tuple[str, str]]) -> tuple[str, list[str]]:
    """Return the system prompt and the user's last turn as one text, and all turns of the user.

    messages: (role, content) of each message. Of several system prompts, the last one is used.
    """
    system = ""
    user_turns = []
    for role, content in messages:
        if role in ("system", "developer"):
            system = content + "\n\n"
        elif role == "user":
            user_turns.append(content)
    return system + "".join(user_turns[-1:]), user_turns


def read_responses(source: Any) -> dict[str, KnownResponses]:
    """Read the responses to each prompt from any file that `grade` reads; a column `strength` says how good each is.

    Returns prompt → responses. A prompt is written as in `PromptRow`, after its system prompt; the user's last turn
    alone is a key as well.
    """
    responses: dict[str, KnownResponses] = {}
    for group in read_groups(source):
        texts = [rollout.response for rollout in group.rollouts]
        strengths: list[Any] = [rollout.metadata.get("strength") for rollout in group.rollouts]
        known_responses = KnownResponses(texts)
        if all(isinstance(s, int | float) and not isinstance(s, bool) for s in strengths):
            strongest_first = sorted(range(len(texts)), key=lambda i: -strengths[i])  # indices
            known_responses = KnownResponses(
                texts=[texts[i] for i in strongest_first],
                strengths=[float(strengths[i]) for i in strongest_first],
            )
        messages = [(message.role, message.content) for message in group.rollouts[0].prompt]
        prompt, user_turns = join_prompt(messages)
        responses[prompt] = known_responses
        if user_turns:
            # For a file of prompts that has no system prompts.
            responses.setdefault(user_turns[-1], known_responses)
    return responses
