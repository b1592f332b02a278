"""Batches that hypothesis draws: groups and criteria of every kind, missing scores, rubrics of their own.

batches()      a ScoreBatch
plain(batch)   the same as lists, one PlainGroup a group
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from plain_rules import PlainGroup

from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import BINARY, TERNARY, UNIT, Domain

DOMAINS = (BINARY, TERNARY, UNIT, Domain("continuous", (), -2.0, 3.0), Domain("discrete", (1.0, 2.0, 5.0), 1.0, 5.0))
CATEGORIES = (None, "Essential", "Important", "Optional", "Pitfall", "Other")
KINDS = ("weak", "strong", "trigger")


def criterion(rng: np.random.Generator, k: int) -> CriterionData:
    """Its parents are among those before it, so that there is no cycle."""
    points = float(rng.choice([1.0, 2.0, 5.0]))
    negative = rng.random() < 0.25
    parents = [j for j in range(k) if rng.random() < 0.3]
    return CriterionData(
        f"c{k}",
        weight=float(rng.choice([0.5, 1.0, 2.0])),
        direction="lower" if negative or rng.random() < 0.2 else "higher",
        domain=DOMAINS[rng.integers(len(DOMAINS))],
        category=CATEGORIES[rng.integers(len(CATEGORIES))],
        tier=[None, 1, 2][rng.integers(3)],
        points=[None, -points if negative else points][int(negative or rng.random() < 0.5)],
        margin=float(rng.choice([0.0, 0.0, 0.05])),
        depends=tuple((f"c{j}", str(rng.choice(KINDS))) for j in parents),
    )


def column(rng: np.random.Generator, data: CriterionData, M: int) -> np.ndarray:
    if data.domain.values:
        return rng.choice(data.domain.values, M)
    return np.round(rng.uniform(data.domain.low, data.domain.high, M), int(rng.integers(1, 4)))


@st.composite
def batches(draw, max_groups: int = 5, missing: bool = True) -> ScoreBatch:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=max_groups))
    K = draw(st.integers(1, 5))
    data = [criterion(rng, k) for k in range(K)]
    scores = np.stack([column(rng, c, sum(sizes)) for c in data], axis=1)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if missing and draw(st.booleans()):
        scores[rng.random(scores.shape) < rng.choice([0.1, 0.4, 0.9])] = np.nan
        for g in range(len(sizes)):  # what the group does not ask
            scores[np.ix_(labels == g, rng.random(K) < 0.2)] = np.nan
    own = None
    weights = None
    if draw(st.booleans()):
        own = [tuple(replace(c, category=None, tier=1, points=None, depends=()) for c in data) for _ in sizes[1:]]
        own = [tuple(data), *own]
        weights = rng.choice([0.5, 1.0, 3.0], (len(sizes), K))
    return ScoreBatch.of_arrays(scores, groups=labels, criteria=data, weights=weights, group_rubrics=own)


def plain(batch: ScoreBatch) -> list[PlainGroup]:
    groups = []
    for g in range(batch.N):
        rows = batch.unit_MK[batch.starts[g] : batch.starts[g + 1]].tolist()
        weights = batch.weights_NK[g if len(batch.weights_NK) > 1 else 0].tolist()
        criteria = list(batch.criteria if batch.group_rubrics is None else batch.group_rubrics[g])
        groups.append(PlainGroup([[None if x != x else x for x in row] for row in rows], weights, criteria))
    return groups


def permuted(batch: ScoreBatch, order: np.ndarray) -> ScoreBatch:
    """The rollouts of each group in another order."""
    return replace(batch, scores_MK=np.ascontiguousarray(batch.scores_MK[order]))


def only(batch: ScoreBatch, g: int) -> ScoreBatch:
    """One group by itself."""
    rows = slice(batch.starts[g], batch.starts[g + 1])
    return replace(
        batch,
        scores_MK=batch.scores_MK[rows].copy(),
        starts=np.array([0, rows.stop - rows.start]),
        weights_NK=batch.weights_NK[g : g + 1] if len(batch.weights_NK) > 1 else batch.weights_NK,
        given_labels=batch.labels[g : g + 1],
        shape=None,
        group_rubrics=None if batch.group_rubrics is None else batch.group_rubrics[g : g + 1],
    )
