"""An alarm for reward hacking: rewards rise while the quality that they should measure does not.

    alarm = RewardAlarm()
    figures = measure_step(step, groups, words_M, markup_M)      a few means and correlations of one step
    for finding in alarm.update(figures):
        print(finding.text)       step 211: judged scores rose by 0.09 over the last 48 steps, programs fell by 0.06

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
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

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
    """What the alarm needs to know about a step; NaN for a figure that the step does not have."""

    step: int
    judged: float = math.nan
    """Mean of the judged scores, from 0 to 1."""
    checked: float = math.nan
    """Mean of the scores of programs, and of criteria that are only watched."""
    presence: float = math.nan
    correctness: float = math.nan
    words: float = math.nan
    """Mean logarithm of the words of reasoning and answer."""
    markup: float = math.nan
    """Markdown markers per line."""
    gamma: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Attribute → γ̂ and its standard error, means over the criteria."""
    covariance: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Criterion → its correlation with the advantage within groups, and the degrees of freedom."""
    means: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Criterion → its mean from 0 to 1, and the share of the groups in which all its scores are equal."""
    checked_criteria: tuple[str, ...] = ()
    """Criteria that programs decide, or that are only watched."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON data: lists for tuples and null for NaN, so that saved states can be compared."""
        data: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                data[name] = {key: list(pair) for key, pair in value.items()}
            elif isinstance(value, tuple):
                data[name] = list(value)
            else:
                data[name] = None if math.isnan(value) else value
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the figures that `to_json` wrote."""
        values: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in data.items()
        }
        values["checked_criteria"] = tuple(data["checked_criteria"])
        for name in ("gamma", "covariance", "means"):
            values[name] = {key: tuple(pair) for key, pair in data[name].items()}
        return cls(**values)


GroupData: TypeAlias = tuple[
    Sequence[CriterionData], np.ndarray, Sequence[float | None] | np.ndarray
]
"""The criteria of a group, their scores (G, K), and the rewards (G,); NaN or None if unknown."""


class Trend(NamedTuple):
    """The trend of a figure over the window; both NaN if too few steps have a value."""

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
class Finding:
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
    names: criteria that get figures of their own; None: all.
    """
    sums: dict[str, _CriterionSums] = {}
    for criteria, scores_GK, rewards in groups:
        advantage_G = standardise_rewards(np.array(rewards, dtype=float))
        _add_group(sums, criteria, scores_GK, advantage_G)
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for criterion_sums in sums.values():
        for kind in criterion_sums.kinds:
            totals[kind] += criterion_sums.total
            counts[kind] += criterion_sums.count
    means = {kind: totals[kind] / count for kind, count in counts.items() if count}
    covariance = {}
    criterion_means = {}
    checked_criteria = []
    for name, criterion_sums in sums.items():
        if names is not None and name not in names:
            continue
        if criterion_sums.freedom > 0:
            covariance[name] = criterion_sums.correlation
        if criterion_sums.count:
            criterion_means[name] = criterion_sums.mean_and_ties
        if "checked" in criterion_sums.kinds:
            checked_criteria.append(name)
    return StepFigures(
        step,
        **means,
        words=math.nan if words_M is None else float(np.log1p(words_M).mean()),
        markup=math.nan if markup_M is None else float(np.mean(markup_M)),
        gamma=dict(gamma or {}),
        covariance=covariance,
        means=criterion_means,
        checked_criteria=tuple(checked_criteria),
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


@dataclass
class _CriterionSums:
    """Sums over the groups of a step, of one criterion."""

    kinds: tuple[str, ...]
    """The means of `StepFigures` to which the criterion contributes."""
    total: float = 0.0
    """Sum of the scores, from 0 to 1."""
    count: int = 0
    """Number of these scores."""
    groups: int = 0
    """Groups with at least two scores."""
    tied_groups: int = 0
    """Groups of these in which all scores are equal; the sums below are over the other groups."""
    freedom: int = 0
    """Degrees of freedom: the scores minus one for each group."""
    products: float = 0.0
    """Sum of products of the deviations of scores and advantages from the means of their group."""
    squares: float = 0.0
    """Sum of squared deviations of the scores."""
    advantage_squares: float = 0.0
    """Sum of squared deviations of the advantages."""

    @property
    def correlation(self) -> tuple[float, float]:
        """Correlation of scores and advantages within groups, and the degrees of freedom."""
        scale = math.sqrt(self.squares * self.advantage_squares)
        return self.products / scale if scale > 0.0 else 0.0, float(self.freedom)

    @property
    def mean_and_ties(self) -> tuple[float, float]:
        """Mean score, and the share of tied groups; 1 if no group has two scores."""
        ties = self.tied_groups / self.groups if self.groups else 1.0
        return self.total / self.count, ties


def scale_scores(criteria: Sequence[CriterionData], scores_GK: np.ndarray) -> np.ndarray:
    """(G, K) scores from 0 to 1, where 1 is best: `CriterionData.normalize_scores` of all criteria at once."""
    low_K = np.array([criterion.domain.low for criterion in criteria])
    width_K = np.array([criterion.domain.high for criterion in criteria]) - low_K
    is_lower_K = np.array([criterion.direction == "lower" for criterion in criteria])
    unit_GK = (scores_GK - low_K) / width_K
    return np.where(is_lower_K, 1.0 - unit_GK, unit_GK)


def _add_group(
    sums: dict[str, _CriterionSums],
    criteria: Sequence[CriterionData],
    scores_GK: np.ndarray,
    advantage_G: np.ndarray,
) -> None:
    """Add the scores of one group and the advantages of its rollouts, all criteria at once."""
    unit_GK = scale_scores(criteria, scores_GK)
    known_GK = ~np.isnan(unit_GK) & ~np.isnan(advantage_G)[:, None]
    count_K = known_GK.sum(axis=0)
    divisor_K = np.maximum(count_K, 1)
    total_K = np.where(known_GK, unit_GK, 0.0).sum(axis=0)
    deviation_GK = np.where(known_GK, unit_GK - total_K / divisor_K, 0.0)
    # A missing score leaves its rollout out, so the advantages are centred again over the rest.
    advantage_sum_K = np.where(known_GK, advantage_G[:, None], 0.0).sum(axis=0)
    advantage_GK = np.where(known_GK, advantage_G[:, None] - advantage_sum_K / divisor_K, 0.0)
    products_K = (deviation_GK * advantage_GK).sum(axis=0).tolist()
    squares_K = (deviation_GK**2).sum(axis=0).tolist()
    advantage_squares_K = (advantage_GK**2).sum(axis=0).tolist()
    for k, criterion in enumerate(criteria):
        part = sums.get(criterion.name)
        if part is None:
            part = _CriterionSums(_list_kinds(criterion))
            sums[criterion.name] = part
        count = int(count_K[k])
        part.total += float(total_K[k])
        part.count += count
        if count < 2:
            continue
        part.groups += 1
        if squares_K[k] < _TIED_SQUARES:
            part.tied_groups += 1
            continue
        part.freedom += count - 1
        part.products += products_K[k]
        part.squares += squares_K[k]
        part.advantage_squares += advantage_squares_K[k]


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
        # Groups of calls that had too few for the figures of a step, with the words and markers of their rollouts.
        self._pending_groups: list[GroupData] = []
        self._pending_words: list[np.ndarray] = []
        self._pending_markup: list[np.ndarray] = []

    def add_groups(
        self,
        step: int,
        groups: Sequence[GroupScores],
        rewards: Sequence[Sequence[float]],
        features: TextFeatures,
        gamma: Mapping[str, tuple[float, float]],
        names: Collection[str],
    ) -> list[Finding]:
        """Add the groups of a call; returns the alarms that begin with it.

        If a trainer passes only a few groups at a time, figures are measured once several calls have brought enough.
        gamma, names: as in `measure_step`.
        """
        for group, group_rewards in zip(groups, rewards, strict=True):
            self._pending_groups.append((group.criteria, group.scores, group_rewards))
        self._pending_words.append(features.words.sum(axis=1))
        self._pending_markup.append(features.markdown.sum(axis=1))
        if len(self._pending_groups) < FEWEST_GROUPS:
            return []
        words_M = np.concatenate(self._pending_words)
        markup_M = np.concatenate(self._pending_markup)
        figures = measure_step(step, self._pending_groups, words_M, markup_M, gamma, names)
        self._pending_groups = []
        self._pending_words = []
        self._pending_markup = []
        return self.update(figures)

    def update(self, figures: StepFigures) -> list[Finding]:
        """Add the figures of a step; returns the alarms that begin with it."""
        self._window.append(figures)
        self._count_saturated(figures)
        signals = [
            *self._check_trends(),
            *self._check_gamma(),
            *self._check_directions(figures),
        ]
        self.strengths = {signal.kind: signal.strength for signal in signals}
        findings = []
        for signal in signals:
            if signal.strength < 1.0:
                continue
            # A signal that goes below its threshold and back within a window is still the same alarm.
            if figures.step - self._last_alarm.get(signal.kind, -WINDOW) >= WINDOW:
                text = f"step {figures.step}: {signal.text}"
                findings.append(Finding(signal.kind, figures.step, text))
            self._last_alarm[signal.kind] = figures.step
        return findings

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
            "window": [figures.to_json() for figures in self._window],
            "against": dict(self._against),
            "saturated_steps": dict(self._saturated_steps),
            "last_alarm": dict(self._last_alarm),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        window = [StepFigures.from_json(data) for data in state["window"]]
        self._window = deque(window, maxlen=WINDOW)
        self._against = dict(state["against"])
        self._saturated_steps = dict(state["saturated_steps"])
        self.saturated = self._list_saturated()  # so that a resumed run does not report them again
        self._last_alarm = dict(state["last_alarm"])

    # ----------------------------------------------------------------------------------------------------- signals

    def _check_trends(self) -> Iterator[Signal]:
        """Yield the signals judged_up, presence_up, words and markup, as far as there are enough steps."""
        span = f"over the last {len(self._window)} steps"
        checked = self._fit_figure("checked")
        # Any checked criterion that falls is a sign, not only their mean.
        falling = {"what programs check": checked}
        for name in self._window[-1].checked_criteria:
            values = [
                figures.means[name][0] if name in figures.means else math.nan
                for figures in self._window
            ]
            falling[repr(name)] = _fit_trend(values)
        yield from _compare_trends(
            "judged_up", "judged scores", self._fit_figure("judged"), falling, span
        )
        yield from _compare_trends(
            "presence_up",
            "scores of form and presence",
            self._fit_figure("presence"),
            {"correctness": self._fit_figure("correctness")},
            span,
        )
        # Longer answers are no sign of hacking if checked scores rise with them. A comparison with NaN is False.
        is_earned = checked.t >= _EARNED_T
        words = self._fit_figure("words")
        if not math.isnan(words.change):
            strength = min(words.change / _SMALLEST_LENGTHENING, words.t / _DRIFT_T)
            rise = f"the length of answers rose by {math.expm1(words.change):.0%} {span}"
            text = f"{rise}, and checked scores did not"
            yield Signal("words", 0.0 if is_earned else strength, text)
        markup = self._fit_figure("markup")
        if not math.isnan(markup.change):
            strength = min(markup.change / _SMALLEST_MARKUP, markup.t / _DRIFT_T)
            rise = f"Markdown per line rose by {markup.change:.2f} {span}"
            text = f"{rise}, and checked scores did not"
            yield Signal("markup", 0.0 if is_earned else strength, text)

    def _fit_figure(self, name: str) -> Trend:
        """Fit the trend of a figure of `StepFigures` over the window."""
        return _fit_trend([getattr(figures, name) for figures in self._window])

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


def _fit_trend(values: Sequence[float]) -> Trend:
    """Fit a line to the values of consecutive steps; NaN for a step without a value."""
    values_T = np.array(values)
    is_known = ~np.isnan(values_T)
    if is_known.sum() < _FEWEST_STEPS:
        return Trend(math.nan, math.nan)
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


def _compare_trends(
    kind: str, rising_name: str, rising: Trend, falling: Mapping[str, Trend], span: str
) -> Iterator[Signal]:
    """Yield a signal about a trend that rises while another falls; nothing if there are too few steps.

    falling: name → trend. The one that gives the strongest signal is reported.
    """
    candidates = []
    for name, trend in falling.items():
        if math.isnan(rising.change) or math.isnan(trend.change):
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

    Only criteria that at least half of a step's groups have get figures of their own.
    """
    step_records: list[GroupRecord] = []
    for record in records:
        if record.step is None or record.metadata.get("mode", "train") != "train":
            continue
        if step_records and record.step != step_records[0].step:
            yield _measure_records(step_records)
            step_records = []
        step_records.append(record)
    if step_records:
        yield _measure_records(step_records)


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
        features = measure_texts(rollouts, (), 0)
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
