"""What judges said in one step, and what a file of scores keeps of it.

judgments.groups[0].verdicts[2, "CoreIntentMatch"]                     Verdict(1.0, "asks for a lake, gets one")
judgments.missing, judgments.reasons                                   0.02, {"out of time": 3}
    judgments.provenance                                                   for an audit: positions, replies, usage
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._plain import shortened
from rubrank.judges.judge import Judgment

if TYPE_CHECKING:
    from rubrank.judges.client.usage import Account

_SAMPLED = 4  # ids of replies that a file of scores keeps for every group


@dataclass(frozen=True)
class Provenance:
    """What a file of scores says about its judging, so that it can be audited later."""

    positions: Mapping[str, tuple[float, int]]
    """criterion → (wins of the response shown first, ties counted half; comparisons)"""
    replies: Mapping[str, tuple[str, ...]]
    """group → a sample of the ids of its replies: two runs that share some were answered by the same replies."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """Calls, cache hits, tokens, cost, failures by kind; what was asked, and what is missing."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        positions = {name: list(pair) for name, pair in self.positions.items()}
        replies = {id: " ".join(some) for id, some in self.replies.items()}
        return {"positions": positions, "replies": replies, "spent": dict(self.spent)}

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> Provenance:
        """From JSON."""
        positions = {str(name): (float(won), int(n)) for name, (won, n) in data["positions"].items()}
        replies = {str(id): tuple(some.split()) for id, some in data["replies"].items()}
        return cls(positions, replies, dict(data.get("spent", {})))


def _sample(replies: Sequence[str]) -> tuple[str, ...]:
    """The smallest of their digests: of two lists that have much in common, most likely some of the same."""
    return tuple(sorted({blake2b(id.encode(), digest_size=6).hexdigest() for id in replies})[:_SAMPLED])


@dataclass(frozen=True, eq=False)
class Judgments:
    """What all judges said in one step."""

    groups: tuple[Judgment, ...]
    """One for each group, in order."""
    account: Account
    """Calls, tokens, cost, cache hits, latency."""
    ids: tuple[str, ...] = ()
    """Of the groups."""

    @cached_property
    def asked(self) -> int:
        """Answers asked for: cells, pairs, lists; of a panel those of every member."""
        return sum(one.asked for one in self.groups)

    @cached_property
    def lost(self) -> int:
        """Of these, those without an answer."""
        return sum(one.lost for one in self.groups)

    @property
    def missing(self) -> float:
        """The share of the answers that is missing; 0 where nothing was asked."""
        return self.lost / self.asked if self.asked else 0.0

    @cached_property
    def reasons(self) -> Counter[str]:
        """Why answers are missing, up to the first colon, and how often; `lost` in all."""
        cells = [v.reason for one in self.groups for v in one.verdicts.values() if v.value is None]
        comparisons = [reason for one in self.groups for some in one.missing.values() for reason in some]
        return Counter(shortened(reason.partition(":")[0], 80) for reason in cells + comparisons)

    @property
    def provenance(self) -> Provenance:
        """For a file of scores."""
        counts = {name: (share * n, n) for name, (share, n) in self.first_win_rate.items()}
        sampled = zip(self.ids, (_sample(one.replies) for one in self.groups), strict=False)
        return Provenance(counts, {id: some for id, some in sampled if some}, self.spent)

    @property
    def spent(self) -> dict[str, Any]:
        """Usage of judging, in a few numbers that add up over batches."""
        sums = ("calls", "hits", "input_tokens", "output_tokens", "cost")
        found = {name: getattr(self.account, name) for name in sums} | {"failures": dict(self.account.failures)}
        return {**found, "asked": self.asked, "missing": self.lost}

    @cached_property
    def missing_throughout(self) -> dict[str, str]:
        """Criteria about which nothing at all was answered → the first reason."""
        seen: dict[str, str | None] = {}
        for one in self.groups:
            for (_, name), verdict in one.verdicts.items():
                seen[name] = None if verdict.value is not None else seen.get(name, verdict.reason)
            for name, won in one.outcomes.items():
                reasons = one.missing.get(name)
                compared = not np.isnan(won).all() or not reasons
                seen[name] = None if compared or not reasons else seen.get(name, reasons[0])
        return {name: reason for name, reason in seen.items() if reason is not None}

    @cached_property
    def disagreement(self) -> dict[str, float]:
        """criterion → mean over the groups of how much a panel, or the orders of a pair, disagree: 0 = never."""
        seen: dict[str, list[float]] = {}
        for one in self.groups:
            for name, apart in one.disagreement.items():
                seen.setdefault(name, []).append(apart)
        return {name: math.fsum(values) / len(values) for name, values in seen.items()}

    @cached_property
    def first_win_rate(self) -> dict[str, tuple[float, int]]:
        """criterion → (share of comparisons that the response shown first wins, comparisons): 0.5 = no bias."""
        total: dict[str, tuple[float, int]] = {}
        for one in self.groups:
            for name, (won, n) in one.first_wins.items():
                before = total.get(name, (0.0, 0))
                total[name] = (before[0] + won, before[1] + n)
        return {name: (won / n, n) for name, (won, n) in total.items()}
