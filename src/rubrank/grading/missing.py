"""How many scores of a table are missing, and whether that is too many to continue.

    missing = count_missing(table)
    print(missing)          missing: 12 of 320 scores (3.8%): 8 × timeout after 120 s, 4 × needs a judge
    missing.check(0.2)      raises GradingFailed if more than a fifth is missing, or everything

Two kinds of empty cells do not count as missing: those of a rollout that a hard gate has stopped, because no judge was
asked, and those of responses that a judge compared, because a comparison gives no score.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rubrank._plain import shorten
from rubrank.errors import GradingFailed, InvalidInput
from rubrank.scores.table import ScoreTable

_MOST_LISTED_REASONS = 3


@dataclass(frozen=True)
class Missing:
    """How many scores were requested, how many are missing, and why."""

    asked: int
    """Scores that were requested."""
    missing: int
    reasons: Counter[str]
    """Reason, up to its first colon → how often it was given. If a verifier raised, the whole reason of its first
    failure, which names the exception and its place."""

    @property
    def share(self) -> float:
        """Missing scores ÷ requested scores."""
        return self.missing / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        if not self.missing:
            return f"missing: none of {self.asked:,} scores"
        why = ", ".join(
            f"{times:,} × {reason}"
            for reason, times in self.reasons.most_common(_MOST_LISTED_REASONS)
        )
        if len(self.reasons) > _MOST_LISTED_REASONS:
            why += f", and {len(self.reasons) - _MOST_LISTED_REASONS} other reasons"
        return f"missing: {self.missing:,} of {self.asked:,} scores ({self.share:.1%}): {why}"

    def check(self, most: float) -> None:
        """Raise GradingFailed if more than this share of the scores is missing, or if all are."""
        check_share(most)
        if self.missing and (self.missing == self.asked or self.share > most):
            raise GradingFailed(
                self.missing,
                self.asked,
                most,
                tuple(self.reasons.most_common(_MOST_LISTED_REASONS)),
            )


def check_share(most: float) -> None:
    """Raise InvalidInput if this is not a number from 0 to 1."""
    is_number = isinstance(most, int | float) and not isinstance(most, bool)
    if not is_number or math.isnan(most) or not 0.0 <= most <= 1.0:
        raise InvalidInput(
            "grade",
            "most_missing",
            allowed="a share from 0 to 1",
            got=repr(most),
            remedy="0.2 is a fifth.",
        )


def count_missing(table: ScoreTable) -> Missing:
    """Count the cells that should have a score, those that have none, and the reasons."""
    reasons: Counter[str] = Counter()
    first_failure: dict[str, str] = {}
    expected = 0
    for group in table.groups:
        expected += group.scores.size - int(group.not_asked.sum())
        for row, column in np.argwhere(group.missing):
            reason = group.reasons[row][column] if group.reasons else ""
            kind = shorten(reason.partition(":")[0], 80)
            if kind.endswith(" failed"):
                # Most rollouts fail in the same way, and the exception says what to repair.
                kind = first_failure.setdefault(kind, shorten(reason, 300))
            reasons[kind or "no reason given"] += 1
    return Missing(expected, reasons.total(), reasons)
