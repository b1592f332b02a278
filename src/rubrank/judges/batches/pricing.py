"""Where the batches of a judge go, and what tokens cost there."""

from __future__ import annotations

from rubrank.judges.judge import Endpoint, Judge, Price


def endpoint_of(judge: Judge) -> Endpoint:
    """Where the batches of a judge go: the endpoint with the largest weight, the first of equals."""
    return max(judge.endpoints, key=lambda endpoint: endpoint.weight)


def batch_price(endpoint: Endpoint) -> Price:
    """What tokens cost in a batch."""
    price, share = endpoint.price, endpoint.batch.price
    cached = None if price.cached_input is None else price.cached_input * share
    return Price(input=price.input * share, output=price.output * share, cached_input=cached)
