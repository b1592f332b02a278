"""The verbs that compare rules on logged rollouts: replay, robustness, bench fusion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import (
    COLUMN_FLAGS,
    FUSION_FLAGS,
    AsJson,
    ColumnOptions,
    Source,
    split_names,
)
from rubrank.cli.terminal import (
    MOST_ROWS,
    draw_histogram,
    print_json,
    print_matrix,
    print_table,
    say,
)
from rubrank.errors import InvalidInput, UnknownName, counted
from rubrank.grading.progress import Bar
from rubrank.options import FuseOptions, Options, option

if TYPE_CHECKING:
    from rubrank.studies.replay import Replay
    from rubrank.studies.robustness import Filters, RobustnessRow

_RULES_TO_REPLAY = "rlvr2+,gdpo+,focal+,rule-fusion"  # by default
_MOST_ROBUSTNESS_ROWS = 180  # 20 criteria × 3 maps × 3 rules
_RULES_TO_TEST = "weighted-mean,z-score,rlvr2"  # of robustness, by default
# One rule of a,b,c: everything up to a comma that is not within brackets or quotes.
# "focal:gamma=2,mine:bounds=(0, 1)" → "focal:gamma=2" and "mine:bounds=(0, 1)"
_RULE_IN_LIST = re.compile(
    r"""(?:
        [^,(\["']        # any character but a comma and an opening bracket or quote
        | \([^)]*\)      # (0, 1)
        | \[[^\]]*\]     # [0, 1]
        | "[^"]*" | '[^']*'
    )+""",
    re.VERBOSE,
)
# These verbs compare several rules: they have --rules instead of --rule.
_FLAGS = tuple(name for name in FUSION_FLAGS if name != "rule")
_Rules = Annotated[
    str | None, typer.Option("--rules", help="Rules, as a,b,c; or `all`.", show_default=False)
]
_Transforms = Annotated[
    list[str] | None,
    typer.Option(
        "--transform",
        help="Map the scores of a criterion without changing their order, such as "
        '"IFBench*10", "A^2" or "A=0:0,0.2:1,1:100"; repeatable.',
    ),
]
_Step = Annotated[int, typer.Option("--step", help="Groups per training step.")]


class FilterOptions(Options):
    """Which groups and criteria of the logged rollouts are tested."""

    group_size: int | None = option(None, "Only groups of exactly this many rollouts.")
    unique: bool = option(False, "Only groups whose responses are all different.")
    unit_scores: bool = option(False, "In each group, only criteria with all scores from 0 to 1.")
    gates: bool = option(True, "Keep the criteria of gates.")
    exclude: tuple[str, ...] = option((), "Leave out this criterion or field; repeatable.", "NAME")

    def make_filters(self, paper: bool) -> Filters:
        """Return these options as `Filters`. paper: start from the paper's filters."""
        from rubrank.studies.robustness import PAPER, Filters

        base = PAPER if paper else Filters(None, self.unique, self.unit_scores, self.gates)
        size = base.group_size if self.group_size is None else self.group_size
        return replace(base, group_size=size, exclude=(*base.exclude, *self.exclude))


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, replay, flags=_FLAGS)
    add_verb(app, robustness, flags=_FLAGS)
    bench = typer.Typer(help="Measure speed.", no_args_is_help=True)
    add_verb(bench, bench_fusion, "fusion", flags=COLUMN_FLAGS)
    bench.callback()(lambda: None)  # typer drops the name of a single command without it
    app.add_typer(bench, name="bench")


