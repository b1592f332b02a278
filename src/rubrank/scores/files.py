"""Score tables from files, as `writing.py` writes them: scores, reasons, and what each criterion is.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rubrank._files import existing_file, in_our_words_of, open_bytes, wrong_suffix
from rubrank.errors import BadTable, only_our_errors
from rubrank.judges.judgments import Provenance
from rubrank.scores.criterion import SLACK, CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.scores.writing import OUTCOMES, REASON, SUFFIXES, VERSION
from rubrank.verifiers.verifier import Domain

_GLANCE = 64  # bytes in which a header gives itself away; the first line of another table may be long


@only_our_errors
def read_scores(path: str | Path) -> ScoreTable:
    """The table that `ScoreTable.write` wrote."""
    path = Path(path)
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
    """One row per score, not one per rollout?"""


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
        with in_our_words_of(path), open_bytes(path) as file:
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


def _provenance(header: Mapping[str, Any]) -> Provenance | None:
    return Provenance.of_dict(header["judging"]) if header.get("judging") else None


def _read_header(data: Any, path: Path) -> list[tuple[CriterionData, ...]]:
    if not isinstance(data, Mapping) or data.get("rubrank") != "scores" or data.get("version") != VERSION:
        raise BadTable(
            str(path),
            "file",
            f"a score table of version {VERSION}",
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
        if rubric < 0 or rubric != found[0]:
            raise ValueError(f"the rows of group {id!r} are of the rubrics {found[0]} and {rubric}")
        for column, cell in zip(found[1:], (scores, tuple(reasons), compared), strict=True):
            column.append(cell)  # type: ignore[attr-defined]
    return ScoreTable(tuple(_group(id, rubrics[rubric], *cells) for id, (rubric, *cells) in groups.items()))


def _group(id: str, criteria: tuple[CriterionData, ...], scores: Any, reasons: Any, compared: Any) -> GroupScores:
    matrix = np.array(scores, dtype=float).reshape(len(scores), -1)
    return GroupScores(id, criteria, matrix, tuple(reasons), read_outcomes(compared))


# ---------------------------------------------------------------------------------------------------------- Parquet


def _read_parquet(path: Path) -> ScoreTable:
    import polars

    try:
        header = json.loads(polars.read_parquet_metadata(path).get("rubrank", "null"))
        rubrics = _read_header(header, path)
        frame = polars.read_parquet(path, glob=False)
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
    """One row per score → one per rollout; the rows of a rollout stand together, in the order of its criteria."""
    scores: list[float] = []
    reasons: list[str] = []
    begun: tuple[Any, ...] = ()
    names: list[str] = []
    for row in rows:
        of = row["group"], row["rollout"], row["rubric"]
        if not scores:
            begun, names = of, [criterion.name for criterion in rubrics[row["rubric"]]]
        if of != begun or row["criterion"] != names[len(scores)]:
            raise ValueError(f"{row['criterion']!r} of group {row['group']!r} is not where it was written")
        scores.append(math.nan if row["score"] is None else row["score"])
        reasons.append(row["reason"])
        if len(scores) == len(names):
            yield row["group"], row["rubric"], scores, reasons, row.get(OUTCOMES)
            scores, reasons = [], []
    if scores:
        raise ValueError(f"the last rollout of group {begun[0]!r} has no {names[len(scores)]!r}")
