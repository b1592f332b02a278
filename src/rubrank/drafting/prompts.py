"""Read prompts from files: a text, a list of chat messages, or IFEval-like rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrank._plain import word_list
from rubrank.errors import InvalidInput
from rubrank.tables.rows import Source, read_rows

_PROMPT_KEYS = word_list("prompt question instruction query input messages problem text")
_REFERENCE_KEYS = word_list("reference reference_answer answer truth solution ground_truth target")
_REPEATED_KEYS = word_list("id key prompt_id uid source")


@dataclass(frozen=True)
class PromptRow:
    """One prompt with what is known about it."""

    prompt: str
    """What the user asked last, after the system prompt if there is one."""
    turns: int = 1
    tools: Sequence[Any] = ()
    reference: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Ids of the row, which the output repeats."""


def read_prompts(source: Source) -> Iterator[PromptRow]:
    """The prompts of any source that `read_rows` reads; one clear error for a row without a prompt."""
    number = 0
    for number, row in enumerate(read_rows(source), start=1):
        place = f"{source}: row {number}" if isinstance(source, str) else f"row {number}"
        yield _read_row(row, place)
    if number == 0:
        raise InvalidInput(str(source), "prompts", allowed="at least one row", got="none")


def _read_row(row: Mapping[str, Any], place: str) -> PromptRow:
    present = [name for name in _PROMPT_KEYS if row.get(name) is not None]
    if not present:
        keys = ", ".join(map(str, row)) or "none"
        raise InvalidInput(
            place,
            "prompt",
            allowed=f"in one of the columns {', '.join(_PROMPT_KEYS)}",
            got=f"the columns {keys}",
        )
    # A column may be empty if another one has the prompt.
    key = next((name for name in present if row[name]), present[0])
    value = row[key]
    turns = 1
    if isinstance(value, list | tuple):
        prompt, turns = _read_messages(value, place)
    elif isinstance(value, str):
        prompt = value
    else:
        raise InvalidInput(
            place,
            key,
            allowed="a text or a list of messages",
            got=type(value).__name__,
        )
    if not prompt.strip():
        raise InvalidInput(place, key, allowed="a text that can be read", got="an empty one")
    reference = next(
        (row[name] for name in _REFERENCE_KEYS if isinstance(row.get(name), str | int | float)),
        None,
    )
    tools = row.get("tools") or ()
    fields = {name: row[name] for name in _REPEATED_KEYS if row.get(name) is not None}
    return PromptRow(prompt, turns, tools, None if reference is None else str(reference), fields)


def _read_messages(messages: Sequence[Any], place: str) -> tuple[str, int]:
    """The prompt in a list of messages, and the number of the user's turns."""
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise InvalidInput(
                place,
                "messages",
                allowed="a list of {role, content}",
                got=repr(message)[:80],
            )
    prompt, user_turns = join_prompt(
        [(str(message.get("role")), message["content"]) for message in messages]
    )
    if not user_turns:
        raise InvalidInput(place, "messages", allowed="with a turn of the user", got="none")
    return prompt, len(user_turns)


def join_prompt(messages: Iterable[tuple[str, str]]) -> tuple[str, list[str]]:
    """The system prompt and the user's last turn as one text, and all turns of the user.

    messages: (role, content) of each message.
    """
    system = ""
    user_turns = []
    for role, content in messages:
        if role in ("system", "developer"):
            system = content + "\n\n"
        elif role == "user":
            user_turns.append(content)
    return system + "".join(user_turns[-1:]), user_turns
