"""The verbs `rubrank judge check`, `show`, `stats`, `audit` and `calibrate`. Each calls one function of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import (
    COLUMN_FLAGS,
    AsJson,
    Column,
    ColumnOptions,
    Force,
    GroupColumn,
    make_rollout_columns,
)
from rubrank.cli.terminal import print_json, print_line, print_table
from rubrank.errors import InvalidInput, counted

if TYPE_CHECKING:
    from rubrank.judges.client.usage import Account, UsageLine
    from rubrank.judges.judgments import Judgments
    from rubrank.studies.audit.result import Audit
    from rubrank.studies.calibration import CascadeCalibration

_Rollouts = Annotated[
    Path | None, typer.Option(help="The graded rollouts, to measure bias for length and Markdown.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    judge = typer.Typer(
        help="Judges: check endpoints, show prompts and costs, audit and calibrate verdicts.",
        no_args_is_help=True,
    )
    add_verb(judge, check)
    add_verb(judge, show)
    add_verb(judge, stats)
    add_verb(judge, audit, flags=COLUMN_FLAGS)
    add_verb(judge, calibrate)
    app.add_typer(judge, name="judge")


def check(
    file: Annotated[
        Path, typer.Argument(help="Judges, as YAML, TOML or JSON (rubrank help judges).")
    ],
) -> None:
    """Check a file of judges and the health of every endpoint, before any money is spent."""
    from rubrank.judges.client.runtime import check_judges
    from rubrank.judges.judge import load_judges

    judges = load_judges(file)
    check_judges(judges)
    for judge in judges.judges:
        models = ", ".join(
            sorted({endpoint.model for leaf in judge.leaves for endpoint in leaf.endpoints})
        )
        print_line(f"{judge.name}: {judge.kind}, {models}: healthy")


def show(
    rubric: Annotated[str, typer.Argument(help="A rubric: YAML, TOML or JSON, or a preset.")],
    rollouts: Annotated[
        str | None,
        typer.Argument(help="Rollouts; without them, the prompts have placeholders in brackets."),
    ] = None,
    judges: Annotated[
        Path | None, typer.Option(help="File of judges; default: one judge of the kind batched.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The group to show; by default the first.")
    ] = None,
    rollout: Annotated[
        int,
        typer.Option(
            help="For judges that see one response at a time: number of the rollout, counting from 0."
        ),
    ] = 0,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="tokenizer.json or a .tiktoken file, to count tokens; estimated by default."
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=0, help="Calls to print; 0: all.")] = 3,
    column: Column = None,
    group_column: GroupColumn = None,
    as_json: AsJson = False,
) -> None:
    """Print the messages that judges would get, word for word, with token counts; makes no calls."""
    from rubrank.grading.preview import show_calls

    columns = make_rollout_columns(column, group_column)
    preview = show_calls(
        rubric, rollouts, judges, group=group, rollout=rollout, columns=columns, tokenizer=tokenizer
    )
    if as_json:
        print_json(preview.as_dict(most))
        return
    if not preview.calls:
        print("no calls: programs decide all criteria, or a gate has stopped the response")
        return
    method = f"counted by {preview.tokenizer}"
    if preview.tokenizer == "estimate":
        method = "estimated: 4 ASCII characters or 1 other character per token"
    printed = preview.calls[: most or None]
    # The text between two lines that start with -- is sent as it is.
    for number, call in enumerate(printed, 1):
        purpose = f", {call.purpose}" if call.purpose else ""
        times = f", sent {call.times} times" if call.times > 1 else ""
        print_line(f"== call {number} of {len(preview.calls)}: judge {call.judge}{purpose}{times}")
        for message, tokens in zip(call.messages, call.tokens, strict=True):
            print_line(f"-- {message['role']} ({tokens:,} tokens)\n{message['content']}")
        print_line(f"-- {sum(call.tokens):,} tokens in total ({method}); prompts: {call.version}")
    not_printed = len(preview.calls) - len(printed)
    if not_printed:
        print_line(f"== and {not_printed} more; --most 0 prints them all")
    if len(preview.calls) > 1:
        print_line(f"== {len(preview.calls)} different calls, {preview.tokens:,} tokens")


def stats(
    cache: Annotated[
        Path | None, typer.Argument(help="The cache of replies; default: that of the project.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the usage recorded in a cache: calls, cache hits, failures, tokens, cost, latency."""
    from rubrank._files import require_file
    from rubrank.judges.client.cache import ReplyCache, find_default_cache_path
    from rubrank.judges.client.usage import Account

    cache = cache or find_default_cache_path()
    require_file(cache)
    # A -wal file means that another process is writing; a read-only connection would miss what it has written.
    with ReplyCache(cache, read_only=not Path(f"{cache}-wal").exists()) as store:
        account = Account.read(store)
    if as_json:
        print_json(account.as_dict())
    else:
        show_account(account)


