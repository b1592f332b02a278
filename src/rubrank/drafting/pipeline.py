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

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rubrank._plain import word_list
from rubrank.drafting.draft import (
    Author,
    DraftedItem,
    DraftedRubric,
    WrittenItems,
    draft_rubric,
    make_unique,
)
from rubrank.drafting.keep import LEAST_RESPONSES, KeepTask, keep_by_data, make_rows_to_grade
from rubrank.drafting.model import (
    MOST_CONSTRAINTS,
    fill_compile_prompt,
    find_with_model,
)
from rubrank.drafting.writers import (
    MOST_ITEMS,
    USUAL_POINTS,
    Progress,
    Templates,
    WritingTask,
    describe_material,
    load_templates,
    make_judged_criterion,
    number_items,
    write_items,
)
from rubrank.errors import InvalidInput
from rubrank.grading.preview import estimate
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judge, Judges
from rubrank.judges.prompting.tokens import estimate_tokens
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Rollout, make_rollout
from rubrank.tables.sources import Source, read_rows

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
    findings, model_account = find_with_model(
        rubrics, writers, templates, make_progress("finding constraints")
    )

    # Write: all writers write judged items.
    writing_tasks = []
    for row in rows:
        known_responses = responses.get(row.prompt, KnownResponses(()))
        writing_tasks.append(
            WritingTask(
                row.prompt,
                row.reference,
                known_responses.texts,
                best_first=known_responses.strengths is not None,
            )
        )
    written, writing_account = write_items(
        writing_tasks, writers, templates, make_progress("writing items")
    )
    accounts = [model_account, writing_account]

    # Keep: judges grade known responses on the items of a row, if it has enough of them.
    if judges is not None and keep == "data":
        keep_tasks: dict[int, KeepTask] = {}  # by the number of the row
        for number, row in enumerate(rows):
            known_responses = responses.get(row.prompt, KnownResponses(()))
            items = [item for item in written[number].items if item.kept]
            if len(known_responses.texts) >= LEAST_RESPONSES and items:
                keep_tasks[number] = KeepTask(
                    row.prompt,
                    items,
                    written[number].breaker,
                    known_responses.texts,
                    known_responses.strengths,
                )
        measured, account = keep_by_data(
            list(keep_tasks.values()), judges, writers, templates, make_progress("measuring items")
        )
        accounts.append(account)
        for number, result in zip(keep_tasks, measured, strict=True):
            refused = [item for item in written[number].items if not item.kept]
            written[number] = replace(
                written[number], items=[*result.items, *refused], breaker_wins=result.breaker_wins
            )

    # Everything is added to the rubrics, with the decision about each item.
    for number, rubric in enumerate(rubrics):
        rubric = _add_items(rubric, findings[number], activate=activate)
        rubric = _add_items(rubric, written[number])
        notes = {**rubric.notes, "prompt_version": templates.version}
        rubrics[number] = replace(rubric, notes=notes)
    return DraftResult(rubrics, Account.merge(accounts))


def _add_items(
    rubric: DraftedRubric, written: WrittenItems, *, activate: bool = True
) -> DraftedRubric:
    """Return the rubric with what models wrote for it; items get unique names, and the names of what they depend on."""
    names = {item.name for item in rubric.items}
    added: list[DraftedItem] = []
    for item in written.items:
        is_of_library = item.step == "activated by a model"
        if is_of_library and (not activate or item.name in names):
            continue
        added.append(item.rename(make_unique(item.name, names)))
    # A written item names the question that it depends on; after merging, another item may stand for that question.
    name_of_question = {}
    for item in added:
        if item.kept and "question" in item.criterion:
            for question in (item.question, *item.merged_with):
                name_of_question[question] = item.name
    for position, item in enumerate(added):
        base = name_of_question.get(item.depends) if item.depends else None
        if base is not None and base != item.name and item.kept:
            criterion = {**item.criterion, "depends": [base]}
            added[position] = replace(item, criterion=criterion)
    notes = dict(rubric.notes)
    if written.problems:
        notes["problems"] = [*notes.get("problems", []), *written.problems]
    if written.breaker is not None:
        notes["breaker"] = written.breaker
    if written.breaker_wins is not None:
        notes["breaker_wins"] = written.breaker_wins
    return replace(rubric, items=[*rubric.items, *added], notes=notes)


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
    rollout = make_rollout({"prompt": row[key], "response": ""}, place)
    prompt, user_turns = join_prompt(rollout)
    if not prompt.strip() or not user_turns:
        allowed = "a text that can be read, or messages with a turn of the user"
        raise InvalidInput(place, key, allowed, got="none")
    reference = None
    for name in _REFERENCE_KEYS:
        if isinstance(row.get(name), str | int | float):
            reference = str(row[name])
            break
    ids = {name: row[name] for name in _ID_KEYS if row.get(name) is not None}
    return PromptRow(prompt, len(user_turns), row.get("tools") or (), reference, ids)


def join_prompt(rollout: Rollout) -> tuple[str, list[str]]:
    """Return the system prompt and the user's last turn as one text, and all turns of the user.

    Of several system prompts, the last one is used.
    """
    system = ""
    user_turns = []
    for message in rollout.prompt:
        if message.role in ("system", "developer"):
            system = message.content + "\n\n"
        elif message.role == "user":
            user_turns.append(message.content)
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
        prompt, user_turns = join_prompt(group.rollouts[0])
        responses[prompt] = known_responses
        if user_turns:
            # For a file of prompts that has no system prompts.
            responses.setdefault(user_turns[-1], known_responses)
    return responses


# ---- what a run would cost ------------------------------------------------------------------------------------------

