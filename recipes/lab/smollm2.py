"""The confirming runs: SmolLM2-135M-Instruct under two rules with three seeds, 40 steps each.

    python recipes/smollm2_ifeval/make.py out/smollm2         prompts and policy, once
    python recipes/lab/smollm2.py out/smollm2                 writes six configs beside them, and says what to run
    python recipes/lab/smollm2.py out/smollm2 --run           runs what is not finished, one after the other
    python recipes/lab/smollm2.py out/smollm2 --collect       what is finished into results/smollm2.csv

`rubrank lab report` has a section on them. The job is that of recipes/smollm2_ifeval with half as many rollouts a step,
half as long, and two graded criteria besides the yes/no ones: on yes/no criteria alone RLVR² is the weighted sum, and
there would be nothing to confirm. A run takes some 15 minutes of one core. One that was stopped goes on from its last
checkpoint.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

_LAB = Path(__file__).resolve().parent
sys.path.insert(0, str(_LAB))
from rubrank_lab import confirming  # noqa: E402 - it lies beside this file, and is not installed

RULES = ("rule-fusion", "rlvr2+")
SEEDS = (0, 1, 2)
GRADED = (
    {"name": "SoftLength", "params": {"shape": "target", "limit": 20, "fade": 15, "part": "answer"}},
    {"name": "DistinctN", "params": {"n": 1}},
)
LESS = {"prompts_per_batch": 2, "max_completion_length": 32}  # of 4 prompts and 64 tokens
HELD_OUT = {"every": 40, "rollouts": 2, "batch": 64, "sources": [{"path": "held_out.jsonl"}]}  # before and after
_SOURCE = _LAB.parent / "smollm2_ifeval" / "config.yaml"


def configs(folder: Path) -> list[Path]:
    """Written beside prompts and policy; each has an output of its own."""
    usual = yaml.safe_load(_SOURCE.read_text(encoding="utf-8"))
    usual |= {"rubric": [*usual["rubric"], *GRADED], "held_out": HELD_OUT, "report_to": []}
    usual["training"] |= LESS
    written = []
    for seed in SEEDS:
        for rule in RULES:
            path = folder / f"lab-{rule}-s{seed}.yaml"
            job = {**usual, "rule": rule, "seed": seed, "output": path.stem}
            path.write_text(yaml.safe_dump(job, sort_keys=False, allow_unicode=True), encoding="utf-8")
            written.append(path)
    return written


def command(config: Path) -> list[str]:
    """What runs it, or goes on with it."""
    return [sys.executable, "-m", "rubrank", "train", str(config), "--resume"]


def main(folder: Path, run: bool, collect: bool) -> int:
    """Write, and run or say; or collect."""
    if collect:
        print(confirming.collect(folder, _LAB))
        return 0
    if not (folder / "prompts.jsonl").is_file():
        print(f"{folder} has no prompts: python recipes/smollm2_ifeval/make.py {folder}", file=sys.stderr)
        return 2
    for config in configs(folder):
        if (config.with_suffix("") / "model").is_dir():
            print(f"finished: {config}")
        elif run:
            subprocess.run(command(config), check=True)
        else:
            print(" ".join(command(config)))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--run" in sys.argv[2:], "--collect" in sys.argv[2:]))
