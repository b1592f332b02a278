"""Fuse score tables in files: read a table, fuse every group, and write the table with its rewards.

    uid,Facts,Style,tokens          {"uid": "q1", "scores": {"Facts": 1, "Style": 3}, "attributes": {"tokens": 312}}
    q1,1,3,312                      {"uid": "q1", "scores": {"Facts": 0, "Style": 5}, "attributes": {"tokens": 845}}
    q1,0,5,845

    >>> from rubrank import fuse_file
    >>> fuse_file("scores.csv", "rewards.csv", criteria=["Facts", "Style"])       # doctest: +SKIP

All cells are checked before anything is fused, and the output appears only when it is complete. A file that
`ScoreTable.write` wrote contains its rubrics. Weights, margins, directions and gates are then those of each group's
rubric, unless the options override them, and the rewards equal those of `read_scores(path).fuse()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from rubrank.errors import BadTable, InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.options import (
    check_changes,
    check_criterion_names,
    collect_criterion_changes,
    drop_ignored_penalties,
    has_rlvr2,
    is_local,
    make_fuse_rule,
    make_table_criterion,
    refuse_gate_options,
)
from rubrank.fusion.result import Fused, FusedGroup
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.options import FuseOptions
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.files import open_score_file
from rubrank.scores.table import ScoreTable
from rubrank.tables.cells import ScoreLimits
from rubrank.tables.columns import Columns
from rubrank.tables.layout import Layout, find_layout, join_cells
from rubrank.tables.long import read_table
from rubrank.tables.output import check_added_names, check_output, output_format, write_table
from rubrank.tables.table import MOST_CRITERION_COLUMNS

Engine: TypeAlias = Literal["local", "ray"]
Progress: TypeAlias = Callable[[str, float], None]
"""Called with "reading" or "fusing" and the share that is done."""
FusedRows: TypeAlias = tuple[np.ndarray, Fused]
"""Row numbers of a table, and the result for these rows, in the same order."""
PREVIEW = 10
"""How many groups a summary shows."""
_OWNER = "fuse_file"


@dataclass
class Summary:
    """What a file contained, and its rewards in short."""

    path: Path
    criteria: tuple[str, ...]
    """The ranked criteria, without those of a gate."""
    left_out: tuple[str, ...]
    """Columns that were not used: texts, and numbers whose names show that they are not scores."""
    rollouts: int = 0
    groups: int = 0
    no_signal: int = 0
    """Groups whose rewards are all equal."""
    scored: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: rollouts with a score."""
    deciding: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: groups in which it tells rollouts apart."""
    graded: bool = False
    """Did weights, margins, directions and gates come from rubrics stored in the file?"""
    gates: tuple[str, ...] = ()
    reward_sum: float = 0.0
    first: list[FusedGroup] = field(default_factory=list)
    """The first groups, at most `PREVIEW`; none if an output was written."""
    shape: str = ""
    """The format in words, such as "long CSV"."""
    by: str = ""
    """The columns that named the groups."""
    fused: Sequence[Fused] = ()
    """The results, batch by batch."""


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
    """Fuse every group of a table; the output is the table with its rewards.

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
    """
    if engine not in get_args(Engine):
        raise UnknownName.of("fuse", "engine", engine, get_args(Engine))
    if isinstance(output, str | Path):
        output = check_output(path, Path(output), force, "fuse")
    scores = read_file_scores(
        path, options or FuseOptions(), _with_criteria(columns, criteria), any_order
    )
    if progress:
        progress("reading", 1.0)
    if utilities and not has_rlvr2(scores.rule):
        raise InvalidInput(
            _OWNER,
            "utilities",
            "asked of 'rlvr2'",
            repr(scores.rule.name),
            "Only RLVR² has utilities.",
        )
    if output is not None:
        output_kind = output_format(output) if isinstance(output, Path) else "jsonl"
        check_added_names(
            scores.layout.table, scores.added_names(utilities, prefix), output_kind, _OWNER
        )
    if engine == "ray":
        from rubrank.fusion.cluster import check_can_split, fuse_on_ray
        from rubrank.grading.cluster import connect_ray

        check_can_split(scores.rule, has_batches=scores.batch_column is not None)
        with connect_ray(address, "fuse") as ray:
            results = list(
                fuse_on_ray(ray, scores.rule, scores.batches(), scores.batch_column is not None)
            )
    else:
        results = [(rows, apply_rule(scores.rule, batch)) for rows, batch in scores.batches()]
    summary = _summarise(scores, results)
    summary.fused = [fused for _, fused in results]
    if output is None:
        # A `FusedGroup` takes longer to make than the rewards, so only the groups that are shown get one.
        groups = (fused[label] for _, fused in results for label in fused.labels)
        summary.first = list(islice(groups, PREVIEW))
    else:
        added = [(rows, scores.added_columns(fused, utilities, prefix)) for rows, fused in results]
        write_table(output, scores.layout.table, added)
    if progress:
        progress("fusing", 1.0)
    return summary


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
    """Everything about one group of a table; `group` is its label as text. Parameters as for `fuse_file`."""
    scores = read_file_scores(
        path, options or FuseOptions(), _with_criteria(columns, criteria), any_order
    )
    if progress:
        progress("reading", 1.0)
    labels = {str(label): label for label in scores.layout.rows_of_groups}
    if group not in labels:
        near = get_close_matches(group, labels, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else "Copy a label from the table."
        examples = ", ".join(map(repr, list(labels)[:3]))
        raise UnknownName(
            str(path),
            "group",
            f"one of its {len(labels):,} groups, such as {examples}",
            repr(group),
            remedy,
        )
    # A rule that looks at one group at a time does not need the others.
    batches = (
        scores.batches() if scores.needs_whole_batch else scores.batches_of_group(labels[group])
    )
    for _, batch in batches:
        for label in batch.labels:
            if str(label) == group:
                return replace(
                    apply_rule(scores.rule, batch)[label], watched=scores.watched_scores(group)
                )
    raise AssertionError(f"no batch holds the group {group!r}")


# ------------------------------------------------------------------------------------------------------------- batches


def _with_criteria(
    columns: Columns | None, criteria: Sequence[str] | Literal["all"] | None
) -> Columns:
    columns = columns or Columns()
    return columns if criteria is None else replace(columns, criteria=criteria)


def read_file_scores(
    source: Any, options: FuseOptions, columns: Columns, any_order: bool
) -> FileScores:
    """Read a table, check its cells, and check the options against its criteria."""
    if columns.attributes:
        options = options.with_attributes(columns.attributes)
    changes = collect_criterion_changes(options)
    # A column that an option speaks of as a criterion is one.
    columns = replace(
        columns, attributes=options.attribute_names, declared=(*columns.declared, *changes)
    )
    rule = make_fuse_rule(options)
    score_file = open_score_file(source)
    if score_file is None:
        table = read_table(source, columns)
        limits = {
            name: ScoreLimits.of_gate(name)
            for name in (*options.low_quality, *options.global_quality)
        }
        limits |= {
            name: ScoreLimits.of_domain(low, high) for name, (low, high) in options.domain.items()
        }
        layout = find_layout(
            table,
            columns,
            limits=limits,
            any_order=any_order,
            whole_batches=not is_local(rule),
        )
        scores = FileScores(layout, options, rule, columns.batch)
        check_changes(_OWNER, changes, layout.names)
    else:
        if not len(score_file.table.frame) or not score_file.rubrics:
            raise BadTable(str(source), "the table", "at least one row", "none", "")
        layout = score_file.layout(columns, any_order=any_order)
        score_table, row_order = score_file.score_table(layout)
        if columns.named_criteria is not None:
            score_table = score_table.only(columns.named_criteria)
        check_changes(_OWNER, changes, score_table.criteria)
        score_table = score_table.with_changes(changes)
        scores = FileScores(layout, options, rule, columns.batch, score_table, row_order)
    _check_margins(scores)
    check_criterion_names(options, scores.names)
    if not scores.gates:
        refuse_gate_options(options)
    return scores


def _check_margins(scores: FileScores) -> None:
    """Raise for a margin that makes all scores of a criterion ties: it is as wide as its scale."""
    layout = scores.layout
    for name, margin in scores.options.margin.items():
        if layout.scores_MK is None or name not in layout.names:
            continue
        column = layout.scores_MK[:, layout.names.index(name)]
        if np.isnan(column).all():
            continue
        # Without a scale it is from 0 to 1, or wider if there are scores outside.
        scale = (min(0.0, float(np.nanmin(column))), max(1.0, float(np.nanmax(column))))
        low, high = scores.options.domain.get(name, scale)
        if low < high <= low + margin:
            allowed = f"less than {high - low:g}, the width of its scale: else all scores are ties"
            raise InvalidInput(
                _OWNER, "margin", allowed, f"{margin:g} for {name!r}", "", field=f"margin.{name}"
            )


@dataclass(frozen=True, eq=False)
class FileScores:
    """The scores of a file, and the rule that fuses them."""

    layout: Layout
    options: FuseOptions
    rule: Rule
    batch_column: str | None = None
    score_table: ScoreTable | None = None
    """If the file contains its rubrics: its groups, with the changes that the options make to criteria."""
    row_order: np.ndarray | None = None
    """For each row of the score table, its row in the file."""

    @property
    def needs_whole_batch(self) -> bool:
        """Do the rewards of a group depend on other groups of its batch?"""
        return not is_local(self.rule)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All criteria."""
        return self.layout.names if self.score_table is None else self.score_table.criteria

    @cached_property
    def gates(self) -> tuple[str, ...]:
        """The gate criteria."""
        if self.score_table is None:
            return (*self.options.global_quality, *self.options.low_quality)
        gate_layers = ("low_quality", "global_quality")
        return tuple(c.name for c in self.score_table.specifications() if c.layer in gate_layers)

    @cached_property
    def ranked_names(self) -> tuple[str, ...]:
        """The ranked criteria: all but the gates. Penalties are ranked too if the rule has no gate ("+")."""
        gates = set(self.gates)
        if not self.rule.name.endswith("+") and self.options.penalties == "rank":
            if self.score_table is None:
                gates -= set(self.options.low_quality)
            else:
                gates -= {
                    c.name for c in self.score_table.specifications() if c.layer == "low_quality"
                }
        return tuple(
            name for name in self.names if name not in gates and name not in self.watched_names
        )

    @cached_property
    def watched_names(self) -> tuple[str, ...]:
        """The criteria that are only watched."""
        if self.score_table is None:
            return ()
        return tuple(c.name for c in self.score_table.specifications() if c.layer == "watch")

    def watched_scores(self, group: str) -> dict[str, np.ndarray]:
        """Criterion that is only watched → the scores of a group's rollouts."""
        if self.score_table is None:
            return {}
        scored = self.score_table[group]
        columns = {
            criterion.name: k
            for k, criterion in enumerate(scored.criteria)
            if criterion.layer == "watch"
        }
        return {name: scored.scores[:, k] for name, k in columns.items()}

    def batches(self) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """Row numbers and the batch of these rows; together the batches cover all rows."""
        if self.batch_column is not None and self.needs_whole_batch:
            labels = join_cells(self.layout.table.frame, (self.batch_column,)).to_list()
            parts = _rows_by_key(labels)
        else:
            parts = [np.arange(len(self.layout.labels))]
        for rows in parts:
            yield from self._batches_of(rows)

    def batches_of_group(self, label: Hashable) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """One group alone, without the criteria of other groups."""
        rows = self.layout.rows_of_groups[label]
        if self.score_table is None and self.layout.scores_MK is not None:
            is_scored = ~np.isnan(self.layout.scores_MK[rows]).all(axis=0)
            names = [
                name
                for name, scored in zip(self.names, is_scored, strict=True)
                if scored or name in self.gates
            ]
            if not set(names) <= set(self.gates):
                yield rows, self._plain_batch(rows, names)
                return
        yield from self._batches_of(rows, apart=True)

    def _batches_of(
        self, rows: np.ndarray, apart: bool = False
    ) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        if self.score_table is not None:
            yield from self._graded_batches(rows, apart)
        elif self.layout.scores_MK is not None:
            yield rows, self._plain_batch(rows, self.names)
        else:
            yield from self._ragged_batches(rows)

    def _plain_batch(self, rows: np.ndarray, names: Sequence[str]) -> ScoreBatch:
        """A batch of a table without rubrics: all about its criteria comes from the options."""
        options = self.options
        layout = self.layout
        is_all = len(rows) == len(layout.labels) and list(names) == list(layout.names)
        scores = (
            layout.scores_MK
            if is_all and layout.scores_MK is not None
            else layout.scores_of(rows, names)
        )
        labels = layout.labels if len(rows) == len(layout.labels) else layout.labels[rows]
        attributes = None if layout.attributes_MD is None else layout.attributes_MD[rows]
        batch = ScoreBatch.of_arrays(
            scores,
            groups=labels,
            criteria=[make_table_criterion(options, name) for name in names],
            weights={name: weight for name, weight in options.weight.items() if name in names}
            or None,
            margins={name: margin for name, margin in options.margin.items() if name in names}
            or None,
            directions={name: "lower" for name in options.lower if name in names} or None,
            global_quality=[name for name in options.global_quality if name in names],
            low_quality=[name for name in options.low_quality if name in names],
            attributes=attributes,
            attribute_names=options.attribute_names if attributes is not None else None,
            owner=_OWNER,
        )
        return drop_ignored_penalties(options, batch)

    def _ragged_batches(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """One batch for the groups with the same criteria: one matrix for all groups would be mostly empty."""
        ragged = self.layout.table.ragged_scores
        assert ragged is not None
        labels = self.layout.labels[rows].to_list()
        # A rule that learns from other groups needs the criteria of the whole batch in one matrix.
        keys = [None] * len(rows) if self.needs_whole_batch else labels
        names_of: dict[Hashable, set[str]] = {}
        for key, row in zip(keys, rows, strict=True):
            names_of.setdefault(key, set()).update(ragged[row])
        gates = sorted(self.gates)
        ranked = set(self.names) - set(gates)
        names_by_key = {key: tuple(sorted(names & ranked)) for key, names in names_of.items()}
        some_name = next(name for name in self.names if name in ranked)
        for positions in _rows_by_key([names_by_key[key] for key in keys]):
            # A group without any score gets equal rewards. A batch needs a criterion, and any will do.
            names = names_by_key[keys[positions[0]]] or (some_name,)
            yield rows[positions], self._plain_batch(rows[positions], [*names, *gates])

    def _graded_batches(
        self, rows: np.ndarray, apart: bool
    ) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
        """Batches of a file with rubrics: one for all groups, or one per rubric if the matrix would be mostly empty."""
        table = self.score_table
        row_order = self.row_order
        assert table is not None
        assert row_order is not None
        requested_rows = set(rows.tolist())
        starts = np.concatenate([[0], np.cumsum([len(group.scores) for group in table.groups])])
        members = [
            (group, row_order[start:end])
            for group, start, end in zip(table.groups, starts[:-1], starts[1:], strict=True)
            if int(row_order[start]) in requested_rows
        ]
        is_wide = len(table.criteria) > MOST_CRITERION_COLUMNS
        by_rubric = apart or (is_wide and not self.needs_whole_batch)
        for positions in _rows_by_key(
            [group.criteria if by_rubric else None for group, _ in members]
        ):
            groups = tuple(members[i][0] for i in positions)
            group_rows = np.concatenate([members[i][1] for i in positions])
            attributes = (
                None if self.layout.attributes_MD is None else self.layout.attributes_MD[group_rows]
            )
            names = (
                {c.name for group in groups for c in group.criteria}
                if by_rubric
                else set(table.criteria)
            )
            if names.isdisjoint(
                self.ranked_names
            ):  # a batch needs a ranked criterion, even one without any score
                names |= set(self.ranked_names[:1])
            # Columns in the order of the whole file: sums then do not depend on which groups share the batch.
            columns = [criterion for criterion in table.specifications() if criterion.name in names]
            batch = ScoreTable(groups).batch(
                attributes=attributes, attribute_names=self.options.attribute_names, columns=columns
            )
            yield group_rows, drop_ignored_penalties(self.options, batch)

    # ------------------------------------------------------------------------------------------------ added columns

    @property
    def _is_gated(self) -> bool:
        return bool(self.gates) and self.rule.name.endswith("+")

    def added_names(self, utilities: bool, prefix: str) -> list[str]:
        """The columns that the output has in addition to those of the input."""
        names = ["reward", "no_signal"]
        if self._is_gated:
            names.insert(1, "ranking")
        if utilities:
            names += [f"utility.{name}" for name in self.ranked_names]
        return [prefix + name for name in names]

    def added_columns(self, fused: Fused, utilities: bool, prefix: str) -> pl.DataFrame:
        """The columns that the output gets, one row per rollout."""
        batch = fused.batch
        values: dict[str, Any] = {"reward": fused.reward}
        if self._is_gated:
            values["ranking"] = fused.ranking
        values["no_signal"] = batch.per_rollout(fused.no_signal[batch.group_of_row])
        if utilities and fused.utilities is not None:
            missing = batch.per_rollout(batch.missing_MK)
            for k, name in enumerate(fused.criteria):
                column = np.where(missing[:, k], np.nan, fused.utilities[:, k])
                values[f"utility.{name}"] = pl.Series(column, nan_to_null=True)
        return pl.DataFrame({prefix + name: value for name, value in values.items()})


def _rows_by_key(keys: Sequence[Hashable]) -> list[np.ndarray]:
    """The positions of each distinct key, in the order in which the keys first appear."""
    positions: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        positions.setdefault(key, []).append(i)
    return [np.array(rows) for rows in positions.values()]


# ------------------------------------------------------------------------------------------------------------- summary


def _summarise(scores: FileScores, results: Sequence[FusedRows]) -> Summary:
    layout = scores.layout
    names = scores.ranked_names
    summary = Summary(
        layout.table.path,
        names,
        layout.left_out,
        scored=np.zeros(len(names), np.int64),
        deciding=np.zeros(len(names), np.int64),
        graded=scores.score_table is not None,
        gates=scores.gates,
        shape=layout.table.shape,
        by="/".join(layout.group_columns),
    )
    column_of = {name: k for k, name in enumerate(names)}
    for _, fused in results:
        batch = fused.batch
        columns = [column_of[name] for name in fused.criteria]
        summary.rollouts += len(batch.scores_MK)
        summary.groups += len(fused)
        summary.no_signal += int(fused.no_signal.sum())
        summary.reward_sum += float(fused.reward_M.sum())
        summary.scored[columns] += (~batch.missing_MK).sum(axis=0)
        summary.deciding[columns] += _find_deciding(fused).sum(axis=0)
    if not summary.scored.any():
        remedy = "Every reward would be the same: see why nothing was scored."
        got = "none: every score is missing"
        raise BadTable(
            str(summary.path), "the scores", "there for at least one rollout", got, remedy
        )
    return summary


def _find_deciding(fused: Fused) -> np.ndarray:
    """(groups, criteria): does the criterion tell rollouts of the group apart?"""
    if fused.fit is None:
        return fused.batch.informative_NK
    has_utility = fused.fit.utilities_MK != 0.0
    return np.asarray(np.logical_or.reduceat(has_utility, fused.batch.starts[:-1], axis=0))
