"""What verifiers and judges said, counted by kind.

"212 words found, 80 to 120 asked" and "76 words found, 80 to 120 asked" are one kind: "# words found, # to # asked".
"""

from __future__ import annotations

import re
from collections import Counter

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MOST_KINDS = 2000
_SHOWN = 8
_LONGEST = 160


class Reasons:
    """Counts of kinds; beyond 2,000 different ones the rest is counted together."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.others = 0

    def add(self, reason: str) -> None:
        """Count one in; nothing said is not counted."""
        kind = _NUMBER.sub("#", reason.strip())[:_LONGEST]
        if not kind:
            return
        if kind in self.counts or len(self.counts) < _MOST_KINDS:
            self.counts[kind] += 1
        else:
            self.others += 1

    def most_common(self) -> list[tuple[str, int]]:
        """The most frequent kinds, and how many others there are."""
        shown = self.counts.most_common(_SHOWN)
        rest = sum(self.counts.values()) + self.others - sum(count for _, count in shown)
        return [*shown, ("others", rest)] if rest else shown
