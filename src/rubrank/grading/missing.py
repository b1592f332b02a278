"""What is missing in a score table, and whether that is too much to go on with.

    found = missing_of(table)
    print(found)            missing: 12 of 320 scores (3.8%): 8 × timeout after 120 s, 4 × needs a judge
    found.check(0.2)        raises GradingFailed if more than a fifth is missing, or everything

A rollout that a hard gate has stopped is not asked about, and responses that were compared need no score: neither is
missing.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rubrank._plain import shortened
from rubrank.errors import GradingFailed, InvalidInput
from rubrank.scores.table import GroupScores, ScoreTable

NOT_ASKED = "not asked"
"""How the reason of a cell begins that was not to be decided."""
_SHOWN = 3


@dataclass(frozen=True)
class Missing:
    """How many scores there should be, how many are not there, and why."""

    asked: int
    missing: int
    reasons: Counter[str]
    """Up to the first colon."""

    @property
    def share(self) -> float:
        """Of the scores asked for."""
        return self.missing / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        if not self.missing:
            return f"missing: none of {self.asked:,} scores"
        why = ", ".join(f"{times:,} × {reason}" for reason, times in self.reasons.most_common(_SHOWN))
        more = "" if len(self.reasons) <= _SHOWN else f", and {len(self.reasons) - _SHOWN} other reasons"
        return f"missing: {self.missing:,} of {self.asked:,} scores ({self.share:.1%}): {why}{more}"

    def check(self, most: float) -> None:
        """Raise if more than this share is missing; everything missing is always too much."""
        check_share(most)
        if self.missing and (self.missing == self.asked or self.share > most):
            raise GradingFailed(self.missing, self.asked, most, tuple(self.reasons.most_common(_SHOWN)))


def check_share(most: float) -> None:
    """Refuse what is no share."""
    number = isinstance(most, int | float) and not isinstance(most, bool)
    if not number or math.isnan(most) or not 0.0 <= most <= 1.0:
        raise InvalidInput("grade", "most_missing", "a share from 0 to 1", repr(most), "0.2 is a fifth.")


def missing_of(table: ScoreTable) -> Missing:
    """Count the cells that should have a score."""
    reasons: Counter[str] = Counter()
    asked = 0
    for group in table.groups:
        asked += group.scores.size - _not_asked(group)
        for i, k in np.argwhere(np.isnan(group.scores)):
            reason = group.reasons[i][k] if group.reasons else ""
            if not reason.startswith(NOT_ASKED) and not _compared(group, int(i), int(k)):
                reasons[shortened(reason.partition(":")[0], 80) or "no reason given"] += 1
    return Missing(asked, reasons.total(), reasons)


def _not_asked(group: GroupScores) -> int:
    """Cells without a score; what stands beside one may begin with these words too."""
    if not group.reasons:
        return 0
    return sum(group.reasons[i][k].startswith(NOT_ASKED) for i, k in np.argwhere(np.isnan(group.scores)))


def _compared(group: GroupScores, i: int, k: int) -> bool:
    outcomes = group.outcomes.get(group.names[k])
    return outcomes is not None and not np.isnan(np.delete(outcomes[i], i)).all()
