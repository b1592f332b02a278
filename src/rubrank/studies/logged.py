"""Read logged rollouts: scores, and attributes such as lengths and Markdown if they are known.

    logged = read_logged("scores.parquet", rollouts="rollouts.jsonl")
    replay(logged.table, ["rlvr2", "gdpo"], attributes=logged.attributes, attribute_names=logged.attribute_names)

A score file (`rubrank grade`) holds no texts; the rollouts that were graded have them. A file of records
(`records.record`) has attributes, or texts to measure. If a file has a record of the same group for every rule that was
logged, the rollouts are the same and the first record counts. The same query in several steps is several groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.options import (
    check_changes,
    check_options_of_table,
    collect_criterion_changes,
)
from rubrank.options import FuseOptions
from rubrank.records.files import is_records, read_records
from rubrank.records.record import GroupRecord, to_score_table
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.files import load_scores, match_rollouts
from rubrank.scores.table import ScoreTable
from rubrank.tables.columns import Columns

_LENGTHS = ("reasoning_length", "answer_length")


@dataclass(frozen=True, eq=False)
class Logged:
    """Scores, with attributes and texts if they are known."""

    table: ScoreTable
    attributes: np.ndarray | None = None
    """(rollouts, D), rows as in the table."""
    attribute_names: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] | None = None
    """(reasoning, answer) of every rollout, rows as in the table; None: unknown."""


@only_our_errors
def read_logged(
    source: Any,
    rollouts: Any = None,
    columns: Columns | None = None,
    report: Callable[[str], None] | None = None,
    rollout_columns: Mapping[str, Any] | None = None,
) -> Logged:
    """Read scores of any shape that `fuse` reads, or a file of records.

    rollouts: the file that was graded. Lengths and Markdown are measured on its texts, which are matched by group id.
    columns: which columns hold what; attributes that are measured on `rollouts` need no column.
    report: called with one line about what was read.
    rollout_columns: which columns of `rollouts` hold what, as for `grade`.

    Raises InvalidInput for a file that cannot be read, and if `rollouts` is not the file that was graded.
    """
    # Imported here, because it loads everything about texts.
    from rubrank.fusion.control.markdown import MARKERS

    is_record_file = isinstance(source, str | Path) and is_records(Path(source))
    if is_record_file:
        logged = _read_record_file(source)
        if columns is not None and columns.named_criteria is not None:
            logged = replace(logged, table=logged.table.select_criteria(columns.named_criteria))
        summary = (
            f"read {len(logged.table):,} rollouts in {len(logged.table.groups):,} groups (records)."
        )
    else:
        columns = columns or Columns()
        if rollouts is not None:
            # Attributes that are measured on the texts are not columns of the table.
            measured_names = {*_LENGTHS, *MARKERS}
            named = tuple(name for name in columns.attributes if name not in measured_names)
            columns = replace(columns, attributes=named)
        scores = load_scores(source, columns)
        names = () if scores.attributes is None else tuple(columns.attributes)
        logged = Logged(scores.table, scores.attributes, names)
        summary = str(scores)
    if report is not None:
        report(summary)
    if rollouts is None:
        return logged
    groups = match_rollouts(logged.table, rollouts, rollout_columns)
    texts = [(rollout.thoughts, rollout.answer) for group in groups for rollout in group.rollouts]
    measured = _measure_attributes(logged.table, texts)
    # Attributes of records were measured on the same texts, so they are replaced. Columns of a score file are kept.
    if is_record_file or logged.attributes is None or measured.attributes is None:
        return measured
    return replace(
        measured,
        attributes=np.hstack([logged.attributes, measured.attributes]),
        attribute_names=(*logged.attribute_names, *measured.attribute_names),
    )


def make_batch(logged: Logged, options: FuseOptions) -> tuple[ScoreTable, ScoreBatch]:
    """Return the table with its criteria changed as the options say, and its batch with the attributes that they name.

    Raises InvalidInput or UnknownName if the options name criteria, attributes or gates that are not there.
    """
    changes = collect_criterion_changes(options)
    check_changes("replay", changes, logged.table.criteria)
    table = logged.table.change_criteria(changes)
    values = logged.attributes
    names = logged.attribute_names
    if options.attributes:
        for name in options.attribute_names:
            if values is None:
                raise InvalidInput(
                    "replay",
                    "attributes",
                    allowed="known for the rollouts",
                    got=repr(name),
                    remedy="Name the graded rollouts to measure it: `rollouts=FILE`.",
                )
            if name not in names:
                raise UnknownName.of("replay", "attributes", name, names)
        assert values is not None
        values = values[:, [names.index(name) for name in options.attribute_names]]
        names = options.attribute_names
    batch = table.batch(attributes=values, attribute_names=names, penalties=options.penalties)
    check_options_of_table(options, table.criteria, has_gates=bool(batch.gate_criteria))
    return table, batch


def _read_record_file(source: str | Path) -> Logged:
    """Read a file of records: the first record of each group and step, of any rule."""
    first_records: dict[tuple[int | None, str], GroupRecord] = {}
    for record in read_records(source):
        first_records.setdefault((record.step, record.group), record)
    records = list(first_records.values())
    table = to_score_table(records)
    occurrences = Counter(group.id for group in table.groups)
    groups = []
    for group, record in zip(table.groups, records, strict=True):
        if occurrences[group.id] > 1:  # the same query in several steps
            group = replace(group, id=f"{group.id} (step {record.step})")
        groups.append(group)
    table = ScoreTable(tuple(groups))
    texts = _list_texts(records)
    names = {record.attribute_names for record in records}
    if len(names) == 1 and all(record.attributes is not None for record in records):
        rows = [row for record in records for row in record.attributes or ()]
        values = np.array(rows, dtype=float)  # None, an unknown value, becomes NaN
        if not np.isnan(values).any():
            return Logged(table, values, names.pop(), texts)
    # The records disagree about their attributes, or some values are unknown: measure them anew if there are texts.
    return Logged(table) if texts is None else _measure_attributes(table, texts)


def _list_texts(records: Sequence[GroupRecord]) -> tuple[tuple[str, str], ...] | None:
    """Return (reasoning, answer) of all responses; None if a record was written without texts."""
    if not records or any(record.responses is None for record in records):
        return None
    texts: list[tuple[str, str]] = []
    for record in records:
        answers = record.responses or ()
        texts += zip(record.reasoning or ("",) * len(answers), answers, strict=True)
    return tuple(texts)


def _measure_attributes(table: ScoreTable, texts: Sequence[tuple[str, str]]) -> Logged:
    """Measure lengths in words and densities of Markdown; attributes that are 0 everywhere are left out."""
    from rubrank.fusion.control.length import lengths
    from rubrank.fusion.control.markdown import MARKERS, markdown_density

    answers = [answer for _, answer in texts]
    length = lengths(answers, reasoning=[reasoning for reasoning, _ in texts])
    values = np.column_stack([length.reasoning, length.answer, markdown_density(answers)])
    names = (*_LENGTHS, *MARKERS)
    used = np.flatnonzero(values.any(0))
    return Logged(table, values[:, used], tuple(names[d] for d in used), tuple(texts))
