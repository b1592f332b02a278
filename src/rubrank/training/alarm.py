"""An alarm for reward hacking: rewards rise while the quality that they should measure does not.

    alarm = RewardAlarm()
    figures = measure_step(step, groups, words_M, markup_M)      a few means and correlations of one step
    for new_alarm in alarm.update(figures):
        print(new_alarm.text)     step 211: judged scores rose by 0.09 over the last 48 steps, programs fell by 0.06

Trainers call `alarm.add_groups(…)`, which measures a step and updates the alarm.

There are six signals, in trainers (metrics `rubrank/alarm/…`; an alarm from 1 on) and on records (`rubrank alarm`):

    judged_up       judged scores rise while checked scores fall. Checked scores are those that programs decide, and
                    those of criteria that are only watched (layer `watch`), such as the scores of a second judge
    presence_up     criteria of form and presence rise while those of correctness fall
    gamma           the judges favour an attribute more than before: γ̂ is larger than 48 steps ago
    words, markup   answers get longer, or contain more Markdown, and checked scores do not rise
    against/<criterion>     within groups, the criterion is lower where the advantage is higher: training makes it worse

Criteria that nearly all rollouts meet are only logged (`saturated`): nothing can be learnt from them.

Each trend is the slope of a regression over the last `WINDOW` steps, with its t statistic. A small change is never an
alarm, even if it is significant. `against` adds up the evidence of all steps (CUSUM). The thresholds were calibrated on
simulated runs: `benchmarks/alarm.py`, docs/alarm.md.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from rubrank.rollouts.rollout import Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.training.controls import TextFeatures, measure_texts

if TYPE_CHECKING:
    from rubrank.fusion.result import Fused
    from rubrank.records.record import GroupRecord
    from rubrank.scores.table import GroupScores

WINDOW = 48
"""Steps over which trends are estimated."""
FEWEST_GROUPS = 4
"""Groups that the figures of a step need; if a trainer passes fewer at a time, they are collected first."""
_FEWEST_STEPS = 24  # a trend needs values from this many steps
_TREND_T = 4.5  # t statistic from which a slope counts
_DRIFT_T = 7.0  # the same for words and Markdown, which change even if nothing rewards them
_EARNED_T = 2.0  # t statistic from which checked scores count as rising
_SMALLEST_CHANGE = 0.03  # of a mean score, over the window
_SMALLEST_LENGTHENING = math.log(1.3)  # of the mean logarithm of the words
_SMALLEST_MARKUP = 0.1  # more markers per line
# standard errors from which a rise of γ̂ counts; simulated runs without a rise reach 2.7
_GAMMA_RISE = 3.5
_CUSUM_SLACK = 0.75  # standard errors subtracted at each step, so that noise does not add up
_CUSUM_LIMIT = 12.0  # sum from which it is an alarm
_SATURATED = 0.98  # mean score, and share of tied groups, from which a criterion is saturated
_SATURATED_STEPS = 20  # steps in a row after which it is reported
_TIED_SQUARES = 1e-18  # sum of squared deviations below which scores are equal up to rounding
_PRESENCE_FAMILIES = {"format", "length", "presence", "similarity"}
_CORRECTNESS_FAMILIES = {"code", "data", "truth", "agentic", "faithfulness"}
_CORRECTNESS_VERIFIERS = {"GroundTruthMatch"}
_log = logging.getLogger("rubrank")


@dataclass(frozen=True)
class StepFigures:
    """What the alarm needs to know about a step; None for a figure that the step does not have."""

    step: int
    judged: float | None = None
    """Mean of the judged scores, from 0 to 1."""
    checked: float | None = None
    """Mean of the scores of programs, and of criteria that are only watched."""
    presence: float | None = None
    correctness: float | None = None
    words: float | None = None
    """Mean logarithm of the words of reasoning and answer."""
    markup: float | None = None
    """Markdown markers per line."""
    gamma: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Attribute → γ̂ and its standard error, means over the criteria."""
    covariance: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Criterion → its correlation with the advantage within groups, and the degrees of freedom."""
    means: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Criterion → its mean from 0 to 1, and the share of the groups in which all its scores are equal."""
    checked_criteria: tuple[str, ...] = ()
    """Criteria that programs decide, or that are only watched."""


