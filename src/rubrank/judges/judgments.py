"""The judgments of one step, and what a file of scores keeps of them.

    judgments.groups[0].verdicts[2, "CoreIntentMatch"]             Verdict(1.0, "asks for a lake, gets one")
    judgments.missing, judgments.reasons                           0.02, {"timeout after 120 s": 3}
    judgments.provenance                                           for an audit: positions, replies, usage

`step.py` makes them.

Position bias is kept as (wins, comparisons), which can be added up, in `Judgment.first_wins` and as `positions` in a
file of scores. It is shown as (share, comparisons) by `first_win_rate`. The word `missing` means a share in
`Judgments`, the reasons by criterion in `Judgment`, and a count in `spent`, whose keys are those of the file.
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

from rubrank._plain import shorten
from rubrank.errors import counted
from rubrank.judges.judge import Judgment

if TYPE_CHECKING:
    from rubrank.judges.client.usage import Account

_REPLIES_PER_GROUP = 4  # ids that a file of scores keeps


@dataclass(frozen=True)
class Provenance:
    """What a file of scores records about its judging, so that it can be audited later."""

    positions: Mapping[str, tuple[float, int]]
    """criterion → (wins of the response shown first, ties counted half; comparisons)"""
    replies: Mapping[str, tuple[str, ...]]
    """group → a sample of the ids of its replies: two runs that share some were answered by the same replies."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """Calls, cache hits, tokens, cost, failures by kind; what was asked, and what is missing."""

    def as_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        positions = {name: list(pair) for name, pair in self.positions.items()}
        replies = {group: " ".join(ids) for group, ids in self.replies.items()}
        return {"positions": positions, "replies": replies, "spent": dict(self.spent)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Provenance:
        """Read the values from JSON."""
        positions = {
            str(name): (float(wins), int(n)) for name, (wins, n) in data["positions"].items()
        }
        replies = {str(group): tuple(ids.split()) for group, ids in data["replies"].items()}
        return cls(positions, replies, dict(data.get("spent", {})))

    @classmethod
    def merge(cls, provenances: Sequence[Provenance]) -> Provenance:
        """Merge the provenance of several runs: comparisons and usage are added up, replies are united."""
        positions: dict[str, tuple[float, int]] = {}
        replies: dict[str, tuple[str, ...]] = {}
        spent: dict[str, Any] = {}
        for provenance in provenances:
            for name, (wins, comparisons) in provenance.positions.items():
                total_wins, total = positions.get(name, (0.0, 0))
                positions[name] = (total_wins + wins, total + comparisons)
            for group, ids in provenance.replies.items():
                replies[group] = tuple(dict.fromkeys((*replies.get(group, ()), *ids)))
            for name, value in provenance.spent.items():
                if name not in spent:
                    spent[name] = value
                elif isinstance(value, Mapping):  # failures by kind
                    spent[name] = dict(Counter(spent[name]) + Counter(value))
                else:
                    spent[name] += value
        return cls(positions, replies, spent)


@dataclass(frozen=True, eq=False)
class Judgments:
    """What all judges said in one step."""

    groups: tuple[Judgment, ...]
    """One for each group, in order."""
    account: Account
    """Calls, tokens, cost, cache hits, latency."""
    ids: tuple[str, ...] = ()
    """The ids of the groups."""

    def __repr__(self) -> str:
        """Return a short summary: the verdicts themselves would fill pages."""
        missing = f"{self.lost:,} missing" if self.lost else "none missing"
        parts = [counted(self.asked, "answer"), missing, counted(self.account.calls, "call")]
        if self.account.hits:
            parts.append(f"{self.account.hits:,} from the cache")
        if self.account.cost:
            parts.append(f"cost {self.account.cost:.4g}")
        return f"Judgments({', '.join(parts)})"

    @cached_property
    def asked(self) -> int:
        """Number of requested answers: cells, pairs, lists; for a panel those of every member."""
        return sum(judgment.asked for judgment in self.groups)

    @cached_property
    def lost(self) -> int:
        """Number of these that are missing."""
        return sum(judgment.lost for judgment in self.groups)

    @property
    def missing(self) -> float:
        """The share of the answers that is missing; 0 if none were requested."""
        return self.lost / self.asked if self.asked else 0.0

    @cached_property
    def reasons(self) -> Counter[str]:
        """Why answers are missing, up to the first colon, and how often. The counts add up to `lost`."""
        reasons: list[str] = []
        for judgment in self.groups:
            reasons += [
                verdict.reason for verdict in judgment.verdicts.values() if verdict.value is None
            ]
            # Comparisons, and answers of members of a panel.
            for criterion_reasons in judgment.missing.values():
                reasons += criterion_reasons
        return Counter(shorten(reason.partition(":")[0], 80) for reason in reasons)

    @property
    def provenance(self) -> Provenance:
        """What a file of scores records about this judging."""
        replies = {}
        for group, judgment in zip(self.ids, self.groups, strict=False):
            # The smallest digests are a sample that does not depend on order: two runs with many replies in common
            # most likely share some of them.
            digests = sorted(
                {blake2b(id.encode(), digest_size=6).hexdigest() for id in judgment.replies}
            )
            if digests:
                replies[group] = tuple(digests[:_REPLIES_PER_GROUP])
        return Provenance(self._add_up_first_wins(), replies, self.spent)

    @property
    def spent(self) -> dict[str, Any]:
        """Usage in a few numbers that add up over batches."""
        account = self.account
        return {
            "calls": account.calls,
            "hits": account.hits,
            "input_tokens": account.input_tokens,
            "output_tokens": account.output_tokens,
            "cost": account.cost,
            "failures": dict(account.failures.most_common()),
            "asked": self.asked,
            "missing": self.lost,
        }

    @cached_property
    def missing_throughout(self) -> dict[str, str]:
        """Criteria without a single answer → the first reason."""
        answered: set[str] = set()
        reasons: dict[str, str] = {}
        for judgment in self.groups:
            for (_, name), verdict in judgment.verdicts.items():
                if verdict.value is None:
                    reasons.setdefault(name, verdict.reason)
                else:
                    answered.add(name)
            for name, outcomes in judgment.outcomes.items():
                if not np.isnan(outcomes).all():
                    answered.add(name)
                elif judgment.missing.get(
                    name
                ):  # none if nothing was compared: only one rollout takes part
                    reasons.setdefault(name, judgment.missing[name][0])
        return {name: reason for name, reason in reasons.items() if name not in answered}

    @cached_property
    def disagreement(self) -> dict[str, float]:
        """criterion → mean over the groups of how much a panel, or the orders of a pair, disagree: 0 = never."""
        by_criterion: dict[str, list[float]] = {}
        for judgment in self.groups:
            for name, value in judgment.disagreement.items():
                by_criterion.setdefault(name, []).append(value)
        return {name: math.fsum(values) / len(values) for name, values in by_criterion.items()}

    @cached_property
    def first_win_rate(self) -> dict[str, tuple[float, int]]:
        """criterion → (share of comparisons that the response shown first wins, comparisons): 0.5 = no bias."""
        # A criterion without comparisons has no entry in `first_wins`, so there is no division by zero.
        return {name: (wins / n, n) for name, (wins, n) in self._add_up_first_wins().items()}

    def _add_up_first_wins(self) -> dict[str, tuple[float, int]]:
        """Return criterion → (wins of the response shown first, comparisons) over all groups."""
        totals: dict[str, tuple[float, int]] = {}
        for judgment in self.groups:
            for name, (wins, comparisons) in judgment.first_wins.items():
                total_wins, total = totals.get(name, (0.0, 0))
                totals[name] = (total_wins + wins, total + comparisons)
        return totals
