"""`rubrank draft` writes a rubric for every prompt of a file; `evolve` adds items where a run needs more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson, Force
from rubrank.cli.terminal import print_json, print_table, say
from rubrank.errors import InvalidInput, counted

if TYPE_CHECKING:
    from rubrank.drafting.draft import DraftedRubric
    from rubrank.drafting.pipeline import KnownResponses, PromptRow
    from rubrank.drafting.writers import Templates
    from rubrank.judges.judge import Judges

_EVENTS = ("added", "retired", "dropped", "refused", "problem", "failed")
"""What can happen to an item when rubrics evolve, in the order of the JSON summary."""


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, draft)
    add_verb(app, evolve)


def draft(
    prompts: Annotated[
        str, typer.Argument(help="Prompts in any format that `grade` reads (rubrank help data).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the rubrics, as JSON lines.")
    ] = Path("rubrics.jsonl"),
    force: Force = False,
    activate: Annotated[
        bool,
        typer.Option(
            "--activate/--compile-only",
            help="Add criteria of the library that fit the task.",
        ),
    ] = True,
    writers: Annotated[
        Path | None,
        typer.Option(
            help="File of models that write items for judges; it has the format of a file of judges."
        ),
    ] = None,
    responses: Annotated[
        str | None,
        typer.Option(
            help="Responses to the prompts: shown to the writers, and used by --judges to measure items."
        ),
    ] = None,
    judges: Annotated[
        Path | None,
        typer.Option(help="File of judges that measure the items on --responses; see --keep."),
    ] = None,
    keep: Annotated[
        Literal["data", "all"],
        typer.Option(
            help="data: keep the items that the measurements support; all: keep every item."
        ),
    ] = "data",
    writer_prompts: Annotated[
        Path | None,
        typer.Option(
            help="Folder with your own prompts for the writers: write.txt, merge.txt, break.txt …"
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show calls, tokens and cost of writers and judges; call and write nothing.",
        ),
    ] = False,
    examples: Annotated[int, typer.Option(min=0, help="Number of drafted rubrics to show.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Draft rubrics from prompts: constraints become criteria that programs check, and models can write more items."""
    import json

    from rubrank._files import atomic_write, check_output_path
    from rubrank.drafting.pipeline import draft_rubrics, read_prompts, read_responses
    from rubrank.drafting.writers import load_templates, load_writers
    from rubrank.grading.progress import Bar
    from rubrank.judges.judge import load_judges

    # Everything is read and checked before a model is called.
    if judges is not None and (writers is None or responses is None):
        got = "no --writers" if writers is None else "no --responses"
        raise InvalidInput(
            "draft",
            "judges",
            allowed="used with --writers and --responses",
            got=got,
        )
    if not dry_run:
        check_output_path(
            output,
            (".jsonl",),
            inputs=(prompts, writers, responses, judges),
            force=force,
            verb="draft",
        )
    rows = list(read_prompts(prompts))
    writing_models = load_writers(writers) if writers is not None else None
    measuring_judges = load_judges(judges) if judges is not None else None
    known_responses = read_responses(responses) if responses is not None else {}
    templates = load_templates(writer_prompts)
    if dry_run:
        _show_estimate(
            rows,
            writing_models,
            measuring_judges if keep == "data" else None,
            known_responses,
            templates,
            as_json,
        )
        return
    with Bar("drafting", quiet=as_json) as bar:

        def show_progress(label: str, done: int, total: int, cost: float) -> None:
            bar(done, total, label)
            bar.tell(f"cost {cost:.4g}")

        result = draft_rubrics(
            rows,
            activate=activate,
            writers=writing_models,
            responses=known_responses,
            judges=measuring_judges,
            keep=keep,
            prompts=writer_prompts,
            progress=show_progress,
        )
    with atomic_write(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row, rubric in zip(rows, result.rubrics, strict=True):
            file.write(json.dumps({**row.fields, **rubric.to_row()}, ensure_ascii=False) + "\n")
    counts = _count_items(result.rubrics)
    if result.account is not None:
        counts["calls"] = result.account.calls
        counts["cost"] = result.account.cost
        if counts["written"]:
            counts["cost_per_item"] = result.account.cost / counts["written"]
    if as_json:
        print_json({"output": str(output), **counts})
        return
    for rubric in result.rubrics[:examples]:
        # Each criterion, with the words of the prompt that it comes from.
        table = []
        for item in rubric.items:
            source = item.evidence.strip().replace("\n", " ") or item.author.writer or item.step
            table.append([item.name[:30], source if item.kept else f"dropped: {item.reason}"])
        title = f"{rubric.task}: {rubric.prompt.strip().splitlines()[0][:60]}"
        print_table(title, ["criterion", "from"], table, words=2)
    say(
        f"{counted(counts['prompts'], 'prompt')}, {counts['with_compiled']} with constraints; "
        f"{counts['compiled']} criteria compiled, {counts['activated']} from the library, "
        f"{counts['written']} written, {counts['dropped']} dropped"
    )
    if result.account is not None:
        cost_per_item = "no written item was kept"
        if counts["written"]:
            cost_per_item = f"{counts['cost_per_item']:.4g} per written item that was kept"
        calls = counted(result.account.calls, "call")
        say(f"writers and judges: {calls}, cost {result.account.cost:.4g}, {cost_per_item}")
    problems = sum("problems" in rubric.notes for rubric in result.rubrics)
    if problems:
        say(
            f"{counted(problems, 'prompt')} with replies that could not be used; see `draft.problems` in the output"
        )
    say(f"rubrics: {output}")


def _show_estimate(
    rows: Sequence[PromptRow],
    writers: Judges | None,
    judges: Judges | None,
    responses: Mapping[str, KnownResponses],
    templates: Templates,
    as_json: bool,
) -> None:
    """Print calls, tokens and cost: for a usual number of items, and at most."""
    from rubrank.drafting.pipeline import MOST, USUAL, estimate_draft

    if writers is None:
        if as_json:
            print_json({"prompts": len(rows), "calls": 0, "cost": 0.0})
        else:
            say(f"{counted(len(rows), 'prompt')}: no writers, so no calls")
        return
    texts = {prompt: known_responses.texts for prompt, known_responses in responses.items()}
    usual = estimate_draft(rows, writers, judges, texts, templates, **USUAL)
    most = estimate_draft(rows, writers, judges, texts, templates, **MOST)
    if as_json:
        print_json(
            {
                "prompts": len(rows),
                "assumed": USUAL,
                "usual": usual.as_dict(),
                "most": most.as_dict(),
            }
        )
        return
    headings = ["", f"{USUAL['items']} items per writer", f"at most ({MOST['items']})"]
    lines: list[list[Any]] = []
    for purpose in most.calls:
        label = "calls of judges" if purpose == "judge" else f"calls to {purpose}"
        lines.append([label, usual.calls[purpose], most.calls[purpose]])
    lines.append(["tokens in", usual.input_tokens, most.input_tokens])
    lines.append(["tokens out, at most", usual.output_tokens, most.output_tokens])
    currency = f" in {writers.currency}" if writers.currency else ""
    costs = [
        f"{estimate.cost:.4g}" if estimate.is_priced else "no price" for estimate in (usual, most)
    ]
    lines.append([f"cost{currency}, at most", *costs])
    title = f"{counted(len(rows), 'prompt')}, if no reply is cached"
    print_table(title, headings, lines, form=",d")


def _count_items(drafted: Sequence[DraftedRubric]) -> dict[str, Any]:
    """Count the prompts, and how many of their items were compiled, activated, written and dropped."""
    items = [item for rubric in drafted for item in rubric.items]
    kept_steps = Counter(item.step.removesuffix(" by a model") for item in items if item.kept)
    with_compiled = 0
    for rubric in drafted:
        if any(item.step.startswith("compiled") for item in rubric.items):
            with_compiled += 1
    return {
        "prompts": len(drafted),
        "with_compiled": with_compiled,
        "compiled": kept_steps["compiled"],
        "activated": kept_steps["activated"],
        "written": kept_steps["written"],
        "dropped": len(items) - kept_steps.total(),
        "tasks": dict(Counter(rubric.task for rubric in drafted)),
    }


def evolve(
    records: Annotated[
        Path,
        typer.Argument(help="Records of a run with texts: a file, rotated files, or a folder."),
    ],
    writers: Annotated[
        Path,
        typer.Option(
            help="File of models that write items; it has the format of a file of judges."
        ),
    ],
    judges: Annotated[
        Path, typer.Option(help="File of judges that measure the items; see --keep.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the rubrics, as JSON lines.")
    ] = Path("evolved.jsonl"),
    force: Force = False,
    rubrics: Annotated[
        str | None,
        typer.Option(help="Dataset of the run: all its rows are written, with the new items."),
    ] = None,
    most_items: Annotated[
        int, typer.Option(min=1, help="Maximum number of items that a prompt gets.")
    ] = 4,
    most_queries: Annotated[
        int, typer.Option(min=1, help="Maximum number of prompts that get items.")
    ] = 100,
    retire_after: Annotated[
        int,
        typer.Option(
            min=1, help="Retire an evolved item after this many groups in a row without spread."
        ),
    ] = 3,
    keep: Annotated[
        Literal["data", "all"],
        typer.Option(
            help="data: keep the items that the measurements support; all: keep every item."
        ),
    ] = "data",
    writer_prompts: Annotated[
        Path | None, typer.Option(help="Folder with your own prompts for the writers.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add judged items to prompts whose groups have no signal or little headroom in the records of a run."""
    import json

    from rubrank._files import atomic_write, check_output_path
    from rubrank.drafting.evolution import EvolveOptions, RubricEvolution
    from rubrank.judges.judge import load_judges
    from rubrank.records.files import read_records
    from rubrank.training.evolution import observe_record

    check_output_path(
        output, (".jsonl",), inputs=(records, writers, rubrics, judges), force=force, verb="evolve"
    )
    options = EvolveOptions(
        writers=str(writers),
        most_items=most_items,
        most_queries=most_queries,
        retire_after=retire_after,
        keep=keep,
        prompts=None if writer_prompts is None else str(writer_prompts),
    )
    # 1. Adopt the items that the dataset has already, and observe every training group of the run.
    evolution = RubricEvolution(options, load_judges(judges))
    rows = _read_rubric_rows(rubrics) if rubrics is not None else None
    for row in rows or ():
        evolution.adopt(row)
    last_step = 0
    groups = 0
    for record in read_records(records):
        if record.metadata.get("mode") == "eval":
            continue
        observation = observe_record(record)
        if observation is None:
            raise InvalidInput(
                f"{records}: group {record.group!r}",
                "texts",
                allowed="prompt and responses",
                got="none",
                remedy="Record with texts (`texts: true`).",
            )
        evolution.observe(observation)
        last_step = max(last_step, observation.step)
        groups += 1
    # 2. Write new items where groups need them, and retire those without spread.
    events = evolution.propose(last_step + 1)
    evolution.apply(events)
    # 3. Write all rows of the dataset; without one, the prompts that have evolved items.
    queries = evolution.queries
    if rows is None:
        rows = [{"prompt": prompt} for prompt in queries]
    with atomic_write(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            query = queries.get(str(row["prompt"]))
            if query is not None:
                # In the column `draft`, the evolved items are replaced; what it says about others stays.
                draft = row.get("draft")
                if not isinstance(draft, Mapping):
                    draft = {"task": "evolved"}
                items = [item for item in draft.get("items", []) if item.get("step") != "evolved"]
                items += [item.describe_origin() for item in query.items]
                rubric = evolution.extend(row.get("rubric"), query.prompt)
                row = {**row, "rubric": rubric, "draft": {**draft, "items": items}}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    counts = Counter(event["event"] for event in events)
    if as_json:
        print_json(
            {
                "output": str(output),
                "groups": groups,
                "prompts": len(queries),
                **{name: counts[name] for name in _EVENTS},
                "events": events,
            }
        )
        return
    say(
        f"{counted(groups, 'group')}; {counted(len(queries), 'prompt')} with evolved items: {counts['added']} added, "
        f"{counts['retired']} retired, {counts['dropped'] + counts['refused']} dropped"
    )
    for event in events:
        if event["event"] in ("problem", "failed"):
            say(f"{event['event']}: {event['reason']}")
    say(f"rubrics: {output}")


def _read_rubric_rows(source: str) -> list[dict[str, Any]]:
    """Read the rows of a dataset. Raises InvalidInput if a prompt is neither a text nor one message."""
    from rubrank.tables.sources import read_rows

    rows = []
    for number, row in enumerate(read_rows(source), start=1):
        prompt = row.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], dict):
            prompt = prompt[0].get("content")
        if not isinstance(prompt, str):
            raise InvalidInput(
                f"{source}: row {number}",
                "prompt",
                allowed="a text, or one message",
                got=type(prompt).__name__,
            )
        rows.append({**row, "prompt": prompt})
    return rows
