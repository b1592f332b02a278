"""The verb serve: rewards over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.terminal import print_json
from rubrank.errors import InvalidInput


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
    if ray:
        from rubrank.service.replicas import serve_on_ray

        serve_on_ray(service, folder, on_listening=_announce, replicas=replicas, address=address)
    else:
        from rubrank.service.server import serve as serve_here

        serve_here(service, folder, on_listening=_announce)


def _announce(url: str) -> None:
    typer.echo(f"rubrank: serving on {url}", err=True)
