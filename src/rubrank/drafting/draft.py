"""Draft the rubric of one prompt without a model: compile what it states, then add criteria that fit the task.

    >>> drafted = draft_rubric("Write a poem about tides in at least 40 words. Do not use any commas.")
    >>> [(item.name, item.step) for item in drafted.items]  # doctest: +NORMALIZE_WHITESPACE
    [('at least 40 words', 'compiled'), ('no commas', 'compiled'),
     ('CoreIntentMatch', 'activated'), ('TextTypeMatch', 'activated'), ('Affectation', 'activated')]
    >>> drafted.rubric()["criteria"][1]
    {'name': 'no commas', 'verifier': 'punctuation:no_comma'}

    prompt ── compile ──> criteria with parameters      what the prompt states, decided by programs
           └─ activate ─> criteria of the library       what fits the type of task; programs and judges

A compiled criterion is used only if its parameters occur in the prompt. The output records every decision, with the
words of the prompt that it comes from.

data/tasks.yaml lists the types of task, the patterns by which their prompts are recognised, and their criteria:

    >>> find_task_type("Write a Python function that reverses a list.")
    'code'
    >>> find_task_type("What is 12 * 7?", reference="84")
    'maths'

data/names.yaml has the phrases by which criteria are named:

    >>> name_criterion("WordCount", {"relation": "at most", "count": 30})
    'at most 30 words'
    >>> find_foreign_parameter({"num_words": 300}, "Use at most 100 words.")
    'num_words 300'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rubrank._plain import word_list
from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.sentences import fold_text, pattern, read_data, read_number
from rubrank.errors import RubrankError
from rubrank.verifiers.shared.numbers import read_han
from rubrank.verifiers.verifier import find_verifier

Step = Literal[
    "compiled", "compiled by a model", "activated", "activated by a model", "written", "evolved"
]
"""The step of drafting from which an item comes."""


@dataclass(frozen=True)
class Author:
    """The model that wrote an item."""

    writer: str = ""
    """The writer's name in the file of writers."""
    model: str = ""
    prompt_version: str = ""


@dataclass(frozen=True)
class DraftedItem:
    """One criterion of a drafted rubric, and where it comes from."""

    criterion: Mapping[str, Any]
    """In the form of a rubric file."""
    step: Step
    evidence: str = ""
    """The words of the prompt that state it."""
    kept: bool = True
    reason: str = ""
    """Why it was not kept."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What was measured: agreement, spread, examples."""
    author: Author = field(default_factory=Author)
    """Empty if no model wrote it."""
    merged_with: Sequence[str] = ()
    """Questions of other writers that mean the same."""
    depends: str | None = None
    """Question of the item that must hold before this one means anything."""

    @property
    def name(self) -> str:
        """The criterion's name."""
        return str(self.criterion["name"])

    @property
    def question(self) -> str:
        """The question of a judged criterion."""
        return str(self.criterion["question"])

    @property
    def points(self) -> float:
        """The points of a written criterion; below 0 for what should not be there."""
        return float(self.criterion["points"])

    def rename(self, name: str) -> DraftedItem:
        """Return the item with another name."""
        return replace(self, criterion={**self.criterion, "name": name})

    def describe_origin(self) -> dict[str, Any]:
        """Return the item's entry in the column `draft`: everything but the criterion, which is in the rubric."""
        details = {
            "evidence": self.evidence,
            "reason": self.reason,
            "figures": dict(self.figures),
            **vars(self.author),
            "merged_with": list(self.merged_with),
        }
        entry: dict[str, Any] = {"name": self.name, "step": self.step, "kept": self.kept}
        entry |= {name: value for name, value in details.items() if value}
        if not self.kept:
            entry["criterion"] = dict(self.criterion)  # because the rubric does not contain it
        return entry


