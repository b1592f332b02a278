"""Is an endpoint there, does it take the key, and does it know the model? Asked before a run, not amid it.

GET /models lists the model        good, and free
no list, or a list without it      a completion of one token decides: some servers answer to names they do not list
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.client.endpoint import JudgeEndpoint
from rubrank.judges.client.retrying import RequestOutcome
from rubrank.judges.judge import Call, Judge, Reply

_QUESTION = Call(({"role": "user", "content": "Say OK."},), purpose="check")
_PAUSES = (0.3, 1.0)  # seconds between tries: a server that stumbles once is there


async def check_endpoint(served: JudgeEndpoint, judge: Judge, paid: Callable[[Call, Reply], Awaitable[None]]) -> None:
    """InvalidInput, if it is of no use; `paid` is told of a completion that was asked for."""
    for pause in (*_PAUSES, None):
        try:
            await _check(served, judge, paid)
            return
        except InvalidInput as error:
            if pause is None or error.parameter != "base_url" or "redirect" in error.got:
                raise
            await asyncio.sleep(pause)


async def _check(served: JudgeEndpoint, judge: Judge, paid: Callable[[Call, Reply], Awaitable[None]]) -> None:
    models = await served.models()
    if isinstance(models, RequestOutcome):
        _raise_if_away(served, judge, models)
        models = []
    if served.endpoint.model in models:
        return
    outcome = await served.attempt(_QUESTION, most=1)
    if outcome is None:  # the breaker is open: it has failed often already
        raise judge.wrong("base_url", "an endpoint that answers", served.endpoint.where, "Start the server.")
    await paid(_QUESTION, outcome.reply)
    if outcome.next == "done" or (outcome.reply.failure or "").startswith("empty reply"):
        return  # the model has spoken, if only one token
    _raise_if_away(served, judge, outcome)
    if models:
        raise UnknownName.of(f"judge {judge.name!r}", "model", served.endpoint.model, models)
    raise refusal(served, judge, outcome.reply.failure or "")


def _raise_if_away(served: JudgeEndpoint, judge: Judge, outcome: RequestOutcome) -> None:
    failure = outcome.reply.failure or ""
    if failure.startswith(("HTTP 401", "HTTP 403", "HTTP 3")) or outcome.next == "again":
        raise refusal(served, judge, failure)


def refusal(served: JudgeEndpoint, judge: Judge, failure: str) -> InvalidInput:
    """What is wrong with an endpoint that said this, and what can be done about it."""
    endpoint, failure = served.endpoint, served.shared.address.hide(failure)
    if failure.startswith(("HTTP 401", "HTTP 403")):
        got, remedy = f"a key that {endpoint.where} refuses ({failure})", f"Set {endpoint.api_key_env}."
        return judge.wrong("api_key_env", "the name of a variable that holds a valid key", got, remedy)
    if failure.startswith("HTTP 3"):
        got = f"{endpoint.where} ({failure})"
        return judge.wrong(
            "base_url", "the endpoint itself", got, "Give the URL that it redirects to, if you trust it."
        )
    if failure.startswith("HTTP 4"):
        got = f"{endpoint.model!r} ({failure})"
        return judge.wrong("model", f"one that {endpoint.where} serves", got, "Ask the server for its models.")
    got = f"{endpoint.where} ({failure})"
    return judge.wrong("base_url", "an endpoint that answers", got, "Start the server, or correct the URL.")
