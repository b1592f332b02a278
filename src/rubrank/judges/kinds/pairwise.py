"""Two responses in one call, in both orders: the judge says which is better, or that they tie.

    8 rollouts, all pairs          28 pairs × 2 orders = 56 calls per criterion → an 8 × 8 matrix of outcomes
    8 rollouts, pairs: 12          12 pairs × 2 orders = 24 calls; every rollout is in three pairs

A judge that always prefers the response it sees first says "A" twice, and contradicts itself: the pair counts as a tie,
and the preference is cancelled. How often the first wins, and how much the two orders disagree, is reported. Where one
of the two answers is lost, the other counts alone; where both are, the pair is not compared.

Which pairs are compared follows from the size of the group (`planned`), so that each can be asked for before all
rollouts are there (`judges/arriving.py`); pairs of those who take no part are replaced (`design.pairs_among`).

Rollouts that a judge cannot tell apart tie without a call, and share what is observed about one of them. Outcomes say
who is *better* on the criterion: a criterion whose direction is "lower" is not to be turned round once more.
"""

from __future__ import annotations

import math

import numpy as np

from rubrank.judges.asking import ask_and_read, together
from rubrank.judges.design import Pair, draws, pairs, pairs_among
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.outcomes import classes, contestants, disagreement, mean_seen, nothing_seen, shared
from rubrank.judges.parsing import missing_reason, read_pairwise
from rubrank.judges.prompting import asked_as, pairwise_call
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict


class Pairwise:
    """Kind "pairwise"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Pairs × orders, over all criteria."""
        sizes = [len(contestants(question, k)) for k in range(len(question.criteria))]
        every = [n * (n - 1) // 2 for n in sizes]
        return sum(n if judge.pairs is None else min(n, judge.pairs) for n in every) * (2 if judge.both_orders else 1)

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A matrix of outcomes for every criterion."""
        judgment = Judgment()
        columns = range(len(question.criteria))
        answered = await together(_compare(question, k, judge, asker) for k in columns)
        for k, answers in zip(columns, answered, strict=True):
            _read(judgment, question, k, answers)
        return judgment


def planned(judge: Judge, group: str, criterion: str, size: int) -> set[Pair] | None:
    """The pairs of places in a group of this size, before it is known which rollouts come; None: all."""
    if judge.pairs is None or judge.pairs >= size * (size - 1) // 2:
        return None
    return set(pairs(size, judge.pairs, draws(judge.seed, group, criterion)))


def shown(question: Question, column: int, judge: Judge) -> list[Pair]:
    """Every call: who is shown first, and who second."""
    among, name, group = contestants(question, column), question.criteria[column].name, question.group.id
    slots, size = question.places
    seats = [[slots[i] for i in same] for same in classes(question, column)]
    chosen = pairs_among(seats, size, judge.pairs, draws(judge.seed, group, name))
    once = [(among[i], among[j]) for i, j in chosen]
    if judge.both_orders:
        return [order for i, j in once for order in ((i, j), (j, i))]
    return [_one_order(question, name, judge.seed, pair) for pair in once]


def _one_order(question: Question, criterion: str, seed: int, pair: Pair) -> Pair:
    """Drawn for the two answers, not for their places: of several that say the same, any may come first."""
    told = {i: (question.group.rollouts[i].answer, repr(question.group.rollouts[i].tool_calls)) for i in pair}
    first, second = sorted(pair, key=told.__getitem__)
    forward = draws(seed, question.group.id, criterion, told[first], told[second]).random() < 0.5
    return (first, second) if forward else (second, first)


async def _compare(question: Question, column: int, judge: Judge, asker: Asker) -> dict[Pair, Verdict]:
    orders = shown(question, column, judge)
    asked = (_ask(question, question.criteria[column], judge, asker, order) for order in orders)
    return dict(zip(orders, await together(asked), strict=True))


async def _ask(question: Question, criterion: Criterion, judge: Judge, asker: Asker, order: Pair) -> Verdict:
    first, second = (question.group.rollouts[i] for i in order)
    examples = judge.examples.get(criterion.name, ())
    call = pairwise_call(criterion, first, second, examples=examples, **asked_as(judge))
    return await ask_and_read(asker, call, lambda reply: read_pairwise(reply, call=call), missing_reason)


def _read(judgment: Judgment, question: Question, column: int, answers: dict[Pair, Verdict]) -> None:
    """One criterion's answers into the judgment."""
    name, size = question.criteria[column].name, len(question.group.rollouts)
    seen = np.stack([nothing_seen(size), nothing_seen(size)])  # as i < j was shown, and the other way round
    for (i, j), verdict in answers.items():
        seen[int(i > j), i, j], seen[int(i > j), j, i] = verdict.score, 1.0 - verdict.score
    judgment.outcomes[name] = shared(mean_seen(seen), question, column)
    for (i, j), verdict in answers.items():
        if verdict.value is not None:
            judgment.words.setdefault((i, name), f"shown as A, {j} as B: {verdict.reason}")
            judgment.words.setdefault((j, name), f"shown as B, {i} as A: {verdict.reason}")
    compared = {(min(order), max(order)) for order in answers}
    lost = [pair for pair in sorted(compared) if np.isnan(seen[:, pair[0], pair[1]]).all()]
    judgment.asked += len(compared)
    judgment.lost += len(lost)
    if lost:
        judgment.missing[name] = [_reason(answers, pair) for pair in lost]
    if not math.isnan(apart := disagreement(seen)):
        judgment.disagreement[name] = apart
    won = [verdict.value for verdict in answers.values() if verdict.value is not None]
    if won:
        judgment.first_wins[name] = (float(sum(won)), len(won))


def _reason(answers: dict[Pair, Verdict], pair: Pair) -> str:
    """Why a pair was not compared; both reasons if they differ."""
    orders = (pair, pair[::-1])
    return "; ".join(dict.fromkeys(answers[order].reason for order in orders if order in answers))
