"""Cells (an arm with a seed on a family) as files: run what is missing, collect what is there.

    plan = load_plan(Path("recipes/lab"))
    run_seeds(plan, "facts", work, range(30))      one seed after the other, all its arms side by side
    collect(plan, work)                                            new results into recipes/lab/results/cells.parquet

Seeds are the outer loop, so at any time all arms have the same seeds. A seed is claimed with a locked file, which the
system releases if its process dies: several processes can run beside each other, and a killed one can be started
again. A result carries a digest of its arm's options; after a change of the options it no longer counts.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from rubrank import InvalidInput, UnknownName
from rubrank_lab.facts import FACTS
from rubrank_lab.family import Family
from rubrank_lab.kitchen import KITCHEN

try:
    import fcntl
except ImportError:  # Windows has no such locks: run one process at a time there
    fcntl = None  # type: ignore[assignment]

FAMILIES: Mapping[str, Family] = {family.name: family for family in (FACTS, KITCHEN)}
CELLS = Path("results") / "cells.parquet"
STARTS = Path("results") / "starts.json"
"""Family → true quality on held-out prompts before training."""
_KEY = ("family", "arm", "digest", "seed")


@dataclass(frozen=True)
class Plan:
    """What arms.yaml says."""

    folder: Path
    seeds: Mapping[str, int]
    """Family → number of seeds."""
    arms: Mapping[str, Mapping[str, Any]]
    """Arm → options of `RewardEngine`."""

    def digest(self, family: str, arm: str) -> str:
        """Changes with everything that decides the rewards of an arm."""
        text = json.dumps([family, self.arms[arm]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def policy(self, family: str) -> Path:
        """The supervised start of a family."""
        return self.folder / "policies" / family

    def choose_families(self, names: Sequence[str]) -> list[str]:
        """The named families; all if none is named."""
        for name in names:
            if name not in self.seeds:
                raise UnknownName.of("lab", "FAMILY", name, self.seeds)
        return list(names or self.seeds)

    def check_arms(self, names: Sequence[str]) -> None:
        """Raise for an arm that arms.yaml does not have."""
        for name in names:
            if name not in self.arms:
                raise UnknownName.of("lab", "--arm", name, self.arms)


def load_plan(folder: Path) -> Plan:
    """Read arms.yaml."""
    path = folder / "arms.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Plan(folder, dict(data["seeds"]), dict(data["arms"]))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        allowed = "a file with `seeds` and `arms`"
        raise InvalidInput("lab", str(path), allowed, f"{type(error).__name__}: {error}", "") from None


def result_path(plan: Plan, family: str, arm: str, seed: int, work: Path) -> Path:
    """The file of a cell's result."""
    return work / family / f"{plan.digest(family, arm)}-s{seed}.parquet"


def list_missing(plan: Plan, family: str, seed: int, work: Path, arms: Sequence[str] = ()) -> list[str]:
    """The arms of a seed that have no result yet, neither in `work` nor among the collected ones.

    arms: look at these only.
    """
    collected = list_collected(plan)
    return [
        arm
        for arm in arms or plan.arms
        if (family, arm, plan.digest(family, arm), seed) not in collected
        and not result_path(plan, family, arm, seed, work).exists()
    ]


def list_collected(plan: Plan) -> set[tuple[Any, ...]]:
    """Keys of the cells in the collected results."""
    path = plan.folder / CELLS
    if not path.exists():
        return set()
    return set(pl.read_parquet(path, columns=list(_KEY)).unique().iter_rows())


