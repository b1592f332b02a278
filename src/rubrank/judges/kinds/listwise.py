"""The whole group in one call: the judge ranks all responses, ties allowed.

    8 rollouts × 1 criterion       1 call → ranks 1, 3, 3, 2, … → an 8 × 8 matrix of outcomes
    passes: 2                      2 calls, the second in the opposite order

The order is shuffled for every call. Every second pass shows the order before it backwards, so that two passes show
each pair both ways and cancel what the judge owes to the place in the list; the outcome of a pair is the mean over the
passes that were answered. How often the response shown earlier ranks higher is reported, and how much passes disagree.

Rollouts that a judge cannot tell apart are shown once, and share their rank.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

import numpy as np

from rubrank.judges.asking import ask_and_read, together
from rubrank.judges.design import draws, shuffled
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.outcomes import contestants, disagreement, mean_seen, nothing_seen, shared
from rubrank.judges.parsing import read_listwise
from rubrank.judges.prompting import asked_as, listwise_call

_NUMBER = re.compile(r"\d{1,4}")
_AND = r" ?(?:,|，|、|;|and|&|or|和|与|或)(?: and)? ?#?"
_PLACES = re.compile(rf"(?i)(?<![a-z])(?:responses?|回复|回答) ?#?(\d{{1,4}}(?!\d)(?:{_AND}\d{{1,4}}(?!\d))*)")

_Ranked: TypeAlias = tuple[list[int], tuple[int, ...] | None, str]
"""Rollouts in the order shown, their ranks or None, and the reason."""


class Listwise:
    """Kind "listwise"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every criterion and pass, where there are two different answers to rank."""
        columns = range(len(question.criteria))
        return judge.passes * sum(len(contestants(question, k)) > 1 for k in columns)

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A matrix of outcomes for every criterion."""
        judgment = Judgment()
        asked = [(k, order) for k in range(len(question.criteria)) for order in orders(question, k, judge)]
        lists = await together(_ask(question, k, order, judge, asker) for k, order in asked)
        for k in range(len(question.criteria)):
            _read(judgment, question, k, [one for (at, _), one in zip(asked, lists, strict=True) if at == k])
        return judgment


def orders(question: Question, column: int, judge: Judge) -> list[list[int]]:
    """The rollouts as each pass shows them."""
    among, name = contestants(question, column), question.criteria[column].name
    if len(among) < 2:
        return []
    made: list[list[int]] = []
    for number in range(judge.passes):
        drawn = shuffled(len(among), draws(judge.seed, question.group.id, name, number))
        made.append(made[-1][::-1] if number % 2 else [among[i] for i in drawn])
    return made


async def _ask(question: Question, column: int, order: list[int], judge: Judge, asker: Asker) -> _Ranked:
    criterion, rollouts = question.criteria[column], [question.group.rollouts[i] for i in order]
    examples = judge.examples.get(criterion.name, ())
    call = listwise_call(criterion, rollouts, examples=examples, **asked_as(judge))
    ranks, reason = await ask_and_read(asker, call, lambda reply: read_listwise(reply, len(order), call=call), _missing)
    return order, ranks, reason


def _missing(found: tuple[tuple[int, ...] | None, str]) -> list[str]:
    return [found[1]] if found[0] is None else []


def _read(judgment: Judgment, question: Question, column: int, lists: list[_Ranked]) -> None:
    """One criterion's lists into the judgment."""
    name, size = question.criteria[column].name, len(question.group.rollouts)
    seen = np.stack([nothing_seen(size)] + [_outcomes(order, ranks, size) for order, ranks, _ in lists if ranks])
    judgment.outcomes[name] = shared(mean_seen(seen), question, column)
    for order, _, reason in [one for one in lists if one[1]][:1]:
        judgment.words |= dict.fromkeys(((i, name) for i in order), f"of the whole list: {_by_rollout(reason, order)}")
    lost = [reason for _, ranks, reason in lists if ranks is None]
    judgment.asked += len(lists)
    judgment.lost += len(lost)
    if lost:
        judgment.missing[name] = lost
    if not math.isnan(apart := disagreement(seen)):
        judgment.disagreement[name] = apart
    wins = [_earlier_wins(ranks) for _, ranks, _ in lists if ranks]
    if wins:
        judgment.first_wins[name] = (sum(won for won, _ in wins), sum(n for _, n in wins))


def _by_rollout(reason: str, order: list[int]) -> str:
    """The judge's words with the rollouts' numbers instead of the places in the list: "Response 2" → "rollout 5"."""

    def renamed(found: re.Match[str]) -> str:
        numbers = _NUMBER.sub(lambda n: str(order[int(n[0]) - 1]) if 0 < int(n[0]) <= len(order) else n[0], found[1])
        places = [int(n) for n in _NUMBER.findall(found[1])]
        if not all(0 < place <= len(order) for place in places):
            return found[0]  # no place of this list: some other number
        return f"{'rollouts' if len(places) > 1 else 'rollout'} {numbers}"

    return _PLACES.sub(renamed, reason)


def _outcomes(order: list[int], ranks: tuple[int, ...], size: int) -> np.ndarray:
    """Rank 1 beats rank 2; the same rank ties."""
    found = nothing_seen(size)
    rank = np.array(ranks)
    found[np.ix_(order, order)] = 0.5 * (1.0 + np.sign(rank[None, :] - rank[:, None]))
    np.fill_diagonal(found, np.nan)
    return found


def _earlier_wins(ranks: tuple[int, ...]) -> tuple[float, int]:
    """Over all pairs of a list: wins of the one shown earlier, ties counted half; number of pairs."""
    one, other = np.triu_indices(len(ranks), 1)
    rank = np.array(ranks)
    return float((0.5 * (1.0 + np.sign(rank[other] - rank[one]))).sum()), len(one)
