"""Adaptive comparisons: rounds that are chosen from the answers so far."""

from __future__ import annotations

import asyncio
import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import CRITERION, LOST, Scripted, group, judge, question, said, shown_in

import rubrank
from rubrank.errors import InvalidInput
from rubrank.judges import count_calls
from rubrank.judges.batches import check_batch_mode
from rubrank.judges.design import choose_next_round, choose_rounds, count_most_pairs, make_seeded_random, shuffle
from rubrank.judges.judge import Call, Judges, Reply, load_judges
from rubrank.judges.kinds.comparisons import Arrivals, Pairwise

DESIGNS = ("swiss", "bracket", "pivot")
designs = pytest.mark.parametrize("design", DESIGNS)


def play(design, strength, rounds=None, answer=None):
    """The answers of all rounds by a judge that always prefers the stronger one."""
    n = len(strength)
    rank = shuffle(n, make_seeded_random(0, "test", design))
    answers = {}
    sizes = []
    for _ in range(rounds or choose_rounds(design, n)):
        pairs = choose_next_round(design, n, answers, rank)
        assert not set(pairs) & set(answers)
        assert all(i < j for i, j in pairs)
        for i, j in pairs:
            answers[i, j] = answer(i, j) if answer else 0.5 + 0.5 * float(np.sign(strength[i] - strength[j]))
        sizes.append(len(pairs))
    return answers, sizes


@designs
@pytest.mark.parametrize("n", [2, 5, 8, 9])
def test_ties_and_lost_answers_stay_within_the_bound(design, n):
    for seed in range(20):
        rng = random.Random(seed)
        for rounds in (choose_rounds(design, n), 3 * n):
            answers, _ = play(
                design, range(n), rounds, lambda i, j, rng=rng: rng.choice([0.0, 0.25, 0.5, 1.0, math.nan])
            )
            assert len(answers) <= count_most_pairs(design, n, rounds)


@designs
def test_a_run_without_answers_takes_the_most_pairs(design):
    for n in (4, 8, 9, 16):
        unanswered, _ = play(design, range(n), answer=lambda i, j: math.nan)
        for seed in range(10):
            rng = random.Random(seed)
            answers, _ = play(design, range(n), answer=lambda i, j, rng=rng: rng.choice([0.0, 0.25, 0.5, 0.75, 1.0]))
            assert len(answers) <= len(unanswered)


def utilities(n, answers):
    outcomes = np.full((n, n), np.nan)
    for (i, j), outcome in answers.items():
        outcomes[i, j], outcomes[j, i] = outcome, 1.0 - outcome
    return rubrank.utilities([[math.nan]] * n, outcomes={0: outcomes})[:, 0]


