"""The verbs that decide criteria: `rubrank grade` turns rollouts into scores, `rubrank conformance` tests verifiers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
    make_rollout_columns,
)
from rubrank.cli.terminal import (
    print_json,
    print_line,
    print_table,
    say,
    show_findings,
)
from rubrank.cli.verbs.judge import judging_dict, show_judging
from rubrank.errors import BatchesPending, InvalidInput, counted

if TYPE_CHECKING:
    from rubrank.judges.judge import Judges
    from rubrank.scores.table import ScoreTable

_Compat: TypeAlias = Literal["fixed", "upstream"]
_Mode: TypeAlias = Literal["strict", "loose"]
_Batch: TypeAlias = Literal["wait", "submit"]
_TRY_AGAIN_LATER = 75
"""Exit code of a run whose batches are not finished: EX_TEMPFAIL of sysexits.h."""


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, grade)
    add_verb(app, conformance)


def grade(
    rollouts: Annotated[
        str,
        typer.Argument(
            help="Rollouts: a file, folder or glob, hf:NAME, or - for stdin (rubrank help data)."
        ),
    ],
    rubric: Annotated[
        str | None, typer.Option("--rubric", "-r", help="A rubric file or a preset.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="scores.parquet or scores.jsonl.")
    ] = Path("scores.parquet"),
    force: Force = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of worker processes; 0: none. Default: one per processor, if that is faster.",
        ),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    cache: Annotated[
        str | None,
        typer.Option(help='Cache of verdicts; default OUTPUT.cache. "none" turns it off.'),
    ] = None,
    compat: Annotated[
        _Compat,
        typer.Option(
            help="fixed: do what the instruction says; upstream: do what its public checker does."
        ),
    ] = "fixed",
    mode: Annotated[
        _Mode,
        typer.Option(
            help="strict: check the answer itself; loose: take the best of eight variants of it."
        ),
    ] = "strict",
    column: Column = None,
    group_column: GroupColumn = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            help='Seconds that a verdict may take in a worker; default 60. "none": no limit.'
        ),
    ] = None,
    judges: Annotated[
        Path | None,
        typer.Option(
            help="File of judges, for criteria that no program decides (rubrank help judges)."
        ),
    ] = None,
    cache_only: Annotated[
        bool, typer.Option("--cache-only", help="Use cached replies only; make no calls.")
    ] = False,
    batch: Annotated[
        _Batch | None,
        typer.Option(
            help="Use the judges' batch API: wait, or submit and come back later (rubrank help scale)."
        ),
    ] = None,
    most_missing: Annotated[
        float,
        typer.Option(
            help="Fail if more than this share of the scores is missing, or all of them are."
        ),
    ] = 0.2,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show calls, tokens and cost for each judge; grade and write nothing."
        ),
    ] = False,
    config: FlagConfig = None,
    as_json: AsJson = False,
) -> None:
    """Grade rollouts on all criteria and write a score table. The same command resumes an interrupted run."""
    from rubrank._files import check_output_path
    from rubrank.grading.grade import check_share
    from rubrank.rollouts.groups import read_rollouts
    from rubrank.scores.output import SUFFIXES

    # All options are checked before anything is graded, so that no judge is paid for a run that fails at its end.
    if not dry_run:
        check_output_path(
            output, SUFFIXES, inputs=(rollouts, rubric, judges), force=force, verb="grade"
        )
    check_share(most_missing)
    run_grading = _choose_grader(engine, address, batch)
    check_address(engine, address, "grade")
    seconds = _parse_timeout(timeout)
    loaded_judges = load_judge_file(judges, cache_only, dry_run)
    columns = make_rollout_columns(column, group_column)
    if dry_run:
        _show_estimate(rollouts, rubric, loaded_judges, columns, as_json, batch is not None)
        return

    read = read_rollouts(rollouts, columns)
    say(str(read))
    try:
        graded = run_grading(
            read.groups,
            rubric,
            judges=loaded_judges,
            compat=compat,
            mode=mode,
            workers=workers,
            cache=None if cache == "none" else cache or f"{output}.cache",
            timeout=seconds,
            most_missing=most_missing,
            progress=True,
        )
    except BatchesPending as pending:
        say(str(pending))
        raise typer.Exit(_TRY_AGAIN_LATER) from None
    graded.write(output)
    _show_graded(
        graded, output, as_json, currency="" if loaded_judges is None else loaded_judges.currency
    )


def _choose_grader(
    engine: str, address: str | None, batch: _Batch | None
) -> Callable[..., ScoreTable]:
    """Return the function that grades: here, here with batches of judge calls, or on Ray."""
    from rubrank.grading.grade import grade as grade_here

    if engine != "ray":
        return grade_here if batch is None else partial(grade_here, batch=batch)
    if batch is not None:
        raise InvalidInput(
            "grade",
            "batch",
            allowed="used with --engine local",
            got="--engine ray",
            remedy="Batches do not use your processors: leave --engine ray out.",
        )
    from rubrank.grading.ray_grader import grade_on_ray

    return partial(grade_on_ray, address=address)


def load_judge_file(file: Path | None, cache_only: bool, dry_run: bool) -> Judges | None:
    """Load the judges of a file. Their replies go to the project's folder, unless the file names another place."""
    from rubrank.judges.client.cache import find_default_cache_path
    from rubrank.judges.judge import load_judges

    if file is None:
        if cache_only:
            raise InvalidInput(
                "grade",
                "cache_only",
                allowed="used with `judges`",
                got="no judges",
                remedy="Name a file: `judges=FILE`.",
            )
        return None
    judges = load_judges(file)
    cache = judges.cache
    if cache is None and not dry_run:  # a dry run makes no calls, and leaves no files behind
        cache = str(find_default_cache_path())
    return judges.model_copy(update={"cache": cache, "cache_only": cache_only or judges.cache_only})


