"""Running cells, one after the other, beside other processes that do the same: a cell is claimed before it is begun.

    run_grid(cells, work)      Ran(finished=40, failed=0, left=0); what is finished already is passed over

A claim is a locked file. The system unlocks it when the process that holds it ends, killed or not; the cell is free
again and begins anew. Results appear when they are complete, and one that cannot be read counts as none.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rubrank_lab.cell import Cell, checkpoint_of, data_of, logging_to, result_of, run_cell, train
from rubrank_lab.files import locked
from rubrank_lab.policy import make_policy
from rubrank_lab.results import copy_policy, is_readable
from rubrank_lab.runtime import STEPS, clocked, write_steps

SUPERVISED = {"steps": 400, "batch": 48}
SMOKE = {"steps": 2, "batch": 4, "hidden": 32, "layers": 1}
"""The supervised start, and one whose answers are of no use."""


@dataclass(frozen=True)
class Ran:
    """What a call came to."""

    finished: int
    failed: int
    left: int
    """Neither: another process has them, or time is up."""

    def __add__(self, other: Ran) -> Ran:
        return Ran(self.finished + other.finished, self.failed + other.failed, self.left + other.left)


def run_grid(cells: Sequence[Cell], work: Path, done: frozenset[str] = frozenset(), until: float | None = None) -> Ran:
    """Run what is not finished. done: keys of cells whose results are elsewhere. until: begin none after this time."""
    work = work.resolve()  # configs name their files from where they stand themselves
    todo = to_run(cells, work, done)
    if not todo:
        return Ran(0, 0, 0)
    work.mkdir(parents=True, exist_ok=True)
    one_thread()
    kept = {cell.trunk.key for cell in todo if cell.trunk is not None}
    finished = failed = 0
    for number, cell in enumerate(todo, start=1):
        if until is not None and time.time() > until:
            break
        with claimed(work, cell.key) as ours:
            if not ours or is_finished(cell, work, cell.key in kept):
                continue
            begun = time.time()
            good = _run(cell, work, cell.key in kept)
            finished, failed = finished + good, failed + (not good)
            said(f"{number} of {len(todo)}: {cell.key}", time.time() - begun, good)
    left = sum(not is_finished(cell, work, cell.key in kept) for cell in todo)
    return Ran(finished, failed, left - failed)


def said(what: str, seconds: float, good: bool) -> None:
    """A line of progress."""
    print(f"{what}, {seconds:.0f} s{'' if good else ', failed'}", file=sys.stderr, flush=True)


def one_thread() -> None:
    """So small a model gains nothing from a second thread, and sums come out the same everywhere."""
    import torch

    torch.set_num_threads(1)


def to_run(cells: Sequence[Cell], work: Path, done: frozenset[str] = frozenset()) -> list[Cell]:
    """What is not finished, each once, trunks before their branches."""
    found: list[Cell] = []
    for cell in cells:
        if cell.key in done or is_finished(cell, work):
            continue
        if cell.trunk is not None and not is_finished(cell.trunk, work, checkpoint=True):
            found.append(cell.trunk)
        found.append(cell)
    return list(dict.fromkeys(found))


def is_finished(cell: Cell, work: Path, checkpoint: bool = False) -> bool:
    """Has it a result, and the checkpoint that others need?"""
    return is_readable(result_of(cell, work)) and (not checkpoint or checkpoint_of(cell, work).is_dir())


def _run(cell: Cell, work: Path, keep: bool) -> bool:
    complain(work, cell.key, "")
    try:
        run_cell(cell, work, policy_of(cell, work), keep)
    except Exception:
        complain(work, cell.key, traceback.format_exc())
        return False
    return True


def complain(work: Path, key: str, what: str) -> None:
    """Write down what went wrong; nothing: take back what was said before."""
    complaint = work / "failed" / f"{key}.txt"
    complaint.unlink(missing_ok=True)
    if what:
        complaint.parent.mkdir(parents=True, exist_ok=True)
        complaint.write_text(what, encoding="utf-8")


def policy_of(cell: Cell, work: Path, kept: Path | None = None) -> Path:
    """The supervised start: the one that is kept, or else taught when first asked for."""
    folder = work / ("policy-smoke" if cell.smoke else "policy")
    with locked(work / f"{folder.name}.claim", wait=True):
        if folder.is_dir():
            return folder
        if kept is not None and kept.is_dir():
            copy_policy(kept, folder)
        else:
            one_thread()
            make_policy(folder, **(SMOKE if cell.smoke else SUPERVISED))
    return folder


def time_steps(cells: Sequence[Cell], work: Path) -> None:
    """Train each once more with a clock on the parts of a step, into work/steps.csv; once, and by one process."""
    work = work.resolve()
    with claimed(work, STEPS.stem) as ours:
        if not ours or (work / STEPS.name).is_file():
            return
        one_thread()
        found = {}
        for cell in cells:
            folder = work / "timed" / cell.key
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "config.yaml").write_text(json.dumps(cell.job(data_of(cell, work), policy_of(cell, work))))
            with logging_to(folder / "log.txt"), clocked() as spent:
                train(folder / "config.yaml", None)
            found[cell.rule] = {part: seconds / cell.steps for part, seconds in spent.items()}
            shutil.rmtree(folder)
        write_steps(work / STEPS.name, found)


def claimed(work: Path, key: str) -> AbstractContextManager[bool]:
    """Is it ours to run?"""
    return locked(work / "claims" / key, wait=False)
