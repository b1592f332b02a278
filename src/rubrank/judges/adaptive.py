"""Which pairs to compare next: designs that look at what was answered so far, round by round.

    swiss      every round pairs all responses; each pair is the one that promises the most information
    bracket    responses with fewer than two losses play on, against others with as many losses
    pivot      every round compares all responses of a part with one of them, which then divides the part

    pairs = first_pairs = next_round("swiss", 8, {}, 0, rank)          the answers decide the rest:
    next_round("swiss", 8, {(0, 3): 1.0, …}, 1, rank)                  pairs of the second round, [] when it is over

All take about as many comparisons as there are responses in a round, so O(G) for a few rounds, where all pairs would be
O(G²). A round is chosen from the Bradley–Terry fit of all answers so far. The information that a comparison promises is

    ½ log(1 + p (1 − p) v)        p: probability that i wins, v: variance of u_i − u_j (Laplace approximation)

the expected gain in the entropy of the fit: large for responses that are close, or of which little is known. All
answers of a round count before the next one is chosen, and ties are broken by a seeded rank, so the design depends on
the seed and the answers alone, never on the order in which answers arrive. A pair is never asked twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from rubrank.judges.design import Pair

AdaptiveDesign: TypeAlias = Literal["swiss", "bracket", "pivot"]

_RIDGE = 1.0  # precision of the prior on utilities, as in the fit of rewards
_NEWTON_STEPS = 30
_LOSSES_TO_LEAVE = 2.0  # of a bracket


def default_rounds(design: AdaptiveDesign, n: int) -> int:
    """Rounds of a design for n responses, if the judge does not say."""
    doublings = max(1, math.ceil(math.log2(max(n, 2))))
    return {"swiss": doublings, "bracket": 2 * doublings, "pivot": 2}[design]


def most_pairs(design: AdaptiveDesign, n: int, rounds: int) -> int:
    """An upper bound of the pairs that will be compared."""
    per_round = n - 1 if design == "pivot" else n // 2
    return min(rounds * per_round, n * (n - 1) // 2)


def next_round(
    design: AdaptiveDesign, n: int, answers: Mapping[Pair, float], number: int, rank: Sequence[int]
) -> list[Pair]:
    """The pairs (i < j) of the next round; empty if there is nothing left to compare.

    answers: the pairs so far → 1 if i is better, 0 if j is, fractions between; NaN if no answer came.
    number: of the round, from 0. rank: a random order of the responses, which breaks ties.
    """
    fit = _fit(n, answers)
    if design == "swiss":
        return _match(range(n), fit, answers, rank)
    if design == "bracket":
        return _next_of_bracket(n, fit, answers, rank)
    return _next_of_pivots(n, fit, answers, rank, number)


# ----------------------------------------------------------------------------------------------------------- the fit


@dataclass(frozen=True, eq=False)
class _Fit:
    """Utilities of the answers so far, and what each comparison would tell."""

    utilities: np.ndarray
    gain: np.ndarray
    """(n, n): information that comparing i and j promises."""


def _fit(n: int, answers: Mapping[Pair, float]) -> _Fit:
    """Bradley–Terry with a normal prior, by Newton's method."""
    answered = sorted((pair, outcome) for pair, outcome in answers.items() if not math.isnan(outcome))
    first = np.array([pair[0] for pair, _ in answered], dtype=int)
    second = np.array([pair[1] for pair, _ in answered], dtype=int)
    outcomes = np.array([outcome for _, outcome in answered])
    u = np.zeros(n)
    hessian = _RIDGE * np.eye(n)
    for _ in range(_NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(u[second] - u[first]))
        gradient = -_RIDGE * u
        np.add.at(gradient, first, outcomes - p)
        np.add.at(gradient, second, p - outcomes)
        weight = p * (1.0 - p)
        hessian = _RIDGE * np.eye(n)
        np.add.at(hessian, (first, first), weight)
        np.add.at(hessian, (second, second), weight)
        np.add.at(hessian, (first, second), -weight)
        np.add.at(hessian, (second, first), -weight)
        step = np.linalg.solve(hessian, gradient)
        u = u + step
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    covariance = np.linalg.inv(hessian)
    variances = np.diag(covariance)
    spread = variances[:, None] + variances[None, :] - 2.0 * covariance
    p = 1.0 / (1.0 + np.exp(u[None, :] - u[:, None]))
    # Rounded, so that comparisons that promise the same are ordered by rank and not by the last bit of a sum.
    return _Fit(np.round(u, 9), np.round(0.5 * np.log1p(p * (1.0 - p) * spread), 9))


# -------------------------------------------------------------------------------------------------------- the designs


def _match(players: Sequence[int], fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int]) -> list[Pair]:
    """Pairs among the players, each in one at most: the most informative first, none that was asked already."""
    candidates = []
    for i in players:
        for j in players:
            if i < j and (i, j) not in answers:
                candidates.append((-fit.gain[i, j], sorted((rank[i], rank[j])), (i, j)))
    candidates.sort()
    matched: set[int] = set()
    pairs = []
    for _, _, (i, j) in candidates:
        if i not in matched and j not in matched:
            matched |= {i, j}
            pairs.append((i, j))
    return sorted(pairs)


def _next_of_bracket(n: int, fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int]) -> list[Pair]:
    """Pairs among those with equally many losses; a tie is half a loss for both.

    A missing answer costs nobody: it is no fault of the responses, and a dry run, which gets no answers, then counts
    the most pairs that there can be.
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
        of_class = _match([*left_over, *players], fit, answers, rank)
        pairs += of_class
        matched = {i for pair in of_class for i in pair}
        left_over = [i for i in (*left_over, *players) if i not in matched]
    return sorted(pairs)


def _next_of_pivots(n: int, fit: _Fit, answers: Mapping[Pair, float], rank: Sequence[int], number: int) -> list[Pair]:
    """All of a part against its pivot, the response whose comparisons promise most together."""
    pairs: set[Pair] = set()
    for part in _split(list(range(n)), answers, number):
        open_pairs = {i: [(min(i, j), max(i, j)) for j in part if j != i] for i in part}
        open_pairs = {i: [pair for pair in of_i if pair not in answers] for i, of_i in open_pairs.items()}
        if not any(open_pairs.values()):
            continue
        promised = {i: round(sum(fit.gain[pair] for pair in of_i), 9) for i, of_i in open_pairs.items()}
        pivot = min(part, key=lambda i: (-promised[i], rank[i]))
        pairs.update(open_pairs[pivot])
    return sorted(pairs)


def _split(part: list[int], answers: Mapping[Pair, float], number: int) -> list[list[int]]:
    """The parts of responses after so many rounds of pivots."""
    if number == 0 or len(part) < 2:
        return [part]
    inside = {i: sum((min(i, j), max(i, j)) in answers for j in part if j != i) for i in part}
    pivot = max(part, key=lambda i: (inside[i], -i))
    if inside[pivot] < len(part) - 1:  # not divided yet
        return [part]
    above = []
    beside = [pivot]
    below = []
    for i in part:
        if i == pivot:
            continue
        outcome = answers[min(i, pivot), max(i, pivot)]
        share_of_i = outcome if i < pivot else 1.0 - outcome
        if share_of_i > 0.5:
            above.append(i)
        elif share_of_i < 0.5:
            below.append(i)
        else:
            beside.append(i)
    parts = []
    for piece in (above, beside, below):
        parts += _split(piece, answers, number - 1) if piece else []
    return parts
