"""The result of an audit: as data, and as tables of text.

{"judge": "main", "criterion": "Clarity", "gamma": {"value": 1.2, "low": 0.9, "high": 1.5, "n": 96}, …}      JSON

agreement              kappa              alpha              tau in groups      tau                  a table
main, ranker           0.62 [0.60, 0.64]  0.57 [0.54, 0.59]  0.54 [0.52, 0.56]  0.54 [0.52, 0.56]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rubrank._plain import plain
from rubrank.studies.statistics import Estimate

HUMANS = "humans"
"""The name of the human labels among the raters."""


@dataclass(frozen=True)
class Coverage:
    """What a judge was asked, and how much of it was answered or tied; criterion None: all of them."""

    judge: str
    criterion: str | None
    asked: int
    missing: int
    ties: Estimate
    """Share of the pairs within groups that tie; n counts pairs."""
    all_tied: int
    """Groups in which all rollouts tie."""


@dataclass(frozen=True)
class Consistency:
    """Agreement of a judge with itself when asked again; criterion None: all of them."""

    judge: str
    criterion: str | None
    runs: int
    identical: Estimate
    """Share of identical verdicts, over every two runs."""
    alpha: Estimate
    """Krippendorff's, ordinal, with the runs as raters."""
    deviation: Estimate
    """Standard deviation of scores about the same response, in units of the criterion's scale. NaN for all criteria
    together, and if responses were compared. The option `retest` of soft outcomes takes it. n counts the scores of a
    response beyond its first."""


@dataclass(frozen=True)
class Position:
    """Wins of the response shown first; criterion None: all of them."""

    judge: str
    criterion: str | None
    first: Estimate
    """Share of wins, with ties as half a win; 0.5 = no bias; n counts comparisons."""


@dataclass(frozen=True)
class Bias:
    """How one attribute goes with winning; criterion None: the mean over all of them."""

    judge: str
    criterion: str | None
    attribute: str
    gamma: Estimate
    odds: Estimate
    """Odds that a response with twice as much of the attribute wins, in a group of typical spread, all else equal."""
    wins: Estimate
    """Share of pairs that the response with more of the attribute won, ties counted half; 0.5 = no bias."""
    excess: Estimate | None = None
    """γ of the judge minus γ of the humans."""


@dataclass(frozen=True)
class Agreement:
    """Two raters on one criterion; criterion None: the mean over all of them."""

    a: str
    b: str
    criterion: str | None
    kappa: Estimate
    """Cohen's, with quadratic weights."""
    alpha: Estimate
    """Krippendorff's, ordinal."""
    tau_within: Estimate
    """Mean of Kendall's tau-b in every group: what a trainer would see. n counts groups."""
    tau: Estimate
    """Kendall's tau-b over all rollouts."""


@dataclass(frozen=True)
class Unmeasured:
    """What could not be measured, and why."""

    what: str
    who: str
    why: str


@dataclass(frozen=True)
class Audit:
    """Everything that was measured; `rubrank.studies.audit.audit` says what each part means."""

    judges: tuple[str, ...]
    criteria: tuple[str, ...]
    attributes: tuple[str, ...]
    groups: int
    rollouts: int
    coverage: tuple[Coverage, ...]
    consistency: tuple[Consistency, ...]
    position: tuple[Position, ...]
    bias: tuple[Bias, ...]
    agreement: tuple[Agreement, ...]
    human_raters: Consistency | None
    """Agreement of the human raters among each other, if there are several: the mean over criteria."""
    unmeasured: tuple[Unmeasured, ...]

    @property
    def retest(self) -> dict[str, float]:
        """Criterion → retest deviation, as the option `retest` takes it; of several judges the first that has one."""
        deviations: dict[str, float] = {}
        for row in self.consistency:
            if row.criterion is not None and not math.isnan(row.deviation.value):
                deviations.setdefault(row.criterion, row.deviation.value)
        return deviations

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON, with None instead of NaN."""
        data: dict[str, Any] = plain(asdict(self))
        return data


# -------------------------------------------------------------------------------------------------------------- tables


class Table(NamedTuple):
    """A table of text."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 2
    """How many columns, from the left, hold words (left-aligned); the others hold numbers."""


_TABLES = {
    "coverage": ("verdicts", "judge criterion asked missing ties"),
    "consistency": (
        "the same questions again",
        "judge criterion runs identical alpha deviation",
    ),
    "position": ("wins of the response shown first", "judge criterion first"),
    "bias": ("swayed by", "judge criterion attribute gamma odds wins excess"),
    "agreement": ("agreement", "a b criterion kappa alpha tau_within tau"),
    "human_raters": ("human raters among each other", "judge criterion runs identical alpha"),
}
"""Part of an audit → the title of its table, and the fields of its rows that are shown."""
_HEADINGS = {
    "ties": "pairs tied",
    "first": "share",
    "gamma": "γ",
    "odds": "odds for twice as much",
    "wins": "more wins",
    "excess": "γ − humans'",
    "tau_within": "tau in groups",
}
"""Field → the heading of its column, if it is another word."""


def make_tables(audit: Audit, details: bool = False) -> list[Table]:
    """Return one table for each part of the audit; a table has no rows if nothing was measured.

    details: show every criterion, and not only the means over criteria.
    """
    tables = []
    for part, (title, field_names) in _TABLES.items():
        names = field_names.split()
        rows = getattr(audit, part)
        if not isinstance(rows, tuple):
            rows = () if rows is None else (rows,)
        cells = [
            tuple(_format_cell(row, name) for name in names)
            for row in rows
            if details or row.criterion is None
        ]
        headings = tuple(_HEADINGS.get(name, name) for name in names)
        words = names.index("criterion") + 1 + ("attribute" in names)
        tables.append(Table(title, headings, cells, words))
    return tables


def _format_cell(row: Any, name: str) -> str:
    """Return one field of a row as text."""
    if name == "criterion":
        return name_criterion(row)
    value = getattr(row, name)
    if name == "missing":
        return f"{value} ({value / row.asked:.1%})"
    if value is None or isinstance(value, Estimate):
        return format_estimate(value)
    return str(value)


def list_unmeasured(audit: Audit) -> list[str]:
    """Return one line for each thing that was not measured, with the reason and all judges that it concerns."""
    judges: dict[tuple[str, str], list[str]] = {}
    for unmeasured in audit.unmeasured:
        judges.setdefault((unmeasured.what, unmeasured.why), []).append(unmeasured.who)
    return [f"{what} ({', '.join(names)}): {why}" for (what, why), names in judges.items()]


def format_estimate(estimate: Estimate | None) -> str:
    """Return such as "0.54 [0.52, 0.56]", without the interval if there is none, and "–" for NaN and None."""
    if estimate is None or math.isnan(estimate.value):
        return "–"
    text = f"{estimate.value:.2f}"
    if not math.isnan(estimate.low):
        text += f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return text


def name_criterion(row: Any) -> str:
    """Return the criterion of a row, or "all" if the row is about all of them."""
    return "all" if row.criterion is None else str(row.criterion)
