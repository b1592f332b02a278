"""Rollouts as they were logged: scores, and what is known about lengths and Markdown.

    logged = read_logged("scores.parquet", rollouts="rollouts.jsonl")
    replay(logged.table, ["rlvr2", "gdpo"], attributes=logged.attributes, attribute_names=logged.attribute_names)

A score file (`rubrank grade`) holds no texts: the rollouts that were graded bring them. A file of records
(`records.record`) brings its attributes, or texts to measure. A record may stand there once for every rule that was
logged: the rollouts are the same, and the first one counts. The same query in several steps is several groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.options import check_criterion_names, collect_criterion_changes, refuse_gate_options
from rubrank.options import FuseOptions
from rubrank.records.files import is_records, read_records
from rubrank.records.record import GroupRecord, to_score_table
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.files import load_scores
from rubrank.scores.table import ScoreTable
from rubrank.tables.columns import Columns

_LENGTHS = ("reasoning_length", "answer_length")


@dataclass(frozen=True, eq=False)
class Logged:
    """Scores with attributes, where there are any."""

    table: ScoreTable
    attributes: np.ndarray | None = None
    """(rollouts, D), rows as in the table."""
    attribute_names: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] | None = None
    """(reasoning, answer) of every rollout, rows as in the table; None: not given."""


@only_our_errors
def read_logged(
    source: Any, rollouts: Any = None, columns: Columns | None = None, said: Callable[[str], None] | None = None
) -> Logged:
    """Scores of any shape that `fuse` reads, or a file of records; `rollouts` has the texts of its groups, by id.

    columns: which columns hold what; attributes that are measured on `rollouts` need no column.
    said: called with one line about what was read.
    """
    recorded = isinstance(source, str | Path) and is_records(Path(source))
    if recorded:
        logged = _from_records(list(_once(read_records(source))))
        if columns is not None and columns.named_criteria is not None:
            logged = replace(logged, table=logged.table.only(columns.named_criteria))
        what = f"read {len(logged.table):,} rollouts in {len(logged.table.groups):,} groups (records)."
    else:
        asked = _in_table(columns or Columns(), measured=rollouts is not None)
        found = load_scores(source, asked)
        names = () if found.attributes is None else tuple(asked.attributes)
        logged, what = Logged(found.table, found.attributes, names), str(found)
    if said is not None:
        said(what)
    if rollouts is None:
        return logged
    measured = _measure_attributes(logged.table, _answers(logged.table, rollouts))
    return measured if recorded else _beside(logged, measured)


def _in_table(columns: Columns, measured: bool) -> Columns:
    """Without the attributes that are measured on texts."""
    from rubrank.fusion.control.markdown import MARKERS

    known = {*_LENGTHS, *MARKERS} if measured else set()
    return replace(columns, attributes=tuple(name for name in columns.attributes if name not in known))


def _beside(logged: Logged, measured: Logged) -> Logged:
    """What a table says about its rollouts, and what is measured on their texts."""
    if logged.attributes is None or measured.attributes is None:
        return measured
    values = np.hstack([logged.attributes, measured.attributes])
    return replace(measured, attributes=values, attribute_names=(*logged.attribute_names, *measured.attribute_names))


def batch_of(logged: Logged, options: FuseOptions) -> tuple[ScoreTable, ScoreBatch]:
    """The table with what options say about its criteria, and its batch, with the attributes that they name."""
    table, names = logged.table.with_changes(collect_criterion_changes(options)), logged.attribute_names
    values = logged.attributes
    if options.attributes:
        for name in options.attribute_names:
            if values is None:
                allowed, remedy = "known of the rollouts", "Name the graded rollouts to measure it: `rollouts=FILE`."
                raise InvalidInput("replay", "attributes", allowed, repr(name), remedy)
            if name not in names:
                raise UnknownName.of("replay", "attributes", name, names)
        assert values is not None
        values, names = values[:, [names.index(name) for name in options.attribute_names]], options.attribute_names
    batch = table.batch(attributes=values, attribute_names=names, penalties=options.penalties)
    check_criterion_names(options, table.criteria)
    if not batch.gate_criteria:
        refuse_gate_options(options)
    return table, batch


# ------------------------------------------------------------------------------------------------------------- records


def _once(records: Iterable[GroupRecord]) -> Iterable[GroupRecord]:
    keys: set[tuple[int | None, str]] = set()
    for record in records:
        if (record.step, record.group) not in keys:
            keys.add((record.step, record.group))
            yield record


def _from_records(records: Sequence[GroupRecord]) -> Logged:
    table = _with_different_ids(to_score_table(records), records)
    names = {record.attribute_names for record in records}
    if len(names) == 1 and all(record.attributes is not None for record in records):
        rows = [row for record in records for row in record.attributes or ()]
        values = np.array([[np.nan if x is None else x for x in row] for row in rows], dtype=float)
        if not np.isnan(values).any():
            return Logged(table, values, names.pop(), _texts(records))
    texts = _texts(records)
    return Logged(table) if texts is None else _measure_attributes(table, texts)


def _texts(records: Sequence[GroupRecord]) -> tuple[tuple[str, str], ...] | None:
    if not records or any(record.responses is None for record in records):
        return None
    return tuple(pair for record in records for pair in _parts(record))


def _with_different_ids(table: ScoreTable, records: Sequence[GroupRecord]) -> ScoreTable:
    times = Counter(group.id for group in table.groups)
    return ScoreTable(
        tuple(
            replace(group, id=f"{group.id} (step {record.step})") if times[group.id] > 1 else group
            for group, record in zip(table.groups, records, strict=True)
        )
    )


def _parts(record: GroupRecord) -> list[tuple[str, str]]:
    """(reasoning, answer) of each response."""
    answers = record.responses or ()
    return list(zip(record.reasoning or ("",) * len(answers), answers, strict=True))


# ------------------------------------------------------------------------------------------------------------ rollouts


def _answers(table: ScoreTable, rollouts: Any) -> list[tuple[str, str]]:
    from rubrank.scores.files import match_rollouts

    return [(r.thoughts, r.answer) for group in match_rollouts(table, rollouts) for r in group.rollouts]


def _measure_attributes(table: ScoreTable, parts: Sequence[tuple[str, str]]) -> Logged:
    """Lengths in words and densities of Markdown; the length of the reasoning where there is any."""
    from rubrank.fusion.control.length import lengths
    from rubrank.fusion.control.markdown import MARKERS, markdown_density

    thoughts, answers = [thought for thought, _ in parts], [answer for _, answer in parts]
    length = lengths(answers, reasoning=thoughts)
    columns = np.column_stack([length.reasoning, length.answer, markdown_density(answers)])
    names = (*_LENGTHS, *MARKERS)
    used = np.flatnonzero(columns.any(0))
    return Logged(table, columns[:, used], tuple(names[d] for d in used), tuple(parts))
