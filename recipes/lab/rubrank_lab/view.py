"""An experiment and what is known of its cells: values by seed, and pairs of them.

view.values("RLVR²+", "true_quality")                        {0: 0.61, 1: 0.63, …}: held-out prompts, at the end
view.against("RLVR²+", "GDPO", "true_quality").said()         "+0.031 [+0.012, +0.049], 5 of 5"
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rubrank_lab.cell import Cell
from rubrank_lab.comparing import Difference, Summary, difference, summary
from rubrank_lab.experiments import SEEDS, Experiment
from rubrank_lab.results import BINS, Results
from rubrank_lab.rows import CHALLENGING, SATURATED

COMPOSED = {"challenging": CHALLENGING, "saturated": SATURATED}
"""Means over criteria, by the name of the metric."""


@dataclass(frozen=True, eq=False)
class View:
    """One experiment."""

    experiment: Experiment
    results: Results

    def cell(self, arm: str, seed: int) -> Cell:
        """What was run for this arm and seed."""
        return replace(self.experiment.arms[arm], seed=seed)

    def seeds(self, arm: str) -> list[int]:
        """Those that are finished."""
        return self.results.seeds.get(self.experiment.arms[arm].arm, [])

    def keys(self, arm: str) -> tuple[set[str], set[str], set[str]]:
        """Of the cells that every arm should have, of those that are finished, and of finished ones beyond them."""
        wanted = {self.cell(arm, seed).key for seed in range(SEEDS)}
        done = {self.cell(arm, seed).key for seed in self.seeds(arm)}
        return wanted, done & wanted, done - wanted

    def values(self, arm: str, metric: str, base: bool = False) -> dict[int, float]:
        """Seed → value on held-out prompts, after the run or before it."""
        found = {}
        for seed in self.seeds(arm):
            key = self.cell(arm, seed).key
            value = _of(self.results.base(key) if base else self.results.final(key), metric)
            if not math.isnan(value):
                found[seed] = value
        return found

    def summary(self, arm: str, metric: str, base: bool = False) -> Summary:
        """Mean over seeds."""
        return summary(list(self.values(arm, metric, base).values()))

    def against(self, arm: str, other: str, metric: str) -> Difference:
        """Paired over the seeds that both have."""
        first, second = self.values(arm, metric), self.values(other, metric)
        both = [seed for seed in first if seed in second]
        return difference([first[seed] for seed in both], [second[seed] for seed in both])

    def since(self, arm: str, metric: str) -> Difference:
        """Of training: the last eighth of the run minus the fifth, the last one before branches leave at 70%."""
        early, late = [], []
        for seed in self.seeds(arm):
            cell = self.cell(arm, seed)
            trunk = dict(self.results.curve((cell.trunk or cell).key, metric))
            own = dict(self.results.curve(cell.key, metric))
            if BINS // 2 in trunk and BINS - 1 in own:
                early.append(trunk[BINS // 2])
                late.append(own[BINS - 1])
        return difference(late, early)

    def same(self, arm: str, other: str) -> tuple[int, int, int]:
        """Seeds that both have, numbers of the final evaluation that both have, and how many of these are equal."""
        both = [seed for seed in self.seeds(arm) if seed in self.seeds(other)]
        compared = equal = 0
        for seed in both:
            first, second = (self.results.final(self.cell(name, seed).key) for name in (arm, other))
            shared = [name for name in first if name in second]
            compared, equal = compared + len(shared), equal + sum(first[name] == second[name] for name in shared)
        return len(both), compared, equal

    def curve(self, arm: str, metric: str, seeds: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """(eighth of the run, mean over seeds and steps); a branch begins where it left. seeds: default all."""
        parts = COMPOSED.get(metric)
        by_bin: dict[int, list[float]] = {}
        for seed in self.seeds(arm) if seeds is None else seeds:
            key = self.cell(arm, seed).key
            for name in [f"score_{one}" for one in parts] if parts else [metric]:
                for at, value in self.results.curve(key, name):
                    by_bin.setdefault(at, []).append(value)
        return [(at, sum(values) / len(values)) for at, values in sorted(by_bin.items())]

    def curves(self, arms: Sequence[str], metric: str) -> list[tuple[str, list[tuple[int, float]]]]:
        """Lines that can be compared: over the same seeds, chosen such that most cells are in the drawing."""
        best: tuple[int, int] = (0, 0)
        drawn, shared = list(arms), []
        for seeds in map(self.seeds, arms):
            having = [arm for arm in arms if set(seeds) <= set(self.seeds(arm))]
            if (len(having) * len(seeds), len(seeds)) > best:
                best, drawn, shared = (len(having) * len(seeds), len(seeds)), having, seeds
        return [(arm, self.curve(arm, metric, shared)) for arm in drawn]


def _of(found: dict[str, float], metric: str) -> float:
    parts = COMPOSED.get(metric)
    if parts is None:
        return found.get(metric, math.nan)
    known = [found[f"score_{name}"] for name in parts if f"score_{name}" in found]
    return sum(known) / len(known) if known else math.nan


def counted(views: Iterable[View]) -> str:
    """How many cells there are; those that several arms share count once."""
    each = [view.keys(arm) for view in views for arm in view.experiment.arms]
    wanted, done, more = (set().union(*some) for some in zip(*each, strict=True))
    return f"{len(done)} of {len(wanted)}" + (f" (and {len(more)} with seeds beyond the first {SEEDS})" if more else "")
