"""What an agent said and what its tools answered, from tokens and their mask.

    turns_of([5, 6, 7, 8, 9], [1, 1, 0, 0, 1], decode)
    [{"role": "assistant", "content": "", "tool_calls": [{"name": "look", "arguments": {"at": "map"}}]},
     {"role": "tool", "content": "a lake"},
     {"role": "assistant", "content": "It is a lake."}]

Trainers of agents keep a rollout as one row of tokens, with 1 where the policy sampled and 0 where something else
spoke. Calls are read in the two forms that open models write: `<tool_call>{"name": …, "arguments": …}</tool_call>`,
and `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`. A call that cannot be read
stays text. What stands between two turns of the policy is a tool's message if a tool was called, else the user's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

_CALL = ("<tool_call>", "</tool_call>")
_RESULT = ("<tool_response>", "</tool_response>")
_ROLES = ("user", "assistant", "tool", "observation", "ipython", "system")


def turns_of(ids: Sequence[int], mask: Sequence[Any] | None, decode: Callable[[Any], str]) -> list[dict[str, Any]]:
    """The messages of a response; without a mask, or with one of ones, a single message."""
    said: list[dict[str, Any]] = []
    for sampled, tokens in _runs(ids, mask):
        text = decode(tokens)
        if sampled:
            said.append(assistant_message(text))
        elif said:
            said += _answers(text, called=bool(said[-1].get("tool_calls")))
    if said and said[-1]["role"] != "assistant":
        said.append({"role": "assistant", "content": ""})  # it ended before the policy spoke again
    return said or [{"role": "assistant", "content": ""}]


def turns_by_ends(
    ids: Sequence[int], ends: Collection[int], decode: Callable[[Any], str]
) -> tuple[list[dict[str, Any]], Sequence[int]]:
    """The messages of a response whose mask is not known, and the tokens of its last turn.

    A turn ends with an end token, after which sampling stops: what the policy writes cannot pass for a tool's answer.
    Behind it stand the name of a role and what that role says, as chat templates have it.
    """
    pieces = _split(ids, ends)
    said = [assistant_message(decode(pieces[0]))]
    for piece in pieces[1:]:
        head, _, body = decode(piece).strip("\n").partition("\n")
        role = head.strip().lower()
        if role == "assistant" or (role not in _ROLES and said[-1]["role"] != "assistant"):
            said.append(assistant_message(body if role == "assistant" else decode(piece)))
        else:
            said += _answers(body if role in _ROLES else decode(piece), called=bool(said[-1].get("tool_calls")))
    if said[-1]["role"] != "assistant":
        said.append({"role": "assistant", "content": ""})
        return said, ids[:0]
    return said, pieces[-1]


def _split(ids: Sequence[int], ends: Collection[int]) -> list[Sequence[int]]:
    """At end tokens, each of which belongs to what is before it; at least one piece."""
    pieces, here = [], 0
    for at, token in enumerate(ids, start=1):
        if int(token) in ends:
            pieces.append(ids[here:at])
            here = at
    rest = ids[here:]
    return [*pieces, rest] if len(rest) or not pieces else pieces


def last_turn(ids: Sequence[int], mask: Sequence[Any] | None) -> Sequence[int]:
    """The tokens of the answer's turn."""
    runs = list(_runs(ids, mask))
    return runs[-1][1] if runs and runs[-1][0] else ids[:0]


def assistant_message(text: str) -> dict[str, Any]:
    """A turn of the policy; calls in its text as calls."""
    rest, calls = [], []
    for inside, piece in _pieces(text, *_CALL):
        call = read_call(piece) if inside else None
        if call is not None:
            calls.append(call)
        else:
            rest.append(f"{_CALL[0]}{piece}{_CALL[1]}" if inside else piece)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(rest).strip() if calls else text}
    return {**message, "tool_calls": calls} if calls else message


def read_call(text: str) -> dict[str, Any] | None:
    """One call, in JSON or in tags; None: it is none."""
    text = text.strip()
    if text.startswith("<function="):
        return _tagged_call(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    return {"name": found["name"], "arguments": found.get("arguments", found.get("parameters", {}))}


def _tagged_call(text: str) -> dict[str, Any] | None:
    name, closed, rest = text.removeprefix("<function=").partition(">")
    if not closed or not name.strip():
        return None
    arguments: dict[str, Any] = {}
    for part in rest.split("<parameter=")[1:]:
        key, found, value = part.partition(">")
        if found:
            arguments[key.strip()] = value.partition("</parameter>")[0].strip("\n")
    return {"name": name.strip(), "arguments": arguments}


def _answers(text: str, called: bool) -> list[dict[str, Any]]:
    """What was said between two turns of the policy."""
    results = [piece.strip() for inside, piece in _pieces(text, *_RESULT) if inside]
    if results:
        return [{"role": "tool", "content": piece} for piece in results]
    return [{"role": "tool" if called else "user", "content": _without_roles(text)}]


def _without_roles(text: str) -> str:
    """Without the names of roles that a template leaves at both ends once its special tokens are gone."""
    lines = text.strip().split("\n")
    while lines and lines[0].strip().lower() in _ROLES:
        lines.pop(0)
    while lines and lines[-1].strip().lower() in ("assistant", "<think>", ""):
        lines.pop()
    return "\n".join(lines).strip()


def _pieces(text: str, first: str, last: str) -> Iterator[tuple[bool, str]]:
    """(within tags?, text), in order; a tag that never closes is text."""
    here = 0
    while (start := text.find(first, here)) >= 0 and (end := text.find(last, start)) >= 0:
        yield False, text[here:start]
        yield True, text[start + len(first) : end]
        here = end + len(last)
    yield False, text[here:]


def _runs(ids: Sequence[int], mask: Sequence[Any] | None) -> Iterator[tuple[bool, Sequence[int]]]:
    if mask is None:
        yield True, ids
        return
    here = 0
    for sampled, run in groupby(mask[: len(ids)], bool):
        number = sum(1 for _ in run)
        yield sampled, ids[here : here + number]
        here += number
