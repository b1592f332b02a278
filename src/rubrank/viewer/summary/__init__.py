"""Figures over all groups of a run, for the page's summary.

    summary = RunSummary()
    for group, _ in read_groups(records):
        summary.add(group)
    summary.result()            {"overview": {…}, "criteria": {…}, "conflicts": {…}, "attributes": {…}, …}

Results are plain data. NaN means that there is nothing to say; the page gets null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rubrank.drafting.lint import lint_counts
from rubrank.records.findings import Finding, FindingCounts
from rubrank.records.record import GroupRecord
from rubrank.viewer.summary.attributes import CorrelationSummary, GammaSummary
from rubrank.viewer.summary.criteria import ConflictSummary, CriteriaSummary
from rubrank.viewer.summary.group_arrays import GroupArrays
from rubrank.viewer.summary.overview import GateSummary, Overview, RuleSummary

__all__ = ["GroupArrays", "RunSummary", "read_groups", "to_plain_numbers"]

_MEASURED_TOGETHER = 128  # groups whose texts are measured at once


class RunSummary:
    """All parts of the summary."""

    def __init__(self) -> None:
        self.overview = Overview()
        self.criteria = CriteriaSummary()
        self.conflicts = ConflictSummary()
        self.gamma = GammaSummary()
        self.correlation = CorrelationSummary()
        self.gates = GateSummary()
        self.rules = RuleSummary()
        self.findings = FindingCounts()

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        self.overview.add(group)
        self.criteria.add(group)
        self.conflicts.add(group)
        self.gamma.add(group)
        self.correlation.add(group)
        self.gates.add(group)
        self.rules.add(group)
        self.findings.add(group.record)

    def result(self, rubric_findings: Sequence[Finding] = ()) -> dict[str, Any]:
        """All parts by name, as numbers that JSON can hold. rubric_findings: those about the words of the rubric."""
        findings = [*lint_counts(self.findings), *rubric_findings]
        findings.sort(key=lambda finding: -finding.severity)
        result = {
            "overview": self.overview.result(),
            "criteria": self.criteria.result(),
            "conflicts": self.conflicts.result(),
            "attributes": {"gamma": self.gamma.result(), "correlation": self.correlation.result()},
            "gates": self.gates.result(),
            "rules": self.rules.result(),
            "findings": [finding.to_dict() for finding in findings],
        }
        plain: dict[str, Any] = to_plain_numbers(result)
        return plain


def read_groups(
    records: Iterable[GroupRecord], measure: bool = True
) -> Iterator[tuple[GroupArrays, dict[str, Any]]]:
    """Return every record as arrays, with what was measured on its responses: words and Markdown, if `measure`."""
    remaining = iter(records)
    while some := list(islice(remaining, _MEASURED_TOGETHER)):
        measured = _measure_responses(some) if measure else [{} for _ in some]
        for record, columns in zip(some, measured, strict=True):
            yield GroupArrays(record, columns), columns


def _measure_responses(records: list[GroupRecord]) -> list[dict[str, np.ndarray]]:
    """Attribute → (G,) for every record; empty for a record without responses."""
    from rubrank.fusion.control.length import lengths
    from rubrank.fusion.control.markdown import MARKERS, markdown_density

    answers: list[str] = []
    thoughts: list[str] = []
    for record in records:
        if record.responses is not None:
            answers.extend(record.responses)
            thoughts.extend(record.reasoning or ("",) * record.size)
    if not answers:
        return [{} for _ in records]
    length = lengths(answers, reasoning=thoughts)
    density = markdown_density(answers)
    columns = {"answer words": length.answer, "reasoning words": length.reasoning}
    for d, marker in enumerate(MARKERS):
        columns[f"Markdown: {marker.replace('_', ' ')}"] = density[:, d]
    measured: list[dict[str, np.ndarray]] = []
    start = 0
    for record in records:
        if record.responses is None:
            measured.append({})
            continue
        rows = slice(start, start + record.size)
        measured.append(
            {name: np.asarray(values[rows], dtype=float) for name, values in columns.items()}
        )
        start += record.size
    return measured


def to_plain_numbers(data: Any) -> Any:
    """NumPy numbers as Python's, NaN and infinity as None: what JSON can hold."""
    if isinstance(data, dict):
        return {str(key): to_plain_numbers(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_plain_numbers(item) for item in data]
    if isinstance(data, float | np.floating):
        return float(f"{data:.9g}") if math.isfinite(data) else None
    if isinstance(data, np.integer):
        return int(data)
    return data
