"""Groups of rollouts from files and tables.

    read_groups("rollouts.jsonl")                                  JSON Lines, JSON, CSV, TSV (also .gz, .zst), Parquet
    read_groups("completions/"), read_groups("logs/*.eval")        a folder or pattern: TRL's completions, Inspect logs
    read_groups("saved_dataset/"), read_groups(dataset)            Hugging Face `datasets`: saved to disk, or an object
    read_groups("hf:owner/name:train"), read_groups("-")           the same from the hub; standard input
    read_groups(rows), read_groups(frame)                          dicts, a polars, pandas or Arrow table
    read_groups(rollouts)                                          rollouts of the same prompt are a group

A row is one rollout, or one query with a list of responses. Columns are found by their usual names (`COLUMNS`); one
with another name is given as `columns={"response": "model_output"}`. Everything else in a row becomes metadata.
docs/data.md lists the shapes; `rollouts.grouping` says which rows are a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.grouping import RowPart, collected, find_keys, part_of
from rubrank.rollouts.messages import are_messages, decoded, prompt_message, said_message, tool_calls_of
from rubrank.rollouts.rollout import Group, Rollout, to_rollout
from rubrank.rollouts.shapes import as_usual
from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row, Source, read_rows
from rubrank.tables.sources import describe_source, is_table

_STRUCTURED = ("tool_calls", "tools", "token_counts", "metadata")
_PER_ROLLOUT = ("reasoning", "tool_calls", "finish_reason", "token_counts")
_INSTRUCTIONS = ("instruction_id_list", "kwargs")
_KEYS = ("group", "step")


@dataclass(frozen=True)
class Rollouts:
    """What a source holds, and how it was read."""

    groups: list[Group]
    shape: str
    """Such as "CSV" or "Parquet, verl"."""
    by: str
    """What decided the groups, such as "prompt_id"."""

    def __str__(self) -> str:
        """read 512 rollouts in 64 groups (CSV, by prompt_id)"""
        n = sum(len(group.rollouts) for group in self.groups)
        alone = " Every group has one rollout: is that meant?" if n == len(self.groups) > 1 else ""
        counted = (
            f"{n:,} rollout{'' if n == 1 else 's'} in {len(self.groups):,} group{'' if len(self.groups) == 1 else 's'}"
        )
        return f"read {counted} ({self.shape}, by {self.by}).{alone}"


def read_groups(source: Source, columns: Mapping[str, Any] | None = None) -> list[Group]:
    """All groups of a source; see the top of this file. `columns` maps a field to the name of its column."""
    return read_rollouts(source, columns).groups


def read_rollouts(source: Source, columns: Mapping[str, Any] | None = None) -> Rollouts:
    """The same, with what is to be said about the reading."""
    if isinstance(source, Group):
        return Rollouts([source], "a group", "group")
    where = str(source) if isinstance(source, str | Path) else "rollouts"
    if not isinstance(source, str | Path | Mapping) and isinstance(source, Iterable) and not is_table(source):
        source = list(source)
        if source and all(isinstance(item, Group) for item in source):
            return Rollouts(_different_ids(source), "groups", "group")
        if source and all(isinstance(item, Rollout) for item in source):
            return Rollouts(_by_prompt(source), "rollouts", "prompt")
    found, shapes, by = _read(read_rows(source), where, columns)
    return Rollouts(found, ", ".join(filter(None, [describe_source(source), *shapes])), by)


# --------------------------------------------------------------------------------------------------------------- groups


def groups_of_rows(rows: Iterable[Row], where: str, columns: Mapping[str, Any] | None = None) -> list[Group]:
    """Rows, of one rollout each or of one query each, as groups in the order in which they first appear."""
    return _read(rows, where, columns)[0]


def _read(
    rows: Iterable[Row], where: str, columns: Mapping[str, Any] | None
) -> tuple[list[Group], dict[str, None], str]:
    """The groups, the names of their shapes, and what decided."""
    shapes: dict[str, None] = {}
    usual: list[Row] = []
    for number, row in enumerate(rows, start=1):
        found, shape = as_usual(row, f"{where}: row {number}", columns)
        usual.append(found)
        shapes[shape] = None
    if not usual:
        raise InvalidInput(where, "rows", "at least one", "none", "")
    names = _names(usual[0], where, columns)
    keys = find_keys(usual, where, names.get("group"), names.get("step"))
    fields = {field: column for field, column in names.items() if field not in _KEYS}
    parts: list[RowPart] = []
    for number, row in enumerate(usual, start=1):
        fields = _with_new(fields, row)
        place = f"{where}: row {number}"
        values = _values(row, fields, place)
        rollouts = _rollouts(row, {*fields.values(), *keys.group}, values, place)
        parts.append(part_of(row, keys, place, values.get("prompt", ""), rollouts, _rubric(row, values)))
    return collected(parts), shapes, str(keys)


def _names(row: Row, where: str, columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Field → column: those that were said, and the response."""
    for field, given in (columns or {}).items():
        if field not in COLUMNS:
            raise UnknownName.of("read_groups", "columns", field, COLUMNS)
        for column in [given] if isinstance(given, str) else given:
            if column not in row:
                raise UnknownName.of(where, f"column of {field!r}", column, map(str, row))
    names = dict(columns or {})
    if "response" not in _with_new(names, row):
        allowed = f"with the response among them ({', '.join(COLUMNS['response'][:6])} …)"
        remedy = "Name it: `column.response=NAME`."
        raise InvalidInput(where, "columns", allowed, ", ".join(map(str, row)), remedy)
    return names


