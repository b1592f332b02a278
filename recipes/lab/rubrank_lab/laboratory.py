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

from rubrank_lab import confirming
from rubrank_lab.experiments import Experiment, cells_of, choose, load_experiments
from rubrank_lab.grid import Ran, is_finished, run_grid
from rubrank_lab.results import collect, load
from rubrank_lab.runtime import read_times, time_fusion, write_times
from rubrank_lab.smollm2 import NAME, confirm, is_confirmed, runs_of


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
        grids = [name for name in names if name != NAME]
        return choose(self.experiments, grids) if grids or not names else []

    def listed(self, work: Path, seeds: int) -> Iterator[str]:
        """A line for each experiment."""
        kept = load(self.folder).cells
        for one in self.experiments.values():
            cells = cells_of(one, seeds)
            done = sum(cell.key in kept or is_finished(cell, work) for cell in cells)
            about = f"{one.title}{f' (the paper: {one.paper})' if one.paper else ''}"
            yield f"{one.number or '-':2} {one.name:11} {done:3} of {len(cells):3} cells  {about}"
        runs = runs_of(work, seeds)
        known = {(row.rule, row.seed) for row in confirming.read(self.folder)}
        done = sum(is_confirmed(run) or confirming.named(run) in known for run in runs)
        yield f"10 {NAME:11} {done:3} of {len(runs):3} runs   Confirming runs with a real model; run when named"

    def run(
        self, experiments: Sequence[Experiment], work: Path, seeds: int, smoke: bool = False, until: float | None = None
    ) -> Ran:
        """Run what is not finished."""
        cells = [cell for one in experiments for cell in cells_of(one, seeds, smoke)]
        return run_grid(cells, work, frozenset() if smoke else load(self.folder).cells, until)

    def confirm(self, names: Sequence[str], work: Path, seeds: int, until: float | None = None) -> Ran:
        """Run what is not finished of the confirming runs, if they are named: they take hours, and a model."""
        return confirm(self.folder, work, seeds, until) if NAME in names else Ran(0, 0, 0)

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
        return collect(work, self.folder, known)

    def report(self, page: Path, markdown: Path | None = None) -> list[Path]:
        """Write the page, and the same as Markdown; returns what was written."""
        from rubrank_lab.page import write_page

        return write_page(self.folder, self.experiments, page, markdown)
