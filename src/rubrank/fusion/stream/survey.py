"""The first reading of a table: which columns it has, what is what, and everything that is wrong with a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rubrank.errors import BadTable, UnknownName
from rubrank.fusion.stream.facts import Facts, first_place
from rubrank.fusion.stream.names import (
    ATTRIBUTES,
    BOOKKEEPING,
    GROUP_NAMES,
    LINE,
    ROW,
    SCORES,
    WIDE,
    Columns,
    Leaf,
    Progress,
)
from rubrank.fusion.stream.readers import Csv, JsonLines, Reader
from rubrank.rollouts.columns import STEP_NAMES


class Runs:
    """The order of labels in a file; a label that comes back is an error."""

    def __init__(self) -> None:
        self._labels: list[pl.Series] = []
        self._rows: list[pl.Series] = []

    def add(self, labels: pl.Series, rows: pl.Series) -> None:
        """Note where a new label begins."""
        begins = (labels != labels.shift()).fill_null(True)
        if self._labels and self._labels[-1][-1] == labels[0]:
            begins[0] = False
        if begins.any():
            self._labels.append(labels.filter(begins))
            self._rows.append(rows.filter(begins))

    def different(self) -> int:
        """How many labels there are."""
        return int(pl.concat(self._labels).n_unique()) if self._labels else 0

    def longest(self, last: int) -> int:
        """Rows of the longest run, if the last of them all is row `last`."""
        begins = pl.concat([*self._rows, pl.Series([last + 1])])
        return int(begins.diff().max() or 0)  # type: ignore[arg-type]

    def check(self, reader: Reader, what: str) -> None:
        """Raise if a label has more than one run."""
        labels, rows = pl.concat(self._labels), pl.concat(self._rows)
        again = ~labels.is_first_distinct()
        if again.any():
            at = again.arg_max() or 0
            label, unit = labels[at], reader.unit
            first = rows[(labels == label).arg_max() or 0]
            raise BadTable(
                str(reader.path),
                f"the rows of {what} {label!r}",
                "next to each other",
                f"one that begins at {unit} {first} and comes back at {unit} {rows[at]}",
                "Sort the file, or pass --any-order (any_order=True), which reads it into memory.",
            )


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are what."""

    reader: Reader
    schema: dict[str, Any]
    """All columns of the file."""
    groups: tuple[str, ...]
    batch: str | None
    criteria: tuple[Leaf, ...]
    attributes: tuple[Leaf, ...]
    left_out: tuple[str, ...]
    integer_labels: bool
    different: int
    """How many names there are in `scores`, whether they are criteria or not."""
    wide: bool
    """Are the criteria too many for columns?"""
    largest: int = 0
    """Rollouts of the largest group, if its rows stand together."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the criteria."""
        return tuple(leaf[-1] for leaf in self.criteria)

    def labels(self, frame: pl.DataFrame) -> pl.Series:
        """The group of every row: a number if all labels are whole numbers, else a text."""
        if self.integer_labels:
            column = frame.get_column(self.groups[0])
            return column if column.dtype == pl.UInt64 else column.cast(pl.Int64)
        return joined(frame, _label_columns(self.groups, self.batch))

    def needed(self) -> dict[str, Any]:
        """The columns that a fusion needs, with their types as they are to be read."""
        wanted = [*((name,) for name in _label_columns(self.groups, self.batch)), *self.attributes]
        wanted += [] if self.wide else self.criteria
        schema = {leaf[0]: self.schema[leaf[0]] for leaf in wanted if len(leaf) == 1}
        for outer in {leaf[0] for leaf in wanted if len(leaf) == 2}:
            known = {f.name: f.dtype for f in getattr(self.schema.get(outer), "fields", ())}
            names = [leaf[1] for leaf in wanted if leaf[0] == outer and len(leaf) == 2]
            schema[outer] = pl.Struct({name: known.get(name, pl.Float64) for name in names})
        return schema


def _label_columns(groups: Sequence[str], batch: str | None) -> tuple[str, ...]:
    """The columns that name a group together."""
    return (batch, *groups) if batch else tuple(groups)


