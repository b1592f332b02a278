"""The verbs about benchmarks: `rubrank eval list`, `score`, `table`, `compare`, `run`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.cli.command import add_verb, show_flags
from rubrank.cli.common import AsJson, Force, split_pairs
from rubrank.cli.terminal import format_number, print_json, print_line, print_table

if TYPE_CHECKING:
    from rubrank.evaluation.runs import EvalRun
    from rubrank.evaluation.table import CapabilityTable

_Data = Annotated[Path | None, typer.Option(help="Folder (or file) of the benchmarks' own data.")]
_Judges = Annotated[
    Path | None, typer.Option(help="File of judges (YAML, TOML or JSON); the first judge is used.")
]
_Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the benchmark, as name=value.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    verbs = typer.Typer(
        help="Benchmarks: score outputs, run models, make the capability table.",
        no_args_is_help=True,
    )
    add_verb(verbs, list_benchmarks, "list")
    add_verb(verbs, score)
    add_verb(verbs, show_table, "table")
    add_verb(verbs, compare)
    add_verb(verbs, run)
    app.add_typer(verbs, name="eval")


def list_benchmarks(data: _Data = None, as_json: AsJson = False) -> None:
    """List the benchmarks: metric, judge, licence, source of the data, present or not."""
    from rubrank.evaluation.benchmarks import describe_benchmarks

    benchmarks = describe_benchmarks(data)
    if as_json:
        print_json(benchmarks)
        return
    rows = [
        [b["name"], b["metric"], b["judge"] or "program", b["licence"], b["data"]]
        for b in benchmarks
    ]
    print_table("Benchmarks", ["name", "metric", "judge", "licence", "data"], rows, words=5)
    for benchmark in benchmarks:
        print(f"{benchmark['name']}: {benchmark['get']}")


def score(
    outputs: Annotated[
        Path, typer.Argument(help="Outputs of a model, one row per item: JSON lines, CSV, Parquet.")
    ],
    benchmark: Annotated[
        str,
        typer.Option("--benchmark", "-b", help="The benchmark; `rubrank eval list` shows them."),
    ],
    data: _Data = None,
    judges: _Judges = None,
    model: Annotated[str, typer.Option(help="Name of the model to show in tables.")] = "",
    settings: _Settings = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with this value, as column=value.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the scores to this file, as JSON.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score a file of outputs. Verdicts that the rows already have are used as they are."""
    from rubrank._files import check_output_path
    from rubrank.evaluation.benchmarks import find_benchmark, load_items, read_outputs
    from rubrank.evaluation.judge import open_judge
    from rubrank.evaluation.runs import score_rows, write_run
    from rubrank.grading.progress import Bar

    chosen_benchmark = find_benchmark(benchmark, **split_pairs(settings, "settings", "name=value"))
    if output:
        check_output_path(output, inputs=(outputs, judges), force=force, verb="eval score")
    values = split_pairs(where, "where", "column=value")
    rows = (
        row
        for row in read_outputs(outputs)
        if all(str(row.get(name)) == value for name, value in values.items())
    )
    items = load_items(chosen_benchmark, data) if data else ()
    name = model or outputs.name.split(".")[0]
    with Bar("judging") as bar:
        ask_judge, judge_name = open_judge(judges, bar) if judges else (None, "")
        scored = score_rows(
            rows, chosen_benchmark, items=items, judge=ask_judge, model=name, judge_name=judge_name
        )
    if output:
        write_run(scored, output)
    if as_json:
        print_json(scored.summary())
    else:
        _show_run(scored)
    if all(score.missing for score in scored.scores):
        typer.echo("rubrank: every score is missing; see the reasons above", err=True)
        raise typer.Exit(1)


