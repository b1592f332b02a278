"""The verbs that turn a table of scores into rewards: `rubrank fuse FILE` and `rubrank explain FILE --group ID`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import FUSION_FLAGS, Engine, TableOptions, check_address
from rubrank.cli.terminal import print_json, say, show_findings
from rubrank.errors import InvalidInput
from rubrank.options import FuseOptions, Options, option

_File = Annotated[
    str,
    typer.Argument(
        help="Scores: a file, folder or glob, or - for standard input (rubrank help data).",
        show_default=False,
    ),
]


class OutputOptions(Options):
    """Rarely used settings of `rubrank fuse`."""

    prefix: str = option("", "Prefix of the names of the added columns.")
    address: str | None = option(None, "Address of a Ray cluster; by default one on this machine.")


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, fuse, flags=FUSION_FLAGS)
    add_verb(app, explain, flags=FUSION_FLAGS)


def fuse(
    file: _File,
    options: FuseOptions,
    where: TableOptions,
    output_options: OutputOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; its suffix sets the format.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines to standard output.")
    ] = False,
    utilities: Annotated[
        bool, typer.Option("--utilities", help="Add a column utility.NAME for each criterion.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    engine: Engine = "local",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar, no summary line.")
    ] = False,
) -> None:
    """Compute one reward for every rollout: adds the columns reward and no_signal, and ranking if there is a gate.

    Without -o or --json, the rewards of the first groups and a summary are shown. Rows of a group must be adjacent; the
    output appears only when it is complete. A file that `rubrank grade` wrote has the weights, margins, directions and
    gates of its rubric, which options override.
    """
    from rubrank.cli import fusion_tables as show
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar
    from rubrank.records.findings import find_findings

    if json and output is not None:
        raise InvalidInput("fuse", "output", allowed="-o FILE or --json", got="both")
    check_address(engine, output_options.address, "fuse")
    with Bar("reading", quiet) as bar:
        summary = files.fuse_file(
            file,
            sys.stdout.buffer if json else output,
            options,
            columns=where.make_columns(),
            any_order=where.any_order,
            utilities=utilities,
            prefix=output_options.prefix,
            force=force,
            engine=engine,
            address=output_options.address,
            progress=lambda doing, share: bar(share, 1.0, doing),
        )
    if output is None and not json:
        show.show_summary(summary)
    elif not quiet:
        for line in show.describe_summary(summary, "" if json else f" → {output}"):
            say(line)
    if not quiet:
        show_findings(find_findings(summary.fused))


def explain(
    file: _File,
    options: FuseOptions,
    where: TableOptions,
    group: Annotated[str, typer.Option("--group", help="Id of the group.", show_default=False)],
    rollout: Annotated[
        int | None,
        typer.Option(
            "--rollout",
            help="Number of one rollout, counting from 0; default: all.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain the rewards of a group: scores, utilities, weights, and the reasons in words."""
    from rubrank.cli import fusion_tables as show
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar
    from rubrank.scores.files import has_rubric

    with Bar("reading") as bar:
        explained = files.explain_file(
            file,
            group,
            options,
            columns=where.make_columns(),
            any_order=where.any_order,
            progress=lambda doing, share: bar(share, 1.0, doing),
        )
    if has_rubric(file):
        typer.echo(show.BY_RUBRIC, err=True)
    if rollout is not None and not 0 <= rollout < len(explained.reward):
        raise InvalidInput(
            "explain",
            "rollout",
            allowed=f"a number from 0 to {len(explained.reward) - 1}",
            got=str(rollout),
        )
    if json:
        print_json(show.describe_group(explained, rollout))
    else:
        show.show_group(explained, rollout)
