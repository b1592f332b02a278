"""The verbs that turn a table of scores into rewards, and what they print.

rubrank fuse FILE                   one reward for each rollout      show_summary, or describe_summary with an output
rubrank explain FILE --group ID     the reasons for those of a group show_group, or describe_group with --json
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import FUSION_FLAGS, Engine, TableOptions, check_address
from rubrank.cli.terminal import print_json, print_line, print_table, say, show_findings
from rubrank.errors import InvalidInput, counted
from rubrank.options import FuseOptions, Options, option

if TYPE_CHECKING:
    from rubrank.fusion.files import Summary
    from rubrank.fusion.group import FusedGroup

_MOST_CRITERIA = 30  # named in a line or shown in a table
_BY_RUBRIC = "using the weights and gates stored in the file"
"""Printed if a score file contains its weights, margins, directions and layers."""
_File = Annotated[
    str,
    typer.Argument(
        help="Scores: a file, folder or glob, or - for standard input (rubrank help data).",
        show_default=False,
    ),
]


class OutputOptions(Options):
    """Rarely used settings of `rubrank fuse`."""

    prefix: str = option("", "Prefix of the names of the added columns.")
    address: str | None = option(None, "Address of a Ray cluster; by default one on this machine.")


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, fuse, flags=FUSION_FLAGS)
    add_verb(app, explain, flags=FUSION_FLAGS)


def fuse(
    file: _File,
    options: FuseOptions,
    where: TableOptions,
    output_options: OutputOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; its suffix sets the format.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines to standard output.")
    ] = False,
    utilities: Annotated[
        bool, typer.Option("--utilities", help="Add a column utility.NAME for each criterion.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    engine: Engine = "local",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar, no summary line.")
    ] = False,
) -> None:
    """Compute one reward per rollout: adds the columns reward and no_signal, and ranking if there is a gate.

    Without -o or --json, the rewards of the first groups and a summary are printed. The rows of a group must be
    adjacent. An output file appears only when it is complete. A file that `rubrank grade` wrote contains the weights,
    margins, directions and gates of its rubric; options override them.
    """
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar
    from rubrank.records.findings import find_findings

    if json and output is not None:
        raise InvalidInput("fuse", "output", allowed="-o FILE or --json", got="both")
    check_address(engine, output_options.address, "fuse")
    with Bar("reading", quiet) as bar:
        summary = files.fuse_file(
            file,
            sys.stdout.buffer if json else output,
            options,
            columns=where.make_columns(batch=where.batch_column),
            any_order=where.any_order,
            utilities=utilities,
            prefix=output_options.prefix,
            force=force,
            engine=engine,
            address=output_options.address,
            progress=lambda doing, share: bar(share, 1.0, doing),
        )
    if output is None and not json:
        show_summary(summary)
    elif not quiet:
        for line in describe_summary(summary, "" if json else f" → {output}"):
            say(line)
    if not quiet:
        show_findings(find_findings(summary.fused))


def explain(
    file: _File,
    options: FuseOptions,
    where: TableOptions,
    group: Annotated[str, typer.Option("--group", help="Id of the group.", show_default=False)],
    rollout: Annotated[
        int | None,
        typer.Option(
            "--rollout",
            help="Number of one rollout, counting from 0; default: all.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain the rewards of a group: scores, utilities, weights, and the reasons in words."""
    from rubrank.fusion import files
    from rubrank.grading.progress import Bar
    from rubrank.scores.files import has_rubric

    with Bar("reading") as bar:
        explained = files.explain_file(
            file,
            group,
            options,
            columns=where.make_columns(batch=where.batch_column),
            any_order=where.any_order,
            progress=lambda doing, share: bar(share, 1.0, doing),
        )
    if has_rubric(file):
        typer.echo(_BY_RUBRIC, err=True)
    if rollout is not None and not 0 <= rollout < len(explained.reward):
        raise InvalidInput(
            "explain",
            "rollout",
            allowed=f"a number from 0 to {len(explained.reward) - 1}",
            got=str(rollout),
        )
    if json:
        print_json(describe_group(explained, rollout))
    else:
        show_group(explained, rollout)


# -------------------------------------------------------------------------------------------------------------- tables


