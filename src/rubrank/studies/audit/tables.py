"""An audit as tables: titles, headings and rows of text.

    agreement              kappa              alpha              tau in groups      tau
    main, ranker           0.62 [0.60, 0.64]  0.57 [0.54, 0.59]  0.54 [0.52, 0.56]  0.54 [0.52, 0.56]

By default the means over criteria; with `details`, every criterion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rubrank.studies.audit.result import Audit, Coverage
from rubrank.studies.statistics import Estimate

Row = Sequence[str]


def sections(audit: Audit, details: bool = False) -> list[tuple[str, Row, list[Row], int]]:
    """(title, headings, rows, how many columns are words) of every table."""
    return [
        ("verdicts", ("judge", "criterion", "asked", "missing", "pairs tied"), _coverage(audit, details), 2),
        (
            "the same questions again",
            ("judge", "criterion", "runs", "identical", "alpha", "deviation"),
            [
                (c.judge, or_all(c.criterion), str(c.runs), tell(c.identical), tell(c.alpha), tell(c.deviation))
                for c in _select_rows(audit.consistency, details)
            ],
            2,
        ),
        (
            "wins of the response shown first",
            ("judge", "criterion", "comparisons", "share"),
            [
                (p.judge, or_all(p.criterion), str(p.first.n), tell(p.first))
                for p in _select_rows(audit.position, details)
            ],
            2,
        ),
        (
            "swayed by",
            ("judge", "criterion", "attribute", "γ", "odds for twice as much", "more wins", "γ − humans'"),
            [
                (b.judge, or_all(b.criterion), b.attribute, tell(b.gamma), tell(b.odds), tell(b.wins), tell(b.excess))
                for b in _select_rows(audit.bias, details)
            ],
            3,
        ),
        (
            "agreement",
            ("", "criterion", "kappa", "alpha", "tau in groups", "tau"),
            [
                (f"{a.a}, {a.b}", or_all(a.criterion), tell(a.kappa), tell(a.alpha), tell(a.tau_within), tell(a.tau))
                for a in _select_rows(audit.agreement, details)
            ],
            2,
        ),
        (
            "human raters among each other",
            ("raters", "identical", "alpha"),
            [(str(h.runs), tell(h.identical), tell(h.alpha)) for h in [audit.human_raters] if h is not None],
            1,
        ),
    ]


def not_measured(audit: Audit) -> list[str]:
    """One line a reason, with all whom it concerns."""
    whom: dict[tuple[str, str], list[str]] = {}
    for unmeasured in audit.unmeasured:
        whom.setdefault((unmeasured.what, unmeasured.why), []).append(unmeasured.who)
    return [f"{what} ({', '.join(names)}): {why}" for (what, why), names in whom.items()]


def tell(estimate: Estimate | None) -> str:
    """0.54 [0.52, 0.56], without the interval if there is none."""
    if estimate is None or math.isnan(estimate.value):
        return "–"
    has_interval = not math.isnan(estimate.low)
    return f"{estimate.value:.2f}" + (f" [{estimate.low:.2f}, {estimate.high:.2f}]" if has_interval else "")


def _coverage(audit: Audit, details: bool) -> list[Row]:
    if details:
        return [_coverage_row(c.criterion, [c]) for c in audit.coverage]
    by_judge = {judge: [c for c in audit.coverage if c.judge == judge] for judge in audit.judges}
    return [_coverage_row(or_all(None), members) for members in by_judge.values() if members]


def _coverage_row(criterion: str, members: Sequence[Coverage]) -> Row:
    asked, missing = sum(c.asked for c in members), sum(c.missing for c in members)
    pairs = sum(c.ties.n for c in members)
    ties = sum(c.ties.value * c.ties.n for c in members if c.ties.n) / pairs if pairs else math.nan
    return members[0].judge, criterion, str(asked), f"{missing} ({missing / asked:.1%})", tell(Estimate(ties))


def _select_rows(rows: Iterable[Any], details: bool) -> list[Any]:
    return [row for row in rows if details or row.criterion is None]


def or_all(criterion: str | None) -> str:
    """The criterion; all of them where none is named."""
    return "all" if criterion is None else criterion
