"""Groups of rollouts from files and tables.

    read_groups("rollouts.jsonl")                                  JSON Lines, CSV (both also .gz), JSON, Parquet
    read_groups("saved_dataset/"), read_groups(dataset)            Hugging Face `datasets`: saved to disk, or an object
    read_groups("hf:owner/name:train")                             the same from the hub
    read_groups(rows), read_groups(frame)                          dicts, a polars or pandas frame
    read_groups(rollouts)                                          rollouts of the same prompt are a group

A row is one rollout, or one query with a list of responses. Columns are found by their usual names (`COLUMNS`); one
with another name is given as `columns={"response": "model_output"}`. Everything else in a row becomes metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.messages import are_messages, decoded, prompt_message, said_message, tool_calls_of
from rubrank.rollouts.rollout import Group, Rollout, to_rollout
from rubrank.rollouts.rows import Row, Source, is_table, read_rows

COLUMNS: dict[str, tuple[str, ...]] = {
    "group": ("group", "group_id", "query_id", "prompt_id", "question_id", "key", "uid", "id"),
    "prompt": ("prompt", "prompts", "messages", "query", "question", "instruction", "input", "conversation"),
    "response": ("response", "responses", "completion", "completions", "output", "outputs", "generation",
                 "generations", "rollouts", "samples", "model_output"),
    "reasoning": ("reasoning", "reasoning_content", "thinking", "thoughts"),
    "tool_calls": ("tool_calls",),
    "tools": ("tools",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "token_counts": ("token_counts",),
    "metadata": ("metadata",),
    "rubric": ("rubric", "rubrics", "criteria"),
}  # fmt: skip
"""The usual names of each field, the likeliest first."""

_STRUCTURED = ("tool_calls", "tools", "token_counts", "metadata")
_PER_ROLLOUT = ("reasoning", "tool_calls", "finish_reason", "token_counts")
_INSTRUCTIONS = ("instruction_id_list", "kwargs")


def read_groups(source: Source, columns: Mapping[str, str] | None = None) -> list[Group]:
    """All groups of a source; see the top of this file. `columns` maps a field to the name of its column."""
    if isinstance(source, Group):
        return [source]
    where = str(source) if isinstance(source, str | Path) else "rollouts"
    if not isinstance(source, str | Path | Mapping) and isinstance(source, Iterable) and not is_table(source):
        source = list(source)
        if source and all(isinstance(item, Group) for item in source):
            return _different_ids(source)
        if source and all(isinstance(item, Rollout) for item in source):
            return _by_prompt(source)
    return groups_of_rows(read_rows(source), where, columns)


# --------------------------------------------------------------------------------------------------------------- groups


def groups_of_rows(rows: Iterable[Row], where: str, columns: Mapping[str, str] | None = None) -> list[Group]:
    """Rows, of one rollout each or of one query each, as groups in the order in which they first appear."""
    names: dict[str, str] | None = None
    prompts: list[str] = []
    parts: list[_Part] = []
    for number, row in enumerate(rows, start=1):
        names = _names(row, where, columns) if names is None else _with_new(names, row, columns)
        parts.append(_part(row, names, f"{where}: row {number}"))
        prompts.append(parts[-1].prompt_key)
    if not parts:
        raise InvalidInput(where, "rows", "at least one", "none", "Check the file.")
    ids = [part.id for part in parts]
    # A column such as `id` may number rollouts instead of queries: then every id is new although prompts return.
    by_prompt = None in ids or (len(set(ids)) == len(ids) and len(set(prompts)) < len(prompts) and _singles(parts))
    return _collected(parts, by_prompt)


class _Part:
    """What one row adds to a group."""

    def __init__(self, id: str | None, prompt_key: str, rollouts: list[Rollout], rubric: Any) -> None:
        self.id, self.prompt_key, self.rollouts, self.rubric = id, prompt_key, rollouts, rubric


def _singles(parts: list[_Part]) -> bool:
    return all(len(part.rollouts) == 1 for part in parts)


def _collected(parts: list[_Part], by_prompt: bool) -> list[Group]:
    members: dict[str, list[Rollout]] = {}
    rubrics: dict[str, Any] = {}
    numbers: dict[str, str] = {}
    for part in parts:
        id = numbers.setdefault(part.prompt_key, str(len(numbers))) if by_prompt else str(part.id)
        members.setdefault(id, []).extend(part.rollouts)
        if part.rubric is not None:
            rubrics.setdefault(id, part.rubric)
    return [Group(id=id, rollouts=tuple(rollouts), rubric=rubrics.get(id)) for id, rollouts in members.items()]


def _names(row: Row, where: str, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Field → column, from the first row."""
    for field, column in (columns or {}).items():
        if field not in COLUMNS:
            raise UnknownName.of("read_groups", "columns", field, COLUMNS)
        if column not in row:
            raise UnknownName.of(where, f"column of {field!r}", column, map(str, row))
    names = _with_new(dict(columns or {}), row, columns)
    if "response" not in names:
        raise InvalidInput(
            where, "columns", f"with the response among them ({', '.join(COLUMNS['response'][:6])} …)",
            ", ".join(map(str, row)), 'Name it: columns={"response": …}.',
        )  # fmt: skip
    return names


