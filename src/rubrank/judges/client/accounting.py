"""Usage of judging: calls, cache hits, failures, tokens, cost and waiting time; by model, purpose and endpoint.

    Account.of(store)                        of a file of replies, over all runs
    client.meter.account()                   of one client, while it works
    Account.merged([one, other])             of several

    account.calls, account.hits, account.cost, account.failures      1840, 12, 0.83, {'timeout after 120 s': 3}
    account.latency(0.9)                                             seconds in which nine calls of ten were done
    account.purposes["GeneralQuality (listwise)"].cost               0.41

Counts and percentiles are exact: of every call the time is kept. A call that came from the cache, or that was shared
with another that asked the same, is a hit: it costs nothing and has no latency.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from rubrank.judges.judge import Call, Reply

if TYPE_CHECKING:
    from rubrank.judges.client.replies import Replies

_PERCENTILES = (0.5, 0.9, 0.99)
_SUMS = ("calls", "requests", "hits", "input_tokens", "output_tokens", "cached_tokens", "cost")

Place: TypeAlias = tuple[str, str, str]  # model, purpose, endpoint


def reason_of(failure: str) -> str:
    """The kind of a failure, without the details: "refused: I cannot" → "refused"."""
    return failure.partition(":")[0]


@dataclass(frozen=True, eq=False)
class Line:
    """One line of the accounts."""

    calls: int = 0
    """That went to a server; each may have taken several requests."""
    requests: int = 0
    hits: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """By kind; those that were not even sent (deadline, not in the cache) are among them."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, those that the server had in its prefix cache."""
    cost: float = 0.0
    latencies: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    """Seconds of every call, sorted."""

    def latency(self, share: float) -> float | None:
        """Seconds in which this share of the calls was done; None without calls."""
        if not len(self.latencies):
            return None
        return float(self.latencies[max(ceil(share * len(self.latencies)) - 1, 0)])

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        percentiles = {f"latency_p{share * 100:g}": self.latency(share) for share in _PERCENTILES}
        return {name: getattr(self, name) for name in _SUMS} | {"failures": dict(self.failures)} | percentiles


def _sum(lines: Iterable[Line]) -> dict[str, Any]:
    """The fields of the line that these make together."""
    lines = list(lines)
    if len(lines) == 1:
        return {name: getattr(lines[0], name) for name in (*_SUMS, "failures", "latencies")}
    failures: Counter[str] = Counter()
    for line in lines:
        failures.update(line.failures)
    sums = {name: sum(getattr(line, name) for line in lines) for name in _SUMS}
    latencies = np.sort(np.concatenate([np.empty(0), *(line.latencies for line in lines)]))
    return {**sums, "failures": dict(failures.most_common()), "latencies": latencies}


@dataclass(frozen=True, eq=False)
class Account(Line):
    """All lines together, and each by itself."""

    models: Mapping[str, Line] = field(default_factory=dict)
    purposes: Mapping[str, Line] = field(default_factory=dict)
    endpoints: Mapping[str, Line] = field(default_factory=dict)
    _places: Mapping[Place, Line] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, store: Replies) -> Self:
        """Everything that a file of replies has seen."""
        meter = UsageMeter()
        for call, reply, requests, final in store.rows():
            meter.add(call, reply, requests, final=final)
        for purpose, model, endpoint, hits in store.hits():
            meter.hit(Call((), purpose=purpose), Reply(None, model=model, endpoint=endpoint), hits)
        return cls._from(meter.lines())

    @classmethod
    def merged(cls, accounts: Iterable[Account]) -> Self:
        """Several accounts as one."""
        together: dict[Place, list[Line]] = {}
        accounts = list(accounts)
        if len(accounts) == 1 and type(accounts[0]) is cls:
            return accounts[0]
        for account in accounts:
            for place, line in account._places.items():
                together.setdefault(place, []).append(line)
        return cls._from({place: Line(**_sum(lines)) for place, lines in together.items()})

    @classmethod
    def _from(cls, places: Mapping[Place, Line]) -> Self:
        models, purposes, endpoints = (_by(places, lambda place, i=i: place[i]) for i in range(3))  # type: ignore[misc]
        return cls(**_sum(places.values()), models=models, purposes=purposes, endpoints=endpoints, _places=places)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        parts = {"models": self.models, "purposes": self.purposes, "endpoints": self.endpoints}
        lines = {part: {name: line.as_dict() for name, line in lines.items()} for part, lines in parts.items()}
        return super().as_dict() | lines


def _by(places: Mapping[Place, Line], name_of: Callable[[Place], str]) -> dict[str, Line]:
    """Lines by one of the names; what has none (a call that was never sent has no model) is in the total only."""
    names = sorted({name_of(place) for place in places} - {""})
    if len(places) == 1 and names:
        return {names[0]: next(iter(places.values()))}
    return {name: Line(**_sum(line for place, line in places.items() if name_of(place) == name)) for name in names}


@dataclass
class _Cell:
    calls: int = 0
    requests: int = 0
    hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    latencies: array[float] = field(default_factory=lambda: array("d"))

    def line(self) -> Line:
        sums = {name: getattr(self, name) for name in _SUMS}
        return Line(**sums, failures=dict(self.failures), latencies=np.sort(np.array(self.latencies)))


class UsageMeter:
    """An account in the making."""

    def __init__(self) -> None:
        self._cells: dict[Place, _Cell] = {}

    def _cell(self, call: Call, reply: Reply) -> _Cell:
        place = (reply.model, call.purpose, reply.endpoint)
        cell = self._cells.get(place)
        if cell is None:
            cell = self._cells[place] = _Cell()
        return cell

    def add(self, call: Call, reply: Reply, requests: int, *, final: bool = True) -> None:
        """A reply and the usage of `requests` requests; `final`: it ended the call."""
        cell, usage = self._cell(call, reply), reply.usage
        cell.requests += requests
        cell.input_tokens += usage.input_tokens
        cell.output_tokens += usage.output_tokens
        cell.cached_tokens += usage.cached_tokens
        cell.cost += usage.cost
        if not final:
            return
        if reply.attempts:
            cell.calls += 1
            cell.latencies.append(reply.latency)
        if reply.failure is not None:
            cell.failures[reason_of(reply.failure)] += 1

    def hit(self, call: Call, reply: Reply, number: int = 1) -> None:
        """Answered for nothing."""
        self._cell(call, reply).hits += number

    def lines(self) -> dict[Place, Line]:
        """By model, purpose and endpoint."""
        return {place: cell.line() for place, cell in self._cells.items()}

    def account(self) -> Account:
        """As it stands."""
        return Account._from(self.lines())
