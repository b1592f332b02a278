"""The verb report: a file of records as one HTML file to look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rubrank.cli.common import Force, Source
from rubrank.cli.options import columns_with, given_options, where_and_fuse_options, with_options
from rubrank.cli.printing import errors_in_words, print_json, say
from rubrank.errors import InvalidInput, counted
from rubrank.records.report import BUDGET_MB, TEXT_LIMIT


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    app.command(cls=with_options(where_and_fuse_options))(report)


def report(
    context: typer.Context,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a report of fused groups: one HTML file that works offline.

    Scores are fused first, and the options say how; records are shown as they were fused.
    """
    with errors_in_words():
        from rubrank._files import check_output_path
        from rubrank.evaluation.files import read_runs
        from rubrank.evaluation.reporting import report_data
        from rubrank.records.report import write_report

        check_output_path(output, (".html", ".htm"), inputs=(records,), force=force, verb="report")
        summary = write_report(
            _records(records, *given_options(context, *where_and_fuse_options())),
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


def _records(source: str, where: Any, options: Any) -> Any:
    """A file of records, or records of scores that are fused as the options say."""
    from rubrank.records.files import is_records
    from rubrank.records.record import record_table
    from rubrank.studies.replay.logged import batch_of, read_logged

    rule = options.found_rule()
    if is_records(Path(source)):
        for name in options.model_fields_set:
            flag, remedy = f"--{name.replace('_', '-')}", "Fuse them anew with `rubrank record`."
            raise InvalidInput("report", flag, "given with scores, not with records", source, remedy)
        return source
    lines: list[str] = []
    table, batch = batch_of(read_logged(source, None, columns_with(where, options), lines.append), options)
    say(f"{lines[0]} Fused by {rule.name}.")
    return record_table(table, rule, batch=batch)
