"""The verbs that run from one file of settings: `rubrank train` a policy, `rubrank serve` rewards over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.terminal import print_json, say
from rubrank.errors import InvalidInput

_HELD_OUT = "eval_rubrank/"  # prefix of the metrics on held-out prompts


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, train)
    add_verb(app, serve)


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
            help="Defaults for settings that the file leaves out; `paper`: those of the paper."
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


def serve(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            help="Settings of the service, as YAML, TOML or JSON (rubrank help service)."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, and stop.")
    ] = False,
    host: Annotated[
        str | None, typer.Option(help="Host; overrides the file.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port; overrides the file. 0: any free port.", show_default=False),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run replicas on Ray Serve instead of one process.")
    ] = False,
    replicas: Annotated[int, typer.Option(min=1, help="Replicas, with --ray.")] = 2,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of a Ray cluster; by default one is started here.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Serve rewards to trainers over HTTP, for whole groups or single samples (OpenRLHF, slime, miles, NeMo Gym)."""
    from rubrank.grading.cluster import check_reachable
    from rubrank.service.config import (
        change_service,
        describe_plan,
        load_service,
        plan_service,
        require_packages,
    )

    if not ray:
        # `replicas` has a default: only its source tells whether the user gave it.
        for name in ("address", "replicas"):
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                raise InvalidInput("serve", f"--{name}", allowed="used with --ray", got="no --ray")
    require_packages(ray)
    service, folder = load_service(config)
    service = change_service(service, host=host, port=port)
    if ray:
        from rubrank.service.replicas import check_replicas

        check_replicas(service, folder)
        if address is not None:
            check_reachable(address, "serve")
    plan = plan_service(service, folder)
    if as_json:
        print_json(plan)
    else:
        print(describe_plan(plan))
    if dry_run:
        return

    def announce(url: str) -> None:
        say(f"rubrank: serving on {url}")

    if ray:
        from rubrank.service.replicas import serve_on_ray

        serve_on_ray(service, folder, on_listening=announce, replicas=replicas, address=address)
    else:
        from rubrank.service.server import serve as serve_here

        serve_here(service, folder, on_listening=announce)
