"""Requests and tokens a minute, kept before the server has to complain.

    limits = EndpointLimits(requests_per_minute=600, tokens_per_minute=100_000)
    charged = await limits.admit(1500)         waits for its turn; 1500 is a guess
    limits.settle(charged, used=900)           the next calls are let in the earlier

Both are leaky buckets (aiolimiter) of a few seconds' worth, not of a minute's: a bucket that holds a whole minute lets
twice the limit through in the first one. What a call was charged too much or too little is carried over to the calls
that follow, so that the sum comes out right. The guesses learn: each is scaled by what earlier calls really used.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter  # of the extra `judge`: replaying kept replies needs none of it

_MINUTE = 60.0
_TOKEN_SECONDS = 5.0  # worth of tokens that may go out at once
_LEARNING = 0.1


@dataclass(frozen=True)
class Charge:
    """What a call was let in for."""

    guess: float
    tokens: float


class EndpointLimits:
    """Of one endpoint; None: no limit."""

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = None if requests_per_minute is None else _requests(requests_per_minute)
        self._tokens = None if tokens_per_minute is None else _tokens(tokens_per_minute)
        self._turn = asyncio.Lock()
        self._carried = 0.0
        self._scale = 1.0

    @property
    def counts_tokens(self) -> bool:
        """Is a guess of the tokens of any use?"""
        return self._tokens is not None

    async def admit(self, guess: float) -> Charge:
        """Wait until a call of about so many tokens may go out."""
        if self._requests is not None:
            await self._requests.acquire()
        if self._tokens is None:
            return Charge(guess, guess)
        async with self._turn:  # one after another: each is charged by what is known when its turn comes
            charge = Charge(guess, guess * self._scale)
            await self._admit_tokens(self._tokens, charge.tokens)
        return charge

    async def _admit_tokens(self, bucket: AsyncLimiter, tokens: float) -> None:
        left = tokens + self._carried
        self._carried = min(left, 0.0)
        try:
            while left > 0.0:  # in parts, where it is more than the bucket holds
                part = min(left, bucket.max_rate)
                await bucket.acquire(part)
                left -= part
        except BaseException:  # cancelled while waiting: what was taken is to the good of those that follow
            self._carried += left - tokens
            raise

    def settle(self, charge: Charge, used: int | None) -> None:
        """Tokens the call really used; None: the server does not say."""
        if self._tokens is None or used is None:
            return
        self._carried += used - charge.tokens
        if used and charge.guess:
            self._scale += _LEARNING * (used / charge.guess - self._scale)


def _requests(per_minute: float) -> AsyncLimiter:
    """A second's worth at once, and no more than `per_minute` in any minute."""
    from aiolimiter import AsyncLimiter

    burst = max(1.0, per_minute / _MINUTE)
    return AsyncLimiter(burst, burst * _MINUTE / (per_minute - burst + 1.0))


def _tokens(per_minute: float) -> AsyncLimiter:
    from aiolimiter import AsyncLimiter

    burst = per_minute * _TOKEN_SECONDS / _MINUTE
    return AsyncLimiter(burst, burst * _MINUTE / (per_minute - burst))