def show_table(
    runs: Annotated[list[Path], typer.Argument(help="Scored runs: files, or folders of them.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the table to this file, as Markdown."),
    ] = None,
    force: Force = False,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show 95% intervals over items.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the table of the paper: benchmarks, averages of capabilities, overall mean."""
    from rubrank._files import atomic_write, check_output_path
    from rubrank.evaluation.runs import read_runs
    from rubrank.evaluation.table import capability_table

    if output:
        check_output_path(output, inputs=runs, force=force, verb="eval table")
    capabilities = capability_table(read_runs(runs), intervals=intervals)
    if output:
        with atomic_write(output) as temporary:
            temporary.write_text(capabilities.markdown(), encoding="utf-8")
    if as_json:
        print_json(capabilities.to_dict())
    else:
        _print_table(capabilities)


def compare(
    first: Annotated[Path, typer.Argument(help="A scored run, or a folder of runs.")],
    second: Annotated[Path, typer.Argument(help="Another run on the same items.")],
    resamples: Annotated[
        int, typer.Option(min=100, max=100_000, help="Resamples for the intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show paired differences (second minus first) with 95% intervals, by benchmark and capability."""
    from rubrank.evaluation.runs import read_runs
    from rubrank.evaluation.table import compare_runs

    differences = compare_runs(
        read_runs([first]), read_runs([second]), resamples=resamples, seed=seed
    )
    if as_json:
        print_json([difference.to_dict() for difference in differences])
        return
    rows = []
    for d in differences:
        interval = _format_interval(*d.interval, "+.2f")
        row = [d.name, d.metric, d.first, d.second, d.estimate, interval, str(d.items)]
        rows.append(row)
    headings = ["", "metric", "first", "second", "difference", "95%", "items"]
    form = (".2f", ".2f", "+.2f", "", "")
    print_table("Second minus first, in points out of 100", headings, rows, words=2, form=form)


def run(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Inspect's name of the model: hf/PATH, or openai-api/NAME/MODEL with --base-url."
        ),
    ],
    suite: Annotated[str, typer.Option(help="The suite of benchmarks.")] = "rlvr2",
    only: Annotated[
        str | None, typer.Option(help="Only these benchmarks of the suite, as a,b.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of items of each benchmark; default: all."),
    ] = None,
    data: _Data = None,
    judges: _Judges = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for logs and scored runs.")
    ] = Path("out/eval"),
    base_url: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible endpoint.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens per answer.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling.")] = 0,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Batch size, for a local model.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Answers per item; default: that of the benchmark.")
    ] = None,
    settings: _Settings = None,
    hub: Annotated[
        bool,
        typer.Option(
            "--hub", help="Download data that --data does not have from the Hugging Face hub."
        ),
    ] = False,
) -> None:
    """Run a model on the benchmarks whose data is present, through Inspect; an interrupted run is resumed."""
    from rubrank.evaluation.suite import RunOptions, run_suite

    options = RunOptions(
        model=model,
        suite=suite,
        only=only,
        limit=limit,
        data=data,
        judge=judges,
        output=output,
        base_url=base_url,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        batch=batch_size,
        repeats=repeats,
        settings=split_pairs(settings, "settings", "name=value"),
        hub=hub,
    )
    result = run_suite(options)
    if result.table is not None:
        _print_table(result.table)
    for message in (*result.skipped, *result.failed):
        typer.echo(f"rubrank: {show_flags(message, context)}", err=True)
    # A benchmark of the default suite may lack its data; one that was named or started must be finished.
    if result.table is None or result.failed or (only is not None and result.skipped):
        raise typer.Exit(1)


def _show_run(run: EvalRun) -> None:
    """Print the metrics, the settings, the notes and the reasons of missing scores."""
    title = f"{run.benchmark}: {run.model}"
    print_table(title, ["metric", "value"], list(run.metrics.items()), form=".4f")
    settings = ", ".join(f"{name} {value}" for name, value in run.settings.items())
    print_line(f"{run.judged} scored; settings: {settings or 'none'}")
    for note in run.notes:
        print_line(f"note: {note}")
    if not math.isnan(run.reasoning_words):
        words = f"{run.reasoning_words:.0f} words per answer that has any"
        print(f"reasoning was removed before scoring: {words}")
    for reason, count in run.missing.most_common(5):
        print_line(f"missing {count}: {reason}")


def _print_table(capabilities: CapabilityTable) -> None:
    """Print the benchmarks, averages and overall mean of each model."""
    from rubrank.evaluation.benchmarks import benchmark_class

    for row in capabilities.rows:
        benchmarks = [name for name in capabilities.benchmarks if name in row.cells]
        cells: list[list[Any]] = []
        for name in benchmarks:
            interval = ""
            if name in row.intervals:
                interval = _format_interval(*row.intervals[name])
            title = benchmark_class(name).title
            cells.append([title, row.notes[name], row.cells[name], interval])
        cells += [[f"= {kind}", "", value, ""] for kind, value in row.averages.items()]
        coverage = f"over {len(benchmarks)} of {len(capabilities.benchmarks)} benchmarks"
        cells.append(["= overall", coverage, row.overall, ""])
        headings = ["benchmark", "how", "points", "95%"]
        columns = 4 if row.intervals else 3
        print_table(row.model, headings[:columns], [line[:columns] for line in cells], words=2)


def _format_interval(low: float, high: float, form: str = ".2f") -> str:
    return f"[{format_number(low, form)}, {format_number(high, form)}]"
