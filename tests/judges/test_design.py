import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrank.judges.design import choose_pairs, choose_pairs_among, find_duplicates, make_seeded_random, shuffle
from rubrank.rollouts.rollout import Rollout


def distances(graph: list[tuple[int, int]], start: int) -> dict[int, int]:
    """Steps from one to all that can be reached."""
    partners: dict[int, list[int]] = {}
    for i, j in graph:
        partners.setdefault(i, []).append(j)
        partners.setdefault(j, []).append(i)
    found, edge = {start: 0}, [start]
    while edge:
        new = {j: found[i] + 1 for i in edge for j in partners.get(i, ()) if j not in found}
        found |= new
        edge = list(new)
    return found


def mean_distance(graph: list[tuple[int, int]], n: int) -> float:
    return sum(sum(distances(graph, i).values()) for i in range(n)) / (n * (n - 1))


def random_regular(n: int, degree: int, seed: int) -> list[tuple[int, int]]:
    """By pairing loose ends until no pair comes twice."""
    random = Random(seed)
    while True:
        ends = [i for i in range(n) for _ in range(degree)]
        random.shuffle(ends)
        drawn = {(min(pair), max(pair)) for pair in zip(ends[::2], ends[1::2], strict=True)}
        if len(drawn) == n * degree // 2 and all(i < j for i, j in drawn):
            return sorted(drawn)


@st.composite
def budgets(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(2, 40))
    return n, draw(st.integers(1, n * (n - 1) // 2)), draw(st.integers(0, 10**6))


@given(budgets())
@settings(deadline=None)
def test_budget_is_spent_evenly_and_connects_all(given: tuple[int, int, int]) -> None:
    n, m, seed = given
    chosen = choose_pairs(n, m, make_seeded_random(seed, "q", "c"))
    count = Counter(i for pair in chosen for i in pair)
    degrees = [count[i] for i in range(n)]
    assert len(chosen) == len(set(chosen)) == m
    assert all(0 <= i < j < n for i, j in chosen)
    assert max(degrees) - min(degrees) <= 1
    assert m < n - 1 or len(distances(chosen, 0)) == n


@pytest.mark.parametrize("budget", [None, 45, 1000])
def test_all_pairs_without_a_budget_or_with_a_large_one(budget: int | None) -> None:
    assert choose_pairs(10, budget, make_seeded_random(0)) == [(i, j) for i in range(10) for j in range(i + 1, 10)]


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_to_compare_with(n: int) -> None:
    assert choose_pairs(n, None, make_seeded_random(0)) == choose_pairs(n, 5, make_seeded_random(0)) == []


def test_every_pair_is_equally_likely() -> None:
    counts = Counter(pair for seed in range(4000) for pair in choose_pairs(7, 10, make_seeded_random(seed)))
    expected = 4000 * 10 / 21
    assert len(counts) == 21
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5


def test_sparse_designs_are_as_tight_as_random_regular_graphs() -> None:
    ours = [mean_distance(choose_pairs(64, 128, make_seeded_random(seed)), 64) for seed in range(20)]
    random = [mean_distance(random_regular(64, 4, seed), 64) for seed in range(20)]
    assert sum(ours) < 1.05 * sum(random)


def test_draws_belong_to_their_names() -> None:
    assert make_seeded_random(0, "q", "c").random() == make_seeded_random(0, "q", "c").random()
    others = [
        make_seeded_random(1, "q", "c"),
        make_seeded_random(0, "r", "c"),
        make_seeded_random(0, "q", "d"),
        make_seeded_random(0, "qc", ""),
        make_seeded_random("0", "q", "c"),
    ]
    assert make_seeded_random(0, "q", "c").random() not in [other.random() for other in others]


def test_draws_are_the_same_in_another_process() -> None:
    code = (
        "from rubrank.judges.design import *;"
        "print(choose_pairs(9, 13, make_seeded_random(3, 'q', 'c')), shuffle(9, make_seeded_random(3)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    pairs = choose_pairs(9, 13, make_seeded_random(3, "q", "c"))
    order = shuffle(9, make_seeded_random(3))
    assert out.stdout.strip() == f"{pairs} {order}"


def test_orders_are_kept_from_version_to_version() -> None:
    """They are in the prompts, and so in the keys of the cache: a change would make everyone pay again."""
    assert shuffle(8, make_seeded_random(0, "query-7", "GeneralQuality", 1)) == [3, 0, 7, 5, 1, 6, 4, 2]
    assert choose_pairs(6, 7, make_seeded_random(0, "query-7", "GeneralQuality")) == [
        (2, 5),
        (1, 4),
        (0, 3),
        (0, 5),
        (3, 4),
        (1, 2),
        (1, 5),
    ]
    left = choose_pairs_among([(0,), (1, 4), (3,), (5,)], 6, 5, make_seeded_random(0, "query-7", "GeneralQuality"))
    assert left == [(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)]


def test_alike_is_what_a_judge_cannot_tell_apart() -> None:
    call = {"name": "search", "arguments": {"q": "lake"}}
    rollouts = [
        Rollout(prompt="Which lake?", response="West Lake."),
        Rollout(prompt="Which lake?", response="<think>Hangzhou …</think>West Lake."),  # only the thoughts differ
        Rollout(prompt="Which lake?", response="West Lake.", tool_calls=(call,)),
        Rollout(prompt="Which city?", response="West Lake."),
        Rollout(prompt="Which lake?", response="East Lake."),
        Rollout(prompt="Which lake?", response="West Lake.", tool_calls=(call,)),
    ]
    assert find_duplicates(rollouts) == [0, 0, 2, 3, 4, 2]
