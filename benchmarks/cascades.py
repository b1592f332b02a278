"""What is a better judge for the unsure answers worth? Rewards of cascades and of their rivals at equal cost.

    python benchmarks/cascades.py          about a minute on one core; the table of docs/judging_cost.md

Truth: as in benchmarks/soft_outcomes.py, on six criteria of two values. The cheap judge costs 1 an answer; its error
has a part that it repeats whenever it is asked (0.7) and a part that is new each time (0.4, in units of the spread of
quality). The better judge has an error of 0.2 and costs 20. Both know their errors: their probabilities are calibrated.
At each cost three ways to spend it: a cascade that escalates the least sure answers; as many answers chosen at random;
as many samples of the cheap judge as the money buys, averaged. Rewards come from hard and from soft outcomes. Verdicts:
share that agrees with the truth. Rewards: mean over groups of Spearman's correlation with true quality.
"""

from __future__ import annotations

import math

import numpy as np
from soft_outcomes import normal_cdf, spearman

from rubrank import RLVR2, ScoreBatch

SEED = 20261119
GROUPS = 300
ROLLOUTS = 8
CRITERIA = 6
REPEATED_ERROR = 0.7
NEW_ERROR = 0.4
BETTER_ERROR = 0.2
BETTER_COST = 20.0
SHARES = (0.05, 0.1, 0.15, 0.3, 0.5)
SPREAD = 1.0 + 0.3**2  # variance of what is judged


def pass_probability(seen: np.ndarray, variance: float) -> np.ndarray:
    """The probability that a response passes, to a judge who saw this and knows the variance of its error."""
    shrink = SPREAD / (SPREAD + variance)  # quality is normal: extreme impressions are partly errors
    return normal_cdf(shrink * seen / math.sqrt(variance * shrink))


def measure(probabilities: np.ndarray, quality: np.ndarray, truth: np.ndarray) -> list[str]:
    """Verdicts that agree with the truth, and the correlation of hard and of soft rewards with quality."""
    distributions = {
        k: [[{0.0: 1.0 - p, 1.0: p} for p in group[:, k]] for group in probabilities] for k in range(CRITERIA)
    }
    verdicts = probabilities > 0.5
    batch = ScoreBatch.of_arrays(verdicts.astype(float), probabilities=distributions)
    cells = [f"{(verdicts == truth).mean():.3f}"]
    for kind in ("hard", "soft"):
        correlations = spearman(RLVR2(outcomes=kind)(batch).reward, quality)
        cells.append(f"{correlations.mean():.3f}")
    return cells


def main() -> None:
    rng = np.random.default_rng(SEED)
    quality = rng.normal(size=(GROUPS, ROLLOUTS))
    aspects = quality[..., None] + 0.3 * rng.normal(size=(GROUPS, ROLLOUTS, CRITERIA))
    truth = aspects > 0.0
    repeated = aspects + REPEATED_ERROR * rng.normal(size=aspects.shape)
    impressions = repeated + NEW_ERROR * rng.normal(size=(12, *aspects.shape))
    cheap = pass_probability(impressions[0], REPEATED_ERROR**2 + NEW_ERROR**2)
    better = pass_probability(aspects + BETTER_ERROR * rng.normal(size=aspects.shape), BETTER_ERROR**2)
    margin = np.abs(2.0 * cheap - 1.0)
    print("| escalated | cost | who decides | verdicts | reward, hard | reward, soft |")
    print("|---|---|---|---|---|---|")
    print(f"| | 1 | cheap judge | {' | '.join(measure(cheap, quality, truth))} |")
    for share in SHARES:
        cost = 1.0 + share * BETTER_COST
        samples = round(cost)
        unsure = margin <= np.quantile(margin, share)
        at_random = rng.random(cheap.shape) < share
        averaged = pass_probability(impressions[:samples].mean(0), REPEATED_ERROR**2 + NEW_ERROR**2 / samples)
        rows = {
            "cascade": np.where(unsure, better, cheap),
            "escalated at random": np.where(at_random, better, cheap),
            f"{samples} samples of the cheap judge": averaged,
        }
        for name, probabilities in rows.items():
            figures = " | ".join(measure(probabilities, quality, truth))
            print(f"| {share:.0%} | {cost:.0f} | {name} | {figures} |", flush=True)
    print(f"| | 20 | better judge | {' | '.join(measure(better, quality, truth))} |")


if __name__ == "__main__":
    main()
