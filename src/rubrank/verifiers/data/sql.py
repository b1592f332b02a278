"""Queries: does the answer's SQL give the rows that the reference gives, on the same tables?"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.code_blocks import fenced_blocks
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.verifier import Answer, Verdict, missing, verifier

_MOST_ROWS = 10_000
_MOST_STEPS = 20_000  # thousands of SQLite's steps
_SECONDS = 5.0
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33)  # 33: recursive


@verifier("SqlMatch", family="data", version=1, cost="process", needs=lambda _: ("sqlglot", "sql"))
def sql_match(
    rollout: Rollout,
    *,
    expected: str | None = None,
    schema: str | None = None,
    order: Literal["auto", "given", "any"] = "auto",
    dialect: str = "sqlite",
) -> Answer:
    """The answer's query gives the rows of the expected one, run in SQLite on the same tables.

    `expected` (or `metadata["sql"]`) is the reference; `schema` (or `metadata["schema"]`) is SQL that makes and fills
    the tables. The answer's query is the last fenced sql block, or an answer that is a query. It is read in `dialect`
    (postgres, mysql, bigquery …) and translated by sqlglot; only one SELECT is run, in memory, in a process of its own.
    Rows count as often as they occur; names of columns do not matter. `order`: "auto": matters if the reference sorts.
    Without a schema the two are compared as text that sqlglot has normalised (case, spaces, comments, quotes).
    Passes: other words, the same rows. Fails: other rows or columns, no query, several, one that writes, one that
    SQLite cannot run or that takes too long. Missing: no reference, a reference that cannot be run, sqlglot absent
    (the extra `sql`). Not covered: equal rows by chance on these tables: fill them so that wrong queries differ.
    """
    wanted = rollout.metadata.get("sql") if expected is None else expected
    tables = rollout.metadata.get("schema") if schema is None else schema
    if not isinstance(wanted, str):
        return missing("no reference: give `expected` or metadata['sql']")
    try:
        right = _read(wanted, "sqlite")
    except ImportError:
        return missing("sqlglot is not installed: pip install 'rubrank[sql]'")
    if isinstance(right, str):
        return missing(f"the reference cannot be used: {right}")
    query = _query(rollout.answer)
    mine = "no query in the answer" if query is None else _read(query, dialect)
    if isinstance(mine, str):
        return False, mine
    if tables is None:
        same = _normal(mine) == _normal(right)
        return same, "the same query" if same else "another query, and no tables to run it on"
    return _run_both(str(tables), right, mine, order)


def _query(answer: str) -> str | None:
    blocks = [block for language, block in fenced_blocks(answer) if language in ("sql", "sqlite", "postgresql", "")]
    if blocks:
        return blocks[-1]
    first = answer.split(None, 1)[:1]
    return answer if first and first[0].lower() in ("select", "with") else None


def _read(text: str, dialect: str) -> Any:
    """The one SELECT of a text, as sqlglot reads it; in words what is wrong with it."""
    import sqlglot
    from sqlglot import exp

    if len(text) > 20_000:
        return "the query is too long"
    try:
        found = [statement for statement in sqlglot.parse(text, dialect=dialect) if statement is not None]
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        return f"it is not SQL: {str(error).splitlines()[0][:200]}"
    if len(found) != 1:
        return f"{len(found)} statements, one asked"
    return found[0] if isinstance(found[0], exp.Query) else "it is not a SELECT"


def _normal(query: Any) -> str:
    return str(query.sql(dialect="sqlite", normalize=True, comments=False, identify=False)).lower()


def _run_both(schema: str, right: Any, mine: Any, order: str) -> Answer:
    said = [query.sql(dialect="sqlite", comments=False) for query in (right, mine)]
    rows = []
    for number, query in enumerate(said):
        try:
            outcome = call("rubrank.verifiers.data.sql:run", [schema, query], seconds=_SECONDS)
        except WorkerFailed as error:
            outcome = [None, str(error)]
        if outcome[0] is None:
            return (
                Verdict(0.0, f"it cannot be run: {outcome[1]}")
                if number
                else missing(f"the reference cannot be run: {outcome[1]}")
            )
        rows.append([tuple(map(_cell, row)) for row in outcome[0]])
    sorted_ = order == "given" or (order == "auto" and right.args.get("order") is not None)
    same = rows[0] == rows[1] if sorted_ else Counter(rows[0]) == Counter(rows[1])
    return same, f"{len(rows[1])} rows, {'as' if same else 'not as'} the {len(rows[0])} of the reference"


def _cell(value: Any) -> Any:
    """Numbers that differ by rounding alone are one; 1 and 1.0 are equal anyway."""
    return round(value, 6) if isinstance(value, float) else value


def run(schema: str, query: str) -> tuple[list[list[Any]] | None, str]:
    """In a worker: the rows of a query on fresh tables; None and why there are none."""
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(schema)
        steps = [0]

        def count() -> int:
            steps[0] += 1
            return steps[0] > _MOST_STEPS

        db.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
        db.set_progress_handler(count, 1000)
        rows = db.execute(query).fetchmany(_MOST_ROWS + 1)
        if len(rows) > _MOST_ROWS:
            return None, f"more than {_MOST_ROWS:,} rows"
        return [[value.hex() if isinstance(value, bytes) else value for value in row] for row in rows], ""
    except (sqlite3.Error, MemoryError, ValueError) as error:
        return None, str(error)[:200]
    finally:
        db.close()