def _with_new(names: dict[str, str], row: Row, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Fields that this row has and earlier ones had not; a column serves one field."""
    found = {**names, **(columns or {})}
    for field, usual in COLUMNS.items():
        if field not in found:
            free = [c for c in usual if c in row and c not in found.values()]
            column = next((c for c in free if row[c] is not None), free[0] if free and field == "response" else None)
            if column is not None:
                found[field] = column
    return found


def _part(row: Row, names: Mapping[str, str], where: str) -> _Part:
    values = {field: row.get(column) for field, column in names.items()}
    # An empty cell, as CSV has them, says nothing; but an empty response is a response.
    values = {field: v for field, v in values.items() if v is not None and (v != "" or field in ("response", "prompt"))}
    if "response" not in values and values.get("tool_calls") is None:
        raise InvalidInput(where, "response", "given", f"nothing in {names['response']!r}", "Use '' for no answer.")
    shared = _shared(row, names, values)
    rollouts = [_rollout(answer, shared, values, where) for answer in _answers(values.get("response", ""))]
    id = values.get("group")
    key = json.dumps(values.get("prompt", ""), sort_keys=True, ensure_ascii=False, default=str)
    return _Part(None if id is None else str(id), key, rollouts, _rubric(row, values))


def _shared(row: Row, names: Mapping[str, str], values: Row) -> dict[str, Any]:
    """What all rollouts of a row have in common."""
    used = set(names.values())
    metadata = {str(key): value for key, value in row.items() if key not in used and value is not None}
    shared: dict[str, Any] = {"metadata": {**metadata, **_own_metadata(values.get("metadata"))}}
    if "prompt" in values:
        shared["prompt"] = _prompt(values["prompt"])
    if "tools" in values:
        shared["tools"] = decoded(values["tools"])
    return shared


def _rubric(row: Row, values: Row) -> Any:
    if "rubric" in values:
        return values["rubric"]
    if row.get("instruction_id_list") is not None:
        return {name: row.get(name) for name in _INSTRUCTIONS}
    return None


def _prompt(value: Any) -> Any:
    found = decoded(value)
    return [prompt_message(message) for message in found] if are_messages(found) else value


def _answers(value: Any) -> list[Any]:
    """The responses in a cell: one text or one conversation, or a list of such."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str):
        found = decoded(value)
        # A JSON list of texts may well be one response; a list of conversations is none.
        value = found if are_messages(found) else value
    if isinstance(value, Sequence) and not isinstance(value, str) and not are_messages(value):
        return list(value)
    return [value]


def _rollout(answer: Any, shared: Mapping[str, Any], values: Row, where: str) -> Rollout:
    data = dict(shared)
    data |= {field: _field(field, values[field]) for field in _PER_ROLLOUT if field in values}
    if isinstance(answer, Mapping) and "role" not in answer:
        data |= _own_fields(answer, data, where)
    else:
        data["response"] = _text(answer)
    return to_rollout(data, where)


def _field(field: str, value: Any) -> Any:
    value = decoded(value) if field in _STRUCTURED else value
    return tool_calls_of(value) if field == "tool_calls" and isinstance(value, list | tuple) else value


def _text(answer: Any) -> Any:
    if answer is None or isinstance(answer, str):
        return answer or ""
    if are_messages(answer):
        return [said_message(message) for message in answer]
    return [said_message(answer)] if isinstance(answer, Mapping) else answer


def _own_fields(answer: Row, data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A response given as an object: its text, the fields of a rollout, and the rest as metadata."""
    text = next((name for name in (*COLUMNS["response"], "content", "text") if name in answer), None)
    if text is None:
        raise InvalidInput(
            where, "response", "a text, messages, or an object with `response`", f"the keys {', '.join(answer)}",
            "Name its text `response`.",
        )  # fmt: skip
    used = {
        field: name for field in _PER_ROLLOUT for name in reversed(COLUMNS[field]) if answer.get(name) is not None
    }  # the likeliest name is the last to be entered
    rest = {k: v for k, v in answer.items() if k not in (text, "metadata", *used.values()) and v is not None}
    metadata = {**data["metadata"], **rest, **_own_metadata(answer.get("metadata"))}
    fields = {field: _field(field, answer[name]) for field, name in used.items()}
    return {**fields, "response": _text(answer[text]), "metadata": metadata}


def _own_metadata(value: Any) -> dict[str, Any]:
    """What a column or key `metadata` holds: usually an object, which is metadata itself."""
    value = decoded(value)
    if value is None:
        return {}
    return {str(key): v for key, v in value.items()} if isinstance(value, Mapping) else {"metadata": value}


def _by_prompt(rollouts: Sequence[Rollout]) -> list[Group]:
    """Rollouts of the same prompt, or of the same metadata["group"], are a group."""
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        given = rollout.metadata.get("group")
        found.setdefault(repr(rollout.prompt) if given is None else f"={given}", []).append(rollout)
    return [
        Group(id=key[1:] if key[:1] == "=" else str(number), rollouts=tuple(members))
        for number, (key, members) in enumerate(found.items())
    ]


def _different_ids(groups: list[Group]) -> list[Group]:
    ids = [group.id for group in groups]
    twice = next((id for i, id in enumerate(ids) if id in set(ids[:i])), None) if len(set(ids)) < len(ids) else None
    if twice is not None:
        raise InvalidInput("grade", "groups", "of different ids", f"{twice!r} twice", "Put their rollouts together.")
    return groups
