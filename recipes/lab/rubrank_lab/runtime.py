"""What a step costs: fusion alone on rollouts that a run has logged, the same for every rule, and a step in its parts.

    time_fusion(Path("out/lab/cells/rlvr2-…-s0/run/records.jsonl"), ["rlvr2", "gdpo"])      {"rlvr2": 1.9, …} ms
    with clocked() as spent: …train…                          {"rollout": 14.1, "reward": 3.0, "total": 25.7} seconds

Fusion: 128 groups of 8, the paper's step; grading and judging are shared by all rules and left out. The fastest of
thirty calls counts. All is processor time: what else the machine does is not in it.
"""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rubrank
from rubrank.studies.replay.log import read_logged
from rubrank_lab.files import reading, replacing

GROUPS, CALLS = 128, 30
FILE = Path("results") / "fusion.csv"
STEPS = Path("results") / "steps.csv"
PARTS = ("rollout", "reward", "total")
_METHODS = {"training_step": "total", "_generate": "rollout", "_calculate_rewards": "reward"}
"""Of TRL's trainer → the part of a step that it is."""


@dataclass(frozen=True)
class Times:
    """What is kept: milliseconds of fusion by rule, and seconds a step by rule and part."""

    fusion: Mapping[str, float]
    steps: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, folder: Path) -> Times:
        """Of a folder of recipes."""
        return cls(read_times(folder), read_steps(folder / STEPS))


def time_fusion(records: Path, rules: Sequence[str], calls: int = CALLS) -> dict[str, float]:
    """Rule → milliseconds."""
    table = read_logged(records).table
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


# ------------------------------------------------------------------------------------------------------ a step in parts


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Processor seconds of all training steps taken meanwhile, by part; evaluations are not counted."""
    from trl import GRPOTrainer

    spent: dict[str, float] = defaultdict(float)
    usual = {name: getattr(GRPOTrainer, name) for name in _METHODS}
    try:
        for name, part in _METHODS.items():
            setattr(GRPOTrainer, name, _counted(usual[name], part, spent))
        yield spent
    finally:
        for name, method in usual.items():
            setattr(GRPOTrainer, name, method)


def _counted(method: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    def timed(self: Any, *given: Any, **options: Any) -> Any:
        if not self.model.training and part != "total":
            return method(self, *given, **options)
        begun = time.process_time()
        try:
            return method(self, *given, **options)
        finally:
            spent[part] += time.process_time() - begun

    return timed


def write_steps(path: Path, times: Mapping[str, Mapping[str, float]]) -> None:
    """Rule → part → seconds a step."""
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["rule", *PARTS])
        rows.writerows([rule, *(f"{parts[part]:.4f}" for part in PARTS)] for rule, parts in times.items())


def read_steps(path: Path) -> dict[str, dict[str, float]]:
    """What was written; empty if nothing was."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file, reading(path, "rows of rule, rollout, reward, total"):
        return {row["rule"]: {part: float(row[part]) for part in PARTS} for row in csv.DictReader(file)}
