"""Convert what public formats hold to the keys of `Rollout`: chat messages, tool calls, and rows of datasets.

    convert_message({"role": "tool", "tool_call_id": "c1", "content": "no such file", "is_error": True})
    {"role": "tool", "content": "no such file", "tool_call_id": "c1", "error": True}

    convert_tool_calls([{"id": 7, "function": {"name": "search", "arguments": '{"query": "lakes"}'}}])
    [{"name": "search", "id": "7", "arguments": {"query": "lakes"}}]

What cannot be converted is left unchanged, so that `Message` and `ToolCall` refuse it and name the field.

`convert_shape` converts rows of these formats to rows with a prompt and responses:

    ShareGPT         {"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}]}
    conversations    {"messages": [{"role": "user", …}, {"role": "assistant", …}]}
    preferences      {"prompt": …, "chosen": …, "rejected": …}
    verl             {"prompt": […], "reward_model": {"style": "rule", "ground_truth": "42"}, …}
    Alpaca           {"instruction": …, "input": …, "output": …}
    lettered         {"prompt": …, "response_a": …, "response_b": …, …}
    OpenAI batch     {"custom_id": …, "response": {"body": {"choices": [{"message": …}]}}}
    lm-eval          {"doc_id": …, "doc": {…}, "arguments": …, "resps": [[…]]}
    promptfoo        {"vars": {…}, "prompt": {"raw": …}, "response": {"output": …}, "provider": {"id": …}}

The response of a conversation is everything after the last turn of the user. A preference has two responses. The ground
truth of verl becomes metadata. The input of Alpaca is appended to the prompt. A row in which responses could be in two
places is refused; the error names both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.tables.columns import COLUMNS
from rubrank.tables.sources import Row

_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "system": "system",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
    "function_call": "assistant",
}
_PREFERENCE_COLUMNS = ("chosen", "rejected")
_SHAREGPT_COLUMN = "conversations"
CONVERSATION_COLUMNS = ("messages", "conversation", "prompt")


# ------------------------------------------------------------------------------------------ messages and tool calls


def parse_json_cell(value: Any) -> Any:
    """Return the parsed content of a cell that holds a JSON object or list as text; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def are_messages(value: Any) -> bool:
    """Whether a value is a list of chat messages, rather than of texts, and not empty."""
    if hasattr(value, "tolist"):  # an array, as pandas and Parquet have lists
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(message, Mapping) and "role" in message for message in value)


