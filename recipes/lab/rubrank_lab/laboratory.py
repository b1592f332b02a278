"""What `rubrank lab` does, on one folder of recipes.

lab = Laboratory(Path("recipes/lab"))
lab.run(lab.chosen(["main"]), work, seeds=5)
lab.collect(work)                         new results into recipes/lab/results
lab.report(Path("report.html"))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rubrank import InvalidInput
from rubrank_lab import confirming
from rubrank_lab.experiments import Experiment, cells_of, choose, load_experiments
from rubrank_lab.grid import Ran, is_finished, policy_of, run_grid, time_steps, to_run
from rubrank_lab.results import POLICY, check_policy, collect, load
from rubrank_lab.runtime import STEPS, read_steps, read_times, time_fusion, write_steps, write_times
from rubrank_lab.smollm2 import NAME, NUMBER, confirm, is_confirmed, runs_of


@dataclass(frozen=True)
class Laboratory:
    """Experiments and their results."""

    folder: Path

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        """By name, in the order in which they are run."""
        return load_experiments(self.folder)

    def chosen(self, names: Sequence[str]) -> list[Experiment]:
        """Some of them; none is all. The confirming runs are no grid, and left out."""
        grids = [name for name in names if name not in (NAME, NUMBER)]
        return choose(self.experiments, grids, [NAME]) if grids or not names else []

    def listed(self, work: Path, seeds: int) -> Iterator[str]:
        """A line for each experiment."""
        collected = load(self.folder).cells
        for one in self.experiments.values():
            cells = cells_of(one, seeds)
            done = sum(cell.key in collected or is_finished(cell, work) for cell in cells)
            about = f"{one.title}{f' (the paper: {one.paper})' if one.paper else ''}"
            yield f"{one.number or '-':2} {one.name:11} {done:3} of {len(cells):3} cells  {about}"
        runs = runs_of(work, seeds)
        kept = self._confirmed
        done = sum(is_confirmed(run) or run.name in kept for run in runs)
        yield f"{NUMBER} {NAME:11} {done:3} of {len(runs):3} runs   Confirming runs with a real model; run when named"

    def run(
        self, experiments: Sequence[Experiment], work: Path, seeds: int, smoke: bool = False, until: float | None = None
    ) -> Ran:
        """Run what is not finished."""
        cells = [cell for one in experiments for cell in cells_of(one, seeds, smoke)]
        done = frozenset() if smoke else load(self.folder).cells
        if not smoke and to_run(cells, work, done):
            policy_of(cells[0], work.resolve(), self.folder / POLICY)
            check_policy(work, self.folder)  # before hours are spent on cells that could not be collected
        ran = run_grid(cells, work, done, until)
        if not ran.left and any(one.name == "runtime" for one in experiments):
            self._time_steps(work, smoke)
        return ran

    def _time_steps(self, work: Path, smoke: bool) -> None:
        """Seed 0 of each arm of the experiment on runtime, if its times are not kept."""
        if smoke or not read_steps(self.folder / STEPS):
            time_steps(cells_of(self.experiments["runtime"], 1, smoke), work)

    def unfinished(self, names: Sequence[str], work: Path, seeds: int, smoke: bool = False) -> set[str]:
        """Keys of the cells and names of the confirming runs that have no result yet."""
        cells = [cell for one in self.chosen(names) for cell in cells_of(one, seeds, smoke)]
        collected = frozenset() if smoke else load(self.folder).cells
        grid = {cell.key for cell in cells if cell.key not in collected and not is_finished(cell, work)}
        runs = runs_of(work, seeds) if {NAME, NUMBER} & set(names) else []
        return grid | {run.name for run in runs if run.name not in self._confirmed and not is_confirmed(run)}

    def confirm(self, names: Sequence[str], work: Path, seeds: int, until: float | None = None) -> Ran:
        """Run what is not finished of the confirming runs, if they are named: they take hours, and a model."""
        if NAME not in names and NUMBER not in names:
            return Ran(0, 0, 0)
        return confirm(self.folder, work, seeds, until, self._confirmed)

    @property
    def _confirmed(self) -> set[str]:
        """Names of the confirming runs whose results are kept."""
        return {f"{row.rule}-s{row.seed}" for row in confirming.read(self.folder)}

    def time_fusion(self, work: Path) -> Path | None:
        """Time the rules of the experiment on runtime on what its RLVR² logged; once, and only where it was run."""
        arms = self.experiments["runtime"].arms
        records = work / "cells" / arms["RLVR²"].key / "run" / "records.jsonl"
        if not records.is_file() or read_times(self.folder):
            return None
        return write_times(self.folder, time_fusion(records, [cell.rule for cell in arms.values()]))

    def collect(self, work: Path) -> int:
        """Take over what was run; returns how many cells are new."""
        known = {cell.key for one in self.experiments.values() for cell in cells_of(one, 99)}
        confirming.collect(work / NAME, self.folder)
        if (times := read_steps(work / STEPS.name)) and not read_steps(self.folder / STEPS):
            write_steps(self.folder / STEPS, times)
        return collect(work, self.folder, known)

    def require_results(self, work: Path) -> None:
        """Raise if there is nothing to report: neither cells nor confirming runs."""
        if not load(self.folder).cells and not confirming.read(self.folder):
            got, remedy = f"none in {work} or {self.folder / 'results'}", "Run some: rubrank lab run."
            raise InvalidInput("lab report", "the results", "of at least one cell", got, remedy)

    def report(self, page: Path, markdown: Path | None = None) -> list[Path]:
        """Write the page, and the same as Markdown; returns what was written."""
        from rubrank_lab.page import write_page

        return write_page(self.folder, self.experiments, page, markdown)
