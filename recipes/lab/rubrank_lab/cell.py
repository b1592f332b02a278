"""One cell of the grid: an arm with a seed, trained by `rubrank train` from a config of its own.

    cell = Cell(rule="rlvr2+", seed=3)
    cell.key                     "rlvr2+-1f0c9a2e-s3": what is run, not which experiment asked for it
    run_cell(cell, work)         work/cells/<key>/config.yaml → rubrank train → work/results/<key>.parquet

A cell that has its result is finished. One that was stopped is begun anew: it takes a minute. Arms that several
experiments share are trained once, and branches leave the checkpoint of the cell that they name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rubrank_lab.measuring import measure
from rubrank_lab.rows import write_rows


@dataclass(frozen=True, eq=False)
class Cell:
    """Everything that decides what is trained."""

    rule: str = "rlvr2+"
    seed: int = 0
    group: int = 8
    rollouts: int = 48
    steps: int = 32
    rate: float = 1.5e-4
    attributes: tuple[Mapping[str, Any], ...] = ()
    pool: str | None = None
    gate: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, float] = field(default_factory=dict)
    """Habits of the judge that differ from the usual ones."""
    density: Mapping[str, float] = field(default_factory=dict)
    """Scale of the criterion Density."""
    only: str = ""
    """"binary": yes/no criteria alone."""
    scale_rewards: str = "group"
    branch: float = 0.0
    """> 0: go on from the checkpoint at this share of the run without attributes."""
    smoke: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def arm(self) -> str:
        """The same for all seeds."""
        usual, changed = Cell(), asdict(replace(self, seed=0))
        said = {name: value for name, value in changed.items() if value != getattr(usual, name)}
        text = json.dumps({"rule": self.rule, **said}, sort_keys=True)
        return f"{self.rule.replace('*', '_x_').replace(':', '_')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def key(self) -> str:
        """Names its folder and its result."""
        return f"{self.arm}-s{self.seed}"

    @property
    def trunk(self) -> Cell | None:
        """The cell whose checkpoint it leaves."""
        return replace(self, attributes=(), pool=None, branch=0.0) if self.branch else None

    @property
    def branch_step(self) -> int:
        """Where branches leave: 70% of the run."""
        return max(1, round(0.7 * self.steps))

    def job(self, data: Path, policy: Path) -> dict[str, Any]:
        """The config, as `rubrank train` reads it."""
        held_out = {"path": str(data / "held_out.jsonl")} | ({"limit": 2} if self.smoke else {})
        found: dict[str, Any] = {
            "model": {"path": str(policy), "chat": False},
            "stages": [{"steps": self.steps, "sources": [{"path": str(data / "prompts.jsonl")}]}],
            "held_out": {"every": self.steps, "rollouts": 4, "sources": [held_out]},
            "judges": judges_of(data / "replies.sqlite", self.judge) | {"cache_only": True},
            "rule": self.rule,
            "training": {
                "prompts_per_batch": self.rollouts // self.group,
                "num_generations": self.group,
                "per_device_train_batch_size": self.rollouts,
                "max_completion_length": 12 if self.smoke else 52,
                "learning_rate": self.rate,
                "scale_rewards": self.scale_rewards,
                "save_steps": self.branch_step,
            },
            "trl": {"gradient_checkpointing": False},
            "report_to": [],
            "seed": self.seed,
            "output": "run",
        }
        if self.gate:
            found["gate"] = dict(self.gate)
        if self.attributes:
            found["attributes"] = [dict(one) for one in self.attributes]
        return found | ({"pool": self.pool} if self.pool else {})


def judges_of(cache: Path, habits: Mapping[str, float]) -> dict[str, Any]:
    """The scripted judge, as a file of judges says it; its endpoint is never called."""
    script = {"base_url": "http://script.invalid/v1", "model": "script", "extra_body": dict(habits)}
    return {
        "judges": [{"name": "script", "kind": "lab", "endpoints": [script]}],
        "cache": str(cache),
        "most_missing": 1.0,
    }


def _make_cache(path: Path) -> None:
    """An empty cache of replies: `cache_only` wants one, and keeps the trainer from asking the endpoint how it is."""
    import rubrank
    import rubrank_lab.task  # noqa: F401 registers the judge

    group = {"prompt": "about bees. give 2 facts.", "responses": ["<think>so</think> so."]}
    asked = [{"name": "Accuracy", "question": "How accurate is it?", "domain": {"low": 0, "high": 10}}]
    rubrank.grade([group], asked, judges=rubrank.load_judges(judges_of(path, {})))


def data_of(cell: Cell, work: Path) -> Path:
    """The folder of the cell's prompts; made when first asked for."""
    scale = "-".join(f"{name}{value:g}" for name, value in sorted(cell.density.items()))
    folder = work / "data" / ("-".join(filter(None, (cell.only, scale))) or "usual")
    if not (folder / "replies.sqlite").exists():
        write_rows(folder, cell.density, cell.only)
        _make_cache(folder / "replies.sqlite")
    return folder


def result_of(cell: Cell, work: Path) -> Path:
    """Where its result is, or will be."""
    return work / "results" / f"{cell.key}.parquet"


def run_cell(cell: Cell, work: Path, policy: Path, keep: bool = False) -> Path:
    """Train and measure. keep: the checkpoint stays, for branches."""
    folder = work / "cells" / cell.key
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    config = folder / "config.yaml"
    config.write_text(json.dumps(cell.job(data_of(cell, work), policy), indent=1), encoding="utf-8")
    checkpoint = None if cell.trunk is None else checkpoint_of(cell.trunk, work)
    with logging_to(folder / "log.txt"):
        train(config, checkpoint)
    target = result_of(cell, work)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".unfinished")
    measure(folder / "run", cell.key).write_parquet(partial, compression="zstd")
    partial.rename(target)
    _clear(folder / "run", keep, records=cell.seed == 0)
    return target


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """What the trainer prints goes into a file."""
    with path.open("w", encoding="utf-8") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        yield


def checkpoint_of(cell: Cell, work: Path) -> Path:
    """What branches leave."""
    return work / "cells" / cell.key / "run" / f"checkpoint-{cell.branch_step}"


def train(config: Path, branch: Path | None) -> None:
    """What `rubrank train CONFIG [--branch CHECKPOINT]` does."""
    import rubrank_lab.task  # noqa: F401 registers verifiers, judge and rule
    from rubrank.training.job.config import load_job
    from rubrank.training.job.plan import make_plan
    from rubrank.training.job.run import run

    run(make_plan(load_job(config), branch=branch))


def _clear(run: Path, keep: bool, records: bool) -> None:
    """Weights are large, and not read again; records are kept of one seed, to look at."""
    if not records:
        (run / "records.jsonl").unlink()
    for path in [run / "model", *run.glob("checkpoint-*")]:
        if path.is_dir() and not (keep and path.name.startswith("checkpoint")):
            shutil.rmtree(path)
