"""Kinds of judges that compare responses: "pairwise" shows two of them in a call, "listwise" the whole group.

    8 rollouts, pairwise, all pairs       28 pairs × 2 orders = 56 calls per criterion
                          pairs: 12       12 pairs × 2 orders = 24 calls; every rollout is in three pairs
                          pairs: swiss    3 rounds × 4 pairs × 2 orders; each round is chosen from the answers so far
    8 rollouts, listwise                  1 call: ranks 1, 3, 3, 2, …
                          passes: 2       2 calls, the second in the opposite order

The result is one matrix of outcomes (G, G) for each criterion, where G is the number of rollouts in the group:

    1 = row beats column, 0.5 = tie, 0 = column beats row, NaN = not compared

Outcome (i, j) and outcome (j, i) add up to 1; the diagonal is NaN. Outcomes say which rollout is *better* on the
criterion: if its direction is "lower", they must not be inverted again. A pair may be observed P times: in both orders,
in several passes over a list, or by several members of a panel. The result is the mean.

A judge that always prefers the response it sees first contradicts itself when it sees the pair in the other order. The
pair then counts as a tie, which cancels the position bias. How often the first one wins, and how much the orders
disagree, is reported. If one of two answers is lost, the other counts alone; if both are, the pair is not compared.

Which pairs are compared depends only on the size of the group (`plan_pairs`), so that a pair can be judged before all
rollouts are there. Pairs of rollouts that take no part are replaced
(`design.choose_pairs_among`). Duplicate rollouts are shown once: they tie, and share the outcomes of the one shown.

The pairs of a group that is not complete yet can be judged as its rollouts arrive: see `Arrivals`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.judges.client.cache import CallKeys
from rubrank.judges.design import (
    Pair,
    choose_next_round,
    choose_pairs,
    choose_pairs_among,
    choose_rounds,
    count_most_pairs,
    find_duplicates,
    make_seeded_random,
    shuffle,
)
from rubrank.judges.judge import (
    Asker,
    AskerOf,
    Call,
    Judge,
    Judges,
    Judgment,
    Question,
    Reply,
    WrappedAsker,
    gather_all,
    report_if_unreadable,
)
from rubrank.judges.parsing import NoVerdict, parse_ranks, read_pairwise
from rubrank.judges.prompting import listwise_call, pairwise_call, select_prompt_options
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import NEEDS_JUDGE, Verdict

# ----------------------------------------------------------------------------------------------------------- outcomes


def group_duplicates(question: Question, column: int) -> list[list[int]]:
    """Return the rollouts that are compared on a criterion, in classes that a judge cannot tell apart.

    Rollouts 0 to 3, of which 1 and 3 are the same: [[0], [1, 3], [2]].
    """
    first_of = find_duplicates(question.group.rollouts)
    classes: dict[int, list[int]] = {}
    for i in np.flatnonzero(question.wanted[:, column]).tolist():
        classes.setdefault(first_of[i], []).append(i)
    return sorted(classes.values())


def list_distinct_rollouts(question: Question, column: int) -> list[int]:
    """Return the rollouts that are shown: the first of each class of duplicates."""
    return [duplicates[0] for duplicates in group_duplicates(question, column)]


def average_outcomes(observed_P: np.ndarray) -> np.ndarray:
    """Return the mean over the P observations, without NaN; NaN where nothing was observed."""
    count = (~np.isnan(observed_P)).sum(0)
    return np.where(count > 0, np.nansum(observed_P, axis=0) / np.maximum(count, 1), np.nan)


def measure_disagreement(observed_P: Sequence[np.ndarray] | np.ndarray) -> float:
    """Return the mean distance of two observations of the same value: 0 = always equal, 1 = opposite ends.

    A tie against a win counts half. NaN if nothing was observed twice.
    """
    if not len(observed_P):
        return float("nan")
    flat = np.stack([np.ravel(observed) for observed in observed_P])
    first, second = np.triu_indices(len(flat), 1)  # all pairs of observations
    distances = np.abs(flat[first] - flat[second])
    distances = distances[~np.isnan(distances)]
    return float(distances.mean()) if distances.size else float("nan")


def _spread_to_duplicates(outcomes_GG: np.ndarray, question: Question, column: int) -> np.ndarray:
    """Return the outcomes with those of the rollouts that were shown copied to their duplicates.

    Duplicates tie with each other. Rollouts that take no part have NaN.
    """
    first_of = np.arange(len(outcomes_GG))  # rollout → the first of its duplicates, which was shown
    for duplicates in group_duplicates(question, column):
        first_of[duplicates] = duplicates[0]
    spread_GG = outcomes_GG[np.ix_(first_of, first_of)]
    are_duplicates_GG = first_of[:, None] == first_of
    spread_GG[are_duplicates_GG] = 0.5
    absent = ~question.wanted[:, column]
    spread_GG[absent, :] = np.nan
    spread_GG[:, absent] = np.nan
    np.fill_diagonal(spread_GG, np.nan)
    return spread_GG


def _add_comparisons(
    judgment: Judgment,
    question: Question,
    column: int,
    *,
    observed_PGG: np.ndarray,
    asked: int,
    lost: list[str],
    first_wins: float,
    comparisons: int,
) -> None:
    """Add the answers about one criterion to the judgment.

    asked: number of pairs or lists that the judge was asked about. lost: why, for each of those without an answer.
    first_wins: how often, out of `comparisons`, the response shown first won; ties count half.
    """
    name = question.criteria[column].name
    mean_GG = average_outcomes(observed_PGG)
    judgment.outcomes[name] = _spread_to_duplicates(mean_GG, question, column)
    judgment.asked += asked
    judgment.lost += len(lost)
    if lost:
        judgment.missing[name] = lost
    disagreement = measure_disagreement(observed_PGG)
    if not math.isnan(disagreement):
        judgment.disagreement[name] = disagreement
    if comparisons:
        judgment.first_wins[name] = (first_wins, comparisons)


# ----------------------------------------------------------------------------------------------------------- pairwise


class Pairwise:
    """Kind "pairwise": shows two responses in a call and asks which is better."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return the number of pairs × orders, over all criteria; an upper bound for an adaptive design."""
        pairs = 0
        for k in range(len(question.criteria)):
            n = len(list_distinct_rollouts(question, k))
            all_pairs = n * (n - 1) // 2
            if isinstance(judge.pairs, str):  # an adaptive design, such as "swiss"
                rounds = judge.rounds or choose_rounds(judge.pairs, n)
                pairs += count_most_pairs(judge.pairs, n, rounds)
            elif judge.pairs is None:
                pairs += all_pairs
            else:
                pairs += min(all_pairs, judge.pairs)
        return 2 * pairs if judge.both_orders else pairs

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a matrix of outcomes for every criterion."""
        columns = range(len(question.criteria))
        verdicts_of_columns = await gather_all(
            _compare_pairs(question, k, judge, asker) for k in columns
        )
        judgment = Judgment()
        for k, verdicts in enumerate(verdicts_of_columns):
            _add_pairs(judgment, question, k, verdicts)
        return judgment


def plan_pairs(judge: Judge, group: str, criterion: str, size: int) -> set[Pair] | None:
    """Return the pairs of places to compare in a group of this size; None: all pairs.

    They do not depend on the rollouts, so that a pair can be judged as soon as its two rollouts have arrived.
    """
    assert not isinstance(judge.pairs, str)  # an adaptive design is known round by round
    if judge.pairs is None or judge.pairs >= size * (size - 1) // 2:
        return None
    return set(choose_pairs(size, judge.pairs, make_seeded_random(judge.seed, group, criterion)))


async def _compare_pairs(
    question: Question, column: int, judge: Judge, asker: Asker
) -> dict[Pair, Verdict]:
    """Ask about all pairs on one criterion, and return the verdict of every call.

    Keys are (rollout shown first, rollout shown second); a value of 1 means that the first is better.
    """
    criterion = question.criteria[column]
    group = question.group
    examples = judge.examples.get(criterion.name, ())
    # Duplicates are shown once. Pairs are chosen as indices of this list, and then translated to rollouts.
    rollouts = list_distinct_rollouts(question, column)

    async def ask(order: Pair) -> Verdict:
        """Ask about two rollouts, shown in this order."""
        first, second = (group.rollouts[i] for i in order)
        call = pairwise_call(
            criterion, first, second, examples=examples, **select_prompt_options(judge)
        )
        reply = await asker.ask(call)
        verdict = read_pairwise(reply, call=call)
        report_if_unreadable(asker, call, reply, [verdict])
        return verdict

    async def ask_all(pairs: Sequence[Pair]) -> dict[Pair, Verdict]:
        """Ask about each pair in both orders, or in one that is drawn. pairs: as indices of `rollouts`."""
        orders: list[Pair] = []
        for i, j in pairs:
            pair = (rollouts[i], rollouts[j])
            if judge.both_orders:
                orders += [pair, pair[::-1]]
            else:
                orders.append(_draw_order(question, criterion.name, judge.seed, pair))
        return dict(zip(orders, await gather_all(map(ask, orders)), strict=True))

    if not isinstance(judge.pairs, str):
        # A fixed design: all pairs are known, and asked at the same time. It is chosen from the places in the complete
        # group: a pair that was judged before all rollouts had arrived must be chosen again.
        places, size = question.places
        places_of_classes = [
            [places[i] for i in duplicates] for duplicates in group_duplicates(question, column)
        ]
        random = make_seeded_random(judge.seed, group.id, criterion.name)
        return await ask_all(choose_pairs_among(places_of_classes, size, judge.pairs, random))

    # An adaptive design: the pairs of a round depend on the outcomes so far. `rank` decides between equals.
    n = len(rollouts)
    rank = shuffle(n, make_seeded_random(judge.seed, group.id, criterion.name, judge.pairs))
    verdicts: dict[Pair, Verdict] = {}
    outcomes: dict[Pair, float] = {}  # of pairs of indices, like `pairs`
    for _ in range(judge.rounds or choose_rounds(judge.pairs, n)):
        pairs = choose_next_round(judge.pairs, n, outcomes, rank)
        if not pairs:
            break
        verdicts |= await ask_all(pairs)
        for i, j in pairs:
            outcomes[i, j] = _average_outcome(verdicts, rollouts[i], rollouts[j])
    return verdicts


def _draw_order(question: Question, criterion: str, seed: int, pair: Pair) -> Pair:
    """Draw in which order a pair is shown, if it is shown once.

    The draw depends on the texts of the responses and not on their places: duplicates have the same text, and
    whichever of them is shown, the call must be the same.
    """
    texts = {
        i: (question.group.rollouts[i].answer, repr(question.group.rollouts[i].tool_calls))
        for i in pair
    }
    first, second = sorted(pair, key=texts.__getitem__)
    random = make_seeded_random(seed, question.group.id, criterion, texts[first], texts[second])
    return (first, second) if random.random() < 0.5 else (second, first)


def _average_outcome(verdicts: Mapping[Pair, Verdict], first: int, second: int) -> float:
    """Return the mean outcome of a pair over its orders: 1 = the first is better; NaN without an answer."""
    outcomes = []
    if (first, second) in verdicts:
        outcomes.append(verdicts[first, second].score)
    if (second, first) in verdicts:
        outcomes.append(1.0 - verdicts[second, first].score)
    answered = [outcome for outcome in outcomes if not math.isnan(outcome)]
    return math.fsum(answered) / len(answered) if answered else math.nan


def _add_pairs(
    judgment: Judgment, question: Question, column: int, verdicts: dict[Pair, Verdict]
) -> None:
    """Add the verdicts of `_compare_pairs` about one criterion to the judgment."""
    name = question.criteria[column].name
    size = len(question.group.rollouts)
    # Two observations of each pair: with the smaller number shown first, and the other way round.
    observed = np.full((2, size, size), np.nan)
    values = []
    for (first, second), verdict in verdicts.items():
        observation = int(first > second)
        observed[observation, first, second] = verdict.score
        observed[observation, second, first] = 1.0 - verdict.score
        if verdict.value is not None:
            values.append(verdict.value)
            judgment.words.setdefault((first, name), f"shown as A, {second} as B: {verdict.reason}")
            judgment.words.setdefault((second, name), f"shown as B, {first} as A: {verdict.reason}")
    pairs = sorted({(min(order), max(order)) for order in verdicts})
    lost = []
    for pair in pairs:
        if np.isnan(observed[:, pair[0], pair[1]]).all():
            reasons = [verdicts[order].reason for order in (pair, pair[::-1]) if order in verdicts]
            lost.append("; ".join(dict.fromkeys(reasons)))
    _add_comparisons(
        judgment,
        question,
        column,
        observed_PGG=observed,
        asked=len(pairs),
        lost=lost,
        first_wins=float(sum(values)),  # a value of 1 means that the first is better
        comparisons=len(values),
    )


# ----------------------------------------------------------------------------------------------------------- listwise


@dataclass(frozen=True)
class _RankedList:
    """The answer of one pass."""

    order: list[int]
    """Rollouts in the order shown."""
    ranks: tuple[int, ...] | None
    """Ranks of the rollouts in this order; None: missing."""
    reason: str


class Listwise:
    """Kind "listwise": shows all responses in a call and asks for their ranks."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return the number of passes × criteria that have at least two different responses to rank."""
        columns = range(len(question.criteria))
        return sum(len(make_orders(question, k, judge)) for k in columns)

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a matrix of outcomes for every criterion."""
        columns = range(len(question.criteria))
        lists_of_columns = await gather_all(
            _rank_in_passes(question, k, judge, asker) for k in columns
        )
        judgment = Judgment()
        for k, lists in enumerate(lists_of_columns):
            _add_lists(judgment, question, k, lists)
        return judgment


def make_orders(question: Question, column: int, judge: Judge) -> list[list[int]]:
    """Return the rollouts in the order in which each pass of a listwise judge shows them.

    The order is random; every second pass has the opposite order of the one before, so that two passes show each pair
    both ways. No passes if there are fewer than two different rollouts.
    """
    rollouts = list_distinct_rollouts(question, column)
    if len(rollouts) < 2:
        return []
    orders: list[list[int]] = []
    for pass_number in range(judge.passes):
        if pass_number % 2:
            orders.append(orders[-1][::-1])
        else:
            random = make_seeded_random(
                judge.seed, question.group.id, question.criteria[column].name, pass_number
            )
            orders.append([rollouts[i] for i in shuffle(len(rollouts), random)])
    return orders


async def _rank_in_passes(
    question: Question, column: int, judge: Judge, asker: Asker
) -> list[_RankedList]:
    """Ask for the ranks of the rollouts on one criterion, in all passes at the same time."""
    criterion = question.criteria[column]
    examples = judge.examples.get(criterion.name, ())

    async def ask(order: list[int]) -> _RankedList:
        """Ask for the ranks of the rollouts, shown in this order."""
        rollouts = [question.group.rollouts[i] for i in order]
        call = listwise_call(criterion, rollouts, examples=examples, **select_prompt_options(judge))
        reply = await asker.ask(call)
        try:
            ranks, reason = parse_ranks(reply, len(order), call)
        except NoVerdict as problem:
            report_if_unreadable(asker, call, reply, [problem.as_verdict()])
            return _RankedList(order, None, problem.reason)
        return _RankedList(order, ranks, reason)

    return await gather_all(map(ask, make_orders(question, column, judge)))


def _add_lists(
    judgment: Judgment, question: Question, column: int, lists: list[_RankedList]
) -> None:
    """Add the ranked lists of all passes over one criterion to the judgment."""
    name = question.criteria[column].name
    size = len(question.group.rollouts)
    observed = np.full((len(lists), size, size), np.nan)
    first_wins = 0.0
    comparisons = 0
    lost = []
    for pass_number, ranked in enumerate(lists):
        if ranked.ranks is None:
            lost.append(ranked.reason)
            continue
        # Between the positions of the list: 1 = row beats column. A smaller rank is better; the same rank ties.
        ranks = np.array(ranked.ranks)
        wins = 0.5 * (1.0 + np.sign(ranks[None, :] - ranks[:, None]))
        observed[pass_number][np.ix_(ranked.order, ranked.order)] = wins
        np.fill_diagonal(observed[pass_number], np.nan)
        earlier, later = np.triu_indices(len(ranks), 1)
        first_wins += float(wins[earlier, later].sum())
        comparisons += len(earlier)
        # The reason speaks of positions in the list: say which rollout stood where.
        order = ", ".join(map(str, ranked.order))
        words = (
            f"of the whole list: rollouts {order} were shown as 1 to {len(ranks)}: {ranked.reason}"
        )
        for i in ranked.order:
            judgment.words.setdefault((i, name), words)
    _add_comparisons(
        judgment,
        question,
        column,
        observed_PGG=observed,
        asked=len(lists),
        lost=lost,
        first_wins=first_wins,
        comparisons=comparisons,
    )


# ------------------------------------------------------------------------------------------------- incomplete groups


class Memo:
    """Replies to the calls about one group, including those in flight; for the event loop of the runtime."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, bytes], asyncio.Future[Reply]] = {}
        """By name of the judge and key of the call."""
        self.unreadable: set[tuple[str, bytes]] = set()

    def wrap(self, asker_of: AskerOf, judges: Judges) -> AskerOf:
        """Return a function that gives the same askers, except that calls in the memo are answered from it."""
        names = {}
        for judge in judges.judges:
            for number, leaf in enumerate(judge.leaves):
                names[id(leaf)] = f"{judge.name}/{number}"
        return lambda leaf: _RememberingAsker(asker_of(leaf), CallKeys(leaf), names[id(leaf)], self)


