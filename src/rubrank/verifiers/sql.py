"""SQL in answers: does the query give the same rows as the reference, on the same tables?

SqlMatch looks for the query in the answer, parses it with sqlglot in its dialect (anything but one SELECT is refused),
and runs it and the reference in SQLite, each in a separate worker process (`run`). Then it compares their rows.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from typing import Any, Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.code_blocks import split_fenced_blocks
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.verifier import Answer, Verdict, missing, verifier

_MOST_ROWS = 10_000
_STEPS_PER_CHECK = 1_000  # instructions of SQLite's virtual machine between two checks of the limit
_MOST_CHECKS = 20_000  # then the query is stopped: the same query is stopped at the same place on every machine
_SECONDS = 5.0  # of processor time for the worker, in case single instructions take long
_SQLITE_RECURSIVE = 33  # the code of recursive queries, which the module sqlite3 does not name
_READING_ACTIONS = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    _SQLITE_RECURSIVE,
)


@verifier("SqlMatch", family="data", version=2, cost="process", needs=lambda _: ("sqlglot", "sql"))
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
    Passes: other words, the same rows.
    Fails: other rows or columns, no query, several, one that writes, one that SQLite cannot run or that takes too long.
    Missing: no reference, a reference that cannot be run, sqlglot absent (the extra `sql`).
    Not covered: equal rows by chance on these tables: fill them so that wrong queries differ.
    """
    reference_text = rollout.metadata.get("sql") if expected is None else expected
    tables = rollout.metadata.get("schema") if schema is None else schema
    if not isinstance(reference_text, str):
        return missing("no reference: give `expected` or metadata['sql']")
    try:
        reference = _parse_query(reference_text, "sqlite")
    except ImportError:
        return missing("sqlglot is not installed: pip install 'rubrank[sql]'")
    except ValueError as error:
        return missing(f"the reference cannot be used: {error}")
    # A block of SQL is tagged as SQL, with the name of the dialect ("mysql"), or not at all.
    tags = ("sql", "sqlite", "postgresql", dialect.lower(), "")
    blocks = [block for tag, block in split_fenced_blocks(rollout.answer) if tag in tags]
    if not blocks and rollout.answer.lower().split(None, 1)[:1] in (["select"], ["with"]):
        blocks = [rollout.answer]
    if not blocks:
        return False, "no query in the answer"
    try:
        query = _parse_query(blocks[-1], dialect)
    except ValueError as error:
        return False, str(error)
    if tables is None:
        if _write_normalised(query) == _write_normalised(reference):
            return True, "the same query"
        return False, "another query, and no tables to run it on"
    try:
        expected_rows = _run_query(str(tables), reference)
    except WorkerFailed as error:
        return missing(f"the reference cannot be run: {error}")
    try:
        rows = _run_query(str(tables), query)
    except WorkerFailed as error:
        return Verdict(0.0, f"it cannot be run: {error}")
    is_sorted = reference.args.get("order") is not None
    if order == "given" or (order == "auto" and is_sorted):
        is_same = rows == expected_rows
    else:
        is_same = Counter(rows) == Counter(expected_rows)
    likeness = "as" if is_same else "not as"
    return is_same, f"{len(rows)} rows, {likeness} the {len(expected_rows)} of the reference"


def _parse_query(text: str, dialect: str) -> Any:
    """Parse the one SELECT of a text with sqlglot. Raises ValueError if it is anything else."""
    import sqlglot
    from sqlglot import exp

    if len(text) > 20_000:
        raise ValueError("the query is too long")
    try:
        statements = [
            statement for statement in sqlglot.parse(text, dialect=dialect) if statement is not None
        ]
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not SQL: {str(error).splitlines()[0][:200]}") from None
    if len(statements) != 1:
        raise ValueError(f"{len(statements)} statements, one required")
    if not isinstance(statements[0], exp.Query):
        raise ValueError("it is not a SELECT")
    return statements[0]


def _write_normalised(query: Any) -> str:
    """Write a parsed query in one form: small letters, single spaces, no comments."""
    return str(query.sql(dialect="sqlite", normalize=True, comments=False, identify=False)).lower()


def _run_query(schema: str, query: Any) -> list[tuple[Any, ...]]:
    """Run a query in a worker process and return its rows. Raises WorkerFailed."""
    sql = query.sql(dialect="sqlite", comments=False)
    rows: list[tuple[Any, ...]] = call("rubrank.verifiers.sql:run", [schema, sql], seconds=_SECONDS)
    return rows


def run(schema: str, query: str) -> list[tuple[Any, ...]]:
    """Run a query on fresh tables and return its rows. Called in a worker process."""
    db = sqlite3.connect(":memory:")
    try:
        checks = itertools.count(1)
        db.set_progress_handler(lambda: next(checks) > _MOST_CHECKS, _STEPS_PER_CHECK)
        db.executescript(schema)
        # From here on the query may only read: no writing, no attached files, no pragmas.
        db.set_authorizer(_allow_reading)
        rows = db.execute(query).fetchmany(_MOST_ROWS + 1)
    finally:
        db.close()
    if len(rows) > _MOST_ROWS:
        raise ValueError(f"more than {_MOST_ROWS:,} rows")
    # Numbers that differ only by rounding are equal.
    return [
        tuple(round(cell, 6) if isinstance(cell, float) else cell for cell in row) for row in rows
    ]


def _allow_reading(action: int, *_: Any) -> int:
    """Tell SQLite whether a query may do this. It asks once for each action when it compiles the query."""
    return sqlite3.SQLITE_OK if action in _READING_ACTIONS else sqlite3.SQLITE_DENY