def _parse_timeout(text: str | None) -> float | Literal["auto"] | None:
    """Parse the value of --timeout: seconds, None for no limit, "auto" without the flag."""
    if text is None:
        return "auto"
    if text == "none":
        return None
    with suppress(ValueError):
        seconds = float(text)
        if seconds > 0.0:
            return seconds
    allowed = 'seconds > 0, or "none"'
    raise InvalidInput("grade", "timeout", allowed, got=repr(text), remedy="For example 5.")


def _show_graded(graded: ScoreTable, output: Path, as_json: bool, currency: str) -> None:
    """Print the criteria, the cost of the judges, the missing scores, and where the table is."""
    from rubrank.grading.grade import count_missing
    from rubrank.records.findings import find_findings
    from rubrank.rubrics.checks import YES_NO, are_all_yes_no

    summaries = graded.summary()
    is_ranked = any(criterion.layer == "quality" for criterion in graded.collect_criteria())
    findings = find_findings(graded.fuse()) if is_ranked else []
    if as_json:
        data: dict[str, Any] = {
            "output": str(output),
            "rollouts": len(graded),
            "groups": len(graded.groups),
            "criteria": [vars(summary) for summary in summaries],
            "findings": [finding.to_dict() for finding in findings],
        }
        if graded.judging is not None:
            data["judging"] = judging_dict(graded.judging)
        print_json(data)
    else:
        headings = ("criterion", "mean", "ties", "missing", "groups all tied")
        rows = [
            (s.name, s.mean, s.tie_rate, s.missing, f"{s.all_tied} of {s.groups}")
            for s in summaries
        ]
        print_table("", headings, rows, form=(".3g", ".0%", "d", ""))
        if graded.judging is not None:
            show_judging(graded.judging, currency)
    say(str(count_missing(graded)))
    is_compared = any(group.outcomes for group in graded.groups)  # who beats whom is no yes or no
    if not is_compared and are_all_yes_no(
        (spec.layer, spec.domain) for spec in graded.collect_criteria()
    ):
        say(f"note: {YES_NO}")
    say(f"{counted(len(graded), 'rollout')}, {counted(len(graded.groups), 'group')}: {output}")
    if not as_json:
        show_findings(findings)


def _show_estimate(
    rollouts: str,
    rubric: str | None,
    judges: Judges | None,
    columns: Any,
    as_json: bool,
    batch: bool,
) -> None:
    """Print calls, tokens and cost for each judge, without making any call."""
    from rubrank.grading.preview import estimate

    run = estimate(rollouts, rubric, judges, columns=columns, batch=batch)
    if as_json:
        print_json(run.as_dict())
        return
    size = f"{counted(run.rollouts, 'rollout')} in {counted(run.groups, 'group')}"
    typer.echo(f"{size}: {run.verdicts:,} verdicts of programs, at most {run.judged:,} of judges")
    currency = f" ({judges.currency})" if judges is not None and judges.currency else ""
    headings = ["judge", "kind", "model", "calls", "tokens in", "tokens out", f"cost{currency}"]
    if batch:
        headings.append("batches")
    rows = []
    for judge in run.judges:
        cost = f"{judge.cost:.4g}" if judge.priced else "no price"
        tokens = (judge.input_tokens, judge.output_tokens)
        row = (judge.judge, judge.kind, judge.model, judge.calls, *tokens, cost, judge.batches)
        rows.append(row[: len(headings)])
    if rows:
        print_table("at most, if no reply is cached", headings, rows, words=3, form=",d")
    for name in run.undecided:
        typer.echo(f"no judge decides {name!r}: name one with --judges FILE")


def conformance(
    file: Annotated[
        Path, typer.Argument(help="Prompts with responses and published verdicts, as JSON Lines.")
    ],
    compat: Annotated[
        _Compat,
        typer.Option(
            help="upstream: read instructions as the public checkers do; fixed: as rubrank does."
        ),
    ] = "upstream",
    as_json: AsJson = False,
) -> None:
    """Measure how often the verdicts of our verifiers agree with published ones."""
    from rubrank.studies.conformance import measure

    result = measure(file, compat)
    if as_json:
        print_json(result.to_dict())
        return
    parts: dict[str, Any] = {**result.per_id, "all": result}
    rows = [(name, str(part.n), part.strict, part.loose) for name, part in parts.items()]
    title = "agreement with the published verdicts"
    print_table(title, ("id", "n", "strict", "loose"), rows, form=".2%", most=None, total=1)
    for d in result.disagreements:
        print_line(f"{d.key} {d.id} {d.mode}: published {d.published}, ours {d.ours}: {d.reason}")
    for name, answers in result.unknown.items():
        print(
            f"not measured: {name} ({answers} answers): no such verifier, or its arguments are missing"
        )
