"""The verbs about criteria and grading: check, criteria, grade, conformance. Each calls one function of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import (
    Address,
    AsJson,
    Column,
    Engine,
    FlagConfig,
    Force,
    GroupColumn,
    check_address,
    rollout_columns,
)
from rubrank.cli.printing import number, print_json, print_line, say, table
from rubrank.cli.verbs.judge import judging_dict, show_judging
from rubrank.errors import BatchesPending, InvalidInput, counted

if TYPE_CHECKING:
    from rubrank.cli.listing import Listed
    from rubrank.judges.judge import Judges
    from rubrank.scores.table import ScoreTable
    from rubrank.studies.conformance import Conformance

_Compat: TypeAlias = Literal["fixed", "upstream"]
_Mode: TypeAlias = Literal["strict", "loose"]
_Batch: TypeAlias = Literal["wait", "submit"]
_COME_BACK = 75
"""Exit code of a run whose batches are not over: that of sysexits.h for "try again later"."""


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, check)
    add_verb(app, criteria)
    add_verb(app, grade)
    add_verb(app, conformance)


def check(
    file: Annotated[str, typer.Argument(help="A rubric (YAML, TOML, JSON) or a dataset whose rows have rubrics.")],
    as_json: AsJson = False,
) -> None:
    """List everything that is wrong with a rubric or a dataset; nothing is graded. Exit code 1 if anything is."""
    from rubrank.rubrics.checking import check_file, note_on

    problems = check_file(file)
    if as_json:
        print_json([vars(problem) for problem in problems])
    else:
        for problem in problems:
            print_line(str(problem))
        noun = "problem" if len(problems) == 1 else "problems"
        typer.echo(f"{file}: {len(problems)} {noun}" if problems else f"{file}: no problems", err=True)
        if not problems and (note := note_on(file)):
            typer.echo(f"note: {note}", err=True)
    if problems:
        raise typer.Exit(1)


def _names(incomplete: str) -> list[str]:
    """What a shell offers for the name of a criterion."""
    from rubrank.cli.listing import find_criteria

    return [one.name for one in find_criteria() if one.name.startswith(incomplete)]


def _families(incomplete: str) -> list[str]:
    from rubrank.cli.listing import find_criteria

    return sorted({one.family for one in find_criteria() if one.family.startswith(incomplete)})


def criteria(
    name: Annotated[
        str | None, typer.Argument(help="Show one: what passes, its parameters, examples.", autocompletion=_names)
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only this family.", autocompletion=_families)] = None,
    search: Annotated[str | None, typer.Option(help="Only those that fit these words, such as 'unit test'.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the criteria library, or show one criterion with its examples."""
    from rubrank.cli.listing import describe, find_criteria

    found = [describe(name)] if name is not None else find_criteria(family, search)
    if as_json:
        print_json(found[0].to_dict() if name is not None else [listed.to_dict() for listed in found])
    elif name is not None:
        _show_one(found[0])
    elif found:
        _show_list(found)
    else:
        _say_none_fits(search or "")


