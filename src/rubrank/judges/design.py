"""Who is shown to a judge: what counts as the same answer, which pairs are compared, and in which order.

    >>> pairs(6, 7, draws(0, "query-7", "GeneralQuality"))
    [(2, 5), (1, 4), (0, 3), (0, 5), (3, 4), (1, 2), (1, 5)]

A budget of m pairs among n answers is spent as evenly as it can be: no answer is in two pairs more than another, and
everyone can be compared with everyone by way of others as soon as m ≥ n − 1. The first n pairs are a random circle
through all answers; the further ones start as circles too (Walecki's division of all pairs into circles), and are
stirred by exchanging partners, so that the whole is close to a random regular graph. Of a shorter circle, every other
pair is taken first: m ≤ n/2 pairs share no answer.

The design belongs to the places of a group, not to who is there: with a group's size it is known before the first
rollout comes, and each of its pairs can be asked for as soon as both are there, in either order. Once it is known
who takes part, `pairs_among` keeps the pairs among those, and adds others in place of those that fell away: between
answers in the fewest pairs, so that these rarely differ by two. Here 1 and 4 say the same, and 2 takes no part:

    >>> pairs_among([(0,), (1, 4), (3,), (5,)], 6, 5, draws(0, "query-7", "GeneralQuality"))
    [(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)]

Every draw is a function of the names it belongs to (seed, group, criterion …), never of the batch, its order, or the
process. Only `Random.random()` is used, whose numbers Python promises to keep: an order is part of a prompt, and a
prompt that changed would miss the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import TypeAlias

from rubrank.rollouts.rollout import Rollout

Pair: TypeAlias = tuple[int, int]

_STIR = 10  # exchanges tried for each pair: the graph forgets its start well before


def draws(*names: object) -> Random:
    """Random numbers that belong to these names."""
    digest = blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


def shuffled(n: int, random: Random) -> list[int]:
    """The numbers below n in random order."""
    keys = [random.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


def alike(rollouts: Sequence[Rollout]) -> list[int]:
    """For every rollout the first one that a judge cannot tell from it: same answer, tool calls and conversation."""
    first: list[int] = []
    by_answer: dict[str, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        others = by_answer.setdefault(rollout.answer, [])
        same = next((j for j in others if _same(rollout, rollouts[j])), None)
        if same is None:
            others.append(i)
        first.append(i if same is None else same)
    return first


def _same(one: Rollout, other: Rollout) -> bool:
    return one.tool_calls == other.tool_calls and one.prompt == other.prompt


def pairs(n: int, budget: int | None, random: Random) -> list[Pair]:
    """The pairs to compare among n answers; all of them without a budget."""
    if budget is None or budget >= n * (n - 1) // 2:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    edges = _all_edges(n)[:budget]
    edges = edges[:n] + _stirred(edges[n:], edges[:n], random)
    label = shuffled(n, random)
    return [_ordered(label[i], label[j]) for i, j in edges]


def pairs_among(classes: Sequence[Sequence[int]], size: int, budget: int | None, random: Random) -> list[Pair]:
    """The pairs to compare among the answers of those who take part, as numbers of `classes`.

    classes: for each different answer the places in the group, out of `size`, of the rollouts that gave it.
    An answer is in the pairs of all its places. There are as many pairs as `pairs` gives for so many answers. Where
    `budget` ≥ size − 1 they connect all answers: a place that falls away frees at least as many pairs as are needed to
    connect what it leaves apart.
    """
    n = len(classes)
    if budget is None or budget >= n * (n - 1) // 2:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    answer = {place: i for i, places in enumerate(classes) for place in places}
    designed = [(answer[i], answer[j]) for i, j in pairs(size, budget, random) if i in answer and j in answer]
    kept = list(dict.fromkeys(_ordered(i, j) for i, j in designed if i != j))
    return _filled(kept, n, budget, random)


def _filled(kept: list[Pair], n: int, budget: int, random: Random) -> list[Pair]:
    """The pairs and as many others as there is budget for: first such that connect, of those in the fewest pairs."""
    if len(kept) == budget:
        return kept
    edges, rank = list(kept), shuffled(n, random)
    partners: list[set[int]] = [set() for _ in range(n)]
    part = list(range(n))
    for i, j in edges:
        _join(i, j, partners, part)
    while len(edges) < budget:
        fewest = sorted(range(n), key=lambda i: (len(partners[i]), rank[i]))
        apart = len(set(part)) > 1
        i, j = next(
            (i, j)
            for i in fewest
            for j in fewest
            if i != j and j not in partners[i] and not (apart and part[i] == part[j])
        )
        edges.append(_ordered(i, j))
        _join(i, j, partners, part)
    return edges


def _join(i: int, j: int, partners: list[set[int]], part: list[int]) -> None:
    partners[i].add(j)
    partners[j].add(i)
    if part[i] != part[j]:
        part[:] = [part[i] if one == part[j] else one for one in part]


def _all_edges(n: int) -> list[Pair]:
    """All pairs, circle by circle, such that every beginning of the list is even and, from n − 1 on, connected."""
    edges = [edge for i in range((n - 1) // 2) for edge in _evenly(_circle(n, i))]
    if n % 2 == 0:  # what is left over is one pair for each
        last = n - 1
        edges += [(j, last - 1 - j) for j in range((last - 1) // 2)] + [((last - 1) // 2, last)]
    return edges


def _circle(n: int, i: int) -> list[int]:
    """Circle number i: the last answer, then a zigzag through the others: i, i+1, i−1, i+2, i−2 …"""
    steps = [(s + 1) // 2 if s % 2 else -(s // 2) for s in range(n - 1)]
    return [n - 1] + [(i + step) % (n - 1) for step in steps]


def _evenly(circle: list[int]) -> list[Pair]:
    """The pairs of a circle: first every other one, then the rest, beginning with those left out so far."""
    n = len(circle)
    around = [_ordered(circle[j], circle[(j + 1) % n]) for j in range(n)]
    closing = around[n - 1 :] if n % 2 else []
    rest = around[1 : n - n % 2 : 2]
    return around[0 : n - n % 2 : 2] + rest[::-1] + closing


def _stirred(edges: list[Pair], fixed: list[Pair], random: Random) -> list[Pair]:
    """The same number of pairs for everyone, with other partners; none twice, none of the fixed ones."""
    edges, taken = list(edges), {*edges, *fixed}
    for _ in range(_STIR * len(edges) if len(edges) > 1 else 0):
        x, y = int(random.random() * len(edges)), int(random.random() * len(edges))
        (a, b), (c, d) = edges[x], edges[y] if random.random() < 0.5 else edges[y][::-1]
        new = (_ordered(a, c), _ordered(b, d))
        if len({a, b, c, d}) == 4 and not taken.intersection(new):
            taken -= {edges[x], edges[y]}
            taken.update(new)
            edges[x], edges[y] = new
    return edges


def _ordered(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)