@dataclass(frozen=True)
class WrittenItems:
    """What models wrote for one prompt."""

    items: Sequence[DraftedItem] = ()
    problems: Sequence[str] = ()
    """Replies that could not be used, and why."""
    breaker: str | None = None
    """A cheap text that fulfils the items badly; None if there is none."""
    breaker_wins: float | None = None
    """Share of the known responses that the breaker's text beats; None: it was not graded."""


@dataclass(frozen=True)
class DraftedRubric:
    """The rubric of one prompt."""

    prompt: str
    task: str
    items: Sequence[DraftedItem]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """About the rubric as a whole: what the writers' calls gave, the breaker's text."""

    def rubric(self) -> dict[str, Any]:
        """Return the criteria that were kept, in the form of a rubric file."""
        return {
            "extends": ["gates"],
            "criteria": [dict(item.criterion) for item in self.items if item.kept],
        }

    def to_row(self) -> dict[str, Any]:
        """Return a row that `check`, `grade` and `train` read, with the provenance of every criterion."""
        draft = {
            "task": self.task,
            "items": [item.describe_origin() for item in self.items],
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
    """Draft the rubric of one prompt without a model.

    turns: number of the user's turns. tools: tools that the model may call. reference: a known right answer.
    activate: also choose criteria of the library that fit the type of task.
    """
    items = []
    names: set[str] = set()
    for constraint in compile_prompt(prompt):
        foreign = find_foreign_parameter(constraint.params, prompt)
        reason = f"the prompt does not say {foreign}" if foreign else ""
        criterion = make_criterion(constraint.verifier, constraint.params, names)
        items.append(
            DraftedItem(criterion, "compiled", constraint.evidence, kept=not reason, reason=reason)
        )
    task = find_task_type(prompt, turns=turns, tools=tools, reference=reference)
    if activate:
        items += [
            DraftedItem(criterion, "activated") for criterion in list_task_criteria(task, reference)
        ]
    return DraftedRubric(prompt, task, items)


def make_criterion(verifier: str, params: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Return a criterion that a program decides, in the form of a rubric file.

    names: the names that are taken; the criterion gets a new one, which is added to them.
    """
    name = make_unique(name_criterion(verifier, params), names)
    criterion: dict[str, Any] = {"name": name, "verifier": verifier}
    if params:
        criterion["params"] = dict(params)
    return criterion


def make_unique(name: str, names: set[str]) -> str:
    """Return the name, with a number if it is among `names` already; the result is added to them."""
    unique = name
    number = 2
    while unique in names:
        unique = f"{name} ({number})"
        number += 1
    names.add(unique)
    return unique


# ---- criteria of the library that fit the task ----------------------------------------------------------------------


def find_task_type(
    prompt: str, *, turns: int = 1, tools: Sequence[Any] = (), reference: str | None = None
) -> str:
    """Return the type of a task, one of the keys of data/tasks.yaml: the first one whose patterns all match.

    turns: number of the user's turns. tools: tools that the model may call. reference: a known right answer.
    """
    if tools:
        return "tools"
    for task, entry in read_data("tasks").items():
        if "prompts" not in entry or (task == "maths" and reference is None):
            continue
        # Each entry of `prompts` is a list of alternatives, one of which must occur in the prompt.
        patterns = ["|".join(alternatives) for alternatives in entry["prompts"]]
        if all(re.search(pattern, prompt, re.IGNORECASE) for pattern in patterns):
            return task
    return "multi_turn" if turns > 1 else "chat"


def list_task_criteria(task: str, reference: str | None = None) -> list[dict[str, Any]]:
    """Return the criteria of the library for a type of task, in the form of a rubric file."""
    entry = read_data("tasks")[task]
    criteria: list[dict[str, Any]] = []
    if task == "maths" and reference is not None:
        params = {"truth": reference, "mode": "math"}
        criteria.append({"name": "GroundTruthMatch", "params": params})
    criteria += [{"name": name} for name in entry["rules"]]
    criteria += [{"name": name, "verifier": "judge"} for name in entry["judged"]]
    return criteria


# ---- names -----------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 60  # characters


def name_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """Return a name that a reader understands without the parameters.

    It is the verifier's own name if there is no phrase for it, or if the parameters do not fit: a model may name any
    verifier with any parameters.
    """
    try:
        checked = find_verifier(verifier).check_parameters(dict(params))
    except RubrankError:
        return verifier
    # A parameter that was left out has its default.
    values: dict[str, Any] = {**checked.model_dump(exclude_none=True), **params}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            values[name] = ", ".join(map(str, value))
    # The first phrase whose parameters are all set.
    for phrase in read_data("names").get(verifier, ()):
        if all(values.get(field) not in (None, "") for field in re.findall(r"\{(\w+)\}", phrase)):
            return phrase.format(**values)[:_LONGEST_NAME]
    return verifier


def name_question(question: str) -> str:
    """Return the first words of a question, as the name of a judged criterion."""
    words = question.rstrip("?？ ").split()
    return " ".join(words[:8])[:_LONGEST_NAME] or question[:_LONGEST_NAME]


def describe_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """Return the criterion in words that can be compared with a prompt: its name, what it checks, all parameters.

    >>> describe_criterion("WordCount", {"relation": "at most", "count": 30})
    'at most 30 words (the number of words that a reader sees; relation: at most, count: 30)'
    """
    doc = find_verifier(verifier).doc.splitlines()[0].split("; ")[0].rstrip(".")
    settings = ", ".join(f"{name}: {value}" for name, value in params.items())
    details = f"{doc[:1].lower()}{doc[1:]}" + (f"; {settings}" if settings else "")
    name = name_criterion(verifier, params)
    return details if name == verifier else f"{name} ({details})"


# ---- checks of a drafted criterion -----------------------------------------------------------------------------------

# Punctuation marks that a prompt may name instead of showing: patterns of their names.
_MARK_NAMES = {
    "!": "exclamation",
    "?": "question mark",
    ";": "semicolon",
    ":": "colon",
    "#": "hash(?:tag)?",
}
# Numbers in words that `read_number` does not know.
_NUMBER_WORDS = {
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "dozen": 12,
    "single": 1,
    "both": 2,
    "couple": 2,
}
_NUMBER = pattern("{number}")
_HAN_NUMERAL = re.compile(r"[零一二两三四五六七八九十百千万]+")
_FREE_PARAMETERS = word_list("""
    relation let_relation capital_relation lang unit kinds language format pattern case style marks need scope
    postscript_marker
""")
"""Parameters whose values need not occur in the prompt in the same words."""


def find_foreign_parameter(params: Mapping[str, Any], prompt: str) -> str | None:
    """Return the first parameter whose number or string does not occur in the prompt, as "name value"; None if all do.

    Such a criterion was invented, or read from another prompt.
    A number may be one off, because "at most 10" is also "less than 11".
    """
    folded = fold_text(prompt)
    # All numbers in the prompt: as digits, as English words, as words such as "twice", as Chinese numerals.
    numbers = {read_number(text) for text in re.findall(r"\d[\d,]*", prompt)}
    numbers |= {read_number(text) for text in _NUMBER.findall(folded)}
    for word, number in _NUMBER_WORDS.items():
        if re.search(rf"\b{word}\b", folded):
            numbers.add(number)
    numbers |= {int(read_han(numeral)) for numeral in _HAN_NUMERAL.findall(prompt)}
    for name, value in params.items():
        if name in _FREE_PARAMETERS:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, str):
                mark_name = _MARK_NAMES.get(item)
                # A whole word: "semicolon" does not name a colon.
                is_named = mark_name is not None and re.search(rf"\b{mark_name}(?:e?s)?\b", folded)
                if fold_text(item) not in folded and not is_named:
                    return f"{name} {item!r}"
            elif isinstance(item, int | float) and not isinstance(item, bool):
                # 0 and 1 are seldom written as numbers: "no commas", "a title".
                nearby = {int(item) - 1, int(item), int(item) + 1}
                if item > 1 and numbers.isdisjoint(nearby):
                    return f"{name} {item}"
    return None
