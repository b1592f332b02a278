"""What to change about a run: up to three findings, each with its evidence and an action.

    >>> import rubrank
    >>> batch = rubrank.ScoreBatch.of_arrays(
    ...     [[[1, 5], [1, 4], [1, 3]]] * 10, criteria=["Polite", "Clarity"])
    >>> for finding in find_findings(rubrank.RLVR2()(batch)):
    ...     print(finding)
    Polite is tied in 100% of 10 groups. Drop it, or give it more levels.

Findings and their thresholds:

    no signal      ≥ 20% of groups have equal rewards             those that are solved are counted apart
    missing        ≥ 10% of a criterion's scores are missing
    gate           a hard gate stops ≥ 30% of the rollouts
    tied           a criterion is tied in ≥ 80% of its groups
    follows        a judged criterion follows an attribute: γ̃ after control ≥ 0.3, or mean τ with the length ≥ 0.4
    dominates      a criterion has ≥ 80% of the effective weight with ≤ 50% of the weight
    redundant      two criteria agree in ≥ 95% of the pairs that both decide
    reversed       a criterion disagrees with the sum of the others: mean τ ≤ −0.3
    unsure         a judge's verdicts have a mean probability below 0.7

There are no findings about fewer than 8 groups or 50 pairs. Of fused batches only the first 300 groups are examined,
because records take longer to make than rewards.

A training run is examined every 64 groups (`RunFindings`): at most 16 groups of a step are looked at, and the same
finding is logged again only after 100 steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.records.record import GroupRecord, records_of
from rubrank.records.unfold import to_array
from rubrank.scores.outcomes import outcomes

_MOST_GROUPS = 300  # of fused batches
LEAST_GROUPS = 8
LEAST_PAIRS = 50
MOST_FINDINGS = 3
GROUPS_OF_RUN = 64
"""Groups of a training run that are examined together."""
GROUPS_OF_STEP = 16
"""Most groups of a training step that are examined."""
STEPS_BETWEEN = 100
"""A finding about a training run is repeated only after this many steps."""
NO_SIGNAL = 0.2
MISSING = 0.1
STOPPED = 0.3
TIED = 0.8
FOLLOWS_GAMMA = 0.3
FOLLOWS_TAU = 0.4
DOMINATES = 0.8
REDUNDANT = 0.95
REVERSED = -0.3
UNSURE = 0.7


@dataclass(frozen=True)
class Finding:
    """One thing to change."""

    kind: str
    sentence: str
    """What is wrong, with the figure that shows it."""
    action: str
    """The command or edit that acts on it."""
    severity: float
    """From 0 to 1: what share of the training signal it touches."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""
    """The criterion, gate or pair of criteria that it is about; empty: the groups."""

    def __str__(self) -> str:
        """Both sentences."""
        return f"{self.sentence} {self.action}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "action": self.action,
            "evidence": dict(self.evidence),
        }


def find_findings(
    results: Fused | Iterable[Fused | GroupRecord], most: int = MOST_FINDINGS
) -> list[Finding]:
    """The findings about fused batches or about records, most important first."""
    records: list[GroupRecord] = []
    for result in [results] if isinstance(results, Fused) else results:
        if isinstance(result, GroupRecord):
            records.append(result)
        elif len(records) < _MOST_GROUPS:
            records += islice(records_of(result), _MOST_GROUPS - len(records))
    counts = FindingCounts()
    for record in records:
        counts.add(record)
    return counts.findings()[:most]


