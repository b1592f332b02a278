"""`rubrank init FOLDER` copies the samples of cli/start: rollouts, a rubric, judges and settings to begin with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.terminal import print_line
from rubrank.errors import InvalidInput

COMMANDS = (
    "rubrank grade rollouts.jsonl -r rubric.yaml --judges judges.yaml -o scores.parquet",
    "rubrank fuse scores.parquet --config settings.toml",
    "rubrank report scores.parquet --rollouts rollouts.jsonl",
)


def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder; created if it does not exist.")
    ] = Path("rubrank"),
) -> None:
    """Create a folder with sample rollouts, a rubric, judges and settings to start from."""
    samples = {file.name: file.read_bytes() for file in (files("rubrank.cli") / "start").iterdir()}
    existing = [name for name in sorted(samples) if (folder / name).exists()]
    if existing:
        allowed = "a folder without files of these names"
        remedy = "Name another folder; nothing is replaced."
        raise InvalidInput("init", "folder", allowed, str(folder / existing[0]), remedy)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in samples.items():
        (folder / name).write_bytes(content)
    print_line(f"Created in {folder}: {', '.join(sorted(samples))}. Next:")
    for command in (f"cd {folder}", *COMMANDS):
        print_line(f"  {command}")
