"""What is measured of every rollout of a step: words of its reasoning and its answer, and Markdown of its answer.

rows = common_rows(rollouts)            (rollouts, 13); worker processes call it for the rollouts that they grade
words, markdown = rows[:, :2], rows[:, 2:]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rubrank.fusion.attributes.markdown import MARKERS, markdown_density
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words

COMMON_ROWS = f"{__name__}:common_rows"
WORDS = 2
"""The first columns: words of the reasoning, and of the answer."""


def common_rows(rollouts: Sequence[Rollout]) -> np.ndarray:
    """A row for each; what was thought and what was said are told apart once, for all who ask."""
    rows = np.empty((len(rollouts), WORDS + len(MARKERS)))
    for row, rollout in zip(rows, rollouts, strict=True):
        row[:WORDS] = count_words(rollout.thoughts), count_words(rollout.answer)
    rows[:, WORDS:] = markdown_density([rollout.answer for rollout in rollouts])
    return rows
