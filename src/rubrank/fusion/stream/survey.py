"""The first reading of a table: which columns it has, what is what, and everything that is wrong with a cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rubrank.errors import BadTable, UnknownName
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

_UNSCORED = ("", "nan", "null", "none", "na", "n/a")  # texts of a CSV cell without a score, in any case
_LONGEST_NUMBER = 40  # characters; longer texts are not tried as numbers
_EXACT = 2**53
_SAMPLE = 100  # cells by which a column of texts is told from one of numbers with a text among them


@dataclass
class Facts:
    """What the cells of one column are like; places are (row, what is there)."""

    filled: int = 0
    numbers: int = 0
    plain: int = 0
    """Texts written the way JSON writes a number: as numbers they lose nothing."""
    whole: int = 0
    booleans: int = 0
    bad: tuple[int, str] | None = None
    """The first cell that is no finite number."""
    unmeasured: tuple[int, str] | None = None
    """The first cell that is no attribute: missing, or negative."""
    outside: tuple[int, str] | None = None
    """The first score outside [0, 1]."""

    def look(self, reader: Reader, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> None:
        """Take in the cells of one frame."""
        if raw.dtype == pl.String and isinstance(reader, JsonLines):
            value = _real_numbers(reader, rows, raw, leaf)
        else:
            value = numbers(raw, reader.text_is_number)
        nothing_else = value.null_count() == raw.null_count()
        filled = value.is_not_nan().fill_null(False) if nothing_else else _filled(raw, reader.text_is_number)
        wrong = filled & (
            value.is_null() | value.is_infinite().fill_null(False) | _inexact(reader, rows, raw, value, leaf)
        )
        self.filled += int(filled.sum())
        self.numbers += int((filled & value.is_not_null()).sum())
        self.bad = self.bad or _first(rows, raw, wrong)
        missing = ~filled | value.is_nan().fill_null(False)
        self.unmeasured = self.unmeasured or _first(rows, raw, missing | (value < 0.0).fill_null(False))
        self.outside = self.outside or _first(rows, raw, ((value < 0.0) | (value > 1.0)).fill_null(False))
        if isinstance(reader, Csv) and (reader.typed or leaf[0] in reader.labels):
            self.plain += int(raw.str.contains(r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$").sum())
            self.whole += int(raw.str.contains(r"^(0|-?[1-9]\d{0,17})$").sum())
            self.booleans += int(raw.str.to_lowercase().is_in(["true", "false"]).sum())

    def look_at_one(self, row: int, value: Any) -> None:
        """Take in a single score."""
        if value is None or value != value:
            return
        if not isinstance(value, bool | int | float) or _rounded(value) or math.isinf(value):
            self.bad = self.bad or (row, _shown(value))
        elif not 0.0 <= value <= 1.0:
            self.outside = self.outside or (row, _shown(value))


def _rounded(value: Any) -> bool:
    """Is it a whole number that doubles merge with its neighbours?"""
    return isinstance(value, int) and abs(value) > _EXACT


def _real_numbers(reader: JsonLines, rows: pl.Series, raw: pl.Series, leaf: Leaf) -> pl.Series:
    """The numbers of a key that is now a number and now a text, and has become text on reading: the file tells."""
    value = numbers(raw, True)
    like_number = value.is_finite().fill_null(False)
    found = rows.filter(like_number)
    sample = found.gather_every(len(found) // _SAMPLE + 1).to_list()
    if all(isinstance(cell, str) for cell in reader.cells(sample, leaf)):
        return numbers(raw, False)
    every = found.to_list()
    texts = [row for row, cell in zip(every, reader.cells(every, leaf), strict=True) if isinstance(cell, str)]
    return value.to_frame("x").select(pl.when(like_number & ~rows.is_in(texts)).then("x")).to_series()


def numbers(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Cells as doubles; null where there is no number."""
    if raw.dtype.is_numeric() or raw.dtype == pl.Boolean:
        return raw.cast(pl.Float64)
    if raw.dtype != pl.String or not text_is_number:
        return pl.Series(raw.name, [None], pl.Float64).new_from_index(0, len(raw))
    short = raw.to_frame("x").select(pl.when(pl.col("x").str.len_bytes() <= _LONGEST_NUMBER).then("x")).to_series()
    if (quick := short.cast(pl.Float64, strict=False)).null_count() == raw.null_count():
        return quick  # nothing but numbers, as almost always
    clean = short.str.strip_chars().str.to_lowercase().replace({"true": "1", "false": "0"})
    return clean.cast(pl.Float64, strict=False)


def _filled(raw: pl.Series, text_is_number: bool) -> pl.Series:
    """Is anything in the cell?"""
    if raw.dtype == pl.String and text_is_number:
        start = raw.str.slice(0, 8).str.strip_chars().str.to_lowercase()
        return raw.is_not_null() & ~start.is_in(_UNSCORED).fill_null(False)
    return raw.is_not_null()


def _inexact(reader: Reader, rows: pl.Series, raw: pl.Series, value: pl.Series, leaf: Leaf) -> pl.Series:
    """Whole numbers, as they are written, that doubles merge with their neighbours."""
    large = (value.abs() >= _EXACT).fill_null(False)
    if not large.any():
        return large
    if raw.dtype.is_integer() or raw.dtype.is_decimal():
        return large & ((raw > _EXACT) | (False if raw.dtype.is_unsigned_integer() else raw < -_EXACT)).fill_null(False)
    if isinstance(reader, JsonLines):  # among numbers with fractions a whole one is a double already
        at = rows.filter(large).to_list()
        return rows.is_in([row for row, cell in zip(at, reader.cells(at, leaf), strict=True) if _rounded(cell)])
    if raw.dtype == pl.String:
        texts = raw.str.strip_chars()
        written = texts.cast(pl.Int64, strict=False)
        whole = texts.str.contains(r"^[+-]?\d+$").fill_null(False)
        return large & whole & ((written > _EXACT) | (written < -_EXACT)).fill_null(True)
    return pl.repeat(False, len(raw), eager=True)


def _first(rows: pl.Series, raw: pl.Series, mask: pl.Series) -> tuple[int, str] | None:
    at = mask.arg_max() if mask.any() else None
    if at is None:
        return None
    return rows[at], _shown(raw[at])


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) < 50 else f"{text[:47]}…"


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
            row, got = _first(frame[ROW], cells, cells.is_null()) or (frame[ROW][0], f"a {cells.dtype}")
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
            remedy = "Scale it, or flip it if it reports badness."
            _refuse(reader, leaf, facts[leaf].outside, "in [0, 1], 1 = clean, for the low-quality gate", remedy)
    for leaf in attributes:
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        _refuse(reader, leaf, facts[leaf].unmeasured, "a finite number ≥ 0", remedy)


def _refuse(reader: Reader, leaf: Leaf, found: tuple[int, str] | None, allowed: str, remedy: str) -> None:
    if found is not None:
        where = f"{reader.unit} {found[0]}, column {'.'.join(leaf)!r}"
        raise BadTable(str(reader.path), where, allowed, found[1], remedy)