@designs
@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_rounds_are_small_and_within_the_bound(design, n):
    answers, sizes = play(design, list(range(n)))
    assert len(answers) <= count_most_pairs(design, n, choose_rounds(design, n)) <= n * (n - 1) // 2
    assert max(sizes) <= (n - 1 if design == "pivot" else n // 2)


def test_a_swiss_round_pairs_everybody_once():
    _, sizes = play("swiss", list(range(8)))
    assert sizes == [4, 4, 4]
    rank = shuffle(8, make_seeded_random(0, "test", "swiss"))
    first = choose_next_round("swiss", 8, {}, rank)
    assert sorted(i for pair in first for i in pair) == list(range(8))
    second = choose_next_round("swiss", 8, dict.fromkeys(first, 1.0), rank)
    winners = {i for i, _ in first}
    assert all((i in winners) == (j in winners) for i, j in second)  # winners meet winners: they are closest


def test_a_bracket_ends_when_all_but_one_have_lost_twice():
    strength = [3, 7, 1, 5, 8, 2, 6, 4]
    answers, _ = play("bracket", strength, rounds=20)
    losses = [
        sum(outcome == (1.0 if j == k else 0.0) for (i, j), outcome in answers.items() if k in (i, j)) for k in range(8)
    ]
    assert losses[4] == 0
    assert sorted(losses)[1:] == [2] * 7 or sorted(losses)[1] < 2  # the last two may have met already
    assert np.argmax(utilities(8, answers)) == 4


def test_pivots_divide_and_sort():
    strength = [3, 7, 1, 5, 8, 2, 6, 4]
    answers, sizes = play("pivot", strength, rounds=8)
    assert sizes[0] == 7
    order = np.argsort(-utilities(8, answers))
    assert strength[order[0]] == 8
    assert len(answers) < 28


def test_a_pivot_that_ties_with_all_is_not_chosen_again():
    rank = list(range(5))
    answers = {(0, 1): 0.5, (0, 2): 0.5, (0, 3): 0.5, (0, 4): 0.5}  # 0 ties with all
    answers |= {(1, 2): 1.0, (1, 3): 1.0, (1, 4): 0.0}  # 1 is better than 2 and 3, and worse than 4
    assert choose_next_round("pivot", 5, answers, rank) == [(2, 3)]


@designs
def test_a_perfect_judge_is_followed(design):
    strength = [0.3, 0.9, 0.1, 0.5, 0.7, 0.2, 0.8, 0.6, 0.4, 1.0, 0.0]
    answers, _ = play(design, strength, rounds=4)  # the first pivots may be at the ends
    found = utilities(11, answers)
    agree = sum((found[i] - found[j]) * (strength[i] - strength[j]) > 0 for i, j in combinations(range(11), 2))
    assert agree >= 0.75 * 55
    assert len(answers) < 0.65 * 55


@given(st.sampled_from(DESIGNS), st.integers(2, 10), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_answers_within_a_round_does_not_matter(design, n, source):
    rank = shuffle(n, make_seeded_random(1, design))
    answers = {}
    shuffled = {}
    for _ in range(4):
        pairs = choose_next_round(design, n, answers, rank)
        assert choose_next_round(design, n, shuffled, rank) == pairs
        results = {pair: source.choice([0.0, 0.25, 0.5, 1.0, math.nan]) for pair in pairs}
        answers = {**answers, **results}
        items = [*shuffled.items(), *results.items()]
        source.shuffle(items)
        shuffled = dict(items)


# ---------------------------------------------------------------------------------------------------------- as a kind


class Shuffled:
    """A judge that prefers higher numbers, and answers in another order every time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs: list[tuple[str, str]] = []

    async def ask(self, call: Call) -> Reply:
        await asyncio.sleep(0.0001 * self.random.randrange(5))
        first, second = shown_in(call)
        self.pairs.append((first, second))
        return said("A" if int(first[1:]) > int(second[1:]) else "B")


def ask(asker, size=8, **given):
    about = question(size) if isinstance(size, int) else size
    return asyncio.run(Pairwise().judge(about, judge(kind="pairwise", **given), asker))


@designs
def test_judged_in_rounds_whatever_the_order_of_arrival(design):
    askers = [Shuffled(seed) for seed in (1, 2)]
    judgments = [ask(asker, pairs=design) for asker in askers]
    assert set(askers[0].pairs) == set(askers[1].pairs)
    assert np.array_equal(judgments[0].outcomes["Clear"], judgments[1].outcomes["Clear"], equal_nan=True)
    assert len(askers[0].pairs) <= count_calls(question(8), judge(kind="pairwise", pairs=design))
    other_seed = Shuffled(1)
    ask(other_seed, pairs=design, seed=5)
    assert set(other_seed.pairs) != set(askers[0].pairs)


def test_fewer_calls_than_all_pairs_and_the_best_wins():
    asker = Shuffled(0)
    judgment = ask(asker, 16, pairs="swiss", both_orders=False)
    assert len(asker.pairs) == 32  # of 120
    assert np.nanmean(judgment.outcomes["Clear"], axis=1).argmax() in (13, 14, 15)
    assert judgment.asked == 32


def test_lost_answers_do_not_stop_the_design():
    asker = Scripted(lambda shown: LOST if "r3" in shown else said("A" if shown[0] > shown[1] else "B"))
    judgment = ask(asker, pairs="swiss")
    assert judgment.lost == 3
    assert np.isnan(judgment.outcomes["Clear"][3]).all()
    assert judgment.missing["Clear"] == ["timeout after 1 s"] * 3


def test_duplicates_are_shown_once():
    asker = Shuffled(0)
    ask(asker, question(group("r1", "r1", "r2", "r2", "r3")), pairs="bracket")
    assert {name for pair in asker.pairs for name in pair} == {"r1", "r2", "r3"}


def test_rounds_can_be_set_and_mistakes_are_named():
    asker = Shuffled(0)
    ask(asker, pairs="swiss", rounds=1, both_orders=False)
    assert len(asker.pairs) == 4
    endpoints = [{"base_url": "http://127.0.0.1:1/v1", "model": "m"}]
    for mistake in ({"pairs": "round"}, {"pairs": 0}, {"rounds": 2}, {"pairs": 4, "rounds": 2}):
        with pytest.raises(InvalidInput):
            load_judges({"kind": "pairwise", "endpoints": endpoints, **mistake})
    with pytest.raises(InvalidInput, match="pairs must be a whole number or one of 'swiss', 'bracket', 'pivot'"):
        load_judges({"kind": "pairwise", "endpoints": endpoints, "pairs": "swis"})


def test_nothing_is_asked_ahead_and_nothing_in_batches(tmp_path):
    judges = Judges(judges=(judge(kind="pairwise", pairs="swiss"),), cache=str(tmp_path / "replies.sqlite"))
    assert not Arrivals(judges, "q", [CRITERION], 8).has_early_pairs
    with pytest.raises(InvalidInput, match="pairs"):
        check_batch_mode("wait", judges)