def describe_summary(summary: Summary, result: str, name_criteria: bool = True) -> list[str]:
    """Return lines about a file that was fused: how it was read, its size, and the criteria used.

    result: what the line about its size ends with, such as " → rewards.jsonl"; without one there is no such line.
    """
    size = f"{counted(summary.rollouts, 'rollout')} in {counted(summary.groups, 'group')}"
    lines = []
    if summary.shape not in ("CSV", "TSV", "JSON Lines", "Parquet"):  # not obvious from the suffix
        lines.append(f"read {size} ({summary.shape}, by {summary.by}).")
    if result:
        lines.append(f"{size}, {summary.no_signal:,} without signal{result}")
    if summary.graded:
        gates = f"; gated by {', '.join(summary.gates)}" if summary.gates else ""
        return [*lines, _BY_RUBRIC + gates]
    named = [("not used", summary.left_out)]
    if name_criteria:
        named.insert(0, ("criteria", summary.criteria))
    for label, names in named:
        if names:
            more = ""
            if len(names) > _MOST_CRITERIA:
                more = f" and {len(names) - _MOST_CRITERIA:,} more"
            lines.append(f"{label}: {', '.join(names[:_MOST_CRITERIA])}{more}")
    return lines


def show_summary(summary: Summary) -> None:
    """Print the rewards of the first groups, then what each criterion did in the whole file."""
    title = "rewards"
    if len(summary.first) < summary.groups:
        title = f"rewards of the first {len(summary.first)} of {summary.groups:,} groups"
    reward_rows = []
    for group in summary.first:
        rewards = " ".join(f"{reward:.2f}" for reward in group.reward)
        reward_rows.append((str(group.label), "no signal" if group.no_signal else rewards))
    print_table(title, ("group", "rewards, rollout by rollout"), reward_rows, words=2)

    rows = []
    for k in sorted(range(len(summary.criteria)), key=lambda k: -summary.deciding[k]):
        scored = summary.scored[k] / summary.rollouts
        deciding = summary.deciding[k] / summary.groups
        rows.append((summary.criteria[k], scored, deciding))
    headings = ("criterion", "scored", "tells apart")
    print_table("criteria", headings, rows, form=".0%", most=_MOST_CRITERIA)

    result = f"; mean reward {summary.reward_sum / summary.rollouts:.3f}"
    for line in describe_summary(summary, result, name_criteria=False):  # the table names them
        print_line(line)


def show_group(group: FusedGroup, rollout: int | None) -> None:
    """Print a group's scores, utilities and explanations; with `rollout`, only its columns."""
    rollouts = list(range(len(group.reward))) if rollout is None else [rollout]
    # Criteria without any score in this group belong to other queries.
    criteria = [k for k in range(len(group.criteria)) if group.missing[k] < len(group.reward)]

    # 1. The scores, how many pairs of rollouts each criterion decides, and the attributes.
    rows: list[list[Any]] = []
    for k in criteria:
        outcomes = [o for i in range(len(group.reward)) for o in _list_outcomes(group, i, k)]
        compared_pairs = (
            len(outcomes) // 2
        )  # each pair is there twice: as 1 and 0, as 0.5 and 0.5, as 0.7 and 0.3
        decided_pairs = sum(outcome > 0.5 for outcome in outcomes)
        label = group.criteria[k] if group.higher_is_better[k] else f"{group.criteria[k]} ↓"
        rows.append([label, f"{decided_pairs}/{compared_pairs}", *group.scores[rollouts, k]])
    for d, name in enumerate(group.attribute_names):
        assert group.attributes is not None
        rows.append([name, "", *group.attributes[rollouts, d]])
    headings = ["criterion", "decided", *map(str, rollouts)]
    title = f"group {group.label}: scores by rollout"
    print_table(title, headings, rows, form=".4g", most=None)

    # 2. Utilities and rewards; rewards alone under a rule that has no utilities.
    rows = []
    title = "rewards by rollout"
    if group.values is not None and group.fused is not None and group.effective_weights is not None:
        title = "utilities by rollout"
        for k in criteria:
            values = [group.values[i, k] if _is_decided(group, i, k) else None for i in rollouts]
            share = f"{round(group.effective_weights[k], 2) + 0.0:.0%}"  # + 0.0: never -0%
            rows.append([group.criteria[k], f"{group.weights[k]:g}", share, *values])
        rows.append(["weighted sum", "", "", *group.fused[rollouts]])
    if group.gated is not None:
        rows.append(["ranking", "", "", *(f"{r:.2f}" for r in group.ranking[rollouts])])
    rows.append(["reward", "", "", *(f"{r:.2f}" for r in group.reward[rollouts])])
    headings = ["criterion", "weight", "share", *map(str, rollouts)]
    print_table(title, headings, rows, form="+.2f", most=None, total=1)

    if group.flags:
        print_line(f"note: {'; '.join(group.flags)}")
    for i in rollouts:
        print_line("")
        print_line(group.explain(i))


