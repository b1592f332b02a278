"""An audit from files: what `rubrank judge audit` calls.

    audit_files(["main=scores.parquet", "main=scores_again.parquet", "ranker.parquet"], humans="labels.parquet",
                rollouts="rollouts.jsonl")

Score tables are those that `rubrank grade` writes. NAME=FILE says whose a table is, else the file's name does; the
same name again is the same judge asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rubrank._files import read_text
from rubrank.errors import InvalidInput
from rubrank.scores.files import load_scores
from rubrank.scores.table import ScoreTable
from rubrank.studies.audit.audit import audit
from rubrank.studies.audit.result import Audit
from rubrank.tables.columns import Columns

_OWNER = "audit"


def audit_files(
    scores: Sequence[str | Path],
    *,
    humans: str | Path | Sequence[str | Path] | None = None,
    rollouts: str | Path | None = None,
    positions: str | Path | None = None,
    criteria: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    table_columns: Columns | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Audit:
    """Measure the judges whose score tables these are.

    humans: a score table of labels; several: one for each rater.
    rollouts: the file that was graded, for the lengths and the Markdown of its responses; `columns` as for `grade`.
    positions: JSON, {judge: {criterion: [wins of the response shown first, comparisons]}}.
    criteria: those to look at; by default all that a judge decides.
    table_columns: where the score tables hold what, if they are not ours.
    """
    if not scores:
        raise InvalidInput(_OWNER, "scores", "at least one score table", "none", "Name the file that grade wrote.")
    tables: dict[str, list[ScoreTable]] = {}
    for name, path in map(_split_name, scores):
        tables.setdefault(name, []).append(load_scores(path, table_columns).table)
    first = next(iter(tables.values()))[0]
    return audit(
        tables,
        humans=None if humans is None else _load_humans(humans, table_columns or Columns(), first.criteria),
        criteria=criteria,
        texts=None if rollouts is None else _load_answers(first, rollouts, columns),
        positions=None if positions is None else _load_positions(Path(positions)),
        bootstrap=bootstrap,
        seed=seed,
        level=level,
    )


def _split_name(given: str | Path) -> tuple[str, str]:
    """NAME=FILE, or a file whose name is the judge's."""
    name, sign, path = str(given).partition("=")
    if sign and not Path(str(given)).exists():
        return name, path
    return Path(given).name.split(".")[0], str(given)


def _load_humans(
    humans: str | Path | Sequence[str | Path], columns: Columns, judged: Sequence[str]
) -> list[ScoreTable]:
    """The labels of people. judged: the criteria of the judges, which need not be named again."""
    paths = [humans] if isinstance(humans, str | Path) else humans
    return [load_scores(path, replace(columns, declared=judged)).table for path in paths]


def _load_answers(table: ScoreTable, rollouts: str | Path, columns: Mapping[str, Any] | None) -> list[str]:
    from rubrank.scores.files import match_rollouts

    return [rollout.answer for group in match_rollouts(table, rollouts, columns) for rollout in group.rollouts]


def _load_positions(path: Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_OWNER, "positions", "a JSON file", f"{path} ({error})", "See audit_files.") from None
