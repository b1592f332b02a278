"""Several judges for one question.

Panel                    several answers to the same question become one
calibrate_judgment       probabilities are corrected by how often a judge was right
choose_escalated         a cascade: the answers that a cheap judge is not sure of go to a better one
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import NamedTuple, TypeAlias

import numpy as np

from rubrank.judges.design import find_duplicates, make_seeded_random
from rubrank.judges.judge import (
    AskerOf,
    Call,
    Combine,
    Judge,
    JudgeKind,
    Judgment,
    Question,
    Reply,
    WrappedAsker,
    gather_all,
)
from rubrank.judges.kinds.comparisons import (
    average_outcomes,
    list_distinct_rollouts,
    measure_disagreement,
)
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.distribution import (
    Distribution,
    mean_of,
    mix_distributions,
    most_probable,
    sureness,
)
from rubrank.verifiers.verifier import LONGEST_REASON, Verdict, missing


@dataclass(eq=False)
class SampledAsker(WrappedAsker):
    """Asks for answer number `sample` to every call, counted from 0."""

    sample: int

    async def ask(self, call: Call) -> Reply:
        """Return the reply to this sample of the call."""
        return await self.asker.ask(replace(call, sample=self.sample))

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Report it for this sample of the call."""
        super().unreadable(replace(call, sample=self.sample), reply)


class Panel:
    """Runs another kind once for every member and sample, and combines the judgments.

        members: [a, b, c]             three judges answer the same questions
        samples: 5                     one judge is asked five times (give it a temperature above 0)
        members and samples            each member is asked that many times

    A setting that a member leaves out (sampling, language, passes, pairs, samples …) is taken from the panel.

    Verdicts are combined by `combine_verdicts`. Outcomes of comparisons are always the mean over the members that
    compared the pair; `combine` does not apply to them: three members, two of whom prefer i, give 0.67.

    Members that do not answer are left out; if no member answers, the answer is missing, with all reasons. `asked` and
    `lost` count the answers of every member, and `missing` has the reasons, so that a member that fails is noticed.
    """

    def __init__(self, kind: JudgeKind) -> None:
        self._kind = kind

    def calls(self, question: Question, judge: Judge) -> int:
        """Return the number of calls of all members and samples."""
        return sum(member.samples * self._kind.calls(question, member) for member in judge.voters)

    async def judge(self, question: Question, judge: Judge, asker_of: AskerOf) -> Judgment:
        """Ask all members, and combine their judgments."""
        coroutines = []
        for member in judge.voters:
            for sample in range(member.samples):
                asker = SampledAsker(asker_of(member), sample)
                coroutines.append(self._kind.judge(question, member, asker))
        judgments = await gather_all(coroutines)
        combined = Judgment(
            asked=sum(judgment.asked for judgment in judgments),
            lost=sum(judgment.lost for judgment in judgments),
        )
        for judgment in judgments:
            # The words of the first member that said something are kept.
            combined.words = {**judgment.words, **combined.words}
        for k, criterion in enumerate(question.criteria):
            _combine_scores(combined, judgments, criterion, judge.combine)
            _combine_outcomes(combined, judgments, question, k)
        return combined


# ----------------------------------------------------------------------------------------------------------- verdicts


def _combine_scores(
    combined: Judgment, judgments: Sequence[Judgment], criterion: Criterion, combine: Combine
) -> None:
    """Add the combined verdicts of one criterion."""
    name = criterion.name
    rollouts = sorted(
        {
            i
            for judgment in judgments
            for i, criterion_name in judgment.verdicts
            if criterion_name == name
        }
    )
    scores = np.full((len(judgments), len(rollouts)), math.nan)
    for column, i in enumerate(rollouts):
        verdicts = []
        for row, judgment in enumerate(judgments):
            if (i, name) in judgment.verdicts:
                verdict = judgment.verdicts[i, name]
                verdicts.append(verdict)
                scores[row, column] = verdict.score
        combined.verdicts[i, name] = combine_verdicts(verdicts, criterion, combine)
        lost = [verdict.reason for verdict in verdicts if verdict.value is None]
        if len(lost) == len(verdicts):
            # The combined verdict is missing as well, and is counted for one of them.
            lost = lost[1:]
        if lost:
            combined.missing.setdefault(name, []).extend(lost)
    domain = criterion.value_domain
    member_disagreement = measure_disagreement(scores) / (domain.high - domain.low)
    if not math.isnan(member_disagreement):
        combined.disagreement[name] = member_disagreement


