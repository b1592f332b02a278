"""Who is shown to a judge: what counts as the same answer, which pairs are compared, and in which order.

    >>> pairs(6, 7, draws(0, "query-7", "GeneralQuality"))
    [(2, 5), (1, 4), (0, 3), (0, 5), (3, 4), (1, 2), (1, 5)]

A budget of m pairs among n answers is spent as evenly as it can be: no answer is in two pairs more than another, and
everyone can be compared with everyone by way of others as soon as m ≥ n − 1. The first n pairs are a random circle
through all answers; the further ones start as circles too (Walecki's division of all pairs into circles), and are
stirred by exchanging partners, so that the whole is close to a random regular graph. Of a shorter circle, every other
pair is taken first: m ≤ n/2 pairs share no answer.

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
