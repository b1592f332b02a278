"""The verb record: a score table under a rule, as records that report, replay and others read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.common import Force, Source
from rubrank.cli.options import columns_with, given_options, where_and_fuse_options, with_options
from rubrank.cli.printing import errors_in_words, say
from rubrank.errors import counted


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    app.command(cls=with_options(where_and_fuse_options))(record)


def record(
    context: typer.Context,
    scores: Source,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where records go: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    ],
    force: Force = False,
    rollouts: Annotated[Path | None, typer.Option(help="The rollouts that were graded, to keep their texts.")] = None,
    others: Annotated[str, typer.Option(help="Other rules to compare with, as a,b.")] = "",
) -> None:
    """Write one record for each group: everything between its scores and its rewards.

    --attribute names what is measured on the rollouts: reasoning_length, answer_length, or a Markdown marker.
    """
    with errors_in_words():
        from rubrank._files import check_output_path
        from rubrank.cli.verbs.replay import split_rules
        from rubrank.records.files import SUFFIXES, write_records
        from rubrank.records.record import record_table
        from rubrank.scores.matching import groups_of
        from rubrank.studies.replay.logged import batch_of, read_logged

        check_output_path(output, SUFFIXES, inputs=(scores, rollouts), force=force, verb="record")
        where, options = given_options(context, *where_and_fuse_options())
        rule, rivals = options.found_rule(), [options.found_rule(name) for name in split_rules(others)]
        logged = read_logged(scores, rollouts, columns_with(where, options), say)
        table, batch = batch_of(logged, options)
        groups = None if rollouts is None else groups_of(table, rollouts)
        number = write_records(output, record_table(table, rule, groups=groups, others=rivals, batch=batch))
    print(f"{counted(number, 'group')}: {output}", file=sys.stderr)
