"""The verb lab: the experiments of recipes/lab, from a checkout of the repository.

rubrank lab list                     experiments, arms, and how many of their cells are finished
rubrank lab run main --seeds 5       what is not finished; stop it whenever you like, and say it again
rubrank lab report                   a page, from the results alone
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
    Path | None, typer.Option("--recipes", metavar="FOLDER", help="recipes/lab of a checkout, if not run in one.")
]
_Work = Annotated[Path, typer.Option("--work", metavar="FOLDER", help="Where cells are run and wait to be collected.")]
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
    laboratory = _laboratory(recipes)
    for line in laboratory.listed(work, seeds):
        print(line)


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Experiments, by name or number; default all but smollm2."),
    ] = None,
    seeds: _Seeds = 5,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Cells at a time, each in a process.")] = 1,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.0, help="Start no cell after this many minutes.")
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Two steps of one seed: does everything run?")] = False,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """Run the unfinished cells of some experiments; after an interrupt, the same command continues."""
    asked = names or []
    with _with_extras():
        laboratory = _laboratory(recipes)
        chosen, until = laboratory.chosen(asked), None if minutes is None else time.time() + 60.0 * minutes
        before, complaints = laboratory.unfinished(asked, work, seeds, smoke), _complaints(work)
        others: list[subprocess.Popen[bytes]] = []
        try:
            others += [_start(names, seeds, minutes, smoke, work, recipes) for _ in range(jobs - 1)]
            laboratory.run(chosen, work, seeds, smoke, until)
            laboratory.confirm(asked, work, seeds, until)
            codes = [process.wait() for process in others]
        except KeyboardInterrupt:
            typer.echo("rubrank: interrupted; the same command continues", err=True)
            raise typer.Exit(130) from None
        finally:
            for process in others:  # whoever interrupts us need not have told them
                process.terminate()
        after = laboratory.unfinished(asked, work, seeds, smoke)  # what the other processes did counts as well
    failed = {key for key, _ in _complaints(work) - complaints} & after
    print(f"cells run: {len(before - after)}, failed: {len(failed)}, left: {len(after - failed)}")
    if failed or any(codes):
        typer.echo(f"rubrank: what went wrong is in {work / 'failed'}", err=True)
        raise typer.Exit(1)


@contextmanager
def _with_extras() -> Iterator[None]:
    """A package that is not there is one of an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = "pip install 'rubrank[trl,plots]'."
        raise InvalidInput("lab", "installed", "torch, TRL and matplotlib", f"no {error.name}", remedy) from None


def _complaints(work: Path) -> set[tuple[str, int]]:
    """Cells of which it is written down what went wrong, and when."""
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
    with _with_extras():
        from rubrank._files import check_output_path

        output = output or Path("out/lab/report.html")  # made anew each time, as are the pictures
        check_output_path(output, (".html", ".htm"), force=True, verb="lab report")
        if markdown is not None:
            check_output_path(markdown, (".md",), force=True, verb="lab report", option="markdown")
        laboratory = _laboratory(recipes)
        if collect:
            print(f"{laboratory.collect(work)} new cells")
        laboratory.require_results(work)
        if collect:
            laboratory.time_fusion(work)
        for path in laboratory.report(output, markdown):
            print(path)


def _start(
    names: list[str] | None, seeds: int, minutes: float | None, smoke: bool, work: Path, recipes: Path | None
) -> subprocess.Popen[bytes]:
    """Another process that takes cells of the same grid."""
    options = ["--seeds", str(seeds), "--work", str(work), *(["--smoke"] if smoke else [])]
    options += [] if minutes is None else ["--minutes", str(minutes)]
    options += [] if recipes is None else ["--recipes", str(recipes)]
    command = [sys.executable, "-m", "rubrank", "lab", "run", *(names or []), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _laboratory(given: Path | None) -> Any:
    """The laboratory of a checkout: the folder named, the one around us, or the one that the library is run from."""
    here = Path.cwd().resolve()
    checkout = Path(__file__).resolve().parents[4]
    places = [given] if given is not None else [place / _RECIPE for place in (here, *here.parents, checkout)]
    found = next((place.resolve() for place in places if (place / "rubrank_lab").is_dir()), None)
    if found is None:
        got = str(given) if given is not None else f"none in {here} or above"
        remedy = "Run it in a checkout of the repository, or name the folder with --recipes."
        raise InvalidInput("lab", "--recipes", "the folder recipes/lab of a checkout", got, remedy)
    if str(found) not in sys.path:
        sys.path.insert(0, str(found))
    from rubrank_lab.laboratory import Laboratory  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return Laboratory(found)
