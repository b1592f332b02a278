"""What an audit finds out, by value: frozen, comparable, and plain for JSON by `as_dict`.

{"judge": "main", "criterion": "Clarity", "gamma": {"value": 1.2, "low": 0.9, "high": 1.5, "n": 96}, …}
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from rubrank.studies.statistics import Estimate


@dataclass(frozen=True)
class Coverage:
    """What a judge was asked, and what came of it."""

    judge: str
    criterion: str
    asked: int
    missing: int
    ties: Estimate
    """Share of the pairs within groups that tie; n counts pairs."""
    all_tied: int
    """Groups in which it tells no rollouts apart."""


@dataclass(frozen=True)
class Consistency:
    """The same questions asked again; criterion None: all of them."""

    judge: str
    criterion: str | None
    runs: int
    identical: Estimate
    """Share of identical verdicts, over every two runs."""
    alpha: Estimate
    """Krippendorff's, ordinal, with the runs as raters."""
    deviation: Estimate
    """Standard deviation of scores about the same response, in units of the criterion's scale; undefined for all
    criteria together, and where responses were compared. `retest` of soft outcomes takes it. n counts scores beyond
    the first about a response."""


@dataclass(frozen=True)
class Position:
    """Wins of the response shown first; criterion None: all of them."""

    judge: str
    criterion: str | None
    first: Estimate
    """Ties counted half; 0.5 = no bias; n counts comparisons."""


@dataclass(frozen=True)
class Bias:
    """How one attribute goes with winning; criterion None: the mean over all of them."""

    judge: str
    criterion: str | None
    attribute: str
    gamma: Estimate
    odds: Estimate
    """Of winning for twice as much of the attribute, in a group of typical spread, other things being equal."""
    wins: Estimate
    """Share of the pairs that the response with more of it wins, ties counted half: nothing modelled, 0.5 = none."""
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
    """All that was found out; `rubrank.studies.audit.audit` says what each part means."""

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
        """For JSON: plain lists and dicts, None where there is no number."""
        return _as_data(self)


def _as_data(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.as_dict()
    if is_dataclass(value):
        return {field.name: _as_data(getattr(value, field.name)) for field in fields(value)}
    return [_as_data(item) for item in value] if isinstance(value, tuple | list) else value
