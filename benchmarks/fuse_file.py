"""`rubrank fuse` beside a short script that does the same with polars and `ScoreBatch`, on the same table.

    python benchmarks/fuse_file.py                  a CSV of 1,000,000 rows: 125,000 groups of 8, six criteria
    python benchmarks/fuse_file.py --rows 80000 --repeats 1

Both run in processes of their own, in turn, and their outputs must be the same bytes. The script checks nothing: no
cell, no name, no group that comes back.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

SCRIPT = """
import sys, polars as pl
from rubrank import ScoreBatch, find_rule
frame = pl.read_csv(sys.argv[1])
names = [name for name in frame.columns if name != "uid"]
scores = frame.select(pl.col(names).cast(pl.Float64)).to_numpy()
batch = ScoreBatch.of_arrays(scores, groups=frame["uid"].to_list(), criteria=names)
fused = find_rule("rlvr2+")(batch)
no_signal = fused.no_signal[batch.group_of_row]
frame.with_columns(reward=fused.reward, no_signal=no_signal).write_csv(sys.argv[2])
"""
GROUP_SIZE = 8


def make_table(path: Path, rows: int) -> None:
    """Write a table of grades and metrics."""
    generator = np.random.default_rng(0)
    groups = rows // GROUP_SIZE
    count = groups * GROUP_SIZE
    columns: dict[str, object] = {"uid": np.repeat([f"q{i}" for i in range(groups)], GROUP_SIZE)}
    columns |= {f"Grade {k}": generator.integers(0, 11, count) for k in range(4)}
    columns |= {f"Metric {k}": generator.random(count).round(4) for k in range(2)}
    pl.DataFrame(columns).write_csv(path)


def seconds(command: list[str]) -> float:
    """How long a command takes, in a process of its own."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Run both, in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "scores.csv"
        make_table(source, arguments.rows)
        script = [sys.executable, "-c", SCRIPT, str(source), str(folder / "script.csv")]
        verb = [
            sys.executable,
            "-m",
            "rubrank",
            "fuse",
            str(source),
            "--criteria",
            "all",
            "-o",
            str(folder / "verb.csv"),
            "--force",
        ]
        seconds(script), seconds(verb)  # the first run compiles
        times = [(seconds(script), seconds(verb)) for _ in range(arguments.repeats)]
        if (folder / "script.csv").read_bytes() != (folder / "verb.csv").read_bytes():
            raise SystemExit("the outputs differ")
    of_script, of_verb = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{arguments.rows:,} rows; median of {arguments.repeats}")
    print(f"  polars + ScoreBatch  {of_script:6.2f} s")
    print(f"  rubrank fuse         {of_verb:6.2f} s   ratio {of_verb / of_script:.2f}")


if __name__ == "__main__":
    main()
