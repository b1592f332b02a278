"""The verb about the sandbox: `rubrank sandbox check`."""

from __future__ import annotations

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson
from rubrank.cli.printing import print_json, table

_AGAINST = {
    "network": "connecting to a port of this machine",
    "signals": "signals to, and limits of, another process",
    "memory": "variables and memory of another process",
    "files": "writing and moving a file outside",
    "reading": "reading a file of the user outside its home",
}


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    sandbox = typer.Typer(help="The sandbox in which code from responses is run.", no_args_is_help=True)
    sandbox.callback()(_sandbox)
    add_verb(sandbox, check)
    app.add_typer(sandbox, name="sandbox")


def _sandbox() -> None:
    """The sandbox in which code from responses is run."""


def check(as_json: AsJson = False) -> None:
    """Attack this machine from inside the sandbox, and say what held; exit code 1 if code would not be contained."""
    from rubrank.verifiers.shared.sandboxes.self_test import check as examine

    found = examine()
    if as_json:
        print_json(
            {
                "safe": found.safe,
                "holds": found.holds,
                "walls": list(found.walls),
                "refused": found.refused,
                "machine": found.machine,
            }
        )
    else:
        rows = [(name, _AGAINST[name], "held" if held else "OPEN") for name, held in found.holds.items()]
        if rows:
            table("attacks from inside the sandbox", ("wall", "tried", "result"), rows)
        print(f"made of: {', '.join(found.walls) or 'nothing'}")
        print("; ".join(f"{name}: {value}" for name, value in found.machine.items()))
        if found.refused:
            print(f"code from responses is refused: {found.refused}")
    if not found.safe:
        raise typer.Exit(1)
