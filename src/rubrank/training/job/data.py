"""The prompts of a run: rows of files and hub datasets, and the order in which the run takes them.

    {"question": "Name a lake.", "instruction_id_list": ["punctuation:no_comma"], "answer": "West Lake"}
    →  {"prompt": "Name a lake.", "rubric": {"instruction_id_list": […], "kwargs": None}, "answer": "West Lake"}

Prompt and rubric are found by their usual column names (`rubrank.tables.columns.COLUMNS`), or by those in the config.
All other columns are passed on, for verifiers that look up a reference, except those that mean something else to TRL.

The order is laid out for all steps before the first one:

    >>> from rubrank.training.job.data import MixStage, lay_out
    >>> lay_out([MixStage(batches=2, sources=(0, 1), shares=(0.75, 0.25))], sizes=[4, 2], batch=4, seed=0).tolist()
    [4, 0, 2, 1, 3, 5, 3, 2]

Numbers below 4 are rows of the first source here, the others of the second. The trainer walks the list from beginning
to end, so stages need no sampler of their own, and a resumed run finds its place by counting.

Every batch is mixed by the shares of the sources. At any time of a stage, a source is behind or ahead of its share by
less than one prompt per source. The rows of a source come in random order, and none is repeated before all were used. A
source that occurs in two stages continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rubrank._files import require_file
from rubrank._plain import word_set
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.messages import are_messages, convert_message, parse_json_cell
from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row, read_rows
from rubrank.training.job.config import Job, Source
from rubrank.training.queries import INSTRUCTION_COLUMNS

ENVIRONMENT = "environment"
"""Column that names the environment of a row, if a run has several; TRL reads it."""
SOURCE = "rubrank_source"
STAGE = "rubrank_stage"
"""Columns that tell metrics and records where a prompt comes from."""
_RESERVED_COLUMNS = word_set("""
    prompt rubric completion completions completion_ids trainer_state log_extra log_metric environment environments
    image images video videos audio
""")
"""Columns of a source that are not passed on: TRL or rubrank would misread them."""


# ---------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, eq=False)
class SourceRows:
    """A source, and its rows."""

    source: Source
    rows: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> str:
        """The path of the source, as in the config."""
        return self.source.path


def source_key(source: Source) -> tuple[Any, ...]:
    """Sources with the same key have the same rows."""
    return source.path, tuple(sorted(source.columns.items())), source.limit


def read_source(job: Job, source: Source) -> SourceRows:
    """All prompts of a source; raises for the first row that cannot be used."""
    is_hub = source.path.startswith("hf:")
    path = source.path if is_hub else str(job.path(source.path))
    if not is_hub and not job.path(source.path).exists():
        remedy = "For a dataset of the hub: hf:owner/name:split."
        require_file(path, owner=job.where, what="path of a source", remedy=remedy)
    reserved = _RESERVED_COLUMNS
    if isinstance(job.config.environments, Mapping):
        reserved = reserved - {ENVIRONMENT}
    rows = []
    try:
        for number, row in enumerate(islice(read_rows(path), source.limit), start=1):
            rows.append(_make_prompt_row(row, source, reserved, f"{source.path}: row {number}"))
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput) or not is_hub:
            raise
        remedy = "Check the name, the split (hf:owner/name:split) and the network."
        raise InvalidInput(
            job.where, "path of a source", "a dataset that can be read", str(error), remedy
        ) from None
    if not rows:
        raise InvalidInput(source.path, "rows", "at least one", "none", "")
    return SourceRows(source, tuple(rows))


def _make_prompt_row(
    row: Row, source: Source, reserved: frozenset[str], where: str
) -> dict[str, Any]:
    prompt_column = _find_column(row, source, "prompt", where)
    rubric_column = _find_column(row, source, "rubric", where)
    if prompt_column is None:
        allowed = f"with the prompt among them ({', '.join(COLUMNS['prompt'][:5])} …)"
        remedy = "Name it in the config: columns: {prompt: …}."
        raise InvalidInput(where, "columns", allowed, ", ".join(map(str, row)), remedy)
    used_columns = {prompt_column, rubric_column}
    rubric = None
    if rubric_column is not None:
        rubric = row[rubric_column] or None
    else:
        used_columns.update(INSTRUCTION_COLUMNS)
        if row.get("instruction_id_list") is not None:
            rubric = {name: row.get(name) for name in INSTRUCTION_COLUMNS}
    prompt_row = {
        str(name): value
        for name, value in row.items()
        if name not in used_columns and name not in reserved
    }
    prompt_row["prompt"] = _read_prompt(row[prompt_column], where)
    prompt_row["rubric"] = rubric
    # A column may have different types in different sources, so the trainer's table holds plain JSON data.
    return dict(json.loads(json.dumps(prompt_row, default=_to_plain)))


def _to_plain(value: Any) -> Any:
    """A NumPy array or number as lists and numbers; anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _find_column(row: Row, source: Source, field: str, where: str) -> str | None:
    column = source.columns.get(field)
    if column is None:
        return next((name for name in COLUMNS[field] if row.get(name) is not None), None)
    if column not in row:
        raise UnknownName.of(where, f"column of {field!r}", column, map(str, row))
    return column


