"""Draft a rubric for each prompt: compile what it states, then choose criteria of the library that fit the task.

    >>> drafted = draft_rubric("Write a poem about tides in at least 40 words. Do not use any commas.")
    >>> [(item.name, item.step) for item in drafted.items]  # doctest: +NORMALIZE_WHITESPACE
    [('at least 40 words', 'compiled'), ('no commas', 'compiled'),
     ('CoreIntentMatch', 'activated'), ('TextTypeMatch', 'activated'), ('Affectation', 'activated')]
    >>> drafted.rubric()["criteria"][1]
    {'name': 'no commas', 'verifier': 'punctuation:no_comma'}

    prompt ── compile ──> criteria with parameters      what the prompt states, decided by programs
           └─ activate ─> criteria of the library       what fits the type of task; programs and judges

A compiled criterion is used only if its parameters stand in the prompt and its verifier tells a right text from a wrong
one (`round_trip.py`). Everything that was decided stands in the output, with the words of the prompt it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rubrank.drafting.activation import activate_criteria, find_task_type
from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.names import name_criterion
from rubrank.drafting.round_trip import find_example_texts, find_foreign_parameter

Step = Literal[
    "compiled", "compiled by a model", "activated", "activated by a model", "written", "evolved"
]


@dataclass(frozen=True)
class DraftedItem:
    """One criterion of a drafted rubric, and where it comes from."""

    criterion: Mapping[str, Any]
    """As a rubric file has it."""
    step: Step
    evidence: str = ""
    """The words of the prompt that state it."""
    kept: bool = True
    reason: str = ""
    """Why it was not kept."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What was measured: agreement, spread, examples."""
    writer: str = ""
    """Who wrote it, by the name of the writers' file."""
    model: str = ""
    """The writer's model."""
    prompt_version: str = ""
    """Version of the prompt with which it was written."""
    merged_with: Sequence[str] = ()
    """Questions of other writers that mean the same."""

    @property
    def name(self) -> str:
        """The criterion's name."""
        return str(self.criterion["name"])

    def provenance(self) -> dict[str, Any]:
        """Everything but the criterion itself, for the output."""
        entry: dict[str, Any] = {"name": self.name, "step": self.step, "kept": self.kept}
        for key, value in (
            ("evidence", self.evidence),
            ("reason", self.reason),
            ("figures", dict(self.figures)),
            ("writer", self.writer),
            ("model", self.model),
            ("prompt_version", self.prompt_version),
            ("merged_with", list(self.merged_with)),
        ):
            if value:
                entry[key] = value
        if not self.kept:
            entry["criterion"] = dict(self.criterion)  # the rubric does not have it
        return entry


@dataclass(frozen=True)
class DraftedRubric:
    """The rubric of one prompt."""

    prompt: str
    task: str
    items: Sequence[DraftedItem]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """About the rubric as a whole: what the writers' calls gave, the breaker's text."""

    def rubric(self) -> dict[str, Any]:
        """The criteria that were kept, as a rubric file has them."""
        return {
            "extends": ["gates"],
            "criteria": [dict(item.criterion) for item in self.items if item.kept],
        }

    def to_row(self) -> dict[str, Any]:
        """A row that `check`, `grade` and `train` read, with the provenance of every criterion."""
        draft = {
            "task": self.task,
            "items": [item.provenance() for item in self.items],
            **self.notes,
        }
        return {"prompt": self.prompt, "rubric": self.rubric(), "draft": draft}


def draft_rubric(
    prompt: str,
    *,
    turns: int = 1,
    tools: Sequence[Any] = (),
    reference: str | None = None,
    activate: bool = True,
) -> DraftedRubric:
    """Draft the rubric of one prompt without a model."""
    items = []
    names: set[str] = set()
    for constraint in compile_prompt(prompt):
        name = make_unique(name_criterion(constraint.verifier, constraint.params), names)
        criterion: dict[str, Any] = {"name": name, "verifier": constraint.verifier}
        if constraint.params:
            criterion["params"] = dict(constraint.params)
        items.append(_check_item(criterion, constraint.evidence, prompt))
    task = find_task_type(prompt, turns=turns, tools=tools, reference=reference)
    if activate:
        items += [
            DraftedItem(criterion, "activated") for criterion in activate_criteria(task, reference)
        ]
    return DraftedRubric(prompt, task, items)


def _check_item(criterion: dict[str, Any], evidence: str, prompt: str) -> DraftedItem:
    """A compiled criterion, kept if it stands in the prompt and its verifier can tell texts apart."""
    params = criterion.get("params", {})
    foreign = find_foreign_parameter(params, prompt)
    if foreign:
        return DraftedItem(
            criterion, "compiled", evidence, kept=False, reason=f"the prompt does not say {foreign}"
        )
    if find_example_texts(criterion["verifier"], params) is None:
        return DraftedItem(
            criterion,
            "compiled",
            evidence,
            kept=False,
            reason="no text was found that passes and one that fails",
        )
    return DraftedItem(criterion, "compiled", evidence)


def make_unique(name: str, names: set[str]) -> str:
    """The name, with a number if it was used before."""
    unique = name
    number = 2
    while unique in names:
        unique = f"{name} ({number})"
        number += 1
    names.add(unique)
    return unique
