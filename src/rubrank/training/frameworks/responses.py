"""A request of NeMo Gym, whose prompts and responses are OpenAI's Responses API → prompt, row, completion.

    gym_sample({"responses_create_params": {"input": "Name a lake.", "instructions": "Be brief."},
                "response": {"output": [{"type": "message", "content": "West Lake."}], "status": "completed"},
                "answer": "West Lake"})
    prompt      [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a lake."}]
    row         {"answer": "West Lake"}
    completion  Completion([{"role": "assistant", "content": "West Lake."}], "stop")

The adapter and the service both read by it, so that a sample has one reward wherever it is sent.

Items become chat messages. Reasoning belongs to what follows it, a message or a call; a response that ends in it has
thoughts and no answer. Calls belong to the message before them. Pieces of reasoning are joined as blocks in tags are,
by a blank line. `instructions` are the system's message, and `tools` those on offer unless the row has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.queries import Completion
from rubrank.training.rollouts import normalize_finish_reason

OWNER = "NeMo Gym"
THEIRS = "_ng_"
"""Keys of NeMo Gym's own begin with it; they are no part of the row."""
_PARAMS, _RESPONSE = "responses_create_params", "response"


@dataclass(frozen=True, eq=False)
class GymSample:
    """What one call of /verify holds."""

    body: Mapping[str, Any]
    prompt: list[dict[str, Any]]
    row: Mapping[str, Any]
    """The fields beside the two: rubric, ids, what verifiers need; with the tools that were on offer."""
    completion: Completion


def gym_sample(data: Any) -> GymSample:
    """The sample of a request, as JSON or in NeMo Gym's own classes."""
    body = _plain(data)
    if not isinstance(body, Mapping):
        raise InvalidInput(OWNER, "body", "an object", type(body).__name__, "")
    params, response = _plain(body.get(_PARAMS)), _plain(body.get(_RESPONSE))
    if not isinstance(params, Mapping) or params.get("input") is None or not isinstance(response, Mapping):
        got = ", ".join(f"{name}: {type(value).__name__}" for name, value in body.items()) or "nothing"
        raise InvalidInput(OWNER, "body", f"with {_PARAMS}.input and a {_RESPONSE}", got[:200], "")
    row = {key: value for key, value in body.items() if key not in (_PARAMS, _RESPONSE) and not key.startswith(THEIRS)}
    if row.get("tools") is None and params.get("tools"):
        row["tools"] = _tools(params["tools"])
    return GymSample(body, _prompt(params), row, _completion(response))


def failed(body: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """What an answer says about a sample on which judges failed: that it is masked, and why.

    Where an agent asks (its rows have keys of NeMo Gym's own) the failure class too, by which the sample is tried
    again; environment servers refuse those keys, and go by the mask.
    """
    found = {"mask_sample": True, "failure_kind": "judge_failed", "failure_reason": reason}
    if any(key.startswith(THEIRS) for key in body):
        found |= {f"{THEIRS}failure_class": "judge_failed", f"{THEIRS}failure_judge_error": reason}
    return found


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


# -------------------------------------------------------------------------------------------------------------- prompts


def _prompt(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    given, where = params["input"], f"{_PARAMS}.input"
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else _messages(given, where)
    if not messages:
        raise InvalidInput(OWNER, where, "a text or messages", "none", "")
    told = params.get("instructions")
    return [{"role": "system", "content": told}, *messages] if isinstance(told, str) and told else messages


def _tools(tools: Any) -> list[Any] | None:
    """Tools of the Responses API are flat; ours, as in chat APIs, have a `function`."""
    if not isinstance(tools, list | tuple):
        return None
    every = [_plain(tool) for tool in tools]
    flat = [tool for tool in every if isinstance(tool, Mapping) and tool.get("type") == "function"]
    return [
        tool if "function" in tool else {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}
        for tool in flat
    ]


# ------------------------------------------------------------------------------------------------------------ responses


def _completion(response: Mapping[str, Any]) -> Completion:
    said = _messages(response.get("output"), f"{_RESPONSE}.output", "assistant")
    usage = _mapping(response.get("usage"))
    thought = _number(_mapping(usage.get("output_tokens_details")).get("reasoning_tokens"))
    # An endpoint that does not count thoughts says 0, as the field must be there.
    return Completion(
        said, _ended(response), tokens=_number(usage.get("output_tokens")), reasoning_tokens=thought or None
    )


def _ended(response: Mapping[str, Any]) -> str | None:
    """Why sampling ended. NeMo Gym's agents call a response without an answer incomplete too, and say so in its
    metadata: nobody cut that one off."""
    reason = normalize_finish_reason(_mapping(response.get("incomplete_details")).get("reason"))
    if reason is not None:
        return reason
    status = response.get("status")
    if status == "incomplete":
        return "stop" if _mapping(response.get("metadata")).get("ng_termination_reason") else "length"
    return normalize_finish_reason(status) if status == "completed" else None


def _messages(items: Any, where: str, speaker: str | None = None) -> list[dict[str, Any]]:
    """Items as chat messages. speaker: of those without a role; None: they are no messages."""
    if not isinstance(items, list | tuple):
        raise InvalidInput(OWNER, where, "a list", type(items).__name__, "")
    turns = _Turns(speaker)
    for given in items:
        item = _plain(given)
        if not isinstance(item, Mapping):
            raise InvalidInput(OWNER, where, "a list of objects", type(item).__name__, "")
        turns.add(item)
    turns.end()
    return turns.said


class _Turns:
    """Messages as they come about, item by item."""

    def __init__(self, speaker: str | None) -> None:
        self.said: list[dict[str, Any]] = []
        self._speaker = speaker
        self._thoughts: list[str] = []

    def add(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type") or "message"
        if kind == "reasoning":
            self._thoughts += _pieces(item.get("summary")) or _pieces(item.get("content"))
        elif kind == "function_call":
            self._call({"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments", {})})
        elif kind == "function_call_output":
            self.end()
            self.said.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind == "message" and (role := item.get("role") or self._speaker):
            self._message(role, "".join(_pieces(item.get("content"))))

    def end(self) -> None:
        """Thoughts that nothing follows are a turn without an answer."""
        if self._thoughts:
            self._message("assistant", "")

    def _message(self, role: str, text: str) -> None:
        if role != "assistant":
            self.end()
        thoughts = "\n\n".join(piece.strip("\r\n") for piece in self._thoughts if piece.strip())
        self._thoughts = []
        self.said.append({"role": role, "content": text, **({"reasoning_content": thoughts} if thoughts else {})})

    def _call(self, call: dict[str, Any]) -> None:
        if self._thoughts or not self.said or self.said[-1]["role"] != "assistant":
            self._message("assistant", "")
        self.said[-1].setdefault("tool_calls", []).append(call)


def _pieces(content: Any) -> list[str]:
    """The texts of a content, which is one or has parts; a refusal is what was said, too."""
    if isinstance(content, str):
        return [content]
    parts = [_plain(part) for part in content] if isinstance(content, list | tuple) else []
    texts = [part if isinstance(part, str) else _part(part) for part in parts]
    return [text for text in texts if text]


def _part(part: Any) -> str:
    said = part.get("text") or part.get("refusal") if isinstance(part, Mapping) else None
    return said if isinstance(said, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    found = _plain(value)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
