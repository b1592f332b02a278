"""The command line: every verb calls one function of the library and shows what came back.

    rubrank init, demo, help                         verbs/start.py        samples, a tour, and the documentation
    rubrank check, lint, criteria                    verbs/criteria.py     rubrics
    rubrank draft, evolve                            verbs/draft.py        prompts into rubrics
    rubrank grade, conformance                       verbs/grade.py        rollouts into scores
    rubrank judge check, show, stats, …              verbs/judge.py        judges
    rubrank fuse, explain                            verbs/fuse.py         scores into rewards
    rubrank replay, robustness, bench                verbs/replay.py       compare rules
    rubrank record, report, view, export, alarm      verbs/records.py      everything about each group, and pages of it
    rubrank eval list, score, table, compare, run    verbs/evaluation.py   benchmarks
    rubrank train, serve                             verbs/train.py        a training run, or rewards over HTTP
    rubrank warm-up, sandbox check                   verbs/machine.py      this machine
    rubrank lab list, run, tunnel, report            verbs/lab.py          the experiments of recipes/lab

Errors are one line on standard error and exit code 2; Ctrl-C is 130. Libraries that load slowly, such as polars and
numba, are imported when a verb runs, so that --help is quick.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

import rubrank
from rubrank._plugins import import_module
from rubrank.cli.command import VerbGroup
from rubrank.cli.verbs import (
    criteria,
    draft,
    evaluation,
    fuse,
    grade,
    judge,
    lab,
    machine,
    records,
    replay,
    start,
    train,
)

app = typer.Typer(
    name="rubrank",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verbs in (
    start,
    criteria,
    draft,
    grade,
    judge,
    fuse,
    replay,
    records,
    train,
    evaluation,
    lab,
    machine,
):
    verbs.register(app)

PANELS = {
    "Start": ("init", "demo", "help"),
    "Rubrics": ("check", "lint", "criteria", "draft", "evolve"),
    "Grading and judges": ("grade", "conformance", "judge"),
    "Rewards": ("fuse", "explain", "replay", "robustness", "bench"),
    "Records and reports": ("record", "report", "view", "export", "alarm"),
    "Training and service": ("train", "serve", "eval", "lab"),
    "This machine": ("warm-up", "sandbox"),
}
"""The groups of verbs in `rubrank --help`, in this order; every verb is in one."""

_panel_of_verb = {verb: panel for panel, names in PANELS.items() for verb in names}
_order = list(_panel_of_verb)
registered: list[Any] = [*app.registered_commands, *app.registered_groups]
for info in registered:
    info.rich_help_panel = _panel_of_verb[str(info.name)]
# Typer shows panels in the order in which their first verb was registered.
app.registered_commands.sort(key=lambda info: _order.index(str(info.name)))


@app.callback(invoke_without_command=True)  # for --version, which needs no verb
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a module that adds verifiers, rules, models, attributes or judge kinds; repeatable.",
        ),
    ] = None,
) -> None:
    """Turn rubrics into rewards by ranking: check a rubric, grade rollouts with it, fuse the scores into rewards."""
    if version:
        typer.echo(f"rubrank {rubrank.__version__}")
        raise typer.Exit
    for module in modules or ():
        import_module(module)
    if context.invoked_subcommand is None:
        context.fail("Missing command.")
