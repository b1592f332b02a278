"""The verb record: a score table under a rule, as records that report, replay and others read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import FUSION_FLAGS, Force, Source, WhereOptions
from rubrank.cli.printing import say
from rubrank.cli.verbs.replay import split_rules
from rubrank.errors import counted
from rubrank.options import FuseOptions


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    add_verb(app, record, flags=FUSION_FLAGS)


def record(
    scores: Source,
    options: FuseOptions,
    where: WhereOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where records go: .jsonl, .jsonl.gz, .jsonl.zst or .parquet.")
    ],
    force: Force = False,
    rollouts: Annotated[Path | None, typer.Option(help="The graded rollouts, to keep their texts.")] = None,
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
    from rubrank.studies.replay.logged import batch_of, read_logged

    check_output_path(output, SUFFIXES, inputs=(scores, rollouts), force=force, verb="record")
    rule = make_fuse_rule(options)
    compared = [make_fuse_rule(options, name) for name in split_rules(others)]
    logged = read_logged(scores, rollouts, where.columns(options.attribute_names), say)
    table, batch = batch_of(logged, options)
    groups = None if rollouts is None else match_rollouts(table, rollouts)
    number = write_records(output, record_table(table, rule, groups=groups, others=compared, batch=batch))
    print(f"{counted(number, 'group')}: {output}", file=sys.stderr)
