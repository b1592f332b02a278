"""The form of a judge's reply: which numbers, which findings, which items.

    {"reasoning": "Names the lake, but the wrong city.", "finding": "holds in part", "verdict": 0.5}
    {"reasoning": "Strong opening, no ending.", "verdict": 6}                          a range, asked from 0 to 10
    {"reasoning": "…", "items": [{"item": "West Lake", "verdict": "right"}, …]}        decomposed: the value is computed

The finding is the reasoning in a word, said before the number; on scales of two or three values it stands beside each
value, and a judge whose number is not what it found contradicts itself: its verdict is missing. Longer scales have no
finding, unless the user gives the words. A user's anchors are the scale; short ones are the findings too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rubrank.judges.prompting.prompt_files import LANGUAGES, Items, Prompt, PromptLanguage, fill, load_prompt, prompt_of
from rubrank.rubrics.rubric import Criterion
from rubrank.rubrics.scale import Scale

Level: TypeAlias = Literal["high", "between", "low"]
_LEVELS: tuple[Level, ...] = ("high", "between", "low")
_MOST_CHECKED = 3  # values of a scale whose verdicts are held against a finding
_SHORT = 40  # characters of an anchor that can be said as a finding


def spell(value: float) -> str:
    """The value as a judge reads and writes it: 1, 0.5, 0.3333."""
    return str(int(value)) if value == int(value) else str(round(value, 4))


def fold_word(word: object) -> str:
    """A finding without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", str(word)).casefold())


def agrees(level: Level, number: float, asked: Sequence[float]) -> bool:
    """Does a number of the scale go with what was found?"""
    low, high = asked[0], asked[-1]
    if level == "between":
        return low < number < high
    middle = (low + high) / 2
    return number > middle if level == "high" else number < middle


def levels(asked: Sequence[float]) -> tuple[Level, ...]:
    """Those that the scale has numbers for, best first."""
    return tuple(level for level in _LEVELS if any(agrees(level, number, asked) for number in asked))


# -------------------------------------------------------------------------------------------------- of one criterion


@dataclass(frozen=True)
class Form:
    """How one criterion is answered in one language."""

    scale: Scale
    lines: tuple[tuple[str, str], ...]
    """(number or numbers, what they mean), best first."""
    words: Mapping[float, str]
    """Number → the finding that goes with it; empty: none is asked."""
    cannot: str = ""
    """When it may give no verdict; "": never."""
    items: Items | None = None
    """What is listed instead of a verdict."""
    count: int | None = None
    """How many items there must be, where the reference says."""


def form_of(criterion: Criterion, prompt: Prompt, *, whole: bool = False, count: int | None = None) -> Form:
    """The form; whole: one verdict, even where the library would ask for items."""
    items = None if whole else items_of(criterion, prompt)
    lines = _own_lines(criterion, prompt) if criterion.anchors else _library_lines(criterion, prompt)
    words = {number: words[0] for number, words in _words(criterion, [prompt]).items()}
    counted = count if items is not None and items.counted else None
    return Form(criterion.scale, lines, words, prompt.get("cannot"), items, counted)


def items_of(criterion: Criterion, prompt: Prompt) -> Items | None:
    """What is listed, where the library's own scale is asked: a scale of the user's is asked as it is."""
    if prompt.items is None or criterion.anchors or criterion.findings:
        return None
    usual = prompt.items.values
    values = criterion.value_domain.values
    return prompt.items if (usual == 0 and not values) or (usual and len(values) == usual) else None