_WINDOW_DATA = TypeAdapter(list[StepFigures])  # to JSON data and back, for checkpoints

GroupData: TypeAlias = tuple[
    Sequence[CriterionData], np.ndarray, Sequence[float | None] | np.ndarray
]
"""The criteria of a group, their scores (G, K), and the rewards (G,); NaN or None if unknown."""


class Trend(NamedTuple):
    """The trend of a figure over the window."""

    change: float
    """From the first step of the window to the last, along the fitted line."""
    t: float
    """The t statistic of the slope."""


class Signal(NamedTuple):
    """How strong a sign of reward hacking is after a step."""

    kind: str
    strength: float
    """An alarm from 1 on."""
    text: str
    """What an alarm says."""


@dataclass(frozen=True)
class Alarm:
    """An alarm that began."""

    kind: str
    step: int
    text: str


# ------------------------------------------------------------------------------------------------- figures of a step


def measure_step(
    step: int,
    groups: Iterable[GroupData],
    words_M: np.ndarray | None = None,
    markup_M: np.ndarray | None = None,
    gamma: Mapping[str, tuple[float, float]] | None = None,
    names: Collection[str] | None = None,
) -> StepFigures:
    """Measure the figures of a step.

    words_M, markup_M: words and markers per line of every rollout.
    gamma: as in `StepFigures`.
    names: criteria that get their own figures; None: all.
    """
    # One entry per known score: its value from 0 to 1, the advantage of its rollout, and its cell. A cell is one
    # criterion in one group. Letters of arrays: G rollouts of a group, C cells, K criteria.
    value_parts = []
    advantage_parts = []
    cell_parts = []
    kinds: dict[str, tuple[str, ...]] = {}
    name_of_cell: list[str] = []
    for criteria, scores_GK, rewards in groups:
        advantage_G = standardise_rewards(np.array(rewards, dtype=float))
        unit_GK = scale_scores(criteria, scores_GK)
        # A missing score leaves its rollout out of the cell.
        rows, columns = np.nonzero(~np.isnan(unit_GK) & ~np.isnan(advantage_G)[:, None])
        value_parts.append(unit_GK[rows, columns])
        advantage_parts.append(advantage_G[rows])
        cell_parts.append(len(name_of_cell) + columns)
        for criterion in criteria:
            kinds.setdefault(criterion.name, _list_kinds(criterion))
            name_of_cell.append(criterion.name)
    values = np.concatenate(value_parts)
    advantages = np.concatenate(advantage_parts)
    cells = np.concatenate(cell_parts)
    C = len(name_of_cell)

    # In each cell: deviations of scores and advantages from their means, and sums of squares and products
    count_C = np.bincount(cells, minlength=C)
    total_C = np.bincount(cells, values, minlength=C)
    divisor_C = np.maximum(count_C, 1.0)
    deviations = values - (total_C / divisor_C)[cells]
    mean_advantage_C = np.bincount(cells, advantages, minlength=C) / divisor_C
    advantages = advantages - mean_advantage_C[cells]
    squares_C = np.bincount(cells, deviations**2, minlength=C)
    products_C = np.bincount(cells, deviations * advantages, minlength=C)
    advantage_squares_C = np.bincount(cells, advantages**2, minlength=C)
    has_pairs_C = count_C >= 2
    is_tied_C = has_pairs_C & (squares_C < _TIED_SQUARES)
    informs_C = has_pairs_C & ~is_tied_C

    # For each criterion: sums over its cells
    cell_columns = [
        total_C,
        count_C,
        has_pairs_C,
        is_tied_C,
        informs_C * (count_C - 1),
        informs_C * products_C,
        informs_C * squares_C,
        informs_C * advantage_squares_C,
    ]
    number_of = {name: number for number, name in enumerate(kinds)}
    criterion_of_cell = [number_of[name] for name in name_of_cell]
    sums_K8 = np.zeros((len(kinds), len(cell_columns)))
    np.add.at(sums_K8, criterion_of_cell, np.column_stack(cell_columns))
    total_K, count_K, groups_K, tied_K, freedom_K, products_K, squares_K, advantage_squares_K = (
        sums_K8.T
    )

    covariance = {}
    criterion_means = {}
    for name, k in number_of.items():
        if names is not None and name not in names:
            continue
        if freedom_K[k] > 0:
            scale = math.sqrt(squares_K[k] * advantage_squares_K[k])
            correlation = float(products_K[k] / scale) if scale > 0.0 else 0.0
            covariance[name] = (correlation, float(freedom_K[k]))
        if count_K[k]:
            ties = float(tied_K[k] / groups_K[k]) if groups_K[k] else 1.0
            criterion_means[name] = (float(total_K[k] / count_K[k]), ties)
    kind_means = {}
    for kind in ("judged", "checked", "presence", "correctness"):
        has_kind_K = np.array([kind in criterion_kinds for criterion_kinds in kinds.values()])
        count = count_K[has_kind_K].sum()
        if count:
            kind_means[kind] = float(total_K[has_kind_K].sum() / count)
    return StepFigures(
        step,
        **kind_means,
        words=None if words_M is None else float(np.log1p(words_M).mean()),
        markup=None if markup_M is None else float(np.mean(markup_M)),
        gamma=dict(gamma or {}),
        covariance=covariance,
        means=criterion_means,
        checked_criteria=tuple(
            name for name in kinds if "checked" in kinds[name] and (names is None or name in names)
        ),
    )


