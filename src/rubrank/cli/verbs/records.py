"""The verbs about records, which hold everything between the scores of a group and its rewards.

rubrank record SCORES -o RECORDS      makes them from scores
rubrank report ANYTHING -o FILE       writes the page of `view` as one HTML file
rubrank view ANYTHING…                shows a live page: records, scores, rollouts, runs of eval, drafted rubrics
rubrank export RECORDS --to mlflow    sends them to an experiment tracker
rubrank alarm RECORDS                 looks for signs of reward hacking in a run
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import (
    FUSION_FLAGS,
    LONG_FIELDS,
    ColumnOptions,
    Force,
    Source,
    make_rollout_columns,
)
from rubrank.cli.terminal import print_json, say
from rubrank.cli.verbs.grade import load_judge_file
from rubrank.cli.verbs.replay import split_rules
from rubrank.errors import InvalidInput, UnknownName, counted
from rubrank.options import FuseOptions, Options, option
from rubrank.viewer import BUDGET_MB, DEFAULT_PORT, TEXT_LIMIT

if TYPE_CHECKING:
    from rubrank.viewer.sources import SourceOptions


class SizeOptions(Options):
    """How a report is made, and how large it may become."""

    measure: bool = option(True, "Count words and Markdown of the responses.")
    text_limit: int = option(TEXT_LIMIT, "Characters kept of each text; 0: no texts.")
    budget: float = option(BUDGET_MB, "Megabytes that groups may take; texts are cut to fit.")


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, record, flags=FUSION_FLAGS)
    add_verb(app, report, flags=("rule", "criteria", "attributes", "weight", "group_column"))
    add_verb(app, view, flags=("rule", "criteria", "weight", "group_column", "column", "long"))
    add_verb(app, export)
    add_verb(app, alarm)


def record(
    scores: Source,
    options: FuseOptions,
    where: ColumnOptions,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write: .jsonl, .jsonl.gz, .jsonl.zst or .parquet."
        ),
    ],
    force: Force = False,
    rollouts: Annotated[
        Path | None, typer.Option(help="The graded rollouts, to include their texts.")
    ] = None,
    others: Annotated[str, typer.Option(help="Other rules to compare with, as a,b.")] = "",
) -> None:
    """Write one record for each group: everything between its scores and its rewards.

    --attributes names what is measured on the rollouts: reasoning_length, answer_length, or a Markdown marker.
    """
    from rubrank._files import check_output_path
    from rubrank.fusion.options import make_fuse_rule
    from rubrank.records.files import SUFFIXES, write_records
    from rubrank.records.record import record_table
    from rubrank.scores.files import match_rollouts
    from rubrank.studies.logged import make_batch, read_logged

    check_output_path(output, SUFFIXES, inputs=(scores, rollouts), force=force, verb="record")
    rule = make_fuse_rule(options)
    compared = [make_fuse_rule(options, name) for name in split_rules(others, "others")]
    logged = read_logged(scores, rollouts, where.make_columns(options), say)
    table, batch = make_batch(logged, options)
    groups = None if rollouts is None else match_rollouts(table, rollouts)
    number = write_records(
        output, record_table(table, rule, groups=groups, others=compared, batch=batch)
    )
    print(f"{counted(number, 'group')}: {output}", file=sys.stderr)


def report(
    records: Annotated[
        str,
        typer.Argument(
            help="Records, a training folder, scores, rollouts (with --rubric), a scored run of eval, drafted rubrics."
        ),
    ],
    options: FuseOptions,
    where: ColumnOptions,
    size: SizeOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path(
        "report.html"
    ),
    force: Force = False,
    title: Annotated[
        str | None, typer.Option(help="Title of the page; default: the name of the run.")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option(
            "--rubric",
            "-r",
            help="Rubric of the run: rollouts are graded with it, and what `lint` finds in it is shown.",
        ),
    ] = None,
    judges: Annotated[Path | None, typer.Option(help="File of judges, to grade rollouts.")] = None,
    rollouts: Annotated[
        Path | None, typer.Option(help="The graded rollouts, to show the texts of scores.")
    ] = None,
    evaluated: Annotated[
        list[Path] | None,
        typer.Option(
            "--eval",
            help="Scored runs of `rubrank eval`, or of checkpoints, for the capability table.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write the page of `rubrank view` as one HTML file that works offline.

    Rollouts are graded with --rubric first. Scores are fused with the options below. Records are shown as they are.
    Drafted rubrics and scored runs of `rubrank eval` have pages without groups.
    """
    from rubrank._files import check_output_path
    from rubrank.drafting.page import is_draft_file
    from rubrank.evaluation.runs import find_runs, read_runs
    from rubrank.evaluation.table import report_data
    from rubrank.records.files import is_records, name_runs
    from rubrank.rubrics.rubric import load_rubric
    from rubrank.viewer.report import write_draft_report, write_evaluation_report, write_report
    from rubrank.viewer.sources import read_as_records

    check_output_path(
        output, (".html", ".htm"), inputs=(records, rollouts), force=force, verb="report"
    )
    heading = title or f"rubrank report: {name_runs([Path(records)])[0]}"
    source_options = _make_source_options("report", options, where, rubric, judges, rollouts)
    # Drafted rubrics and scored runs have no groups: options about fusion and texts are refused.
    if is_draft_file(Path(records)):
        more = [*size.model_fields_set, *(["evaluated"] if evaluated else [])]
        source_options.refuse_options(records, "drafted rubrics", more)
        drafts, size_in_bytes = write_draft_report(records, output, title=heading)
        counts = {"drafts": drafts}
        _print_written(output, counts, counted(drafts, "drafted rubric"), size_in_bytes, as_json)
        return
    scored_runs = [] if is_records(Path(records)) else find_runs(Path(records))
    if scored_runs:
        source_options.refuse_options(records, "a scored run of `eval`", size.model_fields_set)
        if evaluated:
            scored_runs += read_runs(evaluated)
        size_in_bytes = write_evaluation_report(report_data(scored_runs), output, title=heading)
        counts = {"scored_runs": len(scored_runs)}
        text = counted(len(scored_runs), "scored run")
        _print_written(output, counts, text, size_in_bytes, as_json)
        return
    # Everything else is shown as records: scores are fused, rollouts are graded first.
    if rubric is not None:
        load_rubric(rubric)  # a wrong rubric is refused before anything is read
    summary = write_report(
        read_as_records(records, source_options, say),
        output,
        title=heading,
        text_limit=size.text_limit,
        budget_mb=size.budget,
        measure=size.measure,
        evaluation=report_data(read_runs(evaluated)) if evaluated else None,
        rubric=rubric,
    )
    if as_json:
        print_json(vars(summary))
        return
    print(summary.path)
    groups = counted(summary.groups, "group")
    text = f"{groups}, {counted(summary.rollouts, 'rollout')}, {summary.bytes / 1e6:.1f} MB"
    if summary.cut_texts:
        text += f"; {summary.cut_texts:,} texts cut to {summary.text_limit:,} characters"
    print(text, file=sys.stderr)


