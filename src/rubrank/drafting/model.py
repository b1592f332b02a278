"""Let a model find what the rules miss: constraints of a prompt, and criteria of the library that fit its task.

    rubric = draft_rubric("Give the reply as an enumeration.")
    [written], account = find_with_model([rubric], writers, templates)
    written.items     {verifier: FormatRequirement, params: {format: numbered}}, {name: CoreIntentMatch, …}

The model's output is not trusted. A constraint is used only if

    schema       its verifier is one of COMPILABLE, and the parameters fit that verifier's JSON Schema
    evidence     the words it quotes occur in the prompt as an instruction: not in a quotation, in code or in material
    parameters   its numbers and strings follow from the prompt
    entailed     the last writer confirms that the prompt asks for it, as described in words from its parameters
    told apart   the last writer sees only the quoted words, and writes a text that fulfils them and one that does not;
                 the verifier passes the first and fails the second

A constraint that is not used is listed with the reason.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rubrank._plain import word_list
from rubrank.drafting.draft import (
    Author,
    DraftedItem,
    DraftedRubric,
    WrittenItems,
    describe_criterion,
    find_foreign_parameter,
    make_criterion,
)
from rubrank.drafting.sentences import fold_text, occurs_outside_quotations
from rubrank.drafting.writers import Progress, Templates, ask_for_each, ask_json, read_list
from rubrank.errors import InvalidInput
from rubrank.judges.client.runtime import JudgeClients
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Asker, Judges
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.catalogue import KNOWN, PROMPTED
from rubrank.rubrics.rubric import JUDGE
from rubrank.verifiers.verifier import find_verifier

COMPILABLE = word_list("""
    WordCount SentenceCount ParagraphCount BulletCount EntryCount HighlightCount LetterFrequency
    FormatRequirement CaseFormat TitleFormat QuotationFormat Postscript ConstrainedResponse LanguageRequirement
    Keyword ForbiddenContent first_word:first_word_answer last_word:last_word_answer startend:end_checker
    combination:two_responses detectable_content:number_placeholders detectable_format:multiple_sections
    length_constraints:nth_paragraph_first_word