def _with_new(names: dict[str, Any], row: Row) -> dict[str, Any]:
    """Fields that this row has and earlier ones had not; a column serves one field."""
    found = dict(names)
    for field, usual in COLUMNS.items():
        if field not in found and field not in _KEYS:
            taken = [column for name, column in found.items() if name not in _KEYS]
            free = [c for c in usual if c in row and c not in taken]
            column = next((c for c in free if row[c] is not None), free[0] if free and field == "response" else None)
            if column is not None:
                found[field] = column
    return found


def _values(row: Row, names: Mapping[str, Any], where: str) -> dict[str, Any]:
    values = {field: row.get(column) for field, column in names.items()}
    # An empty cell, as CSV has them, says nothing; but an empty response is a response.
    values = {field: v for field, v in values.items() if v is not None and (v != "" or field in ("response", "prompt"))}
    if "response" not in values and values.get("tool_calls") is None:
        raise InvalidInput(where, "response", "given", f"nothing in {names['response']!r}", "Use '' for no answer.")
    return values


def _rollouts(row: Row, used: set[str], values: Row, where: str) -> list[Rollout]:
    shared = _shared(row, used, values)
    return [_rollout(answer, shared, values, where) for answer in _answers(values.get("response", ""))]


def _shared(row: Row, used: set[str], values: Row) -> dict[str, Any]:
    """What all rollouts of a row have in common."""
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
            where,
            "response",
            "a text, messages, or an object with `response`",
            f"the keys {', '.join(answer)}",
            "Name its text `response`.",
        )
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
    rows = [rollout.metadata for rollout in rollouts]
    keys = find_keys(rows, "rollouts", "group" if any("group" in row for row in rows) else ())
    return collected(
        [
            part_of(row, keys, f"rollouts: rollout {number}", repr(rollout.prompt), [rollout], None)
            for number, (row, rollout) in enumerate(zip(rows, rollouts, strict=True))
        ]
    )


def _different_ids(groups: list[Group]) -> list[Group]:
    ids = [group.id for group in groups]
    twice = next((id for i, id in enumerate(ids) if id in set(ids[:i])), None) if len(set(ids)) < len(ids) else None
    if twice is not None:
        raise InvalidInput("grade", "groups", "of different ids", f"{twice!r} twice", "Put their rollouts together.")
    return groups
