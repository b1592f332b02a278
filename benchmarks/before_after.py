"""Is this tree as fast as an older one? Both in one run, call by call in turns, one table.

    python benchmarks/before_after.py ../old/src              a few minutes
    python benchmarks/before_after.py ../old/src --quick      fewer rounds
    python benchmarks/before_after.py ../old/src --only N     the cases whose name has "N"

Each tree has a process of its own that lives through the whole run. They are asked in turns, round after round, so that
whatever else the machine does hits both alike; a round's figure is the fastest of its calls in processor seconds, a
case's figure the median of its rounds. Both get the very same data, made by `fusion.py` beside this file. Fresh
processes (imports, first fits, peak memory) are started in turns too. Before anything is timed each tree compiles what
it needs, in a process that is then thrown away: code just compiled may run slower than the same code from the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import fusion
import numpy as np
from side_by_side import Unit, load, machine, quantity

import rubrank

NEW = Path(__file__).parents[1] / "src"
BAR = 1.05
"""What the path without attributes may take, as a multiple of what it took."""


@dataclass(frozen=True)
class Case:
    """A call that both trees can make; `bar` is on new ÷ old."""

    name: str
    make: Callable[[], Callable[[], object]]
    calls: int = 20
    bar: float | None = BAR
    in_new: Callable[[], Callable[[], object]] | None = None
    """What this tree does instead, where the older one has no such form."""


# -------------------------------------------------------------------------------------------------------------- cases


def fused(N: int = 128, G: int = 8, K: int = 12, *, kinds: str = "mixed", missing: float = 0.0, **options: Any) -> Any:
    """A call of `fuse` on a step, ready to be made."""
    D = options.pop("D", 0)
    step = fusion.make_step(N, G, K, D, kinds=kinds)
    scores = fusion.with_missing(step.scores_NGK, missing) if missing else step.scores_NGK
    if D:
        options["attributes"] = step.attributes_NGD
    return lambda: rubrank.fuse(scores, weights=step.weights_K, **options)


def cases() -> Iterator[Case]:
    """Every call that `fusion.py` times, in its order."""
    yield Case("no attributes", fused)
    for D, calls in ((1, 10), (11, 3)):
        what = f"{D} attribute{'s' if D > 1 else ''}"
        yield Case(f"{what}: γ per group", partial(fused, D=D, pool="group"), calls, None)
        yield Case(f"{what}: γ over the batch", partial(fused, D=D, pool="batch"), calls, 2.0)
        batch = partial(fused, D=D, pool="batch")
        run = partial(fused, D=D, pool="run")
        yield Case(f"{what}: γ over the run (old: over the batch)", batch, calls, 2.0, run)
    for kinds in ("mixed", "continuous"):
        for G in fusion.GROUP_SIZES[1:]:
            yield Case(f"{kinds} criteria: G = {G}", partial(fused, 1024 // G, G, kinds=kinds))
    for K in (1, 3, 48, 192):
        yield Case(f"K = {K}", partial(fused, K=K), 20 if K < 100 else 5)
    for N in (1, 8, 32, 512, 2048):
        yield Case(f"N = {N}", partial(fused, N), 20 if N < 500 else 5)
    margins = np.repeat([0.0, 0.0, 0.3], 4)
    yield Case("Thurstone", partial(fused, model="thurstone"))
    yield Case("Borda", partial(fused, model="borda"))
    yield Case("20% missing", partial(fused, missing=0.2))
    yield Case("margins", partial(fused, margins=margins))
    yield Case("margins, 20% missing", partial(fused, missing=0.2, margins=margins))
    yield Case("span='unit'", partial(fused, span="unit"))
    adjusted = partial(fused, D=1, pool="group")
    yield Case("1 attribute per group: 20% missing", partial(adjusted, missing=0.2), 5, None)
    yield Case("1 attribute per group: margins", partial(adjusted, margins=margins), 5, None)
    yield Case("1 attribute per group: attenuate(0.5)", partial(adjusted, adjust=rubrank.attenuate(0.5)), 5, None)
    yield Case("1 attribute: Thurstone, pooled", partial(fused, D=1, pool="batch", model="thurstone"), 1, None)


def fresh() -> Iterator[tuple[str, str, dict[str, Any], str, Unit, str]]:
    """Name, code, its variables, the figure it prints, its unit, and the bar in words."""
    for statement in ("import rubrank", "from rubrank import fuse"):
        yield statement, fusion.IMPORT, {"statement": statement}, "seconds", "s", "200 ms"
    shape: tuple[int, ...]
    for name, shape, D, pool in (
        ("no attributes", (128, 8, 12), 0, "group"),
        ("groups of 64", (16, 64, 12), 0, "group"),
        ("1 attribute per group", (128, 8, 12), 1, "group"),
        ("11 attributes, pooled", (128, 8, 12), 11, "batch"),
    ):
        settings = {"shape": shape, "D": D, "pool": pool}
        yield f"first fit: {name}", fusion.FIRST_FIT, settings, "seconds", "s", "1 s"
    M = 100_000
    for name, shape, labels, D in (
        ("groups of 8, one array", (M // 8, 8, 12), "", 0),
        ("groups of 8, sorted labels", (M, 12), "sorted", 0),
        ("groups of 8, shuffled labels", (M, 12), "shuffled", 0),
        ("groups of 500", (M // 500, 500, 12), "", 0),
        ("groups of 8, 1 attribute", (M // 8, 8, 12), "", 1),
    ):
        settings = {"shape": shape, "labels": labels, "D": D}
        yield f"peak memory ÷ input: {name}", fusion.LARGE, settings, "peak", "MB", "4 ×"


# ------------------------------------------------------------------------------------------------------------- worker


def work() -> None:
    """Answer "case, calls" lines with the fastest of so many calls, in processor seconds."""
    by_name = {case.name: case for case in cases()}
    is_new = NEW.samefile(Path(rubrank.__file__).parents[1])
    ready: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name, calls = json.loads(line)
        if name not in ready:
            ready = {name: (by_name[name].in_new or by_name[name].make)() if is_new else by_name[name].make()}
            ready[name]()  # fills caches
        print(json.dumps(min(_seconds(ready[name]) for _ in range(calls))), flush=True)


def _seconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


@dataclass
class Tree:
    """One source tree and its process."""

    source: Path

    def __post_init__(self) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(self.source)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def warm(self, only: str) -> Tree:
        """The same with everything compiled and kept on disk: every case once, then a new process."""
        for case in cases():
            if only in case.name:
                self.seconds(case.name, 1)
        self.close()
        return Tree(self.source)

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def seconds(self, name: str, calls: int) -> float:
        """The fastest of some calls."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps([name, calls]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.source}: the case {name!r} failed; its error is above")
        return float(json.loads(answer))

    def fresh(self, code: str, settings: dict[str, Any]) -> dict[str, Any]:
        """What a new process prints last."""
        names = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
        done = subprocess.run(
            [sys.executable, "-c", names + code], env=self.environment, capture_output=True, text=True, check=True
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))


