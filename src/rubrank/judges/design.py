"""Which responses a judge compares: duplicates, pairs within a budget or round by round, and repeatable random orders.

    >>> choose_pairs(6, 7, make_seeded_random(0, "query-7", "GeneralQuality"))
    [(2, 5), (1, 4), (0, 3), (0, 5), (3, 4), (1, 2), (1, 5)]

A budget of m pairs among n responses is spent as evenly as possible: no response is in two pairs more than another, and
all are connected as soon as m ≥ n − 1. The first n pairs are a random circle through all responses; further ones start
as circles too (Walecki's decomposition), and exchange partners at random, so that the whole is close to a random
regular graph. If the budget does not cover a circle, every other pair of it is taken first, so that m ≤ n/2 pairs share
no response.

The design belongs to the places of a group, not to the rollouts in them: given the size of the group it is known before
the first rollout comes, and each pair can be judged as soon as both are there. Once it is known which rollouts take
part, `choose_pairs_among` keeps the pairs among those, and replaces the others by pairs of responses that are in the
fewest. Here the rollouts in places 1 and 4 are duplicates, and the one in place 2 takes no part. Four different
responses remain. The pairs name them by their index in this list: 1 stands for places 1 and 4, and 2 for place 3.

    >>> choose_pairs_among([(0,), (1, 4), (3,), (5,)], 6, 5, make_seeded_random(0, "query-7", "GeneralQuality"))
    [(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)]

Random numbers depend only on names (seed, group, criterion …), never on the batch, its order, or the process. Only
`Random.random()` is used, whose numbers Python promises to keep: an order is part of a prompt, and a prompt that
changed would miss the cache.

Adaptive designs ("swiss", "bracket", "pivot") choose the pairs round by round, from the answers so far: see
`choose_next_round`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Literal, TypeAlias

import numpy as np

from rubrank.rollouts.rollout import Rollout

Pair: TypeAlias = tuple[int, int]
AdaptiveDesign: TypeAlias = Literal["swiss", "bracket", "pivot"]

# Exchanges that are tried for each pair. Some are refused, because a pair would occur twice. Fewer than ten would do,
# but they cost nothing beside the calls of a judge. And the number must stay: another one chooses other pairs, whose
# replies are not in the caches of users.
_EXCHANGES = 10


def make_seeded_random(*names: object) -> Random:
    """Return a random generator that is seeded with these names."""
    digest = blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


def shuffle(n: int, random: Random) -> list[int]:
    """Return the numbers below n in random order."""
    keys = [random.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


def find_duplicates(rollouts: Sequence[Rollout]) -> list[int]:
    """Return for every rollout the index of its first duplicate, or its own.

    Duplicates have the same answer, tool calls and conversation.
    """
    first_of: list[int] = []
    by_answer: dict[str, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        candidates = by_answer.setdefault(rollout.answer, [])
        first = i
        for j in candidates:
            earlier = rollouts[j]
            if rollout.tool_calls == earlier.tool_calls and rollout.prompt == earlier.prompt:
                first = j
                break
        if first == i:
            candidates.append(i)
        first_of.append(first)
    return first_of


def choose_pairs(n: int, budget: int | None, random: Random) -> list[Pair]:
    """Return the pairs to compare among n responses; all of them without a budget."""
    if budget is None or budget >= n * (n - 1) // 2:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    pairs = _list_pairs(n)[:budget]
    # The first circle stays as it is, because it connects all responses.
    first_circle = pairs[:n]
    pairs = first_circle + _exchange_partners(pairs[n:], first_circle, random)
    # Which response is in which place of the circles is random, too.
    labels = shuffle(n, random)
    return [_make_pair(labels[i], labels[j]) for i, j in pairs]


def choose_pairs_among(
    classes: Sequence[Sequence[int]], size: int, budget: int | None, random: Random
) -> list[Pair]:
    """Return the pairs to compare among the responses that take part, as indices of `classes`.

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
            pairs[_make_pair(class_of[first], class_of[second])] = None
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

    def find_new_pair() -> Pair:
        fewest_pairs_first = sorted(range(n), key=lambda i: (len(partners[i]), rank[i]))
        is_connected = len(set(part_of)) == 1
        for i in fewest_pairs_first:
            for j in fewest_pairs_first:
                is_new = i != j and j not in partners[i]
                if is_new and (is_connected or part_of[i] != part_of[j]):
                    return i, j
        raise AssertionError("the budget is smaller than the number of all pairs")

    for i, j in pairs:
        connect(i, j)
    while len(pairs) < budget:
        i, j = find_new_pair()
        pairs.append(_make_pair(i, j))
        connect(i, j)
    return pairs