def _list_outcomes(group: FusedGroup, rollout: int, criterion: int) -> list[float]:
    """Return a rollout's outcomes against those that it was compared with: 1 it beats, 0.5 ties, 0 loses.

    An outcome is another fraction, such as 0.7, if several verdicts about the pair differ.
    """
    outcomes = group.outcomes[rollout, :, criterion].tolist()
    return [o for i, o in enumerate(outcomes) if i != rollout and not math.isnan(o)]


def _is_decided(group: FusedGroup, rollout: int, criterion: int) -> bool:
    """Return whether the rollout was scored on the criterion, or compared with another one."""
    is_scored = not math.isnan(group.scores[rollout, criterion])
    return is_scored or bool(_list_outcomes(group, rollout, criterion))


def describe_group(group: FusedGroup, rollout: int | None) -> dict[str, Any]:
    """Return what `show_group` shows as plain data."""
    criteria = []
    for k, name in enumerate(group.criteria):
        criterion: dict[str, Any] = {
            "name": name,
            "weight": group.weights[k],
            "margin": group.margins[k],
            "higher_is_better": group.higher_is_better[k],
            "effective_weight": None,
        }
        if group.effective_weights is not None:
            criterion["effective_weight"] = group.effective_weights[k]
        if group.gamma is not None and group.n is not None:
            for figure in ("gamma", "se", "shrunk", "taken"):
                values = getattr(group, figure)[k]
                criterion[figure] = dict(zip(group.attribute_names, values, strict=True))
            criterion["groups"] = group.n[k]
            criterion["pool"] = group.pool
        criteria.append(criterion)
    rollouts = range(len(group.reward)) if rollout is None else (rollout,)
    return {
        "group": group.label,
        "no_signal": group.no_signal,
        "flags": group.flags,
        "criteria": criteria,
        "rollouts": [_describe_rollout(group, i) for i in rollouts],
    }


def _describe_rollout(group: FusedGroup, i: int) -> dict[str, Any]:
    """Return scores, outcomes, utilities and reward of one rollout, and why it got that reward."""
    data: dict[str, Any] = {
        "rollout": i,
        "scores": {},
        "outcomes": {},
        "utilities": {},
        "values": {},
    }
    for k, name in enumerate(group.criteria):
        data["scores"][name] = group.scores[i, k]
        counts = Counter(beats=0, ties=0, loses=0)  # and "ahead" or "behind" for fractions
        for outcome in _list_outcomes(group, i, k):
            fraction = "ahead" if outcome > 0.5 else "behind"
            counts[{1.0: "beats", 0.5: "ties", 0.0: "loses"}.get(outcome, fraction)] += 1
        data["outcomes"][name] = dict(counts)
        for figure in ("utilities", "values"):
            numbers = getattr(group, figure)  # None under a rule without utilities
            is_known = numbers is not None and _is_decided(group, i, k)
            data[figure][name] = numbers[i, k] if is_known else None
    data["fused"] = None if group.fused is None else group.fused[i]
    data["ranking"] = group.ranking[i]
    data["reward"] = group.reward[i]
    data["explanation"] = group.explain(i)
    if group.attributes is not None:
        data["attributes"] = dict(zip(group.attribute_names, group.attributes[i], strict=True))
    if group.gated is not None:
        data["gate"] = {"passed": group.gated.passed[i], "factor": group.gated.factor[i]}
    return data
