"""The verb report: fused groups as one HTML file to look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import FUSION_FLAGS, Force, Source, WhereOptions
from rubrank.cli.printing import print_json, say
from rubrank.errors import InvalidInput, counted
from rubrank.options import FuseOptions, Options, option
from rubrank.viewer import BUDGET_MB, TEXT_LIMIT


class SizeOptions(Options):
    """How large a report may become."""

    text_limit: int = option(TEXT_LIMIT, "Characters kept of each text; 0: no texts.")
    budget: float = option(BUDGET_MB, "Megabytes that groups may take; texts are cut to fit.")


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    add_verb(app, report, flags=FUSION_FLAGS)


def report(
    records: Source,
    options: FuseOptions,
    where: WhereOptions,
    size: SizeOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    force: Force = False,
    title: Annotated[str | None, typer.Option(help="Its title; by default the name of the records' file.")] = None,
    measure: Annotated[bool, typer.Option(help="Count words and Markdown of the responses.")] = True,
    evaluated: Annotated[
        list[Path] | None,
        typer.Option("--eval", help="Scored runs of `rubrank eval`, or of checkpoints, for the capability table."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a report of fused groups: one HTML file that works offline.

    Scores are fused first, as the options say; records are shown as they were fused.
    """
    from rubrank._files import check_output_path
    from rubrank.evaluation.files import read_runs
    from rubrank.evaluation.reporting import report_data
    from rubrank.viewer.report import write_report

    check_output_path(output, (".html", ".htm"), inputs=(records,), force=force, verb="report")
    summary = write_report(
        _read_records(records, where, options),
        output,
        title=title or f"rubrank report: {Path(records).name}",
        text_limit=size.text_limit,
        budget_mb=size.budget,
        measure=measure,
        evaluation=report_data(read_runs(evaluated)) if evaluated else None,
    )
    if as_json:
        print_json(vars(summary))
        return
    print(summary.path)
    parts = [counted(summary.groups, "group"), counted(summary.rollouts, "rollout"), f"{summary.bytes / 1e6:.1f} MB"]
    cut = f"; {summary.cut_texts:,} texts cut to {summary.text_limit:,} characters" if summary.cut_texts else ""
    print(", ".join(parts) + cut, file=sys.stderr)


def _read_records(source: str, where: WhereOptions, options: FuseOptions) -> Any:
    """A file of records, or scores that are fused as the options say."""
    from rubrank.fusion.options import make_fuse_rule
    from rubrank.records.files import is_records
    from rubrank.records.record import record_table
    from rubrank.studies.replay.logged import batch_of, read_logged

    rule = make_fuse_rule(options)
    if is_records(Path(source)):
        for name in sorted(options.model_fields_set):
            remedy = "Fuse them again with `rubrank record`."
            raise InvalidInput("report", name, "given with scores, not with records", source, remedy)
        return source
    lines: list[str] = []
    logged = read_logged(source, None, where.columns(options.attribute_names), lines.append)
    table, batch = batch_of(logged, options)
    say(f"{lines[0]} Fused by {rule.name}.")
    return record_table(table, rule, batch=batch)
