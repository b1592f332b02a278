"""The verbs about this machine: `rubrank sandbox check` attacks the sandbox, `rubrank warm-up` compiles the kernels.

Numeric kernels are compiled on first use and cached in numba's folder (NUMBA_CACHE_DIR, else beside the installed
files). Compile them when an image is built, or before many ranks start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson
from rubrank.cli.terminal import print_json, print_table

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

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
        names = ("safe", "holds", "walls", "refused", "machine")
        print_json({name: getattr(result, name) for name in names})
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
    from rubrank.grading.progress import Bar

    with Bar("compiling", as_json) as bar:
        seconds = compile_kernels(bar)
    if as_json:
        print_json(seconds)
        return
    rows = [*seconds.items(), ("all", sum(seconds.values()))]
    print_table("compiled and cached", ("kernels", "seconds"), rows, total=1)


def compile_kernels(progress: Callable[[int, int], None] | None = None) -> dict[str, float]:
    """Fit small batches of every shape with every model, which compiles all kernels.

    Returns the seconds of each case, nearly 0 the next time: {"bradley-terry: attributes, pool batch": 3.1, …}.
    """
    from rubrank.fusion.models.model import model_names
    from rubrank.fusion.rlvr2 import RLVR2

    batches = _make_batches()
    with_attributes = _make_batches(attributes=True)
    cases: dict[str, tuple[list[ScoreBatch], dict[str, Any]]] = {}
    for model in model_names():
        cases[f"{model}: no attributes"] = (batches, {"model": model})
        if model == "borda":  # it counts wins, without a fit that could use attributes
            continue
        for pool in ("group", "batch", "run"):
            controlled = {"model": model, "pool": pool, "adjust": "remove"}
            cases[f"{model}: attributes, pool {pool}"] = (with_attributes, controlled)

    seconds: dict[str, float] = {}
    for name, (case_batches, options) in cases.items():
        began = time.perf_counter()
        for batch in case_batches:
            RLVR2(**options)(batch)
        seconds[name] = time.perf_counter() - began
        if progress is not None:
            progress(len(seconds), len(cases))
    return seconds


def _make_batches(attributes: bool = False) -> list[ScoreBatch]:
    """Make batches that use all code paths: small and large groups, with and without missing scores and margins."""
    import numpy as np

    from rubrank.scores.batch import ScoreBatch

    rng = np.random.default_rng(0)
    batches = []
    for shape in ((8, 4, 3), (8, 64, 3), (2, 300, 2)):
        scores = rng.random(shape)
        options: dict[str, Any] = {"attributes": rng.random((*shape[:2], 2))} if attributes else {}
        with_missing = np.where(rng.random(shape) < 0.2, np.nan, scores)
        batches.append(ScoreBatch.of_arrays(scores, **options))
        batches.append(ScoreBatch.of_arrays(with_missing, margins=0.1, **options))
    return batches
