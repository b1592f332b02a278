"""What do rewards cost in a training run? The recipe of SmolLM2-135M-Instruct, a few steps of it.

    python benchmarks/training.py                    some five minutes on two cores
    python benchmarks/training.py --steps 8 --tokens 128
    python benchmarks/training.py --json result.json

Steps are those of recipes/smollm2_ifeval (4 prompts × 8 rollouts, LoRA, GSPO), with Markdown and length controlled too.
The cost of rewards is all that `RubricReward` does when TRL calls it: reading the rollouts, rule criteria, attributes,
fusion, metrics, the table of completions, records on disk. A step is what TRL says that it took. The clock is the one
on the wall; the first step, in which code is loaded, is left out.
"""

from __future__ import annotations

import argparse
import json
import runpy
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from rich.console import Console
from side_by_side import Row, as_json, at_most, machine, show

from rubrank.training.frameworks.trl import RubricReward
from rubrank.training.job.config import load_job
from rubrank.training.job.plan import make_plan
from rubrank.training.job.run import run

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "smollm2_ifeval"
PACKAGES = ("torch", "transformers", "trl", "peft", "numpy", "numba")
BAR = 0.02


def measure(steps: int, tokens: int, policy: Path | None) -> tuple[list[float], list[float]]:
    """Seconds of rewards, and of whole steps, without the first."""
    with TemporaryDirectory() as folder, timed_rewards() as rewards:
        done = run(make_plan(load_job(job_in(Path(folder), steps + 1, tokens, policy))))
    return rewards[1:], [float(line["step_time"]) for line in done.log if "step_time" in line][1:]


def job_in(folder: Path, steps: int, tokens: int, policy: Path | None) -> Path:
    """The recipe, made in a folder, with fewer steps and with attributes."""
    recipe = runpy.run_path(str(RECIPE / "make.py"))
    recipe["data"](folder)
    if policy is None:
        recipe["policy"](folder / "policy")
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    if policy is not None:
        config["model"]["path"] = str(policy.resolve())
    config.pop("held_out")
    config["stages"][0]["steps"] = steps
    config["training"] |= {"max_completion_length": tokens, "save_steps": 1000}
    config |= {"attributes": ["markdown", "total_length"], "report_to": []}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


class timed_rewards:  # noqa: N801 - reads as a statement
    """The seconds of every call of a `RubricReward`, while it lasts."""

    def __enter__(self) -> list[float]:
        self._call: Any = RubricReward.__call__
        seconds: list[float] = []

        def call(reward: RubricReward, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return self._call(reward, *args, **kwargs)
            finally:
                seconds.append(time.perf_counter() - start)

        RubricReward.__call__ = call  # type: ignore[assignment, method-assign]
        return seconds

    def __exit__(self, *_: object) -> None:
        RubricReward.__call__ = self._call  # type: ignore[method-assign]


def rows_of(rewards: list[float], steps: list[float], policy: str, tokens: int) -> list[Row]:
    """The usual step, and the worst moment against the quickest step."""
    section = f"{policy}, 4 × 8 × {tokens} tokens, {len(steps)} steps"
    return [
        at_most(section, "rewards, median", median(rewards), "a step, median", median(steps), BAR),
        at_most(section, "rewards, longest", max(rewards), "a step, shortest", min(steps), BAR),
    ]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=4, help="that are measured (default 4)")
    parser.add_argument("--tokens", type=int, default=64, help="of a rollout, at most (default 64)")
    parser.add_argument("--policy", type=Path, metavar="FOLDER", help="another model than SmolLM2-135M-Instruct")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args(argv)
    if arguments.steps < 1:
        parser.error("--steps must be 1 or more")
    rewards, steps = measure(arguments.steps, arguments.tokens, arguments.policy)
    name = "SmolLM2-135M-Instruct" if arguments.policy is None else arguments.policy.name
    rows = rows_of(rewards, steps, name, arguments.tokens)
    show("training", rows, Console())
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(PACKAGES), "rows": as_json(rows)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