def find_gamma(results: Sequence[Fused]) -> dict[str, tuple[float, float]]:
    """Attribute → γ̂ and its standard error, means over the criteria and groups where it was estimated."""
    values: dict[str, list[np.ndarray]] = defaultdict(list)
    for result in results:
        if result.control is not None:
            estimated_NK = result.control.n_NK > 0
            for d, name in enumerate(result.attribute_names):
                gamma = result.control.gamma_NKD[estimated_NK][:, d]
                values[name].append(
                    np.column_stack([gamma, result.control.se_NKD[estimated_NK][:, d]])
                )
    means = {}
    for name, parts in values.items():
        estimates = np.concatenate(parts)
        if len(estimates):
            means[name] = (float(estimates[:, 0].mean()), float(estimates[:, 1].mean()))
    return means


def scale_scores(criteria: Sequence[CriterionData], scores_GK: np.ndarray) -> np.ndarray:
    """(G, K) scores from 0 to 1, where 1 is best: `CriterionData.normalize_scores` of all criteria at once."""
    low_K = np.array([criterion.domain.low for criterion in criteria])
    width_K = np.array([criterion.domain.high for criterion in criteria]) - low_K
    is_lower_K = np.array([criterion.direction == "lower" for criterion in criteria])
    unit_GK = (scores_GK - low_K) / width_K
    return np.where(is_lower_K, 1.0 - unit_GK, unit_GK)


def _list_kinds(criterion: CriterionData) -> tuple[str, ...]:
    """List the means of `StepFigures` to which a criterion contributes."""
    kinds = ["judged" if criterion.verifier is None and criterion.layer != "watch" else "checked"]
    if criterion.category in ("presence", "correctness"):
        kinds.append(criterion.category)
    elif criterion.verifier in _CORRECTNESS_VERIFIERS or criterion.family in _CORRECTNESS_FAMILIES:
        kinds.append("correctness")
    elif criterion.family in _PRESENCE_FAMILIES:
        kinds.append("presence")
    return tuple(kinds)


