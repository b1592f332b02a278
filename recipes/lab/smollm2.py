"""The confirming runs: SmolLM2-135M-Instruct under two rules with three seeds, 40 steps each.

    python recipes/smollm2_ifeval/make.py out/smollm2         prompts and policy, once
    python recipes/lab/smollm2.py out/smollm2                 writes six configs beside them, and says what to run
    python recipes/lab/smollm2.py out/smollm2 --run           runs what is not finished, one after the other

A run takes some 45 minutes on two idle cores. One that was stopped goes on from its last checkpoint.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

RULES = ("rule-fusion", "rlvr2+")
SEEDS = (0, 1, 2)
_SOURCE = Path(__file__).resolve().parents[1] / "smollm2_ifeval" / "config.yaml"


def configs(folder: Path) -> list[Path]:
    """Written beside prompts and policy; each has an output of its own."""
    usual = yaml.safe_load(_SOURCE.read_text(encoding="utf-8"))
    written = []
    for seed in SEEDS:
        for rule in RULES:
            path = folder / f"lab-{rule}-s{seed}.yaml"
            job = {**usual, "rule": rule, "seed": seed, "output": path.stem, "report_to": []}
            path.write_text(yaml.safe_dump(job, sort_keys=False, allow_unicode=True), encoding="utf-8")
            written.append(path)
    return written


def command(config: Path) -> list[str]:
    """What runs it, or goes on with it."""
    return [sys.executable, "-m", "rubrank", "train", str(config), "--resume"]


def main(folder: Path, run: bool) -> int:
    """Write, and run or say."""
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
    sys.exit(main(Path(sys.argv[1]), "--run" in sys.argv[2:]))
