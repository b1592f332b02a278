"""What is measured of every rollout of a step: words of its reasoning and its answer, and Markdown of its answer.

rows = common_rows(rollouts)            (rollouts, 13); worker processes call it for the rollouts that they grade
words, markdown = rows[:, :2], rows[:, 2:]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rubrank.fusion.control.markdown import MARKERS, markdown_density
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words

WORKER_ROWS = f"{__name__}:worker_rows"
WORDS = 2
"""The first columns: words of the reasoning, and of the answer."""
COMMON = WORDS + len(MARKERS)
"""After so many columns of a worker: where the reasoning begins and ends, where the answer does; NaN: nowhere."""


def common_rows(rollouts: Sequence[Rollout]) -> np.ndarray:
    """A row for each; what was thought and what was said are told apart once, for all who ask."""
    rows = np.empty((len(rollouts), COMMON))
    for row, rollout in zip(rows, rollouts, strict=True):
        row[:WORDS] = count_words(rollout.thoughts), count_words(rollout.answer)
    rows[:, WORDS:] = markdown_density([rollout.answer for rollout in rollouts])
    return rows


def worker_rows(rollouts: Sequence[Rollout]) -> np.ndarray:
    """The same with places."""
    places = np.array([_places(rollout) for rollout in rollouts]).reshape(-1, 4)
    return np.hstack([common_rows(rollouts), places])


def _places(rollout: Rollout) -> tuple[float, float, float, float]:
    """Parts that were joined from several, or came in a field of their own, stand nowhere."""
    text, thoughts, answer = rollout.response, rollout.thoughts, rollout.answer
    begins, says = text.find(thoughts), text.rfind(answer)
    if begins < 0 or says < 0:
        return (float("nan"),) * 4
    return begins, begins + len(thoughts), says, says + len(answer)


def keep_places(rollouts: Sequence[Rollout], places: np.ndarray) -> None:
    """Spare who asks for the reasoning or the answer of these rollouts to look for tags."""
    for i in np.flatnonzero(~np.isnan(places[:, 0])).tolist():
        first, last, start, end = map(int, places[i])
        rollouts[i].keep_parts(slice(first, last), slice(start, end))