def grade(
    rollouts: Annotated[
        str,
        typer.Argument(help="A file, folder or pattern of any common format, hf:NAME, or - (docs/data.md)."),
    ],
    rubric: Annotated[str | None, typer.Option("--rubric", "-r", help="A rubric file or a preset.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="scores.parquet or scores.jsonl.")] = Path(
        "scores.parquet"
    ),
    force: Force = False,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Worker processes; 0: none. By default, as many as are useful.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    cache: Annotated[
        str | None, typer.Option(help='Where verdicts are kept; by default OUTPUT.cache. "none": nowhere.')
    ] = None,
    compat: Annotated[
        _Compat, typer.Option(help="fixed: what the instruction says; upstream: the public checker's verdict.")
    ] = "fixed",
    mode: Annotated[
        _Mode, typer.Option(help="strict: the answer as it is; loose: the best of eight variants.")
    ] = "strict",
    column: Column = None,
    group_column: GroupColumn = None,
    timeout: Annotated[
        str | None, typer.Option(help='Seconds that a verdict may take in a worker, by default 60. "none": any.')
    ] = None,
    judges: Annotated[
        Path | None, typer.Option(help="File of judges, for what no program can decide (docs/judges.md).")
    ] = None,
    cache_only: Annotated[
        bool, typer.Option("--cache-only", help="Answer from the cached replies; make no calls.")
    ] = False,
    batch: Annotated[
        _Batch | None,
        typer.Option(help="Use the judges' batch API: wait, or submit and come back later (docs/scale.md)."),
    ] = None,
    most_missing: Annotated[
        float, typer.Option(help="Fail if a larger share of the scores is missing; all missing always fails.")
    ] = 0.2,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, tokens and cost for each judge; grade and write nothing.")
    ] = False,
    config: FlagConfig = None,
    as_json: AsJson = False,
) -> None:
    """Grade rollouts on all criteria and write a score table. A killed run is resumed."""
    from rubrank._files import check_output_path
    from rubrank.grading.missing import check_share
    from rubrank.rollouts.groups import read_rollouts
    from rubrank.scores.output import SUFFIXES

    # Everything that can be known comes first: nothing is paid for and then refused.
    if not dry_run:  # which writes nothing
        check_output_path(output, SUFFIXES, inputs=(rollouts, rubric, judges), force=force, verb="grade")
    check_share(most_missing)
    run = _grader(engine, address, batch)
    check_address(engine, address, "grade")
    seconds, asked = _seconds(timeout), _judges(judges, cache_only, dry_run)
    columns = rollout_columns(column, group_column)
    if dry_run:
        _show_estimate(rollouts, rubric, asked, columns, as_json, batch is not None)
        return
    found = read_rollouts(rollouts, columns)
    say(str(found))
    keep = None if cache == "none" else cache or f"{output}.cache"
    options: dict[str, Any] = {"compat": compat, "mode": mode, "workers": workers, "cache": keep, "judges": asked}
    try:
        graded = run(found.groups, rubric, progress=True, timeout=seconds, most_missing=most_missing, **options)
    except BatchesPending as pending:
        say(str(pending))
        raise typer.Exit(_COME_BACK) from None
    graded.write(output)
    _show_graded(graded, output, as_json)


def _grader(engine: str, address: str | None, batch: _Batch | None) -> Callable[..., ScoreTable]:
    """What grades: here, here with batches, or on Ray."""
    from rubrank.grading.grade import grade as locally

    if engine != "ray":
        return locally if batch is None else partial(locally, batch=batch)
    if batch is not None:
        remedy = "Batches take no processors of yours: leave --engine ray out."
        raise InvalidInput("grade", "--batch", "used with --engine local", "--engine ray", remedy)
    from rubrank.grading.ray_grader import grade_on_ray

    return partial(grade_on_ray, address=address)


def _show_graded(graded: ScoreTable, output: Path, as_json: bool) -> None:
    """What came out: criteria, what judges took, what is missing, and where the table is."""
    from rubrank.grading.missing import count_missing
    from rubrank.rubrics.notes import YES_NO, yes_no_only

    if as_json:
        print_json(_summary_dict(graded, output))
    else:
        _show_summary(graded)
        if graded.judging is not None:
            show_judging(graded.judging)
    say(str(count_missing(graded)))
    if yes_no_only((criterion.layer, criterion.domain) for criterion in graded.specifications()):
        typer.echo(f"note: {YES_NO}", err=True)
    typer.echo(f"{counted(len(graded), 'rollout')}, {counted(len(graded.groups), 'group')}: {output}", err=True)


def _show_estimate(
    rollouts: str, rubric: str | None, judges: Judges | None, columns: Any, as_json: bool, batch: bool
) -> None:
    from rubrank.grading.preview import estimate

    found = estimate(rollouts, rubric, judges, columns=columns, batch=batch)
    if as_json:
        print_json(found.as_dict())
        return
    size = f"{counted(found.rollouts, 'rollout')} in {counted(found.groups, 'group')}"
    typer.echo(f"{size}: {found.verdicts:,} verdicts of programs, at most {found.judged:,} of judges")
    rows = [
        (
            one.judge,
            one.kind,
            one.model,
            f"{one.calls:,}",
            f"{one.input_tokens:,}",
            f"{one.output_tokens:,}",
            f"{one.cost:.4g}" if one.priced else "no price",
            *([f"{one.batches:,}"] if batch else []),
        )
        for one in found.judges
    ]
    if rows:
        more = ("batches",) if batch else ()
        headings = ("judge", "kind", "model", "calls", "tokens in", "tokens out, at most", "cost, at most", *more)
        table("", headings, rows, words=3)
    for name in found.undecided:
        typer.echo(f"no judge decides {name!r}: --judges FILE says who does")


