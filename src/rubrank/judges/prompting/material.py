"""What a judge is shown: the conversation, reference material, tool calls, responses; all of it fenced.

    <user 5d41402abc4b>
    Name a lake in Hangzhou.
    </user 5d41402abc4b>

Everything is shown whole, however long it is: a judge that sees half a response judges another one. Thoughts are left
out; a reader does not see them either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rubrank.judges.judge import Language
from rubrank.judges.prompting.fence import defuse, fence
from rubrank.judges.prompting.prompt_files import Prompt, PromptLanguage, fill
from rubrank.rollouts.rollout import Message, Rollout, ToolCall
from rubrank.rubrics.rubric import Criterion

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_OTHER = re.compile("[\u3040-\u30ff\uac00-\ud7af]|[^\\W\\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_LOOKED_AT = 20_000  # characters of the query that show its language


def choose_language(language: Language, rollout: Rollout) -> PromptLanguage:
    """The language to ask in: as said, or Chinese where the query has more Han characters than other words."""
    if language != "auto":
        return language
    query = (rollout.question or "\n".join(message.content for message in rollout.prompt))[:_LOOKED_AT]
    return "zh" if len(_HAN.findall(query)) > len(_OTHER.findall(query)) else "en"


def conversation(rollout: Rollout, labels: Mapping[str, str]) -> str:
    """All messages before the response, and the tools on offer."""
    parts = [labels["conversation"] if rollout.prompt else labels["no_conversation"]]
    parts += [piece for message in rollout.prompt for piece in _message(message)]
    if rollout.tools:
        parts += [labels["tools"], fence("tools", "\n".join(map(as_json, rollout.tools)))]
    return "\n".join(parts)


def _message(message: Message) -> Iterable[str]:
    if message.content or not message.tool_calls:
        yield fence(message.role, message.content)
    if message.tool_calls:
        yield fence("tool_calls", _calls(message.tool_calls))


def response(rollout: Rollout, labels: Mapping[str, str], mark: str = "") -> str:
    """The response as a reader sees it, and the tool calls made on the way."""
    parts = []
    if rollout.tool_calls:
        parts += [labels["called"], fence(f"tool_calls{mark}", _calls(rollout.tool_calls))]
    parts.append(fence(f"response{mark}", rollout.answer))
    return "\n".join([*parts, *([] if rollout.answer.strip() else [labels["empty"]])])


def _calls(calls: Sequence[ToolCall]) -> str:
    return "\n".join(as_json(call.model_dump(exclude_defaults=True)) for call in calls)


# --------------------------------------------------------------------------------------------------------- references


def references(criterion: Criterion, prompt: Prompt, rollouts: Sequence[Rollout], labels: Mapping[str, str]) -> str:
    """The criterion's material, or what the judge is told in its absence; nothing where nothing is needed."""
    found = _found(criterion, prompt, rollouts)
    blocks = [fence("reference", text) for text in found]
    if _lacks(prompt, rollouts[0], bool(found)) and (without := prompt.get("without")):
        blocks.append(without)
    heading = fill(labels["reference"], name=one_line(criterion.name))
    return "\n".join([heading, *blocks]) if blocks else ""


def _found(criterion: Criterion, prompt: Prompt, rollouts: Sequence[Rollout]) -> list[str]:
    values = _values(criterion, prompt, rollouts)
    return list(dict.fromkeys(as_text(value) for value in values if _is_there(value)))


def _values(criterion: Criterion, prompt: Prompt, rollouts: Sequence[Rollout]) -> list[Any]:
    values = [criterion.reference]
    for key in prompt.needs.get("reference", ()):
        sources = [criterion.params, *(rollout.metadata for rollout in rollouts)]
        values.append(next((source[key] for source in sources if _is_there(source.get(key))), None))
    return values


def reference_count(criterion: Criterion, prompt: Prompt, rollouts: Sequence[Rollout]) -> int | None:
    """How many pieces the reference has, where it is a list; None: it does not say."""
    found = [value for value in _values(criterion, prompt, rollouts) if _is_there(value)]
    sizes = {len(value) if isinstance(value, list | tuple) else None for value in found}
    return sizes.pop() if len(sizes) == 1 else None


def _is_there(value: Any) -> bool:
    return value is not None and as_text(value).strip() not in ("", "[]", "{}")


def _lacks(prompt: Prompt, rollout: Rollout, has_reference: bool) -> bool:
    roles = {message.role for message in rollout.prompt}
    there = {
        "reference": has_reference,
        "system prompt": bool(roles & {"system", "developer"}),
        "earlier turns": "assistant" in roles,
    }
    return not all(there[need] for need in prompt.needs)


def parameters(criterion: Criterion, prompt: Prompt, labels: Mapping[str, str]) -> str:
    """The criterion's parameters in words, but for those that are reference material."""
    material = prompt.needs.get("reference", ())
    given = {name: value for name, value in criterion.params.items() if name not in material and _is_there(value)}
    lines = [f"- {_in_words(name, value, prompt, labels)}" for name, value in given.items()]
    return "\n".join([labels["params"], *lines]) if lines else ""


def _in_words(name: str, value: Any, prompt: Prompt, labels: Mapping[str, str]) -> str:
    exact = prompt.params.get(f"{name}={str(value).lower()}")
    if exact is not None:
        return exact
    items = value if isinstance(value, list | tuple) else [value]
    text = one_line(", ".join(as_json(item) for item in items))
    sentence = prompt.params.get(name)
    return sentence.replace("{}", text) if sentence else fill(labels["param"], name=one_line(name), value=text)


# --------------------------------------------------------------------------------------------------------- plain text


def as_text(value: Any) -> str:
    """A text as it is, a list of texts as lines, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(f"- {item}" if isinstance(item, str) else as_json(item) for item in value)
    return as_json(value)


def as_json(value: Any) -> str:
    """JSON that people can read; whatever JSON does not know is written as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_mapping_or_text)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _mapping_or_text(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def one_line(text: str) -> str:
    """The text without line breaks, as it may stand in a sentence of ours."""
    return " ".join(defuse(text).split())