""")
"""Verifiers that a model may name."""
MOST_CONSTRAINTS = 12
"""Most constraints that are read from one reply."""
_MOST_LIBRARY_CRITERIA = 4
# These criteria need reference facts, which a model must not invent.
_NEED_FACTS = ("CoreFactAccuracy", "NonCoreFactAccuracy")


def find_with_model(
    rubrics: Sequence[DraftedRubric],
    writers: Judges,
    templates: Templates,
    progress: Progress | None = None,
) -> tuple[list[WrittenItems], Account]:
    """Ask the first writer about the prompt of every rubric; the last one checks what it says.

    rubrics: drafted by rules, without a model. Returns for each the constraints that the model found, kept or not, and
    the criteria of the library that it chose.
    """

    async def find_in_prompt(rubric: DraftedRubric, clients: JudgeClients) -> WrittenItems:
        writer = writers.judges[0]
        compiled = [item.name for item in rubric.items if item.step == "compiled"]
        message = fill_compile_prompt(rubric.prompt, compiled, templates)
        data, problem = await ask_json(
            clients.asker_of(writer), message, "compile", schema=make_schema()
        )
        if problem:
            return WrittenItems(problems=[f"{writer.name}: {problem}"])
        author = Author(writer.name, writer.endpoints[0].model, templates.version)
        constraints = []
        for entry in read_list(data, "constraints")[:MOST_CONSTRAINTS]:
            if isinstance(entry, Mapping):
                constraints.append(_read_constraint(entry, rubric.prompt, author))
        checker = clients.asker_of(writers.judges[-1])
        items = await asyncio.gather(
            *(
                _check_by_model(constraint, rubric.prompt, compiled, checker, templates)
                for constraint in constraints
            )
        )
        library = [name for name in read_list(data, "library") if name in list_library()]
        for name in list(dict.fromkeys(library))[:_MOST_LIBRARY_CRITERIA]:
            criterion = {"name": name, "verifier": JUDGE}
            items.append(DraftedItem(criterion, "activated by a model", author=author))
        return WrittenItems(items)

    return ask_for_each(rubrics, find_in_prompt, writers, progress)


def fill_compile_prompt(prompt: str, compiled: Sequence[str], templates: Templates) -> str:
    """Return the message that asks the first writer about a prompt. compiled: what the rules compiled, in words."""
    criteria, library = _describe_choices()
    values = {
        "prompt": prompt,
        "criteria": criteria,
        "compiled": "\n".join(f"- {line}" for line in compiled) or "- none",
        "library": library,
    }
    return templates.fill("compile", prompt, values)


def _read_constraint(entry: Mapping[str, Any], prompt: str, author: Author) -> DraftedItem:
    """Read a constraint as a model wrote it, and check what can be checked without another call."""
    name = str(entry.get("verifier"))
    values = entry.get("params")
    if not isinstance(values, Mapping):
        values = {}
    params = {key: value for key, value in values.items() if value is not None}
    evidence = " ".join(str(entry.get("evidence") or "").split())
    reason = _find_fault(name, params, evidence, prompt)
    criterion = make_criterion(name, params, set())
    return DraftedItem(
        criterion, "compiled by a model", evidence, kept=not reason, reason=reason, author=author
    )


def _find_fault(name: str, params: Mapping[str, Any], evidence: str, prompt: str) -> str:
    """Return why a constraint cannot be used, as far as that is known without another call; "" if it can."""
    if name not in COMPILABLE:
        return f"{name!r} is not one of the verifiers that a model may name"
    try:
        find_verifier(name).check_parameters(dict(params))
    except InvalidInput as error:
        return (
            f"the parameters do not fit: {error.parameter} must be {error.allowed}; got {error.got}"
        )
    if len(evidence) < 2 or fold_text(evidence) not in fold_text(prompt):
        return "the quoted words do not occur in the prompt"
    if not occurs_outside_quotations(evidence, prompt):
        return "the quoted words occur in a quotation or in code, not in an instruction"
    foreign = find_foreign_parameter(params, prompt)
    return f"the prompt does not say {foreign}" if foreign else ""


async def _check_by_model(
    item: DraftedItem,
    prompt: str,
    compiled: Collection[str],
    checker: Asker,
    templates: Templates,
) -> DraftedItem:
    """Let the checker confirm a constraint, as the top of this file says ("entailed", "told apart").

    Returns it with a reason if it cannot be used, else with the two texts as figures.
    """
    if not item.kept:
        return item
    if item.name in compiled:
        return replace(item, kept=False, reason="the rules compiled it")
    name = item.criterion["verifier"]
    params = item.criterion.get("params", {})
    words = describe_criterion(name, params)
    values = {"prompt": prompt, "items": words}
    data, problem = await ask_json(checker, templates.fill("entail", prompt, values), "entail")
    if problem or data.get("entailed") is not True:
        reason = problem or f"the checker says that the prompt does not ask for: {words}"
        return replace(item, kept=False, reason=reason)
    # The texts are made from the prompt's own words, so that a wrong number in the parameters is noticed.
    values = {"items": item.evidence}
    data, problem = await ask_json(checker, templates.fill("examples", prompt, values), "examples")
    passing = data.get("passing")
    failing = data.get("failing")
    if problem or not isinstance(passing, str) or not isinstance(failing, str):
        reason = problem or "the checker did not write a text that fulfils it and one that does not"
        return replace(item, kept=False, reason=reason)
    verifier = find_verifier(name)
    parameters = verifier.check_parameters(dict(params))
    passing_score = verifier.verify(Rollout(response=passing), parameters).value
    failing_score = verifier.verify(Rollout(response=failing), parameters).value
    if passing_score != verifier.domain.high or failing_score != verifier.domain.low:
        first = "missing" if passing_score is None else f"{passing_score:g}"
        second = "missing" if failing_score is None else f"{failing_score:g}"
        reason = (
            f"the verifier gives {first} to a text that fulfils it, {second} to one that does not"
        )
        return replace(item, kept=False, reason=reason)
    return replace(item, figures={"passing": passing[:200], "failing": failing[:200]})


# ---- what a model may name -----------------------------------------------------------------------------------------


@cache
def make_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a reply: constraints by the parameters of each verifier, and names of the library."""
    forms = []
    for name in COMPILABLE:
        params = dict(find_verifier(name).parameters.model_json_schema())
        params["additionalProperties"] = False
        forms.append(
            {
                "type": "object",
                "properties": {
                    "verifier": {"const": name},
                    "params": params,
                    "evidence": {"type": "string"},
                },
                "required": ["verifier", "params", "evidence"],
                "additionalProperties": False,
            }
        )
    return {
        "type": "object",
        "properties": {
            "constraints": {"type": "array", "items": {"anyOf": forms}},
            "library": {"type": "array", "items": {"enum": list(list_library())}},
        },
        "required": ["constraints", "library"],
        "additionalProperties": False,
    }


@cache
def list_library() -> tuple[str, ...]:
    """Return the judged criteria of the library that need nothing but the prompt and the response."""
    return tuple(
        name
        for name, entry in KNOWN.items()
        if entry.how == "judge" and name in PROMPTED and name not in _NEED_FACTS
    )


@cache
def _describe_choices() -> tuple[str, str]:
    """Return two lists for the prompt: verifiers that a model may name, and criteria of the library."""
    verifiers = []
    for name in COMPILABLE:
        verifier = find_verifier(name)
        properties = verifier.parameters.model_json_schema().get("properties", {})
        shapes = {key: _describe_shape(shape) for key, shape in properties.items()}
        params = json.dumps(shapes, ensure_ascii=False)
        verifiers.append(f"- {name}: {verifier.doc.splitlines()[0]} params: {params}")
    library = [f"- {name}: {KNOWN[name].checks}" for name in list_library()]
    return "\n".join(verifiers), "\n".join(library)


def _describe_shape(shape: Mapping[str, Any]) -> str:
    """Return the type of a parameter in a few words, from its JSON Schema: "list of string"."""
    if "enum" in shape:
        return " | ".join(map(str, shape["enum"]))
    if "anyOf" in shape:
        return " or ".join(_describe_shape(option) for option in shape["anyOf"])
    if shape.get("type") == "array":
        return f"list of {_describe_shape(shape.get('items', {}))}"
    return str(shape.get("type", "any"))
