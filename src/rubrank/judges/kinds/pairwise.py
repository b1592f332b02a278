"""Two responses in one call, in both orders: the judge says which is better, or that they tie.

    8 rollouts, all pairs          28 pairs × 2 orders = 56 calls per criterion → an 8 × 8 matrix of outcomes
    8 rollouts, pairs: 12          12 pairs × 2 orders = 24 calls; every rollout is in three pairs
    8 rollouts, pairs: swiss       3 rounds × 4 pairs × 2 orders; each round is chosen from the answers so far

A judge that always prefers the response it sees first says "A" twice, and contradicts itself: the pair counts as a tie,
which cancels the position bias. How often the first one wins, and how much the two orders disagree, is reported. If one
of the two answers is lost, the other counts alone; if both are lost, the pair is not compared.

Which pairs are compared depends only on the size of the group (`plan_pairs`), so that a pair can be judged before all
rollouts are there (`judges/arrivals.py`). Pairs of rollouts that take no part are replaced
(`design.choose_pairs_among`).

Duplicate rollouts tie without a call, and share the outcomes of the one that is shown. Outcomes say which rollout is
*better* on the criterion: if its direction is "lower", they must not be inverted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rubrank.judges.adaptive import default_rounds, most_pairs, next_round
from rubrank.judges.asker import ask_and_parse, gather_all
from rubrank.judges.design import Pair, choose_pairs, choose_pairs_among, seeded_random, shuffle
from rubrank.judges.judge import Asker, Judge, Judgment, Question
from rubrank.judges.outcomes import (
    disagreement,
    distinct_rollouts,
    duplicate_classes,
    empty_outcomes,
    mean_outcomes,
    spread_to_duplicates,
)
from rubrank.judges.parsing import missing_reasons, read_pairwise
from rubrank.judges.prompting import pairwise_call, prompt_options
from rubrank.verifiers.verifier import Verdict


class Pairwise:
    """Kind "pairwise"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Pairs × orders, over all criteria."""
        pairs = 0
        for k in range(len(question.criteria)):
            n = len(distinct_rollouts(question, k))
            all_pairs = n * (n - 1) // 2
            if isinstance(judge.pairs, str):
                pairs += most_pairs(judge.pairs, n, judge.rounds or default_rounds(judge.pairs, n))
            else:
                pairs += all_pairs if judge.pairs is None else min(all_pairs, judge.pairs)
        return 2 * pairs if judge.both_orders else pairs

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """A matrix of outcomes for every criterion."""
        columns = range(len(question.criteria))
        verdicts = await gather_all(_compare(question, k, judge, asker) for k in columns)
        judgment = Judgment()
        for k in columns:
            _add_outcomes(judgment, question, k, verdicts[k])
        return judgment


def plan_pairs(judge: Judge, group: str, criterion: str, size: int) -> set[Pair] | None:
    """The pairs of places in a group of this size, before it is known which rollouts come; None: all."""
    assert not isinstance(judge.pairs, str)  # an adaptive design is known round by round
    if judge.pairs is None or judge.pairs >= size * (size - 1) // 2:
        return None
    return set(choose_pairs(size, judge.pairs, seeded_random(judge.seed, group, criterion)))


def make_orders(question: Question, column: int, judge: Judge) -> list[Pair]:
    """The rollouts of every call: which is shown first, and which second."""
    rollouts = distinct_rollouts(question, column)
    criterion = question.criteria[column].name
    slots, size = question.places
    slots_of_classes = [[slots[i] for i in duplicates] for duplicates in duplicate_classes(question, column)]
    random = seeded_random(judge.seed, question.group.id, criterion)
    assert not isinstance(judge.pairs, str)
    pairs = choose_pairs_among(slots_of_classes, size, judge.pairs, random)
    return _order_pairs([(rollouts[i], rollouts[j]) for i, j in pairs], question, criterion, judge)


def _order_pairs(pairs: Sequence[Pair], question: Question, criterion: str, judge: Judge) -> list[Pair]:
    """Each pair in both orders, or in one that is drawn."""
    orders = []
    for pair in pairs:
        if judge.both_orders:
            orders += [pair, pair[::-1]]
        else:
            orders.append(_draw_order(question, criterion, judge.seed, pair))
    return orders


def _draw_order(question: Question, criterion: str, seed: int, pair: Pair) -> Pair:
    """A random order that depends on the texts of the two responses, not on their places, which duplicates share."""
    texts = {i: (question.group.rollouts[i].answer, repr(question.group.rollouts[i].tool_calls)) for i in pair}
    first, second = sorted(pair, key=texts.__getitem__)
    random = seeded_random(seed, question.group.id, criterion, texts[first], texts[second])
    return (first, second) if random.random() < 0.5 else (second, first)


async def _compare(question: Question, column: int, judge: Judge, asker: Asker) -> dict[Pair, Verdict]:
    """The verdict of every call of one criterion."""
    criterion = question.criteria[column]
    examples = judge.examples.get(criterion.name, ())

    async def ask(order: Pair) -> Verdict:
        first, second = (question.group.rollouts[i] for i in order)
        call = pairwise_call(criterion, first, second, examples=examples, **prompt_options(judge))
        return await ask_and_parse(asker, call, lambda reply: read_pairwise(reply, call=call), missing_reasons)

    async def ask_all(orders: Sequence[Pair]) -> dict[Pair, Verdict]:
        return dict(zip(orders, await gather_all(ask(order) for order in orders), strict=True))

    if not isinstance(judge.pairs, str):
        return await ask_all(make_orders(question, column, judge))
    rollouts = distinct_rollouts(question, column)
    n = len(rollouts)
    rank = shuffle(n, seeded_random(judge.seed, question.group.id, criterion.name, judge.pairs))
    verdicts: dict[Pair, Verdict] = {}
    answers: dict[Pair, float] = {}
    for number in range(judge.rounds or default_rounds(judge.pairs, n)):
        pairs = next_round(judge.pairs, n, answers, number, rank)
        if not pairs:
            break
        shown = {(rollouts[i], rollouts[j]): (i, j) for i, j in pairs}
        verdicts |= await ask_all(_order_pairs(list(shown), question, criterion.name, judge))
        for (first, second), pair in shown.items():
            answers[pair] = _outcome_of(verdicts, first, second)
    return verdicts


def _outcome_of(verdicts: Mapping[Pair, Verdict], first: int, second: int) -> float:
    """The mean outcome of a pair over its orders: 1 = the first is better; NaN without an answer."""
    outcomes = []
    if (first, second) in verdicts:
        outcomes.append(verdicts[first, second].score)
    if (second, first) in verdicts:
        outcomes.append(1.0 - verdicts[second, first].score)
    answered = [outcome for outcome in outcomes if not math.isnan(outcome)]
    return math.fsum(answered) / len(answered) if answered else math.nan


def _add_outcomes(judgment: Judgment, question: Question, column: int, verdicts: dict[Pair, Verdict]) -> None:
    """Add the verdicts of one criterion to the judgment."""
    name = question.criteria[column].name
    size = len(question.group.rollouts)
    # Two observations of each pair: with the smaller number shown first, and the other way round.
    observed = np.stack([empty_outcomes(size), empty_outcomes(size)])
    first_wins = []
    for (first, second), verdict in verdicts.items():
        order = int(first > second)
        observed[order, first, second] = verdict.score
        observed[order, second, first] = 1.0 - verdict.score
        if verdict.value is not None:
            first_wins.append(verdict.value)
            judgment.words.setdefault((first, name), f"shown as A, {second} as B: {verdict.reason}")
            judgment.words.setdefault((second, name), f"shown as B, {first} as A: {verdict.reason}")
    judgment.outcomes[name] = spread_to_duplicates(mean_outcomes(observed), question, column)
    pairs = sorted({(min(order), max(order)) for order in verdicts})
    lost = [pair for pair in pairs if np.isnan(observed[:, pair[0], pair[1]]).all()]
    judgment.asked += len(pairs)
    judgment.lost += len(lost)
    for pair in lost:
        reasons = [verdicts[order].reason for order in (pair, pair[::-1]) if order in verdicts]
        judgment.missing.setdefault(name, []).append("; ".join(dict.fromkeys(reasons)))
    order_disagreement = disagreement(observed)
    if not math.isnan(order_disagreement):
        judgment.disagreement[name] = order_disagreement
    if first_wins:
        judgment.first_wins[name] = (float(sum(first_wins)), len(first_wins))
