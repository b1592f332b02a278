"""Are rewards better if uncertain verdicts count less? Hard against soft outcomes, with simulated judges.

    python benchmarks/soft_outcomes.py          about a minute on one core; the tables of docs/judging_cost.md

Truth: every response has a quality, and on each criterion a level of 0 to 2 that follows it. A judge sees the quality
with noise (its standard deviation is the noise level, in units of the spread of quality), and knows how noisy it is:
its distribution over the levels is calibrated. "hard" fits the likeliest levels, "expected" the mean levels, "soft" the
distributions. A judge that is too sure of itself halves the noise that it believes in. The last columns are judges that
give a score and nothing else: "soft, σ" uses the retest deviation that `rubrank judge audit` measured on a second run.

The figure is the mean over groups of Spearman's correlation between reward and true quality; ± is its standard error.
"""

from __future__ import annotations

import math

import numpy as np

from rubrank import RLVR2, ScoreBatch, audit

SEED = 20261118
GROUPS = 300
ROLLOUTS = 8
CRITERIA = 3
CUTS = np.array([-0.5, 0.5])
LEVELS = np.array([0.0, 1.0, 2.0])
NOISES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def normal_cdf(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.vectorize(math.erf)(values / math.sqrt(2.0)))


def level_probabilities(seen: np.ndarray, noise: float) -> np.ndarray:
    """(…, 3): how likely each level is to a judge who saw this, and believes in this much noise."""
    if noise == 0.0:
        return np.eye(3)[np.digitize(seen, CUTS)]
    below = normal_cdf((CUTS - seen[..., None]) / noise)
    padded = np.concatenate([np.zeros((*seen.shape, 1)), below, np.ones((*seen.shape, 1))], axis=-1)
    return np.diff(padded, axis=-1)


def spearman(rewards: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """(N,): the rank correlation in each group; 0 if all rewards tie."""
    correlations = []
    for reward, truth in zip(rewards, quality, strict=True):
        ranks = [np.array([(x < y).sum() + 0.5 * (x == y).sum() for y in x]) for x in (reward, truth)]
        first, second = (rank - rank.mean() for rank in ranks)
        spread = math.sqrt(float((first**2).sum() * (second**2).sum()))
        correlations.append(float((first * second).sum()) / spread if spread else 0.0)
    return np.array(correlations)


def reward(scores: np.ndarray, probabilities: np.ndarray | None = None, retest: dict[str, float] | None = None):
    names = [f"criterion {k}" for k in range(CRITERIA)]
    distributions = None
    if probabilities is not None:
        flat = probabilities.reshape(-1, CRITERIA, len(LEVELS))
        by_rollout = {name: [dict(zip(LEVELS, p, strict=True)) for p in flat[:, k]] for k, name in enumerate(names)}
        distributions = {
            name: [rows[g * ROLLOUTS : (g + 1) * ROLLOUTS] for g in range(GROUPS)] for name, rows in by_rollout.items()
        }
    batch = ScoreBatch.of_arrays(scores, criteria=names, probabilities=distributions)
    is_soft = probabilities is not None or retest is not None
    return RLVR2(outcomes="soft" if is_soft else "hard", retest=retest or {})(batch).reward


def main() -> None:
    print("| noise | hard | expected | soft | soft, too sure | score: hard | score: soft, σ |")
    print("|---|---|---|---|---|---|---|")
    for noise in NOISES:
        rng = np.random.default_rng([SEED, round(noise * 10)])
        quality = rng.normal(size=(GROUPS, ROLLOUTS))
        aspects = quality[..., None] + 0.3 * rng.normal(size=(GROUPS, ROLLOUTS, CRITERIA))
        impressions = aspects + noise * rng.normal(size=aspects.shape)
        sure = level_probabilities(impressions, noise)
        too_sure = level_probabilities(impressions, noise / 2)
        hard = LEVELS[sure.argmax(-1)]
        score, again = (np.clip(aspects + noise * rng.normal(size=aspects.shape), -3.0, 3.0) for _ in range(2))
        names = [f"criterion {k}" for k in range(CRITERIA)]
        retest = audit([score, again], criteria=names, bootstrap=0).retest
        columns = [
            reward(hard),
            reward(sure @ LEVELS),
            reward(hard, sure),
            reward(LEVELS[too_sure.argmax(-1)], too_sure),
            reward(score),
            reward(score, retest=retest),
        ]
        cells = []
        for rewards in columns:
            correlations = spearman(rewards, quality)
            cells.append(f"{correlations.mean():.3f} ± {correlations.std() / math.sqrt(GROUPS):.3f}")
        print(f"| {noise:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
