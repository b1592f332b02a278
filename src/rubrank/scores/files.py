"""Read scores from files: score files of `ScoreTable.write`, which contain their rubrics, and any other tables.

    read_scores(path)          a score file → the same `ScoreTable`
    load_scores(source)        a score file or any other table → a `ScoreTable`, and how it was read
    open_score_file(source)    a score file → its rows and rubrics, before the scores are checked
    match_rollouts(table, …)   the responses that were scored

A score file has two forms. JSON Lines: a header, then one object per rollout,

    {"rubrank": "scores", "version": 1, "rubrics": [[{criterion} …] …]}
    {"group": "q7", "rollout": 0, "rubric": 0, "scores": {"WordCount": 1.0}, "reasons": {"WordCount": "312 words …"}}

where `rubric` is the number of the row's rubric and a missing score is null. Parquet: one row per rollout with the
columns group, rollout, rubric, and for every criterion its score and "… (reason)"; the header is in the metadata.
With very many criteria (each query has its own) Parquet has one row per score: group, rollout, rubric, criterion,
score, reason.

Every form has three more columns if there is something to write in them. `digest` identifies the response that was
scored. If responses were compared instead of scored, `outcomes` is a JSON text such as
{"GeneralQuality": [null, 1.0, 0.5]}: this rollout against each rollout of its group. If judges report how sure they
are, `probabilities` is a JSON text with pairs of value and probability such as {"Tone": [[0.0, 0.2], [1.0, 0.8]]}.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import explain_read_errors, open_bytes, read_text, require_file, suffix_error
from rubrank.errors import BadTable, InvalidInput, UnknownName, counted, only_our_errors
from rubrank.rollouts.rollout import digest_response
from rubrank.scores.criterion import SLACK, CriterionData
from rubrank.scores.output import (
    DIGEST,
    OUTCOMES,
    PROBABILITIES,
    REASON_SUFFIX,
    RUBRIC,
    SUFFIXES,
    VERSION,
)
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import REASONS, ROLLOUT_ID_NAMES, SCORES, Columns
from rubrank.tables.layout import Layout, find_layout
from rubrank.tables.sources import (
    describe_source,
    find_files,
    format_of,
    is_dataset,
    parse_lines,
    read_columnar,
)
from rubrank.tables.table import (
    Table,
    convert_to_bad_table,
    make_object_table,
    read_table,
)
from rubrank.verifiers.distribution import Distribution, make_distribution
from rubrank.verifiers.domain import UNIT, Domain

if TYPE_CHECKING:
    from rubrank.judges.judgments import Provenance
    from rubrank.rollouts.rollout import Group

Rubrics: TypeAlias = tuple[tuple[CriterionData, ...], ...]
_REMEDY = "Write it with ScoreTable.write."  # for all errors about the form of a score file
# Enough to recognise a header; the first line of another table may be long.
_HEADER_START_BYTES = 64


@only_our_errors
def read_scores(path: str | Path) -> ScoreTable:
    """Return the table that `ScoreTable.write` wrote, with reasons; raises BadTable if it is another file."""
    path = Path(path)
    require_file(path, error_type=BadTable)
    if not path.name.endswith(SUFFIXES):
        raise suffix_error(path, SUFFIXES)
    score_file = open_score_file(path)
    if score_file is None:
        allowed = f"a score table of version {VERSION}"
        raise BadTable(str(path), "file", allowed, "something else", _REMEDY)
    if not len(score_file.table.frame):
        return ScoreTable((), read=score_file.provenance)
    layout = score_file.find_layout(any_order=True)
    return score_file.make_score_table(layout, with_reasons=True)


# ---------------------------------------------------------------------------------------- files of `ScoreTable.write`


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """One or more files that `ScoreTable.write` wrote: their rows, and the rubrics they were graded by."""

    table: Table
    rollouts: Sequence[Mapping[str, Any]]
    """Each row of the table as a line of JSON Lines has it."""
    rubrics: Rubrics
    """The `rubric` of a row is an index into this."""
    provenance: Provenance | None

    def find_layout(self, requested: Columns | None = None, *, any_order: bool = False) -> Layout:
        """Check the cells of the file, and return which columns hold what.

        requested: may add attributes, but not change the groups: the file has a rubric for each group.
        any_order: the rows of a group need not be adjacent.
        """
        requested = requested or Columns()
        if tuple(requested.group or ("group",)) != ("group",):
            raise InvalidInput(
                str(self.table.path),
                "group",
                "'group', or left out: `rubrank grade` wrote the file, and it has a rubric for each group",
                ", ".join(map(repr, requested.group)),
                field="group_column",
            )
        names = dict.fromkeys(criterion.name for rubric in self.rubrics for criterion in rubric)
        columns = Columns(group=("group",), criteria=tuple(names), attributes=requested.attributes)
        return find_layout(self.table, columns, any_order=any_order)

    def make_score_table(self, layout: Layout, *, with_reasons: bool = False) -> ScoreTable:
        """Return the groups with their rubrics and scores; their rows are those of `layout.order`.

        Raises BadTable if a group has no valid rubric, or a score lies outside the domain of its criterion.
        """
        path = self.table.path
        groups = []
        for label, rows in zip(layout.group_labels, layout.group_rows, strict=True):
            rollouts = [self.rollouts[row] for row in rows]
            rubric = _find_rubric(
                self.rubrics, {rollout[RUBRIC] for rollout in rollouts}, label, path
            )
            names = [criterion.name for criterion in rubric]
            outcomes = parse_outcomes([rollout.get(OUTCOMES) for rollout in rollouts], path)
            probabilities = parse_probabilities(
                [rollout.get(PROBABILITIES) for rollout in rollouts], path
            )
            for column, cells in ((OUTCOMES, outcomes), (PROBABILITIES, probabilities)):
                for name in cells:
                    if name not in names:
                        raise UnknownName.of(f"{path}: group {label!r}", column, name, names)
            reasons = []
            if with_reasons:
                for rollout in rollouts:
                    reason_of = rollout.get(REASONS) or {}
                    reasons.append(tuple(reason_of.get(name) or "" for name in names))
            group = GroupScores(
                str(rollouts[0]["group"]),
                rubric,
                layout.select_scores(rows, names),
                tuple(reasons),
                outcomes,
                probabilities,
                digests=_keep_all_or_none([rollout.get(DIGEST) for rollout in rollouts]),
            )
            _check_domains(group, path)
            groups.append(group)
        return ScoreTable(tuple(groups), read=self.provenance)


@convert_to_bad_table()
def open_score_file(source: Any) -> ScoreFile | None:
    """Return the score file, or files, that a source names; None if it is another table."""
    headers = _read_headers(source)
    if headers is None:
        return None
    # The same rubric may have different numbers in different files. Here each distinct rubric gets one number.
    number_of: dict[tuple[CriterionData, ...], int] = {}
    rollouts: list[Mapping[str, Any]] = []
    lines: list[str] = []
    line_numbers: list[int] = []
    wide_frames = []
    for file, header in headers.items():
        rubrics = _parse_rubrics(header, file)
        for rubric in rubrics:
            number_of.setdefault(rubric, len(number_of))
        file_rollouts: Iterable[Mapping[str, Any]]
        if format_of(file) == "JSON Lines":
            _, *texts = read_text(file).split("\n")  # the first line is the header
            parsed = list(parse_lines(texts, file, first=2))
            line_numbers += [number for number, _, _ in parsed]
            lines += [line for _, line, _ in parsed]
            file_rollouts = [rollout for _, _, rollout in parsed]
        elif header.get("layout") == "long":
            file_rollouts = _list_long_rollouts(file, rubrics)
        else:
            frame = read_columnar(file)
            wide_frames.append(frame)
            file_rollouts = _list_wide_rollouts(frame, file, rubrics)
        for rollout in file_rollouts:
            number_in_file = rollout.get(RUBRIC)
            rubric = _find_rubric(rubrics, {number_in_file}, rollout.get("group"), file)
            if number_of[rubric] != number_in_file:
                rollout = {**rollout, RUBRIC: number_of[rubric]}
                if lines:
                    # The output of `fuse` repeats the line of a rollout, so the line needs the new number as well.
                    index = len(rollouts)
                    lines[index] = json.dumps(rollout)
            rollouts.append(rollout)
    path = Path(source)
    shape = describe_source(source)
    if len(wide_frames) == len(headers):
        # The columns are kept as they are, so that the output of `fuse` has them.
        frame = pl.concat(wide_frames, how="diagonal_relaxed")
        numbers = pl.Series(RUBRIC, [rollout[RUBRIC] for rollout in rollouts], dtype=pl.Int64)
        scores = [rollout[SCORES] for rollout in rollouts]
        rows = pl.Series(range(1, len(frame) + 1), dtype=pl.Int64)
        table = Table(path, shape, frame.with_columns(numbers), rows, "row", scores=scores)
    else:
        unit = "line"
        if not lines or len(headers) > 1:
            unit = "rollout"
            line_numbers = []  # rollouts are numbered through all files
        table = make_object_table(rollouts, path, shape, unit, line_numbers, lines)
    return ScoreFile(table, rollouts, tuple(number_of), _read_provenance(headers))


@convert_to_bad_table()
def has_rubric(source: Any) -> bool:
    """Return whether `ScoreTable.write` wrote the source, with the rubric it was graded by. Reads only headers."""
    return _read_headers(source) is not None


def _read_headers(source: Any) -> dict[Path, Mapping[str, Any]] | None:
    """Return the headers of the score files that a source names; None if it is another table.

    Raises BadTable if some of its files are score files and others are not.
    """
    if not isinstance(source, str | Path) or is_dataset(source):
        return None
    files = find_files(source)
    if format_of(files[0]) not in ("JSON Lines", "Parquet"):
        return None
    headers = {}
    for file in files:
        header = _read_header(file)
        if header is not None:
            headers[file] = header
    if not headers:
        return None
    for file in files:
        if file not in headers:
            allowed = "all score files of `rubrank grade`, or none"
            got = f"{file.name}, which contains no rubric, among others"
            raise BadTable(str(source), "the files", allowed, got, "")
    return headers


def _read_provenance(headers: Mapping[Path, Mapping[str, Any]]) -> Provenance | None:
    """Return which judges gave the scores of all files, and at what cost; None if no header says it."""
    judging_data = [header["judging"] for header in headers.values() if header.get("judging")]
    if not judging_data:
        return None
    # Imported here: most tables need no judges.
    from rubrank.judges.judgments import Provenance

    provenances: list[Provenance] = []
    for data in judging_data:
        provenance = Provenance.from_dict(data)
        # Parts of one file that was cut have the same header: its costs count once.
        if provenance not in provenances:
            provenances.append(provenance)
    return Provenance.merge(provenances)


def parse_outcomes(texts: Sequence[str | None], path: Path | str) -> dict[str, np.ndarray]:
    """Return the comparisons of a group, criterion → (G, G), from the JSON texts of its rows; {} if there are none.

    Each text has the outcomes of its rollout: {"Tone": [null, 1.0, 0.5]}. Raises BadTable if one is missing or damaged.
    """
    matrices: dict[str, np.ndarray] = {}
    if not any(texts):
        return matrices
    try:
        rows = [json.loads(text or "") for text in texts]
        for name in rows[0]:
            matrices[name] = np.array([row[name] for row in rows], dtype=float)
            if matrices[name].shape != (len(rows), len(rows)):
                raise ValueError(name)
    except (ValueError, TypeError, LookupError):
        allowed = "in every row of a group: criterion → its outcomes against all rollouts of the group, as JSON"
        got = next((repr(text)[:80] for text in texts if not text), repr(texts[0])[:80])
        raise BadTable(str(path), OUTCOMES, allowed, got, _REMEDY) from None
    return matrices


def parse_probabilities(
    texts: Sequence[str | None], path: Path | str
) -> dict[str, tuple[Distribution, ...]]:
    """Return the distributions of a group, criterion → one per rollout, from the JSON texts of its rows.

    Each text has those of its rollout: {"Tone": [[0.0, 0.2], [1.0, 0.8]]}. Raises BadTable if one is damaged.
    """
    rows = []
    for text in texts:
        try:
            row = json.loads(text) if text else {}
            rows.append({name: make_distribution(pairs, str(path)) for name, pairs in row.items()})
        except (ValueError, AttributeError):
            allowed = "criterion → pairs of value and probability, as JSON"
            raise BadTable(str(path), PROBABILITIES, allowed, repr(text)[:80], _REMEDY) from None
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row.get(name, ()) for row in rows) for name in names}


def _read_header(path: Path) -> Mapping[str, Any] | None:
    """Return the header of a score file; None if it is another table, or unreadable (its reader will report why)."""
    try:
        if format_of(path) == "Parquet":
            data = json.loads(pl.read_parquet_metadata(path).get("rubrank", "null"))
        else:
            with explain_read_errors(path), open_bytes(path) as file:
                start = file.readline(_HEADER_START_BYTES)
                if b'"rubrank"' not in start:
                    return None
                data = json.loads(start if start.endswith(b"\n") else start + file.readline())
    except (PolarsError, OSError, EOFError, zlib.error, ValueError):
        return None
    is_header = isinstance(data, Mapping) and data.get("rubrank") == "scores"
    return data if is_header else None


def _parse_rubrics(header: Mapping[str, Any], path: Path) -> Rubrics:
    """Return the rubrics in the header of a score file; raises BadTable if it is of another version, or damaged."""
    if header.get("version") != VERSION:
        got = f"version {header.get('version')}"
        raise BadTable(str(path), "file", f"a score table of version {VERSION}", got, _REMEDY)
    rubrics = []
    try:
        for rubric in header["rubrics"]:
            criteria = []
            for data in rubric:
                scale = data["domain"]
                domain = Domain(scale["kind"], tuple(scale["values"]), scale["low"], scale["high"])
                depends = tuple((name, kind) for name, kind in data["depends"])
                criteria.append(CriterionData(**{**data, "domain": domain, "depends": depends}))
            rubrics.append(tuple(criteria))
    except (KeyError, TypeError, ValueError) as error:
        raise BadTable(str(path), "file", "a score table", repr(error), _REMEDY) from None
    return tuple(rubrics)


def _find_rubric(
    rubrics: Rubrics, numbers: Collection[Any], group: Any, path: Path
) -> tuple[CriterionData, ...]:
    """Return the rubric of a group from the rubric numbers of its rows; raises unless they are one valid number."""
    number = next(iter(numbers))
    if len(numbers) > 1 or number not in range(len(rubrics)):
        allowed = f"one number from 0 to {len(rubrics) - 1}"
        got = " and ".join(sorted(map(str, numbers)))
        raise BadTable(str(path), f"the rubric of group {group!r}", allowed, got, _REMEDY)
    return rubrics[int(number)]


def _list_wide_rollouts(
    frame: pl.DataFrame, path: Path, rubrics: Rubrics
) -> Iterator[dict[str, Any]]:
    """Yield each row of a file with a column per criterion, as a line of JSON Lines has it.

    Raises BadTable if the column of a criterion or of its reasons is missing.
    """
    criterion_columns = set()
    for rubric in rubrics:
        for criterion in rubric:
            criterion_columns |= {criterion.name, criterion.name + REASON_SUFFIX}
    for row in frame.iter_rows(named=True):
        rubric = _find_rubric(rubrics, {row.get(RUBRIC)}, row.get("group"), path)
        names = [criterion.name for criterion in rubric]
        rollout: dict[str, Any] = {}
        for column, value in row.items():
            if column not in criterion_columns and value is not None:
                rollout[column] = value
        try:
            rollout[SCORES] = {name: row[name] for name in names}
            rollout[REASONS] = {name: row[name + REASON_SUFFIX] for name in names}
        except KeyError as error:
            raise _make_column_error(path, error.args[0]) from None
        yield rollout


def _list_long_rollouts(path: Path, rubrics: Rubrics) -> Iterator[dict[str, Any]]:
    """Yield each rollout of a file with one row per score, as a line of JSON Lines has it.

    Raises BadTable if a column is missing, or if rows of a rollout are missing or not in the order of its rubric.
    """
    frame = read_columnar(path)
    rollout_columns = ("group", "rollout", RUBRIC)
    for name in (*rollout_columns, "criterion", "score", "reason"):
        if name not in frame.columns:
            raise _make_column_error(path, name)
    rollouts = groupby(frame.iter_rows(named=True), itemgetter(*rollout_columns))
    for key, rows in rollouts:
        scores: dict[str, Any] = {}
        reasons: dict[str, Any] = {}
        # These are the same in all rows of a rollout.
        shared_cells: dict[str, Any] = dict(zip(rollout_columns, key, strict=True))
        names = []
        for row in rows:
            names.append(row["criterion"])
            scores[row["criterion"]] = row["score"]
            reasons[row["criterion"]] = row["reason"]
            for column in (OUTCOMES, PROBABILITIES, DIGEST):
                if row.get(column):
                    shared_cells[column] = row[column]
        rubric = _find_rubric(rubrics, {key[2]}, key[0], path)
        if names != [criterion.name for criterion in rubric]:
            got = f"others for rollout {key[1]} of group {key[0]!r}"
            allowed = "a score table with a row for each criterion, in the order of its rubric"
            raise BadTable(str(path), "file", allowed, got, _REMEDY)
        yield {**shared_cells, SCORES: scores, REASONS: reasons}


def _make_column_error(path: Path, name: str) -> BadTable:
    """Return the error about a Parquet score file without one of its columns."""
    return BadTable(str(path), "file", "a score table", f"one without the column {name!r}", _REMEDY)


def _check_domains(group: GroupScores, path: Path) -> None:
    """Raise if a score lies outside its domain: someone may have edited the file."""
    low = np.array([criterion.domain.low - SLACK for criterion in group.criteria])
    high = np.array([criterion.domain.high + SLACK for criterion in group.criteria])
    outside = np.argwhere((group.scores < low) | (group.scores > high))
    if len(outside):
        rollout, column = outside[0]
        domain = group.criteria[column].domain
        where = f"the score of rollout {rollout} of group {group.id!r} on {group.names[column]!r}"
        allowed = f"from {domain.low:g} to {domain.high:g}, its domain"
        got = f"{group.scores[rollout, column]:g}"
        raise BadTable(str(path), where, allowed, got, "Write the file with `rubrank grade`.")


# ------------------------------------------------------------------------------------------- tables of any other origin


@dataclass(frozen=True, eq=False)
class LoadedScores:
    """A score table, and how it was read."""

    table: ScoreTable
    shape: str
    """The format in words, such as "long CSV"."""
    group_columns: str
    """The columns that name the groups, such as "step/prompt_id"."""
    attributes: np.ndarray | None = None
    """(rollouts, D): the cells of the attribute columns that were named, rows as in the table."""
    left_out: tuple[str, ...] = ()
    """Columns that are not used."""

    def __str__(self) -> str:
        """Return for example "read 64 rollouts in 8 groups (CSV, by uid). Criteria: Facts, Style; not used: tokens"."""
        # The length of a score table is its number of rollouts.
        rollouts = counted(len(self.table), "rollout")
        groups = counted(len(self.table.groups), "group")
        line = f"read {rollouts} in {groups} ({self.shape}, by {self.group_columns})."
        if self.left_out:
            line += f" Criteria: {', '.join(self.table.criteria)}; not used: {', '.join(self.left_out)}."
        return line


def load_scores(source: Any, columns: Columns | None = None) -> LoadedScores:
    """Return all scores of a source of any kind; the rows of a group need not be adjacent.

    A file that `ScoreTable.write` wrote contains its rubrics. Other tables have only names of criteria: all get the
    weight 1, higher is better, and the scale is from 0 to 1 unless scores lie outside.
    Raises BadTable, which names the row and the column of the first wrong cell.
    """
    columns = columns or Columns()
    score_file = open_score_file(source)
    if score_file is not None:
        layout = score_file.find_layout(columns, any_order=True)
        table = score_file.make_score_table(layout, with_reasons=True)
        if columns.named_criteria is not None:
            table = table.select_criteria(columns.named_criteria)
        shape = f"scores, {layout.table.shape}"
        left_out: tuple[str, ...] = ()
    else:
        layout = find_layout(read_table(source, columns), columns, any_order=True)
        criteria = {name: CriterionData(name, domain=UNIT) for name in layout.names}
        table = _widen_scales(make_plain_score_table(layout, criteria))
        shape = layout.table.shape
        left_out = layout.left_out
    attributes = layout.attributes_MD
    if attributes is not None:
        attributes = attributes[layout.order]
    return LoadedScores(table, shape, "/".join(layout.group_columns), attributes, left_out)


def make_plain_score_table(
    layout: Layout, criteria: Mapping[str, CriterionData], required: Sequence[str] = ()
) -> ScoreTable:
    """Return the groups of a table without rubrics, each with the criteria that it has scores on.

    required: criteria that every group has.
    """
    frame = layout.table.frame
    ids: list[Any] = [None] * len(frame)
    id_column = next((name for name in ROLLOUT_ID_NAMES if name in frame.columns), None)
    if id_column is not None:
        ids = frame.get_column(id_column).to_list()
    digests: list[str | None] = [None] * len(frame)
    if frame.schema.get("response") == pl.String:
        responses = frame.get_column("response").to_list()
        digests = [None if text is None else digest_response(text) for text in responses]
    groups = []
    for label, rows in zip(layout.group_labels, layout.group_rows, strict=True):
        names = [name for name in layout.find_scored_names(rows) if name not in required]
        if not names:
            # A group without any score gets one criterion: a group without criteria could not be fused.
            names = [name for name in layout.names if name not in required][:1]
        names.extend(required)
        rollout_ids = tuple(str(ids[row]) for row in rows)
        # An id that two rollouts share identifies neither; a single rollout needs none.
        has_ids = len(rows) > 1 and len(set(rollout_ids)) == len(rows)
        group = GroupScores(
            str(label),
            tuple(criteria[name] for name in names),
            layout.select_scores(rows, names),
            reasons=(("",) * len(names),) * len(rows),
            digests=_keep_all_or_none([digests[row] for row in rows]),
            rollout_ids=rollout_ids if has_ids else (),
        )
        groups.append(group)
    return ScoreTable(tuple(groups))


def _keep_all_or_none(digests: Sequence[str | None]) -> tuple[str, ...]:
    """Return the digests of a group; () if one is missing, because they are matched to rollouts by position."""
    present = tuple(digest for digest in digests if digest is not None)
    return present if len(present) == len(digests) else ()


def _widen_scales(table: ScoreTable) -> ScoreTable:
    """Return the table with scales from 0 to 1 widened where scores lie outside."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for group in table.groups:
        for name, scores in zip(group.names, group.scores.T, strict=True):
            low[name] = float(np.fmin.reduce(scores, initial=low.get(name, 0.0)))
            high[name] = float(np.fmax.reduce(scores, initial=high.get(name, 1.0)))
    changes = {}
    for name in low:
        if (low[name], high[name]) != (0.0, 1.0):
            changes[name] = {"domain": Domain("continuous", (), low[name], high[name])}
    return table.change_criteria(changes)


