"""The verb report: a file of records as one HTML file to look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.common import Force
from rubrank.cli.printing import errors_in_words, print_json
from rubrank.records.report import BUDGET_MB, TEXT_LIMIT


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    app.command()(report)


def report(
    records: Annotated[Path, typer.Argument(help="Records of fused groups: .jsonl, .jsonl.gz or .parquet.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    force: Force = False,
    title: Annotated[str | None, typer.Option(help="Its title; by default the name of the records' file.")] = None,
    text_limit: Annotated[int, typer.Option(help="Characters kept of each text; 0: no texts.")] = TEXT_LIMIT,
    budget: Annotated[float, typer.Option(help="Megabytes that groups may take; texts are cut to fit.")] = BUDGET_MB,
    measure: Annotated[bool, typer.Option(help="Count words and Markdown of the responses.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a report of fused groups: one HTML file that works offline."""
    with errors_in_words():
        from rubrank._files import output_at
        from rubrank.records.report import write_report

        output_at(output, (".html", ".htm"), inputs=(records,), force=force, verb="report")
        summary = write_report(records, output, title=title, text_limit=text_limit, budget_mb=budget, measure=measure)
        if as_json:
            print_json(vars(summary))
            return
        print(summary.path)
        counted = f"{summary.groups:,} groups, {summary.rollouts:,} rollouts, {summary.bytes / 1e6:.1f} MB"
        cut = f"; {summary.cut_texts:,} texts cut to {summary.text_limit:,} characters" if summary.cut_texts else ""
        print(counted + cut, file=sys.stderr)
