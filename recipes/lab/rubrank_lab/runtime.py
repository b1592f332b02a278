"""What fusion alone costs, on rollouts that a run has logged: the same for every rule, as in the paper.

    time_fusion(Path("out/lab/cells/rlvr2-…-s0/run/records.jsonl"), ["rlvr2", "gdpo"])      {"rlvr2": 1.9, …} ms

128 groups of 8, the paper's step; grading and judging are shared by all rules and left out. The fastest of thirty
calls counts, in processor time: whatever else the machine does can only add.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path

import rubrank
from rubrank_lab.files import reading, replacing

GROUPS, CALLS = 128, 30
FILE = Path("results") / "fusion.csv"


def time_fusion(records: Path, rules: Sequence[str], calls: int = CALLS) -> dict[str, float]:
    """Rule → milliseconds."""
    table = rubrank.read_logged(records).table
    trained = [group for group in table.groups if not group.id.startswith("eval")][:GROUPS]
    found = {rule: float("inf") for rule in rules}
    for _ in range(calls):
        for rule in rules:
            batch, asked = rubrank.ScoreTable(tuple(trained)).batch(), rubrank.find_rule(rule)
            begun = time.process_time()
            _ = asked(batch).reward  # some rules wait until they are asked
            found[rule] = min(found[rule], 1000 * (time.process_time() - begun))
    return found


def write_times(folder: Path, times: dict[str, float]) -> Path:
    """Into the kept results."""
    with replacing(folder / FILE) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["rule", "milliseconds"])
        rows.writerows([rule, f"{value:.3f}"] for rule, value in times.items())
    return folder / FILE


def read_times(folder: Path) -> dict[str, float]:
    """What is kept; empty if nothing is."""
    if not (folder / FILE).is_file():
        return {}
    path = folder / FILE
    with path.open(encoding="utf-8") as file, reading(path, "rows of rule, milliseconds"):
        return {row["rule"]: float(row["milliseconds"]) for row in csv.DictReader(file)}
