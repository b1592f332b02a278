"""The verb train: a whole training run from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.terminal import print_json, say

_HELD_OUT = "eval_rubrank/"  # prefix of the metrics on held-out prompts


def train(
    config: Annotated[
        Path, typer.Argument(help="The job, as YAML, TOML or JSON (rubrank help train).")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, and stop.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint, if there is one.")
    ] = False,
    branch: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Continue another run's checkpoint with other control settings.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Defaults for settings that the config leaves out; `paper`: the paper's."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Train a policy with TRL's GRPOTrainer: data, rubric, judges, rule and model from one file."""
    from rubrank.training.job.config import load_job
    from rubrank.training.job.data import is_first_process
    from rubrank.training.job.plan import make_plan
    from rubrank.training.job.run import run

    plan = make_plan(load_job(config, preset), resume=resume, branch=branch)
    first = is_first_process()
    if first and as_json:
        print_json(plan.as_dict())
    elif first:
        print(plan.describe())
    if dry_run:
        return
    try:
        result = run(plan)
    except KeyboardInterrupt:
        say(f"rubrank: interrupted; continue with: rubrank train {config} --resume")
        raise typer.Exit(130) from None
    if not first:
        return
    # The metrics on held-out prompts: the overall score, then the mean of each criterion.
    names = [name for name in result.last if name == f"{_HELD_OUT}score"]
    names += [name for name in result.last if name.startswith(_HELD_OUT) and name.endswith("/mean")]
    for name in names:
        before = f"{result.first[name]:.3f} → " if name in result.first else ""
        label = name.removeprefix(_HELD_OUT).removesuffix("/mean")
        say(f"held out: {label} {before}{result.last[name]:.3f}")
    say(f"records: {result.records}")
    say(f"policy:  {result.model}")