def replay(
    scores: Source,
    options: FuseOptions,
    where: ColumnOptions,
    rules: _Rules = None,
    transform: _Transforms = None,
    rollouts: Annotated[
        str | None, typer.Option(help="The graded rollouts, to measure lengths and Markdown.")
    ] = None,
    step: _Step = 128,
    winners: Annotated[
        bool, typer.Option("--winners", help="Show the winner of each group.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare rules on the same logged rollouts: agreement, winners, effective weights, cost.

    Options apply to every rule that has them: weights, margins and gates to all, a prior only to RLVR².
    """
    from rubrank.studies.logged import read_logged
    from rubrank.studies.replay import replay as run

    chosen = _choose_rules(rules, options, _RULES_TO_REPLAY)
    logged = read_logged(scores, rollouts, where.make_columns(options), say)
    with Bar("rules", as_json) as tick:
        result = run(
            logged.table,
            chosen,
            options=options,
            transforms=transform or (),
            step=step,
            progress=tick,
            attributes=logged.attributes,
            attribute_names=logged.attribute_names,
        )
    if not as_json:
        show_replay(result, winners)
        return
    data = result.as_dict()
    if winners:
        # For each group and rule the winning rollout; None for a tie.
        data["winners"] = {}
        for g, group in enumerate(result.groups):
            winner_of_rule = {}
            for rule in result.rules:
                winner = int(rule.winner[g])
                winner_of_rule[rule.rule] = None if winner < 0 else winner
            data["winners"][group] = winner_of_rule
    print_json(data)


def robustness(
    scores: Source,
    options: FuseOptions,
    where: ColumnOptions,
    filters: FilterOptions,
    rules: _Rules = None,
    mapped: Annotated[
        str | None, typer.Option("--map", help="Only map these criteria, as a,b,c.")
    ] = None,
    transform: _Transforms = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Use the paper's filters: group_size=8, unique=true, unit_scores=true, gates=false.",
        ),
    ] = False,
    rollouts: Annotated[
        str | None, typer.Option(help="The graded rollouts, to find identical responses.")
    ] = None,
    step: _Step = 128,
    as_json: AsJson = False,
) -> None:
    """Show which rules change their rewards if the scale of a criterion changes.

    Options apply to every rule that has them: weights, margins and gates to all, a prior only to RLVR².
    """
    from rubrank.studies.logged import read_logged
    from rubrank.studies.replay import parse_transform
    from rubrank.studies.robustness import apply_filters, summarise_rows
    from rubrank.studies.robustness import robustness as run

    if mapped is not None and transform:
        raise InvalidInput(
            "robustness",
            "mapped",
            allowed="given without `transform`",
            got=mapped,
            remedy="A transform names its criterion itself.",
        )
    criteria = None if mapped is None else split_names(mapped)
    if criteria == []:  # "," would mean all criteria
        raise InvalidInput("robustness", "mapped", allowed="names such as a,b,c", got=repr(mapped))
    chosen = _choose_rules(rules, options, _RULES_TO_TEST)
    transforms = [parse_transform(text) for text in transform or ()]
    selected = filters.make_filters(paper)
    logged = read_logged(scores, rollouts, where.make_columns(options), say)
    for name in filters.exclude:  # these were typed; names that --paper excludes need not exist
        if name not in logged.table.criteria:
            raise UnknownName.of("robustness", "exclude", name, logged.table.criteria)
    tested = apply_filters(logged.table, selected, logged.texts)
    with Bar("maps", as_json) as tick:
        rows = run(
            tested.table,
            rules=chosen,
            options=options,
            criteria=criteria,
            transforms=transforms,
            step=step,
            progress=tick,
            attributes=None if logged.attributes is None else logged.attributes[tested.rows],
            attribute_names=logged.attribute_names,
        )
    means = summarise_rows(rows)
    if as_json:
        data: dict[str, Any] = {
            "rows": [row.as_dict() for row in rows],
            "means": [row.as_dict() for row in means],
        }
        if selected.any:
            data["left_out"] = dict(tested.left_out)
        print_json(data)
        return
    headings = ("criterion", "map", "rule", "groups", "same sign %", "Spearman")
    title = "Before and after one criterion is mapped"
    form = ("d", ".2f", ".4f")
    most = _MOST_ROBUSTNESS_ROWS
    print_table(title, headings, _make_robustness_cells(rows), words=3, form=form, most=most)
    if means and not transforms:
        title = "Means over the groups of all criteria"
        print_table(title, headings, _make_robustness_cells(means), words=3, form=form)
    if selected.any:
        print(f"{len(tested.table.groups):,} of {len(logged.table.groups):,} groups kept")
        for reason, times in sorted(tested.left_out, key=lambda item: -item[1]):
            print(f"  left out {times:,} ×: {reason}")


def bench_fusion(
    where: ColumnOptions,
    scores: Annotated[
        str | None, typer.Argument(help="Scores or records; by default 128 synthetic groups of 8.")
    ] = None,
    rules: Annotated[str, typer.Option(help="Rules, as a,b,c; or `all`.")] = "all",
    rounds: Annotated[int, typer.Option(help="Rounds per rule; the fastest counts.")] = 50,
    step: _Step = 128,
    as_json: AsJson = False,
) -> None:
    """Time every rule on one training step of identical rollouts, and RLVR² with 0, 1 and 11 attributes."""
    from rubrank.studies.logged import read_logged
    from rubrank.studies.overhead import overhead, synthetic_step
    from rubrank.studies.replay import split_steps

    chosen = split_rules(rules)
    if scores is None:
        table = synthetic_step()
    else:
        table = read_logged(scores, None, where.make_columns(), say).table
    if step < 1 or not len(table):
        raise InvalidInput(
            "bench fusion",
            "step",
            allowed="at least 1, in a file that has groups",
            got=f"{step} of {len(table)} rollouts",
            remedy="Try 128.",
        )
    batch = next(split_steps(table.batch(), step))
    with Bar("rounds", as_json) as tick:
        rows = overhead(batch, rules=chosen, rounds=rounds, progress=tick)
    if not as_json:
        sizes = sorted(set(batch.sizes.tolist()))
        each = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        title = f"Fusion of one step: {batch.N} groups of {each}, {batch.K} criteria"
        cells = [(row.case, row.seconds * 1e6, row.ratio) for row in rows]
        print_table(title, ("rule", "µs", "× weighted mean"), cells, form=(",.1f", ",.2f"))
        return
    size = {"groups": batch.N, "rollouts": len(batch.scores_MK), "criteria": batch.K}
    print_json(size | {"rows": [row.as_dict() for row in rows]})


# -------------------------------------------------------------------------------------------------------------- tables


def show_replay(result: Replay, winners: bool) -> None:
    """Print all tables of a replay."""
    import numpy as np

    names = result.names
    numbered = [f"{i + 1} {name}" for i, name in enumerate(names)]
    rows = []
    for i, rule in enumerate(result.rules):
        lowest, _, median, _, highest = rule.quantiles
        flat = str(int(rule.no_signal.sum()))
        shape = draw_histogram(rule.reward.tolist())
        time = f"{rule.seconds * 1e6:,.0f}"
        rows.append([str(i + 1), rule.rule, shape, lowest, median, highest, flat, time])
    rollouts = counted(len(result.rules[0].reward), "rollout")
    size = f"{counted(len(result.groups), 'group')}, {rollouts}"
    headings = ["", "rule", "rewards", "lowest", "median", "highest", "no signal", "µs per step"]
    print_table(f"{size}, {counted(result.step, 'group')} per step", headings, rows, words=3)

    print_matrix("Agreement: Kendall's τ within groups", numbered, names, result.kendall)
    print_matrix("Same side of the group's mean", numbered, names, result.signs)
    print_matrix("Groups with the same winner", numbered, names, result.same_winner)

    # Of many criteria, those with the largest weights are shown.
    order = np.arange(len(result.criteria))
    if len(order) > MOST_ROWS:
        order = np.argsort(-result.nominal, kind="stable")
    criteria = [result.criteria[k] for k in order]
    title = "Effective weights: share of the variance of the reward"
    effective = np.stack([result.nominal, *(rule.effective for rule in result.rules)], axis=1)
    print_matrix(title, criteria, ["nominal", *names], effective[order], named=1)
    title = "Influence: 1 − Spearman with and without the criterion"
    influence = np.stack([rule.influence for rule in result.rules], axis=1)
    print_matrix(title, criteria, names, influence[order])
    if result.attributes:
        title = "Correlation of rewards with attributes: Spearman within groups"
        follows = np.stack([rule.follows for rule in result.rules], axis=1)
        print_matrix(title, result.attributes, names, follows, form="+.2f")
    if winners:
        winner = np.stack([rule.winner for rule in result.rules], axis=1)
        disputed = np.flatnonzero((winner != winner[:, :1]).any(axis=1)).tolist()
        if disputed:
            groups = [result.groups[g] for g in disputed]
            cells = [["–" if i < 0 else str(i) for i in winner[g]] for g in disputed]
            title = "Winners: the number of the rollout, – for a tie"
            print_matrix(title, groups, names, cells)
        same = len(result.groups) - len(disputed)
        print(f"{same} of {len(result.groups)} groups have the same winner under all rules")


def _make_robustness_cells(rows: Sequence[RobustnessRow]) -> list[list[Any]]:
    """Return the cells of the table; each criterion and each of its maps is named in its first row only."""
    cells: list[list[Any]] = []
    last = ("", "")
    for row in rows:
        criterion = "" if row.criterion == last[0] else row.criterion
        mapping = "" if (row.criterion, row.map) == last else row.map
        cells.append([criterion, mapping, row.rule, row.groups, 100.0 * row.signs, row.spearman])
        last = (row.criterion, row.map)
    return cells


# ------------------------------------------------------------------------------------------------------------- helpers


def _choose_rules(rules: str | None, options: FuseOptions, usual: str) -> list[str]:
    """Return the rules to compare: --rules, else the rule in the settings, else the usual ones."""
    if rules is None:
        rules = str(options.rule) if "rule" in options.model_fields_set else usual
    return split_rules(rules)


def split_rules(text: str, field: str = "rules") -> list[str]:
    """Split a,b,c into rules; commas within brackets or quotes belong to a constant.

    Raises for an unknown rule. field: the option that holds the text, for the error.
    """
    from rubrank.fusion.rules import find_rule, rule_names

    if text.strip() == "all":
        return list(rule_names())
    parts = _RULE_IN_LIST.findall(text)
    chosen = [part.strip() for part in parts if part.strip()]
    for rule in chosen:
        try:
            find_rule(rule)  # before anything is read
        except InvalidInput as error:
            error.field = field
            raise
    return chosen