def _make_source_options(
    verb: Literal["view", "report"],
    options: FuseOptions,
    where: ColumnOptions,
    rubric: str | None,
    judges: Path | None,
    rollouts: Path | None,
) -> SourceOptions:
    """Collect the options with which `view` and `report` read records, scores or rollouts."""
    from rubrank.viewer.sources import SourceOptions

    try:
        columns = where.make_columns(options)
    except UnknownName:
        if rubric is None:
            raise
        columns = None  # a column of rollouts was named, such as that of the prompt
    named_columns = {**make_rollout_columns(None, where.group_column), **where.column}
    is_graded_anew = verb == "view" and rubric is not None
    if rollouts is not None and not is_graded_anew:
        # Fields that a table of scores has, too, name its columns: the file of rollouts may have others.
        named_columns = {
            field: name for field, name in named_columns.items() if field not in LONG_FIELDS
        }
    return SourceOptions(
        verb=verb,
        rubric=rubric,
        judges=load_judge_file(judges, cache_only=False, dry_run=False),
        rollouts=rollouts,
        columns=columns,
        rollout_columns=named_columns,
        column_options=sorted(where.model_fields_set),
        fusion=options,
    )


def _print_written(
    output: Path, counts: Mapping[str, int], text: str, size_in_bytes: int, as_json: bool
) -> None:
    """Print what went into a page without groups."""
    if as_json:
        print_json({"path": output, **counts, "bytes": size_in_bytes})
        return
    print(output)
    print(f"{text}, {size_in_bytes / 1e3:,.0f} kB", file=sys.stderr)


