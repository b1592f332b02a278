"""The form of a judge's reply: which numbers, which findings, which items; as text for the prompt and as JSON Schema.

    {"reasoning": "Names the lake, but the wrong city.", "finding": "holds in part", "verdict": 0.5}
    {"reasoning": "Strong opening, no ending.", "verdict": 6}                          a range: whole numbers, 0 to 10
    {"reasoning": "…", "items": [{"item": "West Lake", "verdict": "right"}, …]}        decomposed: the value is computed

The finding is the conclusion of the reasoning in a word, stated before the number. On scales of two or three values
every value has a finding, and a judge whose number does not agree with its finding contradicts itself: its verdict is
missing. Longer scales have no findings, unless the user gives the words. If the user gives anchors, they define the
scale; short anchors also serve as findings.

Few-shot examples show a judge where to draw the line:

    absolute    {prompt, response, reasoning, verdict: 0.5}
    pairwise    {prompt, response: [A, B], reasoning, verdict: "A", "B" or "tie"}
    listwise    {prompt, response: [1, 2, 3], reasoning, verdict: [2, 1, 2]}      ranks, 1 = best

`prompt` may be left out. Example responses are fenced like all data. The reply has the form that the judge must use,
with the finding that belongs to the verdict. If a criterion has examples, the judge is asked for one verdict, as in the
examples, even if the prompt file asks for a list of items.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, NamedTuple, TypeAlias

from rubrank._plain import join_surrogates
from rubrank.errors import InvalidInput
from rubrank.judges.prompting.material import as_text, fence
from rubrank.judges.prompting.prompt_files import (
    LANGUAGES,
    Items,
    Prompt,
    PromptLanguage,
    fill,
    load_criterion_prompt,
    load_labels,
    load_prompt,
)
from rubrank.rubrics.rubric import Criterion
from rubrank.rubrics.scale import Scale

_MAX_VALUES_WITH_FINDINGS = 3
_MAX_FINDING = 40  # characters of an anchor that can serve as a finding
# Names that can be fields of a reply. "c3" cannot: `make_batch_keys` gives it to a criterion without such a name.
_PLAIN_NAME = re.compile(r"(?!c\d+$)[A-Za-z][\w:.-]{0,39}", re.ASCII)


def spell_number(value: float) -> str:
    """Return the value as a judge reads and writes it: 1, 0.5, 0.3333."""
    return str(_round_for_json(value))


def _round_for_json(value: float) -> int | float:
    """Return the number that `spell_number` spells: 1, 0.5, 0.3333."""
    return int(value) if value == int(value) else round(value, 4)


def fold_word(word: object) -> str:
    """Return a finding without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", str(word)).casefold())


# ---------------------------------------------------------------------------------------------------- one criterion


class ScaleLine(NamedTuple):
    """One line of the scale in a prompt."""

    label: str
    """The number, or two neighbouring ones: "7–8"."""
    meaning: str
    number: float
    """The number of the label; for two, their middle: 7.5."""


@dataclass(frozen=True)
class ReplyForm:
    """How one criterion is answered in one language."""

    scale: Scale
    lines: tuple[ScaleLine, ...]
    """What the numbers mean, best first."""
    findings: Mapping[float, str]
    """Number → the finding that goes with it; empty: none is asked for."""
    cannot_judge: str = ""
    """When the judge may give no verdict; "": never."""
    items: Items | None = None
    """What is listed instead of a verdict."""
    item_count: int | None = None
    """How many items there must be, if the reference is a list."""


def make_form(
    criterion: Criterion, prompt: Prompt, *, whole: bool = False, count: int | None = None
) -> ReplyForm:
    """Return the form of the reply.

    whole: one verdict, even if the prompt file asks for items.
    count: how many items the reference has, if it is a list.
    """
    items = prompt.items
    if items is not None:
        has_own_scale = bool(criterion.anchors or criterion.findings)
        # The value is computed from the items by a rule, which is made for domains with `items.values` values, or for
        # ranges if that is 0. A range lists no values either.
        fits_domain = len(criterion.value_domain.values) == items.values
        if whole or has_own_scale or not fits_domain:
            items = None
    return ReplyForm(
        criterion.scale,
        _make_scale_lines(criterion, prompt),
        findings={n: words[0] for n, words in _list_finding_words(criterion, [prompt]).items()},
        cannot_judge=prompt.get("cannot"),
        items=items,
        item_count=count if items is not None and items.counted else None,
    )


