"""The verb view: a local page over records, also while they are being written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrank.errors import InvalidInput
from rubrank.viewer import DEFAULT_PORT


def view(
    records: Annotated[list[Path], typer.Argument(help="Files or folders of records; each is a run.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at. Beyond this machine, a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port, or the next that is free; 0 takes any.", min=0, max=65535)
    ] = DEFAULT_PORT,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Look at records in the browser, also while they are being written; several runs are compared.

    Ends with Ctrl-C. Needs the extra `serve`.
    """
    try:
        from rubrank.viewer.server import serve
    except ImportError as error:
        needed = "starlette, uvicorn and msgspec"
        remedy = "pip install 'rubrank[serve]'"
        raise InvalidInput("view", "installed packages", needed, f"no {error.name}", remedy) from None
    serve(records, host=host, port=port, on_ready=lambda address: _print_address(address, browse))


def _print_address(address: str, browse: bool) -> None:
    typer.echo(address)
    if browse:
        import webbrowser

        webbrowser.open(address)