# The calls of a run, by purpose, for each prompt (`model.py`, `writers.py` and `keep.py` make them):
#
#   compile     the first writer finds constraints that the rules missed
#   entail      the last writer confirms a constraint                                     one for each constraint
#   examples    the last writer writes texts that fulfil and violate a constraint         one for each constraint
#   write       writers write items, which are questions for a judge                      one for each writer
#   merge       the first writer merges the items                                         with two writers or more
#   break       the last writer writes a cheap text that fulfils the items badly ("the breaker")
#   violate     the first writer rewrites a response so that it violates an item          one for each item
#   judge       judges grade the responses, the breaker's text and the rewrites
#
# How many items the writers will write is not known, so it is assumed. Everything else is exact or an upper bound: the
# prompts are filled with the rows as a run fills them, the judges' calls are counted by the code that makes them, and a
# reply has as many tokens as it may have.

USUAL_ITEMS = 8
"""Items of a writer for one prompt, in the estimate that is not the maximum."""
USUAL_CONSTRAINTS = 1
"""Constraints that a model finds in one prompt, in the same estimate."""
# The assumptions of the two estimates that `rubrank draft --dry-run` shows.
MOST = {"items": MOST_ITEMS, "constraints": MOST_CONSTRAINTS}
USUAL = {"items": USUAL_ITEMS, "constraints": USUAL_CONSTRAINTS}
_USUAL_QUESTION = (
    "Does the answer say what the request asks for, with the details that a reader needs?"
)
_USUAL_CONSTRAINT = "The response has at least 300 words, and at most 400 words."


@dataclass
class DraftEstimate:
    """Calls, tokens and cost of a run."""

    calls: Counter[str] = field(default_factory=Counter)
    """Calls by purpose: those of the writers ("write", "merge" …), and "judge"."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Upper bound: every reply has as many tokens as it may have."""
    cost: float = 0.0
    """Upper bound, by the most expensive endpoint of each writer and judge; 0 if there are no prices."""
    is_priced: bool = False
    """Does any endpoint have a price?"""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**asdict(self), "calls": dict(self.calls)}

    def add_calls(self, purpose: str, writer: Judge, message: str, number: int = 1) -> None:
        """Count `number` calls of a writer that have about the same message."""
        input_tokens = number * estimate_tokens(message)
        output_tokens = number * writer.sampling.max_tokens
        prices = [endpoint.price for endpoint in writer.endpoints]
        self.calls[purpose] += number
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cost += max(
            (input_tokens * price.input + output_tokens * price.output) / 1e6 for price in prices
        )
        self.is_priced = self.is_priced or any(price.input or price.output for price in prices)


def estimate_draft(
    rows: Sequence[PromptRow],
    writers: Judges,
    judges: Judges | None,
    responses: Mapping[str, Sequence[str]],
    templates: Templates,
    *,
    items: int,
    constraints: int,
) -> DraftEstimate:
    """Estimate what a run would cost.

    responses: prompt → its responses. judges: grade them on the items, to decide which are kept; None: all are kept.
    items: items that each writer writes for a prompt. constraints: those that a model finds in it.
    """
    total = DraftEstimate()
    first = writers.judges[0]
    last = writers.judges[-1]

    def add_calls(
        row: PromptRow, purpose: str, writer: Judge, values: Mapping[str, str], number: int = 1
    ) -> None:
        message = templates.fill(
            purpose, row.prompt, values
        )  # templates are named by their purpose
        total.add_calls(purpose, writer, message, number)

    keep_tasks = []
    for row in rows:
        # Find: the message lists what the rules have compiled.
        compiled = [item.name for item in draft_rubric(row.prompt, activate=False).items]
        message = fill_compile_prompt(row.prompt, compiled, templates)
        total.add_calls("compile", first, message)
        entail_values = {"prompt": row.prompt, "items": _USUAL_CONSTRAINT}
        add_calls(row, "entail", last, entail_values, constraints)
        add_calls(row, "examples", last, {"items": _USUAL_CONSTRAINT}, constraints)

        # Write. Merging is assumed to leave all items.
        texts = responses.get(row.prompt, ())
        task = WritingTask(row.prompt, row.reference, texts)
        write_values = {"prompt": row.prompt, "material": describe_material(task)}
        written = []
        for writer in writers.judges:
            add_calls(row, "write", writer, write_values)
            for number in range(items):
                question = f"{_USUAL_QUESTION} ({writer.name}, {number})"
                criterion = make_judged_criterion(question, USUAL_POINTS, "Important")
                written.append(DraftedItem(criterion, "written", author=Author(writer.name)))
        if len(writers.judges) > 1:
            add_calls(row, "merge", first, {"items": number_items(written)})
        break_values = {"prompt": row.prompt, "items": number_items(written)}
        add_calls(row, "break", last, break_values)

        # Keep. The breaker's text is assumed to be as long as the longest response.
        if judges is not None and len(texts) >= LEAST_RESPONSES:
            longest = max(texts, key=len)
            violate_values = {"response": longest, "items": _USUAL_QUESTION}
            add_calls(row, "violate", first, violate_values, len(written))
            keep_tasks.append(KeepTask(row.prompt, written, f"{longest} (cheap)", texts))
    if judges is not None and keep_tasks:
        for graded_rows in make_rows_to_grade(keep_tasks):
            judging = estimate(graded_rows, judges=judges)
            total.calls["judge"] += judging.calls
            total.cost += judging.cost
            for judge in judging.judges:
                total.input_tokens += judge.input_tokens
                total.output_tokens += judge.output_tokens
                total.is_priced = total.is_priced or judge.priced
    return total
