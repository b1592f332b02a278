"""Score tables as files, so that nothing is lost: scores, reasons, and what each criterion is.

JSON Lines: one object per rollout,

    {"group": "q7", "rollout": 0, "rubric": 0, "scores": {"WordCount": 1.0}, "reasons": {"WordCount": "312 words …"}}

after a first line {"rubrank": "scores", "version": 1, "rubrics": [[{criterion} …] …]}; a missing score is null.
Parquet: a row per rollout with the columns group, rollout, rubric, and for every criterion its score and `… (reason)`;
the rubrics are in the file's metadata under "rubrank". With very many criteria (each query has its own), a row per
score: group, rollout, rubric, criterion, score, reason. Where responses were compared instead of scored, a row has
`outcomes` too, a JSON text: {"GeneralQuality": [null, 1.0, 0.5]}, this rollout against each of its group.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from rubrank._files import existing_file, in_our_words_of, replacing, wrong_suffix
from rubrank.errors import BadTable
from rubrank.judges.judging import Provenance
from rubrank.scores.criterion import SLACK, CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import Domain

_VERSION = 1
_KEYS = ("group", "rollout", "rubric")
REASON = " (reason)"
OUTCOMES = "outcomes"
_WIDEST = 500
_GLANCE = 64  # bytes in which a header gives itself away; the first line of another table may be long
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")


def write_scores(table: ScoreTable, path: Path) -> None:
    """By suffix; the file appears when it is complete."""
    if not path.name.endswith(SUFFIXES):
        raise wrong_suffix(path, SUFFIXES)
    with replacing(path) as partial:
        if path.suffix == ".parquet":
            _write_parquet(table, partial)
        else:
            _write_jsonl(table, partial, path.suffix == ".gz")


def read_scores(path: Path) -> ScoreTable:
    """A file that `write_scores` wrote."""
    existing_file(path, error_type=BadTable)
    if path.suffix == ".parquet":
        return _within_domains(_read_parquet(path), path)
    if path.name.endswith(SUFFIXES[1:]):
        with in_our_words_of(path):
            return _within_domains(_read_jsonl(path), path)
    raise wrong_suffix(path, SUFFIXES)


def _within_domains(table: ScoreTable, path: Path) -> ScoreTable:
    """The table, whose scores must be possible ones: a file can be edited."""
    ends: dict[tuple[CriterionData, ...], Any] = {}
    for group in table:
        if group.criteria not in ends:
            domains = [criterion.domain for criterion in group.criteria]
            ends[group.criteria] = np.array([[d.low - SLACK, d.high + SLACK] for d in domains]).T
        low, high = ends[group.criteria]
        outside = np.argwhere((group.scores < low) | (group.scores > high))
        if len(outside):
            i, k = outside[0]
            domain = group.criteria[k].domain
            where = f"the score of rollout {i} of group {group.id!r} on {group.names[k]!r}"
            allowed = f"from {domain.low:g} to {domain.high:g}, its domain"
            raise BadTable(str(path), where, allowed, f"{group.scores[i, k]:g}", "Write the file with `rubrank grade`.")
    return table


# ---------------------------------------------------------------------------------------------------------- rubrics


@dataclass(frozen=True)
class Header:
    """What a score file says about itself."""

    rubrics: tuple[tuple[CriterionData, ...], ...]
    """The criteria of each rubric, by the numbers that the rows use."""
    long: bool
    """One row per score, not one a rollout?"""


def read_header(path: Path) -> Header | None:
    """The header of a file that `write_scores` wrote; None: another table, or a file that its reader will refuse."""
    data = _parquet_header(path) if path.suffix == ".parquet" else _first_line(path)
    if not isinstance(data, Mapping) or data.get("rubrank") != "scores":
        return None
    try:
        return Header(tuple(_read_header(data, path)), data.get("layout") == "long")
    except (KeyError, TypeError, ValueError) as error:
        raise _no_scores(path, error) from None


def _parquet_header(path: Path) -> Any:
    import polars

    try:
        return json.loads(polars.read_parquet_metadata(path).get("rubrank", "null"))
    except (polars.exceptions.PolarsError, OSError, ValueError):
        return None


def _first_line(path: Path) -> Any:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            start = file.readline(_GLANCE)
            if b'"rubrank"' not in start:
                return None
            return json.loads(start if start.endswith(b"\n") else start + file.readline())
    except (OSError, EOFError, zlib.error, ValueError):
        return None


def _no_scores(path: Path, error: Exception) -> BadTable:
    if isinstance(error, BadTable):
        return error
    return BadTable(str(path), "file", "a score table", repr(error), "Write it with ScoreTable.write.")


def _rubrics(table: ScoreTable) -> dict[tuple[CriterionData, ...], int]:
    """The different lists of criteria, numbered."""
    found: dict[tuple[CriterionData, ...], int] = {}
    for group in table:
        found.setdefault(group.criteria, len(found))
    return found


def _header(table: ScoreTable, rubrics: Iterable[tuple[CriterionData, ...]]) -> dict[str, Any]:
    known = {} if table.provenance is None else {"judging": table.provenance.as_dict()}
    listed = [[asdict(criterion) for criterion in rubric] for rubric in rubrics]
    return {"rubrank": "scores", "version": _VERSION, "rubrics": listed, **known}


def _provenance(header: Mapping[str, Any]) -> Provenance | None:
    return Provenance.of_dict(header["judging"]) if header.get("judging") else None


def _read_header(data: Any, path: Path) -> list[tuple[CriterionData, ...]]:
    if not isinstance(data, Mapping) or data.get("rubrank") != "scores" or data.get("version") != _VERSION:
        raise BadTable(
            str(path),
            "file",
            f"a score table of version {_VERSION}",
            "something else",
            "Write it with ScoreTable.write.",
        )
    return [tuple(_criterion(criterion) for criterion in rubric) for rubric in data["rubrics"]]


def _criterion(data: Mapping[str, Any]) -> CriterionData:
    domain = data["domain"]
    return CriterionData(
        **{
            **data,
            "domain": Domain(domain["kind"], tuple(domain["values"]), domain["low"], domain["high"]),
            "depends": tuple((on, kind) for on, kind in data["depends"]),
        }
    )


# ------------------------------------------------------------------------------------------------------- JSON Lines


def _write_jsonl(table: ScoreTable, path: Path, compressed: bool) -> None:
    rubrics = _rubrics(table)
    with gzip.open(path, "wt", encoding="utf-8") if compressed else path.open("w", encoding="utf-8") as file:
        _line(file, _header(table, rubrics))
        for group in table:
            for i in range(len(group.scores)):
                _line(file, _as_object(group, i, rubrics[group.criteria]))


def _line(file: IO[str], data: Any) -> None:
    # A lone surrogate in a name or reason cannot be written as UTF-8; escaped it can.
    text = json.dumps(data, ensure_ascii=False)
    file.write((text if text.isprintable() else json.dumps(data)) + "\n")


def _as_object(group: GroupScores, i: int, rubric: int) -> dict[str, Any]:
    compared = {OUTCOMES: outcomes_text(group, i)} if group.outcomes else {}
    return {
        "group": group.id,
        "rollout": i,
        "rubric": rubric,
        "scores": dict(zip(group.names, _with_nulls(group.scores[i]), strict=True)),
        "reasons": dict(zip(group.names, group.reasons[i], strict=True)),
        **compared,
    }


def _with_nulls(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(x) else x for x in values.tolist()]


def outcomes_text(group: GroupScores, i: int) -> str | None:
    """Rollout i against the others, on the criteria on which responses were compared."""
    if not group.outcomes:
        return None
    return json.dumps({name: _with_nulls(won[i]) for name, won in group.outcomes.items()}, ensure_ascii=False)


def read_outcomes(texts: Iterable[str | None]) -> dict[str, np.ndarray]:
    """The outcomes of a group from the texts of its rows."""
    rows = [json.loads(text) for text in texts if text]
    return {name: np.array([row[name] for row in rows], dtype=float) for name in (rows[0] if rows else ())}


def _read_jsonl(path: Path) -> ScoreTable:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        try:
            lines = (json.loads(line) for line in file if line.strip())
            header = next(lines, None)
            rubrics = _read_header(header, path)
            return replace(_collected(_from_objects(lines, rubrics), rubrics), read=_provenance(header or {}))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _no_scores(path, error) from None


_Cells = tuple[str, int, list[float], list[str], str | None]
"""Group, number of its rubric, scores, reasons, and the text of outcomes, of one rollout."""


def _from_objects(rows: Iterable[Mapping[str, Any]], rubrics: list[tuple[CriterionData, ...]]) -> Iterator[_Cells]:
    for row in rows:
        names = [criterion.name for criterion in rubrics[row["rubric"]]]
        scores = [math.nan if row["scores"][name] is None else float(row["scores"][name]) for name in names]
        yield row["group"], row["rubric"], scores, [row["reasons"][name] for name in names], row.get(OUTCOMES)


def _collected(rows: Iterable[_Cells], rubrics: list[tuple[CriterionData, ...]]) -> ScoreTable:
    """Rows of a group stand together, in their order."""
    groups: dict[str, tuple[int, list[list[float]], list[tuple[str, ...]], list[str | None]]] = {}
    for id, rubric, scores, reasons, compared in rows:
        found = groups.setdefault(id, (rubric, [], [], []))
        for column, cell in zip(found[1:], (scores, tuple(reasons), compared), strict=True):
            column.append(cell)  # type: ignore[attr-defined]
    return ScoreTable(tuple(_group(id, rubrics[rubric], *cells) for id, (rubric, *cells) in groups.items()))


def _group(id: str, criteria: tuple[CriterionData, ...], scores: Any, reasons: Any, compared: Any) -> GroupScores:
    matrix = np.array(scores, dtype=float).reshape(len(scores), -1)
    return GroupScores(id, criteria, matrix, tuple(reasons), read_outcomes(compared))


# ---------------------------------------------------------------------------------------------------------- Parquet


def _write_parquet(table: ScoreTable, path: Path) -> None:
    rubrics = _rubrics(table)
    wide = _fits_wide(table)
    frame = _wide(table, rubrics) if wide else _long(table, rubrics)
    header = {**_header(table, rubrics), "layout": "wide" if wide else "long"}
    frame.write_parquet(path, metadata={"rubrank": json.dumps(header)})


def _fits_wide(table: ScoreTable) -> bool:
    names = [*_KEYS, OUTCOMES, *table.criteria, *(name + REASON for name in table.criteria)]
    return len(table.criteria) <= _WIDEST and len(set(names)) == len(names)


def _keys(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> dict[str, Any]:
    rubric = [rubrics[group.criteria] for group in table for _ in range(len(group.scores))]
    return {"group": table.group_ids, "rollout": table.rollout_numbers, "rubric": rubric}


def _wide(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> Any:
    import polars

    columns: dict[str, Any] = _keys(table, rubrics)
    for k, name in enumerate(table.criteria):
        columns[name] = polars.Series(name, table.scores[:, k], nan_to_null=True)
        columns[name + REASON] = polars.Series(name + REASON, list(_reasons(table, name)), dtype=polars.String)
    if any(group.outcomes for group in table):
        compared = [outcomes_text(group, i) for group in table for i in range(len(group.scores))]
        columns[OUTCOMES] = polars.Series(OUTCOMES, compared, dtype=polars.String)
    return polars.DataFrame(columns, schema_overrides={"group": polars.String, "rollout": polars.Int64})


def _reasons(table: ScoreTable, name: str) -> Iterator[str | None]:
    for group in table:
        at = group.names.index(name) if name in group.names else None
        for reasons in group.reasons:
            yield None if at is None else clean(reasons[at])


def clean(text: str) -> str:
    """Without lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _long(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> Any:
    import polars

    rows = [
        (group.id, i, rubrics[group.criteria], name, x, clean(reason), outcomes_text(group, i))
        for group in table
        for i in range(len(group.scores))
        for name, x, reason in zip(group.names, _with_nulls(group.scores[i]), group.reasons[i], strict=True)
    ]
    schema = {"group": polars.String, "rollout": polars.Int64, "rubric": polars.Int64, "criterion": polars.String}
    more = {"score": polars.Float64, "reason": polars.String, OUTCOMES: polars.String}
    return polars.DataFrame(rows, schema={**schema, **more}, orient="row")


def _read_parquet(path: Path) -> ScoreTable:
    import polars

    try:
        header = json.loads(polars.read_parquet_metadata(path).get("rubrank", "null"))
        rubrics = _read_header(header, path)
        frame = polars.read_parquet(path)
        reshape = _from_wide if header["layout"] == "wide" else _from_long
        table = _collected(reshape(frame.iter_rows(named=True), rubrics), rubrics)
        return replace(table, read=_provenance(header or {}))
    except (polars.exceptions.PolarsError, ValueError, KeyError, TypeError, IndexError) as error:
        raise _no_scores(path, error) from None


def _from_wide(rows: Iterable[Mapping[str, Any]], rubrics: list[tuple[CriterionData, ...]]) -> Iterator[_Cells]:
    for row in rows:
        names = [criterion.name for criterion in rubrics[row["rubric"]]]
        scores = [math.nan if row[name] is None else row[name] for name in names]
        yield row["group"], row["rubric"], scores, [row[name + REASON] for name in names], row.get(OUTCOMES)


def _from_long(rows: Iterable[Mapping[str, Any]], rubrics: list[tuple[CriterionData, ...]]) -> Iterator[_Cells]:
    """One row per score → one a rollout; the rows of a rollout stand together, in the order of its criteria."""
    scores: list[float] = []
    reasons: list[str] = []
    for row in rows:
        scores.append(math.nan if row["score"] is None else row["score"])
        reasons.append(row["reason"])
        if len(scores) == len(rubrics[row["rubric"]]):
            yield row["group"], row["rubric"], scores, reasons, row.get(OUTCOMES)
            scores, reasons = [], []
