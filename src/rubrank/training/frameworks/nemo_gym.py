"""NeMo Gym: the verify function of a resources server, over the groups of a prompt.

    verify = RubricVerifier("reward.yaml", num_rollouts_per_prompt=8)

    async def verify_endpoint(body):                 POST /verify of your resources server
        return await verify(body)

Input. NeMo Gym verifies one sample per call, but rewards are computed for whole groups. So each call waits in a
`Barrier` until `num_rollouts_per_prompt` samples of the same prompt and row have arrived (`barrier.py`).

Output. NeMo Gym gets the request with its `reward`. If judges fail for a sample, its answer is masked (`mask_sample`)
with the failure kind `judge_failed`, and its reward is the mean of the group, or 0 if the whole group failed. If an
agent sent the request, the answer also has that failure class, and NeMo Gym tries the sample again.

Rows. All fields of the request except the prompt, the response and NeMo Gym's own form the row: the `rubric`, and what
verifiers need, such as a reference answer. If the row has a `group_id`, `uid` or `id`, that alone decides which samples
belong together.

Messages. Prompts and responses are those of OpenAI's Responses API. `read_request` reads them for this adapter and for
the service, so that a sample has the same reward wherever it is sent:

    read_request({"responses_create_params": {"input": "Name a lake.", "instructions": "Be brief."},
                  "response": {"output": [{"type": "message", "content": "West Lake."}], "status": "completed"},
                  "answer": "West Lake"})
    prompt      [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a lake."}]
    row         {"answer": "West Lake"}
    completion  Completion([{"role": "assistant", "content": "West Lake."}], "stop")

Items become chat messages. Reasoning belongs to the message or call that follows it; a response that ends in reasoning
has no answer. Calls belong to the message before them. Pieces of reasoning are joined by a blank line, as blocks in
tags are. `instructions` are the system message, and `tools` those of the query unless the row has its own.

Tested over HTTP with the service, with requests and answers in NeMo Gym's schema classes, or in stand-ins of them where
it is not installed. Its agents and environment servers were not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.training.barrier import Barrier
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.queries import Completion, make_query, to_plain_data
from rubrank.training.rollouts import normalize_finish_reason

OWNER = "NeMo Gym"
PRIVATE_PREFIX = "_ng_"
"""Keys of NeMo Gym itself begin with it; they are not part of the row."""
_PARAMS = "responses_create_params"
_RESPONSE = "response"
_GROUP_KEYS = ("group_id", "uid", "id")


class RubricVerifier:
    """Call it with the body of `/verify`, in one event loop. train: False for an evaluation."""

    def __init__(
        self,
        engine: EngineSource = None,
        *,
        num_rollouts_per_prompt: int,
        timeout: float = 3600.0,
        train: bool = True,
    ) -> None:
        self.engine, self._rubric_column = load_engine(engine, OWNER, passes_step=False)
        self.barrier = Barrier(self.engine, num_rollouts_per_prompt, timeout=timeout)
        self.train = train

    async def __call__(self, body: Any) -> dict[str, Any]:
        """Return the body of a request, with its `reward`."""
        request = read_request(body)
        row = request.row
        query = make_query(request.prompt, row, rubric_column=self._rubric_column)
        group_key = next((row[name] for name in _GROUP_KEYS if row.get(name) is not None), None)
        key = repr((request.prompt, row) if group_key is None else group_key)
        rollout = request.completion.to_rollout(query, self.engine.thinking, OWNER)
        try:
            sample = await self.barrier.score(
                key, rollout, step=0, rubric=query.rubric, train=self.train
            )
        except (JudgeOutage, JudgingFailed) as error:
            return {**request.body, "reward": 0.0, **failure_fields(request.body, str(error))}
        answer = {**request.body, "reward": sample.filled}
        if not sample.is_known:
            answer |= failure_fields(request.body, "the sample has no score")
        return answer


def failure_fields(body: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return fields that mask a sample for which judges failed, and say why.

    Requests of agents have private keys of NeMo Gym; their answers also get a failure class, so that NeMo Gym tries the
    sample again. Environment servers refuse private keys, and use the mask.
    """
    fields: dict[str, Any] = {
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": reason,
    }
    if any(key.startswith(PRIVATE_PREFIX) for key in body):
        fields[f"{PRIVATE_PREFIX}failure_class"] = "judge_failed"
        fields[f"{PRIVATE_PREFIX}failure_judge_error"] = reason
    return fields


# ------------------------------------------------------------------------------------------------------------ requests


@dataclass(frozen=True, eq=False)
class VerifyRequest:
    """The contents of one call of /verify."""

    body: Mapping[str, Any]
    prompt: list[dict[str, Any]]
    row: Mapping[str, Any]
    """The other fields: rubric, ids, what verifiers need, and the tools of the query."""
    completion: Completion


def read_request(data: Any) -> VerifyRequest:
    """Read a request, given as JSON data or as NeMo Gym's own classes."""
    body = to_plain_data(data)
    params = body.get(_PARAMS) if isinstance(body, Mapping) else None
    response = body.get(_RESPONSE) if isinstance(body, Mapping) else None
    has_input = isinstance(params, Mapping) and params.get("input") is not None
    if not has_input or not isinstance(response, Mapping):
        got = type(body).__name__
        if isinstance(body, Mapping):
            got = ", ".join(f"{name}: {type(value).__name__}" for name, value in body.items())
        raise InvalidInput(
            OWNER,
            "body",
            allowed=f"an object with {_PARAMS}.input and {_RESPONSE}",
            got=got[:200] or "nothing",
        )
    assert isinstance(params, Mapping)
    row = {
        key: value
        for key, value in body.items()
        if key not in (_PARAMS, _RESPONSE) and not key.startswith(PRIVATE_PREFIX)
    }
    if row.get("tools") is None and params.get("tools"):
        row["tools"] = _read_tools(params["tools"])
    return VerifyRequest(body, _read_prompt(params), row, _read_completion(response))