def run_seeds(
    plan: Plan,
    family: str,
    work: Path,
    seeds: Sequence[int],
    *,
    arms: Sequence[str] = (),
    until: float | None = None,
    steps: int | None = None,
) -> int:
    """Run the missing cells of some seeds; returns how many were run.

    arms: run these only. until: start no seed after this time. steps: other than in the experiment, for a trial.
    """
    from rubrank_lab import trainer

    start_path = work / family / "start.json"
    if not start_path.exists():
        start_path.parent.mkdir(parents=True, exist_ok=True)
        starts = [trainer.measure_start(FAMILIES[family], plan.policy(family), seed).means() for seed in range(4)]
        quality = sum(start["held_out", "quality"] for start in starts) / len(starts)
        start_path.write_text(json.dumps(quality), encoding="utf-8")
    count = 0
    for seed in seeds:
        if until is not None and time.time() > until:
            break
        with claim(work / family / f"seed-{seed}.lock") as is_ours:
            missing = list_missing(plan, family, seed, work, arms) if is_ours else []
            if not missing:
                continue
            started = time.process_time()
            options = {arm: plan.arms[arm] for arm in missing}
            finished = trainer.train_arms(FAMILIES[family], plan.policy(family), options, seed, steps or trainer.STEPS)
            seconds = (time.process_time() - started) / len(missing)
            for arm, measurements in finished.items():
                rows = [(*key, value) for key, value in measurements.means().items()]
                rows.append(("cost", "processor_seconds", seconds))
                table = pl.DataFrame(rows, schema=["phase", "metric", "value"], orient="row")
                key = {
                    "family": family,
                    "arm": arm,
                    "digest": plan.digest(family, arm),
                    "seed": seed,
                }
                table = table.select(*(pl.lit(value).alias(name) for name, value in key.items()), pl.all())
                target = result_path(plan, family, arm, seed, work)
                partial = target.with_suffix(".unfinished")
                table.write_parquet(partial)
                partial.rename(target)
            count += len(missing)
            print(
                f"{family}, seed {seed}: {len(missing)} arms, {seconds:.1f} s of a core each",
                file=sys.stderr,
            )
    return count


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Whether this process got the lock; it is released when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def collect(plan: Plan, work: Path) -> int:
    """Add the results in `work` to the collected ones; returns how many cells are new."""
    collected = list_collected(plan)
    new_tables = []
    starts = load_starts(plan)
    for family in plan.seeds:
        start_path = work / family / "start.json"
        if start_path.exists():
            starts[family] = json.loads(start_path.read_text(encoding="utf-8"))
        for path in sorted((work / family).glob("*.parquet")):
            table = pl.read_parquet(path)
            key = table.select(_KEY).row(0)
            if key not in collected and key[1] in plan.arms and key[2] == plan.digest(family, key[1]):
                new_tables.append(table)
    if not new_tables:
        return 0
    target = plan.folder / CELLS
    tables = [pl.read_parquet(target), *new_tables] if target.exists() else new_tables
    columns = [pl.col("seed").cast(pl.Int16), pl.col("value").cast(pl.Float32)]
    joined = pl.concat([table.with_columns(columns) for table in tables])
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".unfinished")
    joined.sort(*_KEY, "phase", "metric").write_parquet(partial, compression="zstd", compression_level=15)
    partial.rename(target)
    (plan.folder / STARTS).write_text(json.dumps(starts, indent=1) + "\n", encoding="utf-8")
    return len(new_tables)


def load_starts(plan: Plan) -> dict[str, float]:
    """True quality before training, by family."""
    path = plan.folder / STARTS
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def load_cells(plan: Plan) -> pl.DataFrame:
    """The collected results of the arms as they are in arms.yaml now."""
    path = plan.folder / CELLS
    if not path.exists():
        raise InvalidInput("lab", str(path), "results of at least one cell", "none", "Run some: rubrank lab run.")
    digests = {(family, arm): plan.digest(family, arm) for family in plan.seeds for arm in plan.arms}
    current = pl.DataFrame(
        [(family, arm, digest) for (family, arm), digest in digests.items()],
        schema=["family", "arm", "digest"],
        orient="row",
    )
    return pl.read_parquet(path).join(current, on=["family", "arm", "digest"], how="semi")