@dataclass
class _CriterionCounts:
    """Counts and sums of one criterion over its groups."""

    groups: int = 0
    tied: int = 0
    rollouts: int = 0
    missing: int = 0
    at_best: int = 0
    """Scores that are the best possible."""
    weight: float = 0.0
    effective: float = 0.0
    length_taus: list[float] = field(default_factory=list)
    """Of each group: τ with the lengths of the responses."""
    rest_taus: list[float] = field(default_factory=list)
    """Of each group: τ with the weighted sum of the other criteria."""
    gammas: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Attribute → the influence that control left, of each group."""
    certainties: list[float] = field(default_factory=list)
    """Of each verdict: the probability of its likeliest value."""
    is_judged: bool = False


class FindingCounts:
    """Counts over groups, from which the findings are made. Groups are added one by one, as a run writes them."""

    def __init__(self) -> None:
        self.groups = 0
        self.rollouts = 0
        self.without_signal = 0
        self.solved: list[str] = []
        self.stopped: Counter[str] = Counter()
        self.criteria: dict[str, _CriterionCounts] = defaultdict(_CriterionCounts)
        self.agreeing: Counter[tuple[str, str]] = Counter()
        self.decided: Counter[tuple[str, str]] = Counter()

    def add(self, record: GroupRecord) -> None:
        """Add the counts of a group."""
        group = _read_record(record)
        size = len(group.rewards)
        self.groups += 1
        self.rollouts += size
        if group.no_signal:
            self.without_signal += 1
            if group.is_solved:
                self.solved.append(group.label)
        self.stopped.update(group.stopped)
        signs_PK = _compare_outcomes(group.outcomes)
        for k, name in enumerate(group.names):
            if group.missing[k] == size:
                continue  # a criterion of another query
            counts = self.criteria[name]
            signs = signs_PK[:, k]
            counts.groups += 1
            counts.tied += not np.nan_to_num(signs).any()
            counts.rollouts += size
            counts.missing += int(group.missing[k])
            counts.at_best += int(group.at_best[k])
            counts.weight += float(group.weights[k] / max(group.weights.sum(), 1e-12))
            counts.effective += float(group.effective[k])
            counts.is_judged = counts.is_judged or group.judged[k]
            if group.lengths is not None:
                _append_tau(counts.length_taus, signs, _compare_values(group.lengths))
            if len(group.names) > 1:
                sum_of_others = np.nansum(np.delete(signs_PK * group.weights, k, axis=1), axis=1)
                _append_tau(counts.rest_taus, signs, np.sign(sum_of_others))
            for attribute, gamma in group.gammas.get(name, {}).items():
                counts.gammas[attribute].append(gamma)
            counts.certainties += group.certainties.get(name, [])
        self._add_agreement(group.names, signs_PK)

    def _add_agreement(self, names: tuple[str, ...], signs_PK: np.ndarray) -> None:
        decides_PK = np.nan_to_num(signs_PK) != 0
        for a in range(len(names)):
            for b in range(a + 1, len(names)):
                both = decides_PK[:, a] & decides_PK[:, b]
                pair = (names[a], names[b])
                self.decided[pair] += int(both.sum())
                self.agreeing[pair] += int((signs_PK[both, a] == signs_PK[both, b]).sum())

    def findings(self) -> list[Finding]:
        """All findings, most important first."""
        if self.groups < LEAST_GROUPS:
            return []
        findings = [*self._about_groups(), *self._about_criteria(), *self._about_pairs()]
        return sorted(findings, key=lambda finding: -finding.severity)

    def _about_groups(self) -> Iterable[Finding]:
        share = self.without_signal / self.groups
        if share >= NO_SIGNAL:
            sentence = (
                f"{share:.0%} of {self.groups} groups have no signal: all their rewards are equal."
            )
            action = "Add criteria that tell these responses apart, or sample more responses."
            if len(self.solved) > self.without_signal / 2:
                sentence = f"{share:.0%} of {self.groups} groups have no signal; {len(self.solved)} prompts are solved."
                action = f"Drop solved prompts, such as {', '.join(self.solved[:3])}, or ask more of them."
            evidence = {"share": share, "solved": self.solved[:100]}
            yield Finding("no signal", sentence, action, share, evidence)
        for name, count in self.stopped.items():
            stopped = count / self.rollouts
            if stopped >= STOPPED:
                sentence = f"The gate {name} stops {stopped:.0%} of the rollouts."
                action = f"Read some of them (rubrank view, filter “stopped by {name}”): is the gate right?"
                yield Finding("gate", sentence, action, 0.8 * stopped, {"share": stopped}, name)

    def _about_criteria(self) -> Iterable[Finding]:
        total_weight = sum(counts.weight for counts in self.criteria.values())
        for name, counts in self.criteria.items():
            importance = counts.weight / max(total_weight, 1e-12)
            missing = counts.missing / max(1, counts.rollouts)
            if missing >= MISSING and counts.groups >= LEAST_GROUPS:
                sentence = f"{missing:.0%} of the scores of {name} are missing."
                action = "The records state the reasons; a rollout without a score is not compared."
                yield Finding(
                    "missing",
                    sentence,
                    action,
                    missing * (0.5 + importance / 2),
                    {"share": missing},
                    name,
                )
            tied = counts.tied / counts.groups
            if counts.groups >= LEAST_GROUPS and tied >= TIED:
                sentence = f"{name} is tied in {tied:.0%} of {counts.groups} groups."
                action = "Drop it, or give it more levels."
                yield Finding("tied", sentence, action, tied * importance, {"share": tied}, name)
            yield from self._about_attributes(name, counts, importance)
            effective = counts.effective / max(1, self.groups - self.without_signal)
            if effective >= DOMINATES and importance <= 0.5 and len(self.criteria) > 2:
                sentence = f"{name} decides {effective:.0%} of the rewards with {importance:.0%} of the weight."
                action = f"Lower its weight, or use span=unit (--set span=unit) if {name} has many levels."
                yield Finding(
                    "dominates",
                    sentence,
                    action,
                    effective - importance,
                    {"effective": effective},
                    name,
                )
            yield from self._about_direction(name, counts, importance)
            if len(counts.certainties) >= LEAST_PAIRS and np.mean(counts.certainties) < UNSURE:
                certainty = float(np.mean(counts.certainties))
                sentence = f"The judge of {name} is only {certainty:.0%} sure on average."
                action = (
                    "Use outcomes: soft, more samples, or a better judge for what is unsure "
                    "(`rubrank help judges`)."
                )
                yield Finding(
                    "unsure",
                    sentence,
                    action,
                    (1 - certainty) * importance,
                    {"certainty": certainty},
                    name,
                )

    def _about_direction(
        self, name: str, counts: _CriterionCounts, importance: float
    ) -> Iterable[Finding]:
        tau = float(np.mean(counts.rest_taus)) if len(counts.rest_taus) >= LEAST_GROUPS else 0.0
        if tau > REVERSED:
            return
        names = list(self.criteria)
        sentence = f"{name} disagrees with the other criteria (mean τ {tau:+.2f})."
        action = "Is its direction right? A penalty needs `direction: lower`."
        if len(names) == 2:
            # Each disagrees with the other: that is one finding.
            if name != names[0]:
                return
            sentence = f"{name} and {names[1]} contradict each other (mean τ {tau:+.2f})."
            action = "Are their directions right? A penalty needs `direction: lower`."
        yield Finding("reversed", sentence, action, -tau * importance, {"tau": tau}, name)

    def _about_attributes(
        self, name: str, counts: _CriterionCounts, importance: float
    ) -> Iterable[Finding]:
        if not counts.is_judged:
            return  # programs have no liking for attributes
        for attribute, gammas in counts.gammas.items():
            gamma = float(np.mean(gammas))
            if abs(gamma) >= FOLLOWS_GAMMA:
                sentence = f"{name} still follows {attribute} (γ {gamma:+.2f} after control)."
                action = "Take more of it out: adjust=remove, or attenuate with a larger λ."
                severity = min(1.0, abs(gamma)) * importance
                yield Finding(
                    "follows", sentence, action, severity, {"gamma": gamma}, f"{name}, {attribute}"
                )
        if counts.gammas or len(counts.length_taus) < LEAST_GROUPS:
            return
        tau = float(np.mean(counts.length_taus))
        if tau >= FOLLOWS_TAU:
            sentence = f"{name} follows the length of the answer (mean τ {tau:+.2f})."
            action = (
                "Control it with --attributes answer_length, unless longer answers are better here."
            )
            yield Finding("follows", sentence, action, tau * importance, {"tau": tau}, name)

    def _about_pairs(self) -> Iterable[Finding]:
        for pair, decided in self.decided.items():
            share = self.agreeing[pair] / max(1, decided)
            if decided >= LEAST_PAIRS and share >= REDUNDANT:
                first, second = pair
                sentence = f"{first} and {second} agree in {share:.0%} of {decided} pairs."
                evidence = {"share": share}
                yield Finding(
                    "redundant",
                    sentence,
                    "One of them is enough.",
                    0.3 * share,
                    evidence,
                    ", ".join(pair),
                )


class RunFindings:
    """The findings about a training run, examined every `GROUPS_OF_RUN` groups so that its log stays quiet."""

    def __init__(self) -> None:
        self.latest: list[Finding] = []
        """The findings of the last examination, most important first."""
        self._counts = FindingCounts()
        self._logged_at: dict[tuple[str, str], int] = {}

    def add(self, records: Iterable[GroupRecord], step: int) -> list[Finding]:
        """Add the groups of a step; returns the findings to log now, mostly none."""
        for record in records:
            self._counts.add(record)
        return self._examine(step) if self._counts.groups >= GROUPS_OF_RUN else []

    def finish(self, step: int) -> list[Finding]:
        """The findings about the groups since the last examination, at the end of a run."""
        return self._examine(step)

    def _examine(self, step: int) -> list[Finding]:
        if self._counts.groups < LEAST_GROUPS:
            return []
        self.latest = self._counts.findings()[:MOST_FINDINGS]
        self._counts = FindingCounts()
        new = []
        for finding in self.latest:
            key = (finding.kind, finding.subject)
            logged_at = self._logged_at.get(key)
            if logged_at is None or step - logged_at >= STEPS_BETWEEN:
                self._logged_at[key] = step
                new.append(finding)
        return new


# ---- one group -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _GroupFigures:
    """What the findings need of a group: G rollouts, and the K criteria by which they are ranked."""

    label: str
    names: tuple[str, ...]
    judged: tuple[bool, ...]
    outcomes: np.ndarray
    """(G, G, K)"""
    missing: np.ndarray
    at_best: np.ndarray
    """(K,): how many of the scores are the best possible."""
    weights: np.ndarray
    effective: np.ndarray
    rewards: np.ndarray
    no_signal: bool
    is_solved: bool
    stopped: Counter[str]
    lengths: np.ndarray | None = None
    gammas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    certainties: Mapping[str, list[float]] = field(default_factory=dict)


def _read_record(record: GroupRecord) -> _GroupFigures:
    ranked = record.ranked
    K = len(ranked)
    scores_GK = to_array(record.scores, (record.size, len(record.criteria)))[:, :K]
    higher = np.array([criterion.direction == "higher" for criterion in ranked], dtype=bool)
    oriented_GK = np.where(higher, scores_GK, -scores_GK)
    outcomes_GGK = outcomes(oriented_GK, np.array([criterion.margin for criterion in ranked]))
    missing = np.isnan(scores_GK).sum(0)
    for k, criterion in enumerate(ranked):
        if criterion.name in record.outcomes:
            outcomes_GGK[:, :, k] = to_array(
                record.outcomes[criterion.name], (record.size, record.size)
            )
            missing[k] = 0
    best_K = []
    for criterion in ranked:
        best_K.append(
            criterion.domain.high if criterion.direction == "higher" else -criterion.domain.low
        )
    stopped: Counter[str] = Counter()
    if record.gate is not None:
        stopped.update(name for names in record.gate.stopped_by for name in names)
    certainties = {
        name: [max(probability for _, probability in pairs) for pairs in distributions if pairs]
        for name, distributions in record.probabilities.items()
    }
    return _GroupFigures(
        label=_name_prompt(record),
        names=tuple(criterion.name for criterion in ranked),
        judged=tuple(criterion.verifier is None for criterion in ranked),
        outcomes=outcomes_GGK,
        missing=missing,
        at_best=(oriented_GK == np.array(best_K)).sum(0),
        weights=np.asarray(record.weights, dtype=float),
        effective=np.nan_to_num(np.asarray(record.effective_weights or np.zeros(K), dtype=float)),
        rewards=np.asarray(record.reward, dtype=float),
        no_signal=record.no_signal,
        is_solved=bool(record.no_signal and K and np.all(oriented_GK == np.array(best_K))),
        stopped=stopped,
        lengths=None
        if record.responses is None
        else np.array([len(text) for text in record.responses], dtype=float),
        gammas=_remaining_gammas(record),
        certainties=certainties,
    )


def _name_prompt(record: GroupRecord) -> str:
    """The beginning of the prompt, if it is recorded: ids of training groups mean nothing to a user."""
    if record.step is None or not record.prompt:
        return record.group
    text = " ".join(str(record.prompt[-1].get("content", "")).split())
    return f"“{text[:40]}…”" if len(text) > 40 else f"“{text}”"


def _remaining_gammas(record: GroupRecord) -> dict[str, dict[str, float]]:
    """Criterion → attribute → the influence that control did not take out."""
    if record.shrunk is None:
        return {}
    shape = (len(record.ranked), len(record.attribute_names))
    remaining_KD = to_array(record.shrunk, shape)
    if record.taken is not None:
        remaining_KD = remaining_KD - np.nan_to_num(to_array(record.taken, shape))
    gammas = {}
    for criterion, row in zip(record.ranked, np.nan_to_num(remaining_KD), strict=True):
        gammas[criterion.name] = dict(zip(record.attribute_names, row.tolist(), strict=True))
    return gammas


def _compare_outcomes(outcomes_GGK: np.ndarray) -> np.ndarray:
    """(pairs, K): 1 if the first wins, −1 if the second does, 0 for a tie, NaN if they were not compared."""
    first, second = np.triu_indices(outcomes_GGK.shape[0], 1)
    return np.asarray(np.sign(outcomes_GGK[first, second] - 0.5))


def _compare_values(values: np.ndarray) -> np.ndarray:
    """(pairs,): the same for one value per rollout; the larger one wins."""
    first, second = np.triu_indices(len(values), 1)
    return np.asarray(np.sign(values[first] - values[second]))


def _append_tau(taus: list[float], first_signs: np.ndarray, second_signs: np.ndarray) -> None:
    """Append Kendall's τ over the pairs that both decide, if there are any."""
    decided = (np.nan_to_num(first_signs) != 0) & (np.nan_to_num(second_signs) != 0)
    if decided.any():
        taus.append(float((first_signs[decided] * second_signs[decided]).mean()))
