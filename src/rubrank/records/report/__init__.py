"""One HTML file to look at a run: every criterion, gate, attribute, rule and group of a file of records.

    summary = write_report("records.jsonl", "report.html")
    summary.groups, summary.bytes, summary.text_limit        10000, 21_300_000, 4000

The file is whole in itself: no network, no server; it opens from disk. Responses are data to it and never markup.
Records are read once, one by one; what the page shows of all groups is computed here, what it shows of one group is
packed, compressed, and unpacked by the browser when shown.

    parts/          one file for each part of the page: takes groups one by one, gives plain data
    packing.py      groups → compressed chunks within a budget
    page.py         data + assets/ → HTML
    assets/         the page: HTML, CSS, JavaScript
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubrank.errors import only_our_errors

if TYPE_CHECKING:
    from rubrank.records.record import GroupRecord

__all__ = ["ReportSummary", "write_report"]

TEXT_LIMIT = 4000
BUDGET_MB = 50.0


@dataclass(frozen=True)
class ReportSummary:
    """What went into a report."""

    path: Path
    groups: int
    rollouts: int
    criteria: int
    steps: int
    bytes: int
    """Size of the file."""
    text_limit: int
    """Characters that each text was cut to: the limit asked for, or what the budget left of it."""
    cut_texts: int
    """Responses, thoughts and messages of prompts that were cut."""


@only_our_errors
def write_report(
    records: Iterable[GroupRecord] | str | Path,
    output: str | Path,
    *,
    title: str | None = None,
    text_limit: int = TEXT_LIMIT,
    budget_mb: float = BUDGET_MB,
    measure: bool = True,
    evaluation: Mapping[str, Any] | None = None,
) -> ReportSummary:
    """Write the report of records, or of a file of them, to one HTML file.

    text_limit: characters kept of each response, reasoning and message; what is cut is marked.
    budget_mb: size that the groups' data may take in the file; beyond it, texts are cut shorter. Numbers are never cut.
    measure: count words and Markdown of the responses where the records hold them.
    evaluation: a capability table, as `rubrank.evaluation.reporting.report_data` makes it of scored runs.
    """
    from rubrank.records.report.making import make

    return make(records, Path(output), title, text_limit, budget_mb, measure, evaluation)
