"""The verbs about rules on logged rollouts: replay, robustness, bench fusion. Each calls one function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from rubrank.cli.common import AsJson, GroupColumn, Long, Source, TableColumn, table_columns
from rubrank.cli.flags import FLAGS
from rubrank.cli.options import columns_with, given_options, where_and_fuse_options, with_options
from rubrank.cli.printing import errors_in_words, print_json, say
from rubrank.errors import InvalidInput, UnknownName
from rubrank.grading.progress import Bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubrank.fusion.options import FuseOptions
    from rubrank.studies.replay.filters import Filters
    from rubrank.studies.replay.replay import Replay

_RULES = "rlvr2+,gdpo+,focal+,rule-fusion"
_Transforms = Annotated[
    list[str] | None,
    typer.Option("--transform", help='An order-preserving map: "IFBench*10", "A^2", "A=0:0,0.2:1,1:100"; repeatable.'),
]
_Step = Annotated[int, typer.Option("--step", help="Groups that a rule sees at a time.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    kind = with_options(where_and_fuse_options)
    app.command(cls=kind)(replay)
    app.command(cls=kind)(robustness)
    bench = typer.Typer(help="Measure speed.", no_args_is_help=True)
    bench.command("fusion")(bench_fusion)
    bench.callback()(lambda: None)  # keeps "fusion" a word to type, though it is alone
    app.add_typer(bench, name="bench")


def replay(
    context: typer.Context,
    scores: Source,
    rules: Annotated[str, typer.Option(help="Rules, as a,b,c; or `all`.")] = _RULES,
    transform: _Transforms = None,
    rollouts: Annotated[
        str | None, typer.Option(help="The rollouts that were graded, to measure lengths and Markdown.")
    ] = None,
    step: _Step = 128,
    winners: Annotated[bool, typer.Option("--winners", help="Show who wins in each group.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the same logged rollouts under many rules: agreement, winners, effective weights, cost.

    Options hold for every rule that has them: weights, margins and gates for all, a prior for RLVR² alone.
    """
    with errors_in_words():
        from rubrank.cli.replay_tables import show_replay
        from rubrank.studies.replay.logged import read_logged
        from rubrank.studies.replay.replay import replay as run

        where, options = given_options(context, *where_and_fuse_options())
        chosen = _chosen(context, rules, options)
        logged = read_logged(scores, rollouts, columns_with(where, options), say)
        with Bar("rules", as_json) as tick:
            found = run(
                logged.table,
                chosen,
                options=options,
                transforms=transform or (),
                step=step,
                progress=tick,
                attributes=logged.attributes,
                attribute_names=logged.attribute_names,
            )
        if as_json:
            print_json(found.as_dict() | ({"winners": _winners(found)} if winners else {}))
        else:
            show_replay(found, winners)


def robustness(
    context: typer.Context,
    scores: Source,
    rules: Annotated[str, typer.Option(help="Rules, as a,b,c; or `all`.")] = "weighted-mean,z-score,rlvr2",
    criteria: Annotated[str | None, typer.Option(help="Only map these, as a,b,c.")] = None,
    transform: _Transforms = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's filters: all of the options below, with groups of 8.")
    ] = False,
    group_size: Annotated[int | None, typer.Option(help="Only groups of exactly this many rollouts.")] = None,
    unique: Annotated[bool, typer.Option("--unique", help="Only groups whose responses are all different.")] = False,
    unit_scores: Annotated[
        bool, typer.Option("--unit-scores", help="In each group, only criteria with all scores from 0 to 1.")
    ] = False,
    no_gates: Annotated[bool, typer.Option("--no-gates", help="Leave out the criteria of gates.")] = False,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out this criterion or field; repeatable.")] = None,
    rollouts: Annotated[str | None, typer.Option(help="The rollouts that were graded, for --unique.")] = None,
    step: _Step = 128,
    as_json: AsJson = False,
) -> None:
    """Show which rules change their rewards when a criterion's scores are put on another scale.

    Options hold for every rule that has them: weights, margins and gates for all, a prior for RLVR² alone.
    """
    with errors_in_words():
        from rubrank.cli.replay_tables import show_left_out, show_robustness
        from rubrank.studies.replay.filters import filtered
        from rubrank.studies.replay.logged import read_logged
        from rubrank.studies.replay.robustness import robustness as run
        from rubrank.studies.replay.robustness import summary
        from rubrank.studies.replay.transforms import parse_transform

        _refuse_both(criteria, transform)
        where, options = given_options(context, *where_and_fuse_options())
        chosen, maps = _chosen(context, rules, options), [parse_transform(text) for text in transform or ()]
        names = None if criteria is None else [name.strip() for name in criteria.split(",")]
        wanted = _filters(paper, group_size, unique, unit_scores, no_gates, exclude or [])
        logged = read_logged(scores, rollouts, columns_with(where, options), say)
        _refuse_unknown(exclude or (), logged.table.criteria)
        kept = filtered(logged.table, wanted, logged.texts)
        with Bar("maps", as_json) as tick:
            rows = run(
                kept.table,
                rules=chosen,
                options=options,
                criteria=names,
                transforms=maps,
                step=step,
                progress=tick,
                attributes=None if logged.attributes is None else logged.attributes[kept.rows],
                attribute_names=logged.attribute_names,
            )
        means = summary(rows)
        if as_json:
            found = {"rows": [row.as_dict() for row in rows], "means": [row.as_dict() for row in means]}
            print_json(found | ({"left_out": dict(kept.left_out)} if wanted.any else {}))
        else:
            show_robustness(rows, () if maps else means)
            if wanted.any:
                show_left_out(len(logged.table.groups), kept)


