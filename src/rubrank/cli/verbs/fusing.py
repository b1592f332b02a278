"""The verbs on score tables: `rubrank fuse FILE` and `rubrank explain FILE --group ID`, under any rule.

Both read their options (`FuseOptions`, `TableOptions`), call one function of `rubrank.fusion.files` and show
what came back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from rubrank.cli.common import Address, Engine, check_address
from rubrank.cli.options import TableOptions, fuse_options, given_options, with_options
from rubrank.cli.printing import errors_in_words, say
from rubrank.errors import InvalidInput

_File = Annotated[
    str,
    typer.Argument(help="A file, folder or pattern of scores in any shape, or - (docs/data.md).", show_default=False),
]


def _models() -> tuple[type[BaseModel], ...]:
    return (TableOptions, *fuse_options())


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    kind = with_options(_models)
    app.command(cls=kind)(fuse)
    app.command(cls=kind)(explain)


def fuse(
    context: typer.Context,
    file: _File,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table to write; its suffix says the format.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    utilities: Annotated[
        bool, typer.Option("--utilities", help="Add a column utility.NAME for each criterion.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the added columns.", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists.")] = False,
    engine: Engine = "local",
    address: Address = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary line.")] = False,
) -> None:
    """One reward for every rollout: the table with the columns reward and no_signal, and ranking if there is a gate.

    Without -o or --json, the rewards of the first groups and a summary are shown. Rows of a group must be adjacent; the
    output appears only when it is complete. A file that `rubrank grade` wrote
    has the weights, margins, directions and gates of its rubric, which options override.
    """
    from rubrank.cli import show
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar

    with errors_in_words():
        where, options = given_options(context, *_models())
        if json and output is not None:
            raise InvalidInput("rubrank fuse", "output", "-o FILE or --json", "both", "")
        check_address(engine, address, "rubrank fuse")
        with Bar("reading", quiet) as bar:
            summary = files.fuse_file(
                file,
                sys.stdout.buffer if json else output,
                options,
                columns=where.columns(),
                any_order=where.any_order,
                utilities=utilities,
                prefix=prefix,
                force=force,
                engine=engine,
                address=address,
                progress=lambda doing, share: bar(share, 1.0, doing),
            )
        if output is None and not json:
            show.show_summary(summary)
        elif not quiet:
            for line in show.summary_lines(summary, None if json else str(output)):
                say(line)


def explain(
    context: typer.Context,
    file: _File,
    group: Annotated[str, typer.Option("--group", help="Label of the group.", show_default=False)],
    rollout: Annotated[
        int | None, typer.Option("--rollout", help="One rollout, counted from 0; by default all.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Why the rollouts of a group got their rewards: scores, utilities, weights, and the reasons in words."""
    from rubrank.cli import show
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar
    from rubrank.scores.files import has_rubric

    with errors_in_words():
        where, options = given_options(context, *_models())
        with Bar("reading") as bar:
            found = files.explain_file(
                file,
                group,
                options,
                columns=where.columns(),
                any_order=where.any_order,
                progress=lambda doing, share: bar(share, 1.0, doing),
            )
        if has_rubric(file):
            typer.echo(show.BY_RUBRIC, err=True)
        if rollout is not None and not 0 <= rollout < len(found.reward):
            allowed = f"a number from 0 to {len(found.reward) - 1}"
            raise InvalidInput("rubrank explain", "--rollout", allowed, str(rollout), "")
        if json:
            typer.echo(show.group_as_json(found, rollout))
        else:
            show.show_group(found, rollout)