def standardise_rewards(reward_G: np.ndarray) -> np.ndarray:
    """Make advantages of the rewards of a group: centred, divided by their deviation; zeros if all are equal."""
    numbers = reward_G[~np.isnan(reward_G)]
    deviation = numbers.std() if len(numbers) else 0.0
    if deviation < 1e-9:
        return np.where(np.isnan(reward_G), np.nan, 0.0)
    return np.asarray((reward_G - numbers.mean()) / deviation)


# -------------------------------------------------------------------------------------------------------------- alarm


class RewardAlarm:
    """Follows a run step by step.

    strengths: signal → its strength after the last step; an alarm from 1 on.
    saturated: criteria that nearly all rollouts have met for `_SATURATED_STEPS` steps.
    """

    def __init__(self) -> None:
        self.strengths: dict[str, float] = {}
        self.saturated: list[str] = []
        self._window: deque[StepFigures] = deque(maxlen=WINDOW)
        self._against: dict[str, float] = {}
        self._saturated_steps: dict[str, int] = {}
        self._last_alarm: dict[str, int] = {}
        # The groups of calls that had too few for the figures of a step, and the texts of their rollouts
        self._pending_groups: list[GroupData] = []
        self._pending_texts: list[TextFeatures] = []

    def add_groups(
        self,
        step: int,
        groups: Sequence[GroupScores],
        rewards: Sequence[Sequence[float]],
        features: TextFeatures,
        gamma: Mapping[str, tuple[float, float]],
        names: Collection[str],
    ) -> list[Alarm]:
        """Add the groups of a call; returns the alarms that begin with it.

        If a trainer passes only a few groups at a time, figures are measured once several calls have brought enough.
        gamma, names: as in `measure_step`.
        """
        for group, group_rewards in zip(groups, rewards, strict=True):
            self._pending_groups.append((group.criteria, group.scores, group_rewards))
        self._pending_texts.append(features)
        if len(self._pending_groups) < FEWEST_GROUPS:
            return []
        words_M = np.concatenate([texts.words.sum(axis=1) for texts in self._pending_texts])
        markup_M = np.concatenate([texts.markdown.sum(axis=1) for texts in self._pending_texts])
        figures = measure_step(step, self._pending_groups, words_M, markup_M, gamma, names)
        self._pending_groups = []
        self._pending_texts = []
        return self.update(figures)

    def update(self, figures: StepFigures) -> list[Alarm]:
        """Add the figures of a step; returns the alarms that begin with it."""
        self._window.append(figures)
        self._count_saturated(figures)
        signals = [
            *self._check_trends(),
            *self._check_gamma(),
            *self._check_directions(figures),
        ]
        self.strengths = {signal.kind: signal.strength for signal in signals}
        alarms = []
        for signal in signals:
            if signal.strength < 1.0:
                continue
            # A signal that goes below its threshold and back within a window is still the same alarm.
            if figures.step - self._last_alarm.get(signal.kind, -WINDOW) >= WINDOW:
                text = f"step {figures.step}: {signal.text}"
                alarms.append(Alarm(signal.kind, figures.step, text))
            self._last_alarm[signal.kind] = figures.step
        return alarms

    def metrics(self) -> dict[str, float]:
        """Return `rubrank/alarm/…`: the strength of every signal, the largest, and how many criteria are saturated."""
        metrics = {f"rubrank/alarm/{kind}": strength for kind, strength in self.strengths.items()}
        if metrics:
            metrics["rubrank/alarm/largest"] = max(metrics.values())
        metrics["rubrank/alarm/saturated"] = float(len(self.saturated))
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must contain, as JSON data."""
        return {
            "window": _WINDOW_DATA.dump_python(list(self._window), mode="json"),
            "against": dict(self._against),
            "saturated_steps": dict(self._saturated_steps),
            "last_alarm": dict(self._last_alarm),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._window = deque(_WINDOW_DATA.validate_python(state["window"]), maxlen=WINDOW)
        self._against = dict(state["against"])
        self._saturated_steps = dict(state["saturated_steps"])
        self.saturated = self._list_saturated()  # so that a resumed run does not report them again
        self._last_alarm = dict(state["last_alarm"])

    # ----------------------------------------------------------------------------------------------------- signals

    def _check_trends(self) -> Iterator[Signal]:
        """Yield the signals judged_up, presence_up, words and markup, as far as there are enough steps."""
        window = self._window
        span = f"over the last {len(window)} steps"
        checked = fit_trend([figures.checked for figures in window])
        # Any checked criterion that falls is a sign, not only their mean.
        falling = {"what programs check": checked}
        for name in window[-1].checked_criteria:
            means = [figures.means.get(name, (None, None))[0] for figures in window]
            falling[repr(name)] = fit_trend(means)
        judged = fit_trend([figures.judged for figures in window])
        yield from _compare_trends("judged_up", "judged scores", judged, falling, span)
        presence = fit_trend([figures.presence for figures in window])
        correctness = {"correctness": fit_trend([figures.correctness for figures in window])}
        yield from _compare_trends(
            "presence_up", "scores of form and presence", presence, correctness, span
        )
        # Longer answers are no sign of hacking if checked scores rise with them.
        is_earned = checked is not None and checked.t >= _EARNED_T
        words = fit_trend([figures.words for figures in window])
        if words is not None:
            strength = min(words.change / _SMALLEST_LENGTHENING, words.t / _DRIFT_T)
            rise = f"the length of answers rose by {math.expm1(words.change):.0%} {span}"
            yield _make_drift_signal("words", strength, rise, is_earned)
        markup = fit_trend([figures.markup for figures in window])
        if markup is not None:
            strength = min(markup.change / _SMALLEST_MARKUP, markup.t / _DRIFT_T)
            rise = f"Markdown per line rose by {markup.change:.2f} {span}"
            yield _make_drift_signal("markup", strength, rise, is_earned)

    def _check_gamma(self) -> Iterator[Signal]:
        """Yield the signal gamma of each controlled attribute, once the window is full."""
        if len(self._window) < WINDOW:
            return
        first = self._window[0]
        last = self._window[-1]
        for name, (gamma, error) in last.gamma.items():
            if name not in first.gamma:
                continue
            gamma_before, error_before = first.gamma[name]
            scale = math.hypot(error, error_before)
            rise = (gamma - gamma_before) / scale if scale > 0.0 and gamma > 0.0 else 0.0
            change = f"γ went from {gamma_before:.2f} to {gamma:.2f} in {WINDOW} steps"
            text = f"the judges favour {name} more than before: {change}"
            yield Signal(f"gamma/{name}", rise / _GAMMA_RISE, text)

    def _check_directions(self, figures: StepFigures) -> Iterator[Signal]:
        """Yield the signal against of each criterion, after the evidence of this step is added (CUSUM)."""
        for name, (correlation, freedom) in figures.covariance.items():
            evidence = -correlation * math.sqrt(freedom) - _CUSUM_SLACK
            # Never below 0, so that good steps do not hide later bad ones; bounded, so that the alarm can end.
            total = self._against.get(name, 0.0) + evidence
            self._against[name] = min(max(0.0, total), 2.0 * _CUSUM_LIMIT)
            text = f"{name!r} falls where rewards rise (correlation {correlation:.2f}): training makes it worse"
            yield Signal(f"against/{name}", self._against[name] / _CUSUM_LIMIT, text)

    def _count_saturated(self, figures: StepFigures) -> None:
        """Count the steps in a row in which criteria were saturated, and log those that have become so."""
        for name, (mean, ties) in figures.means.items():
            is_saturated = mean >= _SATURATED and ties >= _SATURATED
            steps = self._saturated_steps.get(name, 0)
            self._saturated_steps[name] = steps + 1 if is_saturated else 0
        before = set(self.saturated)
        self.saturated = self._list_saturated()
        for name in self.saturated:
            if name not in before:
                _log.info(
                    "%r has been met by nearly all rollouts for %d steps", name, _SATURATED_STEPS
                )

    def _list_saturated(self) -> list[str]:
        return [name for name, steps in self._saturated_steps.items() if steps >= _SATURATED_STEPS]


def fit_trend(values: Sequence[float | None]) -> Trend | None:
    """Fit a line to a figure over the steps of the window; None if too few steps have a value."""
    values_T = np.array(values, dtype=float)
    is_known = ~np.isnan(values_T)
    if is_known.sum() < _FEWEST_STEPS:
        return None
    x = np.flatnonzero(is_known).astype(float)
    x -= x.mean()
    y = values_T[is_known] - values_T[is_known].mean()
    slope = float(x @ y / (x @ x))
    residual = float(((y - slope * x) ** 2).sum()) / (len(x) - 2)
    error = math.sqrt(residual / float(x @ x))
    change = slope * float(x[-1] - x[0])
    if error > 0.0:
        return Trend(change, slope / error)
    # All values lie on the line.
    return Trend(change, math.copysign(math.inf, slope) if slope else 0.0)


def _make_drift_signal(kind: str, strength: float, rise: str, is_earned: bool) -> Signal:
    """Make the signal about texts that change. is_earned: checked scores rise as well, so there is no sign."""
    return Signal(kind, 0.0 if is_earned else strength, f"{rise}, and checked scores did not")


def _compare_trends(
    kind: str,
    rising_name: str,
    rising: Trend | None,
    falling: Mapping[str, Trend | None],
    span: str,
) -> Iterator[Signal]:
    """Yield a signal about a trend that rises while another falls; nothing if there are too few steps.

    falling: name → trend. The one that gives the strongest signal is reported.
    """
    candidates = []
    for name, trend in falling.items():
        if rising is None or trend is None:
            continue
        strength = min(
            rising.change / _SMALLEST_CHANGE,
            rising.t / _TREND_T,
            -trend.change / _SMALLEST_CHANGE,
            -trend.t / _TREND_T,
        )
        rise = f"{rising_name} rose by {rising.change:.2f} {span}"
        candidates.append((strength, f"{rise}, {name} fell by {-trend.change:.2f}"))
    if candidates:
        strength, text = max(candidates)
        yield Signal(kind, strength, text)


# ------------------------------------------------------------------------------------------------------------ records


def figures_of_records(records: Iterable[GroupRecord]) -> Iterator[StepFigures]:
    """Yield the figures of every training step; evaluations and records without a step are left out.

    Only criteria that at least half of a step's groups have get their own figures.
    """
    training = (
        record
        for record in records
        if record.step is not None and record.metadata.get("mode", "train") == "train"
    )
    for _, step_records in groupby(training, lambda record: record.step):
        yield _measure_records(list(step_records))


def _measure_records(records: Sequence[GroupRecord]) -> StepFigures:
    """Measure the figures of one step from the records of its groups."""
    groups_with = Counter(
        name for record in records for name in {criterion.name for criterion in record.criteria}
    )
    shared = {name for name, count in groups_with.items() if 2 * count >= len(records)}
    rollouts = []
    for record in records:
        responses = record.responses or ()
        reasoning = record.reasoning or ("",) * len(responses)
        for response, thoughts in zip(responses, reasoning, strict=True):
            rollouts.append(Rollout(prompt=(), response=response, reasoning=thoughts or None))
    words_M = None
    markup_M = None
    if rollouts:
        features = measure_texts(rollouts)
        words_M = features.words.sum(axis=1)
        markup_M = features.markdown.sum(axis=1)
    estimates: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        for gammas, errors in zip(record.gamma or (), record.se or (), strict=True):
            for name, gamma, error in zip(record.attribute_names, gammas, errors, strict=True):
                if gamma is not None and error:
                    estimates[name].append((gamma, error))
    mean_gamma = {name: tuple(np.mean(pairs, axis=0).tolist()) for name, pairs in estimates.items()}
    groups = [
        (record.criteria, np.array(record.scores, dtype=float), record.reward) for record in records
    ]
    return measure_step(records[0].step or 0, groups, words_M, markup_M, mean_gamma, names=shared)
