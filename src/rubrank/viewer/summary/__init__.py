"""Compute the figures over all groups of a run that the page's summary shows.

    summary = RunSummary()
    for group, _ in read_groups(records):
        summary.add(group)
    summary.summarize()            {"overview": {…}, "criteria": {…}, "conflicts": {…}, "attributes": {…}, …}

Every part has the same two methods: `add` takes one group after the other and keeps sums, `summarize` returns plain
data. NaN means that there is nothing to say; the page gets null.

    overview.py         counts, what judges cost; gates; how rules differ
    criteria.py         what each criterion did, and which criteria pull against each other
    attributes.py       γ, and how rewards go with length and Markdown
    group_arrays.py     one record as arrays
    figures.py          means with intervals, distributions, counts of reasons
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
    """All parts of the summary of one run."""

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

    def summarize(self, rubric_findings: Sequence[Finding] = ()) -> dict[str, Any]:
        """Return all parts by name, as numbers that JSON can hold.

        rubric_findings: what `lint` found in the words of the rubric; listed with the findings about scores.
        """
        findings = [*lint_counts(self.findings), *rubric_findings]
        findings.sort(key=lambda finding: -finding.severity)
        result = {
            "overview": self.overview.summarize(),
            "criteria": self.criteria.summarize(),
            "conflicts": self.conflicts.summarize(),
            "attributes": {
                "gamma": self.gamma.summarize(),
                "correlation": self.correlation.summarize(),
            },
            "gates": self.gates.summarize(),
            "rules": self.rules.summarize(),
            "findings": [finding.to_dict() for finding in findings],
        }
        plain: dict[str, Any] = to_plain_numbers(result)
        return plain


def read_groups(
    records: Iterable[GroupRecord], measure: bool = True
) -> Iterator[tuple[GroupArrays, dict[str, Any]]]:
    """Yield every record as arrays, with attribute → (G,) of what was measured on its responses.

    measure: count words and Markdown of the responses; otherwise the second value is empty.
    """
    remaining = iter(records)
    while batch := list(islice(remaining, _MEASURED_TOGETHER)):
        measured = _measure_responses(batch) if measure else [{} for _ in batch]
        for record, columns in zip(batch, measured, strict=True):
            yield GroupArrays(record, columns), columns


def _measure_responses(records: list[GroupRecord]) -> list[dict[str, np.ndarray]]:
    """Return attribute → (G,) for every record; empty for a record without responses."""
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
    """Return a copy that JSON can hold: NumPy numbers become Python's, with nine digits, NaN and infinity None."""
    if isinstance(data, dict):
        return {str(key): to_plain_numbers(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_plain_numbers(item) for item in data]
    if isinstance(data, float | np.floating):
        return float(f"{data:.9g}") if math.isfinite(data) else None
    if isinstance(data, np.integer):
        return int(data)
    return data
