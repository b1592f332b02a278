"""Time contenders side by side in one run, and say which bars were reached.

    seconds = side_by_side({"ours": call(ours), "argsort": call(argsort)}, rounds=20)
    rows = [slower("no attributes", seconds["ours"], "argsort", seconds["argsort"], bar=1.5)]
    show("fusion", rows)

The contenders take turns, round after round, so that whatever else the machine does hits all of them alike. What is
reported is the median of the rounds. A job that takes seconds is cut into parts of like work, one of them a round: its
time is the median part times their number, so that one part that was disturbed does not count against it.

Seconds are those that the processor spent on the calling thread. On an idle machine that is what a clock on the wall
shows; on a busy one the wall clock would also count the turns of other programs, and those hit a loop of seconds but
not the median of calls of microseconds: it would flatter us. Some of that remains, since other programs also empty the
caches: `busy` says when not to trust the ratios.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

Unit = Literal["s", "MB", "kernels"]


# ------------------------------------------------------------------------------------------------------------- timing


@dataclass(frozen=True)
class Contender:
    """A job in `parts`; `run(part)` does one of them. A short job is called `calls` times a round, for the median.

    A job that works in threads of its own needs another clock: `time.perf_counter`.
    """

    run: Callable[[int], object]
    parts: int = 1
    calls: int = 1
    clock: Callable[[], float] = time.thread_time


def call(function: Callable[[], object], calls: int = 20) -> Contender:
    """A short job in one part."""
    return Contender(lambda _: function(), calls=calls)


def in_parts(jobs: Sequence[Callable[[], object]], parts: int) -> Contender:
    """A long loop over `jobs`, cut into parts of as many jobs each (to within one)."""

    def run(part: int) -> None:
        for job in jobs[part::parts]:
            job()

    return Contender(run, parts)


def side_by_side(contenders: Mapping[str, Contender], rounds: int) -> dict[str, float]:
    """Seconds of each contender's whole job."""
    for contender in contenders.values():
        if contender.parts == 1:
            contender.run(0)  # compiles, fills caches
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, contender in contenders.items():
            times[name].append(_seconds(contender, turn % contender.parts))
    return {name: contenders[name].parts * median(seconds) for name, seconds in times.items()}


def _seconds(contender: Contender, part: int) -> float:
    seconds = []
    for _ in range(contender.calls):
        start = contender.clock()
        contender.run(part)
        seconds.append(contender.clock() - start)
    return median(seconds)


def in_fresh_process(code: str, **given: object) -> dict[str, Any]:
    """Run `code` in a new interpreter, with `given` as its variables; what it prints last is its answer, as JSON."""
    names = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    done = subprocess.run([sys.executable, "-c", names + code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# --------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True)
class Row:
    """One comparison. `ratio` is how many times faster we are, or how many times the rival's time (or size) we take."""

    section: str
    case: str
    ours: float
    rival: str
    rivals: float | None
    ratio: float
    is_faster: bool
    bar: float | None = None
    unit: Unit = "s"

    @property
    def reached(self) -> bool | None:
        """None without a bar."""
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.is_faster else self.ratio <= self.bar


def faster(section: str, case: str, ours: float, rival: str, rivals: float, bar: float | None = None) -> Row:
    """We want to be at least `bar` times faster than the rival."""
    return Row(section, case, ours, rival, rivals, rivals / ours, True, bar)


def at_most(
    section: str, case: str, ours: float, rival: str, rivals: float, bar: float | None = None, unit: Unit = "s"
) -> Row:
    """We want to take at most `bar` times what the rival takes."""
    return Row(section, case, ours, rival, rivals, ours / rivals, False, bar, unit)


def limit(section: str, case: str, ours: float, bar: float, unit: Unit = "s") -> Row:
    """We want to take at most `bar`, whatever others take."""
    return Row(section, case, ours, "", None, ours, False, bar, unit)


# ------------------------------------------------------------------------------------------------------------ printing


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """One table of all rows, section by section."""
    table = Table(title=title, title_justify="left")
    table.add_column("case")
    for name in ("ours", "rival's", "ratio", "bar"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rival")
    table.add_column("reached", justify="center")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            table.add_section()
            table.add_row(f"[bold]{section}[/bold]")
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    rivals = "" if row.rivals is None else quantity(row.rivals, row.unit)
    reached = {None: "", True: "[green]yes[/green]", False: "[red]no[/red]"}[row.reached]
    return f"  {row.case}", quantity(row.ours, row.unit), rivals, _ratio(row), _bar(row), row.rival, reached


def _ratio(row: Row) -> str:
    if row.rivals is None:
        return ""
    number = f"{row.ratio:,.0f}" if row.ratio >= 100 else f"{row.ratio:.3g}"
    return f"{number} × faster" if row.is_faster else f"{number} ×"


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    number = quantity(row.bar, row.unit) if row.rivals is None else f"{row.bar:,g} ×"
    return f"{'≥' if row.is_faster else '≤'} {number}"


def quantity(value: float, unit: Unit) -> str:
    """1.234e-5 s → 12.3 µs."""
    if unit != "s":
        return f"{value:,.0f} {unit}"
    for scale, name in ((1e-6, "µs"), (1e-3, "ms")):
        if value < 999.5 * scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:,.3g} s" if value < 999.5 else f"{value:,.0f} s"


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows for machines."""
    return [{**asdict(row), "reached": row.reached} for row in rows]


def machine(packages: Sequence[str]) -> dict[str, Any]:
    """Where this was measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
    }


def load() -> float:
    """How many programs wanted a core in the last minute; 0 where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def busy(loads: Sequence[float]) -> str:
    """A warning, if more was running than this benchmark; `loads` before and after it."""
    cores = os.cpu_count() or 1
    if max(loads) <= max(1.25, 0.75 * cores):
        return ""
    loads_text = " and ".join(map(str, loads))
    return f"The machine was busy (load {loads_text} on {cores} cores): ratios to loops of seconds come out too large."


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