def view(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Records, a training folder, scores, rollouts (with --rubric), a scored run of eval; each is a run. "
            "Or one file of drafted rubrics."
        ),
    ],
    options: FuseOptions,
    where: ColumnOptions,
    rubric: Annotated[
        str | None, typer.Option("--rubric", "-r", help="Grade rollouts with this file or preset.")
    ] = None,
    judges: Annotated[Path | None, typer.Option(help="File of judges, to grade rollouts.")] = None,
    rollouts: Annotated[
        Path | None, typer.Option(help="The graded rollouts, to show the texts of scores.")
    ] = None,
    labels: Annotated[
        Path,
        typer.Option(
            help="File for accepted and corrected verdicts, a table for `judge audit --humans`."
        ),
    ] = Path("labels.jsonl"),
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Other machines need the token in the printed URL."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            help="Port, or the next free one after it; 0: any free port.", min=0, max=65535
        ),
    ] = DEFAULT_PORT,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show records (also while they are being written), scores, rollouts and runs of eval in the browser.

    Several runs are compared. Stop it with Ctrl-C. Needs the extra `serve`.
    """
    try:
        from rubrank.viewer.server import serve, serve_drafts
    except ImportError as error:
        raise InvalidInput(
            "view",
            "the packages starlette, uvicorn and msgspec",
            allowed="installed",
            got=f"no {error.name}",
            remedy="Run `pip install 'rubrank[serve]'`.",
        ) from None
    from rubrank.drafting.page import is_draft_file

    def announce(address: str) -> None:
        typer.echo(address)
        if browse:
            import webbrowser

            webbrowser.open(address)

    source_options = _make_source_options("view", options, where, rubric, judges, rollouts)
    if any(is_draft_file(path) for path in sources):
        if len(sources) > 1:
            raise InvalidInput(
                "view",
                "sources",
                allowed="one file if it has drafted rubrics",
                got=f"{len(sources)} files",
                remedy="Drafted rubrics are shown one file at a time, without records.",
            )
        source_options.refuse_options(sources[0], "drafted rubrics")
        serve_drafts(sources[0], host=host, port=port, on_ready=announce)
        return
    serve(sources, host=host, port=port, on_ready=announce, options=source_options, labels=labels)


def export(
    records: Annotated[
        Path, typer.Argument(help="Records: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    ],
    to: Annotated[str, typer.Option(help="Where to: mlflow, weave or wandb.")],
    place: Annotated[
        str | None,
        typer.Option(
            help="MLflow: the tracking URI; wandb: online or offline. Default: that of the package."
        ),
    ] = None,
    project: Annotated[
        str, typer.Option(help="MLflow: the experiment; others: project, or team/project.")
    ] = "rubrank",
    name: Annotated[
        str | None, typer.Option(help="Name of the run; default: that of the file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was sent as JSON.")] = False,
) -> None:
    """Send records to MLflow, Weave or Weights & Biases: rewards, criteria and gates by step."""
    from rubrank.records.export import export_records

    exported = export_records(records, to, place=place, project=project, name=name)
    if as_json:
        print_json(vars(exported))
        return
    counts = [
        counted(exported.groups, "group"),
        counted(exported.rollouts, "rollout"),
        counted(exported.steps, "step"),
    ]
    print(f"{', '.join(counts)}: {exported.where}")


def alarm(
    records: Annotated[
        Path, typer.Argument(help="The records of a run: a file, rotated files, or their folder.")
    ],
    fail: Annotated[
        bool, typer.Option("--fail", help="Exit with code 1 if there was an alarm.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print alarms and signals as JSON.")
    ] = False,
) -> None:
    """Look for signs of reward hacking in the records of a run, step by step, as during training."""
    from rubrank.records.files import read_records
    from rubrank.training.alarm import RewardAlarm, figures_of_records

    watcher = RewardAlarm()
    findings = []
    steps = 0
    for figures in figures_of_records(read_records(records)):
        findings += watcher.update(figures)
        steps += 1
    if not steps:
        raise InvalidInput(
            str(records),
            "records",
            allowed="of training steps",
            got="none that has a step",
            remedy="Trainers write the step into their records; `rubrank record` does not.",
        )
    if as_json:
        alarms = [
            {"kind": finding.kind, "step": finding.step, "text": finding.text}
            for finding in findings
        ]
        signals = {"signals": watcher.strengths, "saturated": watcher.saturated}
        print_json({"steps": steps, "alarms": alarms, **signals})
    else:
        for finding in findings:
            print(f"{finding.kind}: {finding.text}")
        print(f"{counted(len(findings), 'alarm')} in {counted(steps, 'step')}")
        largest = sorted(watcher.strengths.items(), key=lambda item: -item[1])[:5]
        signals_text = ", ".join(f"{kind} {strength:.2f}" for kind, strength in largest)
        print(f"strongest signals at the end (an alarm is raised at 1): {signals_text}")
        if watcher.saturated:
            print(f"met by nearly all rollouts: {', '.join(watcher.saturated)}")
    if fail and findings:
        raise typer.Exit(1)