def conformance(
    file: Annotated[Path, typer.Argument(help="Prompts with responses and published verdicts, as JSON Lines.")],
    compat: Annotated[_Compat, typer.Option(help="upstream: the public checkers' reading; fixed: ours.")] = "upstream",
    as_json: AsJson = False,
) -> None:
    """Measure how often our verdicts agree with published ones."""
    from rubrank.studies.conformance import measure

    result = measure(file, compat)
    if as_json:
        print_json(result.to_dict())
    else:
        _show_conformance(result)


# ------------------------------------------------------------------------------------------------------------- helpers


def _judges(file: Path | None, cache_only: bool, dry_run: bool) -> Judges | None:
    """The judges of a file; their replies are kept in the project's folder, unless the file says where.

    A dry run asks nothing, and leaves nothing behind.
    """
    from rubrank.judges.client.cache import default_cache_path
    from rubrank.judges.judge import load_judges

    if file is None:
        if cache_only:
            raise InvalidInput("grade", "--cache-only", "used with --judges", "no judges", "Say --judges FILE.")
        return None
    judges = load_judges(file)
    cache = judges.cache or (None if dry_run else str(default_cache_path()))
    return judges.model_copy(update={"cache": cache, "cache_only": cache_only or judges.cache_only})


def _seconds(text: str | None) -> float | Literal["auto"] | None:
    if text in (None, "none"):
        return "auto" if text is None else None
    try:
        seconds = float(text)
    except ValueError:
        raise InvalidInput("grade", "--timeout", 'seconds, or "none"', repr(text), "For example 5.") from None
    if not seconds > 0.0:
        raise InvalidInput("grade", "--timeout", 'seconds > 0, or "none"', text, "")
    return seconds


def _show_list(found: Sequence[Listed]) -> None:
    table("", ("name", "family", "by", "checks"), [(c.name, c.family, c.how, c.checks) for c in found], 4, None)
    say("1 criterion" if len(found) == 1 else f"{len(found)} criteria")


def _say_none_fits(search: str) -> None:
    typer.echo(f"no criterion fits {search!r}.", err=True)
    typer.echo("Use other or fewer words; ask a judge with a question of your own (docs/rubrics.md);", err=True)
    typer.echo("or write a verifier (docs/extending.md).", err=True)
    raise typer.Exit(1)


def _show_one(one: Listed) -> None:
    print(f"{one.name}: {one.checks}" if one.checks else one.name)
    version = "" if one.version is None else f", version {one.version}"
    print(f"family {one.family}, decided by {one.how}, values {one.values}, layer {one.layer}{version}\n")
    if one.doc:
        print(one.doc + "\n")
    for parameter in one.parameters:
        default = "required" if parameter.required else f"default {parameter.default!r}"
        print(f"  {parameter.name}: {parameter.type} ({default})")
    for example in one.examples:
        _show_example(example)


def _show_example(example: Any) -> None:
    value = "missing" if example.get("value") is None else f"{example['value']:g}"
    extra = [f"{key}={example[key]}" for key in ("params", "siblings", "compat", "mode", "rollout") if example.get(key)]
    note = f"  # {example['note']}" if example.get("note") else ""
    text = str(example.get("text", ""))
    shown = text if len(text) <= 300 else text[:299] + "…"
    print(f"\n  [{example.get('kind', 'example')}] {' '.join(extra)}{note}")
    print(f"    {shown!r} → {value}")


def _summary_dict(graded: ScoreTable, output: Path) -> dict[str, Any]:
    return {
        "output": str(output),
        "rollouts": len(graded),
        "groups": len(graded.groups),
        "criteria": [vars(summary) for summary in graded.summary()],
        **({} if graded.judging is None else {"judging": judging_dict(graded.judging)}),
    }


def _show_summary(graded: ScoreTable) -> None:
    rows = [
        (s.name, number(s.mean, ".3g"), number(s.tie_rate, ".0%"), str(s.missing), f"{s.all_tied} of {s.groups}")
        for s in graded.summary()
    ]
    table("", ("criterion", "mean", "ties", "missing", "groups all tied"), rows)


def _show_conformance(result: Conformance) -> None:
    def share(x: float | None) -> str:
        return "–" if x is None else f"{x:.2%}"

    rows = [(name, str(a.n), share(a.strict), share(a.loose)) for name, a in result.per_id.items()]
    rows.append(("all", str(result.n), share(result.strict), share(result.loose)))
    table("agreement with the published verdicts", ("id", "n", "strict", "loose"), rows, most=None, total=1)
    for d in result.disagreements:
        print_line(f"{d.key} {d.id} {d.mode}: published {d.published}, ours {d.ours}: {d.reason}")
    for name, n in result.unknown.items():
        print(f"no verifier for {name} ({n} answers)")
