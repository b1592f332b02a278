"""Calibrate a cascade offline: when may a cheap judge decide, and when must a better one be called?

    result = calibrate(quick, careful, agreement=0.95)      two score tables of the same rollouts
    result.criteria[0].threshold                            margin below which Tone must be escalated
    result.curve                                            share escalated → agreement and cost
    result.settings()                                       escalate and calibration, for the file of judges

A cell is one rollout on one criterion. Its margin says how sure the cheap judge is: by how much its likeliest score is
more probable than the next, such as 0.4 for 70% and 30%.

No judge is called here: both tables come from cached replies (`replay_judges` grades from the cache of a cascade's two
judges). The better judge is the reference. The cheap judge decides a cell if its margin reaches the threshold. Other
cells are escalated to the better judge, so they count as agreement. Cells that the better judge did not answer are left
out. Cells that the cheap judge did not answer are always escalated.

Unless `isotonic` is false, probabilities are calibrated by isotonic regression before margins are taken. The error
after calibration is measured on groups that it was not fitted to: each half of the groups with the fit of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.judges.judge import Judges, load_judges
from rubrank.judges.kinds.panel import (
    Knots,
    calibrate_distribution,
    complete_distribution,
    fit_isotonic,
)
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import ScoreTable
from rubrank.verifiers.distribution import Distribution, mean_of, most_probable, sureness

_OWNER = "judge calibrate"
_CURVE_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_BINS = 10  # of probabilities, for the calibration error
_MIN_CELLS = 20  # a criterion with fewer cells is not calibrated


@dataclass(frozen=True)
class CriterionCalibration:
    """One criterion: the agreement of the cheap judge alone, and the threshold for the target agreement."""

    name: str
    cells: int
    agreement: float
    """Share of the cells on which the cheap judge agrees with the better one."""
    threshold: float
    """Margin below which a cell must be escalated to reach the target agreement."""
    escalated: float
    """Share of the cells below the threshold."""
    reached: float
    """Agreement of the cascade with this threshold."""
    error_before: float
    """Mean distance of the cheap judge's cumulative probabilities from observed frequencies; 0 = calibrated."""
    error_after: float
    """The same after isotonic calibration, on groups that it was not fitted to."""
    knots: Knots


@dataclass(frozen=True)
class CurvePoint:
    """What a cascade of a given size achieves over all criteria."""

    escalated: float
    threshold: float
    agreement: float
    cost: float | None
    """Cost as a share of that of the better judge alone; None if the tables have no costs."""


@dataclass(frozen=True)
class CascadeCalibration:
    """Everything that was measured."""

    agreement: float
    """The target agreement."""
    criteria: tuple[CriterionCalibration, ...]
    curve: tuple[CurvePoint, ...]

    def settings(self) -> dict[str, Any]:
        """Return the settings of the cheap judge for the file of judges."""
        # Not rounded: a rounded threshold may accept an answer that must be escalated.
        thresholds = {criterion.name: criterion.threshold for criterion in self.criteria}
        settings: dict[str, Any] = {"escalate": {"thresholds": thresholds}}
        calibration = {
            criterion.name: [list(knot) for knot in criterion.knots]
            for criterion in self.criteria
            if criterion.knots
        }
        if calibration:
            settings["calibration"] = calibration
        return settings

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return {**asdict(self), "settings": self.settings()}


@dataclass(frozen=True)
class _Cell:
    """One rollout on one criterion."""

    group: str
    distribution: Distribution
    """Probabilities of the cheap judge; empty if it did not answer."""
    reference: float
    """Score of the better judge."""


@only_our_errors
def calibrate(
    quick: ScoreTable, careful: ScoreTable, *, agreement: float = 0.95, isotonic: bool = True
) -> CascadeCalibration:
    """Measure where the cheap judge may decide.

    For each criterion: fit the calibration, take the margin of every cell, and find the smallest threshold that reaches
    the target. The curve is about all criteria together.

    quick, careful: scores of the same rollouts by the cheap judge, with probabilities, and by the better one.
    agreement: target share of cells on which the cascade agrees with the better judge.
    isotonic: calibrate the probabilities before margins are taken.

    Raises InvalidInput if the tables have other groups, or no criterion with probabilities in common.
    """
    if not 0.0 <= agreement <= 1.0:
        raise InvalidInput(_OWNER, "agreement", "from 0 to 1", repr(agreement), "Such as 0.95.")
    cells_by_criterion = _match_cells(quick, careful)
    criteria = []
    all_margins = []
    all_agrees = []
    for name, cells in cells_by_criterion.items():
        criterion = next(iter(careful.find_variants(name)))
        knots = _fit_knots(cells) if isotonic and len(cells) >= _MIN_CELLS else ()
        margins, agrees = _measure_margins(cells, knots, criterion)
        threshold, escalated, reached = _find_threshold(margins, agrees, agreement)
        _, agrees_uncalibrated = _measure_margins(cells, (), criterion)
        answered = [cell for cell in cells if cell.distribution]
        criteria.append(
            CriterionCalibration(
                name,
                cells=len(cells),
                agreement=float(agrees_uncalibrated.mean()),
                threshold=threshold,
                escalated=escalated,
                reached=reached,
                error_before=_measure_error(*_pair_with_frequencies(answered, ())),
                error_after=_measure_held_out_error(answered) if knots else math.nan,
                knots=knots,
            )
        )
        all_margins.append(margins)
        all_agrees.append(agrees)
    curve = _make_curve(
        np.concatenate(all_margins), np.concatenate(all_agrees), _find_cost_ratio(quick, careful)
    )
    return CascadeCalibration(agreement, tuple(criteria), curve)


