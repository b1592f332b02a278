"""Read groups of rollouts from files and tables.

    read_groups("rollouts.jsonl")                                  JSON Lines, JSON, CSV, TSV (also .gz, .zst), Parquet
    read_groups("completions/"), read_groups("logs/*.eval")        a folder or pattern: TRL's completions, Inspect logs
    read_groups("saved_dataset/"), read_groups(dataset)            Hugging Face `datasets`: saved to disk, or an object
    read_groups("hf:owner/name:train"), read_groups("-")           the same from the hub; standard input
    read_groups(rows), read_groups(frame)                          dicts, a polars, pandas or Arrow table
    read_groups(rollouts)                                          rollouts of the same prompt are a group

A row is one rollout, or one query with a list of responses. Columns are found by their usual names (`COLUMNS`); other
names are given as `columns={"response": "my_column"}`. Everything else in a row becomes metadata. docs/data.md lists
the shapes.

Which rows are one group:

- A column that names the group (`GROUP_NAMES`, or the one the caller names) decides: rows with different ids are
  different groups, even if their prompts are equal. If only some rows have an id, that is an error.
- Without such a column the prompt decides.
- If there is a column of training steps, the same query in two steps is two groups.
- All rows of a group must have the same prompt and the same rubric; if they differ, that is an error, and so is a
  rollout id that occurs twice in a group.

So the group of a row depends on that row alone.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rubrank._plain import shorten
from rubrank.errors import InvalidInput, UnknownName, counted
from rubrank.rollouts.rollout import Group, Rollout, make_rollout
from rubrank.rollouts.shapes import (
    CONVERSATION_COLUMNS,
    are_messages,
    convert_message,
    convert_response_message,
    convert_shape,
    convert_tool_calls,
    parse_json_cell,
)
from rubrank.tables.columns import (
    COLUMNS,
    GROUP_NAMES,
    RECORD_COLUMNS,
    ROLLOUT_ID_NAMES,
    STEP_NAMES,
    WEAK_GROUP_NAMES,
)
from rubrank.tables.sources import (
    Row,
    Source,
    describe_source,
    find_files,
    format_of,
    is_dataset,
    is_table,
    read_rows,
)

# Fields that each response of a list may have for itself.
_ROLLOUT_FIELDS = ("reasoning", "tool_calls", "finish_reason", "token_counts")
_INSTRUCTION_COLUMNS = ("instruction_id_list", "kwargs")  # of IFEval
_KEY_FIELDS = ("group", "step")
_JSON_REMEDY = "Write JSON: double quotes instead of single ones, or a .jsonl file."
# Columns that hold several responses.
_LIST_COLUMNS = ("responses", "completions", "outputs", "generations", "rollouts", "samples")


@dataclass(frozen=True)
class Rollouts:
    """The groups of a source, and how it was read."""

    groups: list[Group]
    shape: str
    """Such as "CSV" or "Parquet, verl"."""
    by: str
    """The columns that decided the groups, such as "prompt_id"."""

    def __str__(self) -> str:
        """Return such as "read 512 rollouts in 64 groups (CSV, by prompt_id)."."""
        rollouts = sum(len(group.rollouts) for group in self.groups)
        size = f"{counted(rollouts, 'rollout')} in {counted(len(self.groups), 'group')}"
        text = f"read {size} ({self.shape}, by {self.by})."
        if rollouts == len(self.groups) > 1:
            text += " Every group has one rollout: is that meant?"
        return text


def read_groups(source: Source, columns: Mapping[str, Any] | None = None) -> list[Group]:
    """Return all groups of a source; see the top of this file. `columns` maps a field to the name of its column."""
    return read_rollouts(source, columns).groups


def read_rollouts(source: Source, columns: Mapping[str, Any] | None = None) -> Rollouts:
    """Return the groups of a source as `read_groups` reads them, and how it was read."""
    if isinstance(source, Group):
        return Rollouts([source], "a group", "group")
    where = str(source) if isinstance(source, str | Path) else "rollouts"
    is_path_or_columns = isinstance(source, str | Path | Mapping)
    if isinstance(source, Iterable) and not is_path_or_columns and not is_table(source):
        source = list(source)
        if source and all(isinstance(item, Group) for item in source):
            counts = Counter(group.id for group in source)
            for group_id, count in counts.items():
                if count > 1:
                    got = f"{group_id!r} twice"
                    remedy = "Put their rollouts together."
                    raise InvalidInput("grade", "groups", "of different ids", got, remedy)
            return Rollouts(source, "groups", "group")
        if source and all(isinstance(item, Rollout) for item in source):
            return Rollouts(_group_rollouts(source), "rollouts", "prompt")
    is_file = isinstance(source, str | Path) and not is_dataset(source)
    is_csv = is_file and format_of(find_files(source)[0]) in ("CSV", "TSV")
    return _read_rows(read_rows(source), where, columns, describe_source(source), is_csv)


def _refuse_python_texts(
    rows: Sequence[Row], where: str, columns: Mapping[str, Any], is_csv: bool
) -> None:
    """Raise if every cell of a column holds messages as Python prints them, or in a CSV a list as Python prints it.

    pandas writes such cells. A column that the caller named is not checked.
    """
    for field in ("response", "prompt"):
        if field in columns:
            continue
        for name in (*COLUMNS[field], *CONVERSATION_COLUMNS):
            cells = [row.get(name) for row in rows]
            values = [_parse_python(cell) for cell in cells]
            is_json = any(not isinstance(parse_json_cell(cell), str) for cell in cells)
            has_messages = all(are_messages([value]) or are_messages(value) for value in values)
            if has_messages and not is_json:
                allowed = "a text, or messages as JSON"
                got = "messages as Python text"
                raise InvalidInput(where, name, allowed, got, _JSON_REMEDY)
            holds_one_response = field == "response" and name not in _LIST_COLUMNS
            if is_csv and holds_one_response and all(_has_texts(value) for value in values):
                remedy = "For several responses, name the column `responses` and write JSON lists. For texts: "
                remedy += f"`column.response={name}`."
                allowed = "one response in each cell"
                raise InvalidInput(where, name, allowed, "a list in every cell", remedy)


def _parse_python(cell: Any) -> Any:
    """Return the list, tuple or dict that a text prints as in Python, such as "['a', 'b']"; None for another text."""
    if not isinstance(cell, str) or cell.strip()[:1] not in ("[", "(", "{"):
        return None
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _has_texts(value: Any) -> bool:
    """Is it a list of texts, and not empty?"""
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and all(isinstance(item, str) for item in value)


def group_rows(
    rows: Iterable[Row], where: str, columns: Mapping[str, Any] | None = None
) -> list[Group]:
    """Group rows of one rollout or one query each; groups are in the order in which they first appear."""
    return _read_rows(rows, where, columns).groups


def _read_rows(
    rows: Iterable[Row],
    where: str,
    columns: Mapping[str, Any] | None,
    source: str = "rows",
    is_csv: bool = False,
) -> Rollouts:
    """Return the groups of the rows, and how these were read.

    where: the source, for errors. source: its kind, such as "CSV", to which the names of public formats are added.
    """
    shapes = {source: None}  # an ordered set
    converted: list[Row] = []
    for number, row in enumerate(rows, start=1):
        row = _add_dotted_columns(row, columns)
        converted_row, shape = convert_shape(row, f"{where}: row {number}", columns)
        converted.append(converted_row)
        if shape:
            shapes[shape] = None
    if not converted:
        raise InvalidInput(where, "rows", "at least one", "none", "")
    _refuse_python_texts(converted, where, columns or {}, is_csv)
    if any(names <= set(converted[0]) for names in RECORD_COLUMNS):
        remedy = "Name the rollouts that the records were made of; `rubrank report`, `replay` and `view` read records."
        raise InvalidInput(
            where,
            "the rows",
            "rollouts",
            "records of groups that were fused",
            remedy,
        )
    named = _check_columns(converted[0], where, columns)
    group_columns, step = _find_key_columns(converted, where, named.get("group"), named.get("step"))
    column_of = {field: column for field, column in named.items() if field not in _KEY_FIELDS}
    parts: list[_RowPart] = []
    for number, row in enumerate(converted, start=1):
        column_of = _add_new_columns(column_of, row)
        place = f"{where}: row {number}"
        values = {}
        for field, column in column_of.items():
            value = row.get(column)
            # An empty cell of a CSV is a missing value, but an empty response is a response.
            if value is not None and (value != "" or field in ("response", "prompt")):
                values[field] = value
        if "response" not in values and values.get("tool_calls") is None:
            got = f"nothing in {column_of['response']!r}"
            raise InvalidInput(place, "response", "given", got, "Use '' for no answer.")
        used_columns = {*column_of.values(), *group_columns}
        rollouts = _make_rollouts(row, used_columns, values, column_of.get("response"), place)
        key = _make_group_key(row, group_columns, step, place, values.get("prompt", ""))
        rubric = values.get("rubric")
        if "rubric" not in values and row.get("instruction_id_list") is not None:
            # The instructions of IFEval become a rubric.
            rubric = {name: row.get(name) for name in _INSTRUCTION_COLUMNS}
        parts.append(_RowPart(place, key, rollouts, rubric))
    by = "/".join(group_columns) or "prompt"
    if step:
        by = f"{step} and {by}"
    return Rollouts(_collect_groups(parts), ", ".join(shapes), by)


def _add_dotted_columns(row: Row, columns: Mapping[str, Any] | None) -> Row:
    """Return the row with a column `a.b`, if the caller named one and `a` holds an object with the key `b`."""
    names: list[str] = []
    for value in (columns or {}).values():
        names += [value] if isinstance(value, str) else value
    for name in names:
        if "." not in name or name in row:
            continue
        cell: Any = row
        for key in name.split("."):
            cell = parse_json_cell(cell)
            cell = cell.get(key) if isinstance(cell, Mapping) else None
        if cell is not None:
            row = {**row, name: cell}
    return row


# ------------------------------------------------------------------------------------------------------------- columns


def _check_columns(row: Row, where: str, columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the columns that the caller named; raises if one does not exist, or if no column holds the response."""
    named = dict(columns or {})
    for field, names in named.items():
        if field not in COLUMNS:
            raise UnknownName.of("read_groups", "columns", field, COLUMNS)
        for name in [names] if isinstance(names, str) else names:
            if name not in row:
                raise UnknownName.of(where, f"column of {field!r}", name, map(str, row))
    if "response" not in _add_new_columns(named, row):
        allowed = f"with the response among them ({', '.join(COLUMNS['response'][:6])} …)"
        remedy = "Name it: `column.response=NAME`."
        if any(isinstance(value, Mapping) for value in row.values()):
            remedy = (
                "Name it: `column.response=NAME`; a dot leads into an object, as in output.text."
            )
        raise InvalidInput(where, "columns", allowed, ", ".join(map(str, row)), remedy)
    return named


