"""Find what to change about a run: up to three findings, each with its evidence and an action.

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

There are no findings about fewer than 8 groups or 50 pairs. Of fused batches only the first 300 groups are examined.

A training run is examined every 64 groups (`RunFindings`): at most 16 groups of a step are looked at, and the same
finding is logged again only after 100 steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.records.record import GroupRecord, records_of, to_fused_group
from rubrank.scores.outcomes import outcomes

_MOST_FUSED_GROUPS = 300  # examined of fused batches
LEAST_GROUPS = 8
LEAST_PAIRS = 50
MOST_FINDINGS = 3
GROUPS_OF_RUN = 64
"""Groups of a training run that are examined together."""
GROUPS_OF_STEP = 16
"""Most groups of a training step that are examined."""
STEPS_BETWEEN = 100
"""A finding about a training run is repeated only after this many steps."""
# The thresholds of the findings; the table above explains them.
NO_SIGNAL_SHARE = 0.2
MISSING_SHARE = 0.1
STOPPED_SHARE = 0.3
TIED_SHARE = 0.8
FOLLOWS_GAMMA = 0.3
FOLLOWS_TAU = 0.4
DOMINANT_SHARE = 0.8
REDUNDANT_SHARE = 0.95
REVERSED_TAU = -0.3
UNSURE_PROBABILITY = 0.7


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
    """Return the findings about fused batches or about records, most important first; none for too few groups."""
    listed = [results] if isinstance(results, Fused) else list(results)
    group_count = sum(len(result) if isinstance(result, Fused) else 1 for result in listed)
    if group_count < LEAST_GROUPS:  # reading the groups would be wasted
        return []
    counts = FindingCounts()
    for result in listed:
        if isinstance(result, GroupRecord):
            counts.add(result)
            continue
        groups = range(min(len(result), _MOST_FUSED_GROUPS - counts.groups))
        for record in records_of(result, only=groups):
            counts.add(record)
    return counts.list_findings()[:most]


@dataclass
class _CriterionCounts:
    """Counts and sums of one criterion over its groups."""

    groups: int = 0
    tied: int = 0
    rollouts: int = 0
    not_asked: int = 0
    """Rollouts without a verdict because a hard gate had stopped them; these are not missing."""
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
        self._pairs: dict[tuple[str, ...], np.ndarray] = {}
        """Names of a group's criteria → (2, K, K): pairs of rollouts that both criteria decide, and in the same way."""

    def add(self, record: GroupRecord) -> None:
        """Add the counts of a recorded group."""
        # Letters: G rollouts, K criteria, P pairs of rollouts.
        group = to_fused_group(record)
        size, K = group.scores.shape
        self.groups += 1
        self.rollouts += size
        oriented_GK = np.where(group.higher_is_better, group.scores, -group.scores)
        best_K = []
        for criterion in record.ranked:
            is_higher = criterion.direction == "higher"
            best_K.append(criterion.domain.high if is_higher else -criterion.domain.low)
        is_best_GK = oriented_GK == np.array(best_K)
        if group.no_signal:
            self.without_signal += 1
            if K and is_best_GK.all():
                self.solved.append(_name_group(record))
        # Judges are not asked about rollouts that a hard gate has stopped, so nothing is missing there.
        is_asked_G = np.ones(size, bool)
        if record.gate is not None:
            for i, gates in enumerate(record.gate.stopped_by):
                self.stopped.update(gates)
                is_asked_G[i] = not gates
        missing_K = (~group.known[is_asked_G]).sum(0)
        not_asked_K = (~group.known[~is_asked_G]).sum(0)

        outcomes_GGK = outcomes(oriented_GK, group.margins)
        for k, compared_GG in group.compared.items():
            outcomes_GGK[:, :, k] = compared_GG
        # For each pair of rollouts: 1 if the first wins, −1 if the second does, 0 for a tie or no comparison.
        first, second = np.triu_indices(size, 1)
        signs_PK = np.sign(np.nan_to_num(outcomes_GGK[first, second] - 0.5))
        decides_PK = np.abs(signs_PK)
        # For each two criteria: how many pairs both decide, and how many of these in the same way. A product of signs
        # is 1 for the same way and −1 for opposite ways, so its sum is same − (both − same).
        both_KK = decides_PK.T @ decides_PK
        same_KK = (both_KK + signs_PK.T @ signs_PK) / 2
        pairs = np.stack([both_KK, same_KK])
        self._pairs[group.criteria] = self._pairs.get(group.criteria, 0.0) + pairs

        # For each criterion: which rollout of a pair wins by the weighted votes of all other criteria.
        signs_of_others_PK = np.sign((signs_PK * group.weights) @ (1.0 - np.eye(K)))
        rest_tau_K = _measure_kendall_tau(signs_PK, signs_of_others_PK)
        length_tau_K = np.full(K, np.nan)
        if record.responses is not None:
            lengths = np.array([len(text) for text in record.responses], dtype=float)
            longer_P = np.sign(lengths[first] - lengths[second])
            length_tau_K = _measure_kendall_tau(signs_PK, longer_P[:, None])
        # The influence of attributes that control left.
        gammas_KD = np.zeros((K, 0))
        if group.shrunk is not None and group.taken is not None:
            gammas_KD = np.nan_to_num(group.shrunk) - np.nan_to_num(group.taken)
        for k, name in enumerate(group.criteria):
            if not group.known[:, k].any():
                continue  # a criterion of another query
            counts = self.criteria[name]
            counts.groups += 1
            counts.tied += not decides_PK[:, k].any()
            counts.rollouts += size
            counts.not_asked += int(not_asked_K[k])
            counts.missing += int(missing_K[k])
            counts.at_best += int(is_best_GK[:, k].sum())
            counts.weight += float(group.weights[k] / max(group.weights.sum(), 1e-12))
            if record.effective_weights is not None:
                counts.effective += record.effective_weights[k]
            counts.is_judged = counts.is_judged or record.ranked[k].verifier is None
            if not np.isnan(length_tau_K[k]):
                counts.length_taus.append(float(length_tau_K[k]))
            if not np.isnan(rest_tau_K[k]):
                counts.rest_taus.append(float(rest_tau_K[k]))
            for attribute, gamma in zip(group.attribute_names, gammas_KD[k], strict=False):
                counts.gammas[attribute].append(float(gamma))
            for distribution in record.probabilities.get(name, ()):
                if distribution:
                    counts.certainties.append(max(probability for _, probability in distribution))

    def list_findings(self) -> list[Finding]:
        """Return all findings, most important first; none for fewer than `LEAST_GROUPS` groups."""
        if self.groups < LEAST_GROUPS:
            return []
        findings = [*self._check_groups(), *self._check_criteria(), *self._check_pairs()]
        return sorted(findings, key=lambda finding: -finding.severity)

    def _check_groups(self) -> Iterable[Finding]:
        """Have many groups no signal? Does a gate stop many rollouts?"""
        share = self.without_signal / self.groups
        if share >= NO_SIGNAL_SHARE:
            sentence = (
                f"{share:.0%} of {self.groups} groups have no signal: all their rewards are equal."
            )
            action = "Add criteria that tell these responses apart, or sample more responses."
            if len(self.solved) > self.without_signal / 2:
                sentence = f"{share:.0%} of {self.groups} groups have no signal; {len(self.solved)} prompts are solved."
                action = f"Drop solved prompts, such as {', '.join(self.solved[:3])}, or ask more of them."
            yield Finding(
                kind="no signal",
                sentence=sentence,
                action=action,
                severity=share,
                evidence={"share": share, "solved": self.solved[:100]},
            )
        for name, count in self.stopped.items():
            stopped = count / self.rollouts
            if stopped >= STOPPED_SHARE:
                yield Finding(
                    kind="gate",
                    sentence=f"The gate {name} stops {stopped:.0%} of the rollouts.",
                    action=f"Read some of them (rubrank view, filter “stopped by {name}”): is the gate right?",
                    severity=0.8 * stopped,
                    evidence={"share": stopped},
                    subject=name,
                )

    def _check_criteria(self) -> Iterable[Finding]:
        """Check every criterion by itself. A finding about a criterion is as severe as its share of the weights."""
        total_weight = sum(counts.weight for counts in self.criteria.values())
        for name, counts in self.criteria.items():
            importance = counts.weight / max(total_weight, 1e-12)
            if counts.groups >= LEAST_GROUPS:
                yield from self._check_scores(name, counts, importance)
            yield from self._check_attributes(name, counts, importance)
            effective = counts.effective / max(1, self.groups - self.without_signal)
            if effective >= DOMINANT_SHARE and importance <= 0.5 and len(self.criteria) > 2:
                yield Finding(
                    kind="dominates",
                    sentence=f"{name} decides {effective:.0%} of the rewards with {importance:.0%} of the weight.",
                    action=f"Lower its weight, or set `span=unit` if {name} has many levels.",
                    severity=effective - importance,
                    evidence={"effective": effective},
                    subject=name,
                )
            yield from self._check_direction(name, counts, importance)
            if (
                len(counts.certainties) >= LEAST_PAIRS
                and np.mean(counts.certainties) < UNSURE_PROBABILITY
            ):
                certainty = float(np.mean(counts.certainties))
                yield Finding(
                    kind="unsure",
                    sentence=f"The judge of {name} is only {certainty:.0%} sure on average.",
                    action=(
                        "Use outcomes: soft, more samples, or a better judge for uncertain answers "
                        "(`rubrank help judges`)."
                    ),
                    severity=(1 - certainty) * importance,
                    evidence={"certainty": certainty},
                    subject=name,
                )

    def _check_scores(
        self, name: str, counts: _CriterionCounts, importance: float
    ) -> Iterable[Finding]:
        """Are its scores missing, or tied? importance: its share of the weights."""
        missing = counts.missing / max(1, counts.rollouts - counts.not_asked)
        if missing >= MISSING_SHARE:
            yield Finding(
                kind="missing",
                sentence=f"{missing:.0%} of the scores of {name} are missing.",
                action="The records state the reasons; a rollout without a score is not compared.",
                severity=missing * (0.5 + importance / 2),
                evidence={"share": missing},
                subject=name,
            )
        tied = counts.tied / counts.groups
        if tied >= TIED_SHARE:
            yield Finding(
                kind="tied",
                sentence=f"{name} is tied in {tied:.0%} of {counts.groups} groups.",
                action="Drop it, or give it more levels.",
                severity=tied * importance,
                evidence={"share": tied},
                subject=name,
            )

    def _check_direction(
        self, name: str, counts: _CriterionCounts, importance: float
    ) -> Iterable[Finding]:
        """Does it disagree with the other criteria?"""
        tau = float(np.mean(counts.rest_taus)) if len(counts.rest_taus) >= LEAST_GROUPS else 0.0
        if tau > REVERSED_TAU:
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
        yield Finding(
            kind="reversed",
            sentence=sentence,
            action=action,
            severity=-tau * importance,
            evidence={"tau": tau},
            subject=name,
        )

    def _check_attributes(
        self, name: str, counts: _CriterionCounts, importance: float
    ) -> Iterable[Finding]:
        """Does a judge prefer long or formatted responses?"""
        if not counts.is_judged:
            return  # a program has no preference for long or formatted answers
        for attribute, gammas in counts.gammas.items():
            gamma = float(np.mean(gammas))
            if abs(gamma) >= FOLLOWS_GAMMA:
                yield Finding(
                    kind="follows",
                    sentence=f"{name} still follows {attribute} (γ {gamma:+.2f} after control).",
                    action="Take more of it out: adjust=remove, or attenuate with a larger λ.",
                    severity=min(1.0, abs(gamma)) * importance,
                    evidence={"gamma": gamma},
                    subject=f"{name}, {attribute}",
                )
        if counts.gammas or len(counts.length_taus) < LEAST_GROUPS:
            return
        tau = float(np.mean(counts.length_taus))
        if tau >= FOLLOWS_TAU:
            yield Finding(
                kind="follows",
                sentence=f"{name} follows the length of the answer (mean τ {tau:+.2f}).",
                action="Control the attribute `answer_length`, unless longer answers are better here.",
                severity=tau * importance,
                evidence={"tau": tau},
                subject=name,
            )

    def _check_pairs(self) -> Iterable[Finding]:
        """Do two criteria say the same?"""
        decided: Counter[tuple[str, str]] = Counter()
        agreeing: Counter[tuple[str, str]] = Counter()
        for names, (both_KK, same_KK) in self._pairs.items():
            for a, b in np.argwhere(np.triu(both_KK, 1)):
                pair = (names[a], names[b])
                decided[pair] += int(both_KK[a, b])
                agreeing[pair] += int(same_KK[a, b])
        for pair, count in decided.items():
            share = agreeing[pair] / count
            if count >= LEAST_PAIRS and share >= REDUNDANT_SHARE:
                first, second = pair
                yield Finding(
                    kind="redundant",
                    sentence=f"{first} and {second} agree in {share:.0%} of {count} pairs.",
                    action="One of them is enough.",
                    severity=0.3 * share,
                    evidence={"share": share},
                    subject=", ".join(pair),
                )


