"""Results of all cells, kept small: one Parquet file, with training curves in eight bins.

    collect(work, folder, keys)       what is new in work/results goes into folder/results/cells.parquet
    results = load(folder)            cell, phase, bin, metric, value
    results.cells                     keys of the cells that are there

Evaluations keep every number; of the training steps each bin of an eighth of the run keeps its mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from rubrank import InvalidInput
from rubrank_lab.files import reading, replacing

BINS = 8
FILE = Path("results") / "cells.parquet"
POLICY = Path("results") / "policy"
"""What all kept cells began with: the same recipe gives other weights on another machine."""
_WEIGHTS = "model.safetensors"
_DROPPED = ("grad_norm", "reward")
_COLUMNS = ("cell", "phase", "bin", "metric", "value")


@dataclass(frozen=True, eq=False)
class Results:
    """All that is known."""

    table: pl.DataFrame

    @cached_property
    def cells(self) -> frozenset[str]:
        """Keys."""
        return frozenset(self.table["cell"].unique().to_list())

    @cached_property
    def seeds(self) -> Mapping[str, list[int]]:
        """Arm → the seeds that were run, however many."""
        found: dict[str, list[int]] = {}
        for key in self.cells:
            arm, _, seed = key.rpartition("-s")
            found.setdefault(arm, []).append(int(seed))
        return {arm: sorted(seeds) for arm, seeds in found.items()}

    def final(self, key: str) -> dict[str, float]:
        """Metric → value on held-out prompts, after the run."""
        return self._evaluated(key, BINS)

    def base(self, key: str) -> dict[str, float]:
        """The same before the run."""
        return self._evaluated(key, 0)

    def curve(self, key: str, metric: str) -> list[tuple[int, float]]:
        """(bin, mean over its steps), in order."""
        found = [(at, self._read.get((key, "train", at), {})) for at in range(BINS + 1)]
        return [(at, values[metric]) for at, values in found if metric in values]

    def _evaluated(self, key: str, at: int) -> dict[str, float]:
        return dict(self._read.get((key, "eval", at), {}))

    @cached_property
    def _read(self) -> dict[tuple[str, str, int], dict[str, float]]:
        """Cell, phase and bin → metric → value: read once, for a page asks thousands of times."""
        found: dict[tuple[str, str, int], dict[str, float]] = {}
        for cell, phase, at, metric, value in self.table.select(_COLUMNS).iter_rows():
            found.setdefault((cell, phase, at), {})[metric] = value
        return found


def load(folder: Path) -> Results:
    """What is kept in a folder; nothing if there is nothing."""
    path = folder / FILE
    if path.is_file():
        with reading(path, "a table of results", "Take it from the repository again: git checkout."):
            return Results(pl.read_parquet(path).select(_COLUMNS))
    schema = {"cell": pl.String, "phase": pl.String, "bin": pl.Int16, "metric": pl.String, "value": pl.Float32}
    return Results(pl.DataFrame(schema=schema))


def check_policy(work: Path, folder: Path) -> None:
    """Cells of another supervised start cannot stand beside those that are kept."""
    weights, kept = work / POLICY.name / _WEIGHTS, folder / POLICY / _WEIGHTS
    if weights.is_file() and kept.is_file() and weights.read_bytes() != kept.read_bytes():
        remedy = f"Remove {work / POLICY.name} to begin with the kept one, or results/ to run all cells with yours."
        raise InvalidInput("lab", "the policy", f"the one of {kept.parent}", f"another in {weights.parent}", remedy)


def copy_policy(source: Path, target: Path) -> None:
    """Whole or not at all."""
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.copytree(source, unfinished, dirs_exist_ok=True)
    unfinished.rename(target)


def is_readable(result: Path) -> bool:
    """Is it there, and whole? A machine that lost its power can leave an empty file."""
    try:
        return "metric" in pl.read_parquet_schema(result)
    except (OSError, pl.exceptions.PolarsError):
        return False


def collect(work: Path, folder: Path, known: Collection[str]) -> int:
    """Add what is new and of the experiments' cells; returns how many were. One that cannot be read is not finished."""
    kept = load(folder)
    there = filter(is_readable, sorted((work / "results").glob("*.parquet")))
    new = [path for path in there if path.stem in known and path.stem not in kept.cells]
    if not new:
        return 0
    check_policy(work, folder)
    table = pl.concat([kept.table, *(binned(pl.read_parquet(path)) for path in new)])
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        table.sort("cell", "phase", "metric", "bin").write_parquet(partial, compression="zstd", compression_level=15)
    if (work / POLICY.name).is_dir() and not (folder / POLICY).is_dir():
        copy_policy(work / POLICY.name, folder / POLICY)
    return len(new)


def binned(table: pl.DataFrame) -> pl.DataFrame:
    """Steps into bins: training 0 … 7 by eighths of the run, evaluations 0 (before) and 8 (after)."""
    steps = int(table.filter(pl.col("phase") == "eval")["step"].max() or 1)  # type: ignore[arg-type]
    shares = (pl.col("step") * BINS // steps).clip(0, BINS).cast(pl.Int16).alias("bin")
    return (
        table.filter(~pl.col("metric").is_in(_DROPPED))
        .with_columns(shares)
        .group_by("cell", "phase", "bin", "metric")
        .agg(pl.col("value").mean())
        .select("cell", "phase", "bin", "metric", pl.col("value").cast(pl.Float32))
    )