def audit(
    where: ColumnOptions,
    scores: Annotated[
        list[str],
        typer.Argument(help="Score tables: FILE, or JUDGE=FILE; a judge may have several."),
    ],
    humans: Annotated[
        list[Path] | None, typer.Option(help="Human labels, as score tables, one for each person.")
    ] = None,
    rollouts: _Rollouts = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            help="How often the first response wins, as JSON: {judge: {criterion: \\[wins, comparisons]}}."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the figures to this file: .png, .svg or .pdf.")
    ] = None,
    force: Force = False,
    details: Annotated[
        bool, typer.Option("--details", help="Show every criterion instead of means.")
    ] = False,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap samples for the intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how good a judge is: consistency, bias (position, length, Markdown), agreement with judges and people."""
    from rubrank._files import check_output_path
    from rubrank.studies.audit.audit import audit_files
    from rubrank.studies.audit.figure import FORMATS, draw

    if picture is not None:
        inputs = [*scores, *(humans or ()), rollouts, positions]
        check_output_path(
            picture, FORMATS, inputs=inputs, force=force, verb="judge audit", option="picture"
        )
    columns = where.make_columns()
    result = audit_files(
        scores,
        humans=humans,
        rollouts=rollouts,
        positions=positions,
        criteria=columns.named_criteria,
        table_columns=columns,
        bootstrap=bootstrap,
        seed=seed,
    )
    if picture is not None:
        draw(result, picture)
    if as_json:
        print_json(result.as_dict())
        return
    show_audit(result, details)
    if picture is not None:
        print_line(f"\npicture: {picture}")


def calibrate(
    scores: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Two score files: that of the cheap judge, then that of the better one."
        ),
    ] = None,
    judges: Annotated[
        Path | None,
        typer.Option(
            help="Instead of score files: judges with a fallback and a cache, whose replies are used."
        ),
    ] = None,
    rubric: Annotated[str | None, typer.Option(help="With --judges: the rubric.")] = None,
    rollouts: Annotated[Path | None, typer.Option(help="With --judges: the rollouts.")] = None,
    agreement: Annotated[
        float,
        typer.Option(
            help="Share of answers on which the cascade must agree with the better judge."
        ),
    ] = 0.95,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Use probabilities as they are, without isotonic calibration."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the settings to this file, for the file of judges: .yaml."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Find the thresholds at which a cheap judge should pass its answers to a better one; makes no calls."""
    from rubrank._files import atomic_write, check_output_path
    from rubrank.scores.files import read_scores
    from rubrank.studies.calibration import calibrate as calibrate_tables
    from rubrank.studies.calibration import replay_judges

    if output is not None:
        inputs = [*(scores or ()), judges, rollouts]
        check_output_path(
            output, (".yaml",), inputs=inputs, force=force, verb="judge calibrate", option="output"
        )
    is_replay = judges is not None and rubric is not None and rollouts is not None and not scores
    if not is_replay and (len(scores or ()) != 2 or judges is not None):
        raise InvalidInput(
            "judge calibrate",
            "scores",
            allowed="two score files, or --judges, --rubric and --rollouts",
            got=str(len(scores or ())),
            remedy="See `rubrank help judges`.",
        )
    if is_replay:
        cheap, better = replay_judges(rollouts, rubric, judges)
    else:
        assert scores is not None
        cheap = read_scores(scores[0])
        better = read_scores(scores[1])
    result = calibrate_tables(cheap, better, agreement=agreement, isotonic=not raw)
    if output is not None:
        import yaml

        with atomic_write(output) as temporary:
            text = yaml.safe_dump(
                result.settings(), allow_unicode=True, sort_keys=False, default_flow_style=None
            )
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json(result.as_dict())
        return
    _show_calibration(result)
    if output is not None:
        print_line(f"settings: {output}")