def bench_fusion(
    scores: Annotated[
        str | None, typer.Argument(help="Scores or records; by default 128 synthetic groups of 8.")
    ] = None,
    rules: Annotated[str, typer.Option(help="Rules, as a,b,c; or `all`.")] = "all",
    rounds: Annotated[int, typer.Option(help="Rounds per rule; the fastest counts.")] = 50,
    step: _Step = 128,
    group_column: GroupColumn = None,
    long: Long = False,
    column: TableColumn = None,
    as_json: AsJson = False,
) -> None:
    """Time every rule on one training step of identical rollouts, and RLVR² with 0, 1 and 11 attributes."""
    with errors_in_words():
        from rubrank.cli.replay_tables import show_overhead
        from rubrank.studies.replay.logged import read_logged
        from rubrank.studies.replay.overhead import overhead, synthetic_step
        from rubrank.studies.replay.replay import steps

        chosen = split_rules(rules)
        table = (
            synthetic_step()
            if scores is None
            else read_logged(scores, None, table_columns(group_column, long, column), say).table
        )
        _refuse_bad_step(step, len(table))
        batch = next(steps(table.batch(), step))
        with Bar("rounds", as_json) as tick:
            rows = overhead(batch, rules=chosen, rounds=rounds, progress=tick)
        if as_json:
            size = {"groups": batch.N, "rollouts": len(batch.scores_MK), "criteria": batch.K}
            print_json(size | {"rows": [row.as_dict() for row in rows]})
        else:
            show_overhead(rows, batch)


# ------------------------------------------------------------------------------------------------------------- helpers


def _chosen(context: typer.Context, rules: str, options: FuseOptions) -> list[str]:
    """The rules to compare: --rules, else the one that --rule or the config names, else the usual ones."""
    source = context.get_parameter_source("rules")
    given, typed = source is not None and source.name != "DEFAULT", context.meta[FLAGS]["--rule"]
    if given and typed is not None:
        raise InvalidInput("rubrank", "--rule", "given without --rules", repr(typed), "Name them all in --rules.")
    return split_rules(options.rule if not given and "rule" in options.model_fields_set else rules)


def split_rules(text: str) -> list[str]:
    """The rules of a,b,c; commas within brackets or quotes belong to a constant. Raises for an unknown one."""
    from rubrank.fusion.rules import find_rule, rule_names

    if text.strip() == "all":
        return list(rule_names())
    parts = re.findall(r"""(?:[^,(\["']|\([^)]*\)|\[[^\]]*\]|"[^"]*"|'[^']*')+""", text)
    chosen = [part.strip() for part in parts if part.strip()]
    for rule in chosen:
        find_rule(rule)  # before anything is read
    return chosen


def _winners(found: Replay) -> dict[str, dict[str, int | None]]:
    return {
        group: {rule.rule: None if rule.winner[g] < 0 else int(rule.winner[g]) for rule in found.rules}
        for g, group in enumerate(found.groups)
    }


def _filters(
    paper: bool, group_size: int | None, unique: bool, unit_scores: bool, no_gates: bool, exclude: list[str]
) -> Filters:
    from dataclasses import replace

    from rubrank.studies.replay.filters import PAPER, Filters

    base = PAPER if paper else Filters(None, unique, unit_scores, not no_gates)
    size = base.group_size if group_size is None else group_size
    return replace(base, group_size=size, exclude=(*base.exclude, *exclude))


def _refuse_unknown(exclude: Sequence[str], known: Sequence[str]) -> None:
    """What --paper leaves out by name need not be there; what was typed must be."""
    for name in exclude:
        if name not in known:
            raise UnknownName.of("robustness", "--exclude", name, known)


def _refuse_both(criteria: str | None, transforms: Sequence[str] | None) -> None:
    if criteria is not None and transforms:
        raise InvalidInput(
            "robustness", "--criteria", "given without --transform", criteria, "A transform names its criterion itself."
        )


def _refuse_bad_step(step: int, rollouts: int) -> None:
    if step < 1 or not rollouts:
        got = f"{step} of {rollouts} rollouts"
        raise InvalidInput("bench fusion", "--step", "at least 1 group of a file that has some", got, "Try 128.")
