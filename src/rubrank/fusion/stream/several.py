"""Several files as one table: CSV and TSV by the names of their columns, score files with the rubrics of all of them.

    scores/a.parquet  rubrics 0: [Facts, Style]                   numbered anew over all files:
    scores/b.parquet  rubrics 0: [Facts], 1: [Facts, Style]   →   0: [Facts, Style], 1: [Facts]; those of b are 1 and 0

A score file brings weights, directions and gates; without them its rewards would be others, and nobody would be told.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrank._files import open_text
from rubrank.errors import BadTable
from rubrank.fusion.stream.graded import LongScores
from rubrank.fusion.stream.names import REASONS, RUBRIC, SCORES, Rubrics
from rubrank.fusion.stream.readers import Csv, JsonLines, Parquet, Reader
from rubrank.rollouts.rows import file_rows
from rubrank.scores.files import Header, read_header
from rubrank.scores.writing import OUTCOMES, REASON


def joined_csv(files: Sequence[Path], source: Path, folder: Callable[[], Path]) -> Reader | None:
    """The rows of all files in one, which has the columns of all of them; None where there is no row."""
    kept, columns = folder() / "rows.csv", dict.fromkeys(name for path in files for name in _header(path))
    with kept.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
        writer.writeheader()
        number = 0
        for path in files:
            for row in file_rows(path):
                writer.writerow(row)
                number += 1
    return Csv(source, at=kept) if number else None


def _header(path: Path) -> list[str]:
    separator = "\t" if ".tsv" in (part.lower() for part in path.suffixes) else ","
    with open_text(path) as file:
        return next(csv.reader(file, delimiter=separator), [])


def joined_scores(files: Sequence[Path], source: Path, folder: Callable[[], Path]) -> Reader | None:
    """Score files with all their rubrics; None if they are none."""
    headers = [read_header(path) for path in files]
    known = [header for header in headers if header is not None]
    if not known:
        return None
    if len(known) < len(files):
        other = next(path for path, header in zip(files, headers, strict=True) if header is None)
        got = f"{other.name}, which brings no rubric, among others"
        raise BadTable(str(source), "the files", "all score files of `rubrank grade`, or none", got, "")
    rubrics = tuple(dict.fromkeys(rubric for header in known for rubric in header.rubrics))
    if not rubrics:
        raise BadTable(str(source), "the table", "at least one row", "none", "")
    numbers = [{i: rubrics.index(rubric) for i, rubric in enumerate(header.rubrics)} for header in known]
    if all(path.suffix == ".parquet" and not header.long for path, header in zip(files, known, strict=True)):
        return Parquet(source, rubrics, files, numbers)
    return JsonLines(source, rubrics, _as_lines(files, known, numbers, folder() / "scores.jsonl"))


def _as_lines(files: Sequence[Path], headers: Sequence[Header], numbers: Sequence[dict[int, int]], kept: Path) -> Path:
    with kept.open("w", encoding="utf-8", errors="surrogatepass") as file:
        file.write("{}\n")  # in the place of the header, which is read already
        for path, header, number in zip(files, headers, numbers, strict=True):
            for row in _rows(path, header):
                file.write(json.dumps({**row, RUBRIC: number.get(row[RUBRIC], row[RUBRIC])}) + "\n")
    return kept


def _rows(path: Path, header: Header) -> Iterator[Mapping[str, Any]]:
    if header.long:
        reader = LongScores(path, header.rubrics)
        yield from (json.loads(line) for block in reader.objects() for line in block.splitlines())
    elif path.suffix == ".parquet":
        yield from (_object(row, header.rubrics) for row in file_rows(path))
    else:
        rows = file_rows(path)
        next(rows)
        yield from rows


def _object(row: Mapping[str, Any], rubrics: Rubrics) -> dict[str, Any]:
    """A row with columns of its criteria as an object."""
    names = [criterion.name for criterion in rubrics[row[RUBRIC]]]
    own = {name + end for rubric in rubrics for c in rubric for name in (c.name,) for end in ("", REASON)}
    return {
        **{name: x for name, x in row.items() if name not in own and (x is not None or name != OUTCOMES)},
        SCORES: {name: row[name] for name in names},
        REASONS: {name: row[name + REASON] for name in names},
    }
