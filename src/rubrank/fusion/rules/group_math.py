"""The arithmetic of groups: sums, means, spreads, ranks and agreement, in which missing scores do not count.

    scores 1, 0, NaN, 1 of a group      mean ⅔ over three; centred ⅓, −⅔, 0, ⅓: a missing score counts as the mean
    values 0.9, 0.4, 0.9, 0.1           dense ranks 1, 2, 1, 3; as shares 1, 0.5, 1, 0

    scores 1, 0.5, 0.5, NaN             wins 2, 0, 0, 0; losses 0, 1, 1, 0: a missing score is not compared

No loop runs over rollouts or groups. Pairs are compared in as many steps as the largest group has rollouts, without
memory for all of them.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K criteria. Group g is rows starts[g] up
to, but not including, starts[g + 1].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import compute_tie_width


def sum_groups(values: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Sum over the rollouts of each group: (M, …) → (N, …)."""
    return np.asarray(np.add.reduceat(values, batch.starts[:-1], axis=0))


def expand_rows(values: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Repeat each group's value for each of its rollouts: (N, …) → (M, …); (1, …) is left to broadcasting."""
    return values.take(batch.group_of_row, axis=0) if len(values) > 1 else values


def sum_products(left_MK: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return Σ_k left · right of each row (M,), where right is (M, K) or (1, K)."""
    return left_MK @ right[0] if len(right) == 1 else np.einsum("mk,mk->m", left_MK, right)


def zero_missing(values_MK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Return the values, with 0 where a score is missing."""
    return values_MK if batch.complete else np.where(batch.missing_MK, 0.0, values_MK)


def mask_weights(batch: ScoreBatch, weights_NK: np.ndarray) -> np.ndarray:
    """Return the weights, with 0 for criteria without a score in the group.

    They are (N, K), or (1, K) if no score is missing and all groups have the same weights.
    """
    return weights_NK if batch.complete else weights_NK * batch.scored_NK


def normalise_weights(batch: ScoreBatch, weights_NK: np.ndarray) -> np.ndarray:
    """Scale the weights to add up to 1 over the criteria with a score in the group; all 0 if no criterion has one."""
    weights = mask_weights(batch, weights_NK)
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def average_scores(
    values_MK: np.ndarray, weights_NK: np.ndarray, batch: ScoreBatch, empty: float = 0.5
) -> np.ndarray:
    """Return Σ w v / Σ w (M,) over the criteria that a rollout has scores on.

    empty: the value of a group in which no rollout has a score; see `fill_unknown`.
    """
    weights = expand_rows(weights_NK, batch)
    if batch.complete:
        total_M = sum_products(values_MK, weights)
        weight = expand_rows(weights_NK.sum(axis=1), batch)
    else:
        total_M = sum_products(np.where(batch.missing_MK, 0.0, values_MK), weights)
        weight = sum_products((~batch.missing_MK).astype(float), weights)
    mean_M = np.divide(total_M, weight, out=np.full(len(total_M), np.nan), where=weight > 0.0)
    return fill_unknown(mean_M, batch, empty)


def fill_unknown(values_M: np.ndarray, batch: ScoreBatch, empty: float) -> np.ndarray:
    """Replace NaN (no score at all) by the mean of the rest of the group, or by `empty` if all of it is NaN."""
    is_unknown_M = np.isnan(values_M)
    if not is_unknown_M.any():
        return values_M
    count_N = sum_groups((~is_unknown_M).astype(float), batch)
    total_N = sum_groups(np.where(is_unknown_M, 0.0, values_M), batch)
    mean_N = np.divide(total_N, count_N, out=np.full(len(total_N), empty), where=count_N > 0.0)
    return np.where(is_unknown_M, expand_rows(mean_N, batch), values_M)


def subtract_mean(values_M: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Return the values minus the mean of their group."""
    mean_N = sum_groups(values_M, batch) / batch.sizes
    return np.asarray(values_M - expand_rows(mean_N, batch))


def centre(unit_MK: np.ndarray, batch: ScoreBatch, ddof: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores minus their group's mean (M, K), 0 where a score is missing, and their spread (N, K).

    The spread of fewer than two scores is 0.
    """
    count = batch.sizes[:, None].astype(float)
    if not batch.complete:
        count = sum_groups((~batch.missing_MK).astype(float), batch)
    mean = sum_groups(zero_missing(unit_MK, batch), batch) / np.maximum(count, 1.0)
    around = zero_missing(unit_MK - expand_rows(mean, batch), batch)
    variance = sum_groups(around * around, batch) / np.maximum(count - ddof, 1.0)
    return around, np.sqrt(variance)


def compute_z_scores(
    unit_MK: np.ndarray, batch: ScoreBatch, *, ddof: int, eps: float, floor: float
) -> np.ndarray:
    """Return (s − mean)/(std + eps) within the group (M, K).

    It is 0 for a missing score, and where the std is at most `floor`.
    """
    around, std = centre(unit_MK, batch, ddof)
    scale = np.divide(1.0, std + eps, out=np.zeros_like(std), where=std > floor)
    return around * expand_rows(scale, batch)


def rank_densely(values_M: np.ndarray, batch: ScoreBatch, tie: float) -> np.ndarray:
    """Rank the rollouts of each group: 1 for the best; neighbours that differ by at most `tie` share a rank."""
    order = np.lexsort((-values_M, batch.group_of_row))
    best_first = values_M[order]
    # The level rises by 1 wherever a value is clearly below the one before it, and runs on from group to group. The
    # first level of each group is then subtracted. Two groups, tie 0:
    #
    #     best_first      0.9  0.9  0.4  |  0.3  0.1
    #     level           0    0    1    |  2    3            from 0.4 to 0.3 it rises, too
    #     ranks           1    1    2    |  1    2
    #
    # Where the next group begins with a higher value the level stays, which makes no difference.
    level = np.zeros(len(values_M), np.int64)
    np.cumsum(best_first[:-1] - best_first[1:] > tie, out=level[1:])
    ranks = np.empty(len(values_M), np.int64)
    ranks[order] = level - expand_rows(level[batch.starts[:-1]], batch) + 1
    return ranks


def scale_ranks(ranks_M: np.ndarray, batch: ScoreBatch, single: float) -> np.ndarray:
    """Scale dense ranks to [0, 1]: 1 for the best, 0 for the worst; `single` if the whole group shares one rank."""
    worst_rank_M = expand_rows(np.maximum.reduceat(ranks_M, batch.starts[:-1]), batch)
    share_M = (worst_rank_M - ranks_M) / np.maximum(worst_rank_M - 1, 1)
    return np.where(worst_rank_M > 1, share_M, single)


def iterate_differences(batch: ScoreBatch) -> Iterator[np.ndarray]:
    """Yield (M, K) for each j: every rollout's score minus the one of the j-th rollout of its group.

    Scores are turned so that higher is better. A difference up to the criterion's margin is 0. NaN: not compared, as a
    score is missing or the group has no j-th rollout.
    """
    scores_MK = batch.oriented_MK
    margin = expand_rows(batch.margins_NK, batch) if batch.margins_NK.any() else None
    for j in range(batch.largest_group_size):
        others_NK = scores_MK[batch.starts[:-1] + np.minimum(j, batch.sizes - 1)]
        others_NK[batch.sizes <= j] = np.nan
        others_MK = expand_rows(others_NK, batch)
        difference_MK = scores_MK - others_MK
        if margin is not None:
            is_tie_MK = np.abs(difference_MK) <= compute_tie_width(scores_MK, others_MK, margin)
            difference_MK = np.where(is_tie_MK, 0.0, difference_MK)
        yield difference_MK


def count_wins_minus_losses(batch: ScoreBatch) -> np.ndarray:
    """Return wins minus losses (M, K) against the rest of the group.

    Differences up to a margin are ties, and observed outcomes replace scores, as in RLVR².
    """
    balance_MK = np.zeros_like(batch.oriented_MK)
    for difference_MK in iterate_differences(batch):
        balance_MK += difference_MK > 0.0  # NaN is neither above nor below
        balance_MK -= difference_MK < 0.0
    for (g, k), outcome_GG in batch.outcomes.items():
        balance_GG = np.where(np.isnan(outcome_GG), 0.0, 2.0 * outcome_GG - 1.0)
        np.fill_diagonal(balance_GG, 0.0)
        balance_MK[batch.starts[g] : batch.starts[g + 1], k] = balance_GG.sum(1)
    return balance_MK


# ------------------------------------------------------------------------------------- how much criteria agree


def measure_errors(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return √( K/(K−1) Σ_k (w_k v_ki − mean)² ), the standard error (M,) of the weighted sum of K criteria.

    parts_MK: the terms w_k v_ki of the sum, weight × value. Only criteria that tell rollouts of the group apart count;
    NaN with fewer than two.
    """
    informative_MK = np.repeat(find_informative(parts_MK, starts), np.diff(starts), axis=0)
    count_M = informative_MK.sum(1)  # K of the formula
    mean_M = np.where(informative_MK, parts_MK, 0.0).sum(1) / np.maximum(count_M, 1)
    square_M = np.where(informative_MK, (parts_MK - mean_M[:, None]) ** 2, 0.0).sum(1)
    scale_M = count_M / np.maximum(count_M - 1, 1)
    return np.where(count_M > 1, np.sqrt(scale_M * square_M), np.nan)


def measure_agreement(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return how much the criteria of each group agree (N,), from 0 to 1.

    parts_MK: as for `measure_errors`. For one group, x[i,k] = w_k v_ki is a table of G rollouts × K criteria. A two-way
    analysis of variance splits its spread into what rollouts have in common over all criteria, and a residual on which
    criteria differ:

        SS_rollouts = K Σ_i (mean of rollout i − mean of all)²
        SS_residual = Σ_ik (x[i,k] − fitted[i,k])²,  fitted[i,k] = mean of rollout i + mean of criterion k − mean of all
        MS_rollouts = SS_rollouts/(G − 1),           MS_residual = SS_residual/((G − 1)(K − 1))
        agreement   = max(0, 1 − MS_residual/MS_rollouts)

        two rollouts, two criteria:  x = (1, 1), (−1, −1)      SS_rollouts 4, SS_residual 0: agreement 1
                                     x = (1, −1), (−1, 1)      SS_rollouts 0, SS_residual 4: agreement 0
                                     x = (2, −1), (−2, 1)      SS_rollouts 1, SS_residual 9: max(0, 1 − 9) = 0
                                     x = (3, 1), (−3, −1)      SS_rollouts 16, SS_residual 4: 1 − 4/16 = 0.75

    Only criteria that tell rollouts of the group apart count; NaN with fewer than two of them, or one rollout. Real
    trade-offs between criteria count as disagreement too, so low agreement alone is not a reason to drop a group.
    """
    sizes_N = np.diff(starts)  # G of each group
    if not len(sizes_N):
        return np.zeros(0)
    first_N = starts[:-1]
    group_of_row = np.repeat(np.arange(len(sizes_N)), sizes_N)
    informative_NK = find_informative(parts_MK, starts)
    informative_MK = informative_NK[group_of_row]
    K_N = informative_NK.sum(1)

    # Means of the table. Criteria that do not count are 0, and do not change the sums.
    parts_MK = np.where(informative_MK, parts_MK, 0.0)
    rollout_mean_M = parts_MK.sum(1) / np.maximum(K_N, 1)[group_of_row]
    criterion_mean_NK = np.add.reduceat(parts_MK, first_N, axis=0) / sizes_N[:, None]
    mean_N = np.add.reduceat(rollout_mean_M, first_N) / sizes_N

    # The two sums of squares.
    rollouts_N = K_N * np.add.reduceat((rollout_mean_M - mean_N[group_of_row]) ** 2, first_N)
    fitted_MK = rollout_mean_M[:, None] + (criterion_mean_NK - mean_N[:, None])[group_of_row]
    squares_MK = np.where(informative_MK, (parts_MK - fitted_MK) ** 2, 0.0)
    residual_N = np.add.reduceat(squares_MK.sum(1), first_N)

    # MS_residual/MS_rollouts: G − 1 cancels. Infinite, so that the agreement is 0, if rollouts do not differ: a sum of
    # squares up to 1e-18, differences of 1e-9, is rounding.
    ratio_N = np.full(len(sizes_N), np.inf)
    degrees_N = np.maximum(K_N - 1, 1)
    np.divide(residual_N, degrees_N * rollouts_N, out=ratio_N, where=rollouts_N > 1e-18)
    return np.where((K_N > 1) & (sizes_N > 1), np.maximum(0.0, 1.0 - ratio_N), np.nan)


def find_informative(parts_MK: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return (N, K): does the criterion tell rollouts of the group apart? Its utilities are all 0 if it does not."""
    if len(starts) < 2:
        return np.zeros((0, parts_MK.shape[1]), bool)
    return np.logical_or.reduceat(parts_MK != 0.0, starts[:-1], axis=0)