def find_reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that a chat message has in a separate field; None if there is none."""
    # Chat APIs use the first name; the others are those of columns.
    for name in ("reasoning_content", *COLUMNS["reasoning"]):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    return None


def convert_message(message: Row) -> dict[str, Any]:
    """Return a chat message with the keys of `Message`; content in parts is joined.

    A tool may return any value, which is written as text. Other content that is not a text, such as a number, is left
    unchanged.
    """
    role = message["role"]
    content = _join_content(message.get("content"))
    if role == "tool" and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, default=str)
    converted = {"role": "user" if role == "human" else role, "content": content}
    calls: Any = message.get("tool_calls")
    if hasattr(calls, "tolist"):
        calls = calls.tolist()
    calls = parse_json_cell(calls)
    if calls:
        is_list = isinstance(calls, list | tuple)
        converted["tool_calls"] = convert_tool_calls(calls) if is_list else calls
    reasoning = find_reasoning(message)
    if reasoning is not None:
        converted["reasoning"] = reasoning
    if message.get("tool_call_id") is not None:
        converted["tool_call_id"] = str(message["tool_call_id"])
    if role == "tool" and has_failed(message):
        converted["error"] = True
    return converted


def convert_response_message(message: Row) -> dict[str, Any]:
    """Return a message of a response with the keys of `Message`.

    Unlike in a prompt, an object that a tool returned stays an object: it becomes the result of a call.
    """
    converted = convert_message(message)
    content = message.get("content")
    if message["role"] == "tool" and isinstance(content, Mapping):
        converted["content"] = content
    return converted


def convert_tool_calls(calls: Iterable[Any]) -> list[Any]:
    """Return tool calls in the flat form, from {"id": …, "function": {"name": …, "arguments": …}} or the flat form."""
    converted_calls: list[Any] = []
    for call in calls:
        if not isinstance(call, Mapping):
            converted_calls.append(call)
            continue
        function = call.get("function")
        flat_call = {**call, **function} if isinstance(function, Mapping) else call
        converted = {}
        for name in ("name", "result"):
            if flat_call.get(name) is not None:
                converted[name] = flat_call[name]
        if flat_call.get("id") is not None:
            converted["id"] = str(flat_call["id"])
        if has_failed(flat_call):
            converted["error"] = True
        arguments = parse_json_cell(flat_call.get("arguments", {}))
        converted["arguments"] = {} if arguments is None else arguments
        converted_calls.append(converted)
    return converted_calls


def has_failed(data: Row) -> bool:
    """Whether a tool message, or a call with its result, is marked as failed in one of the usual ways."""
    is_marked = any(data.get(name) for name in ("error", "is_error", "isError"))
    return is_marked or str(data.get("status") or "").lower() in ("error", "failed", "failure")


def _join_content(content: Any) -> Any:
    """Return the text of a content that is None, bytes, an object or a list of parts; anything else unchanged."""
    if hasattr(content, "tolist"):
        content = content.tolist()
    if content is None:
        return ""
    if isinstance(content, bytes | bytearray):
        return content.decode("utf-8", "replace")
    if isinstance(content, Mapping):
        if content.get("type") == "text" and isinstance(content.get("text"), str):
            return content["text"]  # one part that should be in a list
        return json.dumps(content, ensure_ascii=False, default=str)
    if isinstance(content, list | tuple):
        are_parts = all(
            isinstance(part, str)
            or (isinstance(part, Mapping) and ("type" in part or "text" in part))
            for part in content
        )
        if are_parts:
            # Images and other parts without text count as nothing.
            texts = [part if isinstance(part, str) else part.get("text") or "" for part in content]
            if all(isinstance(text, str) for text in texts):
                return "".join(texts)
    return content


# ------------------------------------------------------------------------------------------------- rows of datasets


def convert_shape(
    row: Row, where: str, columns: Mapping[str, Any] | None = None
) -> tuple[Row, str]:
    """Return the row with its responses under a usual name, and the name of its format; "" if nothing was converted.

    columns: names that the user gave; with one for the responses, they are not looked for elsewhere.
    Formats in `_EXPORTS` have keys that no other format has. The others are tried in order, after a check that there is
    only one place where responses could be.
    """
    # Arrays, as pandas has them in cells of a Parquet file, become lists: comparing them with "" would fail.
    row = {
        name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()
    }
    shape = ""
    # The ground truth of verl is in `reward_model` or, in logged rollouts, in `gts`.
    reward_model = parse_json_cell(row.get("reward_model"))
    if isinstance(reward_model, Mapping) and "ground_truth" in reward_model:
        row = {"ground_truth": reward_model["ground_truth"], **row, "reward_model": reward_model}
        shape = "verl"
    elif "gts" in row and "output" in row:
        row = {"ground_truth": row["gts"], **row}
        shape = "verl"
    if columns and "response" in columns:
        return row, shape

    for name, convert in _EXPORTS.items():
        converted = convert(row, where)
        if converted is not None:
            return converted, name

    places = []
    for name in COLUMNS["response"]:
        value = row.get(name)
        if value is not None and not isinstance(value, bool | int | float):
            places.append(f"`{name}`")
    is_preference = all(row.get(name) is not None for name in _PREFERENCE_COLUMNS)
    if is_preference:
        places.append("chosen and rejected")
    sharegpt_messages = _read_sharegpt(row, where)
    if sharegpt_messages:
        places.append(_SHAREGPT_COLUMN)
    if len(places) > 1:
        remedy = "Choose one: `column.response=NAME`."
        got = f"two readings: {' and '.join(places)}"
        raise InvalidInput(where, "the responses", "in one place", got, remedy)

    if sharegpt_messages:
        return _split_conversation(row, _SHAREGPT_COLUMN, sharegpt_messages), "ShareGPT"
    if is_preference:
        return _convert_preference(row), "preferences"
    if not places:
        for name in CONVERSATION_COLUMNS:
            messages = parse_json_cell(row.get(name))
            if are_messages(messages) and messages[-1]["role"] == "assistant":
                return _split_conversation(row, name, messages), "conversations"
    is_alpaca = all(isinstance(row.get(name), str) for name in ("instruction", "input", "output"))
    if is_alpaca and "prompt" not in row:
        rest = {key: value for key, value in row.items() if key not in ("instruction", "input")}
        prompt = "\n\n".join(filter(None, (row["instruction"], row["input"])))
        return {**rest, "prompt": prompt}, "Alpaca"
    return row, shape


def _read_sharegpt(row: Row, where: str) -> list[dict[str, Any]]:
    """Return the turns of a ShareGPT conversation as chat messages; none if the row has no such conversation."""
    turns = parse_json_cell(row.get(_SHAREGPT_COLUMN))
    if not isinstance(turns, list | tuple):
        return []
    messages = []
    for turn in turns:
        if not isinstance(turn, Mapping) or "from" not in turn:
            return []
        role = _SHAREGPT_ROLES.get(str(turn["from"]).lower())
        if role is None:
            allowed = f"one of {', '.join(_SHAREGPT_ROLES)}"
            raise InvalidInput(where, "conversations: from", allowed, repr(turn["from"]), "")
        messages.append({"role": role, "content": turn.get("value")})
    return messages


def _split_conversation(row: Row, column: str, messages: Sequence[Mapping[str, Any]]) -> Row:
    """Return the row with the messages of a column as prompt and response: everything after the last user turn."""
    end_of_prompt = 0
    for i, message in enumerate(messages):
        if message["role"] == "user":
            end_of_prompt = i + 1
    rest = {key: value for key, value in row.items() if key != column}
    prompt = rest.get("prompt") or list(messages[:end_of_prompt])
    return {**rest, "prompt": prompt, "response": list(messages[end_of_prompt:])}


def _convert_preference(row: Row) -> Row:
    """Return the row with the chosen and the rejected text as two responses; their scores become metadata."""
    used_keys = (*_PREFERENCE_COLUMNS, "score_chosen", "score_rejected")
    converted = {key: value for key, value in row.items() if key not in used_keys}
    responses = []
    for name in _PREFERENCE_COLUMNS:
        response = parse_json_cell(row[name])
        if are_messages(response) and response[0]["role"] in ("system", "user"):
            # The whole conversation is in both columns; the prompt may also be in a separate column.
            conversation = _split_conversation({}, "", response)
            response = conversation["response"]
            if row.get("prompt") is None:
                converted["prompt"] = conversation["prompt"]
        fields = {"response": response, "preference": name}
        if row.get(f"score_{name}") is not None:
            fields["preference_score"] = row[f"score_{name}"]
        responses.append(fields)
    return {**converted, "responses": responses}


def _convert_lettered(row: Row, where: str) -> Row | None:
    """Return the row with response_a, response_b … (or response_1 …) as the responses of one prompt.

    None: another format. Raises InvalidInput if there is another column of responses.
    """
    for prefix in ("response", "completion", "output"):
        for marks in ("abcdefgh", "12345678"):
            possible = [f"{prefix}_{mark}" for mark in marks]
            names = [name for name in possible if isinstance(row.get(name), str | list | tuple)]
            if len(names) < 2:
                continue
            for column in COLUMNS["response"]:
                if isinstance(row.get(column), str | list | tuple):
                    remedy = "Choose one: `column.response=NAME`."
                    got = f"two readings: `{column}` and {', '.join(names)}"
                    raise InvalidInput(where, "the responses", "in one place", got, remedy)
            rest = {key: value for key, value in row.items() if key not in names}
            return {**rest, "responses": [{"response": row[name], "place": name} for name in names]}
    return None


def _convert_openai_batch(row: Row, where: str) -> Row | None:
    """Return a line of OpenAI's batch output as a row; several choices are several responses. None: another format.

    Raises InvalidInput if the request failed.
    """
    result = row.get("response")
    if "custom_id" not in row or not isinstance(result, Mapping) or "body" not in result:
        return None
    body = result["body"]
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if row.get("error") or result.get("status_code", 200) != 200 or not choices:
        got = str(row.get("error") or f"status {result.get('status_code')}")
        raise InvalidInput(
            where,
            "the request",
            "answered",
            got[:200],
            "Remove the lines of requests that failed.",
        )
    responses = []
    for choice in choices:
        # Chat completions have a message, other completions a text.
        message = choice.get("message") or {"content": choice.get("text")}
        fields = {
            "response": message.get("content") or "",
            "finish_reason": choice.get("finish_reason"),
        }
        if message.get("tool_calls"):
            fields["response"] = [message]
        if message.get("reasoning_content"):
            fields["reasoning"] = message["reasoning_content"]
        responses.append(fields)
    used_keys = ("response", "custom_id", "id", "error")
    rest = {key: value for key, value in row.items() if key not in used_keys}
    return {**rest, "group": row["custom_id"], "responses": responses}


def _convert_lm_eval(row: Row, where: str) -> Row | None:
    """Return a sample that lm-eval logged as a row; `resps` has the responses of each request. None: another format.

    Raises InvalidInput if the responses are likelihoods instead of texts.
    """
    responses = row.get("resps")
    if "doc_id" not in row or not isinstance(responses, list | tuple) or not responses:
        return None
    texts: list[Any] = []
    for item in responses:  # the responses to one request, or the only one
        texts += item if isinstance(item, list | tuple) else [item]
    if not all(isinstance(text, str) for text in texts):
        remedy = "Samples of multiple-choice tasks hold likelihoods, and no texts to grade."
        raise InvalidInput(where, "resps", "generated texts", repr(texts[0])[:80], remedy)
    # The prompt is the first text in [[prompt, options]], or in {"gen_args_0": {"arg_0": prompt, …}}.
    prompt = row.get("arguments")
    while isinstance(prompt, list | tuple | Mapping) and prompt:
        prompt = next(iter(prompt.values())) if isinstance(prompt, Mapping) else prompt[0]
    used_keys = ("resps", "filtered_resps", "arguments", "doc_id")
    rest = {key: value for key, value in row.items() if key not in used_keys}
    if isinstance(prompt, str):
        rest["prompt"] = prompt
    if row.get("target") is not None:
        rest["ground_truth"] = row["target"]
    return {**rest, "group": row["doc_id"], "responses": texts}


def _convert_promptfoo(row: Row, where: str) -> Row | None:
    """Return a result of promptfoo as a row; its variables become metadata. None: another format.

    Results with the same prompt are a group. Raises InvalidInput if the request failed.
    """
    test = row.get("testCase")
    if not isinstance(test, Mapping):
        test = {}
    variables = row.get("vars") or test.get("vars") or {}
    prompt = row.get("prompt")
    if not isinstance(prompt, Mapping) or not isinstance(prompt.get("raw"), str):
        return None
    if not isinstance(variables, Mapping) or not ("vars" in row or "testCase" in row):
        return None
    response = row.get("response")
    if not isinstance(response, Mapping):
        response = {}
    output = response.get("output")
    if output is None:
        got = str(response.get("error") or row.get("error") or "no output")
        remedy = "Run the tests that failed again, or remove their results."
        raise InvalidInput(where, "the request", "answered", got[:200], remedy)
    text = prompt["raw"]
    metadata = dict(test.get("metadata") or {})
    for name, value in variables.items():
        metadata[name] = value
        # Usually the prompt is rendered. In an export that has the template instead, all tests would be one group.
        placeholder = re.compile(r"\{\{\s*" + re.escape(name) + r"\s*\}\}")
        text = _format_text(value).join(placeholder.split(text))
    model = row.get("provider")
    if isinstance(model, Mapping):
        model = model.get("label") or model.get("id")
    if model:
        metadata.setdefault("model", model)
    return {"prompt": text, "response": _format_text(output), "metadata": metadata}


def _format_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_EXPORTS = {
    "lettered responses": _convert_lettered,
    "OpenAI batch": _convert_openai_batch,
    "lm-eval samples": _convert_lm_eval,
    "promptfoo": _convert_promptfoo,
}
