"""Usage of judges: calls, cache hits, failures, tokens, cost and latency; in total and by model, purpose and endpoint.

    Account.read(cache)                      of a reply cache, over all runs
    client.usage                             of one client, while it works
    Account.merge([first, second])           of several

    account.calls, account.hits, account.cost, account.failures      1840, 12, 0.83, {'timeout after 120 s': 3}
    account.latency(0.9)                                             seconds within which nine calls of ten were done
    account.purposes["GeneralQuality (listwise)"].cost               0.41

Percentiles are exact: the latency of every call is kept. A call that was answered from the cache, or by an identical
call in flight, is a hit: it costs nothing and has no latency.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rubrank.judges.judge import Call, Reply

if TYPE_CHECKING:
    from rubrank.judges.client.cache import ReplyCache

_PERCENTILES = (0.5, 0.9, 0.99)
_SUMS = ("calls", "requests", "hits", "input_tokens", "output_tokens", "cached_tokens", "cost")

LineKey: TypeAlias = tuple[str, str, str]
"""Model, purpose, endpoint."""


@dataclass(eq=False)
class UsageLine:
    """Usage of some calls."""

    calls: int = 0
    """Calls that were sent to a server; each may have taken several requests."""
    requests: int = 0
    hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens that were in the server's prefix cache."""
    cost: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    """By kind; those that were never sent (deadline passed, not in the cache) are included."""
    latencies: array[float] = field(default_factory=lambda: array("d"), repr=False)
    """Seconds of every call."""

    def add_line(self, other: UsageLine) -> None:
        """Add the usage of other calls."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures.update(other.failures)
        self.latencies.extend(other.latencies)

    def latency(self, share: float) -> float | None:
        """Return the seconds within which this share of the calls was done; None without calls."""
        if not self.latencies:
            return None
        rank = max(ceil(share * len(self.latencies)) - 1, 0)
        return float(np.partition(np.array(self.latencies), rank)[rank])

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable values, with percentiles instead of all latencies."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _SUMS}
        values["failures"] = dict(self.failures.most_common())
        for share in _PERCENTILES:
            values[f"latency_p{share * 100:g}"] = self.latency(share)
        return values


@dataclass(eq=False)
class Account(UsageLine):
    """Usage in total, and by model, purpose and endpoint. Calls are counted as they are answered."""

    _lines: dict[LineKey, UsageLine] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, cache: ReplyCache) -> Account:
        """Return the usage of all runs that used a reply cache."""
        account = cls()
        for call, reply, requests, final in cache.ledger():
            account.add(call, reply, requests, final=final)
        for purpose, model, endpoint, hits in cache.hits():
            account.add_hit(
                Call((), purpose=purpose), Reply(None, model=model, endpoint=endpoint), hits
            )
        return account

    @classmethod
    def merge(cls, accounts: Iterable[Account]) -> Account:
        """Add up several accounts, as they are now."""
        merged = cls()
        for account in accounts:
            for key, line in account._lines.items():
                merged.add_line(line)
                merged._lines.setdefault(key, UsageLine()).add_line(line)
        return merged

    def _find_lines(self, call: Call, reply: Reply) -> tuple[UsageLine, UsageLine]:
        """Return the lines that a reply counts for: the total, and its own."""
        key = (reply.model, call.purpose, reply.endpoint)
        return self, self._lines.setdefault(key, UsageLine())

    def add(self, call: Call, reply: Reply, requests: int, *, final: bool = True) -> None:
        """Count a reply.

        requests: how many requests its usage covers. final: the reply ends the call; False for a request that was paid
        for and is retried.
        """
        usage = reply.usage
        for line in self._find_lines(call, reply):
            line.requests += requests
            line.input_tokens += usage.input_tokens
            line.output_tokens += usage.output_tokens
            line.cached_tokens += usage.cached_tokens
            line.cost += usage.cost
            if not final:
                continue
            if reply.attempts:  # else nothing was sent
                line.calls += 1
                line.latencies.append(reply.latency)
            if reply.failure is not None:
                # Without the details: "refused: I cannot" is "refused".
                line.failures[reply.failure.partition(":")[0]] += 1

    def add_hit(self, call: Call, reply: Reply, number: int = 1) -> None:
        """Count calls that were answered without a request."""
        for line in self._find_lines(call, reply):
            line.hits += number

    @property
    def models(self) -> dict[str, UsageLine]:
        """Usage by model."""
        return self._group_lines(0)

    @property
    def purposes(self) -> dict[str, UsageLine]:
        """Usage by purpose."""
        return self._group_lines(1)

    @property
    def endpoints(self) -> dict[str, UsageLine]:
        """Usage by endpoint."""
        return self._group_lines(2)

    def _group_lines(self, position: int) -> dict[str, UsageLine]:
        """Add up the lines by one part of their keys, sorted by name. position: of that part in `LineKey`."""
        line_of_name: dict[str, UsageLine] = {}
        for key in sorted(self._lines, key=itemgetter(position)):
            name = key[position]
            if name:  # a call that was never sent has no model, and is in the total only
                line_of_name.setdefault(name, UsageLine()).add_line(self._lines[key])
        return line_of_name

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable values, in total and by model, purpose and endpoint."""
        values = super().as_dict()
        for name in ("models", "purposes", "endpoints"):
            values[name] = {key: line.as_dict() for key, line in getattr(self, name).items()}
        return values