def _make_scale_lines(criterion: Criterion, prompt: Prompt) -> tuple[ScaleLine, ...]:
    """Return what the values mean, best first: by the user's anchors, or by those of the prompt file."""
    numbers = criterion.scale.numbers
    anchors = criterion.anchors
    lines: list[ScaleLine] = []
    if not anchors:
        # The prompt file gives anchors as shares of the scale: 0 is its lowest number, 1 its highest.
        low = numbers[0]
        span = numbers[-1] - low
        anchors = {round(low + share * span, 10): text for share, text in prompt.anchors.items()}
        if criterion.scale.is_range:
            for number, text in sorted(anchors.items(), reverse=True):
                # Only whole numbers are asked for: 7.5 stands for 7 or 8.
                below = int(number)
                if number == below:
                    lines.append(ScaleLine(spell_number(number), text, number))
                else:
                    lines.append(ScaleLine(f"{below}–{below + 1}", text, below + 0.5))
            return tuple(lines)
    for number in reversed(numbers):
        meaning = next((text for n, text in anchors.items() if abs(n - number) < 1e-9), None)
        if meaning is None:  # a number without an anchor lies between its neighbours
            lower = max(n for n in anchors if n < number)
            upper = min(n for n in anchors if n > number)
            meaning = fill(
                load_labels(prompt.language)["interpolated"],
                low=anchors[lower].rstrip(".。"),
                high=anchors[upper].rstrip(".。"),
            )
        lines.append(ScaleLine(spell_number(number), meaning, number))
    return tuple(lines)


def _list_finding_words(criterion: Criterion, prompts: Sequence[Prompt]) -> dict[float, list[str]]:
    """Return for each number of the scale the words of its finding; empty if no finding is asked for.

    prompts: the prompt in one or several languages. There is one word for each, or a single one that the user gave.
    """
    scale = criterion.scale
    numbers = scale.numbers
    if criterion.findings:
        # The user gives words by level ("high", "between", "low") or by number.
        if any(isinstance(key, str) for key in criterion.findings):
            return {number: [criterion.findings[scale.find_level(number)]] for number in numbers}
        words = {}
        for key, word in criterion.findings.items():
            if not isinstance(key, str):
                words[scale.match_number(key)] = word
        return {number: [words[number]] for number in numbers}
    if scale.is_range or len(numbers) > _MAX_VALUES_WITH_FINDINGS:
        return {}
    if criterion.anchors:
        # Anchors serve as findings only if every number has one, and all are short and different.
        anchors = [criterion.anchors.get(number, "") for number in numbers]
        all_short = all(0 < len(anchor) <= _MAX_FINDING for anchor in anchors)
        all_different = len(set(map(fold_word, anchors))) == len(anchors)
        if not all_short or not all_different:
            return {}
        return {number: [anchor] for number, anchor in zip(numbers, anchors, strict=True)}
    return {
        number: [prompt.findings[scale.find_level(number)] for prompt in prompts]
        for number in numbers
    }


def map_findings_to_numbers(criterion: Criterion) -> dict[str, tuple[float, ...]]:
    """Return for every finding, in either language, the numbers that agree with it.

    No number agrees with "cannot be judged".
    """
    numbers: dict[str, tuple[float, ...]] = {}
    prompts = [load_criterion_prompt(criterion, language) for language in LANGUAGES]
    for number, words in _list_finding_words(criterion, prompts).items():
        for word in set(map(fold_word, words)):
            numbers[word] = (*numbers.get(word, ()), number)
    return _map_cannot_judge_to_numbers() | numbers


def map_pairwise_findings_to_numbers() -> dict[str, tuple[float, ...]]:
    """Return for every finding about two responses, in either language, its outcome: 1 = A is better, 0.5 = tie.

    No outcome agrees with "cannot be judged".
    """
    numbers = _map_cannot_judge_to_numbers()
    values = {"high": 1.0, "between": 0.5, "low": 0.0}
    for language in LANGUAGES:
        findings = load_prompt("_pairwise", language).findings
        for level, value in values.items():
            numbers[fold_word(findings[level])] = (value,)
    return numbers


def _map_cannot_judge_to_numbers() -> dict[str, tuple[float, ...]]:
    """Return "cannot be judged" in every language, with no number."""
    return {fold_word(load_labels(language)["cannot"]): () for language in LANGUAGES}


# ------------------------------------------------------------------------------------------------------------ in words


