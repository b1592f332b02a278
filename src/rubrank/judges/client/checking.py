"""Is an endpoint there, does it take the key, and does it know the model? Asked before a run, not amid it.

GET /models lists the model        good, and free
no list, or a list without it      a completion of one token decides: some servers answer to names they do not list
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.client.endpoint import Lane
from rubrank.judges.client.retrying import Outcome
from rubrank.judges.judge import Call, Judge, Reply

_QUESTION = Call(({"role": "user", "content": "Say OK."},), purpose="check")


async def check_lane(lane: Lane, judge: Judge, paid: Callable[[Call, Reply], Awaitable[None]]) -> None:
    """InvalidInput, if it is of no use; `paid` is told of a completion that was asked for."""
    models = await lane.models()
    if isinstance(models, Outcome):
        _raise_if_away(lane, judge, models)
        models = []
    if lane.endpoint.model in models:
        return
    outcome = await lane.attempt(_QUESTION, most=1)
    if outcome is None:  # the breaker is open: it has failed often already
        raise _wrong(judge, "base_url", "an endpoint that answers", lane.endpoint.base_url, "Start the server.")
    await paid(_QUESTION, outcome.reply)
    if outcome.next == "done" or (outcome.reply.failure or "").startswith("empty reply"):
        return  # the model has spoken, if only one token
    _raise_if_away(lane, judge, outcome)
    if models:
        raise UnknownName.of(f"judge {judge.name!r}", "model", lane.endpoint.model, models)
    got = f"{lane.endpoint.model!r} ({outcome.reply.failure})"
    raise _wrong(judge, "model", f"one that {lane.endpoint.base_url} serves", got, "Ask the server for its models.")


def _raise_if_away(lane: Lane, judge: Judge, outcome: Outcome) -> None:
    failure, endpoint = outcome.reply.failure or "", lane.endpoint
    if failure.startswith(("HTTP 401", "HTTP 403")):
        got, remedy = f"a key that {endpoint.base_url} refuses ({failure})", f"Set {endpoint.api_key_env}."
        raise _wrong(judge, "api_key_env", "the name of a variable that holds a valid key", got, remedy)
    if outcome.next == "again":
        got = f"{endpoint.base_url} ({failure})"
        raise _wrong(judge, "base_url", "an endpoint that answers", got, "Start the server, or correct the URL.")


def _wrong(judge: Judge, parameter: str, allowed: str, got: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"judge {judge.name!r}", parameter, allowed, got, remedy)
