"""Few-shot examples: judgments that show a judge where to draw the line.

    absolute    {prompt, response, reasoning, verdict: 0.5}
    pairwise    {prompt, response: [A, B], reasoning, verdict: "A", "B" or "tie"}
    listwise    {prompt, response: [1, 2, 3], reasoning, verdict: [2, 1, 2]}      ranks, 1 = best

`prompt` may be left out. Example responses are fenced like all data. The reply has the form that the judge must use,
with the finding that belongs to the verdict. If a criterion has examples, the judge is asked for one verdict, as in the
examples, even if the prompt file asks for a list of items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from reprlib import repr as brief
from typing import Any, TypeAlias

from rubrank._plain import encodable
from rubrank.errors import InvalidInput
from rubrank.judges.prompting.fence import fence
from rubrank.judges.prompting.material import as_text
from rubrank.judges.prompting.prompt_files import Prompt, fill, load_prompt
from rubrank.judges.prompting.reply_form import ReplyForm
from rubrank.rubrics.rubric import Criterion

_KEYS = ("prompt", "response", "reasoning", "verdict")
_LEVEL_OF_CHOICE = {"A": "high", "tie": "between", "B": "low"}

Example: TypeAlias = Mapping[str, Any]


def examples_of_entry(criterion: Criterion, prompt: Prompt, form: ReplyForm, examples: Sequence[Example]) -> str:
    """Judgments of one response each; the verdict is a score, or a number of the user's anchors."""
    texts = []
    for example in examples:
        _check_keys(criterion, example)
        number = _number_of(criterion, example["verdict"])
        verdict = int(number) if number == int(number) else round(number, 4)
        responses = [fence("response", as_text(example["response"]))]
        texts.append(_show_example(example, responses, form.findings.get(number), verdict))
    return _number_examples(prompt, texts)


def _number_of(criterion: Criterion, verdict: Any) -> float:
    """The number that a judge would write for the verdict of an example."""
    scale = criterion.scale
    is_number = isinstance(verdict, int | float) and not isinstance(verdict, bool)
    number = None
    if criterion.anchors:
        allowed = f"one of the anchors {', '.join(f'{n:g}' for n in scale.asked)}"
        if is_number:
            number = next((n for n in scale.asked if abs(n - verdict) <= 5e-5), None)
    else:
        allowed = f"a value of its domain ({criterion.value_domain.description})"
        if is_number:
            number = scale.number(float(verdict))
    if number is None:
        raise _invalid(criterion, "verdict", allowed, verdict)
    return number


def examples_of_pair(criterion: Criterion, prompt: Prompt, examples: Sequence[Example]) -> str:
    """Comparisons of two responses each."""
    findings = load_prompt("_pairwise", prompt.language).findings
    texts = []
    for example in examples:
        _check_keys(criterion, example)
        responses = _responses_of(criterion, example, 2)
        verdict = example["verdict"]
        if verdict not in _LEVEL_OF_CHOICE:
            raise _invalid(criterion, "verdict", '"A", "B" or "tie"', verdict)
        fenced = [fence("response_A", responses[0]), fence("response_B", responses[1])]
        texts.append(_show_example(example, fenced, findings[_LEVEL_OF_CHOICE[verdict]], verdict))
    return _number_examples(prompt, texts)


def examples_of_list(criterion: Criterion, prompt: Prompt, examples: Sequence[Example]) -> str:
    """Rankings of several responses each."""
    texts = []
    for example in examples:
        _check_keys(criterion, example)
        responses = _responses_of(criterion, example)
        ranks = example["verdict"]
        if not isinstance(ranks, list | tuple) or len(ranks) != len(responses) or 1 not in ranks:
            raise _invalid(criterion, "verdict", "a rank for each response, 1 = best", ranks)
        fenced = [fence(f"response_{i}", response) for i, response in enumerate(responses, 1)]
        best = [i for i, rank in enumerate(ranks, 1) if rank == 1]
        verdict = {str(i): rank for i, rank in enumerate(ranks, 1)}
        texts.append(_show_example(example, fenced, best, verdict))
    return _number_examples(prompt, texts)


def _check_keys(criterion: Criterion, example: Example) -> None:
    missing = [key for key in _KEYS if key != "prompt" and key not in example]
    unknown = sorted(set(example) - set(_KEYS))
    if missing or unknown:
        got = f"no {missing[0]!r}" if missing else f"{unknown[0]!r} too"
        remedy = "`prompt` may be left out."
        raise InvalidInput(f"example of {criterion.name!r}", "keys", ", ".join(_KEYS), got, remedy)


def _responses_of(criterion: Criterion, example: Example, number: int | None = None) -> list[str]:
    responses = example["response"]
    is_list = isinstance(responses, list | tuple) and len(responses) >= 2
    if not is_list or (number is not None and len(responses) != number):
        raise _invalid(criterion, "response", f"a list of {number or 'several'} responses", responses)
    return [as_text(response) for response in responses]


def _invalid(criterion: Criterion, parameter: str, allowed: str, got: Any) -> InvalidInput:
    return InvalidInput(f"example of {criterion.name!r}", parameter, allowed, brief(got), "See `rubrank help prompts`.")


def _show_example(example: Example, responses: Sequence[str], finding: Any, verdict: Any) -> str:
    """Query, responses, and the reply in the form that the judge must use."""
    lines = []
    if example.get("prompt"):
        lines.append(fence("user", as_text(example["prompt"])))
    reply = {"reasoning": encodable(str(example["reasoning"]))}
    if finding is not None:
        reply["finding"] = finding
    reply["verdict"] = verdict
    return "\n".join([*lines, *responses, json.dumps(reply, ensure_ascii=False)])


def _number_examples(prompt: Prompt, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    labels = load_prompt("_common", prompt.language).labels
    blocks = [f"{fill(labels['example'], number=number)}\n{text}" for number, text in enumerate(texts, 1)]
    return "\n\n".join([labels["examples"], *blocks])
