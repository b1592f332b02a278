"""Which responses a judge compares: duplicates, pairs within a budget, and random orders that can be repeated.

    >>> choose_pairs(6, 7, seeded_random(0, "query-7", "GeneralQuality"))
    [(2, 5), (1, 4), (0, 3), (0, 5), (3, 4), (1, 2), (1, 5)]

A budget of m pairs among n responses is spent as evenly as possible: no response is in two pairs more than another, and
all are connected as soon as m ≥ n − 1. The first n pairs are a random circle through all responses; further ones start
as circles too (Walecki's decomposition), and are stirred by exchanging partners, so that the whole is close to a random
regular graph. If the budget does not cover a circle, every other pair of it is taken first, so that m ≤ n/2 pairs share
no response.

The design belongs to the places of a group, not to the rollouts in them: given the size of the group it is known before
the first rollout comes, and each pair can be judged as soon as both are there. Once it is known which rollouts take
part, `choose_pairs_among` keeps the pairs among those, and replaces the others by pairs of responses that are in the
fewest. Here 1 and 4 are duplicates, and 2 takes no part:

    >>> choose_pairs_among([(0,), (1, 4), (3,), (5,)], 6, 5, seeded_random(0, "query-7", "GeneralQuality"))
    [(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)]

Random numbers depend only on names (seed, group, criterion …), never on the batch, its order, or the process. Only
`Random.random()` is used, whose numbers Python promises to keep: an order is part of a prompt, and a prompt that
changed would miss the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import TypeAlias

from rubrank.rollouts.rollout import Rollout

Pair: TypeAlias = tuple[int, int]

_EXCHANGES = 10  # tried for each pair; fewer would be enough to make the graph independent of its start


def seeded_random(*names: object) -> Random:
    """A random generator that is seeded with these names."""
    digest = blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


def shuffle(n: int, random: Random) -> list[int]:
    """The numbers below n in random order."""
    keys = [random.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


def find_duplicates(rollouts: Sequence[Rollout]) -> list[int]:
    """For every rollout, the index of its first duplicate (same answer, tool calls and conversation), or its own."""
    first_of: list[int] = []
    by_answer: dict[str, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        candidates = by_answer.setdefault(rollout.answer, [])
        for j in candidates:
            if rollout.tool_calls == rollouts[j].tool_calls and rollout.prompt == rollouts[j].prompt:
                first_of.append(j)
                break
        else:
            candidates.append(i)
            first_of.append(i)
    return first_of


def choose_pairs(n: int, budget: int | None, random: Random) -> list[Pair]:
    """The pairs to compare among n responses; all of them without a budget."""
    if budget is None or budget >= n * (n - 1) // 2:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    pairs = _list_pairs(n)[:budget]
    pairs = pairs[:n] + _stir(pairs[n:], pairs[:n], random)
    labels = shuffle(n, random)
    return [_sort(labels[i], labels[j]) for i, j in pairs]


def choose_pairs_among(classes: Sequence[Sequence[int]], size: int, budget: int | None, random: Random) -> list[Pair]:
    """The pairs to compare among the responses that take part, as indices of `classes`.

    classes: for each different response the places in the group, out of `size`, of the rollouts that gave it.
    A response is in the pairs of all its places. The number of pairs is the same as that of `choose_pairs` for as many
    responses. If `budget` ≥ size − 1, the pairs connect all responses: a place that drops out frees at least as many
    pairs as are needed to connect the parts that it leaves.
    """
    n = len(classes)
    if budget is None or budget >= n * (n - 1) // 2:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    class_of = {place: i for i, places in enumerate(classes) for place in places}
    pairs: dict[Pair, None] = {}  # an ordered set
    for first, second in choose_pairs(size, budget, random):
        if first in class_of and second in class_of and class_of[first] != class_of[second]:
            pairs[_sort(class_of[first], class_of[second])] = None
    if len(pairs) == budget:
        return list(pairs)
    return _fill_up(list(pairs), n, budget, random)


def _fill_up(pairs: list[Pair], n: int, budget: int, random: Random) -> list[Pair]:
    """Add pairs up to the budget: first those that connect parts; among them, responses in the fewest pairs."""
    rank = shuffle(n, random)
    partners: list[set[int]] = [set() for _ in range(n)]
    part_of = list(range(n))  # responses that are connected have the same part

    def connect(i: int, j: int) -> None:
        partners[i].add(j)
        partners[j].add(i)
        part_of_j = part_of[j]
        for k in range(n):
            if part_of[k] == part_of_j:
                part_of[k] = part_of[i]

    for i, j in pairs:
        connect(i, j)
    while len(pairs) < budget:
        by_pairs = sorted(range(n), key=lambda i: (len(partners[i]), rank[i]))
        is_connected = len(set(part_of)) == 1
        candidates = (
            (i, j)
            for i in by_pairs
            for j in by_pairs
            if i != j and j not in partners[i] and (is_connected or part_of[i] != part_of[j])
        )
        i, j = next(candidates)
        pairs.append(_sort(i, j))
        connect(i, j)
    return pairs


def _list_pairs(n: int) -> list[Pair]:
    """All pairs, circle by circle. Every prefix uses the responses evenly; from n − 1 pairs on, it connects them."""
    pairs: list[Pair] = []
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) for step in range(n - 1)]
    for start in range((n - 1) // 2):
        # The last response, then a zigzag through the others: start, +1, −1, +2, −2 …
        circle = [n - 1] + [(start + step) % (n - 1) for step in zigzag]
        around = [_sort(circle[k], circle[(k + 1) % n]) for k in range(n)]
        # Every other pair first, then the rest, beginning with the responses that were left out so far.
        even = n - n % 2
        pairs += around[0:even:2] + around[1:even:2][::-1] + around[even:]
    if n % 2 == 0:  # what remains is one pair for each response
        last = n - 1
        middle = (last - 1) // 2
        pairs += [(k, last - 1 - k) for k in range(middle)] + [(middle, last)]
    return pairs


def _stir(pairs: list[Pair], fixed: list[Pair], random: Random) -> list[Pair]:
    """Exchange partners at random; every response keeps its number of pairs, and no pair occurs twice."""
    pairs = list(pairs)
    all_pairs = {*pairs, *fixed}
    exchanges = _EXCHANGES * len(pairs) if len(pairs) > 1 else 0
    for _ in range(exchanges):
        x = int(random.random() * len(pairs))
        y = int(random.random() * len(pairs))
        a, b = pairs[x]
        c, d = pairs[y] if random.random() < 0.5 else pairs[y][::-1]
        exchanged = (_sort(a, c), _sort(b, d))
        if len({a, b, c, d}) == 4 and not all_pairs.intersection(exchanged):
            all_pairs -= {pairs[x], pairs[y]}
            all_pairs.update(exchanged)
            pairs[x], pairs[y] = exchanged
    return pairs


def _sort(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)
