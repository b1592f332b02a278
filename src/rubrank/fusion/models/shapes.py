"""The memory of solved orderings.

Without attributes the utilities depend on the *shape* of the ordering only: with eight rollouts and no margin there are
128 shapes, whatever the scores are. Each shape is solved once for a model and a prior, and remembered for as long as
the process lives: small groups in a table indexed by the shape, all others in a hash table. Both are bounded.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.model import UtilityModel
from rubrank.fusion.models import kernels, keys, placing

_TABLES = 16  # (model, prior) pairs remembered; a sweep over priors forgets the oldest
_MOST_VALUES = 1 << 23  # utilities remembered of small groups (64 MB); then the table starts afresh
_MOST_CLASSES = 1 << 22  # classes remembered in one hash table (about 70 MB); then it starts afresh
_CELLS = 1 << 15  # scores sorted at a time: their keys stay in the second-level cache
_PAIRS = 1 << 20  # pairs of classes solved at a time


@dataclass
class ShapeTable:
    """Solved shapes of one model under one prior."""

    model: UtilityModel
    prior: float
    base: np.ndarray = field(default_factory=lambda: np.full(kernels.INDEXED + 1, -1, np.int32))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._clear_small()
        self._clear()

    def _clear_small(self) -> None:
        self.table = np.zeros(1)
        self.base[:] = -1
        self.base[0] = 0  # a criterion without scores reads this entry
        self.shapes, self.rows = np.zeros(1 << 12, np.uint64), np.zeros(1 << 12, np.uint32)
        self.remembered = 0
        self.wanted = np.zeros(1 << 12, np.uint64)

    def _clear(self) -> None:
        self.slots = np.full(1 << 12, -1, np.int64)
        self.entries = np.zeros((1 << 11, 3), np.int64)
        self.codes = np.zeros((1 << 14, 2), np.int32)
        self.values = np.full(1 << 14, np.nan)
        self.used = np.zeros(2, np.int64)  # entries, classes
        self.solved = 0

    def rank(
        self,
        largest: int,
        scores_MK: np.ndarray,
        starts: np.ndarray,
        margins: np.ndarray,
        weights: np.ndarray,
        results: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    ) -> tuple[int, bool]:
        """Utilities of all groups into `results` (utilities, fused, ranking, signal); a status of `kernels`, and
        whether everything is there: else only the utilities are.

        A group is looked up if it is small and has no margin, and sorted otherwise, whatever its neighbours are.
        """
        if not _any_number(margins):
            if largest <= kernels.SMALL:
                return self.rank_small(largest, scores_MK, starts, weights, *results), True
            sort_N = np.diff(starts) > kernels.SMALL
        else:
            sort_N = (np.diff(starts) > kernels.SMALL) | margins.any(1)
        everywhere = bool(sort_N.all())
        which = np.arange(len(sort_N)) if everywhere else sort_N.nonzero()[0]
        status = self.place(scores_MK, starts, margins, results[0], which)
        if status == kernels.OK and not everywhere:
            status = self._rank_some(scores_MK, starts, np.flatnonzero(~sort_N), results[0])
        return status, False

    def _rank_some(self, scores_MK: np.ndarray, starts: np.ndarray, which: np.ndarray, u_MK: np.ndarray) -> int:
        """Utilities of some groups by looking them up."""
        sizes = np.diff(starts)[which]
        some = np.concatenate([[0], sizes.cumsum()])
        rows = np.repeat(starts[which] - some[:-1], sizes) + np.arange(some[-1])
        part, ones = scores_MK[rows], np.ones((1, scores_MK.shape[1]))
        found = np.empty_like(part), np.empty(len(part)), np.empty(len(part)), np.empty(len(which), np.bool_)
        status = self.rank_small(int(sizes.max()), part, some, ones, *found)
        u_MK[rows] = found[0]
        return status

    # ------------------------------------------------------------------------------------------- small groups

    def rank_small(
        self, largest: int, scores_MK: np.ndarray, starts: np.ndarray, weights: np.ndarray, *results: np.ndarray
    ) -> int:
        """Groups of at most SMALL rollouts without margins; `results` and the status are those of the kernel."""
        if len(self.table) > _MOST_VALUES:
            self._clear_small()
        if self.base[min(largest, kernels.INDEXED)] < 0:
            self._prepare(min(largest, kernels.INDEXED))
        while True:
            self.wanted[0] = 0
            status = kernels.rank_small(
                scores_MK, starts, weights, self.table, self.base, self.shapes, self.rows, self.wanted, *results
            )
            if status != kernels.UNSOLVED:
                return status
            self._solve_wanted()

    def _prepare(self, largest: int) -> None:
        """Solve all shapes of 1 .. largest rollouts that are not solved yet."""
        for n in range(1, largest + 1):
            if self.base[n] < 0:
                bits = np.arange(1 << (n - 1), dtype=np.uint64)
                self.base[n] = self._append(n, bits)

    def _solve_wanted(self) -> None:
        """Solve the shapes that the kernel asked for, and enter them into its hash table."""
        keys = np.unique(self.wanted[1 : 1 + int(self.wanted[0])])
        if 2 * (self.remembered + len(keys)) > len(self.shapes):
            old, at = self.shapes[self.shapes != 0], self.rows[self.shapes != 0]
            size = 1 << int(4 * (self.remembered + len(keys))).bit_length()
            self.shapes, self.rows = np.zeros(size, np.uint64), np.zeros(size, np.uint32)
            kernels.remember(old, at, self.shapes, self.rows)
        sizes = (keys >> np.uint64(32)).astype(int)
        for n in np.unique(sizes):
            some = keys[sizes == n]
            first = self._append(int(n), (some & np.uint64(0xFFFFFFFF)) >> np.uint64(1))
            at = first + np.arange(len(some)) * (n + 1)
            kernels.remember(some, at.astype(np.uint32), self.shapes, self.rows)
        self.remembered += len(keys)

    def _append(self, n: int, shapes: np.ndarray) -> int:
        """Solve weak orders of n rollouts and append them to the table; returns where they start.

        Bit p − 1 of a shape says that a new level starts at position p.
        """
        bits = ((shapes[:, None] >> np.arange(n - 1, dtype=np.uint64)) & np.uint64(1)).astype(np.int64)
        level_Sn = np.concatenate([np.zeros((len(bits), 1), np.int64), bits.cumsum(1)], axis=1)
        size_Sl = (level_Sn[:, :, None] == np.arange(n)).sum(1)
        u_Sl = self._fit_levels(size_Sl, np.sign(np.arange(n)[:, None] - np.arange(n))[None])
        u_Sn = np.zeros((len(bits), n + 1))  # the last entry is for rollouts that were not compared
        u_Sn[:, :n] = np.take_along_axis(u_Sl, level_Sn, axis=1)
        first = len(self.table)
        self.table = np.concatenate([self.table, u_Sn.ravel()])
        return first

    def _fit_levels(self, size_Sl: np.ndarray, sign_Sll: np.ndarray) -> np.ndarray:
        """Fit classes of rollouts; size 0 pads, sign says who beats whom."""
        if not getattr(self.model, "weighted", False):
            signs = np.broadcast_to(sign_Sll, (len(size_Sl), *sign_Sll.shape[1:]))
            return np.array([self._fit_singly(size, sign) for size, sign in zip(size_Sl, signs, strict=True)])
        pairs = size_Sl[:, :, None] * size_Sl[:, None, :]
        ridge = self.prior * np.where(size_Sl > 0, size_Sl, 1)
        return self._fit(pairs * (0.5 + 0.5 * sign_Sll), ridge)

    def _fit_singly(self, size_l: np.ndarray, sign_ll: np.ndarray) -> np.ndarray:
        """Fit one ordering rollout by rollout, for a model that does not take classes."""
        level_n = np.repeat(np.arange(len(size_l)), size_l)
        u_n = self._fit(0.5 + 0.5 * sign_ll[np.ix_(level_n, level_n)], np.full(len(level_n), self.prior))
        u_l = np.zeros(len(size_l))
        u_l[level_n[::-1]] = u_n[::-1]  # the first of each class speaks for it
        return u_l

    def _fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        wins[..., np.arange(wins.shape[-1]), np.arange(wins.shape[-1])] = 0.0
        u = np.asarray(self.model.fit(wins, ridge))
        if u.shape != ridge.shape or not np.isfinite(u).all():
            raise InvalidInput(
                f"utility model {self.model.name!r}",
                "fit(wins, ridge)",
                f"finite numbers of shape {ridge.shape}",
                f"shape {u.shape}" if u.shape != ridge.shape else "NaN or infinity",
                "Check the model's formula on wins of shape (..., n, n).",
            )
        return u

    # --------------------------------------------------------------------------------------------- any groups

    def place(
        self, scores_MK: np.ndarray, starts: np.ndarray, margins: np.ndarray, u_MK: np.ndarray, which: np.ndarray
    ) -> int:
        """Fill in the utilities of these groups, of any size, with margins; returns a status of `kernels`."""
        if self.used[1] > _MOST_CLASSES:
            self._clear()
        sizes = np.diff(starts)[which]
        same = len(sizes) > 0 and sizes.min() == sizes.max()
        for n in sizes[:1] if same else np.unique(sizes):
            groups = which if same else which[sizes == n]
            step = max(1, _CELLS // max(1, int(n) * scores_MK.shape[1]))
            for first in range(0, len(groups), step):
                status = self._place_some(scores_MK, starts, groups[first : first + step], int(n), margins, u_MK)
                if status != kernels.OK:
                    return status
        return kernels.OK

    def _place_some(
        self,
        scores_MK: np.ndarray,
        starts: np.ndarray,
        groups: np.ndarray,
        n: int,
        margins: np.ndarray,
        u_MK: np.ndarray,
    ) -> int:
        rows, bits = len(groups) * scores_MK.shape[1], max(1, (n - 1).bit_length())
        pack, kind = (keys.pack, np.uint64) if n <= keys.LONG else (keys.pack_short, np.uint32)
        packed, present = np.empty((rows, n), kind), np.empty(rows, np.int64)
        if pack(scores_MK, starts, groups, bits, packed, present) != kernels.OK:
            return kernels.INFINITE
        packed.sort(axis=1)
        packed = packed.astype(np.uint64, copy=False)
        while True:
            before = self.solved
            status = placing.place(
                scores_MK,
                starts,
                groups,
                margins,
                bits,
                packed,
                present,
                self.slots,
                self.entries,
                self.used,
                self.codes,
                self.values,
                u_MK,
            )
            self._solve_new()
            if status == placing.FULL:
                self._grow()
            elif self.solved == before:
                return kernels.OK

    def _grow(self) -> None:
        """Double the table; entries keep their numbers."""
        entries, classes = len(self.entries) * 2, len(self.codes) * 2
        self.entries = _extended(self.entries, entries, 0)
        self.codes = _extended(self.codes, classes, 0)
        self.values = _extended(self.values, classes, np.nan)
        self.slots = np.full(2 * entries, -1, np.int64)
        placing.rehash(self.slots, self.entries, self.used[0], self.codes)

    def _solve_new(self) -> None:
        """Solve the shapes that `place` has added, those with about as many classes together."""
        if self.solved == self.used[0]:
            return
        new = np.arange(self.solved, self.used[0])
        counts = self.entries[new, 1]
        for ceiling in np.unique(_round_up(counts)):
            self._solve_entries(new[_round_up(counts) == ceiling], int(ceiling))
        self.solved = int(self.used[0])

    def _solve_entries(self, which: np.ndarray, width: int) -> None:
        step = max(1, _PAIRS // (width * width))
        for first in range(0, len(which), step):
            n, count, at = self.entries[which[first : first + step]].T
            real = np.arange(width) < count[:, None]
            code = self.codes[np.where(real, at[:, None] + np.arange(width), 0)]
            start, beaten = code[..., 0].astype(np.int64), code[..., 1].astype(np.int64)
            end = np.where(np.arange(width) + 1 < count[:, None], np.roll(start, -1, axis=1), n[:, None])
            wins = (beaten[:, :, None] > start[:, None, :]).astype(np.int64)
            u = self._fit_levels(np.where(real, end - start, 0), wins - wins.swapaxes(1, 2))
            self.values[(at[:, None] + np.arange(width))[real]] = u[real]


def _any_number(values: np.ndarray) -> bool:
    """Is there one that is not 0? Python is faster than NumPy for a dozen."""
    return any(values.ravel().tolist()) if values.size <= 50 else bool(values.any())


def _round_up(counts: np.ndarray) -> np.ndarray:
    """To the next power of two from 4 on, so that few batches are needed and little padding is solved."""
    return 1 << np.maximum(2, np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64))


def _extended(array: np.ndarray, length: int, fill: float) -> np.ndarray:
    longer = np.full((length, *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer


_tables: OrderedDict[tuple[int, float], ShapeTable] = OrderedDict()
_tables_lock = threading.Lock()


def shape_table(model: UtilityModel, prior: float) -> ShapeTable:
    """The table of a model under a prior, made when first asked for."""
    key = (id(model), prior)  # the table holds the model, so the id stays its own
    with _tables_lock:
        table = _tables.get(key)
        if table is None:
            table = _tables[key] = ShapeTable(model, prior)
            while len(_tables) > _TABLES:
                _tables.popitem(last=False)
        else:
            _tables.move_to_end(key)
        return table


def _after_fork() -> None:
    """A forked child starts with fresh tables: another thread of the parent may have held a lock just then."""
    global _tables_lock
    _tables_lock = threading.Lock()
    _tables.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
