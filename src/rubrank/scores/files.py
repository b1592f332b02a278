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
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import explain_read_errors, open_bytes, require_file, suffix_error
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
from rubrank.tables.long import read_table
from rubrank.tables.rows import read_file_rows
from rubrank.tables.sources import describe_source, find_files, format_of, is_dataset
from rubrank.tables.table import (
    Table,
    convert_to_bad_table,
    read_bytes,
    read_columnar_files,
    read_json_lines,
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
    table, _ = score_file.make_score_table(layout, with_reasons=True)
    return table


# ---------------------------------------------------------------------------------------- files of `ScoreTable.write`


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """One or more files that `ScoreTable.write` wrote: their rows, and the rubrics they were graded by."""

    table: Table
    rubrics: Rubrics
    """The column `rubric` of a row is an index into this."""
    provenance: Provenance | None

    @cached_property
    def criteria(self) -> dict[str, CriterionData]:
        """All criteria, as the first rubric that has them defines them."""
        criteria: dict[str, CriterionData] = {}
        for rubric in self.rubrics:
            for criterion in rubric:
                criteria.setdefault(criterion.name, criterion)
        return criteria

    def find_layout(self, requested: Columns | None = None, *, any_order: bool = False) -> Layout:
        """Check the cells of the file, and return which columns hold what.

        requested: may add attributes, but not change the groups: the file has a rubric for each group.
        any_order: the rows of a group need not be adjacent.
        """
        requested = requested or Columns()
        if tuple(requested.group or ("group",)) != ("group",):
            raise InvalidInput(
                owner=str(self.table.path),
                parameter="group",
                allowed="'group', or left out: `rubrank grade` wrote the file, and it has a rubric for each group",
                got=", ".join(map(repr, requested.group)),
                remedy="",
                field="group_column",
            )
        columns = Columns(
            group=("group",), criteria=tuple(self.criteria), attributes=requested.attributes
        )
        if RUBRIC not in self.table.frame.columns:
            raise UnknownName.of(str(self.table.path), "column", RUBRIC, self.table.frame.columns)
        return find_layout(self.table, columns, any_order=any_order)

    def make_score_table(
        self, layout: Layout, *, with_reasons: bool = False
    ) -> tuple[ScoreTable, np.ndarray]:
        """Return the groups with their rubrics and scores, and for every row of the score table its row in the file.

        Raises BadTable if a group has no valid rubric, or a score lies outside the domain of its criterion.
        """
        path = self.table.path
        rubric_number_of_row = self.table.frame.get_column(RUBRIC).to_list()
        outcomes_of_row = self._read_texts(OUTCOMES)
        probabilities_of_row = self._read_texts(PROBABILITIES)
        digest_of_row = self._read_texts(DIGEST)
        groups = []
        for label, rows in layout.rows_of_groups.items():
            numbers = {rubric_number_of_row[row] for row in rows}
            rubric = _find_rubric(self.rubrics, numbers, label, path)
            names = [criterion.name for criterion in rubric]
            outcomes = parse_outcomes([outcomes_of_row[row] for row in rows], path)
            probabilities = parse_probabilities([probabilities_of_row[row] for row in rows], path)
            for column, cells in ((OUTCOMES, outcomes), (PROBABILITIES, probabilities)):
                for name in cells:
                    if name not in names:
                        raise UnknownName.of(f"{path}: group {label!r}", column, name, names)
            group_id = str(label)
            if "\0" in group_id and self.table.json_lines is not None:
                # polars reads half of a surrogate pair as a zero character; the line has the id as it was written.
                group_id = str(json.loads(self.table.lines[rows[0]])["group"])
            reasons = []
            if with_reasons:
                for row in rows:
                    reason_on = self._reasons_of_row[row]
                    reasons.append(tuple(reason_on.get(name) or "" for name in names))
            digests = [digest_of_row[row] for row in rows]
            known_digests = tuple(digest for digest in digests if digest is not None)
            group = GroupScores(
                group_id,
                rubric,
                layout.select_scores(rows, names),
                tuple(reasons),
                outcomes,
                probabilities,
                # All or none: without its row, a digest cannot be compared with the right response.
                digests=known_digests if len(known_digests) == len(rows) else (),
            )
            _check_domains(group, path)
            groups.append(group)
        row_order = np.concatenate(list(layout.rows_of_groups.values()))
        return ScoreTable(tuple(groups), read=self.provenance), row_order

    def _read_texts(self, column: str) -> list[str | None]:
        """Return the cells of a column of texts; None for every row if the file does not have the column."""
        if column not in self.table.frame.columns:
            return [None] * len(self.table.frame)
        return self.table.frame.get_column(column).to_list()

    @cached_property
    def _reasons_of_row(self) -> list[Mapping[str, Any]]:
        """For each row of the file, its reasons by criterion."""
        if self.table.json_lines is not None:
            return [json.loads(line).get(REASONS) or {} for line in self.table.lines]
        criterion_of_column = {}
        for name in self.criteria:
            if name + REASON_SUFFIX in self.table.frame.columns:
                criterion_of_column[name + REASON_SUFFIX] = name
        reasons = self.table.frame.select(list(criterion_of_column)).rename(criterion_of_column)
        return list(reasons.iter_rows(named=True))


@convert_to_bad_table()
def open_score_file(source: Any) -> ScoreFile | None:
    """Return the score file, or files, that a source names; None if it is another table.

    A single JSON Lines file, and Parquet files with a column per criterion, are read as they are. Several JSON Lines
    files, and Parquet files with a row per score, are rewritten as one JSON Lines text.
    """
    headers = _read_headers(source)
    if headers is None:
        return None
    files = list(headers)
    rubrics_of_file = {file: _parse_rubrics(header, file) for file, header in headers.items()}
    rubrics = rubrics_of_file[files[0]]
    if len(files) > 1:
        # The same rubric may have different numbers in different files. Here each distinct rubric gets one number.
        rubrics = tuple(dict.fromkeys(chain.from_iterable(rubrics_of_file.values())))
    is_long = {file: header.get("layout") == "long" for file, header in headers.items()}
    is_parquet = format_of(files[0]) == "Parquet"
    if is_parquet and not any(is_long.values()):
        table = _read_wide_parquet_files(source, rubrics_of_file, rubrics)
    elif is_parquet or len(files) > 1:
        table = _rewrite_as_json_lines(source, rubrics_of_file, rubrics, is_long)
    else:
        _, _, rows = read_bytes(files).partition(b"\n")
        table = read_json_lines(rows, Path(source), describe_source(source), first_line=2)
    return ScoreFile(table, rubrics, _read_provenance(headers))


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


def _read_wide_parquet_files(
    source: str | Path, rubrics_of_file: Mapping[Path, Rubrics], rubrics: Rubrics
) -> Table:
    """Return Parquet files with a column per criterion as one table.

    rubrics: those of all files together. The rubric numbers of each file are replaced by numbers of these.
    """
    path = Path(source)
    frames = []
    for file, file_rubrics in rubrics_of_file.items():
        frame = read_columnar_files([file], path)
        has_numbers = RUBRIC in frame.columns and "group" in frame.columns
        if len(rubrics_of_file) > 1 and has_numbers:
            # A number that this file does not define may be the number of another file's rubric.
            pairs = frame.select("group", RUBRIC).unique(maintain_order=True)
            for group, number in pairs.iter_rows():
                _find_rubric(file_rubrics, [number], group, file)
            new_number = {i: rubrics.index(rubric) for i, rubric in enumerate(file_rubrics)}
            frame = frame.with_columns(pl.col(RUBRIC).replace_strict(new_number))
        frames.append(frame)
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
    row_numbers = pl.Series(range(1, len(frame) + 1), dtype=pl.Int64)
    return Table(path, describe_source(source), frame, row_numbers, "row")


def _rewrite_as_json_lines(
    source: str | Path,
    rubrics_of_file: Mapping[Path, Rubrics],
    rubrics: Rubrics,
    is_long: Mapping[Path, bool],
) -> Table:
    """Return score files of any layout as one table, by way of JSON Lines, which every layout can be written as.

    rubrics: those of all files together. is_long: has the file one row per score?
    """
    lines = []
    for file, file_rubrics in rubrics_of_file.items():
        for row in _read_rollouts(file, file_rubrics, is_long[file]):
            rubric = _find_rubric(file_rubrics, [row.get(RUBRIC)], row.get("group"), file)
            lines.append(json.dumps({**row, RUBRIC: rubrics.index(rubric)}).encode())
    table = read_json_lines(b"\n".join(lines), Path(source), describe_source(source))
    return replace(table, unit="rollout")


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


def _read_rollouts(path: Path, rubrics: Rubrics, is_long: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of one score file, in the form of JSON Lines. is_long: has the file one row per score?"""
    if is_long:
        yield from _read_long_rollouts(path, rubrics)
        return
    rows = read_file_rows(path)
    if format_of(path) == "JSON Lines":
        next(rows)  # the header
        yield from map(dict, rows)
        return
    criterion_columns = set()
    for rubric in rubrics:
        for criterion in rubric:
            criterion_columns |= {criterion.name, criterion.name + REASON_SUFFIX}
    for row in rows:
        rubric = _find_rubric(rubrics, [row.get(RUBRIC)], row.get("group"), path)
        names = [criterion.name for criterion in rubric]
        rollout: dict[str, Any] = {}
        for column, value in row.items():
            if column not in criterion_columns and value is not None:
                rollout[column] = value
        rollout[SCORES] = {name: row[name] for name in names}
        rollout[REASONS] = {name: row[name + REASON_SUFFIX] for name in names}
        yield rollout


def _read_long_rollouts(path: Path, rubrics: Rubrics) -> Iterator[dict[str, Any]]:
    """Yield one object per rollout from a file with one row per score.

    Raises BadTable if rows of a rollout are missing or not in the order of its rubric.
    """
    cells = read_columnar_files([path], path).iter_rows(named=True)
    for (group, rollout, number), rows in groupby(cells, itemgetter("group", "rollout", RUBRIC)):
        scores: dict[str, Any] = {}
        reasons: dict[str, Any] = {}
        # These are the same in all rows of a rollout.
        shared_cells: dict[str, Any] = {}
        names = []
        for row in rows:
            names.append(row["criterion"])
            scores[row["criterion"]] = row["score"]
            reasons[row["criterion"]] = row["reason"]
            for column in (OUTCOMES, PROBABILITIES, DIGEST):
                if row.get(column):
                    shared_cells[column] = row[column]
        rubric = _find_rubric(rubrics, [number], group, path)
        if names != [criterion.name for criterion in rubric]:
            got = f"others for rollout {rollout} of group {group!r}"
            allowed = "a score table with a row for each criterion, in the order of its rubric"
            raise BadTable(str(path), "file", allowed, got, _REMEDY)
        yield {
            "group": group,
            "rollout": rollout,
            RUBRIC: number,
            SCORES: scores,
            REASONS: reasons,
            **shared_cells,
        }


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
        """Return such as "read 512 rollouts in 64 groups (CSV, by uid). Criteria: Facts, Style; not used: tokens."."""
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
        table, row_order = score_file.make_score_table(layout, with_reasons=True)
        if columns.named_criteria is not None:
            table = table.select_criteria(columns.named_criteria)
        attributes = layout.attributes_MD
        if attributes is not None:
            attributes = attributes[row_order]
        return LoadedScores(table, f"scores, {score_file.table.shape}", "group", attributes)
    layout = find_layout(read_table(source, columns), columns, any_order=True)
    criteria = _make_criteria_with_scales(layout)
    frame = layout.table.frame
    ids: list[Any] = [None] * len(frame)
    id_column = next((name for name in ROLLOUT_ID_NAMES if name in frame.columns), None)
    if id_column is not None:
        ids = frame.get_column(id_column).to_list()
    responses: list[str | None] = [None] * len(frame)
    if frame.schema.get("response") == pl.String:
        responses = frame.get_column("response").to_list()
    groups = []
    for label, rows in layout.rows_of_groups.items():
        # A group without any score gets one criterion: a group without criteria could not be fused.
        names = layout.find_scored_names(rows) or list(layout.names[:1])
        rollout_ids = tuple(str(ids[row]) for row in rows)
        # An id that two rollouts share identifies neither; a single rollout needs none.
        has_ids = len(rows) > 1 and len(set(rollout_ids)) == len(rows)
        digests = []
        for row in rows:
            response = responses[row]
            if response is not None:
                digests.append(digest_response(response))
        group = GroupScores(
            str(label),
            tuple(criteria[name] for name in names),
            layout.select_scores(rows, names),
            reasons=(("",) * len(names),) * len(rows),
            # All or none: without its row, a digest cannot be compared with the right response.
            digests=tuple(digests) if len(digests) == len(rows) else (),
            rollout_ids=rollout_ids if has_ids else (),
        )
        groups.append(group)
    attributes = layout.attributes_MD
    if attributes is not None:
        attributes = attributes[np.concatenate(list(layout.rows_of_groups.values()))]
    return LoadedScores(
        ScoreTable(tuple(groups)),
        layout.table.shape,
        "/".join(layout.group_columns),
        attributes,
        layout.left_out,
    )


def _make_criteria_with_scales(layout: Layout) -> dict[str, CriterionData]:
    """Return each criterion of a table by name, with a scale from 0 to 1 that is widened if its scores lie outside."""
    low = dict.fromkeys(layout.names, 0.0)
    high = dict.fromkeys(layout.names, 1.0)
    if layout.scores_MK is not None:
        for k, name in enumerate(layout.names):
            low[name] = float(np.fmin.reduce(layout.scores_MK[:, k], initial=0.0))
            high[name] = float(np.fmax.reduce(layout.scores_MK[:, k], initial=1.0))
    else:
        for scores in layout.table.ragged_scores or ():
            for name, value in scores.items():
                if value is not None and name in low and not math.isnan(value):
                    low[name] = min(low[name], float(value))
                    high[name] = max(high[name], float(value))
    criteria = {}
    for name in layout.names:
        domain = UNIT
        if (low[name], high[name]) != (0.0, 1.0):
            domain = Domain("continuous", (), low[name], high[name])
        criteria[name] = CriterionData(name, domain=domain)
    return criteria


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
    remedy = "Give the file that was graded, with its rows in the same order."
    matched: list[Group] = []
    for scored in table.groups:
        group = groups.get(scored.id)
        if group is None or len(group.rollouts) != len(scored.scores):
            raise InvalidInput(
                owner=owner,
                parameter=f"group {scored.id!r}",
                allowed=f"there, with {len(scored.scores)} rollouts",
                got="no such group" if group is None else f"{len(group.rollouts)} rollouts",
                remedy="Give the file that was graded.",
            )
        for number, rollout in enumerate(group.rollouts):
            # Digests and ids are known for all rollouts of a group or for none.
            if scored.digests and scored.digests[number] != rollout.digest:
                where = f"the response of rollout {number} of group {scored.id!r}"
                allowed = "the one that was scored"
                raise InvalidInput(owner, where, allowed, "another text", remedy)
        for number, rollout in enumerate(group.rollouts):
            cells = [rollout.metadata.get(name) for name in ROLLOUT_ID_NAMES]
            ids = [str(cell) for cell in cells if cell is not None]
            if scored.rollout_ids and ids and scored.rollout_ids[number] not in ids:
                where = f"rollout {number} of group {scored.id!r}"
                allowed = f"{scored.rollout_ids[number]!r}, as in the scores"
                raise InvalidInput(owner, where, allowed, repr(ids[0]), remedy)
        matched.append(group)
    return matched