def _show_calibration(result: CascadeCalibration) -> None:
    """Print a line for each criterion, and what cascades of several sizes achieve."""
    figures = ("agreement", "threshold", "escalated", "reached", "error_before", "error_after")
    rows = []
    for criterion in result.criteria:
        values = [getattr(criterion, figure) for figure in figures]
        rows.append((criterion.name, f"{criterion.cells:,}", *values))
    headings = ("criterion", "answers", *figures[:4], "error", "calibrated")
    print_table(f"thresholds for an agreement of {result.agreement:g}", headings, rows, most=None)
    points = [
        (f"{point.escalated:.0%}", point.threshold, point.agreement, point.cost)
        for point in result.curve
    ]
    point_headings = ("escalated", "threshold", "agreement", "cost, of the better judge alone")
    title = "all criteria, the least sure answers first"
    print_table(title, point_headings, points, form=(".2f", ".3f", ".0%"), most=None)


def show_audit(audit: Audit, details: bool = False) -> None:
    """Print everything that was measured, and what could not be measured. details: every criterion, not the means."""
    from rubrank.studies.audit.result import list_unmeasured, make_tables

    size = f"{counted(audit.rollouts, 'rollout')} in {counted(audit.groups, 'group')}"
    print_line(f"{', '.join(audit.judges)}: {size}\n")
    for title, headings, rows, words in make_tables(audit, details):
        if rows:
            print_table(title, headings, rows, words=words, most=None)
    if audit.retest and details:
        print_line("for soft outcomes (rubrank help judges)\n  --set outcomes=soft")
        for name, deviation in audit.retest.items():
            print_line(f"  --set retest.{name}={deviation:.3g}")
        print_line("")
    if audit.unmeasured:
        print_line("not measured")
        for line in list_unmeasured(audit):
            print_line(f"  {line}")


# ------------------------------------------------------------------------------------------------------------- accounts


def show_account(account: Account) -> None:
    """Print the total, then the usage by model, purpose and endpoint, if there are several of them."""
    lines: dict[str, UsageLine] = {"all": account}
    for part in (account.models, account.purposes, account.endpoints):
        if len(part) > 1:
            lines |= part
    rows = []
    for name, line in lines.items():
        failed = sum(line.failures.values())
        counts = (line.calls, line.hits, failed, line.input_tokens, line.output_tokens)
        rows.append((name, *counts, line.cost, line.latency(0.5), line.latency(0.99)))
    headings = ("", "calls", "hits", "failed", "tokens in", "out", "cost", "p50 s", "p99 s")
    print_table("usage", headings, rows, form=[",d"] * 5 + [".4g", ".2f", ".2f"])
    for reason, times in account.failures.most_common():
        print_line(f"failed {times} times: {reason}")


def judging_dict(judging: Judgments) -> dict[str, Any]:
    """Return answers, failures, disagreement and usage of the judges of one run, for JSON."""
    return {
        "asked": judging.asked,
        "missing": judging.lost,
        "reasons": dict(judging.reasons),
        "disagreement": judging.disagreement,
        "first_win_rate": {name: list(rate) for name, rate in judging.first_win_rate.items()},
        "account": judging.account.as_dict(),
    }


def show_judging(judging: Judgments, currency: str = "") -> None:
    """Print answers, failures, cost and disagreement of the judges of one run, in a few lines."""
    missing = f"{judging.lost:,} missing"
    if judging.lost:
        top_reasons = judging.reasons.most_common(3)
        reasons = [f"{times:,} × {reason}" for reason, times in top_reasons]
        rest = judging.lost - sum(times for _, times in top_reasons)
        if rest > 0:
            reasons.append(f"{rest:,} for other reasons")
        missing += f" ({judging.missing:.1%}: {', '.join(reasons)})"
    account = judging.account
    usage = f"{account.calls:,} calls, {account.hits:,} from the cache, cost {account.cost:.4g}"
    line = f"judges: {judging.asked:,} answers requested, {missing}; {usage} {currency}"
    print_line(f"\n{line.rstrip()}")
    first_wins = {name: share for name, (share, _) in judging.first_win_rate.items()}
    for title, shares in (
        ("disagreement", judging.disagreement),
        ("the response shown first wins", first_wins),
    ):
        if shares:
            cells = [f"{name} {share:.0%}" for name, share in shares.items()]
            print_line(f"  {title}: {', '.join(cells)}")
