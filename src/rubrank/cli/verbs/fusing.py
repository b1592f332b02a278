"""The verbs on score tables: `rubrank fuse FILE` and `rubrank explain FILE --group ID`.

Both turn their options into a rule (`RLVR2`) and columns, call one function of
`rubrank.fusion.stream.files` and show what came back.
The options that they share are declared once, in `options.py`; a TOML file given with --config holds the same names,
and the command line wins.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rubrank.cli.options import SHARED, columns_of, merged, rule_of
from rubrank.cli.printing import errors_in_words
from rubrank.errors import InvalidInput

if TYPE_CHECKING:
    pass


def _with_shared_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `SHARED`; it receives them as one mapping, `options`."""
    hints = get_type_hints(verb, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name]) for p in inspect.signature(verb).parameters.values() if p.name != "options"
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in SHARED.items()
    ]

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        options = {name: given.pop(name) for name in SHARED}
        with errors_in_words():
            verb(**given, options=merged(options))

    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    return command


_File = Annotated[Path, typer.Argument(help="A table: .jsonl, .csv (both also .gz) or .parquet.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    app.command()(fuse)
    app.command()(explain)


@_with_shared_options
def fuse(
    file: _File,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table to write; its suffix says the format.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    utilities: Annotated[
        bool, typer.Option("--utilities", help="Add a column utility.NAME for each criterion.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="Put before the names of the added columns.", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary line.")] = False,
    options: Mapping[str, Any],
) -> None:
    """One reward for every rollout: the table with the columns reward and no_signal, and ranking if there is a gate.

    Without -o or --json, the rewards of the first groups and a summary are shown. Rows of a group stand together; the
    file is read in chunks, twice, and an output appears only when everything is done. A file that `rubrank grade` wrote
    brings the weights, margins, directions and gates of its rubric; an option changes what it names.
    """
    from rubrank.cli import show
    from rubrank.fusion.stream import files as table

    if json and output is not None:
        raise InvalidInput("rubrank fuse", "output", "-o FILE or --json", "both", "Leave one out.")
    rule, columns = rule_of(options), columns_of(options)
    with show.Bar(quiet) as bar:
        summary = table.fuse_file(
            file,
            sys.stdout.buffer if json else output,
            rule,
            columns=columns,
            any_order=bool(options.get("any_order")),
            utilities=utilities,
            prefix=prefix,
            force=force,
            progress=bar,
        )
    if output is None and not json:
        show.show_summary(summary)
    elif not quiet:
        for line in show.summary_lines(summary, None if json else str(output)):
            typer.echo(line, err=True)


@_with_shared_options
def explain(
    file: _File,
    *,
    group: Annotated[str, typer.Option("--group", help="Label of the group.", show_default=False)],
    rollout: Annotated[int | None, typer.Option("--rollout", help="One rollout, from 0.", show_default=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
    options: Mapping[str, Any],
) -> None:
    """Why the rollouts of a group got their rewards: scores, utilities, weights, and the reasons in words."""
    from rubrank.cli import show
    from rubrank.fusion.stream import files as table

    rule, columns = rule_of(options), columns_of(options)
    with show.Bar() as bar:
        any_order = bool(options.get("any_order"))
        found = table.explain_file(file, group, rule, columns=columns, any_order=any_order, progress=bar)
    if table.has_rubric(file):
        typer.echo(show.BY_RUBRIC, err=True)
    if rollout is not None and not 0 <= rollout < len(found.reward):
        allowed = f"a number from 0 to {len(found.reward) - 1}"
        raise InvalidInput("rubrank explain", "--rollout", allowed, str(rollout), "Count from 0.")
    if json:
        typer.echo(show.group_as_json(found, rollout))
    else:
        show.show_group(found, rollout)
