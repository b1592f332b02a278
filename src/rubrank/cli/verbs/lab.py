"""The verb lab: the experiments of recipes/lab, run from a checkout of the repository.

    rubrank lab list                     lists experiments and arms, and how many of their cells are finished
    rubrank lab run main --seeds 5       runs the unfinished cells; after an interrupt, the same command continues
    rubrank lab report                   writes a page from the results

An experiment compares arms (settings of a training run) over several seeds. A cell is one arm with one seed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.errors import InvalidInput

_RECIPE = Path("recipes") / "lab"
_Recipes = Annotated[
    Path | None,
    typer.Option("--recipes", metavar="FOLDER", help="The folder recipes/lab, if outside a checkout."),
]
_Work = Annotated[Path, typer.Option("--work", metavar="FOLDER", help="Folder for the results of cells.")]
_Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds per arm.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    lab = typer.Typer(help="The paper's experiments with a small policy, in a checkout of the repository.")
    add_verb(lab, list_experiments, "list")
    add_verb(lab, run, "run")
    add_verb(lab, report, "report")
    app.add_typer(lab, name="lab")


def list_experiments(
    seeds: _Seeds = 5,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """List the experiments, and how many of their cells are finished."""
    laboratory = _find_laboratory(recipes)
    for line in laboratory.listed(work, seeds):
        print(line)


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Experiments, by name or number; default all but smollm2."),
    ] = None,
    seeds: _Seeds = 5,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Cells to run at once, each in its own process.")] = 1,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.0, help="Do not start another cell after this many minutes.")
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Two steps of one seed, to see that everything runs.")] = False,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """Run the unfinished cells of some experiments; after an interrupt, the same command continues."""
    names = names or []
    with _explain_missing_packages():
        laboratory = _find_laboratory(recipes)
        chosen = laboratory.chosen(names)
        deadline = None if minutes is None else time.time() + 60.0 * minutes
        unfinished_before = laboratory.unfinished(names, work, seeds, smoke)
        failures_before = _list_failures(work)
        workers: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(jobs - 1):  # this process is one of the jobs
                workers.append(_start_worker(names, seeds, minutes, smoke, work, recipes))
            laboratory.run(chosen, work, seeds, smoke, deadline)
            laboratory.confirm(names, work, seeds, deadline)
            exit_codes = [worker.wait() for worker in workers]
        except KeyboardInterrupt:
            typer.echo("rubrank: interrupted; the same command continues", err=True)
            raise typer.Exit(130) from None
        finally:
            for worker in workers:  # a signal to this process alone does not reach them
                worker.terminate()
        unfinished = laboratory.unfinished(names, work, seeds, smoke)  # includes the work of the other processes
    failed = {cell for cell, _ in _list_failures(work) - failures_before} & unfinished
    finished = unfinished_before - unfinished
    print(f"cells run: {len(finished)}, failed: {len(failed)}, left: {len(unfinished - failed)}")
    if failed or any(exit_codes):
        typer.echo(f"rubrank: see {work / 'failed'} for the errors", err=True)
        raise typer.Exit(1)


@contextmanager
def _explain_missing_packages() -> Iterator[None]:
    """Turn a failed import into advice to install the extras that the laboratory needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = "pip install 'rubrank[trl,plots]'."
        raise InvalidInput("lab", "installed", "torch, TRL and matplotlib", f"no {error.name}", remedy) from None


def _list_failures(work: Path) -> set[tuple[str, int]]:
    """Name of each failed cell, and the time of its failure: a cell that fails again counts as a new failure."""
    return {(path.name.removesuffix(".txt"), path.stat().st_mtime_ns) for path in (work / "failed").glob("*.txt")}


def report(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page; default out/lab/report.html.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="The same as Markdown, pictures beside it.")
    ] = None,
    collect: Annotated[bool, typer.Option("--collect/--no-collect", help="First collect new results.")] = True,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """Write the report from the results of all cells."""
    with _explain_missing_packages():
        from rubrank._files import check_output_path

        output = output or Path("out/lab/report.html")
        # force: the report is generated, and so are its pictures. There is nothing to protect.
        check_output_path(output, (".html", ".htm"), force=True, verb="lab report")
        if markdown is not None:
            check_output_path(markdown, (".md",), force=True, verb="lab report", option="markdown")
        laboratory = _find_laboratory(recipes)
        if collect:
            print(f"{laboratory.collect(work)} new cells")
        laboratory.require_results(work)
        if collect:
            laboratory.time_fusion(work)
        for path in laboratory.report(output, markdown):
            print(path)


def _start_worker(
    names: list[str], seeds: int, minutes: float | None, smoke: bool, work: Path, recipes: Path | None
) -> subprocess.Popen[bytes]:
    """Start another process that runs cells of the same experiments."""
    command = [sys.executable, "-m", "rubrank", "lab", "run", *names, "--seeds", str(seeds), "--work", str(work)]
    if smoke:
        command.append("--smoke")
    if minutes is not None:
        command += ["--minutes", str(minutes)]
    if recipes is not None:
        command += ["--recipes", str(recipes)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _find_laboratory(recipes: Path | None) -> Any:
    """The laboratory in the folder `recipes`; by default in the checkout we are in, or the one rubrank runs from."""
    here = Path.cwd().resolve()
    if recipes is not None:
        candidates = [recipes]
    else:
        checkout = Path(__file__).resolve().parents[4]
        candidates = [folder / _RECIPE for folder in (here, *here.parents, checkout)]
    folder = next((folder.resolve() for folder in candidates if (folder / "rubrank_lab").is_dir()), None)
    if folder is None:
        got = str(recipes) if recipes is not None else f"none in {here} or above"
        remedy = "Run it in a checkout of the repository, or name the folder with --recipes."
        raise InvalidInput("lab", "--recipes", "the folder recipes/lab of a checkout", got, remedy)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    from rubrank_lab.laboratory import Laboratory  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return Laboratory(folder)
