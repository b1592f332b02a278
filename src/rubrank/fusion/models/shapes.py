"""Utilities of orderings: find the shape of an ordering, and look up its utilities.

Without attributes, utilities depend on the ordering of the rollouts only, not on the scores themselves. Four rollouts
scored 3, 1, 3, 2 beat 2, 0, 2 and 1 others. In sorted order that is

    beaten      0  1  2  2          the *shape* of the ordering: rollout p (from the worst) beats the first beaten[p]

Each shape is solved once for a model and a prior, and remembered while the process lives:

- Groups of up to `INDEXED` rollouts without tie margins: all 2^(n−1) shapes are solved in advance. The set of distinct
  counts, here {0, 1, 2}, read as bits, is the row of a table. This is the case of nearly all training steps.
- Other groups are sorted, and their shapes are the keys of a dictionary.

              ┌─ at most 12 rollouts, no margin ─► count wins ─► bits 0111 ─► row 011 of the table for n = 4 ─┐
    scores ───┤                                                                                               ├─► u_MK
              └─ larger, or with a margin ───────► sort ───────► shape 0 1 2 2 ─► dictionary, or a new fit ───┘

A new fit has one unknown for each *class* of rollouts that beat, and are beaten by, the same ones. Above these are 1, 2
and {3, 3}. With margins ties are not transitive: scores 1, 2, 3 with margin 1 have the shape 0 0 1 and three classes,
of which the middle one ties with both others.

Letters: M rollouts of N groups, K criteria; group g is rows starts[g] .. starts[g + 1] of scores_MK. C columns of
scores (a group on a criterion), S shapes, n rollouts in sorted order, p those with a score, l classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rubrank._jit import jit
from rubrank.errors import InvalidInput
from rubrank.fusion.models.model import UtilityModel
from rubrank.scores.outcomes import ROUNDING

INDEXED = 12  # largest group whose shapes are all solved in advance: 2,048 of them
NO_SIGNAL = 1e-9  # a spread below this share of the largest contribution is rounding, not a ranking

_MOST_TABLES = 16  # pairs of a model and a prior whose tables are remembered
_MOST_VALUES = 1 << 23  # utilities remembered in one dictionary (64 MB); then it is emptied
_SCORES_AT_ONCE = 1 << 17  # sorted together
_PAIRS_AT_ONCE = 1 << 20  # pairs of classes fitted together


@jit
def look_up(scores_MK: Any, starts: Any, groups: Any, table: Any, base: Any, u_MK: Any) -> None:
    """Fill in the utilities of groups of at most INDEXED rollouts, without margins.

    table[base[n] + (shape >> 1) * n + beaten] is the utility of a rollout that beats `beaten` of n − 1 others. Bit b of
    `shape` says that some rollout beats exactly b others. Bit 0 is always set, and therefore shifted out.
    """
    K = scores_MK.shape[1]
    beaten = np.empty((INDEXED, K), np.int64)
    for g in groups:
        first = starts[g]
        n = starts[g + 1] - first
        beaten[:n] = 0
        # Criteria are the innermost loop: it runs over neighbours in memory, and the compiler vectorises it.
        for i in range(1, n):
            for j in range(i):
                for k in range(K):
                    x = scores_MK[first + i, k]
                    y = scores_MK[first + j, k]
                    beaten[i, k] += x > y
                    beaten[j, k] += x < y
        for k in range(K):
            shape = 0
            present = 0
            for i in range(n):
                if scores_MK[first + i, k] == scores_MK[first + i, k]:  # not NaN
                    present += 1
                    shape |= 1 << beaten[i, k]
            row = base[present] + (shape >> 1) * present
            for i in range(n):
                x = scores_MK[first + i, k]
                u_MK[first + i, k] = table[row + beaten[i, k]] if x == x else 0.0


@jit
def count_beaten(sorted_Cn: Any, margin_C: Any, beaten_Cn: Any) -> None:
    """Count how many others each rollout beats, in columns of ascending scores with NaN at the end; −1 for NaN."""
    n = sorted_Cn.shape[1]
    for c in range(sorted_Cn.shape[0]):
        margin = margin_C[c]
        wins = 0  # never falls: who beats a rollout beats everything below it
        for p in range(n):
            x = sorted_Cn[c, p]
            if x != x:
                beaten_Cn[c, p] = -1
                continue
            while wins < p:
                y = sorted_Cn[c, wins]
                reach = margin + ROUNDING * max(abs(x), abs(y)) if margin > 0.0 else 0.0
                if not x - y > reach:
                    break
                wins += 1
            beaten_Cn[c, p] = wins


@jit
def combine(u_MK: Any, starts: Any, weights: Any, fused_M: Any, ranking_M: Any) -> None:
    """Fill in fused = Σ w u, and ranking = fused stretched to [0, 1] in each group.

    The ranking is 0.5 for all if only rounding separates the rollouts. `weights` has one row, or one for each group.
    """
    K = u_MK.shape[1]
    for g in range(starts.shape[0] - 1):
        weight_K = weights[g if weights.shape[0] > 1 else 0]
        low = np.inf
        high = -np.inf
        largest = 0.0
        for i in range(starts[g], starts[g + 1]):
            total = 0.0
            for k in range(K):
                part = weight_K[k] * u_MK[i, k]
                total += part
                largest = max(largest, abs(part))
            fused_M[i] = total
            low = min(low, total)
            high = max(high, total)
        spread = high - low
        has_signal = spread > 0.0 and spread > NO_SIGNAL * largest
        for i in range(starts[g], starts[g + 1]):
            ranking_M[i] = (fused_M[i] - low) / spread if has_signal else 0.5


class ShapeTable:
    """The solved shapes of one model under one prior. Threads may share it: entries are only ever added."""

    def __init__(self, model: UtilityModel, prior: float) -> None:
        self.model = model
        self.prior = prior
        self._indexed: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """Size of the largest group → `table` and `base` of `look_up`."""
        self._sorted: dict[bytes, np.ndarray] = {}
        """Shape → utilities in sorted order."""
        self._values = 0
        """Utilities held in `_sorted`."""

    def find_utilities(
        self, scores_MK: np.ndarray, starts: np.ndarray, margins: np.ndarray
    ) -> np.ndarray:
        """Return the utilities (M, K) of finite scores; 0 where a score is missing. margins: (1, K) or (N, K)."""
        u_MK = np.empty(scores_MK.shape)
        sizes = np.diff(starts)
        # How a group is solved must not depend on the other groups: rewards would differ in the last bit.
        must_sort = (sizes > INDEXED) | margins.any(1)
        indexed_groups = np.flatnonzero(~must_sort)
        if len(indexed_groups):
            largest = int(sizes[indexed_groups].max())
            if largest not in self._indexed:
                self._indexed[largest] = self._solve_all_shapes(largest)
            look_up(scores_MK, starts, indexed_groups, *self._indexed[largest], u_MK)
        if len(indexed_groups) < len(sizes):
            self._solve_sorted_groups(scores_MK, starts, margins, np.flatnonzero(must_sort), u_MK)
        return u_MK

    # ------------------------------------------------------------------------------------------------ indexed shapes

    def _solve_all_shapes(self, largest: int) -> tuple[np.ndarray, np.ndarray]:
        """Return `table` and `base` of `look_up`: all shapes of up to `largest` rollouts, and where each size begins.

        All sizes are needed, because a missing score makes a group smaller.
        """
        base = np.zeros(largest + 1, np.int64)
        parts = [np.zeros(1)]  # a criterion without any score reads this entry
        for n in range(1, largest + 1):
            base[n] = base[n - 1] + parts[-1].size
            # Bit p − 1 of a shape says that a new level starts at position p.
            bits = (np.arange(1 << (n - 1))[:, None] >> np.arange(n - 1)) & 1
            # The class of each position: 0 0 1 2 2 for a shape in which levels start at positions 2 and 3 of five.
            level_Sn = np.concatenate([np.zeros((len(bits), 1), np.int64), bits.cumsum(1)], axis=1)
            size_Sl = (level_Sn[:, :, None] == np.arange(n)).sum(1)
            sign_ll = np.sign(np.arange(n)[:, None] - np.arange(n))
            u_Sl = self._fit_classes(size_Sl, np.broadcast_to(sign_ll, (len(bits), n, n)))
            parts.append(np.take_along_axis(u_Sl, level_Sn, axis=1).ravel())
        return np.concatenate(parts), base

    # ------------------------------------------------------------------------------------------------- sorted shapes

    def _solve_sorted_groups(
        self,
        scores_MK: np.ndarray,
        starts: np.ndarray,
        margins: np.ndarray,
        groups: np.ndarray,
        u_MK: np.ndarray,
    ) -> None:
        """Fill in the utilities of some groups of any size, with margins; those of one size are sorted together."""
        K = scores_MK.shape[1]
        margins_NK = np.broadcast_to(margins, (len(starts) - 1, K))
        sizes = np.diff(starts)[groups]
        for n in np.unique(sizes).tolist():
            same_size = groups[sizes == n]
            # Some groups at a time: the arrays below would take several times the memory of all scores.
            step = max(1, _SCORES_AT_ONCE // max(1, n * K))
            for begin in range(0, len(same_size), step):
                chunk = same_size[begin : begin + step]
                rows_Bn = starts[chunk][:, None] + np.arange(n)
                columns_Cn = scores_MK[rows_Bn].transpose(0, 2, 1).reshape(-1, n)
                order_Cn = columns_Cn.argsort(axis=1)  # NaN comes last
                sorted_Cn = np.take_along_axis(columns_Cn, order_Cn, axis=1)
                beaten_Cn = np.empty(columns_Cn.shape, np.int16)
                count_beaten(sorted_Cn, margins_NK[chunk].ravel(), beaten_Cn)
                u_Cn = np.empty(columns_Cn.shape)
                np.put_along_axis(u_Cn, order_Cn, self._solve_shapes(beaten_Cn), axis=1)
                u_MK[rows_Bn] = u_Cn.reshape(-1, K, n).transpose(0, 2, 1)

    def _solve_shapes(self, beaten_Cn: np.ndarray) -> np.ndarray:
        """Return the utilities (C, n) of shapes, in sorted order; those that are not in the dictionary are fitted."""
        n = beaten_Cn.shape[1]
        if self._values > _MOST_VALUES:
            # A new dictionary, because another thread may be reading the old one.
            self._sorted = {}
            self._values = 0
        solved = self._sorted
        shapes = [beaten_n.tobytes() for beaten_n in beaten_Cn]
        # New shapes with the same number of classes are fitted together.
        new_shapes: dict[int, dict[bytes, _Classes]] = {}
        for shape, beaten_n in zip(shapes, beaten_Cn, strict=True):
            if shape not in solved:
                classes = find_classes(beaten_n)
                new_shapes.setdefault(len(classes.size_l), {})[shape] = classes
        for count, classes_of in new_shapes.items():
            self._values += len(classes_of) * n
            step = max(1, _PAIRS_AT_ONCE // max(1, count * count))
            for begin in range(0, len(classes_of), step):
                chunk = list(classes_of.items())[begin : begin + step]
                u_Sl = self._fit_classes(
                    np.stack([classes.size_l for _, classes in chunk]),
                    np.stack([classes.sign_ll for _, classes in chunk]),
                )
                for (shape, classes), u_l in zip(chunk, u_Sl, strict=True):
                    u_n = np.zeros(n)  # 0 for missing scores, which come last
                    u_n[: len(classes.level_p)] = u_l[classes.level_p]
                    solved[shape] = u_n
        return np.array([solved[shape] for shape in shapes])

    # ----------------------------------------------------------------------------------------------------- the model

    def _fit_classes(self, size_Sl: np.ndarray, sign_Sll: np.ndarray) -> np.ndarray:
        """Fit the utilities (S, l) of the classes of shapes, given their sizes (0 is padding) and who beats whom."""
        if not size_Sl.size:  # no rollout has a score
            return np.zeros(size_Sl.shape)
        if not getattr(self.model, "weighted", False):
            return np.array(
                [self._fit_singly(size, sign) for size, sign in zip(size_Sl, sign_Sll, strict=True)]
            )
        pairs = size_Sl[:, :, None] * size_Sl[:, None, :]
        ridge = self.prior * np.where(size_Sl > 0, size_Sl, 1)
        return self._fit(pairs * (0.5 + 0.5 * sign_Sll), ridge)

    def _fit_singly(self, size_l: np.ndarray, sign_ll: np.ndarray) -> np.ndarray:
        """Return the utilities of one shape for a model that is not `weighted`: it needs a row for each rollout."""
        level_n = np.repeat(np.arange(len(size_l)), size_l)
        u_n = self._fit(
            0.5 + 0.5 * sign_ll[np.ix_(level_n, level_n)], np.full(len(level_n), self.prior)
        )
        u_l = np.zeros(len(size_l))
        u_l[level_n[::-1]] = u_n[::-1]  # the utility of a class is that of its first rollout
        return u_l

    def _fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Call the model and check what it returns, because users can register models."""
        diagonal = np.arange(wins.shape[-1])
        wins[..., diagonal, diagonal] = 0.0
        u = np.asarray(self.model.fit(wins, ridge))
        if u.shape != ridge.shape or not np.isfinite(u).all():
            raise InvalidInput(
                f"utility model {self.model.name!r}",
                "fit(wins, ridge)",
                allowed=f"finite numbers of shape {ridge.shape}",
                got=f"shape {u.shape}" if u.shape != ridge.shape else "NaN or infinity",
                remedy="Check the model's formula on wins of shape (..., n, n).",
            )
        return u


