"""How much of the local path's throughput is left on Ray, on the same cores, and in how much memory? Twelve rules.

    python benchmarks/ray_scale.py                                  20,000 rollouts
    python benchmarks/ray_scale.py --rollouts 1000000               the size that docs/scale.md plans with
    python benchmarks/ray_scale.py --rollouts 1000000 --dataset     also as a Ray dataset, from Parquet to Parquet

Each path runs in a process of its own, with the same rollouts, and gives the same scores and reasons, which is checked.
Seconds by the clock and of processors are those of grading: making the rollouts and starting Ray are not counted,
starting workers and actors is. Memory is that of all processes of a path together (proportional set size), once a
second; the rollouts alone are the first figure. The bar is 85% of the local path.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from rubrank.grading import on_ray
from rubrank.grading.cluster import connect_ray
from rubrank.grading.grade import grade
from rubrank.grading.ray_grader import grade_on_ray
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import ScoreTable

WORDS = ["the", "moon", "pulls", "water", "tides", "rise", "twice", "a", "day", "because", "earth", "turns"]
COUNTS = [
    {"name": f"Words{n}", "verifier": "WordCount", "params": {"relation": "at least", "count": n}}
    for n in (5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180)
]
RUBRIC: list[Any] = ["EmptyAnswer", *COUNTS]
NAMES = [one if isinstance(one, str) else one["name"] for one in RUBRIC]
BAR = 0.85
SIZE = 8
_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 1.0  # seconds between looks


def said(rollouts: int) -> Iterator[tuple[str, int, str]]:
    """Group, number in it, and an answer of 5 to 200 words."""
    draw = random.Random(0)
    for i in range(rollouts // SIZE * SIZE):
        yield f"q{i // SIZE}", i % SIZE, " ".join(draw.choices(WORDS, k=draw.randint(5, 200)))


def groups_of(rollouts: int) -> list[Group]:
    """The same as groups."""
    groups: list[Group] = []
    some: list[Rollout] = []
    for id, number, text in said(rollouts):
        some.append(Rollout.model_validate({"prompt": f"Why are there tides? ({id})", "response": text}))
        if number == SIZE - 1:
            groups.append(Group(id=id, rollouts=tuple(some)))
            some = []
    return groups


# ------------------------------------------------------------------------------------------------------------ measuring


class Usage:
    """Processor seconds and memory of a process and all that it started, seen from outside."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._begun = 0.0
        self._seconds: dict[int, float] = {}
        self.before = self.peak = 0
        self.over = threading.Event()

    def begin(self) -> None:
        """What is used from here on counts."""
        self.look()
        self._begun = sum(self._seconds.values())
        self.before = self.peak

    @property
    def seconds(self) -> float:
        """Of processors, since the beginning."""
        return sum(self._seconds.values()) - self._begun

    def watch(self) -> None:
        """Look until it is over."""
        while not self.over.wait(_EVERY):
            self.look()

    def look(self) -> None:
        """Take in all processes that are there now; those that have ended keep what they had."""
        memory = 0
        for pid, stat in family(self._root).items():
            self._seconds[pid] = sum(map(int, stat[11:13])) / _TICKS
            memory += proportional(pid)
        self.peak = max(self.peak, memory)


def family(root: int) -> dict[int, list[str]]:
    """A process and its descendants, with the fields of their status after the name."""
    every: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        try:
            every[int(entry)] = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (ValueError, OSError):
            continue
    processes = {root}
    more = True
    while more:
        children = {pid for pid, stat in every.items() if int(stat[1]) in processes}
        more = not children <= processes
        processes |= children
    return {pid: stat for pid, stat in every.items() if pid in processes}


