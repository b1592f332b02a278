"""How long to wait, and whether to ask again."""

import time
from email.utils import formatdate

import pytest
from cases import folded

from rubrank.judges.client.protocol import classify_status, compute_backoff, read_retry_after
from rubrank.judges.judge import Retry


@folded(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_what_the_server_asks_for(headers, seconds):
    assert read_retry_after(headers) == seconds


def test_a_date():
    assert 28.0 < read_retry_after({"retry-after": formatdate(time.time() + 30.0, usegmt=True)}) <= 30.0


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be changed here")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima", "UTC"])
def test_a_date_that_names_no_zone_is_one_of_utc(zone, monkeypatch):
    """As Python's own `formatdate` writes it, whatever the zone of this machine is."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert 28.0 < read_retry_after({"retry-after": formatdate(time.time() + 30.0)}) <= 30.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_waits_double_up_to_the_longest():
    retry = Retry(first_wait=1.0, longest_wait=5.0)
    for failed, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (500, 5.0), (5000, 5.0)):
        waits = [compute_backoff(retry, failed, None) for _ in range(200)]
        assert 0.5 * longest <= min(waits) < max(waits) <= longest


def test_no_wait_ends_before_the_server_said():
    waits = [compute_backoff(Retry(first_wait=1.0), 1, 10.0) for _ in range(200)]
    assert 10.0 <= min(waits) < max(waits) <= 11.0


@folded(
    ("status", "next_", "healthy"),
    [
        (400, "other_endpoint", True),
        (401, "other_endpoint", False),
        (403, "other_endpoint", False),
        (404, "other_endpoint", False),
        (408, "retry", False),
        (413, "other_endpoint", True),
        (422, "other_endpoint", True),
        (429, "retry", True),
        (500, "retry", False),
        (529, "retry", False),
    ],
)
def test_what_a_status_means(status, next_, healthy):
    outcome = classify_status(status, "x", None, {}, Retry())
    assert (outcome.next, outcome.healthy) == (next_, healthy)


@pytest.mark.parametrize("asked", ["61", "3600", "1e300", "99999999999"])
def test_patience_is_bounded(asked):
    assert classify_status(429, "", None, {"retry-after": asked}, Retry()).retry_after == 60.0
    assert classify_status(503, "", None, {"retry-after": asked}, Retry(longest_wait=90.0)).retry_after <= 90.0


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 502])
def test_only_an_overloaded_server_is_waited_for(status):
    assert classify_status(status, "", None, {"retry-after": "300"}, Retry()).retry_after is None
