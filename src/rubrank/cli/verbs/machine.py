"""The verbs about this machine: `rubrank sandbox check` attacks the sandbox, `rubrank warm-up` compiles the kernels."""

from __future__ import annotations

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson
from rubrank.cli.terminal import print_json, print_table

_ATTACKS = {
    "network": "connecting to a port of this machine",
    "signals": "sending signals to another process, and changing its limits",
    "memory": "reading the variables and memory of another process",
    "files": "writing and moving a file outside",
    "reading": "reading a file of the user outside its home",
}


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    sandbox = typer.Typer(help="The sandbox that runs code from responses.", no_args_is_help=True)
    sandbox.callback()(lambda: None)  # typer drops the name of a single command without it
    add_verb(sandbox, check)
    app.add_typer(sandbox, name="sandbox")
    add_verb(app, warm_up)


def check(as_json: AsJson = False) -> None:
    """Attack this machine from inside the sandbox, and show which attacks failed. Exit code 1 if code can escape."""
    from rubrank.verifiers.shared.sandbox_check import check as attack

    result = attack()
    if as_json:
        print_json(
            {
                "safe": result.safe,
                "holds": result.holds,
                "walls": list(result.walls),
                "refused": result.refused,
                "machine": result.machine,
            }
        )
    else:
        rows = [
            (name, _ATTACKS[name], "held" if held else "OPEN")
            for name, held in result.holds.items()
        ]
        if rows:
            print_table("attacks from inside the sandbox", ("wall", "tried", "result"), rows)
        print(f"sandbox made of: {', '.join(result.walls) or 'nothing'}")
        print("; ".join(f"{name}: {value}" for name, value in result.machine.items()))
        if result.refused:
            print(f"code from responses is refused: {result.refused}")
    if not result.safe:
        raise typer.Exit(1)


def warm_up(as_json: AsJson = False) -> None:
    """Compile the numeric kernels now, for a container image or before many processes start."""
    from rubrank.cli.warm_up import warm_up as run
    from rubrank.grading.progress import Bar

    with Bar("compiling", as_json) as bar:
        seconds = run(bar)
    if as_json:
        print_json(seconds)
        return
    rows = [(name, f"{duration:.2f}") for name, duration in seconds.items()]
    rows.append(("all", f"{sum(seconds.values()):.2f}"))
    print_table("compiled and cached", ("kernels", "seconds"), rows, total=1)
