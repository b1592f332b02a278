"""The verb export: records to MLflow or Weave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.printing import print_json
from rubrank.errors import counted


def export(
    records: Annotated[Path, typer.Argument(help="Records: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")],
    to: Annotated[str, typer.Option(help="mlflow or weave.")],
    place: Annotated[str | None, typer.Option(help="MLflow's tracking URI; by default MLflow's own.")] = None,
    project: Annotated[str, typer.Option(help="MLflow's experiment, or Weave's team/project.")] = "rubrank",
    name: Annotated[str | None, typer.Option(help="Name of the run; by default the file's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was sent as JSON.")] = False,
) -> None:
    """Send records to MLflow or Weave: rewards, criteria and gates by step."""
    from rubrank.records.exporting import export_records

    done = export_records(records, to, place=place, project=project, name=name)
    if as_json:
        print_json(vars(done))
        return
    size = counted(done.groups, "group"), counted(done.rollouts, "rollout"), counted(done.steps, "step")
    print(f"{', '.join(size)}: {done.where}")