def replay_judges(
    rollouts: Any, rubric: Any, judges: Any, columns: dict[str, str] | None = None
) -> tuple[ScoreTable, ScoreTable]:
    """Return the scores of the cheap and of the better judge of a cascade, from cached replies alone.

    A judge without a fallback is in both lists, so that the two tables have the same criteria.
    Raises InvalidInput if there is no cascade, or no cache of its replies.
    """
    # Imported here: `calibrate` itself needs no grading.
    from rubrank.grading.grade import grade

    loaded: Judges = load_judges(judges)
    cascades = [judge for judge in loaded.judges if judge.fallback is not None]
    if not cascades or loaded.cache is None:
        allowed = "a cascade with the cache of its replies"
        got = "no cache" if cascades else "no judge with a fallback"
        raise InvalidInput(_OWNER, "judges", allowed, got, "See `rubrank help judges`.")
    cheap = []
    better = []
    for judge in loaded.judges:
        alone = judge.model_copy(update={"fallback": None, "escalate": None, "calibration": {}})
        fallback = judge.fallback or alone
        names = {"name": judge.name, "criteria": judge.criteria}
        cheap.append(alone)
        better.append(fallback.model_copy(update=names))
    tables = []
    for judge_list in (cheap, better):
        # A reply that is not in the cache is missing; any number of them is accepted.
        update = {"judges": tuple(judge_list), "cache_only": True, "most_missing": 1.0}
        only_cached = loaded.model_copy(update=update)
        tables.append(grade(rollouts, rubric, judges=only_cached, columns=columns))
    return tables[0], tables[1]


def _match_cells(quick: ScoreTable, careful: ScoreTable) -> dict[str, list[_Cell]]:
    """Return criterion → the cells that the better judge has scored, if the cheap judge gives its probabilities.

    Raises InvalidInput if a group has another size in the other table, or if there are no such cells.
    """
    cells: dict[str, list[_Cell]] = {}
    names_with_probabilities = {name for group in quick for name in group.probabilities}
    sizes = {group.id: len(group.scores) for group in quick}
    for group in careful:
        if sizes.get(group.id) != len(group.scores):
            allowed = f"group {group.id!r} with {len(group.scores)} rollouts in both tables"
            got = str(sizes.get(group.id, "none"))
            raise InvalidInput(_OWNER, "scores", allowed, got, "Grade the same rollouts.")
        cheap = quick[group.id]
        for name in group.names:
            if name not in names_with_probabilities or name not in cheap.names:
                continue
            levels = next(iter(careful.find_variants(name))).domain.values
            distributions = cheap.probabilities.get(name, ((),) * len(group.scores))
            for i, distribution in enumerate(distributions):
                reference = group.score(i, name)
                if math.isnan(reference):
                    continue
                score = cheap.score(i, name)
                if distribution:
                    distribution = complete_distribution(distribution, levels)
                elif not math.isnan(score):
                    # A server may leave out log-probabilities. The cascade treats such an answer as certain.
                    distribution = ((score, 1.0),)
                cells.setdefault(name, []).append(_Cell(group.id, distribution, reference))
    if not cells:
        raise InvalidInput(
            _OWNER,
            "scores",
            allowed="of a judge with probabilities, and of a better one on the same criteria",
            got=f"probabilities of {', '.join(sorted(names_with_probabilities)) or 'nothing'}",
            remedy="Grade with kind: decision, probabilities: true or samples.",
        )
    return cells


def _pair_with_frequencies(cells: Sequence[_Cell], knots: Knots) -> tuple[np.ndarray, np.ndarray]:
    """Return the cheap judge's P(score ≥ level) for all cells and all levels but the lowest, and what came true.

    What came true is 1 if the better judge's score reaches the level, otherwise 0. A cell with 0: 0.2, 1: 0.5, 2: 0.3
    that the better judge scores 1 gives the probabilities 0.8 (≥ 1) and 0.3 (≥ 2), and 1 and 0 came true.
    """
    stated = []
    observed = []
    for cell in cells:
        distribution = (
            calibrate_distribution(cell.distribution, knots) if knots else cell.distribution
        )
        at_least = 1.0
        for (_, probability_below), (level, _) in pairwise(distribution):
            at_least -= probability_below
            stated.append(min(max(at_least, 0.0), 1.0))  # rounding may leave −1e-17
            observed.append(float(cell.reference >= level - 1e-9))
    return np.array(stated), np.array(observed)