def join_options(options: Sequence[str], language: PromptLanguage) -> str:
    """Return a list such as "1, 2 or 3", in the language of the prompt."""
    if len(options) == 1:
        return options[0]
    word = load_labels(language)["or"]
    if language == "zh":
        return f"{'、'.join(options[:-1])}{word}{options[-1]}"
    return f"{', '.join(options[:-1])} {word} {options[-1]}"


def describe_numbers(scale: Scale, language: PromptLanguage) -> str:
    """Return in words which numbers the verdict may be."""
    if not scale.is_range:
        return join_options([spell_number(number) for number in scale.numbers], language)
    low = spell_number(scale.numbers[0])
    high = spell_number(scale.numbers[-1])
    return f"{low} 到 {high} 的整数" if language == "zh" else f"a whole number from {low} to {high}"


def describe_scale(form: ReplyForm, labels: Mapping[str, str]) -> list[str]:
    """Return a line for each value, such as `1 ("clean"): Natural for its purpose.`

    labels: the texts of the prompt's language, from `load_labels`.
    """
    findings = {spell_number(number): word for number, word in form.findings.items()}
    lines = [labels["range"]] if form.scale.is_range else []
    for label, text, _ in form.lines:
        finding = findings.get(label)
        if finding is None:
            lines.append(f"{label}: {text}")
        elif finding == text:
            lines.append(f'{label}: "{finding}"')
        else:
            lines.append(f'{label} ("{finding}"): {text}')
    return lines


# ------------------------------------------------------------------------------------------------------------- schemas

_TEXT: dict[str, Any] = {"type": "string"}


def make_entry_schema(form: ReplyForm, language: PromptLanguage) -> dict[str, Any]:
    """Return the schema of one verdict, or of a list of items."""
    if form.items is not None:
        words = [word for word, _ in form.items.words.values()]
        entry = make_object_schema({"item": _TEXT, "verdict": {"type": "string", "enum": words}})
        items: dict[str, Any] = {"type": "array", "items": entry}
        if form.item_count is not None:
            items |= {"minItems": form.item_count, "maxItems": form.item_count}
        if form.cannot_judge:
            items = {"anyOf": [items, {"type": "null"}]}
        return make_object_schema({"reasoning": _TEXT, "items": items})
    numbers: list[Any] = [_round_for_json(number) for number in form.scale.numbers]
    verdict: dict[str, Any] = {"type": "number", "enum": numbers}
    if form.cannot_judge:
        verdict = {"type": ["number", "null"], "enum": [*numbers, None]}
    if not form.findings:
        return make_object_schema({"reasoning": _TEXT, "verdict": verdict})
    best_first = sorted(form.findings, reverse=True)
    words = list(dict.fromkeys(form.findings[number] for number in best_first))
    if form.cannot_judge:
        words.append(load_labels(language)["cannot"])
    finding = {"type": "string", "enum": words}
    return make_object_schema({"reasoning": _TEXT, "finding": finding, "verdict": verdict})


def make_pairwise_schema(prompt: Prompt, language: PromptLanguage) -> dict[str, Any]:
    """Return the schema of a comparison of two."""
    words = list(load_prompt("_pairwise", language).findings.values())
    verdict: dict[str, Any] = {"type": "string", "enum": ["A", "B", "tie"]}
    if prompt.get("cannot"):
        verdict = {"type": ["string", "null"], "enum": ["A", "B", "tie", None]}
        words.append(load_labels(language)["cannot"])
    finding = {"type": "string", "enum": words}
    return make_object_schema({"reasoning": _TEXT, "finding": finding, "verdict": verdict})


def make_listwise_schema(prompt: Prompt, n: int) -> dict[str, Any]:
    """Return the schema of a ranking of n responses."""
    number = {"type": "integer", "enum": list(range(1, n + 1))}
    ranks = make_object_schema({str(i): number for i in range(1, n + 1)})
    if prompt.get("cannot"):
        ranks = {"anyOf": [ranks, {"type": "null"}]}
    return make_object_schema(
        {"reasoning": _TEXT, "finding": {"type": "array", "items": number}, "verdict": ranks}
    )


def make_object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def make_batch_keys(criteria: Sequence[Criterion]) -> list[str]:
    """Return the field of each criterion in a batch reply: its name, or a number if the name is a sentence."""
    keys = []
    for number, criterion in enumerate(criteria, 1):
        keys.append(criterion.name if _PLAIN_NAME.fullmatch(criterion.name) else f"c{number}")
    return keys


# ----------------------------------------------------------------------------------------------------------- examples

Example: TypeAlias = Mapping[str, Any]
_KEYS = {"response", "reasoning", "verdict"}
_LEVEL_OF_CHOICE = {"A": "high", "tie": "between", "B": "low"}


