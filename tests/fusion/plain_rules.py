"""Every rule again, as slowly and plainly as possible: one group at a time, lists and loops, no NumPy.

    rule(group)      group.s[i][k] from 0 to 1 or None, group.w[k] > 0, group.criteria[k]      →  one number a rollout

Written from the formulas, not from the library's code; what it shares with it are the words in docs/rules.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rubrank.scores.criterion import CriterionData


@dataclass(frozen=True)
class PlainGroup:
    s: list[list[float | None]]
    w: list[float]
    criteria: list[CriterionData]

    @property
    def asked(self) -> list[int]:
        return [k for k in range(len(self.w)) if any(row[k] is not None for row in self.s)]


def neutral(values: list[float | None], empty: float) -> list[float]:
    known = [v for v in values if v is not None]
    fill = sum(known) / len(known) if known else empty
    return [fill if v is None else v for v in values]


def mean_of(row: list[float | None], w: list[float]) -> float | None:
    pairs = [(x, weight) for x, weight in zip(row, w, strict=True) if x is not None and weight > 0]
    total = sum(weight for _, weight in pairs)
    return sum(x * weight for x, weight in pairs) / total if total else None


def weighted_mean(g: PlainGroup) -> list[float]:
    return neutral([mean_of(row, g.w) for row in g.s], 0.5)


def column(g: PlainGroup, k: int) -> list[float]:
    return [row[k] for row in g.s if row[k] is not None]


def moments(values: list[float], ddof: int) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((x - mean) ** 2 for x in values) / max(len(values) - ddof, 1))


def z(g: PlainGroup, ddof: int, eps: float, floor: float = 1e-5) -> list[list[float]]:
    out = [[0.0] * len(g.w) for _ in g.s]
    for k in range(len(g.w)):
        mean, std = moments(column(g, k), ddof)
        for i, row in enumerate(g.s):
            if row[k] is not None and std > floor:
                out[i][k] = (row[k] - mean) / (std + eps)
    return out


def z_score(g: PlainGroup) -> list[float]:
    return [sum(w * x for w, x in zip(g.w, row, strict=True)) for row in z(g, 0, 0.0)]


def gdpo_pre_norm(g: PlainGroup) -> list[float]:
    return [sum(w * x for w, x in zip(g.w, row, strict=True)) for row in z(g, 1, 1e-4)]


def rvpo(g: PlainGroup) -> list[float]:
    total = sum(g.w[k] for k in g.asked)
    out = []
    for row in z(g, 1, 1e-4):
        out.append(-math.log(sum(g.w[k] / total * math.exp(-row[k]) for k in g.asked)) if total else 0.0)
    return out


def dvao(g: PlainGroup) -> list[float]:
    total = sum(g.w[k] for k in g.asked)
    spread = {k: moments(column(g, k), 0) for k in g.asked}
    told = {k: g.w[k] / total * spread[k][1] for k in g.asked}
    if sum(told.values()) <= 1e-4:
        return [0.0] * len(g.s)
    out = []
    for row in g.s:
        parts = [
            told[k] / sum(told.values()) * (row[k] - spread[k][0]) / (spread[k][1] + 1e-4)
            for k in g.asked
            if row[k] is not None
        ]
        out.append(sum(parts))
    return out


def focal_weights(g: PlainGroup, temperature: float, gamma: float, eps: float) -> list[float]:
    total = sum(g.w[k] for k in g.asked)
    d = weighted_mean(g)
    f = [0.0] * len(g.w)
    for k in g.asked:
        odds = {i: math.exp(d[i] / temperature) for i, row in enumerate(g.s) if row[k] is not None}
        pace = sum(odds[i] * g.s[i][k] for i in odds) / sum(odds.values())
        f[k] = g.w[k] / total * (1.0 - min(max(pace, 0.0), 1.0) + eps) ** gamma
    return [x / sum(f) for x in f] if sum(f) else [g.w[k] / total if k in g.asked else 0.0 for k in range(len(g.w))]


def focal(g: PlainGroup) -> list[float]:
    f = focal_weights(g, 1.0, 3.0, 0.05) if g.asked else g.w
    return neutral([mean_of(row, f) for row in g.s], 0.5)


def rar_explicit(g: PlainGroup) -> list[float]:
    words = {"Essential": 1.0, "Important": 0.7, "Optional": 0.3, "Pitfall": 0.9}
    w = [words.get(c.category, weight) for c, weight in zip(g.criteria, g.w, strict=True)]
    return neutral([mean_of(row, w) for row in g.s], 0.5)


def points(g: PlainGroup) -> list[float]:
    return [weight if c.points is None else c.points for c, weight in zip(g.criteria, g.w, strict=True)]


def presence(g: PlainGroup) -> list[list[float | None]]:
    return [[x if x is None or p > 0 else 1 - x for x, p in zip(row, points(g), strict=True)] for row in g.s]


def share(credit: list[list[float]], g: PlainGroup, clip: bool = False) -> list[float]:
    p, out = points(g), []
    for row, scores in zip(credit, g.s, strict=True):
        seen = [k for k in range(len(p)) if scores[k] is not None]
        reachable = sum(max(p[k], 0.0) for k in seen)
        won = sum(p[k] * row[k] for k in seen)
        value = won / reachable if reachable else 0.0
        out.append((min(max(value, 0.0), 1.0) if clip else value) if seen else None)
    return neutral(out, 0.5 if clip else 0.0)


def healthbench(g: PlainGroup) -> list[float]:
    return share(presence(g), g, clip=True)


def gear(g: PlainGroup) -> list[float]:
    leak = {"weak": 0.6, "strong": 0.2, "trigger": 0.0}
    number = {c.name: k for k, c in enumerate(g.criteria)}

    def credit(row: list[float | None], k: int) -> float:
        q = 1.0 if row[k] is None else row[k]
        for on, kind in g.criteria[k].depends:
            above = credit(row, number[on])
            q *= above + (1.0 - above) * leak[kind]
        return q

    return share([[credit(row, k) for k in range(len(g.w))] for row in presence(g)], g)


def all_or_nothing(g: PlainGroup) -> list[float]:
    seen = [[x for x in row if x is not None] for row in g.s]
    return neutral([(1.0 if min(row) >= 1.0 else 0.0) if row else None for row in seen], 0.5)


def worst_case(g: PlainGroup) -> list[float]:
    seen = [[x for x in row if x is not None] for row in g.s]
    return neutral([min(row) if row else None for row in seen], 0.5)


def mean_variance(g: PlainGroup) -> list[float]:
    out = []
    for row in g.s:
        mean = mean_of(row, g.w)
        out.append(None if mean is None else mean - mean_of([None if x is None else (x - mean) ** 2 for x in row], g.w))
    return neutral(out, 0.5)


def geometric(g: PlainGroup) -> list[float]:
    logs = [mean_of([None if x is None else math.log(x + 1e-3) for x in row], g.w) for row in g.s]
    return neutral([None if x is None else math.exp(x) for x in logs], 0.5)


def log_sigmoid(g: PlainGroup) -> list[float]:
    total = sum(g.w[k] for k in g.asked)
    logs = [
        mean_of([None if x is None else -math.log(1.0 + math.exp(-(x - 0.5) / 0.1)) for x in row], g.w) for row in g.s
    ]
    return [total * x for x in neutral(logs, 0.0)]


def places(values: list[float]) -> list[int]:
    """Dense ranks, 1 = best; close values share one."""
    levels: list[float] = []
    for v in sorted(values, reverse=True):
        if not levels or levels[-1] - v > 1e-9:
            levels.append(v)
    return [next(r for r, level in enumerate(levels, 1) if abs(level - v) <= 1e-9) for v in values]


def rlrr(g: PlainGroup) -> list[float]:
    ranks = places(weighted_mean(g))
    return [(max(ranks) - r) / (max(ranks) - 1) if max(ranks) > 1 else 0.0 for r in ranks]


def lexicographic(g: PlainGroup) -> list[float]:
    tiers = sorted({math.inf if c.tier is None else c.tier for c in g.criteria})
    keys: list[tuple[int, ...]] = [()] * len(g.s)
    for tier in tiers:
        w = [
            weight if (math.inf if c.tier is None else c.tier) == tier else 0.0
            for c, weight in zip(g.criteria, g.w, strict=True)
        ]
        ranks = places(neutral([mean_of(row, w) for row in g.s], 0.5))
        keys = [(*key, rank) for key, rank in zip(keys, ranks, strict=True)]
    levels = sorted(set(keys))
    return [(len(levels) - 1 - levels.index(key)) / (len(levels) - 1) if len(levels) > 1 else 0.5 for key in keys]


def _balance(g: PlainGroup, i: int, k: int) -> int:
    mine, domain = g.s[i][k], g.criteria[k].domain
    margin = g.criteria[k].margin / (domain.high - domain.low)
    theirs = [x for x in (row[k] for row in g.s) if x is not None]
    if mine is None:
        return 0
    return sum(mine - x > margin for x in theirs) - sum(x - mine > margin for x in theirs)


def borda(g: PlainGroup) -> list[float]:
    """Σ w (wins + ½ ties), ½ for a pair that cannot be compared."""
    return [sum(g.w[k] * 0.5 * (len(g.s) - 1 + _balance(g, i, k)) for k in g.asked) for i in range(len(g.s))]


def copeland(g: PlainGroup) -> list[float]:
    return [sum(g.w[k] * ((_balance(g, i, k) > 0) - (_balance(g, i, k) < 0)) for k in g.asked) for i in range(len(g.s))]


def rule_fusion(g: PlainGroup) -> list[float]:
    return weighted_mean(g)  # without gates


PLAIN: dict[str, Callable[[PlainGroup], list[float]]] = {
    "weighted-mean": weighted_mean,
    "z-score": z_score,
    "rule-fusion": rule_fusion,
    "rar-explicit": rar_explicit,
    "healthbench": healthbench,
    "all-or-nothing": all_or_nothing,
    "gdpo:batch_norm=false": gdpo_pre_norm,
    "gear": gear,
    "focal": focal,
    "dvao": dvao,
    "rlrr": rlrr,
    "rvpo": rvpo,
    "worst-case": worst_case,
    "mean-variance": mean_variance,
    "geometric": geometric,
    "log-sigmoid": log_sigmoid,
    "lexicographic": lexicographic,
    "borda": borda,
    "copeland": copeland,
}
