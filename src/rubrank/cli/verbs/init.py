"""`rubrank init FOLDER` writes sample rollouts, a rubric, judges and settings, to be replaced by the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rubrank.cli.terminal import print_line
from rubrank.errors import InvalidInput

_PROMPT = "Explain in two to four sentences why the sea has tides. Mention the moon."
_ROLLOUTS = [
    {
        "prompt_id": "tides",
        "prompt": _PROMPT,
        "responses": [
            "The moon pulls the sea towards it. On the side that faces the moon the water rises, and so it does on the "
            "far side. As the earth turns, each coast passes through both bulges.",
            "Tides come from the moon.",
            "The moon's pull is stronger on the near side of the earth than on its far side. That difference stretches "
            "the sea into two bulges.",
            "Tides are caused by the wind, which blows the water up and down.",
        ],
    }
]
_RUBRIC = """\
# Criteria applied to every response. `rubrank criteria` lists the library; `rubrank check rubric.yaml` finds mistakes.
criteria:
  - EmptyAnswer                                    # a gate: an empty response gets 0
  - {name: Keyword, params: {keywords: [moon]}, weight: 2}
  - {name: SentenceCount, params: {low: 2, high: 4}}
  # A judge decides what no program can: start the server of judges.yaml, and uncomment the next line.
  # - {name: Correct, question: Is the explanation physically correct?, weight: 3}
"""
_JUDGES = """\
# Judges decide what no program can; they are called only if the rubric has such a criterion.
judges:
  - name: main
    endpoints:
      - {base_url: "http://127.0.0.1:8000/v1", model: my-model}
"""
_SETTINGS = """\
# How scores become rewards: rubrank fuse scores.parquet --config settings.toml
rule = "rlvr2+"
"""
FILES = {
    "rollouts.jsonl": "".join(json.dumps(row) + "\n" for row in _ROLLOUTS),
    "rubric.yaml": _RUBRIC,
    "judges.yaml": _JUDGES,
    "settings.toml": _SETTINGS,
}
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
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        raise InvalidInput(
            "init",
            "folder",
            allowed="a folder without files of these names",
            got=f"{folder / existing[0]}",
            remedy="Name another folder; nothing is replaced.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    print_line(f"Created in {folder}: {', '.join(FILES)}. Next:")
    print_line(f"  cd {folder}")
    for command in COMMANDS:
        print_line(f"  {command}")