def proportional(pid: int) -> int:
    """Bytes of memory, shared pages by their share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def timed(run: Any) -> Any:
    """What came out; the process that measures this one is told when it began and ended."""
    print("begin", flush=True)
    start = time.perf_counter()
    result = run()
    print(f"end {time.perf_counter() - start}", flush=True)
    return result


def measured(name: str, rollouts: int) -> dict[str, Any]:
    """One path in a process of its own: seconds by the clock, of processors, memory, and a digest of the scores."""
    command = [sys.executable, "-W", "ignore", __file__, "--rollouts", str(rollouts), "--path", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        usage = Usage(process.pid)
        watching = threading.Thread(target=usage.watch)
        figures: dict[str, Any] = {}
        assert process.stdout is not None
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "begin":
                usage.begin()
                watching.start()
            elif word == "end":
                usage.over.set()
                watching.join()
                usage.look()
                figures = {"seconds": float(rest), "processor": usage.seconds}
                figures |= {"before": usage.before / 2**20, "peak": usage.peak / 2**20}
            elif word == "digest":
                figures["digest"] = rest
    if process.returncode:
        raise SystemExit(f"the path {name} failed")
    return figures


def digest(cells: Iterator[tuple[str, Any, Any]]) -> str:
    """Of all rows, whatever their order."""
    total = 0
    for id, scores, reasons in cells:
        text = "\x1f".join([id, *(f"{score:g}" for score in scores), *reasons])
        total += int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little")
    return f"{total % 2**128:032x}"


def rows_of(table: ScoreTable) -> Iterator[tuple[str, Any, Any]]:
    """The rows of a table for their digest."""
    for group in table.groups:
        for i, (scores, reasons) in enumerate(zip(group.scores, group.reasons, strict=True)):
            yield f"{group.id}/{i}", scores, reasons


# ---------------------------------------------------------------------------------------------------------------- paths


def local(rollouts: int, folder: Path) -> str:
    """As many processes as there are processors."""
    groups = groups_of(rollouts)
    grade(groups[:256], RUBRIC, workers=0)  # kernels are compiled once for a machine
    return digest(rows_of(timed(lambda: grade(groups, RUBRIC))))


def ray(rollouts: int, folder: Path) -> str:
    """An actor for each processor."""
    groups = groups_of(rollouts)
    with connect_ray(None, "benchmark"):
        table = timed(lambda: grade_on_ray(groups, RUBRIC))
    return digest(rows_of(table))


def dataset(rollouts: int, folder: Path) -> str:
    """From Parquet to Parquet: no process holds all of it."""
    source = folder / "rollouts"
    target = folder / "scored"
    source.mkdir()
    cells = said(rollouts)
    part = 0
    while some := list(islice(cells, 50_000)):
        columns = {
            "uid": [u for u, _, _ in some],
            "number": [n for _, n, _ in some],
            "response": [t for _, _, t in some],
        }
        prompts = [f"Why are there tides? ({u})" for u, _, _ in some]
        pl.DataFrame({**columns, "prompt": prompts}).write_parquet(source / f"{part:04d}.parquet")
        part += 1
    with connect_ray(None, "benchmark") as cluster:
        read = cluster.data.read_parquet(str(source))
        timed(lambda: on_ray(read, RUBRIC).write_parquet(str(target)))
    scored = pl.read_parquet(f"{target}/*.parquet")
    reasons = [f"{name} (reason)" for name in NAMES]
    ids = (f"{u}/{n}" for u, n in zip(scored["uid"], scored["number"], strict=True))
    found_rows = zip(ids, scored.select(NAMES).iter_rows(), scored.select(reasons).iter_rows(), strict=True)
    return digest(iter(found_rows))


PATHS = {"local": local, "ray": ray, "dataset": dataset}


def main() -> None:
    """Print one line for each path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=20_000)
    parser.add_argument("--dataset", action="store_true", help="also as a Ray dataset, from Parquet to Parquet")
    parser.add_argument("--path", choices=PATHS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.path:
        with tempfile.TemporaryDirectory() as folder:
            print("digest", PATHS[options.path](options.rollouts, Path(folder)), flush=True)
        return
    n = options.rollouts // SIZE * SIZE
    print(f"{n:,} rollouts × {len(RUBRIC)} rules, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    results: dict[str, dict[str, Any]] = {}
    for name in ("local", "ray", *(["dataset"] if options.dataset else [])):
        result = results[name] = measured(name, n)
        print(
            f"{name:8} {result['seconds']:7.1f} s {n / result['seconds']:9,.0f} rollouts a second, "
            f"{result['processor']:7.1f} processor s; memory {result['before']:,.0f} → {result['peak']:,.0f} MB",
            flush=True,
        )
    local = results["local"]
    ray = results["ray"]
    clock = local["seconds"] / ray["seconds"]
    processor = local["processor"] / ray["processor"]
    verdict = "holds" if clock >= BAR else "does not hold"
    print(f"ray has {clock:.0%} of the local path's throughput by the clock, {processor:.0%} by processor time")
    print(f"the bar of {BAR:.0%} {verdict} by the clock")
    assert len({result["digest"] for result in results.values()}) == 1, "the paths differ"
    print("the same scores and reasons, bit for bit")


if __name__ == "__main__":
    main()
