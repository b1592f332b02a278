"""What the parts of a table share: names of columns, formats of files, and the types that go between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rubrank._files import wrong_suffix
from rubrank.errors import BadTable
from rubrank.rollouts.columns import GROUP_NAMES as GROUP_NAMES
from rubrank.scores.criterion import CriterionData

_NUMBERED = """id index idx row rollout rollout_id rollout_index sample sample_id response_id request_id turn seed rank
    rubric rubric_id step global_step epoch iteration batch batch_id time timestamp"""
_EARLIER = "reward rewards return advantage ranking no_signal logprob logprobs"
_LENGTHS = """token tokens n_tokens num_tokens token_count total_tokens prompt_tokens completion_tokens reasoning_tokens
    length response_length answer_length reasoning_length chars n_chars words n_words"""
BOOKKEEPING = frozenset(" ".join((_NUMBERED, _EARLIER, _LENGTHS)).split())
"""Numeric columns that are no criteria unless they are named: numbers of things, earlier rewards, lengths."""
SCORES, ATTRIBUTES = "scores", "attributes"  # columns that may hold one field for each criterion or attribute
RUBRIC, REASONS = "rubric", "reasons"  # of a score file: the number of the row's rubric; a field for each criterion
ROW, LINE = "\0row", "\0line"  # columns of our own beside the file's: where a row came from, and its text
WIDE = 256
"""Different criteria from which a table would be mostly empty: then each group is fused with its own."""
FORMATS = (".jsonl", ".ndjson", ".csv", ".parquet", ".jsonl.gz", ".ndjson.gz", ".csv.gz")

Leaf: TypeAlias = tuple[str, ...]
"""Where a column is: ("Facts",) or ("scores", "Facts")."""
Rubrics: TypeAlias = tuple[tuple[CriterionData, ...], ...]
"""The criteria of each rubric of a score file."""
Progress: TypeAlias = Callable[[str, float], None]
"""Called with "reading" or "fusing" and the share of the file that is done."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    r"""Which columns of a table hold what; those left out are found by the rules of docs/data.md.

    group: one column, or several that name a group together: "1/2". A slash or backslash in a part other than the last
        gets a backslash before it, so that different parts never make the same name.
    batch: rows with the same value here belong to one batch; it becomes the first part of the group's name.
    criteria, attributes: names of columns, or of fields of the columns `scores` and `attributes`.
    long: is it one row per score? None: detected from the columns.
    fields: columns of a long table that have other names than usual: criterion, score, response, reason.
    """

    group: Sequence[str] = ()
    batch: str | None = None
    criteria: Sequence[str] | None = None
    attributes: Sequence[str] = ()
    long: bool | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


def format_of(path: Path, what: str) -> str:
    """jsonl, csv or parquet, by suffix."""
    name = path.name.lower()
    if not name.endswith(FORMATS):
        remedy = "JSON lines are .jsonl." if name.endswith(".json") else ""
        raise wrong_suffix(path, FORMATS, what=what, remedy=remedy, error_type=BadTable)
    stem = name.removesuffix(".gz")
    return "parquet" if stem.endswith(".parquet") else "csv" if stem.endswith(".csv") else "jsonl"