class _ShownExample(NamedTuple):
    """The parts of an example that depend on the kind of judge."""

    responses: list[str]
    """By their tags."""
    finding: Any
    """None if no finding is asked for."""
    verdict: Any


def show_score_examples(
    criterion: Criterion, prompt: Prompt, form: ReplyForm, examples: Sequence[Example]
) -> str:
    """Return examples of judgments of one response; a verdict is a score, or a number of the user's anchors."""
    scale = criterion.scale

    def read(example: Example) -> _ShownExample:
        verdict = example["verdict"]
        number = None
        if isinstance(verdict, int | float) and not isinstance(verdict, bool):
            find = scale.match_number if criterion.anchors else scale.find_number
            number = find(float(verdict))
        if number is None:
            allowed = f"a value of its domain ({criterion.value_domain.description})"
            if criterion.anchors:
                allowed = f"one of the anchors {', '.join(f'{n:g}' for n in scale.numbers)}"
            raise _invalid(criterion, "verdict", allowed, verdict)
        responses = [fence("response", as_text(example["response"]))]
        return _ShownExample(responses, form.findings.get(number), _round_for_json(number))

    return _show_examples(criterion, prompt, examples, read)


def show_pair_examples(criterion: Criterion, prompt: Prompt, examples: Sequence[Example]) -> str:
    """Return examples of comparisons of two responses."""
    findings = load_prompt("_pairwise", prompt.language).findings

    def read(example: Example) -> _ShownExample:
        verdict = example["verdict"]
        if verdict not in _LEVEL_OF_CHOICE:
            raise _invalid(criterion, "verdict", '"A", "B" or "tie"', verdict)
        responses = _fence_responses(criterion, example, ["A", "B"])
        return _ShownExample(responses, findings[_LEVEL_OF_CHOICE[verdict]], verdict)

    return _show_examples(criterion, prompt, examples, read)


def show_list_examples(criterion: Criterion, prompt: Prompt, examples: Sequence[Example]) -> str:
    """Return examples of rankings of several responses."""

    def read(example: Example) -> _ShownExample:
        ranks = example["verdict"]
        if not isinstance(ranks, list | tuple) or 1 not in ranks:
            raise _invalid(criterion, "verdict", "a rank for each response, 1 = best", ranks)
        verdict = {str(i): rank for i, rank in enumerate(ranks, 1)}
        best = [i for i, rank in enumerate(ranks, 1) if rank == 1]
        return _ShownExample(_fence_responses(criterion, example, list(verdict)), best, verdict)

    return _show_examples(criterion, prompt, examples, read)


def _fence_responses(criterion: Criterion, example: Example, marks: Sequence[str]) -> list[str]:
    """Return the responses of an example between tags with these marks; InvalidInput if their number differs."""
    responses = example["response"]
    if not isinstance(responses, list | tuple) or len(responses) != len(marks):
        raise _invalid(criterion, "response", f"a list of {len(marks)} responses", responses)
    return [
        fence(f"response_{mark}", as_text(response))
        for mark, response in zip(marks, responses, strict=True)
    ]


def _invalid(criterion: Criterion, parameter: str, allowed: str, got: Any) -> InvalidInput:
    """Return the error about a part of an example."""
    remedy = "See `rubrank help prompts`."
    return InvalidInput(f"example of {criterion.name!r}", parameter, allowed, brief(got), remedy)


def _show_examples(
    criterion: Criterion,
    prompt: Prompt,
    examples: Sequence[Example],
    read: Callable[[Example], _ShownExample],
) -> str:
    """Return the examples as text: query, responses, and the reply in the form that the judge must use.

    read: raises InvalidInput if the verdict or the responses cannot be used. "" if there are no examples.
    """
    if not examples:
        return ""
    labels = load_labels(prompt.language)
    blocks = [labels["examples"]]
    for number, example in enumerate(examples, 1):
        if set(example) - {"prompt"} != _KEYS:
            allowed = "prompt (may be left out), response, reasoning, verdict"
            raise _invalid(criterion, "keys", allowed, list(example))
        parts = read(example)
        reply = {"reasoning": join_surrogates(str(example["reasoning"]))}
        if parts.finding is not None:
            reply["finding"] = parts.finding
        reply["verdict"] = parts.verdict
        lines = [fill(labels["example"], number=number)]
        if example.get("prompt"):
            lines.append(fence("user", as_text(example["prompt"])))
        lines += [*parts.responses, json.dumps(reply, ensure_ascii=False)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
