"""Measure what fusion costs: the time of every rule for one training step, on identical rollouts.

    for row in overhead(rules=["weighted-mean", "gdpo", "rlvr2"]):
        print(row.case, row.seconds, row.ratio)          ratio: to the weighted mean of the same run

The step is the paper's: 128 groups × 8 rollouts. A rule is timed from a batch of scores to rewards; grading is the same
for all rules and left out. The rules take turns, round after round, and the fastest call of each counts, because
other work of the machine can only add time. Every call gets a fresh batch, so that no rule profits from what
another one has computed and cached.
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
"""The rule that the others are compared with."""
ROUNDS = 50
"""Rounds by default; in each, every rule has its turn."""
ATTRIBUTES = (1, 11)
"""How many attributes RLVR² is timed with, besides none."""

# A rule is called several times per turn: at the first call, the processor's caches hold the data of another rule.
_CALLS_PER_TURN = 5


@dataclass(frozen=True)
class Overhead:
    """The cost of one rule for one step."""

    case: str
    """The rule as it was named, and what it adjusts for."""
    seconds: float
    ratio: float
    """Seconds divided by those of the weighted mean."""

    def as_dict(self) -> dict[str, Any]:
        """Return the values as plain data for JSON."""
        return asdict(self)


def overhead(
    batch: ScoreBatch | None = None,
    *,
    rules: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Overhead, ...]:
    """Time each rule (by default all), and RLVR² with attributes: with γ per group, and per batch.

    batch: one step; by default a synthetic one. Attributes are drawn at random: their values do not change the cost.
    """
    if rounds < 1:
        raise InvalidInput(
            "overhead",
            "rounds",
            allowed="at least 1",
            got=str(rounds),
            remedy="50 take a few seconds.",
        )
    step = synthetic_step().batch() if batch is None else batch
    names = list(rule_names() if rules is None else rules)
    cases = {name: (find_rule(name), step) for name in dict.fromkeys([BASE, *names])}
    if rules is None or "rlvr2" in names:
        for D in ATTRIBUTES:
            values = np.random.default_rng(D).lognormal(6.0, 0.5, (len(step.scores_MK), D))
            attribute_names = tuple(f"attribute {d}" for d in range(D))
            step_with_attributes = replace(
                step, attributes_MD=values, attribute_names=attribute_names
            )
            noun = "attribute" if D == 1 else "attributes"
            for pool in ("group", "batch"):
                rule = find_rule("rlvr2", adjust="remove", pool=pool)
                cases[f"rlvr2, {D} {noun}, γ per {pool}"] = (rule, step_with_attributes)
    seconds = dict(zip(cases, _time_cases(list(cases.values()), rounds, progress), strict=True))
    return tuple(Overhead(case, value, value / seconds[BASE]) for case, value in seconds.items())


def measure_best_seconds(rule: str | Rule, batch: ScoreBatch, rounds: int) -> float:
    """Return the seconds of the fastest call of one rule."""
    return _time_cases([(find_rule(rule), batch)], rounds, None)[0]


def _time_cases(
    cases: Sequence[tuple[Rule, ScoreBatch]],
    rounds: int,
    progress: Callable[[int, int], None] | None,
) -> list[float]:
    """Return the seconds of the fastest call of each case, after a first call that compiles code and fills tables."""
    for rule, batch in cases:
        _time_rule(rule, batch)
    best = [float("inf")] * len(cases)
    for number in range(1, rounds + 1):
        for i, (rule, batch) in enumerate(cases):
            best[i] = min(best[i], *(_time_rule(rule, batch) for _ in range(_CALLS_PER_TURN)))
        if progress is not None:
            progress(number, rounds)
    return best


def _time_rule(rule: Rule, batch: ScoreBatch) -> float:
    """Return the seconds of one call."""
    fresh = replace(batch)  # without what the last call cached
    start = time.perf_counter()
    reward = apply_rule(rule, fresh).reward
    seconds = time.perf_counter() - start
    assert len(reward) == len(batch.scores_MK)
    return seconds


# ------------------------------------------------------------------------------------------------------ synthetic step


@only_our_errors
def synthetic_step(groups: int = 128, size: int = 8, seed: int = 0) -> ScoreTable:
    """Return random scores on twelve criteria and two gates, as many as one training step has.

    Scores are quality plus noise: yes or no on four criteria, three levels on four, and any value from 0 to 1 on four.
    Criteria have categories, tiers and points, and some depend on others, so that every rule has something to compute.
    """
    kinds: tuple[tuple[str, Domain], ...] = (
        ("Check", BINARY),
        ("Grade", TERNARY),
        ("Metric", UNIT),
    )
    categories = ("essential", "important", "optional")
    criteria = []
    for kind, domain in kinds:
        for i in range(4):
            # The second criterion of a kind depends on the first, and the third on the second.
            depends: tuple[tuple[str, str], ...] = ()
            if i in (1, 2):
                depends = ((f"{kind} {i}", "strong" if i % 2 else "weak"),)
            criterion = CriterionData(
                f"{kind} {i + 1}",
                weight=1.0 + i % 3,
                domain=domain,
                category=categories[i % 3],
                tier=1 + i % 2,
                points=3.0 - i % 3,
                depends=depends,
            )
            criteria.append(criterion)
    criteria += [
        CriterionData("NotEmpty", layer="global_quality"),
        CriterionData("NoTemplate", layer="low_quality"),
    ]
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(groups, size, 1))
    noisy_quality = quality + rng.normal(size=(groups, size, 12))
    # In the order of `kinds`: columns 0–3 are yes or no, 4–7 have three levels, 8–11 stay as they are.
    scores = 1.0 / (1.0 + np.exp(-noisy_quality))
    scores[..., :4] = noisy_quality[..., :4] > 0.0
    scores[..., 4:8] = 0.5 * np.digitize(noisy_quality[..., 4:8], [-0.6, 0.6])
    gates = (rng.random((groups, size, 2)) > 0.05).astype(float)
    scores = np.concatenate([scores, gates], axis=2)
    reasons = (("",) * len(criteria),) * size
    return ScoreTable(
        tuple(GroupScores(f"query {g}", tuple(criteria), scores[g], reasons) for g in range(groups))
    )
