"""Fuse score tables in files: read a table, fuse every group, and write the table with its rewards.

    uid,Facts,Style,tokens          {"uid": "q1", "scores": {"Facts": 1, "Style": 3}, "attributes": {"tokens": 312}}
    q1,1,3,312                      {"uid": "q1", "scores": {"Facts": 0, "Style": 5}, "attributes": {"tokens": 845}}
    q1,0,5,845

    >>> from rubrank import fuse_file
    >>> fuse_file("scores.csv", "rewards.csv", criteria=["Facts", "Style"])       # doctest: +SKIP

The steps of `fuse_file`:

    read_file_scores           read the table, check every cell, and check the options against its criteria
    FileScores.make_batches    divide its rows into batches, the input of a rule
    apply_rule                 fuse each batch, here or by the tasks of a Ray cluster
    write_table                write the table with the new columns; the output appears only when it is complete

A file that `ScoreTable.write` wrote contains its rubrics. Weights, margins, directions and gates are then those of each
group's rubric, unless the options override them, and the rewards equal those of `read_scores(path).fuse()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from rubrank._files import check_output_path
from rubrank.errors import BadTable, InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.options import (
    can_fuse_in_parts,
    check_changes,
    check_options_of_table,
    collect_criterion_changes,
    has_rlvr2,
    is_local,
    make_fuse_rule,
)
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules.group_math import find_informative
from rubrank.options import FuseOptions
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import make_plain_score_table, open_score_file
from rubrank.scores.table import ScoreTable
from rubrank.tables.columns import Columns
from rubrank.tables.layout import Layout, find_layout, make_labels
from rubrank.tables.output import OUTPUT_SUFFIXES, write_table
from rubrank.tables.table import MOST_CRITERION_COLUMNS, ScoreLimits, read_table
from rubrank.verifiers.domain import UNIT

Engine: TypeAlias = Literal["local", "ray"]
Progress: TypeAlias = Callable[[str, float], None]
"""Called with "reading" or "fusing" and the share that is done, from 0 to 1."""
RowBatch: TypeAlias = tuple[np.ndarray, ScoreBatch]
"""Row numbers of a table, and the batch of these rows, in the same order."""
PREVIEW = 10
"""How many groups a summary shows."""
_OWNER = "fuse_file"
_GATE_LAYERS = ("low_quality", "global_quality")


@dataclass(frozen=True, eq=False)
class Summary:
    """What a file contained, and its rewards in short."""

    path: Path
    criteria: tuple[str, ...]
    """The ranked criteria, without those of a gate."""
    left_out: tuple[str, ...]
    """Columns that were not used: texts, and numbers whose names show that they are not scores."""
    fused: Sequence[Fused]
    """The results, batch by batch."""
    graded: bool
    """Did weights, margins, directions and gates come from rubrics stored in the file?"""
    gates: tuple[str, ...]
    shape: str
    """The format in words, such as "long CSV"."""
    by: str
    """The columns that named the groups."""
    rollouts: int
    groups: int
    no_signal: int
    """Groups whose rewards are all equal."""

    @property
    def reward_sum(self) -> float:
        """The sum of all rewards."""
        return sum(float(fused.reward_M.sum()) for fused in self.fused)

    @cached_property
    def scored(self) -> np.ndarray:
        """For each criterion: rollouts with a score."""
        return self._count_per_criterion(lambda fused: ~fused.batch.missing_MK)

    @cached_property
    def deciding(self) -> np.ndarray:
        """For each criterion: groups in which it tells rollouts apart."""

        def find_deciding(fused: Fused) -> np.ndarray:
            if fused.fit is None:
                return fused.batch.informative_NK
            return find_informative(fused.fit.utilities_MK, fused.batch.starts)

        return self._count_per_criterion(find_deciding)

    @cached_property
    def first(self) -> list[FusedGroup]:
        """The first groups, at most `PREVIEW`, because a `FusedGroup` takes longer to make than the rewards."""
        groups = (fused.group(g) for fused in self.fused for g in range(len(fused)))
        return list(islice(groups, PREVIEW))

    def _count_per_criterion(self, find_marks: Callable[[Fused], np.ndarray]) -> np.ndarray:
        """Return for each criterion how many marks are True.

        find_marks: returns booleans (…, criteria of the batch) for one batch; batches may have different criteria.
        """
        column_of = {name: k for k, name in enumerate(self.criteria)}
        counts = np.zeros(len(self.criteria), np.int64)
        for fused in self.fused:
            columns = [column_of[name] for name in fused.criteria]
            counts[columns] += find_marks(fused).sum(axis=0)
        return counts


@only_our_errors
def fuse_file(
    path: Any,
    output: str | Path | IO[bytes] | None = None,
    options: FuseOptions | None = None,
    *,
    criteria: Sequence[str] | Literal["all"] | None = None,
    columns: Columns | None = None,
    any_order: bool = False,
    utilities: bool = False,
    prefix: str = "",
    force: bool = False,
    progress: Progress | None = None,
    engine: Engine = "local",
    address: str | None = None,
) -> Summary:
    """Fuse every group of a table, and write the table with its rewards; returns a summary.

    path: a file, folder or pattern, standard input ("-"), a frame or rows; docs/data.md has them all.
    output: a path, whose suffix says its format; an open binary file, which gets JSON Lines; or None.
    options: the rule and its settings. A file that `ScoreTable.write` wrote has its rubric; options override it.
    criteria: the columns that are criteria, or "all" columns of numbers. A table with a column `scores`, a long table
        and a score file name their criteria themselves; any other table needs this.
    columns: which columns hold what, if their names do not say it.
    any_order: the rows of a group need not be adjacent.
    utilities: also write the column "utility.<criterion>" for each criterion.
    prefix: put before the name of every column that is added.
    force: replace an output that exists; never the input.
    engine: "local", or "ray": groups are fused by the tasks of a Ray cluster.
    address: of the cluster; None: the one this process is connected to, or one on this machine.

    Raises BadTable, which names the row and the column, for a wrong cell, and InvalidInput for a wrong option.
    """
    if engine not in get_args(Engine):
        raise UnknownName.of(_OWNER, "engine", engine, get_args(Engine))
    if isinstance(output, str | Path):
        output = Path(output)
        check_output_path(output, OUTPUT_SUFFIXES, inputs=(path,), force=force, verb="fuse")
    scores = read_file_scores(path, options, criteria, columns, any_order)
    if progress:
        progress("reading", 1.0)
    if utilities and not has_rlvr2(scores.rule):
        got = repr(scores.rule.name)
        remedy = "Only RLVR² has utilities."
        raise InvalidInput(_OWNER, "utilities", "asked of 'rlvr2'", got, remedy)
    layout = scores.layout
    table = layout.table
    is_gated = bool(scores.gates) and scores.rule.name.endswith("+")
    if output is not None:
        added_names = ["reward", "ranking", "no_signal"] if is_gated else ["reward", "no_signal"]
        if utilities:
            added_names += [f"utility.{name}" for name in scores.ranked_names]
        for name in added_names:
            if prefix + name in table.frame.columns:
                got = f"{prefix + name!r} again"
                remedy = "Give the new columns other names: `prefix=new_`."
                raise InvalidInput(_OWNER, "added columns", "new to the table", got, remedy)
    if engine == "ray":
        # Imported here: it loads rubrics and grading, which a table of scores does not need.
        from rubrank.fusion.cluster import check_can_split, fuse_on_ray
        from rubrank.grading.cluster import connect_ray

        has_batches = scores.batch_column is not None
        check_can_split(scores.rule, has_batches=has_batches)
        with connect_ray(address, "fuse") as ray:
            results = list(fuse_on_ray(ray, scores.rule, scores.make_batches(), has_batches))
    else:
        results = [(rows, apply_rule(scores.rule, batch)) for rows, batch in scores.make_batches()]
    if all(fused.batch.missing_MK.all() for _, fused in results):
        raise BadTable(
            str(table.path),
            "the scores",
            "there for at least one rollout",
            "none: every score is missing",
            "Every reward would be the same: see why nothing was scored.",
        )
    if output is not None:
        added = []
        for rows, fused in results:
            new_columns = pl.DataFrame(_make_new_columns(fused, is_gated, utilities))
            added.append((rows, new_columns.select(pl.all().name.prefix(prefix))))
        write_table(output, table, added)
    if progress:
        progress("fusing", 1.0)
    return Summary(
        table.path,
        scores.ranked_names,
        layout.left_out,
        fused=[fused for _, fused in results],
        graded=scores.has_rubrics,
        gates=scores.gates,
        shape=table.shape,
        by="/".join(layout.group_columns),
        rollouts=len(layout.order),
        groups=len(layout.group_labels),
        no_signal=sum(int(fused.no_signal.sum()) for _, fused in results),
    )


def _make_new_columns(fused: Fused, is_gated: bool, utilities: bool) -> dict[str, Any]:
    """Return the columns that the output has in addition to those of the input: name → a value per row of the batch."""
    batch = fused.batch
    columns: dict[str, Any] = {"reward": fused.reward_M}
    if is_gated:
        columns["ranking"] = fused.ranking_M
    columns["no_signal"] = fused.no_signal[batch.group_of_row]
    if utilities and fused.fit is not None:
        for k, name in enumerate(fused.criteria):
            values = np.where(batch.missing_MK[:, k], np.nan, fused.fit.utilities_MK[:, k])
            columns[f"utility.{name}"] = pl.Series(values, nan_to_null=True)
    return columns


@only_our_errors
def explain_file(
    path: Any,
    group: str,
    options: FuseOptions | None = None,
    *,
    criteria: Sequence[str] | Literal["all"] | None = None,
    columns: Columns | None = None,
    any_order: bool = False,
    progress: Progress | None = None,
) -> FusedGroup:
    """Return everything about one group of a table: scores, utilities, rewards and the reasons for them.

    group: its label as text. The other parameters are those of `fuse_file`.
    Raises UnknownName if the table has no such group.
    """
    scores = read_file_scores(path, options, criteria, columns, any_order)
    if progress:
        progress("reading", 1.0)
    labels = [str(label) for label in scores.layout.group_labels]
    if group not in labels:
        near = get_close_matches(group, labels, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else "Copy a label from the table."
        examples = ", ".join(map(repr, labels[:3]))
        allowed = f"one of its {len(labels):,} groups, such as {examples}"
        raise UnknownName(str(path), "group", allowed, repr(group), remedy)
    # Its own rows are enough, unless its rewards depend on other groups, or the rule on their criteria.
    number = labels.index(group) if can_fuse_in_parts(scores.rule) else None
    for _, batch in scores.make_batches(number):
        for label in batch.labels:
            if str(label) == group:
                fused_group = apply_rule(scores.rule, batch)[label]
                return replace(fused_group, watched=scores.find_watched_scores(group))
    raise AssertionError(f"no batch holds the group {group!r}")


# ------------------------------------------------------------------------------------------------------------- batches


def read_file_scores(
    source: Any,
    options: FuseOptions | None,
    criteria: Sequence[str] | Literal["all"] | None,
    columns: Columns | None,
    any_order: bool,
) -> FileScores:
    """Read a table, check its cells, and check the options against its criteria. Parameters as for `fuse_file`.

    Raises BadTable for a wrong cell, and InvalidInput for an option that does not fit the table.
    """
    options = options or FuseOptions()
    columns = columns or Columns()
    if criteria is not None:
        columns = replace(columns, criteria=criteria)
    if columns.attributes:
        options = options.with_attributes(columns.attributes)
    changes = collect_criterion_changes(options)
    # A column is a criterion if an option treats it as one, such as `weight`.
    columns = replace(
        columns, attributes=options.attribute_names, declared=(*columns.declared, *changes)
    )
    rule = make_fuse_rule(options)
    score_file = open_score_file(source)
    score_table: ScoreTable | None
    if score_file is None:
        layout = find_layout(
            read_table(source, columns),
            columns,
            limits=_find_limits(options),
            any_order=any_order,
            whole_batches=not is_local(rule),
        )
        criteria_of = _make_criteria(layout.names, options, changes)
        score_table = None
        if layout.scores_MK is None:
            required = [name for name, c in criteria_of.items() if c.layer in _GATE_LAYERS]
            score_table = make_plain_score_table(layout, criteria_of, required)
    else:
        if not len(score_file.table.frame) or not score_file.rubrics:
            raise BadTable(str(source), "the table", "at least one row", "none", "")
        layout = score_file.find_layout(columns, any_order=any_order)
        score_table = score_file.make_score_table(layout)
        if columns.named_criteria is not None:
            score_table = score_table.select_criteria(columns.named_criteria)
        check_changes(_OWNER, changes, score_table.criteria)
        score_table = score_table.change_criteria(changes)
        criteria_of = {criterion.name: criterion for criterion in score_table.collect_criteria()}
    for name, margin in options.margin.items():
        _check_margin(layout, name, margin, options.domain.get(name))
    gate_names = [name for name, c in criteria_of.items() if c.layer in _GATE_LAYERS]
    check_options_of_table(options, criteria_of, has_gates=bool(gate_names))
    ranked_layers = {"quality"}
    if options.penalties == "rank" and not rule.name.endswith("+"):
        ranked_layers.add("low_quality")
    ranked_names = [name for name, c in criteria_of.items() if c.layer in ranked_layers]
    return FileScores(
        layout,
        options,
        rule,
        criteria_of,
        gates=tuple(gate_names),
        ranked_names=tuple(ranked_names),
        batch_column=columns.batch,
        score_table=score_table,
        has_rubrics=score_file is not None,
    )


def _find_limits(options: FuseOptions) -> dict[str, ScoreLimits]:
    """Return the ranges that scores of a plain table must lie in, by criterion: its `domain`, or [0, 1] for a gate."""
    limits = {}
    for name in (*options.low_quality, *options.global_quality):
        remedy = f"Scale it, or give its scale: `domain.{name}=LOW:HIGH`."
        limits[name] = ScoreLimits(0.0, 1.0, "in [0, 1], 1 = clean, for the gate", remedy)
    for name, (low, high) in options.domain.items():
        allowed = f"in [{low:g}, {high:g}], the scale that `domain` gives"
        limits[name] = ScoreLimits(low, high, allowed, "Repair the cell or the scale.")
    return limits


def _make_criteria(
    names: Sequence[str], options: FuseOptions, changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, CriterionData]:
    """Return the criteria of a plain table, which its options describe; changes: from `collect_criterion_changes`.

    Raises InvalidInput for options that contradict each other, and UnknownName for a criterion that is not in `names`.
    """
    check_changes(_OWNER, changes, names)
    gates = {*options.global_quality, *options.low_quality}
    if gates == set(names):
        remedy = "Keep one to rank by."
        raise InvalidInput(_OWNER, "the gate", "on some of the criteria", "all of them", remedy)
    # A gate reads 1 as clean. Reversing the scores, or ignoring the direction, would surprise the user either way.
    for name in options.lower:
        if name in gates:
            allowed = "of criteria other than those that the gate reads (1 = clean)"
            remedy = "Reverse its scores: 1 − s."
            raise InvalidInput(_OWNER, "lower", allowed, repr(name), remedy)
    return {
        name: CriterionData(name, **{"domain": UNIT, **changes.get(name, {})}) for name in names
    }


def _check_margin(
    layout: Layout, name: str, margin: float, domain: tuple[float, float] | None
) -> None:
    """Raise InvalidInput for a margin that makes all scores of a criterion ties: it is as wide as its scale.

    domain: the lowest and highest score that an option gives; None without that option.
    """
    if layout.scores_MK is None or name not in layout.names:
        return
    column = layout.scores_MK[:, layout.names.index(name)]
    if np.isnan(column).all():
        return
    # Without a scale it is from 0 to 1, or wider if there are scores outside.
    scale = (min(0.0, float(np.nanmin(column))), max(1.0, float(np.nanmax(column))))
    low, high = domain or scale
    if low < high <= low + margin:
        allowed = f"less than {high - low:g}, the width of its scale: else all scores are ties"
        got = f"{margin:g} for {name!r}"
        raise InvalidInput(_OWNER, "margin", allowed, got, "", field=f"margin.{name}")


@dataclass(frozen=True, eq=False)
class FileScores:
    """The scores of a file, and the rule that fuses them.

    `make_batches` yields the input of the rule. A plain table with one column per criterion is one batch, or one per
    value of the batch column. Groups that have their own criteria (a score file, or a table with too many criteria for
    columns) are a `ScoreTable`, which becomes one batch, or one per rubric if there are too many criteria.
    """

    layout: Layout
    options: FuseOptions
    rule: Rule
    criteria: Mapping[str, CriterionData]
    """All criteria by name, with the changes that the options make."""
    gates: tuple[str, ...]
    """The gate criteria."""
    ranked_names: tuple[str, ...]
    """The ranked criteria. Penalties (low quality) are among them if the rule has no gate ("+")."""
    batch_column: str | None
    score_table: ScoreTable | None
    """The groups with their own criteria, in the order of the layout; None if all groups have the same criteria."""
    has_rubrics: bool
    """Does the file contain its rubrics?"""

    def find_watched_scores(self, group: str) -> dict[str, np.ndarray]:
        """Return the scores of a group's rollouts on each criterion that is only watched, by its name."""
        if self.score_table is None or not self.has_rubrics:
            return {}
        group_scores = self.score_table[group]
        watched = {}
        for k, criterion in enumerate(group_scores.criteria):
            if criterion.layer == "watch":
                watched[criterion.name] = group_scores.scores[:, k]
        return watched

    def make_batches(self, group: int | None = None) -> Iterator[RowBatch]:
        """Yield row numbers and the batch of these rows; together the batches cover all rows.

        group: the number of a group, which is then the only one, without the criteria of other groups.
        """
        layout = self.layout
        is_one_group = group is not None
        batches = [np.arange(len(layout.group_labels))]  # the numbers of the groups in each batch
        if group is not None:
            batches = [np.array([group])]
        elif self.batch_column is not None and not is_local(self.rule):
            # The rule learns from the other groups of a batch, so the batches that the table names are kept apart.
            batch_of_row = make_labels(layout.table, [self.batch_column])
            first_rows = layout.order[layout.starts[:-1]]
            batches = _find_positions(batch_of_row.gather(first_rows).to_list())
        for groups in batches:
            if self.score_table is not None:
                yield from self._make_rubric_batches(groups, by_rubric=is_one_group)
            else:
                yield self._make_plain_batch(groups, scored_only=is_one_group)

    def _make_plain_batch(self, groups: np.ndarray, scored_only: bool) -> RowBatch:
        """Return one batch of some groups of a table whose groups all have the same criteria.

        scored_only: leave out the ranked criteria on which these groups have no score.
        """
        layout = self.layout
        rows = layout.order
        starts = layout.starts
        labels = layout.group_labels
        if len(groups) < len(labels):
            rows = np.concatenate([layout.group_rows[g] for g in groups])
            starts = np.concatenate([[0], np.diff(starts)[groups].cumsum()])
            labels = tuple(labels[g] for g in groups)
        gate_names = (*self.options.global_quality, *self.options.low_quality)
        ranked_names = list(self.ranked_names)
        if scored_only:
            # Gates stay, as every group has them. If there are scores on gates alone, all criteria stay, because a
            # batch needs one to rank by.
            scored_names = layout.find_scored_names(rows)
            if not set(scored_names) <= set(self.gates):
                ranked_names = [n for n in ranked_names if n in scored_names or n in self.gates]
        ranked = [self.criteria[name] for name in ranked_names]
        attributes_MD = layout.attributes_MD
        batch = ScoreBatch(
            scores_MK=layout.select_scores(rows, ranked_names),
            starts=starts,
            criteria=tuple(ranked),
            weights_NK=np.array([[c.weight for c in ranked]], dtype=float),
            margins_NK=np.array([[c.margin for c in ranked]], dtype=float),
            given_labels=labels,
            gates_MC=layout.select_scores(rows, gate_names) if gate_names else None,
            gate_criteria=tuple(self.criteria[name] for name in gate_names),
            attributes_MD=None if attributes_MD is None else attributes_MD[rows],
            attribute_names=() if attributes_MD is None else self.options.attribute_names,
            has_declared_domains=False,
        )
        return rows, batch

    def _make_rubric_batches(self, groups: np.ndarray, by_rubric: bool) -> Iterator[RowBatch]:
        """Yield batches of some groups of the score table: one for all, or one per rubric if `by_rubric`.

        With very many criteria there is one batch per rubric in any case: one matrix would be mostly empty.
        """
        table = self.score_table
        assert table is not None
        if len(table.criteria) > MOST_CRITERION_COLUMNS and can_fuse_in_parts(self.rule):
            by_rubric = True
        keys = [table.groups[g].criteria if by_rubric else None for g in groups]
        for positions in _find_positions(keys):
            batch_groups = groups[positions]
            batch_table = ScoreTable(tuple(table.groups[g] for g in batch_groups))
            rows = np.concatenate([self.layout.group_rows[g] for g in batch_groups])
            names = set(batch_table.criteria if by_rubric else table.criteria)
            # A batch needs a ranked criterion, even one without any score.
            if names.isdisjoint(self.ranked_names):
                names |= set(self.ranked_names[:1])
            attributes_MD = self.layout.attributes_MD
            batch = batch_table.batch(
                attributes=None if attributes_MD is None else attributes_MD[rows],
                attribute_names=self.options.attribute_names,
                # In the order of the whole file: sums then do not depend on which groups share the batch.
                columns=[criterion for name, criterion in self.criteria.items() if name in names],
                penalties=self.options.penalties,
            )
            # Options alone do not say that the scores lie in [0, 1].
            yield rows, replace(batch, has_declared_domains=self.has_rubrics)


def _find_positions(keys: Sequence[Hashable]) -> list[np.ndarray]:
    """Return the positions of each distinct key, in the order in which the keys first appear."""
    positions: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        positions.setdefault(key, []).append(i)
    return [np.array(indices) for indices in positions.values()]
