"""Records → parts and packed groups → the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.records.files import read_records
from rubrank.records.record import GroupRecord
from rubrank.records.report import ReportSummary
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.packing import Packed, Packer
from rubrank.records.report.page import write_page
from rubrank.records.report.parts.attributes import AttributesPart
from rubrank.records.report.parts.conflicts import Conflicts
from rubrank.records.report.parts.criteria import Criteria
from rubrank.records.report.parts.curves import Curves
from rubrank.records.report.parts.gates import Gates
from rubrank.records.report.parts.overview import Overview
from rubrank.records.report.parts.rules import Rules
from rubrank.records.report.steps import Bins

_AT_ONCE = 128  # groups whose texts are measured together


def make(
    records: Iterable[GroupRecord] | str | Path,
    output: Path,
    title: str | None,
    text_limit: int,
    budget_mb: float,
    measure: bool,
    evaluation: Mapping[str, Any] | None = None,
) -> ReportSummary:
    """Read, count, pack, write."""
    _check(text_limit, budget_mb)
    source = str(records) if isinstance(records, str | Path) else None
    found = read_records(records) if isinstance(records, str | Path) else iter(records)
    parts, packer = ReportParts(), Packer(text_limit, budget_mb * 1e6)
    for group in _grouped(found, measure):
        parts.add(group)
        packer.add(group)
    if not packer.rows:
        raise InvalidInput("write_report", "records", "at least one group", "none", "Write some with write_records.")
    packed = packer.finish()
    about = {"packing": _packing(packed, text_limit), "source": source and Path(source).name, "evaluation": evaluation}
    data = shortened_numbers({**parts.result(), **about})
    size = write_page(output, title or _title(source), data, packed)
    overview = data["overview"]
    return ReportSummary(
        output,
        overview["groups"],
        overview["rollouts"],
        overview["criteria"],
        overview["steps"],
        size,
        packed.text_limit,
        packed.cut_texts,
    )


class ReportParts:
    """All parts of a report."""

    def __init__(self) -> None:
        self.overview, self.criteria, self.conflicts = Overview(), Criteria(), Conflicts()
        self.attributes, self.gates, self.rules, self.curves = AttributesPart(), Gates(), Rules(), Curves()

    def add(self, group: Grouped) -> None:
        """Show a group to every part."""
        for part in (self.overview, self.criteria, self.conflicts, self.attributes, self.gates, self.rules):
            part.add(group)
        self.curves.add(group)

    def result(self) -> dict[str, Any]:
        """By name, as the page reads them."""
        bins = Bins(self.overview.steps)
        whole = ("overview", "criteria", "conflicts", "gates", "rules")
        return {
            **{name: getattr(self, name).result() for name in whole},
            "attributes": self.attributes.result(bins),
            "curves": self.curves.result(bins),
        }


def shortened_numbers(data: Any) -> Any:
    """NumPy's numbers as Python's, NaN and infinity as None: what JSON can hold."""
    if isinstance(data, dict):
        return {str(key): shortened_numbers(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [shortened_numbers(item) for item in data]
    if isinstance(data, float | np.floating):
        return float(f"{data:.9g}") if math.isfinite(data) else None
    return int(data) if isinstance(data, np.integer) else data


def _grouped(records: Iterator[GroupRecord], measure: bool) -> Iterator[Grouped]:
    while some := list(islice(records, _AT_ONCE)):
        yield from _measured(some) if measure else map(Grouped.of, some)


def _measured(records: list[GroupRecord]) -> Iterator[Grouped]:
    """Words and Markdown of all responses that are there, many at once."""
    from rubrank.fusion.control.length import lengths
    from rubrank.fusion.control.markdown import MARKERS, markdown_density

    answers = [text for record in records for text in record.responses or ()]
    thoughts = [text for r in records if r.responses is not None for text in r.reasoning or ("",) * r.size]
    columns = [np.zeros((0, 0))]
    names: tuple[str, ...] = ()
    if answers:
        length = lengths(answers, reasoning=thoughts)
        names = ("answer words", "reasoning words", *(f"Markdown: {name.replace('_', ' ')}" for name in MARKERS))
        columns = [length.answer[:, None], length.reasoning[:, None], markdown_density(answers)]
    values, start = np.concatenate(columns, axis=1), 0
    for record in records:
        if record.responses is None:
            yield Grouped.of(record)
            continue
        yield Grouped.of(record, names, values[start : start + record.size])
        start += record.size


def _check(text_limit: int, budget_mb: float) -> None:
    if text_limit < 0:
        raise InvalidInput(
            "write_report", "text_limit", "at least 0 characters", str(text_limit), "0 leaves texts out."
        )
    if not budget_mb > 0.0:
        raise InvalidInput("write_report", "budget_mb", "more than 0", str(budget_mb), "50 opens quickly everywhere.")


def _packing(packed: Packed, asked: int) -> dict[str, Any]:
    return {"text_limit": packed.text_limit, "asked": asked, "cut_texts": packed.cut_texts}


def _title(source: str | None) -> str:
    return "rubrank report" if source is None else f"rubrank report: {Path(source).name}"