def _add_new_columns(column_of: dict[str, Any], row: Row) -> dict[str, Any]:
    """Return field → column, extended by the fields that this row has and earlier rows had not.

    A column serves one field. The columns of group and step may serve another field too: a prompt can name the group.
    """
    extended = dict(column_of)
    for field, usual_names in COLUMNS.items():
        if field in extended or field in _KEY_FIELDS:
            continue
        used_columns = [column for f, column in extended.items() if f not in _KEY_FIELDS]
        free = [name for name in usual_names if name in row and name not in used_columns]
        filled = [name for name in free if row[name] is not None]
        if filled:
            extended[field] = filled[0]
        elif free and field == "response":
            extended[field] = free[0]
    return extended


# ------------------------------------------------------------------------------------------------------------ rollouts


def _make_rollouts(
    row: Row, used_columns: set[str], values: Row, response_column: Any, where: str
) -> list[Rollout]:
    """Return the rollouts of a row: one, or one for each response of a list.

    values: the values of the row by field. All columns that are not in used_columns become metadata.
    """
    metadata = {}
    for column, value in row.items():
        if column not in used_columns and value is not None:
            metadata[str(column)] = value
    metadata |= _read_metadata(values.get("metadata"))
    shared: dict[str, Any] = {"metadata": metadata}
    if "prompt" in values:
        prompt = parse_json_cell(values["prompt"])
        if isinstance(values["prompt"], Mapping) and "role" not in prompt:
            first_key = next(iter(prompt), "text")
            remedy = f"Name the one with the text: `column.prompt=NAME.{first_key}`."
            got = f"an object with {', '.join(map(str, prompt)) or 'no keys'}"
            raise InvalidInput(where, "the prompt", "a text or a list of messages", got, remedy)
        shared["prompt"] = values["prompt"]
        if are_messages(prompt):
            shared["prompt"] = [convert_message(message) for message in prompt]
    if "tools" in values:
        shared["tools"] = parse_json_cell(values["tools"])
    for field in _ROLLOUT_FIELDS:
        if field in values:
            shared[field] = _read_rollout_field(field, values[field])
    rollouts = []
    for answer in _split_answers(values.get("response", ""), response_column, where):
        if isinstance(answer, Mapping) and "role" not in answer:
            fields = _read_answer_object(answer, metadata, where)
        else:
            fields = {"response": _read_answer(answer, where)}
        rollouts.append(make_rollout({**shared, **fields}, where))
    return rollouts


