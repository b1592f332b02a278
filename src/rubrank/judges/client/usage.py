"""Usage of judges: calls, cache hits, failures, tokens, cost and latency; in total and by model, purpose and endpoint.

    Account.read(cache)                      of a reply cache, over all runs
    client.meter.account()                   of one client, while it works
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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from rubrank.judges.judge import Call, Reply

if TYPE_CHECKING:
    from rubrank.judges.client.cache import ReplyCache

_PERCENTILES = (0.5, 0.9, 0.99)
_SUMS = ("calls", "requests", "hits", "input_tokens", "output_tokens", "cached_tokens", "cost")

LineKey: TypeAlias = tuple[str, str, str]
"""Model, purpose, endpoint."""


def failure_kind(failure: str) -> str:
    """The kind of a failure, without the details: "refused: I cannot" → "refused"."""
    return failure.partition(":")[0]


@dataclass(frozen=True, eq=False)
class UsageLine:
    """Usage of some calls."""

    calls: int = 0
    """Calls that were sent to a server; each may have taken several requests."""
    requests: int = 0
    hits: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """By kind; those that were never sent (deadline passed, not in the cache) are included."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens that were in the server's prefix cache."""
    cost: float = 0.0
    latencies: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    """Seconds of every call, sorted."""

    def latency(self, share: float) -> float | None:
        """Seconds within which this share of the calls was done; None without calls."""
        if not len(self.latencies):
            return None
        rank = max(ceil(share * len(self.latencies)) - 1, 0)
        return float(self.latencies[rank])

    def as_dict(self) -> dict[str, Any]:
        """As JSON-serialisable values, with percentiles instead of all latencies."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _SUMS}
        values["failures"] = dict(self.failures)
        for share in _PERCENTILES:
            values[f"latency_p{share * 100:g}"] = self.latency(share)
        return values


def _sum_fields(lines: Iterable[UsageLine]) -> dict[str, Any]:
    """The fields of a line that sums up these lines."""
    lines = list(lines)
    fields: dict[str, Any] = {name: sum(getattr(line, name) for line in lines) for name in _SUMS}
    failures: Counter[str] = Counter()
    for line in lines:
        failures.update(line.failures)
    fields["failures"] = dict(failures.most_common())
    fields["latencies"] = np.sort(np.concatenate([np.empty(0), *(line.latencies for line in lines)]))
    return fields


@dataclass(frozen=True, eq=False)
class Account(UsageLine):
    """Usage in total, and by model, purpose and endpoint."""

    models: Mapping[str, UsageLine] = field(default_factory=dict)
    purposes: Mapping[str, UsageLine] = field(default_factory=dict)
    endpoints: Mapping[str, UsageLine] = field(default_factory=dict)
    _lines: Mapping[LineKey, UsageLine] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, cache: ReplyCache) -> Self:
        """The usage of all runs that used a reply cache."""
        meter = UsageMeter()
        for call, reply, requests, final in cache.ledger():
            meter.add(call, reply, requests, final=final)
        for purpose, model, endpoint, hits in cache.hits():
            meter.add_hit(Call((), purpose=purpose), Reply(None, model=model, endpoint=endpoint), hits)
        return cls._of_lines(meter.lines())

    @classmethod
    def merge(cls, accounts: Iterable[Account]) -> Self:
        """Several accounts as one."""
        lines_by_key: dict[LineKey, list[UsageLine]] = {}
        for account in accounts:
            for key, line in account._lines.items():
                lines_by_key.setdefault(key, []).append(line)
        return cls._of_lines({key: UsageLine(**_sum_fields(lines)) for key, lines in lines_by_key.items()})

    @classmethod
    def _of_lines(cls, lines: Mapping[LineKey, UsageLine]) -> Self:
        # By model, purpose and endpoint. A call that was never sent has no model, and is in the total only.
        breakdowns: list[dict[str, UsageLine]] = []
        for part in range(3):
            by_name: dict[str, list[UsageLine]] = {}
            for key, line in lines.items():
                if key[part]:
                    by_name.setdefault(key[part], []).append(line)
            breakdowns.append({name: UsageLine(**_sum_fields(by_name[name])) for name in sorted(by_name)})
        models, purposes, endpoints = breakdowns
        total = _sum_fields(lines.values())
        return cls(**total, models=models, purposes=purposes, endpoints=endpoints, _lines=lines)

    def as_dict(self) -> dict[str, Any]:
        """As JSON-serialisable values."""
        values = super().as_dict()
        for name in ("models", "purposes", "endpoints"):
            values[name] = {key: line.as_dict() for key, line in getattr(self, name).items()}
        return values


@dataclass
class _Counts:
    """A mutable `UsageLine`, for counting."""

    calls: int = 0
    requests: int = 0
    hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    latencies: array[float] = field(default_factory=lambda: array("d"))


class UsageMeter:
    """Counts calls as they are answered."""

    def __init__(self) -> None:
        self._counts: dict[LineKey, _Counts] = {}

    def _counts_of(self, call: Call, reply: Reply) -> _Counts:
        key = (reply.model, call.purpose, reply.endpoint)
        if key not in self._counts:
            self._counts[key] = _Counts()
        return self._counts[key]

    def add(self, call: Call, reply: Reply, requests: int, *, final: bool = True) -> None:
        """Count a reply. requests: how many requests its usage covers; final: the call ends with it."""
        counts = self._counts_of(call, reply)
        usage = reply.usage
        counts.requests += requests
        counts.input_tokens += usage.input_tokens
        counts.output_tokens += usage.output_tokens
        counts.cached_tokens += usage.cached_tokens
        counts.cost += usage.cost
        if not final:
            return
        if reply.attempts:  # else nothing was sent
            counts.calls += 1
            counts.latencies.append(reply.latency)
        if reply.failure is not None:
            counts.failures[failure_kind(reply.failure)] += 1

    def add_hit(self, call: Call, reply: Reply, number: int = 1) -> None:
        """Count calls that were answered without a request."""
        self._counts_of(call, reply).hits += number

    def lines(self) -> dict[LineKey, UsageLine]:
        """The usage so far, by model, purpose and endpoint."""
        lines = {}
        for key, counts in self._counts.items():
            sums = {name: getattr(counts, name) for name in _SUMS}
            latencies = np.sort(np.array(counts.latencies))
            lines[key] = UsageLine(**sums, failures=dict(counts.failures), latencies=latencies)
        return lines

    def account(self) -> Account:
        """The usage so far."""
        return Account._of_lines(self.lines())
