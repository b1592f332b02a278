"""Several answers to the same question, combined into one: from several judges, or several samples of one judge.

    members: [a, b, c]             three judges answer the same questions
    samples: 5                     one judge is asked five times (give it a temperature above 0)
    members and samples            each member is asked that many times

A setting that a member leaves out (sampling, language, passes, pairs, samples …) is taken from the panel.

How verdicts are combined:

    majority    the most frequent value (default). A tie goes to the tied value nearest the median of all answers; if
                two are equally near, to the less favourable one. The result is a value of the criterion's domain. If
                all answers differ, as on a continuous domain, it is the median answer.
    mean        a fraction: two of three said 1 → 0.67. It may lie between the values of the domain. That does not
                matter for rankings, but it means that a single dissenting member stops a rollout at a hard gate.
    median      for an even number of answers, the mean of the two middle ones: it may lie between the values too.

How sure they are together is kept as probabilities over the values: the share of the answers, or the mean of the
members' own probabilities where they have some.

Outcomes of comparisons are always the mean over the members that compared the pair; `combine` does not apply to them:
three members, two of whom prefer i, give 0.67.

Members that do not answer are left out; if no member answers, the answer is missing, with all reasons. `asked` and
`lost` count the answers of every member, and `missing` has the reasons, so that a member that fails is noticed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from rubrank._plain import word_list
from rubrank.judges.asker import AskerOf, CountedKind, SampledAsker, gather_all
from rubrank.judges.judge import Combine, Judge, Judgment, Question
from rubrank.judges.kinds.comparisons import (
    average_outcomes,
    list_distinct_rollouts,
    measure_disagreement,
)
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.distribution import mix_distributions
from rubrank.verifiers.verifier import LONGEST_REASON, Verdict, missing

# Settings that a member takes from its panel if it leaves them out.
_INHERITED = word_list("""
    sampling language order prompt timeout retry expected probabilities both_orders pairs rounds passes samples
    examples seed request_tokens state_tokens
""")


def complete_members(judge: Judge) -> Judge:
    """Return the judge, with the panel's settings in members that left them out; the same for its fallback."""
    settings = {name: getattr(judge, name) for name in _INHERITED if name in judge.model_fields_set}
    members = []
    for member in judge.members:
        update = {
            name: value for name, value in settings.items() if name not in member.model_fields_set
        }
        members.append(member.model_copy(update=update))
    fallback = None if judge.fallback is None else complete_members(judge.fallback)
    return judge.model_copy(update={"members": tuple(members), "fallback": fallback})


class Panel:
    """Runs another kind once for every member and sample, and combines the judgments."""

    def __init__(self, kind: CountedKind) -> None:
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
    """Combine several verdicts into one; its reason says how it was reached."""
    answered = [verdict for verdict in verdicts if verdict.value is not None]
    values = [verdict.score for verdict in answered]
    lost = Counter(verdict.reason for verdict in verdicts if verdict.value is None)
    reasons_of_lost = "; ".join(lost)
    if not values:
        return missing(_shorten(f"{reasons_of_lost}: none of {len(verdicts)} answered"))
    if combine == "majority":
        value = _find_majority(values, criterion.direction == "higher")
        how = f"{values.count(value)} of {len(values)} said {value:g}"
    else:
        value = fmean(values) if combine == "mean" else median(values)
        how = f"{combine} {value:.3g} of {', '.join(f'{score:g}' for score in values)}"
    if lost:
        how += f" ({lost.total()} missing: {reasons_of_lost})"
    nearest = min(answered, key=lambda verdict: abs(verdict.score - value))
    distributions = [verdict.probabilities or ((verdict.score, 1.0),) for verdict in answered]
    return Verdict(value, _shorten(f"{how}: {nearest.reason}"), mix_distributions(distributions))


def _find_majority(values: Sequence[float], higher_is_better: bool) -> float:
    """Return the most frequent value.

    Of tied ones it is the one nearest the median, and of two equally near the less favourable.
    """
    counts = Counter(values)
    most = max(counts.values())
    tied = [value for value, count in counts.items() if count == most]
    middle = median(values)
    return min(tied, key=lambda value: (abs(value - middle), value if higher_is_better else -value))


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
