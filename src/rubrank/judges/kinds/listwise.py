"""The whole group in one call: the judge ranks all responses, ties allowed.

    8 rollouts × 1 criterion       1 call → ranks 1, 3, 3, 2, … → an 8 × 8 matrix of outcomes
    passes: 2                      2 calls, the second in the opposite order

The order is shuffled for every call. Every second pass shows the order before it backwards, so that two passes show
each pair both ways and cancel the judge's position bias; the outcome of a pair is the mean over the passes that were
answered. How often the response shown earlier ranks higher is reported, and how much passes disagree.

Duplicate rollouts are shown once, and share their rank.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from rubrank.judges.asker import ask_and_parse, gather_all
from rubrank.judges.design import seeded_random, shuffle
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.outcomes import (
    disagreement,
    distinct_rollouts,
    empty_outcomes,
    mean_outcomes,
    spread_to_duplicates,
)
from rubrank.judges.parsing import read_listwise
from rubrank.judges.prompting import listwise_call, prompt_options

_NUMBER = re.compile(r"\d{1,4}")
# "response 2", "responses 1, 3 and 4", "回复 2、3": a reason speaks of positions in the list; see `name_rollouts`.
_AND = r" ?(?:,|，|、|;|and|&|or|和|与|或)(?: and)? ?#?"
_RESPONSES = re.compile(rf"(?i)(?<![a-z])(?:responses?|回复|回答) ?#?(\d{{1,4}}(?!\d)(?:{_AND}\d{{1,4}}(?!\d))*)")


@dataclass(frozen=True)
class _RankedList:
    """The answer of one pass."""

    order: list[int]
    """Rollouts in the order shown."""
    ranks: tuple[int, ...] | None
    """Ranks of the rollouts in this order; None: missing."""
    reason: str


class Listwise:
    """Kind "listwise"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """One for every pass and every criterion with two different responses to rank."""
        ranked = [k for k in range(len(question.criteria)) if len(distinct_rollouts(question, k)) > 1]
        return judge.passes * len(ranked)

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A matrix of outcomes for every criterion."""
        passes = [(k, order) for k in range(len(question.criteria)) for order in make_orders(question, k, judge)]
        lists = await gather_all(_ask(question, k, order, judge, asker) for k, order in passes)
        judgment = Judgment()
        for k in range(len(question.criteria)):
            lists_of_criterion = [ranked for (column, _), ranked in zip(passes, lists, strict=True) if column == k]
            _add_outcomes(judgment, question, k, lists_of_criterion)
        return judgment


def make_orders(question: Question, column: int, judge: Judge) -> list[list[int]]:
    """The rollouts as each pass shows them."""
    rollouts = distinct_rollouts(question, column)
    if len(rollouts) < 2:
        return []
    orders: list[list[int]] = []
    for number in range(judge.passes):
        if number % 2:
            orders.append(orders[-1][::-1])
        else:
            random = seeded_random(judge.seed, question.group.id, question.criteria[column].name, number)
            orders.append([rollouts[i] for i in shuffle(len(rollouts), random)])
    return orders


async def _ask(question: Question, column: int, order: list[int], judge: Judge, asker: Asker) -> _RankedList:
    criterion = question.criteria[column]
    rollouts = [question.group.rollouts[i] for i in order]
    examples = judge.examples.get(criterion.name, ())
    call = listwise_call(criterion, rollouts, examples=examples, **prompt_options(judge))
    ranks, reason = await ask_and_parse(
        asker,
        call,
        lambda reply: read_listwise(reply, len(order), call=call),
        lambda parsed: [parsed[1]] if parsed[0] is None else [],
    )
    return _RankedList(order, ranks, reason)


def _add_outcomes(judgment: Judgment, question: Question, column: int, lists: list[_RankedList]) -> None:
    """Add the lists of one criterion to the judgment."""
    name = question.criteria[column].name
    size = len(question.group.rollouts)
    observed = [empty_outcomes(size)]  # so that there is something to stack if all passes are lost
    first_wins = 0.0
    comparisons = 0
    lost = []
    for ranked in lists:
        if ranked.ranks is None:
            lost.append(ranked.reason)
            continue
        # Between the positions of the list: 1 = row beats column. A smaller rank is better; the same rank ties.
        ranks = np.array(ranked.ranks)
        wins = 0.5 * (1.0 + np.sign(ranks[None, :] - ranks[:, None]))
        outcomes = empty_outcomes(size)
        outcomes[np.ix_(ranked.order, ranked.order)] = wins
        np.fill_diagonal(outcomes, np.nan)
        observed.append(outcomes)
        earlier, later = np.triu_indices(len(ranks), 1)
        first_wins += float(wins[earlier, later].sum())
        comparisons += len(earlier)
        for i in ranked.order:
            words = f"of the whole list: {name_rollouts(ranked.reason, ranked.order)}"
            judgment.words.setdefault((i, name), words)
    judgment.outcomes[name] = spread_to_duplicates(mean_outcomes(np.stack(observed)), question, column)
    judgment.asked += len(lists)
    judgment.lost += len(lost)
    if lost:
        judgment.missing[name] = lost
    pass_disagreement = disagreement(observed)
    if not math.isnan(pass_disagreement):
        judgment.disagreement[name] = pass_disagreement
    if comparisons:
        judgment.first_wins[name] = (first_wins, comparisons)


def name_rollouts(reason: str, order: list[int]) -> str:
    """The reason with the numbers of rollouts instead of positions in the list: "response 2" → "rollout 5"."""

    def rename(match: re.Match[str]) -> str:
        positions = [int(number) for number in _NUMBER.findall(match[1])]
        if not all(0 < position <= len(order) for position in positions):
            return match[0]  # some other number, not a position in this list
        numbers = _NUMBER.sub(lambda number: str(order[int(number[0]) - 1]), match[1])
        return f"{'rollouts' if len(positions) > 1 else 'rollout'} {numbers}"

    return _RESPONSES.sub(rename, reason)
