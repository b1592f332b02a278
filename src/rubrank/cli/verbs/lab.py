"""The verb lab: the experiments of recipes/lab, run from a checkout of the repository.

    rubrank lab list                     lists the arms, and how many seeds of each are finished
    rubrank lab run facts --jobs 2       runs the missing cells; after an interrupt, the same command continues
    rubrank lab tunnel                   runs every rule in the simulated worlds of the wind tunnel
    rubrank lab report                   collects new results and writes docs/lab.md

An arm is a rule with its options. A cell is one arm with one seed on one task family.
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
    typer.Option(
        "--recipes", metavar="FOLDER", help="The folder recipes/lab, if outside a checkout."
    ),
]
_Work = Annotated[
    Path, typer.Option("--work", metavar="FOLDER", help="Folder for the results of cells.")
]
_Families = Annotated[
    list[str] | None, typer.Argument(metavar="FAMILY", help="Task families; default: all.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    lab = typer.Typer(
        help="Find out which rule trains best: experiments with small policies, in a checkout of the repository."
    )
    add_verb(lab, list_arms, "list")
    add_verb(lab, run, "run")
    add_verb(lab, tunnel, "tunnel")
    add_verb(lab, report, "report")
    app.add_typer(lab, name="lab")


def list_arms(work: _Work = Path("out/lab"), recipes: _Recipes = None) -> None:
    """List the arms, and how many of their seeds are finished in each family."""
    with _explain_missing_packages():
        folder = _find_recipes(recipes)
        from rubrank_lab import cells  # type: ignore[import-not-found, import-untyped, unused-ignore]

        plan = cells.load_plan(folder)
        for family, seeds in plan.seeds.items():
            missing = [
                arm for seed in range(seeds) for arm in cells.list_missing(plan, family, seed, work)
            ]
            for arm in plan.arms:
                print(f"{family:8} {seeds - missing.count(arm):3} of {seeds:3} seeds  {arm}")


def run(
    families: _Families = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", metavar="NAME", help="Run only this arm; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Seeds per arm; default: as planned.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Seeds to run at once, each in its own process.")
    ] = 1,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0.0, help="Do not start another seed after this many minutes."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Training steps instead of 64, for a trial."),
    ] = None,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """Run the missing cells, seed by seed; after an interrupt, the same command continues."""
    with _explain_missing_packages():
        folder = _find_recipes(recipes)
        from rubrank_lab import cells

        plan = cells.load_plan(folder)
        names = plan.choose_families(families or [])
        plan.check_arms(arm or [])
        until = None if minutes is None else time.time() + 60.0 * minutes
        # The other jobs are processes that run the same cells: seeds are claimed, so none is run twice.
        command = [sys.executable, "-m", "rubrank", "lab", "run", *names]
        command += ["--work", str(work), "--recipes", str(folder)]
        for name in arm or ():
            command += ["--arm", name]
        for flag, value in (("--seeds", seeds), ("--minutes", minutes), ("--steps", steps)):
            if value is not None:
                command += [flag, str(value)]
        workers: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(jobs - 1):
                workers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            count = 0
            for family in names:
                numbers = range(seeds or plan.seeds[family])
                count += cells.run_seeds(
                    plan, family, work, numbers, arms=arm or (), until=until, steps=steps
                )
            exit_codes = [worker.wait() for worker in workers]
        except KeyboardInterrupt:
            typer.echo("rubrank: interrupted; the same command continues", err=True)
            raise typer.Exit(130) from None
        finally:
            for worker in workers:  # a signal to this process alone does not reach them
                worker.terminate()
    print(f"cells run by this process: {count}")
    if any(exit_codes):
        raise typer.Exit(1)


def tunnel(
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="Seeds per rule and world.")] = 32,
    world: Annotated[
        list[str] | None,
        typer.Option("--world", metavar="NAME", help="Run only this world; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The table of gains; default recipes/lab/results/tunnel.parquet.",
        ),
    ] = None,
    recipes: _Recipes = None,
) -> None:
    """Run every rule in simulated worlds, and print its share of the best gain."""
    folder = _find_recipes(recipes)
    from rubrank_lab import cells
    from rubrank_lab import tunnel as wind  # type: ignore[import-not-found, import-untyped, unused-ignore]

    worlds = wind.choose_worlds(world or [])
    if output is None:
        if world:
            remedy = "Name a file with --output: the default file holds the results of all worlds."
            raise InvalidInput(
                "lab tunnel",
                "--output",
                allowed="given with --world",
                got="nothing",
                remedy=remedy,
            )
        output = folder / "results" / "tunnel.parquet"
    arms = wind.list_arms(cells.load_plan(folder).arms)
    gains = wind.run_tunnel(arms, seeds, worlds, report=lambda line: typer.echo(line, err=True))
    output.parent.mkdir(parents=True, exist_ok=True)
    gains.write_parquet(output, compression="zstd")
    for name, mean, worst in wind.summarise(wind.share_of_best(gains)):
        print(f"{mean:6.1%} {worst:6.1%}  {name}")


def report(
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown", metavar="FILE", help="The page; default: docs/lab.md of the checkout."
        ),
    ] = None,
    collect: Annotated[
        bool, typer.Option("--collect/--no-collect", help="Collect new results first.")
    ] = True,
    work: _Work = Path("out/lab"),
    recipes: _Recipes = None,
) -> None:
    """Write the page from the results of all cells and of the tunnel."""
    with _explain_missing_packages():
        from rubrank._files import check_output_path

        folder = _find_recipes(recipes)
        from rubrank_lab import cells
        from rubrank_lab.report import write_report  # type: ignore[import-not-found, import-untyped, unused-ignore]

        target = markdown or folder.parents[1] / "docs" / "lab.md"
        # The page is generated from the results, so an existing one may be overwritten.
        check_output_path(target, (".md",), force=True, verb="lab report", option="markdown")
        plan = cells.load_plan(folder)
        if collect:
            print(f"{cells.collect(plan, work)} new cells")
        write_report(plan, target)
        print(target)


@contextmanager
def _explain_missing_packages() -> Iterator[None]:
    """Turn a failed import into advice to install the extras that the laboratory needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "lab",
            "the packages torch, TRL and SciPy",
            allowed="installed",
            got=f"no {error.name}",
            remedy="Run `pip install 'rubrank[trl,studies]'`.",
        ) from None


def _find_recipes(recipes: Path | None) -> Path:
    """Find the folder recipes/lab, and add it to sys.path.

    By default it is that of the checkout around the current folder, or of the checkout that rubrank runs from.
    """
    current_folder = Path.cwd().resolve()
    candidates: list[Any] = [recipes]
    if recipes is None:
        checkout = Path(__file__).resolve().parents[4]
        candidates = [
            folder / _RECIPE for folder in (current_folder, *current_folder.parents, checkout)
        ]
    folder = next((path.resolve() for path in candidates if (path / "rubrank_lab").is_dir()), None)
    if folder is None:
        got = str(recipes) if recipes is not None else f"none in {current_folder} or above"
        raise InvalidInput(
            "lab",
            "--recipes",
            allowed="the folder recipes/lab of a checkout",
            got=got,
            remedy="Run it in a checkout of the repository, or name the folder with --recipes.",
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return Path(folder)
