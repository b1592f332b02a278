"""NeMo Gym: the service as a resources server, `POST /verify` and `POST /seed_session`.

    {"responses_create_params": {"input": [{"role": "user", "content": "Name …"}]}, "response": {"output": […]}, …}
    {… the same …, "reward": 0.75, "reward_components": {"Facts": 1.0, …}}

The prompt is `responses_create_params.input`, the response the messages of `response.output`; every other field of the
row is what a label is elsewhere, and may hold the query's own rubric, `group_id` or `group_size`. A sample about which
nothing is known is masked: `mask_sample` is true and `failure_kind` says why: judges failed ("judge_failed"), or its
siblings did not come ("cohort_timeout", a note and no mask).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.cohorts import Answer, Sample
from rubrank.service.dialects.reading import Reading
from rubrank.service.wire import mapping

WHERE = "NeMo Gym"
_PARAMS, _RESPONSE = "responses_create_params", "response"
_TRUNCATED = "incomplete"


def samples(data: Any, reading: Reading) -> list[Sample]:
    """The one sample of a call."""
    body = mapping(data)
    params, response = mapping(body.get(_PARAMS), _PARAMS), mapping(body.get(_RESPONSE), _RESPONSE)
    row = {key: value for key, value in body.items() if key not in (_PARAMS, _RESPONSE) and not key.startswith("_ng_")}
    if params.get("tools"):
        row.setdefault("tools", _tools(params["tools"]))
    extra = {} if body.get("_ng_rollout_id") is None else {"sample_id": body["_ng_rollout_id"]}
    reason = "length" if response.get("status") == _TRUNCATED else None
    prompt = _prompt(params)
    return [reading.sample(prompt, _said(response), row, {**row, **extra}, where=WHERE, finish_reason=reason)]


def answer(body: Any, answers: Sequence[Answer]) -> Any:
    """The row again, with the reward and its parts. Parts without a score are 0: NeMo Gym wants the same names."""
    one = answers[0]
    unknown = isnan(one.reward)
    parts = {name: 0.0 if value is None or isnan(value) else value for name, value in one.scores.items()}
    found = {**body, "reward": one.usable, "reward_components": parts, "mask_sample": unknown}
    if unknown:
        reason = next((why for name, why in one.reasons.items() if isnan(one.scores[name])), "nothing is known")
        found |= {"failure_kind": "judge_failed", "failure_reason": reason}
    elif not one.complete:
        why = f"scored with {one.samples} of {one.size} samples: the others did not come in time"
        found |= {"failure_kind": "cohort_timeout", "failure_reason": why}
    return found


def _prompt(params: Mapping[str, Any]) -> Any:
    given = params.get("input")
    if isinstance(given, str):
        messages: list[Any] = [{"role": "user", "content": given}]
    elif isinstance(given, list):
        messages = [_message(item) for item in given if isinstance(item, Mapping) and "role" in item]
    else:
        messages = []
    if not messages:
        raise InvalidInput(WHERE, f"{_PARAMS}.input", "a text or messages", type(given).__name__, "")
    if isinstance(params.get("instructions"), str):
        messages.insert(0, {"role": "system", "content": params["instructions"]})
    return messages


def _said(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a response as chat messages: reasoning, calls with what came back, texts."""
    output = response.get("output")
    if not isinstance(output, list):
        raise InvalidInput(WHERE, f"{_RESPONSE}.output", "a list", type(output).__name__, "")
    said: list[dict[str, Any]] = []
    thoughts = ""
    for item in output:
        if not isinstance(item, Mapping):
            raise InvalidInput(WHERE, f"{_RESPONSE}.output", "a list of objects", type(item).__name__, "")
        kind = item.get("type", "message")
        if kind == "reasoning":
            thoughts += _text(item.get("summary")) or _text(item.get("content"))
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments") or {}}
            said.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            said.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind == "message":
            said.append({**_message(item), "reasoning_content": thoughts or None})
            thoughts = ""
    return said


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": item.get("role", "assistant"), "content": _text(item.get("content"))}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _tools(tools: Any) -> Any:
    """Tools of the Responses API are flat; ours, as in chat APIs, have a `function`."""
    if not isinstance(tools, list):
        return None
    flat = [tool for tool in tools if isinstance(tool, Mapping) and tool.get("type") == "function"]
    return [
        tool if "function" in tool else {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}
        for tool in flat
    ]