def _list_pairs(n: int) -> list[Pair]:
    """Return all pairs, circle by circle.

    The first m are spread evenly over the responses, and connect them if m ≥ n − 1. For n = 5, where each circle is
    4–start–(start + 1)–(start − 1)–(start + 2)–4, modulo 4 except for response 4:

        circle 4 0 1 3 2     edges 04 01 13 23 24     listed as 04 13 | 23 01 | 24
        circle 4 1 2 0 3     edges 14 12 02 03 34     listed as 14 02 | 03 12 | 34
    """
    pairs: list[Pair] = []
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) for step in range(n - 1)]
    for start in range((n - 1) // 2):
        # The last response, then a zigzag through the others: start, +1, −1, +2, −2 …
        circle = [n - 1] + [(start + step) % (n - 1) for step in zigzag]
        around = [_make_pair(circle[k], circle[(k + 1) % n]) for k in range(n)]
        # Every other edge first: these share no response. Then the edges between them, from the end of the circle. An
        # odd circle has one edge more, which comes last.
        even = n - n % 2
        every_other = around[0:even:2]
        between = around[1:even:2]
        last_edge = around[even:]
        pairs += every_other + between[::-1] + last_edge
    if n % 2 == 0:  # what remains is one pair for each response
        last = n - 1
        middle = (last - 1) // 2
        pairs += [(k, last - 1 - k) for k in range(middle)] + [(middle, last)]
    return pairs


def _exchange_partners(pairs: list[Pair], fixed: list[Pair], random: Random) -> list[Pair]:
    """Exchange partners at random; every response keeps its number of pairs, and no pair occurs twice."""
    pairs = list(pairs)
    all_pairs = {*pairs, *fixed}
    exchanges = _EXCHANGES * len(pairs) if len(pairs) > 1 else 0
    for _ in range(exchanges):
        x = int(random.random() * len(pairs))
        y = int(random.random() * len(pairs))
        a, b = pairs[x]
        c, d = pairs[y] if random.random() < 0.5 else pairs[y][::-1]
        exchanged = (_make_pair(a, c), _make_pair(b, d))  # instead of a–b and c–d
        if len({a, b, c, d}) == 4 and not all_pairs.intersection(exchanged):
            all_pairs -= {pairs[x], pairs[y]}
            all_pairs.update(exchanged)
            pairs[x], pairs[y] = exchanged
    return pairs


def _make_pair(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)


# --------------------------------------------------------------------------------------------------- adaptive designs

_RIDGE = 1.0  # precision of the prior on utilities, as in the fit of rewards
_NEWTON_STEPS = 30
_LOSSES_TO_LEAVE = 2.0  # of a bracket


def choose_rounds(design: AdaptiveDesign, n: int) -> int:
    """Return the rounds of a design for n responses, if the judge does not say."""
    doublings = max(1, math.ceil(math.log2(max(n, 2))))
    return {"swiss": doublings, "bracket": 2 * doublings, "pivot": 2}[design]


def count_most_pairs(design: AdaptiveDesign, n: int, rounds: int) -> int:
    """Return an upper bound of the pairs that will be compared."""
    per_round = n - 1 if design == "pivot" else n // 2
    return min(rounds * per_round, n * (n - 1) // 2)


def choose_next_round(
    design: AdaptiveDesign, n: int, answers: Mapping[Pair, float], rank: Sequence[int]
) -> list[Pair]:
    """Return the pairs (i < j) of the next round of an adaptive design; empty if there is nothing left to compare.

        choose_next_round("swiss", 8, {}, rank)                           pairs of the first round
        choose_next_round("swiss", 8, {(0, 3): 1.0, …}, rank)             pairs of the second round, [] when it is over

        swiss      every round pairs all responses; each pair is the one that promises the most information
        bracket    responses with fewer than two losses play on, against others with as many losses
        pivot      every round compares all responses of a part with one of them, which then divides the part

    A round takes about as many comparisons as there are responses, so a few rounds take O(G), where all pairs would be
    O(G²). A round is chosen from the Bradley–Terry fit of all answers so far. The information that a comparison
    promises is the expected gain in the entropy of the fit:

        ½ log(1 + p (1 − p) v)        p: probability that i wins, v: variance of u_i − u_j (Laplace approximation)

    It is large for responses that are close, or about which little is known. All answers of a round count before the
    next one is chosen, and ties are broken by a seeded rank. So the design depends on the seed and the answers alone,
    never on the order in which answers arrive. A pair is never asked twice.

    answers: the pairs of all earlier rounds → 1 if i is better, 0 if j is, fractions between; NaN if no answer came.
    rank: a random order of the responses, which breaks ties.
    """
    fit = _fit_utilities(n, answers)
    if design == "swiss":
        return _match_players(range(n), fit, answers, rank)
    if design == "bracket":
        return _pair_in_bracket(n, fit, answers, rank)
    return _pair_with_pivots(n, fit, answers, rank)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Utilities of the answers so far, and what each comparison would tell."""

    utilities: np.ndarray
    gain: np.ndarray
    """(n, n): information that comparing i and j promises."""


def _fit_utilities(n: int, answers: Mapping[Pair, float]) -> _Fit:
    """Fit a Bradley–Terry model with a normal prior to the answers, by Newton's method."""
    answered = sorted(
        (pair, outcome) for pair, outcome in answers.items() if not math.isnan(outcome)
    )
    # A row for each answer: +1 for the first response of the pair, −1 for the second.
    contrasts = np.zeros((len(answered), n))
    for row, ((i, j), _) in enumerate(answered):
        contrasts[row, [i, j]] = 1.0, -1.0
    outcomes = np.array([outcome for _, outcome in answered])
    u = np.zeros(n)
    for _ in range(_NEWTON_STEPS):
        # The gradient of the log-posterior, and its negative Hessian.
        p = 1.0 / (1.0 + np.exp(-contrasts @ u))
        gradient = contrasts.T @ (outcomes - p) - _RIDGE * u
        hessian = contrasts.T @ (contrasts * (p * (1.0 - p))[:, None]) + _RIDGE * np.eye(n)
        step = np.linalg.solve(hessian, gradient)
        u = u + step
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    covariance = np.linalg.inv(hessian)
    variances = np.diag(covariance)
    variance_of_difference = variances[:, None] + variances[None, :] - 2.0 * covariance
    p = 1.0 / (1.0 + np.exp(u[None, :] - u[:, None]))
    gain = 0.5 * np.log1p(p * (1.0 - p) * variance_of_difference)
    # Rounded, so that comparisons that promise the same are ordered by rank and not by the last bit of a sum.
    return _Fit(np.round(u, 9), np.round(gain, 9))


def _match_players(
    players: Sequence[int], fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int]
) -> list[Pair]:
    """Return pairs among the players, each in one at most: the most informative first, none asked already."""
    candidates = []
    for i in players:
        for j in players:
            if i < j and (i, j) not in answers:
                # Sorted by information, the largest first, then by the seeded rank.
                ranks = sorted((rank[i], rank[j]))
                candidates.append((-fit.gain[i, j], ranks, (i, j)))
    candidates.sort()
    matched: set[int] = set()
    pairs = []
    for _, _, (i, j) in candidates:
        if i not in matched and j not in matched:
            matched |= {i, j}
            pairs.append((i, j))
    return sorted(pairs)


def _pair_in_bracket(
    n: int, fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int]
) -> list[Pair]:
    """Return pairs among responses with equally many losses; a tie is half a loss for both.

    A missing answer counts as no loss, because the responses did not cause it. A dry run, which gets no answers, then
    counts the largest possible number of pairs.
    """
    losses = np.zeros(n)
    for (i, j), outcome in answers.items():
        if not math.isnan(outcome):
            losses[i] += 1.0 - outcome
            losses[j] += outcome
    classes: dict[int, list[int]] = {}
    for i in range(n):
        if losses[i] < _LOSSES_TO_LEAVE:
            classes.setdefault(math.floor(losses[i]), []).append(i)
    pairs = []
    left_over: list[int] = []
    for _, players in sorted(classes.items()):
        matches = _match_players([*left_over, *players], fit, answers, rank)
        pairs += matches
        matched = {i for pair in matches for i in pair}
        left_over = [i for i in (*left_over, *players) if i not in matched]
    return sorted(pairs)