def combine_verdicts(
    verdicts: Sequence[Verdict], criterion: Criterion, combine: Combine
) -> Verdict:
    """Combine several verdicts into one; its reason says how it was reached.

        majority    the most frequent value (default). A tie goes to the tied value nearest the median of all answers;
                    if two are equally near, to the less favourable one. The result is a value of the criterion's
                    domain. If all answers differ, as on a continuous domain, it is the median answer.
        mean        a fraction: two of three said 1 → 0.67. It may lie between the values of the domain. That does not
                    matter for rankings, but it means that a single dissenting member stops a rollout at a hard gate.
        median      for an even number of answers, the mean of the two middle ones: it may lie between the values too

    How sure they are together is kept as probabilities over the values: the share of the answers, or the mean of the
    members' own probabilities where they have some.
    """
    answered = [verdict for verdict in verdicts if verdict.value is not None]
    values = [verdict.score for verdict in answered]
    lost = Counter(verdict.reason for verdict in verdicts if verdict.value is None)
    reasons_of_lost = "; ".join(lost)
    if not values:
        return missing(_shorten(f"{reasons_of_lost}: none of {len(verdicts)} answered"))
    if combine == "majority":
        counts = Counter(values)
        tied = [value for value in counts if counts[value] == max(counts.values())]
        sign = 1.0 if criterion.direction == "higher" else -1.0
        middle = median(values)
        value = min(tied, key=lambda value: (abs(value - middle), sign * value))
        how = f"{values.count(value)} of {len(values)} said {value:g}"
    else:
        value = fmean(values) if combine == "mean" else median(values)
        how = f"{combine} {value:.3g} of {', '.join(f'{score:g}' for score in values)}"
    if lost:
        how += f" ({lost.total()} missing: {reasons_of_lost})"
    nearest = min(answered, key=lambda verdict: abs(verdict.score - value))
    distributions = [verdict.probabilities or ((verdict.score, 1.0),) for verdict in answered]
    return Verdict(value, _shorten(f"{how}: {nearest.reason}"), mix_distributions(distributions))


