"""The verb serve: rewards over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rubrank.cli.terminal import print_json
from rubrank.errors import InvalidInput


def serve(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="The service, as YAML, TOML or JSON (docs/service.md).")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, print the plan, and stop.")] = False,
    host: Annotated[str | None, typer.Option(help="Host, instead of the file's.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(help="Port, instead of the file's; 0: any that is free.", show_default=False)
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Several replicas on Ray Serve instead of one process.")] = False,
    replicas: Annotated[int, typer.Option(min=1, help="Replicas, with --ray.")] = 2,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; by default one is started here.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Serve rewards over HTTP to trainers: whole groups, or the samples of OpenRLHF, slime, miles and NeMo Gym."""
    from rubrank.service.config import (
        change_service,
        describe_plan,
        load_service,
        plan_service,
        require_packages,
    )

    _refuse_without_ray(context, ray)
    require_packages(ray)
    found, folder = load_service(config)
    found = change_service(found, host=host, port=port)
    if ray:
        _check_replicas(found, folder, address)
    decided = plan_service(found, folder)
    if as_json:
        print_json(decided)
    else:
        print(describe_plan(decided))
    if not dry_run:
        _run(found, folder, {"replicas": replicas, "address": address} if ray else None)


def _refuse_without_ray(context: typer.Context, ray: bool) -> None:
    """A flag of --ray alone would do nothing."""
    for name in ("address", "replicas"):
        source = context.get_parameter_source(name)
        if not ray and source is not None and source.name != "DEFAULT":
            raise InvalidInput("serve", f"--{name}", "used with --ray", "no --ray", "")


def _check_replicas(config: Any, folder: Path, address: str | None) -> None:
    from rubrank.grading.cluster import check_reachable
    from rubrank.service.replicas import check_replicas

    check_replicas(config, folder)
    if address is not None:
        check_reachable(address, "serve")


def _run(config: Any, folder: Path, on_ray: dict[str, Any] | None) -> None:
    def on_listening(url: str) -> None:
        typer.echo(f"rubrank: serving on {url}", err=True)

    if on_ray is not None:
        from rubrank.service.replicas import serve_on_ray

        serve_on_ray(config, folder, on_listening=on_listening, **on_ray)
        return
    from rubrank.service.server import serve as run

    run(config, folder, on_listening=on_listening)
