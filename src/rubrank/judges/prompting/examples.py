"""Few-shot examples: judgments that show a judge where the line runs.

    absolute    {prompt, response, reasoning, verdict: 0.5}
    pairwise    {prompt, response: [A, B], reasoning, verdict: "A", "B" or "tie"}
    listwise    {prompt, response: [1, 2, 3], reasoning, verdict: [2, 1, 2]}      ranks, 1 = best

`prompt` may be left out. Example responses are data like any other, and fenced; the reply is shown in the very form
that is asked of the judge, its finding taken from the verdict. A criterion with examples is asked for one verdict, as
they have it, even where the library would have items listed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from reprlib import repr as brief
from typing import Any

from rubrank._plain import encodable
from rubrank.errors import InvalidInput
from rubrank.judges.prompting.fence import fence
from rubrank.judges.prompting.material import as_text
from rubrank.judges.prompting.prompt_files import Prompt, fill, load_prompt
from rubrank.judges.prompting.reply_form import Form
from rubrank.rubrics.rubric import Criterion

_KNOWN = ("prompt", "response", "reasoning", "verdict")
_PAIR = {"A": "high", "tie": "between", "B": "low"}


def examples_of_entry(criterion: Criterion, prompt: Prompt, form: Form, examples: Sequence[Mapping[str, Any]]) -> str:
    """Judgments of one response each; the verdict is a score, or a number of the user's anchors."""
    shown = []
    for example in _checked(criterion, examples):
        number = _number(criterion, example["verdict"])
        written = int(number) if number == int(number) else round(number, 4)
        reply = _reply(example, form.words.get(number), written)
        shown.append([*_query(example), fence("response", as_text(example["response"])), reply])
    return _joined(prompt, shown)


def _number(criterion: Criterion, verdict: Any) -> float:
    """What is written for it."""
    given = float(verdict) if isinstance(verdict, int | float) and not isinstance(verdict, bool) else None
    scale = criterion.scale
    if criterion.anchors:
        number = None if given is None else next((n for n in scale.asked if abs(n - given) <= 5e-5), None)
        allowed = f"one of the anchors {', '.join(f'{n:g}' for n in scale.asked)}"
    else:
        number = None if given is None else scale.number(given)
        allowed = f"a value of its domain ({criterion.value_domain.said})"
    if number is None:
        raise _wrong(criterion, "verdict", allowed, verdict)
    return number


def examples_of_pair(criterion: Criterion, prompt: Prompt, examples: Sequence[Mapping[str, Any]]) -> str:
    """Comparisons of two responses each."""
    shown = []
    findings = load_prompt("_pairwise", prompt.language).findings
    for example in _checked(criterion, examples):
        responses = _responses(criterion, example, 2)
        if example["verdict"] not in _PAIR:
            raise _wrong(criterion, "verdict", '"A", "B" or "tie"', example["verdict"])
        reply = _reply(example, findings[_PAIR[example["verdict"]]], example["verdict"])
        shown.append(
            [*_query(example), *(fence(f"response_{m}", r) for m, r in zip("AB", responses, strict=True)), reply]
        )
    return _joined(prompt, shown)


def examples_of_list(criterion: Criterion, prompt: Prompt, examples: Sequence[Mapping[str, Any]]) -> str:
    """Rankings of several responses each."""
    shown = []
    for example in _checked(criterion, examples):
        responses, ranks = _responses(criterion, example), example["verdict"]
        if not isinstance(ranks, list | tuple) or len(ranks) != len(responses) or 1 not in ranks:
            raise _wrong(criterion, "verdict", "a rank for each response, 1 = best", ranks)
        best = [i for i, rank in enumerate(ranks, 1) if rank == 1]
        reply = _reply(example, best, {str(i): rank for i, rank in enumerate(ranks, 1)})
        shown.append([*_query(example), *(fence(f"response_{i}", r) for i, r in enumerate(responses, 1)), reply])
    return _joined(prompt, shown)


def _checked(criterion: Criterion, examples: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for example in examples:
        lacking = [key for key in _KNOWN[1:] if key not in example]
        unknown = sorted(set(example) - set(_KNOWN))
        if lacking or unknown:
            got = f"no {lacking[0]!r}" if lacking else f"{unknown[0]!r} too"
            raise InvalidInput(
                f"example of {criterion.name!r}", "keys", ", ".join(_KNOWN), got, "`prompt` may be left out."
            )
    return examples


def _responses(criterion: Criterion, example: Mapping[str, Any], n: int | None = None) -> list[str]:
    given = example["response"]
    if not isinstance(given, list | tuple) or len(given) < 2 or (n is not None and len(given) != n):
        raise _wrong(criterion, "response", f"a list of {n or 'several'} responses", given)
    return [as_text(response) for response in given]


def _wrong(criterion: Criterion, parameter: str, allowed: str, got: Any) -> InvalidInput:
    return InvalidInput(f"example of {criterion.name!r}", parameter, allowed, brief(got), "See docs/prompts.md.")


def _query(example: Mapping[str, Any]) -> list[str]:
    return [fence("user", as_text(example["prompt"]))] if example.get("prompt") else []


def _reply(example: Mapping[str, Any], finding: Any, verdict: Any) -> str:
    found = {} if finding is None else {"finding": finding}
    reply = {"reasoning": encodable(str(example["reasoning"])), **found, "verdict": verdict}
    return json.dumps(reply, ensure_ascii=False)


def _joined(prompt: Prompt, shown: Sequence[Sequence[str]]) -> str:
    if not shown:
        return ""
    labels = load_prompt("_common", prompt.language).labels
    blocks = ["\n".join([fill(labels["example"], number=i), *parts]) for i, parts in enumerate(shown, 1)]
    return "\n\n".join([labels["examples"], *blocks])
