"""The verb record: a score table under a rule, as records that report, replay and others read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.common import Force
from rubrank.cli.printing import errors_in_words


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    app.command()(record)


def record(
    scores: Annotated[Path, typer.Argument(help="Scores that `rubrank grade` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where records go: .jsonl, .jsonl.gz or .parquet.")],
    force: Force = False,
    rollouts: Annotated[Path | None, typer.Option(help="The rollouts that were graded, to keep their texts.")] = None,
    rule: Annotated[str, typer.Option(help="The rule; + gates it by the rubric's layers.")] = "rlvr2+",
    others: Annotated[str, typer.Option(help="Other rules to compare with, as a,b.")] = "",
) -> None:
    """Write one record for each group: everything between its scores and its rewards."""
    with errors_in_words():
        from rubrank._files import output_at
        from rubrank.records.files import SUFFIXES
        from rubrank.records.record import record_table, write_records
        from rubrank.scores.matching import groups_of
        from rubrank.scores.table import read_scores

        output_at(output, SUFFIXES, inputs=(scores, rollouts), force=force, verb="record")
        table = read_scores(scores)
        groups = None if rollouts is None else groups_of(table, rollouts)
        names = [name.strip() for name in others.split(",") if name.strip()]
        number = write_records(output, record_table(table, rule, groups=groups, others=names))
    print(f"{number:,} groups: {output}", file=sys.stderr)