def _pair_with_pivots(
    n: int, fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int]
) -> list[Pair]:
    """Compare all responses of a part with its pivot: the one whose comparisons promise most information together."""
    pairs: set[Pair] = set()
    for part in _split_by_pivots(list(range(n)), answers):
        open_pairs: dict[int, list[Pair]] = {}
        for i in part:
            pairs_of_i = [_make_pair(i, j) for j in part if j != i]
            open_pairs[i] = [pair for pair in pairs_of_i if pair not in answers]
        if not any(open_pairs.values()):
            continue
        gains = {i: round(sum(fit.gain[pair] for pair in open_pairs[i]), 9) for i in part}
        pivot = min(part, key=lambda i: (-gains[i], rank[i]))
        pairs.update(open_pairs[pivot])
    return sorted(pairs)


def _split_by_pivots(part: list[int], answers: Mapping[Pair, float]) -> list[list[int]]:
    """Return the parts into which the pivots of earlier rounds have divided this part.

    A pivot leaves up to three parts: the responses above, beside and below it, best first. It is in none of them
    itself, because it has been compared with all. Beside it are ties, and responses whose comparison got no answer.

    Who was a pivot follows from the answers, so that nothing but the answers is carried from round to round: it is the
    response that was compared with all others of its part.
    """
    if len(part) < 2:
        return [part]
    compared = {i: sum(_make_pair(i, j) in answers for j in part if j != i) for i in part}
    pivot = max(part, key=lambda i: (compared[i], -i))
    if compared[pivot] < len(part) - 1:  # no response was compared with all others: not divided yet
        return [part]
    above = []
    beside = []
    below = []
    for i in part:
        if i == pivot:
            continue
        outcome = answers[_make_pair(i, pivot)]
        share_of_i = outcome if i < pivot else 1.0 - outcome
        if share_of_i > 0.5:
            above.append(i)
        elif share_of_i < 0.5:
            below.append(i)
        else:  # a tie, or NaN
            beside.append(i)
    parts = []
    for piece in (above, beside, below):
        if piece:
            parts += _split_by_pivots(piece, answers)
    return parts