def _fit_knots(cells: Sequence[_Cell]) -> Knots:
    """Fit isotonic regression of what came true on the cheap judge's probabilities; empty if it never answered."""
    answered = [cell for cell in cells if cell.distribution]
    stated, observed = _pair_with_frequencies(answered, ())
    if not len(stated):
        return ()
    knots = fit_isotonic(stated.tolist(), observed.tolist())
    # Rounded to the digits that the file of judges gets, so that margins are measured with what the cascade will apply.
    return tuple((round(probability, 4), round(frequency, 4)) for probability, frequency in knots)


def _measure_error(stated: np.ndarray, observed: np.ndarray) -> float:
    """Return the mean distance of probability and frequency over ten bins, weighted by their cells; NaN without any.

    stated, observed: what `_pair_with_frequencies` returns.
    """
    if not len(stated):
        return math.nan
    bins = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    # The cells of a bin times the distance of its means is the distance of its sums.
    distances = np.abs(np.bincount(bins, stated - observed))
    return float(distances.sum() / len(stated))


def _measure_held_out_error(cells: Sequence[_Cell]) -> float:
    """Return the calibration error of each half of the groups under the fit of the other half; NaN without a fit."""
    # A digest splits the groups in the same way in every run, whatever their order.
    halves: tuple[list[_Cell], list[_Cell]] = ([], [])
    for cell in cells:
        digest = blake2b(cell.group.encode("utf-8", "replace"), digest_size=1).digest()
        halves[digest[0] % 2].append(cell)
    stated = []
    observed = []
    for measured_half, fitted_half in (halves, halves[::-1]):
        knots = _fit_knots(fitted_half)
        if measured_half and knots:
            half_stated, half_observed = _pair_with_frequencies(measured_half, knots)
            stated.append(half_stated)
            observed.append(half_observed)
    if not stated:
        return math.nan
    return _measure_error(np.concatenate(stated), np.concatenate(observed))


def _measure_margins(
    cells: Sequence[_Cell], knots: Knots, criterion: CriterionData
) -> tuple[np.ndarray, np.ndarray]:
    """Return the margin of every cell (−1 without an answer), and whether the cheap judge agrees with the better one.

    On a continuous range both judges give means, which are almost never equal. There they agree if the same level is
    nearest to both.
    """
    is_range = not criterion.domain.values
    levels = np.array(sorted({value for cell in cells for value, _ in cell.distribution}))
    margins = []
    agrees = []
    for cell in cells:
        if not cell.distribution:
            margins.append(-1.0)
            agrees.append(False)
            continue
        distribution = (
            calibrate_distribution(cell.distribution, knots) if knots else cell.distribution
        )
        margins.append(sureness(distribution))
        if is_range:
            nearest = np.abs(levels - mean_of(distribution)).argmin()
            agrees.append(bool(nearest == np.abs(levels - cell.reference).argmin()))
        else:
            likeliest = most_probable(distribution, criterion.direction == "higher")
            agrees.append(abs(likeliest - cell.reference) < 1e-6)
    return np.array(margins), np.array(agrees)


def _find_threshold(
    margins: np.ndarray, agrees: np.ndarray, target: float
) -> tuple[float, float, float]:
    """Return the smallest threshold for the target agreement, the share of cells below it, and the agreement."""
    uncertain = np.unique(margins[(margins > 0.0) & (margins < 1.0)]).tolist()
    # A threshold of 1 would also escalate certain answers. The last candidate escalates all but these.
    highest = uncertain[-1] if uncertain else 0.0
    for threshold in (0.0, *uncertain, (highest + 1.0) / 2.0):
        escalated = margins < threshold
        reached = float((agrees | escalated).mean())
        if reached >= target - 1e-12:
            return threshold, float(escalated.mean()), reached
    return 1.0, 1.0, 1.0


def _make_curve(
    margins: np.ndarray, agrees: np.ndarray, cost_ratio: float | None
) -> tuple[CurvePoint, ...]:
    """Return the agreement and cost if the least sure 0%, 5%, 10% … of all cells are escalated.

    cost_ratio: cost of a cheap answer as a share of one of the better judge; None if it is not known.
    """
    order = np.argsort(margins, kind="stable")
    points = []
    for share in _CURVE_SHARES:
        count = round(share * len(order))
        escalated = np.zeros(len(order), dtype=bool)
        escalated[order[:count]] = True
        threshold = float(margins[order[count]]) if count < len(order) else 1.0
        # The cheap judge answers every cell, the better one those that are escalated.
        cost = None if cost_ratio is None else cost_ratio + count / len(order)
        points.append(
            CurvePoint(
                escalated=share,
                threshold=max(threshold, 0.0),
                agreement=float((agrees | escalated).mean()),
                cost=cost,
            )
        )
    return tuple(points)


def _find_cost_ratio(quick: ScoreTable, careful: ScoreTable) -> float | None:
    """Return the cost of a cheap answer as a share of the cost of a better one; None if it is not known."""
    costs = []
    for table in (quick, careful):
        spent = None if table.provenance is None else table.provenance.spent
        if not spent or not spent.get("cost") or not spent.get("asked"):
            return None
        costs.append(float(spent["cost"]) / float(spent["asked"]))
    return costs[0] / costs[1]