def _split_answers(value: Any, column: Any, where: str) -> list[Any]:
    """Return the responses in a cell: one text or one conversation, or a list of them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str):
        parsed = parse_json_cell(value)
        is_list = isinstance(parsed, list) and column in _LIST_COLUMNS
        # In a column for one response, a JSON list of texts may be the response itself; a list of messages is parsed.
        if are_messages(parsed) or is_list:
            value = parsed
        elif column in _LIST_COLUMNS and _has_texts(_parse_python(value)):
            raise InvalidInput(where, column, "a list", "the text of a Python list", _JSON_REMEDY)
    if not isinstance(value, Sequence) or isinstance(value, str) or are_messages(value):
        return [value]
    if not value:
        raise InvalidInput(
            where,
            "response",
            "given",
            "an empty list",
            "Leave out a prompt without responses.",
        )
    for number, answer in enumerate(value):
        if answer is None:
            raise InvalidInput(
                where,
                "response",
                "given",
                f"null at place {number}",
                "Use '' for no answer.",
            )
    return list(value)


def _read_answer(answer: Any, where: str) -> Any:
    """Return a response as text, or as messages with the keys of `Message`."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    if isinstance(answer, Mapping):
        answer = [answer]
    if not are_messages(answer):
        return answer
    if not any(message["role"] == "assistant" for message in answer):
        got = f"only {', '.join(dict.fromkeys(str(message['role']) for message in answer))}"
        raise InvalidInput(
            where,
            "response",
            "messages with one of the assistant",
            got,
            "Add its answer.",
        )
    return [convert_response_message(message) for message in answer]