@dataclass(eq=False)
class _RememberingAsker(WrappedAsker):
    """Answers calls from the memo, and adds the replies to all others."""

    keys: CallKeys
    name: str
    """Of the judge, in the memo."""
    memo: Memo

    async def ask(self, call: Call) -> Reply:
        """Return the reply in the memo; if there is none, ask, and keep the reply for later calls."""
        replies = self.memo.replies
        key = (self.name, self.keys.key(call))
        while key in replies:
            future = replies[key]
            await asyncio.wait([future])
            if not future.cancelled():  # if that caller was cancelled, this one sends the call
                return future.result()
        future = asyncio.get_running_loop().create_future()
        replies[key] = future
        try:
            reply = await self.asker.ask(call)
        except BaseException:
            del replies[key]
            future.cancel()
            raise
        future.set_result(reply)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Report a reply without a verdict, once."""
        key = (self.name, self.keys.key(call))
        # A reply is parsed when it comes, and again with the whole group, but reported once.
        if key not in self.memo.unreadable:
            self.memo.unreadable.add(key)
            super().unreadable(call, reply)


@dataclass(frozen=True, eq=False)
class ArrivedGroup:
    """The replies and places of a group that came in rollout by rollout."""

    memo: Memo
    slots: tuple[int, ...] | None = None
    """The places of the rollouts that came; None: none is missing."""
    size: int | None = None
    """How many rollouts were expected."""


class Arrivals:
    """The rollouts of one group that have arrived, and the pairs that each new one makes with them.

        arrivals = Arrivals(judges, "step-3/7", criteria, size=8)
        arrivals.add(4, rollout, wanted_K)      the first of its group: []
        arrivals.add(1, another, wanted_K)      the pair of places (1, 4), on every criterion whose design has it

    The design (which pairs are compared) depends only on the size of the group. It is a set of pairs of places, where
    the place of a rollout is its number among its siblings. So the order of arrival does not matter: a run that is
    repeated, or resumed after a kill, asks for the same pairs, finds them in the cache, and gives the same rewards. A
    design that followed the order of arrival would pay for other pairs whenever that order changed. If a rollout is
    missing in the end, `design.choose_pairs_among` adds pairs within the same budget, so that the rest is connected.

    Replies that come before the group is complete are kept in a `Memo`. The group is then judged by the same code as
    one that came whole; only calls that are not in the memo are sent. These wait until the group is complete:
    - judges that rank lists, or choose pairs round by round;
    - panels whose members have different designs;
    - criteria that a program decides for some rollouts;
    - all comparisons, if a hard gate needs the whole group.

    size: how many rollouts are expected; None: not known, so that only judges that compare all pairs are asked ahead.
    """

    def __init__(
        self, judges: Judges, id: str, criteria: Sequence[Criterion], size: int | None
    ) -> None:
        self._id = id
        self._criteria = criteria
        self._judges = judges
        self._arrived: dict[int, tuple[Rollout, np.ndarray]] = {}
        """Place → the rollout, and the criteria to be judged for it, (K,)."""
        self._pairs_by_column: dict[int, set[Pair] | None] = {}
        """Columns that may be asked ahead → the pairs of places; None: all."""
        gates = [criterion for criterion in criteria if criterion.value_layer == "global_quality"]
        if judges.cascade and any(not gate.judged and gate.decided_by.sees_group for gate in gates):
            return  # a hard gate that needs the whole group decides who takes part
        for k, criterion in enumerate(criteria):
            judge = judges.judge_of(criterion.name)
            if judge is None or judge.kind != "pairwise" or not criterion.judged:
                continue
            # The members of a panel must all compare the same pairs.
            leaves = judge.complete_members().leaves
            if len({(leaf.pairs, leaf.seed) for leaf in leaves}) > 1 or isinstance(
                leaves[0].pairs, str
            ):
                continue
            if size is not None:
                self._pairs_by_column[k] = plan_pairs(leaves[0], id, criterion.name, size)
            elif leaves[0].pairs is None:
                self._pairs_by_column[k] = None

    @property
    def has_early_pairs(self) -> bool:
        """Are there pairs that can be judged before the group is complete?"""
        return bool(self._pairs_by_column)

    def has_decided_gates(self, reasons: Sequence[str]) -> bool:
        """Is every hard gate of a rollout decided? If not, it cannot be compared yet: a gate may still stop it."""
        if not self._judges.cascade:
            return True
        for criterion, reason in zip(self._criteria, reasons, strict=True):
            if criterion.value_layer == "global_quality" and reason.startswith(NEEDS_JUDGE):
                return False
        return True

    def add(
        self, place: int, rollout: Rollout, wanted_K: np.ndarray
    ) -> list[tuple[Group, np.ndarray]]:
        """Add a rollout; returns its pairs with earlier ones, each as a group of two with the cells to judge (2, K).

        wanted_K: bool (K,), the criteria that are to be judged for this rollout.
        """
        if place in self._arrived:  # a repeated request
            return []
        pairs = []
        for earlier_place, (earlier, earlier_wanted_K) in self._arrived.items():
            places = (min(place, earlier_place), max(place, earlier_place))
            rollouts = (rollout, earlier) if place < earlier_place else (earlier, rollout)
            compared_K = np.zeros(len(self._criteria), dtype=bool)
            for k, planned in self._pairs_by_column.items():
                compared_K[k] = (
                    wanted_K[k] and earlier_wanted_K[k] and (planned is None or places in planned)
                )
            if compared_K.any():
                pairs.append(
                    (Group(id=self._id, rollouts=rollouts), np.stack([compared_K, compared_K]))
                )
        self._arrived[place] = (rollout, wanted_K)
        return pairs