def joined(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """One text for the cells of some columns, different for different cells; null if one of them is."""
    texts = [frame.get_column(name).cast(pl.String).alias(str(i)) for i, name in enumerate(names)]
    texts[:-1] = [text.str.replace_all(r"([/\\])", r"\$1") for text in texts[:-1]]
    return pl.DataFrame(texts).select(pl.concat_str(pl.all(), separator="/")).to_series().alias("label")


def survey(
    reader: Reader, soft: Sequence[str], whole: bool, columns: Columns, any_order: bool, progress: Progress | None
) -> Layout:
    """Read a table once: find its columns, and everything wrong with them.

    soft: criteria of low quality, which are from 0 to 1. whole: batches must not be cut.
    """
    facts: dict[Leaf, Facts] = {}
    schema: dict[str, Any] = {}
    groups: tuple[str, ...] = ()
    group_runs, batch_runs, step_runs = Runs(), Runs(), Runs()
    step: str | None = None
    named = {*_label_columns(columns.group, columns.batch), *(columns.criteria or ()), *columns.attributes}
    for frame in reader.frames(reader.worth_a_look(named)):
        if not groups:
            groups = _group_columns(reader, columns, frame.columns)
            step = None if columns.group or columns.batch else _step_column(frame.columns, groups)
            if isinstance(reader, Csv):
                reader.labels = groups
        schema = _merged(schema, {n: t for n, t in frame.schema.items() if n != ROW})
        _note_facts(reader, frame, facts)
        _note_runs(reader, frame, groups, columns.batch, group_runs, batch_runs)
        if not columns.group:
            _refuse_two_groups(reader, frame, groups)
        if step is not None:
            _note_runs(reader, frame, (step, *groups), None, step_runs, batch_runs)
        if progress:
            progress("reading", reader.position())
    if not groups:
        raise BadTable(str(reader.path), "the table", "at least one row", "none", "")
    if step is not None and step_runs.different() != group_runs.different():
        groups, group_runs = (step, *groups), step_runs  # the same query in two steps is two groups
    layout = _layout(reader, soft, columns, facts, getattr(reader, "schema", schema), groups)
    if not any_order:
        group_runs.check(reader, "group")
        if columns.batch and whole:
            batch_runs.check(reader, "batch")
    return replace(layout, largest=group_runs.longest(frame[ROW][-1]))


def _note_facts(reader: Reader, frame: pl.DataFrame, facts: dict[Leaf, Facts]) -> None:
    rows = frame[ROW]
    here = dict.fromkeys(_leaves(frame.schema))
    late = (1, "nothing") if facts else None  # a key that was absent so far
    for leaf in here:
        facts.setdefault(leaf, Facts(unmeasured=late)).look(reader, rows, cells_of(frame, leaf), leaf)
    for leaf in facts:
        if leaf not in here and facts[leaf].unmeasured is None:
            facts[leaf].unmeasured = rows[0], "nothing"
    for row, scores in reader.apart if isinstance(reader, JsonLines) else ():
        for name, value in scores.items() if isinstance(scores, dict) else ():
            facts.setdefault((SCORES, name), Facts()).look_at_one(row, value)


def _leaves(schema: Mapping[str, Any]) -> Iterator[Leaf]:
    for name, dtype in schema.items():
        if name in (SCORES, ATTRIBUTES) and isinstance(dtype, pl.Struct):
            yield from ((name, inner.name) for inner in dtype.fields)
        elif name not in (ROW, LINE) and not dtype.is_nested():
            yield (name,)


def cells_of(frame: pl.DataFrame, leaf: Leaf) -> pl.Series:
    """A column, or a field of one."""
    column = frame.get_column(leaf[0])
    return column if len(leaf) == 1 else column.struct.field(leaf[1])


def _group_columns(reader: Reader, columns: Columns, present: Sequence[str]) -> tuple[str, ...]:
    known = [name for name in present if name not in (ROW, LINE)]
    groups = tuple(columns.group) or tuple(name for name in (*GROUP_NAMES, "prompt") if name in known)[:1]
    if groups == ("prompt",) and not columns.group and (step := _step_column(known, ())):
        groups = (step, "prompt")
    if not groups:
        allowed = f"a column {', '.join(map(repr, GROUP_NAMES))}, or a prompt"
        remedy = "Say which one names the group: --group-column NAME."
        raise BadTable(str(reader.path), "the group", allowed, f"columns {', '.join(map(repr, known))}", remedy)
    for name in _label_columns(groups, columns.batch):
        if name not in known:
            raise UnknownName.of(str(reader.path), "the group or batch column", name, known)
    return groups


def _step_column(present: Sequence[str], groups: Sequence[str]) -> str | None:
    return next((name for name in STEP_NAMES if name in present and name not in groups), None)


def _refuse_two_groups(reader: Reader, frame: pl.DataFrame, groups: Sequence[str]) -> None:
    """Two columns that name groups, and do not name the same ones, are two readings of a file."""
    own = joined(frame, groups)
    for other in GROUP_NAMES:
        if other in groups or other not in frame.columns or frame.get_column(other).dtype.is_nested():
            continue
        cells = joined(frame, (other,))
        if cells.null_count() or groups[-1] not in GROUP_NAMES:
            continue
        if not ((own != own.shift()).fill_null(True) == (cells != cells.shift()).fill_null(True)).all():
            got = f"two readings: by {groups[-1]!r} and by {other!r}"
            remedy = f"Say which is meant: --group-column {groups[-1]}."
            raise BadTable(str(reader.path), "the group", "in one column", got, remedy)


def _note_runs(
    reader: Reader, frame: pl.DataFrame, groups: Sequence[str], batch: str | None, group_runs: Runs, batch_runs: Runs
) -> None:
    names = _label_columns(groups, batch)
    for name in names:
        cells = frame.get_column(name) if name in frame.columns else pl.Series([None] * len(frame))
        if cells.dtype.is_nested() or cells.dtype == pl.Binary or cells.null_count():
            row, got = first_place(frame[ROW], cells, cells.is_null()) or (frame[ROW][0], f"a {cells.dtype}")
            allowed = "a number or a text"
            where = f"{reader.unit} {row}, column {name!r}"
            raise BadTable(str(reader.path), where, allowed, got, "Every rollout belongs to a group.")
    group_runs.add(joined(frame, names), frame[ROW])
    if batch:
        batch_runs.add(joined(frame, (batch,)), frame[ROW])


def _merged(known: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of both, with types that hold both."""
    return {**known, **{name: _either(known[name], t) if name in known else t for name, t in new.items()}}


def _either(a: Any, b: Any) -> Any:
    if a == b or b == pl.Null:
        return a
    if a == pl.Null:
        return b
    if isinstance(a, pl.Struct) and isinstance(b, pl.Struct):
        return pl.Struct(_merged({f.name: f.dtype for f in a.fields}, {f.name: f.dtype for f in b.fields}))
    if isinstance(a, pl.List) and isinstance(b, pl.List):
        return pl.List(_either(a.inner, b.inner))
    simple = {pl.Int64, pl.Float64, pl.Boolean}
    if a in simple and b in simple:
        return pl.Float64 if pl.Float64 in (a, b) else pl.Int64
    return pl.String


def _layout(
    reader: Reader,
    soft: Sequence[str],
    columns: Columns,
    facts: dict[Leaf, Facts],
    schema: dict[str, Any],
    groups: tuple[str, ...],
) -> Layout:
    attributes = tuple(_find(reader, "attribute", ATTRIBUTES, name, facts) for name in columns.attributes)
    taken = {*groups, columns.batch, *(leaf[0] for leaf in attributes if len(leaf) == 1)}
    criteria, left_out = _choose_criteria(reader, columns, facts, taken)
    _check_cells(reader, soft, facts, criteria, attributes)
    if isinstance(reader, Csv):
        schema = {name: _csv_type(facts[(name,)]) for name in schema}
    single = groups[0] if len(groups) == 1 and columns.batch is None else None
    return Layout(
        reader=reader,
        schema=schema,
        groups=groups,
        batch=columns.batch,
        criteria=criteria,
        attributes=attributes,
        left_out=left_out,
        integer_labels=single is not None and schema[single].is_integer() and schema[single] != pl.Int128,
        different=sum(len(leaf) == 2 and leaf[0] == SCORES for leaf in facts),
        wide=len(criteria) > WIDE and isinstance(reader, JsonLines) and all(len(leaf) == 2 for leaf in criteria),
    )


def _csv_type(facts: Facts) -> Any:
    """The type of a CSV column outside CSV; a number that would be written differently stays a text, such as 007."""
    if not facts.filled:
        return pl.String
    if facts.whole == facts.filled:
        return pl.Int64
    if facts.plain == facts.filled:
        return pl.Float64
    return pl.Boolean if facts.booleans == facts.filled else pl.String


def _find(reader: Reader, what: str, home: str, name: str, facts: Iterable[Leaf]) -> Leaf:
    """A column by name: a field of its home, or a column of its own."""
    for leaf in ((home, name), (name,)):
        if leaf in facts:
            return leaf
    known = {leaf[-1] for leaf in facts if len(leaf) == 1 or leaf[0] == home}
    raise UnknownName.of(str(reader.path), what, name, known)


def _choose_criteria(
    reader: Reader, columns: Columns, facts: dict[Leaf, Facts], taken: set[str | None]
) -> tuple[tuple[Leaf, ...], tuple[str, ...]]:
    """The criteria, and the numeric columns that were taken for something else."""
    if columns.criteria is not None:
        named = (_find(reader, "criterion", SCORES, name, facts) for name in dict.fromkeys(columns.criteria))
        return tuple(named), ()
    nested = tuple(leaf for leaf in facts if leaf[0] == SCORES and len(leaf) == 2)
    if nested:
        return nested, ()
    numeric = [leaf[0] for leaf in facts if len(leaf) == 1 and leaf[0] not in taken and _mostly_numbers(facts[leaf])]
    ours = [name for name in numeric if name.lower() in BOOKKEEPING or name in GROUP_NAMES or "utility." in name]
    chosen: tuple[Leaf, ...] = tuple((name,) for name in numeric if name not in ours)
    if not chosen:
        got = f"columns {', '.join(repr(leaf[0]) for leaf in facts)}"
        remedy = "Name them: --criteria Facts,Style."
        raise BadTable(str(reader.path), "the criteria", "at least one column of numbers", got, remedy)
    return chosen, tuple(ours)


def _mostly_numbers(facts: Facts) -> bool:
    """A single "yes" among numbers is a mistake to report, not a reason to leave a criterion out in silence."""
    return facts.numbers > 0 and 2 * facts.numbers >= facts.filled


def _check_cells(
    reader: Reader, soft: Sequence[str], facts: dict[Leaf, Facts], criteria: Sequence[Leaf], attributes: Sequence[Leaf]
) -> None:
    for leaf in (*criteria, *attributes):
        allowed = "a finite number (whole ones within ±2**53), yes/no as true/false, or empty"
        remedy = "Repair the cell, empty it if there is no score, or name the criteria: --criteria Facts,Style."
        _refuse(reader, leaf, facts[leaf].bad, allowed, remedy)
        if leaf[-1] in soft:
            remedy = "Scale it, or reverse it if lower is better."
            _refuse(reader, leaf, facts[leaf].outside, "in [0, 1], 1 = clean, for the low-quality gate", remedy)
    for leaf in attributes:
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        _refuse(reader, leaf, facts[leaf].unmeasured, "a finite number ≥ 0", remedy)


def _refuse(reader: Reader, leaf: Leaf, found: tuple[int, str] | None, allowed: str, remedy: str) -> None:
    if found is not None:
        where = f"{reader.unit} {found[0]}, column {'.'.join(leaf)!r}"
        raise BadTable(str(reader.path), where, allowed, found[1], remedy)
