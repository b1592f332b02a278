"""The verb report: a file of records as one HTML file to look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rubrank.cli.common import Column, Force, GroupColumn, Long, Source, table_columns
from rubrank.cli.printing import errors_in_words, print_json, say
from rubrank.errors import counted
from rubrank.records.report import BUDGET_MB, TEXT_LIMIT


def report(
    records: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    force: Force = False,
    title: Annotated[str | None, typer.Option(help="Its title; by default the name of the records' file.")] = None,
    text_limit: Annotated[int, typer.Option(help="Characters kept of each text; 0: no texts.")] = TEXT_LIMIT,
    budget: Annotated[float, typer.Option(help="Megabytes that groups may take; texts are cut to fit.")] = BUDGET_MB,
    measure: Annotated[bool, typer.Option(help="Count words and Markdown of the responses.")] = True,
    evaluated: Annotated[
        list[Path] | None,
        typer.Option("--eval", help="Scored runs of `rubrank eval`, or of checkpoints, for the capability table."),
    ] = None,
    group_column: GroupColumn = None,
    long: Long = False,
    column: Column = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a report of fused groups: one HTML file that works offline."""
    with errors_in_words():
        from rubrank._files import output_at
        from rubrank.evaluation.files import read_runs
        from rubrank.evaluation.reporting import report_data
        from rubrank.records.report import write_report

        output_at(output, (".html", ".htm"), inputs=(records,), force=force, verb="report")
        columns = table_columns(group_column, long, column)
        summary = write_report(
            _records(records, columns),
            output,
            title=title or f"rubrank report: {Path(records).name}",
            text_limit=text_limit,
            budget_mb=budget,
            measure=measure,
            evaluation=report_data(read_runs(evaluated)) if evaluated else None,
        )
        if as_json:
            print_json(vars(summary))
            return
        print(summary.path)
        parts = counted(summary.groups, "group"), counted(summary.rollouts, "rollout"), f"{summary.bytes / 1e6:.1f} MB"
        cut = f"; {summary.cut_texts:,} texts cut to {summary.text_limit:,} characters" if summary.cut_texts else ""
        print(", ".join(parts) + cut, file=sys.stderr)


def _records(source: str, columns: Any) -> Any:
    """A file of records, or records of scores that are fused by the default rule."""
    from rubrank.fusion.stream.tables import read_table
    from rubrank.records.files import is_records
    from rubrank.records.record import record_table

    if is_records(Path(source)):
        return source
    found = read_table(source, columns)
    say(f"{found} Fused by rlvr2+.")
    return record_table(found.table, "rlvr2+")
