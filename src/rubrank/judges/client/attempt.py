"""How far a call has come: its requests, what they cost, and where they failed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from rubrank.judges.client.endpoint import NO_ANSWER, JudgeEndpoint
from rubrank.judges.client.replies import reply_id
from rubrank.judges.client.retrying import RequestOutcome
from rubrank.judges.judge import Call, Reply, Usage

_NOTHING = Usage()


@dataclass
class Attempt:
    """One call on its way."""

    call: Call
    key: bytes
    tries: float
    started: float = field(default_factory=time.monotonic)
    reply: Reply = NO_ANSWER
    usage: Usage = _NOTHING
    requests: int = 0
    noted: int = 0
    """Requests that the ledger has already."""
    failed: list[JudgeEndpoint] = field(default_factory=list)
    hopeless: list[JudgeEndpoint] = field(default_factory=list)

    def begin(self, served: JudgeEndpoint) -> None:
        """One more request is under way."""
        self.requests += 1
        self.reply = served.no_answer

    def count(self, outcome: RequestOutcome) -> None:
        """It has ended."""
        spent, usage = outcome.reply.usage, self.usage
        self.reply = outcome.reply
        if usage is _NOTHING:  # the first one
            self.usage = spent
            return
        self.usage = Usage(
            usage.input_tokens + spent.input_tokens,
            usage.output_tokens + spent.output_tokens,
            usage.cached_tokens + spent.cached_tokens,
            usage.cost + spent.cost,
        )

    def end(self, failure: str | None = None) -> Reply:
        """The reply as the last request left it, or with another reason and nothing of that request."""
        last = self.reply if failure is None else replace(self.reply, text=None, failure=failure, usage=Usage())
        return finished(
            last, last.usage, time.monotonic() - self.started, self.requests, reply_id(self.key, time.time())
        )


def finished(reply: Reply, usage: Usage, latency: float, attempts: int, id: str) -> Reply:
    """The reply of a call with what is known at its end. Written out: `replace` takes three times as long."""
    return Reply(
        reply.text,
        reply.failure,
        usage,
        latency,
        attempts,
        reply.model,
        reply.endpoint,
        reply.cached,
        reply.finish_reason,
        reply.logprobs,
        id,
    )
