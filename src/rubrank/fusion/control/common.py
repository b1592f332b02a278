"""Measurements of every rollout of a training step: words of its reasoning and answer, and Markdown of its answer.

    rows = common_rows(rollouts)            (rollouts, 13)
    words, markdown = rows[:, :2], rows[:, 2:]

Worker processes call `worker_rows` for the rollouts that they grade. It adds four columns: the start and end of the
reasoning in the response, and the start and end of the answer. The main process then need not search for tags again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rubrank.fusion.control.markdown import MARKERS, markdown_density
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words

WORKER_ROWS = f"{__name__}:worker_rows"
"""Where a worker process finds the function: module and name."""
WORDS = 2
"""The first columns: words of the reasoning, and of the answer."""
COMMON = WORDS + len(MARKERS)
"""The number of columns of `common_rows`; the positions of `worker_rows` follow."""


def common_rows(rollouts: Sequence[Rollout]) -> np.ndarray:
    """A row for each rollout."""
    rows = np.empty((len(rollouts), COMMON))
    for row, rollout in zip(rows, rollouts, strict=True):
        row[:WORDS] = count_words(rollout.thoughts), count_words(rollout.answer)
    rows[:, WORDS:] = markdown_density([rollout.answer for rollout in rollouts])
    return rows


def worker_rows(rollouts: Sequence[Rollout]) -> np.ndarray:
    """`common_rows` with positions; NaN if a part is not one piece of the response (a separate field, say)."""
    positions = np.full((len(rollouts), 4), np.nan)
    for row, rollout in zip(positions, rollouts, strict=True):
        reasoning_start = rollout.response.find(rollout.thoughts)
        answer_start = rollout.response.rfind(rollout.answer)
        if reasoning_start >= 0 and answer_start >= 0:
            reasoning_end = reasoning_start + len(rollout.thoughts)
            row[:] = (
                reasoning_start,
                reasoning_end,
                answer_start,
                answer_start + len(rollout.answer),
            )
    return np.hstack([common_rows(rollouts), positions])


def set_part_positions(rollouts: Sequence[Rollout], positions: np.ndarray) -> None:
    """Set where each rollout's reasoning and answer are in its response; NaN leaves a rollout as it is."""
    for i in np.flatnonzero(~np.isnan(positions[:, 0])).tolist():
        reasoning_start, reasoning_end, answer_start, answer_end = map(int, positions[i])
        rollouts[i].keep_parts(
            slice(reasoning_start, reasoning_end), slice(answer_start, answer_end)
        )
