"""Several answers to the same question, combined into one: from several judges, or several samples of one judge.

    members: [a, b, c]             three judges are asked the same
    samples: 5                     one judge is asked five times (give it a temperature above 0)
    members and samples            each member so many times

What a member does not say itself (sampling, language, passes, pairs, samples …), it does as the panel says.

How verdicts are combined:

    majority    the value most of them said (default). A tie goes to the tied value nearest the median of all answers,
                and of two equally near to the less favourable one. It stays in the criterion's domain; where every
                answer differs, as on a continuous domain, it is the median answer.
    mean        a fraction: two of three said 1 → 0.67. It may lie between the values of the domain; rankings need
                order only, but a hard gate is stopped by one dissenting member.
    median      the mean of the two middle answers where their number is even: it may lie between the values too.

Outcomes of comparisons are the mean over the members that compared the pair, whatever `combine` says: three members,
two of whom prefer i, give 0.67. Members that do not answer are left out; where none does, the answer is missing
with all reasons. `asked` and `lost` count every member's answer, and `missing` has the reasons: a panel that has lost
a member says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from rubrank._plain import word_list
from rubrank.judges.asking import AskerOf, CountedKind, Sampled, together
from rubrank.judges.judge import Combine, Judge, Judgment, Question
from rubrank.judges.outcomes import contestants, disagreement, mean_seen
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import LONGEST_REASON, Verdict, missing

_INHERITED = word_list("""
    sampling language order prompt timeout retry expected both_orders pairs passes samples examples seed
""")


def completed(judge: Judge) -> Judge:
    """The judge, its members with what they left to the panel."""
    given = {name: getattr(judge, name) for name in _INHERITED if name in judge.model_fields_set}
    members = [
        member.model_copy(update={name: value for name, value in given.items() if name not in member.model_fields_set})
        for member in judge.members
    ]
    return judge.model_copy(update={"members": tuple(members)})


class Panel:
    """Asks through a kind, once for every member and sample."""

    def __init__(self, kind: CountedKind) -> None:
        self._kind = kind

    def calls(self, question: Question, judge: Judge) -> int:
        """Those of all members and samples."""
        return sum(self._kind.calls(question, member) for member, _ in answerers(judge))

    async def judge(self, question: Question, judge: Judge, asker_of: AskerOf) -> Judgment:
        """Ask all, and combine what they say."""
        said = await together(
            self._kind.judge(question, member, Sampled(asker_of(member), sample)) for member, sample in answerers(judge)
        )
        combined = Judgment(asked=sum(one.asked for one in said), lost=sum(one.lost for one in said))
        for one in said:
            combined.words = {**one.words, **combined.words}
        for k, criterion in enumerate(question.criteria):
            _combine_verdicts(combined, said, criterion, judge.combine)
            _combine_outcomes(combined, said, question, k)
        return combined


def answerers(judge: Judge) -> list[tuple[Judge, int]]:
    """Everyone who is asked: a member (or the judge itself), and the number of the sample."""
    return [(member, sample) for member in judge.members or (judge,) for sample in range(member.samples)]


# ----------------------------------------------------------------------------------------------------------- verdicts


def _combine_verdicts(into: Judgment, said: Sequence[Judgment], criterion: Criterion, combine: Combine) -> None:
    name = criterion.name
    rows = [{i: verdict for (i, about), verdict in one.verdicts.items() if about == name} for one in said]
    cells = sorted({i for row in rows for i in row})
    for i in cells:
        answers = [row[i] for row in rows if i in row]
        into.verdicts[i, name] = combined(answers, criterion, combine)
        lost = [verdict.reason for verdict in answers if verdict.value is None]
        if len(lost) == len(answers):
            lost = lost[1:]  # one is told by the verdict, which is missing itself
        if lost:
            into.missing.setdefault(name, []).extend(lost)
    domain = criterion.value_domain
    scores = [np.array([row[i].score if i in row else math.nan for i in cells]) for row in rows]
    apart = disagreement(scores) / (domain.high - domain.low)
    if not math.isnan(apart):
        into.disagreement[name] = apart


def combined(verdicts: Sequence[Verdict], criterion: Criterion, combine: Combine) -> Verdict:
    """One verdict from several, and how it was reached."""
    values = [verdict.value for verdict in verdicts if verdict.value is not None]
    lost = Counter(verdict.reason for verdict in verdicts if verdict.value is None)
    without = f" ({lost.total()} missing: {'; '.join(lost)})" if lost else ""
    if not values:
        return missing(_cut(f"{'; '.join(lost)}: none of {len(verdicts)} answered"))
    if combine == "majority":
        value = _majority(values, criterion.direction == "higher")
        how = f"{values.count(value)} of {len(values)} said {value:g}"
    else:
        value = fmean(values) if combine == "mean" else median(values)
        how = f"{combine} {value:.3g} of {', '.join(f'{one:g}' for one in values)}"
    nearest = min((verdict for verdict in verdicts if verdict.value is not None), key=lambda v: abs(v.score - value))
    return Verdict(value, _cut(f"{how}{without}: {nearest.reason}"))


def _majority(values: Sequence[float], higher_is_better: bool) -> float:
    counts, middle = Counter(values), median(values)
    most = max(counts.values())
    tied = [value for value, count in counts.items() if count == most]
    return min(tied, key=lambda value: (abs(value - middle), value if higher_is_better else -value))


def _cut(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " …"


# -------------------------------------------------------------------------------------------------------- comparisons


def _combine_outcomes(into: Judgment, said: Sequence[Judgment], question: Question, column: int) -> None:
    name = question.criteria[column].name
    seen = [one.outcomes[name] for one in said if name in one.outcomes]
    if not seen:
        return
    into.outcomes[name] = mean_seen(np.stack(seen))
    among = contestants(question, column)  # without those that say the same: no judge was asked about them
    if not math.isnan(apart := disagreement([one[np.ix_(among, among)] for one in seen])):
        into.disagreement[name] = apart
    if reasons := [reason for one in said for reason in one.missing.get(name, ())]:
        into.missing[name] = reasons
    wins = [one.first_wins[name] for one in said if name in one.first_wins]
    if wins:
        into.first_wins[name] = (sum(won for won, _ in wins), sum(n for _, n in wins))