def _read_answer_object(answer: Row, metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a response given as an object: its text, the fields of a rollout, and the rest as metadata."""
    text_keys = [name for name in (*COLUMNS["response"], "content", "text") if name in answer]
    if not text_keys:
        allowed = "a text, messages, or an object with `response`"
        got = f"the keys {', '.join(answer)}"
        raise InvalidInput(where, "response", allowed, got, "Name its text `response`.")
    fields: dict[str, Any] = {}
    used = {text_keys[0], "metadata"}
    for field in _ROLLOUT_FIELDS:
        name = next((name for name in COLUMNS[field] if answer.get(name) is not None), None)
        if name is not None:
            fields[field] = _read_rollout_field(field, answer[name])
            used.add(name)
    rest = {key: value for key, value in answer.items() if key not in used and value is not None}
    fields["response"] = _read_answer(answer[text_keys[0]], where)
    fields["metadata"] = {**metadata, **rest, **_read_metadata(answer.get("metadata"))}
    return fields


def _read_rollout_field(field: str, value: Any) -> Any:
    """Return the value of one of `_ROLLOUT_FIELDS`; tool calls and token counts may be JSON texts."""
    if field in ("tool_calls", "token_counts"):
        value = parse_json_cell(value)
    if field == "tool_calls" and isinstance(value, list | tuple):
        return convert_tool_calls(value)
    return value


def _read_metadata(value: Any) -> dict[str, Any]:
    """Return the metadata in a cell `metadata`: the keys of an object; any other value under the key "metadata"."""
    value = parse_json_cell(value)
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(key): inner for key, inner in value.items()}
    return {"metadata": value}


# -------------------------------------------------------------------------------------------------------------- groups


# Step, label and prompt of a group: equal for its rows. A group that a label names has no prompt here.
_Key: TypeAlias = tuple[str | None, str | None, str]


@dataclass(frozen=True)
class _RowPart:
    """What one row adds to a group."""

    where: str
    key: _Key
    rollouts: Sequence[Rollout]
    rubric: Any


def _find_key_columns(
    rows: Sequence[Row], where: str, group: Any = None, step: str | None = None
) -> tuple[tuple[str, ...], str | None]:
    """Return the columns that name the group and the step; raises if two columns name different groups.

    group, step: the columns that the caller named, which exist.
    """
    if group is not None:
        names = (group,) if isinstance(group, str) else tuple(group)
    else:
        present = _find_filled_columns(rows, GROUP_NAMES)
        for name in present[1:]:
            if _number_values(rows, present[0]) != _number_values(rows, name):
                got = f"two readings: by {present[0]!r} and by {name!r}"
                remedy = f"Choose one: `group_column={present[0]}`."
                raise InvalidInput(where, "the group", "in one column", got, remedy)
        present = present or _find_filled_columns(rows, WEAK_GROUP_NAMES)
        names = tuple(present[:1])
    if step is None:
        steps = [name for name in _find_filled_columns(rows, STEP_NAMES) if name not in names]
        step = steps[0] if steps else None
    return names, step


def _find_filled_columns(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return those of the columns that are filled in at least one row."""
    return [name for name in names if any(_is_filled(row.get(name)) for row in rows)]


def _number_values(rows: Sequence[Row], name: str) -> list[int]:
    """Return for each row the number of its value in a column, by first appearance: equal lists mean equal groups."""
    number_of: dict[str, int] = {}
    return [number_of.setdefault(repr(row.get(name)), len(number_of)) for row in rows]


def _is_filled(value: Any) -> bool:
    """Return whether a cell holds anything."""
    return value is not None and value != "" and value == value  # NaN is not equal to itself


def _make_group_key(
    row: Row, group_columns: Sequence[str], step_column: str | None, where: str, prompt: Any
) -> _Key:
    """Return what is equal for rows of the same group. prompt: decides if no column names the group."""
    step = None
    if step_column is not None:
        step = str(_read_key_cell(row, step_column, where, "step"))
    if not group_columns:
        return step, None, _make_key(prompt)
    *cells, last_cell = [str(_read_key_cell(row, name, where, "group")) for name in group_columns]
    # Escaped as in `make_labels` of tables/layout.py: otherwise ("a/b", "c") and ("a", "b/c") would be one group.
    escaped = [re.sub(r"([/\\])", r"\\\1", cell) for cell in cells]
    return step, "/".join([*escaped, last_cell]), ""


def _read_key_cell(row: Row, name: str, where: str, what: str) -> Any:
    """Return the name of the group or step in a row; raises if the cell is empty or holds an object or a list."""
    value = row.get(name)
    if not _is_filled(value) or isinstance(value, Mapping | list):
        content = shorten(repr(value), 60) if _is_filled(value) else "nothing"
        got = f"{content} in {name!r}"
        remedy = f"Every row names its {what}, or none does."
        raise InvalidInput(where, f"the {what}", "given, as in other rows", got, remedy)
    return value


def _make_key(value: Any) -> str:
    """Return a text that is equal for equal prompts or rubrics, in any order of their keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _collect_groups(parts: Sequence[_RowPart]) -> list[Group]:
    """Return the groups, in the order in which they first appear."""
    members: dict[_Key, list[_RowPart]] = {}
    for part in parts:
        members.setdefault(part.key, []).append(part)
    label_counts = Counter(label for _, label, _ in members)
    first_spellings: dict[str, str] = {}  # label without blanks → label
    groups = []
    for number, ((step, label, _), rows) in enumerate(members.items()):
        if label is None:
            name = str(number)
        else:
            first_spelling = first_spellings.setdefault(label.strip(), label)
            if label != first_spelling:
                allowed = f"{first_spelling!r} as before, or another name: blanks do not tell groups apart"
                remedy = "Remove the blanks."
                raise InvalidInput(rows[0].where, "the group", allowed, repr(label), remedy)
            # The same query in another step has the same label.
            name = label if label_counts[label] == 1 else f"{label} (step {step})"
        prompts = []
        for row in rows:
            prompt = row.rollouts[0].prompt
            has_text = any(message.content for message in prompt)
            prompts.append(prompt if has_text else None)
        remedy = "Give different prompts different ids, or name the column of the group: `group_column=NAME`."
        _check_equal(rows, prompts, f"the prompt of group {name!r}", remedy)
        _check_rollouts_once(name, rows)
        rubrics = [None if row.rubric is None else _make_key(row.rubric) for row in rows]
        remedy = "A group has one rubric: put rows with another rubric into another group."
        _check_equal(rows, rubrics, f"the rubric of group {name!r}", remedy)
        rollouts = tuple(rollout for row in rows for rollout in row.rollouts)
        rubric = next((row.rubric for row in rows if row.rubric is not None), None)
        groups.append(Group(id=name, rollouts=rollouts, rubric=rubric))
    return groups


def _check_equal(rows: Sequence[_RowPart], values: Sequence[Any], what: str, remedy: str) -> None:
    """Raise if two rows of a group have different values. A row whose value is None is left out."""
    with_value = [pair for pair in zip(rows, values, strict=True) if pair[1] is not None]
    for row, value in with_value[1:]:
        first_row, first_value = with_value[0]
        if value != first_value:
            first_place = first_row.where.rpartition(": ")[2]  # "data.csv: row 3" → "row 3"
            got = f"another than {first_place} has"
            raise InvalidInput(row.where, what, "the same in all rows", got, remedy)


def _check_rollouts_once(group: str, rows: Sequence[_RowPart]) -> None:
    """Raise if a rollout id occurs twice in a group, or if two rows of it have the same list of responses."""
    metadata = rows[0].rollouts[0].metadata
    id_column = next((name for name in ROLLOUT_ID_NAMES if metadata.get(name) is not None), None)
    first_place_of: dict[Any, str] = {}
    repeated = None
    for row in rows:
        if len(row.rollouts) > 1:  # such rows have one id for all their responses
            key: Any = tuple(rollout.digest for rollout in row.rollouts)
            what = "the responses"
        elif id_column is not None:
            key = repr(row.rollouts[0].metadata.get(id_column))
            what = f"{id_column} {key}"
        else:
            continue
        place = row.where.rpartition(": ")[2]
        if first_place_of.setdefault(key, place) != place and repeated is None:
            repeated = (row, what, first_place_of[key])
    # A single id for the whole group does not identify rollouts.
    if repeated is None:
        return
    row, what, place = repeated
    if len(first_place_of) > 1 or what == "the responses":
        got = f"{what} of {place} again, in group {group!r}"
        raise InvalidInput(row.where, "the rollout", "there once", got, "Remove the copies.")


def _group_rollouts(rollouts: Sequence[Rollout]) -> list[Group]:
    """Group rollouts by metadata["group"] if there is one, else by prompt."""
    rows = [rollout.metadata for rollout in rollouts]
    has_groups = any("group" in row for row in rows)
    group_columns, step = _find_key_columns(rows, "rollouts", "group" if has_groups else ())
    parts = []
    for number, (row, rollout) in enumerate(zip(rows, rollouts, strict=True)):
        where = f"rollouts: rollout {number}"
        key = _make_group_key(row, group_columns, step, where, repr(rollout.prompt))
        parts.append(_RowPart(where, key, [rollout], None))
    return _collect_groups(parts)
