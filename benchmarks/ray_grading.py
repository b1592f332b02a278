"""How much of the local path's throughput is left on Ray, on the same cores? Grading by twelve rules.

    python benchmarks/ray_grading.py                         20,000 rollouts
    python benchmarks/ray_grading.py --rollouts 1000000      the size that docs/scale.md plans with

Both read the same groups and give the same table, which is checked. Starting Ray is not counted, starting actors is.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import time
from typing import Any

from rubrank.grading.cluster import connected
from rubrank.grading.grade import grade
from rubrank.grading.ray_data import grade_on_ray
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import ScoreTable

WORDS = ["the", "moon", "pulls", "water", "tides", "rise", "twice", "a", "day", "because", "earth", "turns"]
COUNTS = [
    {"name": f"Words{n}", "verifier": "WordCount", "params": {"relation": "at least", "count": n}}
    for n in (5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180)
]
RUBRIC = ["EmptyAnswer", *COUNTS]


def groups_of(rollouts: int, size: int = 8) -> list[Group]:
    """Groups of answers from 5 to 200 words."""
    draw = random.Random(0)
    return [
        Group(
            id=f"q{g}",
            rollouts=tuple(
                Rollout.model_validate({"prompt": f"Why are there tides? ({g})", "response": said})
                for said in (" ".join(draw.choices(WORDS, k=draw.randint(5, 200))) for _ in range(size))
            ),
        )
        for g in range(rollouts // size)
    ]


def seconds(run: Any) -> tuple[float, ScoreTable]:
    """By the clock, and what came out."""
    start = time.perf_counter()
    table = run()
    return time.perf_counter() - start, table


def main() -> None:
    """Print one line for each path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=20_000)
    groups = groups_of(parser.parse_args().rollouts)
    n = sum(len(group.rollouts) for group in groups)
    cores = os.cpu_count() or 1
    grade(groups[:8], RUBRIC, workers=0)  # kernels are compiled once for a machine
    here, table = seconds(lambda: grade(groups, RUBRIC, workers=None))
    with connected(None, "benchmark"):
        there, same = seconds(lambda: grade_on_ray(groups, RUBRIC))
    pairs = zip(table.groups, same.groups, strict=True)
    assert all(a.scores.tobytes() == b.scores.tobytes() and a.reasons == b.reasons for a, b in pairs)
    print(f"{n:,} rollouts × {len(RUBRIC)} rules, {cores} cores, load {os.getloadavg()[0]:.1f}")
    print(f"local {here:6.1f} s  {n / here:9,.0f} rollouts a second")
    print(f"ray   {there:6.1f} s  {n / there:9,.0f} rollouts a second, {here / there:.0%} of the local path; same bits")
    print(f"memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB at most")


if __name__ == "__main__":
    main()