# --------------------------------------------------------------------------------------- the rollouts behind the scores


def match_rollouts(
    table: ScoreTable, rollouts: Any, columns: Mapping[str, str] | None = None
) -> list[Group]:
    """Return the rollouts of a score table, in its order, read from the file that was graded.

    columns: as for `grade`.
    Raises InvalidInput if a group is missing there, or has other rollouts: the wrong responses would be shown.
    """
    # Imported here: it is not needed where only scores are read.
    from rubrank.rollouts.groups import read_groups

    groups = {group.id: group for group in read_groups(rollouts, columns)}
    owner = str(rollouts)
    same_file = "Give the file that was graded."
    same_order = "Give the file that was graded, with its rows in the same order."
    matched: list[Group] = []
    for scored in table.groups:
        group = groups.get(scored.id)
        if group is None or len(group.rollouts) != len(scored.scores):
            raise InvalidInput(
                owner,
                f"group {scored.id!r}",
                f"there, with {len(scored.scores)} rollouts",
                "no such group" if group is None else f"{len(group.rollouts)} rollouts",
                same_file,
            )
        for number, rollout in enumerate(group.rollouts):
            # Digests and ids are known for all rollouts of a group or for none.
            if scored.digests and scored.digests[number] != rollout.digest:
                where = f"the response of rollout {number} of group {scored.id!r}"
                allowed = "the one that was scored"
                raise InvalidInput(owner, where, allowed, "another text", same_order)
        for number, rollout in enumerate(group.rollouts):
            cells = [rollout.metadata.get(name) for name in ROLLOUT_ID_NAMES]
            ids = [str(cell) for cell in cells if cell is not None]
            if scored.rollout_ids and ids and scored.rollout_ids[number] not in ids:
                where = f"rollout {number} of group {scored.id!r}"
                allowed = f"{scored.rollout_ids[number]!r}, as in the scores"
                raise InvalidInput(owner, where, allowed, repr(ids[0]), same_order)
        matched.append(group)
    return matched
