"""`rubrank draft` writes a rubric for every prompt of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson, Force
from rubrank.cli.terminal import print_json, say, table

if TYPE_CHECKING:
    from rubrank.drafting.draft import DraftedRubric


def register(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    add_verb(app, draft)


def draft(
    prompts: Annotated[str, typer.Argument(help="Prompts in any format that `grade` reads (docs/data.md).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the rubrics go, as JSON lines.")] = Path(
        "rubrics.jsonl"
    ),
    force: Force = False,
    activate: Annotated[
        bool,
        typer.Option("--activate/--compile-only", help="Add criteria of the library that fit the type of task."),
    ] = True,
    examples: Annotated[int, typer.Option(min=0, help="Show this many of the drafted rubrics.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Draft rubrics from prompts: what a prompt states becomes criteria that programs decide. No model is asked."""
    import json

    from rubrank._files import atomic_write, check_output_path
    from rubrank.drafting.draft import draft_rubric
    from rubrank.drafting.prompts import read_prompts

    check_output_path(output, (".jsonl",), inputs=(prompts,), force=force, verb="draft")
    drafted = []
    with atomic_write(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in read_prompts(prompts):
            rubric = draft_rubric(
                row.prompt, turns=row.turns, tools=row.tools, reference=row.reference, activate=activate
            )
            file.write(json.dumps({**row.fields, **rubric.to_row()}, ensure_ascii=False) + "\n")
            drafted.append(rubric)
    counts = _count(drafted)
    if as_json:
        print_json({"output": str(output), **counts})
        return
    for rubric in drafted[:examples]:
        _show(rubric)
    say(
        f"{counts['prompts']} prompts, {counts['with_compiled']} of them state constraints; "
        f"{counts['compiled']} criteria compiled, {counts['activated']} from the library, {counts['dropped']} dropped"
    )
    say(f"rubrics: {output}")


def _count(drafted: Sequence[DraftedRubric]) -> Mapping[str, Any]:
    items = [item for rubric in drafted for item in rubric.items]
    kept = [item for item in items if item.kept]
    return {
        "prompts": len(drafted),
        "with_compiled": sum(any(item.step == "compiled" for item in rubric.items) for rubric in drafted),
        "compiled": sum(item.step == "compiled" for item in kept),
        "activated": sum(item.step == "activated" for item in kept),
        "dropped": len(items) - len(kept),
        "tasks": dict(Counter(rubric.task for rubric in drafted)),
    }


def _show(rubric: DraftedRubric) -> None:
    """One drafted rubric with the words that each criterion comes from."""
    rows = []
    for item in rubric.items:
        source = item.evidence.strip().replace("\n", " ") or item.step
        rows.append([item.name[:30], source if item.kept else f"dropped: {item.reason}"])
    table(f"{rubric.task}: {rubric.prompt.strip().splitlines()[0][:60]}", ["criterion", "from"], rows, words=2)
