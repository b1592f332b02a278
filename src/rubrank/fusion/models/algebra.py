"""Linear algebra on vectors of LANES numbers: eight small problems at a time.

    h (m(m+1)/2, LANES): eight symmetric matrices, packed row by row        x (m, LANES): eight vectors
    cholesky(h, m); forward(h, x, 0, m); backward(h, x, 0, m)               x is now h⁻¹x, in every lane

A "row" of a working array is one vector of LANES numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models.lanes import (
    LANES,
    fma,
    larger,
    load,
    magnitude,
    minus_product,
    root,
    splat,
    store,
)


@jit
def rows(count: int) -> Any:
    """A working array of vectors, each within one cache line: a vector across two lines takes twice as long to load."""
    flat = np.empty((count + 1) * LANES)
    skip = (-(flat.ctypes.data // 8)) % LANES
    return flat[skip : skip + count * LANES].reshape(count, LANES)


@jit
def products(d: int, pairs: int, z: Any, weighted: Any, h: Any, at: int) -> None:
    """h[at + e] = Σ_p weighted_p z_ep, e ≤ d; four sums at a time hide each other's latency, the last may repeat d."""
    for e in range(0, d + 1, 4):
        e1, e2, e3 = min(e + 1, d), min(e + 2, d), min(e + 3, d)
        s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for p in range(pairs):
            w = load(weighted, p)
            s0 = fma(w, load(z, e * pairs + p), s0)
            s1 = fma(w, load(z, e1 * pairs + p), s1)
            s2 = fma(w, load(z, e2 * pairs + p), s2)
            s3 = fma(w, load(z, e3 * pairs + p), s3)
        store(h, at + e, s0)
        store(h, at + e1, s1)
        store(h, at + e2, s2)
        store(h, at + e3, s3)


@jit
def cholesky(h: Any, m: int) -> None:
    """In place; the diagonal holds reciprocals, since only divisions by it follow.

    Column by column, four rows at a time: four independent sums hide each other's latency. Rows past the end repeat
    the last one.
    """
    one = splat(1.0)
    for j in range(m):
        column = j * (j + 1) // 2
        scale = one
        for i in range(j, m, 4):
            i1, i2, i3 = min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1)
            r0, r1, r2, r3 = i * (i + 1) // 2, i1 * (i1 + 1) // 2, i2 * (i2 + 1) // 2, i3 * (i3 + 1) // 2
            s0, s1, s2, s3 = load(h, r0 + j), load(h, r1 + j), load(h, r2 + j), load(h, r3 + j)
            for k in range(j):
                x = load(h, column + k)
                s0 = minus_product(s0, x, load(h, r0 + k))
                s1 = minus_product(s1, x, load(h, r1 + k))
                s2 = minus_product(s2, x, load(h, r2 + k))
                s3 = minus_product(s3, x, load(h, r3 + k))
            if i == j:
                scale = one / root(s0)
                s0 = one
            store(h, r0 + j, s0 * scale)
            if i1 > j:
                store(h, r1 + j, s1 * scale)
                store(h, r2 + j, s2 * scale)
                store(h, r3 + j, s3 * scale)


@jit
def forward(h: Any, x: Any, at: int, m: int) -> None:
    """x[at .. at + m] := L⁻¹ x."""
    for i in range(m):
        row = i * (i + 1) // 2
        total = load(x, at + i)
        for k in range(i):
            total = minus_product(total, load(h, row + k), load(x, at + k))
        store(x, at + i, total * load(h, row + i))


@jit
def backward(h: Any, x: Any, at: int, m: int) -> None:
    """x[at .. at + m] := L⁻ᵀ x."""
    for i in range(m - 1, -1, -1):
        total = load(x, at + i)
        for k in range(i + 1, m):
            total = minus_product(total, load(h, k * (k + 1) // 2 + i), load(x, at + k))
        store(x, at + i, total * load(h, i * (i + 1) // 2 + i))


@jit
def advance(x: Any, step: Any, at: int, count: int, active: Any) -> None:
    """x += active · step[at ..], row by row."""
    for i in range(count):
        store(x, i, fma(active, load(step, at + i), load(x, i)))


@jit
def largest_magnitude(step: Any, m: int) -> Any:
    """The largest magnitude in each lane; NaN if there is one."""
    largest, poison = splat(0.0), splat(0.0)
    for i in range(m):
        x = load(step, i)
        largest = larger(magnitude(x), largest)  # drops NaN, hence the poison
        poison = fma(x, splat(0.0), poison)
    return largest + poison
