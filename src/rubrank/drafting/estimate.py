"""Estimate what drafting with writers and judges would cost, without a call.

    total = estimate_draft(rows, writers, judges, responses, load_templates(), items=8, constraints=1)
    total.calls["write"], total.cost                40, 0.31

The calls of a run, by purpose, for each prompt (`model.py`, `writers.py` and `keep.py` make them):

    compile     the first writer finds constraints that the rules missed
    entail      the last writer confirms a constraint                                     one for each constraint
    examples    the last writer writes texts that fulfil and violate a constraint         one for each constraint
    write       writers write items, which are questions for a judge                      one for each writer
    merge       the first writer merges the items                                         with two writers or more
    break       the last writer writes a cheap text that fulfils the items badly ("the breaker")
    violate     the first writer rewrites a response so that it violates an item          one for each item
    judge       judges grade the responses, the breaker's text and the rewrites

How many items the writers will write is not known, so it is assumed: `items` for each writer, and `constraints` that a
model finds in each prompt. Everything else is exact or an upper bound: the prompts are filled with the rows as a run
fills them, the judges' calls are counted by the code that makes them, and a reply has as many tokens as it may have.

Writers are configured like judges (endpoints, limits, prices), so they are a `Judges`, and each of them is a `Judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.draft import Author, DraftedItem, make_criterion
from rubrank.drafting.keep import LEAST_RESPONSES, KeepTask, make_rows_to_grade
from rubrank.drafting.model import MOST_CONSTRAINTS, fill_compile_prompt
from rubrank.drafting.pipeline import PromptRow
from rubrank.drafting.writers import (
    MOST_ITEMS,
    USUAL_POINTS,
    Templates,
    WritingTask,
    describe_material,
    make_judged_criterion,
    number_items,
)
from rubrank.grading.preview import estimate
from rubrank.judges.judge import Judge, Judges
from rubrank.judges.prompting.tokens import estimate_tokens

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
    keep_tasks = []
    for row in rows:
        texts = responses.get(row.prompt, ())
        _add_constraint_calls(total, row, writers, templates, constraints)
        written = _add_writing_calls(total, row, texts, writers, templates, items)
        if judges is not None and len(texts) >= LEAST_RESPONSES:
            longest = max(texts, key=len)
            message = templates.fill(
                "violate", row.prompt, {"response": longest, "items": _USUAL_QUESTION}
            )
            total.add_calls("violate", writers.judges[0], message, len(written))
            # The breaker's text is assumed to be as long as the longest response.
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


def _add_constraint_calls(
    total: DraftEstimate, row: PromptRow, writers: Judges, templates: Templates, constraints: int
) -> None:
    """Add the calls of `find_with_model`: one finds constraints, two check each of them."""
    finder = writers.judges[0]
    checker = writers.judges[-1]
    # The message lists what the rules have compiled, by the names that `draft_rubric` gives them.
    names: set[str] = set()
    compiled = []
    for constraint in compile_prompt(row.prompt):
        criterion = make_criterion(constraint.verifier, constraint.params, names)
        compiled.append(criterion["name"])
    message = fill_compile_prompt(row.prompt, compiled, templates)
    total.add_calls("compile", finder, message)
    entail_values = {"prompt": row.prompt, "items": _USUAL_CONSTRAINT}
    message = templates.fill("entail", row.prompt, entail_values)
    total.add_calls("entail", checker, message, constraints)
    message = templates.fill("examples", row.prompt, {"items": _USUAL_CONSTRAINT})
    total.add_calls("examples", checker, message, constraints)


def _add_writing_calls(
    total: DraftEstimate,
    row: PromptRow,
    texts: Sequence[str],
    writers: Judges,
    templates: Templates,
    items: int,
) -> list[DraftedItem]:
    """Add the calls of `write_items`: each writer writes, one merges, one breaks. Returns the assumed items.

    Merging is assumed to leave all items.
    """
    task = WritingTask(row.prompt, row.reference, texts)
    write_values = {"prompt": row.prompt, "material": describe_material(task)}
    message = templates.fill("write", row.prompt, write_values)
    written = []
    for writer in writers.judges:
        total.add_calls("write", writer, message)
        for number in range(items):
            question = f"{_USUAL_QUESTION} ({writer.name}, {number})"
            criterion = make_judged_criterion(question, USUAL_POINTS, "Important")
            written.append(DraftedItem(criterion, "written", author=Author(writer.name)))
    if len(writers.judges) > 1:
        message = templates.fill("merge", row.prompt, {"items": number_items(written)})
        total.add_calls("merge", writers.judges[0], message)
    break_values = {"prompt": row.prompt, "items": number_items(written)}
    message = templates.fill("break", row.prompt, break_values)
    total.add_calls("break", writers.judges[-1], message)
    return written
