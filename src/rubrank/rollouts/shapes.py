"""Rows of public shapes, as rows with a prompt and responses.

    {"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}]}     ShareGPT: the last turn answers
    {"messages": [{"role": "user", …}, {"role": "assistant", …}]}                        a conversation, the same
    {"prompt": …, "chosen": …, "rejected": …}                                            a preference: two responses
    {"prompt": […], "reward_model": {"style": "rule", "ground_truth": "42"}, …}          verl: the truth is metadata
    {"instruction": …, "input": …, "output": …}                                          Alpaca: the input is material

A row in which responses could be in two places is refused, and both are named: which one is graded is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.messages import are_messages, decoded
from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row

_ROLES = {
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
_PAIR = ("chosen", "rejected")
_SHAREGPT = "conversations"
_MESSAGES = ("messages", "conversation", "prompt")


def as_usual(row: Row, where: str, columns: Mapping[str, Any] | None = None) -> tuple[Row, str]:
    """The row with its responses under a usual name, and what the shape is called; "" for one that is usual."""
    row, shape = _with_truth(row)
    if columns and "response" in columns:
        return row, shape
    readings = _readings(row)
    if len(readings) > 1:
        both = " and ".join(readings)
        remedy = "Choose one: `column.response=NAME`."
        raise InvalidInput(where, "the responses", "in one place", f"two readings: {both}", remedy)
    if _SHAREGPT in readings:
        return _conversation(row, _SHAREGPT, _sharegpt(row[_SHAREGPT], where)), "ShareGPT"
    if "chosen and rejected" in readings:
        return _preference(row), "preferences"
    if not readings and (name := _ends_with_an_answer(row)):
        return _conversation(row, name, decoded(row[name])), "conversations"
    return (_alpaca(row), "Alpaca") if _is_alpaca(row) else (row, shape)


def _readings(row: Row) -> list[str]:
    """Where responses could be."""
    found = [f"`{name}`" for name in COLUMNS["response"] if _is_said(row.get(name))]
    if all(row.get(name) is not None for name in _PAIR):
        found.append("chosen and rejected")
    if _are_turns(decoded(row.get(_SHAREGPT))):
        found.append(_SHAREGPT)
    return found


def _is_said(value: Any) -> bool:
    return value is not None and not isinstance(value, bool | int | float)


# ------------------------------------------------------------------------------------------------------ conversations


def _are_turns(value: Any) -> bool:
    value = value.tolist() if hasattr(value, "tolist") else value
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(t, Mapping) and "from" in t for t in value)
    )


def _sharegpt(value: Any, where: str) -> list[dict[str, Any]]:
    value = decoded(value)
    messages = []
    for turn in value.tolist() if hasattr(value, "tolist") else value:
        role = _ROLES.get(str(turn["from"]).lower())
        if role is None:
            allowed = f"one of {', '.join(_ROLES)}"
            raise InvalidInput(where, "conversations: from", allowed, repr(turn["from"]), "")
        messages.append({"role": role, "content": turn.get("value")})
    return messages


def _ends_with_an_answer(row: Row) -> str | None:
    """The column with a whole conversation, if there is one and its last turn is the assistant's."""
    for name in _MESSAGES:
        value = decoded(row.get(name))
        value = value.tolist() if hasattr(value, "tolist") else value
        if are_messages(value) and value[-1]["role"] == "assistant":
            return name
    return None


def _conversation(row: Row, name: str, messages: Sequence[Mapping[str, Any]]) -> Row:
    """Everything after the last turn of the user answers it."""
    asked = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1) + 1
    rest = {key: value for key, value in row.items() if key != name}
    return {**rest, "prompt": rest.get("prompt") or list(messages[:asked]), "response": list(messages[asked:])}


# -------------------------------------------------------------------------------------------------------- preferences


def _preference(row: Row) -> Row:
    rest = {key: value for key, value in row.items() if key not in (*_PAIR, *(f"score_{name}" for name in _PAIR))}
    prompt, answers = row.get("prompt"), []
    for name in _PAIR:
        said = decoded(row[name])
        if are_messages(said) and prompt is None:  # the whole conversation stands in both
            split = _conversation({}, "", said)
            rest["prompt"], said = split["prompt"], split["response"]
        score = row.get(f"score_{name}")
        answers.append({"response": said, "preference": name, **({} if score is None else {"preference_score": score})})
    return {**rest, "responses": answers}


# --------------------------------------------------------------------------------------------------------------- others


def _with_truth(row: Row) -> tuple[Row, str]:
    """verl keeps the truth in `reward_model`, and in the rollouts that it logs as `gts`."""
    model = decoded(row.get("reward_model"))
    if isinstance(model, Mapping) and "ground_truth" in model:
        rest = {key: value for key, value in row.items() if key != "reward_model"}
        return {"ground_truth": model["ground_truth"], **rest, "reward_model": model}, "verl"
    if "gts" in row and "output" in row:
        return {"ground_truth": row["gts"], **row}, "verl"
    return row, ""


def _is_alpaca(row: Row) -> bool:
    return all(isinstance(row.get(name), str) for name in ("instruction", "input", "output")) and "prompt" not in row


def _alpaca(row: Row) -> Row:
    rest = {key: value for key, value in row.items() if key not in ("instruction", "input")}
    return {**rest, "prompt": "\n\n".join(part for part in (row["instruction"], row["input"]) if part)}
