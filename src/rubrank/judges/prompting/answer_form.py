"""The form of a judge's reply: which values, which findings, and which of them go together.

    {"reasoning": "Names the lake, but the wrong city.", "finding": "partly accurate", "verdict": 0.5}

The finding is the reasoning in a word, said before the number. A judge whose number is not what it found (an old
weakness: the levels are mistaken for grades, or the sense of a penalty is turned round) contradicts itself, and its
verdict is missing. `agrees` says which numbers go with which finding, and leaves an honest judge room: "good" may be
0.75 or 1 on a scale of quarters, and anything from the middle up on a continuous one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from rubrank.judges.prompting.files import TONGUES, Prompt, Tongue, load_prompt, prompt_of
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Domain

Level: TypeAlias = Literal["high", "between", "low", "cannot"]
_NEAR = 5e-5  # values are written with four decimals


def spelled(value: float) -> str:
    """The value as a judge reads and writes it: 1, 0.5, 0.3333."""
    return str(int(value)) if value == int(value) else str(round(value, 4))


def nearest(domain: Domain, number: float) -> float | None:
    """The value of the domain that is meant by this number; None if it holds no such value."""
    if domain.kind == "continuous":
        return number if domain.low <= number <= domain.high else None
    return next((value for value in domain.values if abs(value - number) <= _NEAR), None)


def agrees(level: Level, value: float, domain: Domain) -> bool:
    """Does a verdict go with what was found?"""
    middle = (domain.low + domain.high) / 2
    if level == "between":
        return domain.low < value < domain.high
    inclusive = domain.kind == "continuous" and value == middle
    return inclusive or (value > middle if level == "high" else value < middle)


def levels(domain: Domain) -> tuple[Level, ...]:
    """Those that the domain has values for, best first."""
    return ("high", "low") if len(domain.values) == 2 else ("high", "between", "low")


def bare(word: object) -> str:
    """A finding without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", str(word)).casefold())


def finding_levels(criterion: Criterion) -> dict[str, Level]:
    """Every word for a finding, in either language → its level."""
    return _words([prompt_of(criterion, tongue) for tongue in TONGUES])


def pairwise_levels() -> dict[str, Level]:
    """The same for a comparison of two: high = A is better."""
    return _words([load_prompt("_pairwise", tongue) for tongue in TONGUES])


def _words(prompts: Sequence[Prompt]) -> dict[str, Level]:
    names: tuple[Level, ...] = ("high", "between", "low")
    found: dict[str, Level] = {bare(prompt.findings[level]): level for prompt in prompts for level in names}
    return found | {bare(cannot_word(tongue)): "cannot" for tongue in TONGUES}


def cannot_word(language: Tongue) -> str:
    """What a judge says that cannot judge."""
    return load_prompt("_common", language).labels["cannot"]


# ------------------------------------------------------------------------------------------------------------ in words


def listed(items: Sequence[str], language: Tongue) -> str:
    """1, 2 or 3."""
    word = load_prompt("_common", language).labels["or"]
    space = "" if language == "zh" else " "
    comma = "、" if language == "zh" else ", "
    return items[0] if len(items) == 1 else f"{comma.join(items[:-1])}{space}{word}{space}{items[-1]}"


def values_in_words(domain: Domain, language: Tongue) -> str:
    """What the verdict may be."""
    if domain.kind == "continuous":
        low, high = spelled(domain.low), spelled(domain.high)
        return f"{low} 到 {high} 之间的一个数" if language == "zh" else f"a number from {low} to {high}"
    return listed([spelled(value) for value in domain.values], language)


def pairs_in_words(prompt: Prompt, domain: Domain) -> str:
    """Which finding goes with which verdicts, as `agrees` has it."""
    zh = prompt.language == "zh"
    with_ = " 配 " if zh else " with "
    pairs = [f'"{prompt.findings[level]}"{with_}{_range(level, domain, prompt.language)}' for level in levels(domain)]
    return ("，" if zh else ", ").join(pairs)


def _range(level: Level, domain: Domain, language: Tongue) -> str:
    if domain.kind != "continuous":
        return listed([spelled(value) for value in domain.values if agrees(level, value, domain)], language)
    low, middle, high = map(spelled, (domain.low, (domain.low + domain.high) / 2, domain.high))
    if language == "zh":
        return {"high": f"{middle} 及以上", "low": f"{middle} 及以下"}.get(level, f"{low} 与 {high} 之间")
    return {"high": f"{middle} or more", "low": f"{middle} or less"}.get(level, f"anything between {low} and {high}")


# ------------------------------------------------------------------------------------------------------------- schemas


def entry_schema(prompt: Prompt, domain: Domain) -> dict[str, Any]:
    """The schema of one verdict."""
    words = [prompt.findings[level] for level in levels(domain)]
    undecided = "cannot" in prompt.sections
    verdict: dict[str, Any] = {"type": ["number", "null"] if undecided else "number"}
    if domain.kind != "continuous":
        values = [int(value) if value == int(value) else round(value, 4) for value in domain.values]
        verdict["enum"] = [*values, *([None] if undecided else [])]
    return _entry(words + ([cannot_word(prompt.language)] if undecided else []), verdict)


def pairwise_schema(prompt: Prompt, language: Tongue) -> dict[str, Any]:
    """The schema of a comparison of two."""
    words = list(load_prompt("_pairwise", language).findings.values())
    if "cannot" not in prompt.sections:
        return _entry(words, {"type": "string", "enum": ["A", "B", "tie"]})
    return _entry([*words, cannot_word(language)], {"type": ["string", "null"], "enum": ["A", "B", "tie", None]})


def listwise_schema(prompt: Prompt, n: int) -> dict[str, Any]:
    """The schema of a ranking of n responses."""
    numbers = {"type": "integer", "enum": list(range(1, n + 1))}
    ranks: dict[str, Any] = strict({str(i): numbers for i in range(1, n + 1)})
    if "cannot" in prompt.sections:
        ranks = {"anyOf": [ranks, {"type": "null"}]}
    return strict({"reasoning": {"type": "string"}, "finding": {"type": "array", "items": numbers}, "verdict": ranks})


def _entry(words: Sequence[str], verdict: Mapping[str, Any]) -> dict[str, Any]:
    finding = {"type": "string", "enum": list(words)}
    return strict({"reasoning": {"type": "string"}, "finding": finding, "verdict": verdict})


def strict(properties: Mapping[str, Any]) -> dict[str, Any]:
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