def _own_lines(criterion: Criterion, prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """The user's anchors; a value without one lies between its neighbours."""
    assert criterion.anchors is not None
    return tuple((spell(n), _anchor(n, criterion.anchors, prompt)) for n in reversed(criterion.scale.asked))


def _library_lines(criterion: Criterion, prompt: Prompt) -> tuple[tuple[str, str], ...]:
    asked = criterion.scale.asked
    low, span = asked[0], asked[-1] - asked[0]
    marks = {round(low + share * span, 10): text for share, text in prompt.anchors.items()}
    if criterion.scale.steps:
        return tuple((_step(mark), text) for mark, text in sorted(marks.items(), reverse=True))
    return tuple((spell(number), _anchor(number, marks, prompt)) for number in reversed(asked))


def _step(mark: float) -> str:
    """7.5 is 7 or 8: only whole numbers are asked."""
    return spell(mark) if mark == int(mark) else f"{int(mark)}–{int(mark) + 1}"


def _anchor(number: float, marks: Mapping[float, str], prompt: Prompt) -> str:
    """What the number means; between two marks where it has none of its own."""
    exact = next((text for mark, text in marks.items() if abs(mark - number) < 1e-9), None)
    if exact is not None:
        return exact
    low, high = max(mark for mark in marks if mark < number), min(mark for mark in marks if mark > number)
    text = load_prompt("_common", prompt.language).labels["interpolated"]
    return fill(text, low=marks[low].rstrip(".。"), high=marks[high].rstrip(".。"))


def _words(criterion: Criterion, prompts: Sequence[Prompt]) -> dict[float, list[str]]:
    """Number → the words for it, one of each prompt; empty where no finding is asked."""
    asked, own = criterion.scale.asked, criterion.findings
    if own and not all(isinstance(key, str) for key in own):
        given = {float(key): word for key, word in own.items()}
        return {n: [next(word for key, word in given.items() if abs(key - n) < 1e-6)] for n in asked}
    if own:
        return {n: [own[level]] for n in asked for level in levels(asked)[::-1] if agrees(level, n, asked)}
    if criterion.scale.steps or len(asked) > _MOST_CHECKED:
        return {}
    if criterion.anchors:
        texts = [criterion.anchors.get(number, "") for number in asked]
        short = all(0 < len(text) <= _SHORT for text in texts) and len(set(map(fold_word, texts))) == len(texts)
        return {number: [text] for number, text in zip(asked, texts, strict=True)} if short else {}
    return {n: [p.findings[level] for p in prompts] for n in asked for level in _LEVELS if agrees(level, n, asked)}


def numbers_of_findings(criterion: Criterion) -> dict[str, tuple[float, ...]]:
    """Every word for a finding, in either language → the numbers that go with it; none for "cannot be judged"."""
    found: dict[str, tuple[float, ...]] = {}
    for number, words in _words(criterion, [prompt_of(criterion, tongue) for tongue in LANGUAGES]).items():
        for word in set(map(fold_word, words)):
            found[word] = (*found.get(word, ()), number)
    return {**dict.fromkeys(cannot_words(), ()), **found}


def numbers_of_pairwise_findings() -> dict[str, tuple[float, ...]]:
    """The same for a comparison of two: 1 = A is better."""
    values = {"high": (1.0,), "between": (0.5,), "low": (0.0,)}
    prompts = [load_prompt("_pairwise", tongue) for tongue in LANGUAGES]
    found = {fold_word(prompt.findings[level]): value for prompt in prompts for level, value in values.items()}
    return {**dict.fromkeys(cannot_words(), ()), **found}


def cannot_words() -> list[str]:
    """What a judge says that cannot judge, in all languages."""
    return [fold_word(cannot_word(tongue)) for tongue in LANGUAGES]


def cannot_word(language: PromptLanguage) -> str:
    """What a judge says that cannot judge."""
    return load_prompt("_common", language).labels["cannot"]


# ------------------------------------------------------------------------------------------------------------ in words


def join_options(items: Sequence[str], language: PromptLanguage) -> str:
    """1, 2 or 3."""
    word = load_prompt("_common", language).labels["or"]
    space = "" if language == "zh" else " "
    comma = "、" if language == "zh" else ", "
    return items[0] if len(items) == 1 else f"{comma.join(items[:-1])}{space}{word}{space}{items[-1]}"


def describe_numbers(scale: Scale, language: PromptLanguage) -> str:
    """What the verdict may be."""
    if scale.steps:
        low, high = spell(scale.asked[0]), spell(scale.asked[-1])
        return f"{low} 到 {high} 的整数" if language == "zh" else f"a whole number from {low} to {high}"
    return join_options([spell(number) for number in scale.asked], language)


def describe_scale(form: Form, labels: Mapping[str, str]) -> list[str]:
    """A line for each value: 1 ("clean"): Natural for its purpose."""
    by_label = {spell(number): word for number, word in form.words.items()}
    lines = [labels["range"]] if form.scale.steps else []
    for label, text in form.lines:
        word = by_label.get(label)
        if word is None:
            lines.append(f"{label}: {text}")
        else:
            lines.append(f'{label}: "{word}"' if word == text else f'{label} ("{word}"): {text}')
    return lines


# ------------------------------------------------------------------------------------------------------------- schemas


def entry_schema(form: Form, language: PromptLanguage) -> dict[str, Any]:
    """The schema of one verdict, or of a list of items."""
    reasoning = {"type": "string"}
    if form.items is not None:
        return strict_object({"reasoning": reasoning, "items": _items_schema(form, language)})
    numbers = [int(n) if n == int(n) else round(n, 4) for n in form.scale.asked]
    verdict: dict[str, Any] = {"type": ["number", "null"] if form.cannot else "number"}
    verdict["enum"] = [*numbers, *([None] if form.cannot else [])]
    if not form.words:
        return strict_object({"reasoning": reasoning, "verdict": verdict})
    words = [*dict.fromkeys(form.words[number] for number in sorted(form.words, reverse=True))]
    return strict_object({"reasoning": reasoning, "finding": _one_of(words, form.cannot, language), "verdict": verdict})


def _items_schema(form: Form, language: PromptLanguage) -> dict[str, Any]:
    assert form.items is not None
    words = [word for word, _ in form.items.words.values()]
    entry = strict_object({"item": {"type": "string"}, "verdict": {"type": "string", "enum": words}})
    array: dict[str, Any] = {"type": "array", "items": entry}
    if form.count is not None:
        array |= {"minItems": form.count, "maxItems": form.count}
    return {"anyOf": [array, {"type": "null"}]} if form.cannot else array


def _one_of(words: Sequence[str], cannot: str, language: PromptLanguage) -> dict[str, Any]:
    return {"type": "string", "enum": [*words, *([cannot_word(language)] if cannot else [])]}


def pairwise_schema(prompt: Prompt, language: PromptLanguage) -> dict[str, Any]:
    """The schema of a comparison of two."""
    words = list(load_prompt("_pairwise", language).findings.values())
    cannot = prompt.get("cannot")
    verdict: dict[str, Any] = {"type": "string", "enum": ["A", "B", "tie"]}
    if cannot:
        verdict = {"type": ["string", "null"], "enum": ["A", "B", "tie", None]}
    return strict_object(
        {"reasoning": {"type": "string"}, "finding": _one_of(words, cannot, language), "verdict": verdict}
    )


def listwise_schema(prompt: Prompt, n: int) -> dict[str, Any]:
    """The schema of a ranking of n responses."""
    numbers = {"type": "integer", "enum": list(range(1, n + 1))}
    ranks: dict[str, Any] = strict_object({str(i): numbers for i in range(1, n + 1)})
    if prompt.get("cannot"):
        ranks = {"anyOf": [ranks, {"type": "null"}]}
    return strict_object(
        {"reasoning": {"type": "string"}, "finding": {"type": "array", "items": numbers}, "verdict": ranks}
    )


def strict_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with these fields, all of them and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def batch_keys(criteria: Sequence[Criterion]) -> list[str]:
    """The field of each criterion in a reply about several: its name, or a number where the name is a sentence."""
    plain = re.compile(r"(?!c\d+$)[A-Za-z][\w:.-]{0,39}", re.ASCII)
    return [c.name if plain.fullmatch(c.name) else f"c{i}" for i, c in enumerate(criteria, 1)]