# --------------------------------------------------------------------------------------------------------------- table


def in_turns(old: Tree, new: Tree, case: Case, rounds: int) -> tuple[float, float]:
    """The median round of each; who goes first changes from round to round."""
    seconds: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            seconds[which].append((old, new)[which].seconds(case.name, case.calls))
    return median(seconds[0]), median(seconds[1])


def rows(old: Tree, new: Tree, rounds: int, processes: int, only: str) -> Iterator[tuple[str, ...]]:
    """The cells of every row."""
    for case in cases():
        if only in case.name:
            before, after = in_turns(old, new, case, rounds)
            bar = "" if case.bar is None else f"≤ {case.bar:g} ×"
            yield _cells(case.name, before, after, "s", bar, case.bar is None or after / before <= case.bar)
    for name, code, settings, figure, unit, bar in fresh():
        if only in name:
            yield _fresh_cells(
                name,
                [(old.fresh(code, settings), new.fresh(code, settings)) for _ in range(processes)],
                figure,
                unit,
                bar,
            )


def _fresh_cells(name: str, answers: list[Any], figure: str, unit: Unit, bar: str) -> tuple[str, ...]:
    before, after = (median(pair[which][figure] for pair in answers) for which in (0, 1))
    if unit == "MB":
        settings = answers[0][1]["input"]
        reached = after / settings <= 4.0
        return (
            name,
            f"{before / settings:.2f} ×",
            f"{after / settings:.2f} ×",
            f"{after / before:.2f}",
            f"≤ {bar}",
            "yes" if reached else "no",
        )
    most = {"200 ms": 0.2, "1 s": 1.0}[bar]
    return _cells(name, before, after, unit, f"≤ {bar}", after <= most)


def _cells(name: str, before: float, after: float, unit: Unit, bar: str, reached: bool) -> tuple[str, ...]:
    verdict = ("yes" if reached else "no") if bar else ""
    return name, quantity(before, unit), quantity(after, unit), f"{after / before:.2f}", bar, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, nargs="?", help="the older tree's src folder")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name has this in it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return
    if arguments.old is None or not (arguments.old / "rubrank").is_dir():
        parser.error("name the src folder of the older tree, which holds rubrank/")
    rounds, processes = (9, 3) if arguments.quick else (41, 7)
    print(", ".join(f"{name} {value}" for name, value in machine(("numpy", "numba")).items()), f"load {load()}")
    print("\n| case | old | new | new ÷ old | bar | reached |\n|---|--:|--:|--:|--:|---|")
    old, new = (Tree(source).warm(arguments.only) for source in (arguments.old.resolve(), NEW))
    for row in rows(old, new, rounds, processes, arguments.only):
        print(f"| {' | '.join(row)} |", flush=True)
    old.close()
    new.close()
    print(f"\nload {load()}")


if __name__ == "__main__":
    main()
