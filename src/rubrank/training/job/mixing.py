"""In which order a run takes its prompts: laid out for all steps before the first one.

    >>> from rubrank.training.job.mixing import MixStage, lay_out
    >>> lay_out([MixStage(batches=2, sources=(0, 1), shares=(0.75, 0.25))], sizes=[4, 2], batch=4, seed=0).tolist()
    [4, 0, 2, 1, 3, 5, 3, 2]

Numbers below 4 are the first source's rows here, the others the second's. The trainer walks the list from its beginning
to its end, so stages need no sampler of their own, and a run that is resumed finds its place by counting.

Every batch has a source's share of it, rounded such that at every moment of a stage a source has had its share of the
prompts up to less than one for each source. A source is walked in a random order, all of it before any row comes again;
a source that is in two stages goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MixStage:
    """A stage: batches, and the shares of the sources (by number) in each."""

    batches: int
    sources: tuple[int, ...]
    shares: tuple[float, ...]


def lay_out(parts: Sequence[MixStage], sizes: Sequence[int], batch: int, seed: int) -> np.ndarray:
    """Numbers of rows, the sources one behind the other; `batch` of them for each batch."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    walks = [_walk(size, int(start), seed, n) for n, (size, start) in enumerate(zip(sizes, starts, strict=False))]
    shuffling = np.random.default_rng([seed, len(sizes)])
    found: list[int] = []
    for part in parts:
        turns = _turns(part.shares)
        for _ in range(part.batches):
            rows = [next(walks[part.sources[next(turns)]]) for _ in range(batch)]
            shuffling.shuffle(rows)
            found += rows
    return np.array(found, dtype=np.int64)


def _walk(size: int, start: int, seed: int, number: int) -> Iterator[int]:
    """The rows of a source in a random order, again and again."""
    draws = np.random.default_rng([seed, number])
    while True:
        yield from (start + int(row) for row in draws.permutation(size))


def _turns(shares: Sequence[float]) -> Iterator[int]:
    """Whose turn it is: always the one that lacks most."""
    share, had, turn = np.array(shares), np.zeros(len(shares)), 0
    while True:
        turn += 1
        chosen = int(np.argmax(share * turn - had))
        had[chosen] += 1
        yield chosen
