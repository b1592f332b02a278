"""The confirming runs: SmolLM2-135M-Instruct under two rules with three seeds, as `rubrank train` runs them.

    confirm(Path("recipes/lab"), Path("out/lab"))      runs what is not finished; Ran(finished=6, failed=0, left=0)

smollm2.yaml is the job. A run takes some 15 minutes of one core. One that was stopped goes on from its last checkpoint,
and several processes share them as they share the cells of the grid.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import yaml

from rubrank_lab.files import locked
from rubrank_lab.grid import Ran, claimed, complain, said

NAME, NUMBER = "smollm2", "10"
RULES = ("rule-fusion", "rlvr2+")
SEEDS = 3


def runs_of(work: Path, seeds: int = SEEDS) -> list[Path]:
    """The folder of each run, seed by seed."""
    return [work / NAME / f"{rule}-s{seed}" for seed in range(min(seeds, SEEDS)) for rule in RULES]


def is_confirmed(run: Path) -> bool:
    """Is it finished? The weights are written last."""
    return (run / "model").is_dir()


def confirm(
    folder: Path, work: Path, seeds: int = SEEDS, until: float | None = None, done: Collection[str] = ()
) -> Ran:
    """Run what is not finished. until: begin none after this time. done: names of runs whose results are kept."""
    work = work.resolve()
    left = [run for run in runs_of(work, seeds) if run.name not in done and not is_confirmed(run)]
    if left:
        with locked(work / "claims" / NAME, wait=True):
            _make_prompts(folder, work / NAME)
    finished = failed = 0
    for number, run in enumerate(left, start=1):
        if until is not None and time.time() > until:
            break
        with claimed(work, f"{NAME}-{run.name}") as ours:
            if not ours or is_confirmed(run):
                continue
            begun = time.time()
            asked = command(config_of(folder, run))
            good = (code := subprocess.run(asked, check=False).returncode) == 0
            complain(work, run.name, "" if good else f"{' '.join(asked)}\nended with code {code}; it said why above\n")
            finished, failed = finished + good, failed + (not good)
            said(f"{number} of {len(left)}: {NAME} {run.name}", time.time() - begun, good)
    return Ran(finished, failed, sum(not is_confirmed(run) for run in left) - failed)


def config_of(folder: Path, run: Path) -> Path:
    """The job of one run, written beside prompts and policy."""
    rule, _, seed = run.name.rpartition("-s")
    job = yaml.safe_load((folder / f"{NAME}.yaml").read_text(encoding="utf-8"))
    path = run.with_name(f"{run.name}.yaml")
    text = yaml.safe_dump({**job, "rule": rule, "seed": int(seed), "output": run.name}, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path


def command(config: Path) -> list[str]:
    """What runs it, or goes on with it."""
    return [sys.executable, "-m", "rubrank", "train", str(config), "--resume"]


def _make_prompts(folder: Path, where: Path) -> None:
    """And a link to the policy."""
    if not (where / "policy").exists():
        made = folder.parent / "smollm2_ifeval" / "make.py"
        subprocess.run([sys.executable, str(made), str(where)], check=True)
