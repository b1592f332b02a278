"""NeMo Gym: the service as a resources server, as version 0.7 calls one.

    POST /verify              {"responses_create_params": {"input": [{"role": "user", "content": "Name …"}]},
                               "response": {"output": […]}, …}
                              {… the same …, "reward": 0.75, "reward_components": {"Facts": 1.0, …}}
    POST /seed_session        {"resources_session_id": "7"} → the same, with a cookie; there is nothing to prepare
    POST /close_session       {"resources_session_id": "7"} → the same; there is nothing to release
    POST /aggregate_metrics   {"verify_responses": […]} → means over all samples and over those of each task
    GET  /reverify_mode       "unsupported": a sample by itself is in no group

The prompt is `responses_create_params.input`, the response the messages of `response.output`; every other field of the
row is what a label is elsewhere, and may hold the query's own rubric, `group_id` or `group_size`. A sample about which
nothing is known is masked (`mask_sample`), and of the failure kind and class "judge_failed", by which NeMo Gym keeps it
out of its scores and tries it again. Siblings that did not come are a note ("cohort_incomplete"), and no mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.dialects.reading import SampleReading
from rubrank.service.samples import SampleAnswer, ServiceSample
from rubrank.service.wire import mapping
from rubrank.training.finishing import named_reason

WHERE = "NeMo Gym"
_PARAMS, _RESPONSE = "responses_create_params", "response"
_TRUNCATED = "incomplete"
_LARGEST = 1e100  # of a reward; more, or NaN, is none, and has no mean
_THEIRS = "_ng_"
_TASK = f"{_THEIRS}task_index"
SESSION = "resources_session_id"
REVERIFY = "unsupported"


def samples(data: Any, reading: SampleReading) -> list[ServiceSample]:
    """The one sample of a call."""
    body = mapping(data)
    params, response = mapping(body.get(_PARAMS), _PARAMS), mapping(body.get(_RESPONSE), _RESPONSE)
    row = {key: value for key, value in body.items() if key not in (_PARAMS, _RESPONSE) and not key.startswith(_THEIRS)}
    if params.get("tools"):
        row.setdefault("tools", _tools(params["tools"]))
    # Of NeMo Gym's keys only this one is no other rollout's, whatever step or epoch it is of.
    extra = {} if body.get("_ng_rollout_id") is None else {"sample_id": body["_ng_rollout_id"]}
    prompt, reason = _prompt(params), _finish_reason(response)
    return [reading.sample(prompt, _said(response), row, {**row, **extra}, where=WHERE, finish_reason=reason)]


def answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The row again, with the reward and its parts. Parts without a score are 0: NeMo Gym wants the same names."""
    one = answers[0]
    unknown = isnan(one.reward)
    parts = {name: 0.0 if value is None or isnan(value) else value for name, value in one.scores.items()}
    found = {**body, "reward": one.usable, "reward_components": parts, "mask_sample": unknown}
    if unknown:
        reason = next((why for name, why in one.reasons.items() if isnan(one.scores[name])), "nothing is known")
        found |= {"failure_kind": "judge_failed", "failure_reason": reason, **failure_class(body, reason)}
    elif not one.complete:
        why = f"scored with {one.samples} of {one.size} samples: the others did not come in time"
        found |= {"failure_kind": "cohort_incomplete", "failure_reason": why}
    return found


def failure_class(body: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """What routes a sample to the failures that are tried again, where an agent asks; its rows have keys of NeMo Gym's
    own. Environment servers refuse those keys, and go by the mask."""
    if not any(key.startswith(_THEIRS) for key in body):
        return {}
    return {f"{_THEIRS}failure_class": "judge_failed", f"{_THEIRS}failure_judge_error": reason}


def session(body: Any) -> dict[str, Any]:
    """What a session is answered that begins or ends: its id, where it has one."""
    return {SESSION: body[SESSION]} if mapping(body).get(SESSION) is not None else {}


def aggregated(body: Any) -> dict[str, Any]:
    """Means of rewards and of their parts, over all samples that are not masked, and over those of each task.

    Fused rewards say who is better within a group: the headline is the mean of each part.
    """
    every = mapping(body).get("verify_responses")
    if not isinstance(every, list):
        raise InvalidInput(WHERE, "verify_responses", "a list", type(every).__name__, "")
    rows = [mapping(one, "verify_responses") for one in every]
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(repr(row.get(_TASK)), []).append(row)
    means = _means(rows)
    masked = sum(bool(row.get("mask_sample")) for row in rows)
    return {
        "group_level_metrics": [{_TASK: some[0].get(_TASK), **_means(some)} for some in tasks.values()],
        "agent_metrics": {**means, "samples": len(rows), "masked": masked},
        "key_metrics": {name: value for name, value in means.items() if name != "mean/reward"},
        "repeat_level_metrics": [],
    }


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.get("mask_sample"):
            continue
        parts = row.get("reward_components")
        named = {"reward": row.get("reward"), **(parts if isinstance(parts, Mapping) else {})}
        for name, value in named.items():
            if isinstance(value, int | float) and abs(value) <= _LARGEST:
                values.setdefault(f"mean/{name}", []).append(value)
    return {name: fsum(some) / len(some) for name, some in values.items()}


def _finish_reason(response: Mapping[str, Any]) -> str | None:
    """Why sampling ended. NeMo Gym's agents call one without an answer incomplete too, and say so in its metadata."""
    details = response.get("incomplete_details")
    if isinstance(details, Mapping) and details.get("reason"):
        return named_reason(details["reason"])
    if response.get("status") != _TRUNCATED:
        return None
    metadata = response.get("metadata")
    ended = isinstance(metadata, Mapping) and metadata.get("ng_termination_reason")
    return "stop" if ended else "length"


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
