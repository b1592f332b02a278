"""What fusion costs: the time of every rule for one training step, on identical rollouts.

    for row in overhead(rules=["weighted-mean", "gdpo", "rlvr2"]):
        print(row.case, row.seconds, row.ratio)          ratio: to the weighted mean of the same run

The step is the paper's: 128 groups × 8 rollouts. Timed is a rule from a batch of scores to rewards; grading is shared
by all rules and left out. The contenders take turns, round after round, and the fastest call of each counts: whatever
else the machine does can only add. Every call gets a batch that nothing was computed on yet, so that no rule lives on
what another has prepared; a rule that remembers starts from nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import find_rule, rule_names
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import BINARY, TERNARY, UNIT, Domain

BASE = "weighted-mean"
"""What the ratios are to."""
ROUNDS = 50
ATTRIBUTES = (1, 11)
"""How many attributes RLVR² is timed with, besides none."""

_CALLS = 5  # in a row: the first one of a turn pays for what its predecessor pushed out of the caches


@dataclass(frozen=True)
class Overhead:
    """The cost of one rule for one step."""

    case: str
    """The rule as it was asked for, and what it adjusts for."""
    seconds: float
    ratio: float
    """To the weighted mean."""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def overhead(
    batch: ScoreBatch | None = None,
    *,
    rules: Sequence[str] | None = None,
    attributes: Sequence[int] = ATTRIBUTES,
    rounds: int = ROUNDS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Overhead, ...]:
    """Seconds for each rule, all by default, and for RLVR² with attributes, a γ for each group and one for the batch.

    batch: one step; by default a synthetic one. Attributes are drawn for it: what they say does not change the cost.
    """
    if rounds < 1:
        raise InvalidInput("overhead", "rounds", "at least 1", str(rounds), "50 take a few seconds.")
    step = synthetic_step(seed=seed).batch() if batch is None else batch
    names = list(rule_names() if rules is None else rules)
    cases = {name: (find_rule(name), step) for name in dict.fromkeys([BASE, *names])}
    cases |= _adjusted_rules(step, attributes, seed) if rules is None or "rlvr2" in names else {}
    seconds = _best(list(cases.values()), rounds, progress)
    base = seconds[list(cases).index(BASE)]
    return tuple(Overhead(case, s, s / base) for case, s in zip(cases, seconds, strict=True))


def best_seconds(rule: str | Rule, batch: ScoreBatch, rounds: int) -> float:
    """The fastest call of one rule."""
    return _best([(find_rule(rule), batch)], rounds, None)[0]


def _adjusted_rules(step: ScoreBatch, numbers: Sequence[int], seed: int) -> dict[str, tuple[Rule, ScoreBatch]]:
    adjusted: dict[str, tuple[Rule, ScoreBatch]] = {}
    for D in numbers:
        drawn = np.random.default_rng([seed, D]).lognormal(6.0, 0.5, (len(step.scores_MK), D))
        names = tuple(f"attribute {d}" for d in range(D))
        batch = replace(step, attributes_MD=drawn, attribute_names=names)
        for pool in ("group", "batch"):
            noun = "attribute" if D == 1 else "attributes"
            adjusted[f"rlvr2, {D} {noun}, γ per {pool}"] = (find_rule("rlvr2", adjust="remove", pool=pool), batch)
    return adjusted


def _best(
    cases: Sequence[tuple[Rule, ScoreBatch]], rounds: int, progress: Callable[[int, int], None] | None
) -> list[float]:
    """The fastest call of each, after a warm-up that compiles and fills tables of solved shapes."""
    for rule, batch in cases:
        _time_rule(rule, batch)
    best = [float("inf")] * len(cases)
    for turn in range(rounds):
        for i, (rule, batch) in enumerate(cases):
            best[i] = min(best[i], *(_time_rule(rule, batch) for _ in range(_CALLS)))
        if progress is not None:
            progress(turn + 1, rounds)
    return best


def _time_rule(rule: Rule, batch: ScoreBatch) -> float:
    fresh = replace(batch)  # without what the last call computed and kept
    start = time.perf_counter()
    reward = apply_rule(rule, fresh).reward
    seconds = time.perf_counter() - start
    assert len(reward) == len(batch.scores_MK)
    return seconds


# ------------------------------------------------------------------------------------------------------ synthetic step


@only_our_errors
def synthetic_step(groups: int = 128, size: int = 8, seed: int = 0) -> ScoreTable:
    """Twelve criteria of mixed kinds, two gates: quality and noise, cut to yes and no, three levels, or left as it is.

    Some criteria depend on others (for GEAR), have categories, tiers and points, so that every rule has its work.
    """
    rng = np.random.default_rng(seed)
    criteria = (*_quality_criteria(), *_gates())
    quality = rng.normal(size=(groups, size, 1))
    seen = quality + rng.normal(size=(groups, size, 12))
    scores = np.concatenate([_on_scales(seen), (rng.random((groups, size, 2)) > 0.05).astype(float)], axis=2)
    reasons = (("",) * len(criteria),) * size
    return ScoreTable(tuple(GroupScores(f"query {g}", criteria, scores[g], reasons) for g in range(groups)))


def _quality_criteria() -> list[CriterionData]:
    kinds: tuple[tuple[str, Domain], ...] = (("Check", BINARY), ("Grade", TERNARY), ("Metric", UNIT))
    categories = ("essential", "important", "optional")
    return [
        CriterionData(
            f"{kind} {i + 1}",
            weight=1.0 + i % 3,
            domain=domain,
            category=categories[i % 3],
            tier=1 + i % 2,
            points=3.0 - i % 3,
            depends=((f"{kind} {i}", "strong" if i % 2 else "weak"),) if i in (1, 2) else (),
        )
        for kind, domain in kinds
        for i in range(4)
    ]


def _gates() -> list[CriterionData]:
    return [CriterionData("NotEmpty", layer="global_quality"), CriterionData("NoTemplate", layer="low_quality")]


def _on_scales(seen_NGK: np.ndarray) -> np.ndarray:
    scores = 1.0 / (1.0 + np.exp(-seen_NGK))
    scores[..., :4] = seen_NGK[..., :4] > 0.0
    scores[..., 4:8] = 0.5 * np.digitize(seen_NGK[..., 4:8], [-0.6, 0.6])
    return scores