class _Classes(NamedTuple):
    """The classes of a shape: neighbours in sorted order that beat, and are beaten by, the same rollouts."""

    level_p: np.ndarray
    """The class of each scored rollout."""
    size_l: np.ndarray
    """Rollouts in each class."""
    sign_ll: np.ndarray
    """1 if the class of the row beats that of the column, −1 if it loses, 0 for a tie."""


def find_classes(beaten_n: np.ndarray) -> _Classes:
    """Return the classes of a shape."""
    beaten_p = beaten_n[beaten_n >= 0].astype(np.int64)  # without missing scores
    beaten_by_p = len(beaten_p) - np.searchsorted(beaten_p, np.arange(len(beaten_p)), side="right")
    is_new_p = np.ones(len(beaten_p), bool)
    is_new_p[1:] = (np.diff(beaten_p) != 0) | (np.diff(beaten_by_p) != 0)
    start_l = np.flatnonzero(is_new_p)
    wins_ll = (beaten_p[start_l][:, None] > start_l).astype(np.int64)
    size_l = np.diff(start_l, append=len(beaten_p))
    return _Classes(is_new_p.cumsum() - 1, size_l, wins_ll - wins_ll.T)


_tables: dict[tuple[int, float], ShapeTable] = {}
"""(id of the model, prior) → its table. A table holds its model, so no other model can get the same id."""


def find_shape_table(model: UtilityModel, prior: float) -> ShapeTable:
    """Return the table of a model under a prior; it is made on first use."""
    table = _tables.get((id(model), prior))
    if table is None:
        if len(_tables) >= _MOST_TABLES:
            _tables.clear()
        table = _tables[id(model), prior] = ShapeTable(model, prior)
    return table