class RunFindings:
    """The findings about a training run, examined every `GROUPS_OF_RUN` groups so that its log stays quiet."""

    def __init__(self) -> None:
        self.latest: list[Finding] = []
        """The findings of the last examination, most important first."""
        self._counts = FindingCounts()
        self._logged_at: dict[tuple[str, str], int] = {}

    def add(self, records: Iterable[GroupRecord], step: int) -> list[Finding]:
        """Add the groups of a step, and return the findings to log now, mostly none."""
        for record in records:
            self._counts.add(record)
        return self._examine(step) if self._counts.groups >= GROUPS_OF_RUN else []

    def finish(self, step: int) -> list[Finding]:
        """Return the findings about the groups since the last examination, at the end of a run."""
        return self._examine(step)

    def _examine(self, step: int) -> list[Finding]:
        """Set `latest`, start counting anew, and return the findings that were not logged lately."""
        if self._counts.groups < LEAST_GROUPS:
            return []
        self.latest = self._counts.list_findings()[:MOST_FINDINGS]
        self._counts = FindingCounts()
        new = []
        for finding in self.latest:
            key = (finding.kind, finding.subject)
            logged_at = self._logged_at.get(key)
            if logged_at is None or step - logged_at >= STEPS_BETWEEN:
                self._logged_at[key] = step
                new.append(finding)
        return new


def _name_group(record: GroupRecord) -> str:
    """Return the name of a group for the user."""
    if record.step is None or not record.prompt:
        return record.group
    # Ids of training groups mean nothing to a user: show the beginning of the prompt.
    text = " ".join(str(record.prompt[-1].get("content", "")).split())
    return f"“{text[:40]}…”" if len(text) > 40 else f"“{text}”"


def _measure_kendall_tau(first_signs_PK: np.ndarray, second_signs_PK: np.ndarray) -> np.ndarray:
    """Return (K,): Kendall's τ over the pairs that both decide; NaN if there is none."""
    products_PK = first_signs_PK * second_signs_PK
    count_K = np.abs(products_PK).sum(0)
    return np.where(count_K > 0, products_PK.sum(0) / np.maximum(count_K, 1), np.nan)
