"""Rows of files and hub datasets → prompts for the trainer.

    {"question": "Name a lake.", "instruction_id_list": ["punctuation:no_comma"], "answer": "West Lake"}
    →  {"prompt": "Name a lake.", "rubric": {"instruction_id_list": […], "kwargs": None}, "answer": "West Lake"}

Prompt and rubric are found by their usual names (`rubrank.tables.columns.COLUMNS`), or where the config says. All
other columns go along, for verifiers that look up a reference, except those that mean something else to TRL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rubrank._files import require_file
from rubrank._plain import word_set
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.messages import are_messages, convert_message, parse_json_cell
from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row, read_rows
from rubrank.training.job.config import Job, Source

_INSTRUCTIONS = ("instruction_id_list", "kwargs")
_TAKEN = word_set("""
    prompt rubric completion completions completion_ids trainer_state log_extra log_metric environment environments
    image images video videos audio
""")
"""Columns that TRL, or we, would take for something else."""
ENVIRONMENT = "environment"
"""The column that TRL reads where a run has several environments; elsewhere it would be taken for one."""
SOURCE, STAGE = "rubrank_source", "rubrank_stage"
"""Columns that tell metrics and records where a prompt comes from."""


@dataclass(frozen=True, eq=False)
class Read:
    """A source, and what was in it."""

    source: Source
    rows: tuple[Mapping[str, Any], ...]


def identity(source: Source) -> tuple[Any, ...]:
    """Two sources that read the same are one."""
    return source.path, tuple(sorted(source.columns.items())), source.limit


def read_source(job: Job, source: Source) -> Read:
    """All prompts of a source; one clear error for the first row that cannot be used."""
    is_hub = source.path.startswith("hf:")
    path = source.path if is_hub else str(job.path(source.path))
    if not is_hub and not job.path(source.path).exists():
        remedy = "For a dataset of the hub: hf:owner/name:split."
        require_file(path, owner=job.where, what="path of a source", remedy=remedy)
    try:
        given = islice(read_rows(path), source.limit)
        taken = _TAKEN - {ENVIRONMENT} if isinstance(job.config.environments, Mapping) else _TAKEN
        rows = tuple(_prompt_row(row, source, taken, f"{source.path}: row {n}") for n, row in enumerate(given, start=1))
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput) or not is_hub:
            raise
        remedy = "Check the name, the split (hf:owner/name:split) and the network."
        raise InvalidInput(job.where, "path of a source", "a dataset that can be read", str(error), remedy) from None
    if not rows:
        raise InvalidInput(source.path, "rows", "at least one", "none", "")
    return Read(source, rows)


def _prompt_row(row: Row, source: Source, taken: frozenset[str], where: str) -> dict[str, Any]:
    prompt, rubric = _column(row, source, "prompt", where), _column(row, source, "rubric", where)
    if prompt is None:
        raise InvalidInput(
            where,
            "columns",
            f"with the prompt among them ({', '.join(COLUMNS['prompt'][:5])} …)",
            ", ".join(map(str, row)),
            "Name it in the config: columns: {prompt: …}.",
        )
    used = {prompt, rubric, *(_INSTRUCTIONS if rubric is None else ())}
    rest = {str(name): value for name, value in row.items() if name not in used and name not in taken}
    return _as_json({**rest, "prompt": _prompt(row[prompt], where), "rubric": _rubric(row, rubric)})


def _column(row: Row, source: Source, field: str, where: str) -> str | None:
    given = source.columns.get(field)
    if given is not None and given not in row:
        raise UnknownName.of(where, f"column of {field!r}", given, map(str, row))
    return given or next((name for name in COLUMNS[field] if row.get(name) is not None), None)


def _prompt(value: Any, where: str) -> Any:
    value = parse_json_cell(value)
    if isinstance(value, str) and value.strip():
        return value
    if not (are_messages(value) and value):
        raise InvalidInput(where, "prompt", "a text or messages, not empty", repr(value)[:80], "")
    for part in (part for message in value for part in _parts(message.get("content"))):
        if part.get("type") not in (None, "text"):
            raise InvalidInput(where, "prompt", "of texts", f"a part of type {part['type']!r}", "")
    messages = [convert_message(message) for message in value]
    if messages[-1]["role"] == "assistant":
        remedy = "Cut the answer off: the policy is to give it."
        raise InvalidInput(where, "prompt", "messages that end before the answer", "one of the assistant last", remedy)
    return messages


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list | tuple) else []


def _rubric(row: Row, column: str | None) -> Any:
    if column is not None:
        return row[column] or None
    return {name: row.get(name) for name in _INSTRUCTIONS} if row.get("instruction_id_list") is not None else None


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it: the trainer's table holds every cell so, whatever the types in other rows."""
    return dict(json.loads(json.dumps(row, default=lambda value: getattr(value, "tolist", value.__str__)())))


# ------------------------------------------------------------------------------------------------------------- datasets


def is_chat(row: Mapping[str, Any]) -> bool:
    """Is its prompt in messages?"""
    return not isinstance(row["prompt"], str)


def to_dataset(rows: Iterable[Mapping[str, Any]], chat: bool) -> Any:
    """A table of `datasets`; every row has all columns, and with `chat` all prompts are messages."""
    from datasets import Dataset, Features, Json

    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = {name: [row.get(name) for row in rows] for name in names}
    if chat:
        table["prompt"] = [
            p if is_chat(row) else [{"role": "user", "content": p}]
            for row, p in zip(rows, table["prompt"], strict=True)
        ]
    return Dataset.from_dict(table, features=Features({name: Json() for name in names}))