def _read_prompt(cell: Any, where: str) -> Any:
    prompt = parse_json_cell(cell)
    if isinstance(prompt, str) and prompt.strip():
        return prompt
    if not are_messages(prompt) or not prompt:
        raise InvalidInput(where, "prompt", "a text or messages, not empty", repr(prompt)[:80], "")
    for message in prompt:
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else ():
            if isinstance(part, Mapping) and part.get("type") not in (None, "text"):
                raise InvalidInput(
                    where, "prompt", "of texts", f"a part of type {part['type']!r}", ""
                )
    messages = [convert_message(message) for message in prompt]
    for message in messages:
        if not isinstance(message["content"], str):
            raise InvalidInput(
                where,
                "prompt",
                "messages whose content is a text",
                repr(message["content"])[:80],
                "",
            )
    if messages[-1]["role"] == "assistant":
        remedy = "Remove the answer: the policy will give its own."
        raise InvalidInput(
            where,
            "prompt",
            "messages that end before the answer",
            "one of the assistant last",
            remedy,
        )
    return messages


def is_chat(row: Mapping[str, Any]) -> bool:
    """Whether the prompt of a row consists of messages."""
    return not isinstance(row["prompt"], str)


def to_dataset(rows: Iterable[Mapping[str, Any]], chat: bool) -> Any:
    """A table of `datasets`; every row has all columns, and with `chat` all prompts are messages."""
    from datasets import Dataset, Features, Json

    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = {name: [row.get(name) for row in rows] for name in names}
    if chat:
        table["prompt"] = [
            prompt if not isinstance(prompt, str) else [{"role": "user", "content": prompt}]
            for prompt in table["prompt"]
        ]
    return Dataset.from_dict(table, features=Features({name: Json() for name in names}))


# --------------------------------------------------------------------------------------------------------------- order


@dataclass(frozen=True)
class MixStage:
    """A stage: its number of batches, and the shares of its sources, which are given by number."""

    batches: int
    sources: tuple[int, ...]
    shares: tuple[float, ...]


def lay_out(stages: Sequence[MixStage], sizes: Sequence[int], batch: int, seed: int) -> np.ndarray:
    """Row numbers, `batch` of them for each batch; the rows of all sources are numbered one after the other."""
    starts = [0, *np.cumsum(sizes).tolist()]
    walks = [_walk_source(size, starts[number], seed, number) for number, size in enumerate(sizes)]
    rng = np.random.default_rng([seed, len(sizes)])
    order: list[int] = []
    for stage in stages:
        turns = _take_turns(stage.shares)
        for _ in range(stage.batches):
            rows = [next(walks[stage.sources[next(turns)]]) for _ in range(batch)]
            rng.shuffle(rows)
            order += rows
    return np.array(order, dtype=np.int64)


def _walk_source(size: int, start: int, seed: int, number: int) -> Iterator[int]:
    """The rows of a source in random order, again and again."""
    draws = np.random.default_rng([seed, number])
    while True:
        for row in draws.permutation(size):
            yield start + int(row)


def _take_turns(shares: Sequence[float]) -> Iterator[int]:
    """The source of each prompt: always the one that is furthest behind its share."""
    shares_array = np.array(shares)
    prompts_taken = np.zeros(len(shares))
    turn = 0
    while True:
        turn += 1
        source = int(np.argmax(shares_array * turn - prompts_taken))
        prompts_taken[source] += 1
        yield source