def _shorten(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " …"


# -------------------------------------------------------------------------------------------------------- comparisons


def _combine_outcomes(
    combined: Judgment, judgments: Sequence[Judgment], question: Question, column: int
) -> None:
    """Add the combined outcomes of one criterion, if it was compared."""
    name = question.criteria[column].name
    observed = [judgment.outcomes[name] for judgment in judgments if name in judgment.outcomes]
    if not observed:
        return
    combined.outcomes[name] = average_outcomes(np.stack(observed))
    rollouts = list_distinct_rollouts(question, column)  # no judge was asked about duplicates
    member_disagreement = measure_disagreement(
        [outcomes[np.ix_(rollouts, rollouts)] for outcomes in observed]
    )
    if not math.isnan(member_disagreement):
        combined.disagreement[name] = member_disagreement
    wins = 0.0
    comparisons = 0
    reasons: list[str] = []
    for judgment in judgments:
        reasons += judgment.missing.get(name, ())
        member_wins, member_comparisons = judgment.first_wins.get(name, (0.0, 0))
        wins += member_wins
        comparisons += member_comparisons
    if reasons:
        combined.missing[name] = reasons
    if comparisons:
        combined.first_wins[name] = (wins, comparisons)


# -------------------------------------------------------------------------------------------------------- calibration
#
# What a judge says is 80% likely should be so in 80% of the cases.
#
#     fit_isotonic([0.1, 0.4, 0.8, 0.9], [0, 1, 0, 1])      ((0.1, 0.0), (0.4, 0.5), (0.8, 0.5), (0.9, 1.0))
#
# A distribution over ordered levels is calibrated by its cumulative probabilities P(value ≥ level): one rising function
# for each criterion maps what the judge says to the frequency that was observed (isotonic regression). So the result is
# a distribution again. `rubrank judge calibrate` fits the function, the setting `calibration` of a judge applies it.

Knots: TypeAlias = tuple[tuple[float, float], ...]
"""Pairs of a probability that the judge states and the one that is right; neither falls from pair to pair."""


def fit_isotonic(stated: Sequence[float], observed: Sequence[float]) -> Knots:
    """Return the rising function nearest to the observations, as the ends of its steps.

    The method is called "pool adjacent violators".
    """
    # Equal probabilities are one block.
    levels, level_of = np.unique(np.asarray(stated, dtype=float), return_inverse=True)
    totals = np.bincount(level_of, weights=observed)
    counts = np.bincount(level_of)
    blocks: list[_Block] = []
    for level, total, count in zip(levels.tolist(), totals.tolist(), counts.tolist(), strict=True):
        block = _Block(level, level, total, count)
        # The means must rise: a block joins the one before it as long as that has no smaller mean.
        while blocks and blocks[-1].total * block.size >= block.total * blocks[-1].size:
            before = blocks.pop()
            block = _Block(
                before.low, block.high, before.total + block.total, before.size + block.size
            )
        blocks.append(block)
    knots: list[tuple[float, float]] = []
    for block in blocks:
        # One end if the block has one probability only.
        ends = dict.fromkeys((block.low, block.high))
        knots += [(end, block.total / block.size) for end in ends]
    return tuple(knots)


class _Block(NamedTuple):
    """Neighbouring observations to which the isotonic fit gives the same value, their mean."""

    low: float
    """Lowest stated probability."""
    high: float
    """Highest stated probability."""
    total: float
    """Sum of the observations."""
    size: int
    """How many there are."""


def calibrate_distribution(distribution: Distribution, knots: Knots) -> Distribution:
    """Return the distribution with calibrated cumulative probabilities."""
    stated, right = zip(*knots, strict=True)
    values = [value for value, _ in distribution]
    probabilities = [probability for _, probability in distribution]
    # P(value ≥ level) for every level. For the lowest level it is 1, whatever the calibration.
    at_least = np.cumsum(probabilities[::-1])[::-1]
    calibrated = np.interp(at_least[1:], stated, right)
    # P(value = level) is the difference between two neighbours; above the highest level there is nothing.
    edges = np.concatenate([[1.0], calibrated, [0.0]])
    differences = -np.diff(edges)
    return tuple((value, float(p)) for value, p in zip(values, differences, strict=True))


def complete_distribution(distribution: Distribution, levels: Sequence[float]) -> Distribution:
    """Return the distribution over all these levels; those that it does not name get probability 0.

    A unanimous panel names one level only; calibration measures how often it is wrong nevertheless.
    """
    return tuple(sorted({**dict.fromkeys(levels, 0.0), **dict(distribution)}.items()))


def calibrate_judgment(judgment: Judgment, question: Question, judge: Judge) -> None:
    """Calibrate the probabilities of all verdicts whose criterion has a calibration; scores follow them."""
    criteria = {criterion.name: criterion for criterion in question.criteria}
    for cell, verdict in judgment.verdicts.items():
        knots = judge.calibration.get(cell[1])
        if knots is None or not verdict.probabilities:
            continue
        criterion = criteria[cell[1]]
        levels = criterion.value_domain.values
        distribution = calibrate_distribution(
            complete_distribution(verdict.probabilities, levels), knots
        )
        if judge.expected or not levels:
            value = mean_of(distribution)
        else:
            value = most_probable(distribution, criterion.direction == "higher")
        judgment.verdicts[cell] = replace(verdict, value=value, probabilities=distribution)


# ------------------------------------------------------------------------------------------------------------ cascade
#
# A cheap judge decides where it is sure; a better one is asked about the rest.
#
#     - name: quick
#       kind: decision
#       endpoints: […]
#       escalate: 0.15                       at most 15% of its answers go to the fallback, the least sure first
#       fallback: {kind: absolute, endpoints: […]}
#
#     escalate: {threshold: 0.4, thresholds: {Tone: 0.2}}      or those below a margin (`rubrank judge calibrate`)
#
# The margin of an answer says how sure it is: by how much the likeliest value is more probable than the next. A missing
# answer is escalated first. If the fallback does not answer, the answer of the cheap judge is used, and the failure
# counts as missing.
#
# Which cells are escalated depends on the question alone (the group, or the single response that a trainer has so far),
# not on other groups, so a run that is repeated escalates the same ones. A share that is not a whole number of cells is
# rounded by a seeded draw: one of four cells at 25%, on average, and never more than one beyond the share.

_MISSING = -1.0  # less sure than any answer


def count_most_escalated(question: Question, judge: Judge) -> int:
    """Return how many different cells may be escalated at most."""
    assert judge.escalate is not None
    # Without the small number, 0.14 × 50 = 7.000000000000001 would be rounded up to 8.
    return math.ceil(judge.escalate.most * len(_list_distinct_cells(question)) - 1e-9)


def choose_escalated(question: Question, judge: Judge, first: Judgment) -> np.ndarray:
    """Return (G, K): the cells that the fallback is asked about; equal responses are escalated together."""
    assert judge.escalate is not None
    escalate = judge.escalate
    cells = _list_distinct_cells(question)
    unsure = []
    for i, k in cells:
        name = question.criteria[k].name
        verdict = first.verdicts.get((i, name))
        if verdict is None:
            continue
        margin = _measure_margin(verdict)
        threshold = escalate.thresholds.get(name, escalate.threshold)
        # `escalate: 1.0` asks both judges about every cell, even if the first one is certain.
        is_all = threshold == escalate.most == 1.0
        if margin < threshold or is_all:
            unsure.append((margin, (i, k)))
    unsure.sort()
    answers = [question.group.rollouts[i].answer for i in sorted({i for i, _ in cells})]
    draw = make_seeded_random(judge.seed, question.group.id, answers).random()
    # Rounded up or down at random, so that the share is right on average; never above `count_most_escalated`.
    number = math.floor(escalate.most * len(cells) + draw * (1.0 - 1e-9))
    chosen = {cell for _, cell in unsure[:number]}
    first_of = find_duplicates(question.group.rollouts)
    escalated = np.zeros_like(question.wanted)
    for i, k in zip(*question.wanted.nonzero(), strict=True):
        escalated[i, k] = (first_of[i], int(k)) in chosen
    return escalated


def merge_judgments(first: Judgment, second: Judgment) -> Judgment:
    """Return the first judge's verdicts, with those of the fallback where it was asked and answered."""
    merged = Judgment(
        dict(first.verdicts),
        asked=first.asked + second.asked,
        disagreement=dict(first.disagreement),
    )
    for name, reasons in first.missing.items():  # of the members of a panel
        merged.missing[name] = list(reasons)
    for cell, verdict in second.verdicts.items():
        before = first.verdicts[cell]
        if verdict.value is not None:
            first_answer = "no answer"
            if before.value is not None:
                first_answer = f"{before.value:g} by a margin of {_measure_margin(before):.2f}"
            reason = f"escalated ({first_answer}): {verdict.reason}"
            merged.verdicts[cell] = replace(verdict, reason=reason[:LONGEST_REASON])
        else:
            merged.missing.setdefault(cell[1], []).append(verdict.reason)
    for name, reasons in second.missing.items():
        merged.missing.setdefault(name, []).extend(reasons)
    without_answer = sum(verdict.value is None for verdict in merged.verdicts.values())
    merged.lost = without_answer + sum(len(reasons) for reasons in merged.missing.values())
    return merged


def _list_distinct_cells(question: Question) -> list[tuple[int, int]]:
    """Return the wanted cells (rollout, column), without those of duplicate responses."""
    first_of = find_duplicates(question.group.rollouts)
    return sorted(
        {(first_of[int(i)], int(k)) for i, k in zip(*question.wanted.nonzero(), strict=True)}
    )


def _measure_margin(verdict: Verdict) -> float:
    """Return how sure a verdict is: -1 if it is missing, 1 if it has no probabilities."""
    if verdict.value is None:
        return _MISSING
    return sureness(verdict.probabilities) if verdict.probabilities else 1.0