def _read_prompt(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a prompt, which is a text or items."""
    where = f"{_PARAMS}.input"
    if isinstance(params["input"], str):
        messages = [{"role": "user", "content": params["input"]}]
    else:
        messages = _read_messages(params["input"], where)
    if not messages:
        raise InvalidInput(OWNER, where, allowed="a text or messages", got="none", remedy="")
    instructions = params.get("instructions")
    if isinstance(instructions, str) and instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    return messages


def _read_tools(tools: Any) -> list[Any] | None:
    """Return tools of the Responses API, which are flat, as those of chat APIs, which have a `function`."""
    if not isinstance(tools, list | tuple):
        return None
    functions = []
    for tool in tools:
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            continue
        if "function" not in tool:
            tool = {
                "type": "function",
                "function": {key: tool[key] for key in tool if key != "type"},
            }
        functions.append(tool)
    return functions


def _read_completion(response: Mapping[str, Any]) -> Completion:
    """Return the messages of a response, with its finish reason and token counts."""
    messages = _read_messages(response.get("output"), f"{_RESPONSE}.output", "assistant")
    usage = _to_mapping(response.get("usage"))
    details = _to_mapping(usage.get("output_tokens_details"))
    reasoning_tokens = _to_count(details.get("reasoning_tokens"))
    status = response.get("status")
    reason = normalize_finish_reason(_to_mapping(response.get("incomplete_details")).get("reason"))
    if reason is None and status == "completed":
        reason = "stop"
    elif reason is None and status == "incomplete":
        # NeMo Gym's agents also call a response without an answer incomplete, and say so in its metadata.
        termination_reason = _to_mapping(response.get("metadata")).get("ng_termination_reason")
        reason = "stop" if termination_reason else "length"
    return Completion(
        messages,
        reason,
        tokens=_to_count(usage.get("output_tokens")),
        # The field is required, so endpoints that do not count reasoning report 0.
        reasoning_tokens=reasoning_tokens or None,
    )


def _read_messages(items: Any, where: str, default_role: str | None = None) -> list[dict[str, Any]]:
    """Return items of the Responses API as chat messages.

    default_role: of message items without a role; None: they are skipped.
    """
    if not isinstance(items, list | tuple):
        raise InvalidInput(OWNER, where, allowed="a list", got=type(items).__name__, remedy="")
    conversation = _Conversation()
    for item in items:
        if not isinstance(item, Mapping):
            raise InvalidInput(
                OWNER, where, allowed="a list of objects", got=type(item).__name__, remedy=""
            )
        kind = item.get("type") or "message"
        role = item.get("role") or default_role
        if kind == "reasoning":
            texts = _read_texts(item.get("summary")) or _read_texts(item.get("content"))
            conversation.reasoning += texts
        elif kind == "function_call":
            call = {
                "id": item.get("call_id"),
                "name": item.get("name"),
                "arguments": item.get("arguments", {}),
            }
            conversation.add_tool_call(call)
        elif kind == "function_call_output":
            conversation.end_turn()
            conversation.messages.append(
                {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            )
        elif kind == "message" and role:
            if role != "assistant":
                conversation.end_turn()
            conversation.add_message(role, "".join(_read_texts(item.get("content"))))
    conversation.end_turn()
    return conversation.messages


class _Conversation:
    """Chat messages that are built item by item.

    The Responses API has an item for each message, call, result and piece of reasoning; chat APIs have messages, which
    contain reasoning and calls.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reasoning: list[str] = []
        """Pieces that belong to the next message or call."""

    def add_message(self, role: str, text: str) -> None:
        """Add a message, with the reasoning that came before it."""
        message: dict[str, Any] = {"role": role, "content": text}
        pieces = [piece.strip("\r\n") for piece in self.reasoning if piece.strip()]
        if pieces:
            message["reasoning_content"] = "\n\n".join(pieces)
        self.reasoning = []
        self.messages.append(message)

    def add_tool_call(self, call: dict[str, Any]) -> None:
        """Add a call to the assistant's last message, or to a new one if reasoning came before it."""
        is_assistants_turn = bool(self.messages) and self.messages[-1]["role"] == "assistant"
        if self.reasoning or not is_assistants_turn:
            self.add_message("assistant", "")
        self.messages[-1].setdefault("tool_calls", []).append(call)

    def end_turn(self) -> None:
        """Add reasoning that nothing follows as a message without an answer."""
        if self.reasoning:
            self.add_message("assistant", "")


def _read_texts(content: Any) -> list[str]:
    """Return the texts of a content, which is one text or a list of parts; a refusal is an answer, too."""
    if isinstance(content, str):
        return [content]
    texts = []
    for item in content if isinstance(content, list | tuple) else ():
        part = item
        if isinstance(item, Mapping):
            part = item.get("text") or item.get("refusal")
        if isinstance(part, str) and part:
            texts.append(part)
    return texts


def _to_mapping(value: Any) -> Mapping[str, Any]:
    """Return the fields of an object; none if the value is not an object."""
    return value if isinstance(value, Mapping) else {}


def _to_count(value: Any) -> int | None:
    """Return a number of tokens; None if the endpoint reported something else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value >= 0 else None
