"""The adjusted estimator once more, as slowly and plainly as it can be written: the oracle of `test_attribute_fit.py`.

All unknowns of a criterion go into one vector (utilities of every group, then γ), every pair into one row of a design
matrix, and Newton's method runs on the full system; nothing is eliminated, packed or looked up.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import special, stats


def contrast(a, b):
    return 0.0 if a + b == 0 else (a - b) / (a + b)


def batch_contrasts(attributes):
    """Groups of (n, D) → for each group {(i, j): z}, scaled over all pairs of all groups."""
    raw = [
        {
            (i, j): np.array([contrast(*pair) for pair in zip(a[i], a[j], strict=True)])
            for i, j in combinations(range(len(a)), 2)
        }
        for a in attributes
    ]
    every = np.array([z for group in raw for z in group.values()])
    rms = np.sqrt((every**2).mean(0))
    scale = np.divide(1.0, rms, out=np.zeros_like(rms), where=rms > 0)
    return [{pair: scale * z for pair, z in group.items()} for group in raw]


def outcomes_of(scores, margin=0.0):
    """Scores of a group → {(i, j): outcome}, pairs with a missing score left out."""
    found = {}
    for i, j in combinations(range(len(scores)), 2):
        d = scores[i] - scores[j]
        if d == d:
            found[i, j] = 1.0 if d > margin else 0.0 if -d > margin else 0.5
    return found


def slope_and_weight(link, e, o):
    """First and minus the second derivative of o log F(e) + (1 − o) log F(−e)."""
    if link == "bradley-terry":
        p = special.expit(e)
        return o - p, p * (1 - p)
    up = np.exp(stats.norm.logpdf(e) - special.log_ndtr(e))
    down = np.exp(stats.norm.logpdf(e) - special.log_ndtr(-e))
    return o * up - (1 - o) * down, o * up * (e + up) + (1 - o) * down * (down - e)


def newton(design, o, offset, ridge, link):
    """The maximum of the penalised likelihood."""
    x = np.zeros(design.shape[1])
    for _ in range(200):
        slope, weight = slope_and_weight(link, design @ x + offset, o)
        step = np.linalg.solve(design.T @ (weight[:, None] * design) + np.diag(ridge), design.T @ slope - ridge * x)
        x = x + min(1.0, 2.0 / max(np.abs(step).max(), 1e-300)) * step
        if np.abs(step).max() < 1e-13:
            return x
    raise AssertionError("the oracle did not converge")


def joint(outcomes, contrasts, sizes, alpha, beta, link):
    """γ̂, its error and n of one criterion; None where no group is told apart."""
    D = len(next(iter(z for group in contrasts for z in group.values())))
    groups = [g for g, found in enumerate(outcomes) if any(o != 0.5 for o in found.values())]
    if not groups:
        return None
    total = sum(sizes[g] for g in groups)
    rows, o, of = [], [], []
    at = 0
    for g in groups:
        for (i, j), outcome in outcomes[g].items():
            row = np.zeros(total + D)
            row[at + i], row[at + j], row[total:] = 1.0, -1.0, contrasts[g][i, j]
            rows.append(row)
            o.append(outcome)
            of.append(g)
        at += sizes[g]
    design, o, of = np.array(rows), np.array(o), np.array(of)
    ridge = np.r_[np.full(total, alpha), np.full(D, beta)]
    x = newton(design, o, 0.0, ridge, link)
    slope, weight = slope_and_weight(link, design @ x, o)
    full = design.T @ (weight[:, None] * design)
    X, Z = slice(0, total), slice(total, None)
    information = full[Z, Z] - full[Z, X] @ np.linalg.inv(full[X, X] + alpha * np.eye(total)) @ full[X, Z]
    n = len(groups)
    s = np.array([(slope[of == g, None] * design[of == g, Z]).sum(0) for g in groups])
    variance = n / (n - 1) * (s - s.mean(0)).T @ (s - s.mean(0)) if n > 1 else np.full((D, D), np.nan)
    inverse = np.linalg.inv(information + beta * np.eye(D))
    return x[Z], np.sqrt(np.diag(inverse @ variance @ inverse)), n, information, variance


def shrunk(gamma, se, n):
    if n < 8:
        return np.zeros_like(gamma)
    c = stats.t.ppf(0.975, n - 1)
    return np.array([g * max(0.0, 1.0 - (c * s / g) ** 2) if g else 0.0 for g, s in zip(gamma, se, strict=True)])


def refitted(outcomes, contrasts, size, delta, alpha, link):
    """v of one group."""
    if not any(o != 0.5 for o in outcomes.values()):
        return np.zeros(size)
    design = np.zeros((len(outcomes), size))
    for row, (i, j) in enumerate(outcomes):
        design[row, i], design[row, j] = 1.0, -1.0
    offset = np.array([delta @ contrasts[pair] for pair in outcomes])
    return newton(design, np.array(list(outcomes.values())), offset, np.full(size, alpha), link)
