"""No fault of a judge server becomes a score, takes the run down, or sends the prompt elsewhere; by family."""

from __future__ import annotations

import asyncio
import json

import pytest
from calling import ask, ask_all, call_of, judge_of, run
from cases import folded
from faults import COMPLETIONS, FINAL, GOOD, HTTP, TEXTS, meet, packed, said
from server import Answer, Server

from rubrank.errors import InvalidInput
from rubrank.judges.client.client import Client
from rubrank.judges.client.transport import MAX_BODY
from rubrank.judges.judge import Endpoint, load_judges


def test_a_good_reply_is_a_score():
    met = meet(said(GOOD))
    assert (met.value, met.error, met.requests) == (1.0, "", 1)


@folded("fault", TEXTS)
def test_texts(fault):
    met = meet(said(TEXTS[fault]))
    assert (met.value, met.error) == (None, "")


@folded("fault", COMPLETIONS)
def test_completions(fault):
    met = meet(COMPLETIONS[fault])
    assert (met.value, met.error) == (None, "")


@pytest.mark.parametrize("fault", HTTP)
def test_http(fault):
    met = meet(HTTP[fault], timeout=0.6)
    assert (met.value, met.error) == (None, "")


@pytest.mark.parametrize("fault", FINAL)
def test_final(fault):
    met = meet(FINAL[fault], timeout=60)  # a busy machine may answer late
    assert (met.value, met.error) == (None, "InvalidInput")
    assert not met.leaked
    assert met.requests <= 1


def test_a_body_that_is_packed_is_not_read():
    """Nobody asked for it, and it may be a bomb."""
    import gzip

    with Server([packed(gzip.compress(b"{}"), "gzip")]) as server:
        assert ask(judge_of(server, retry={"attempts": 1})).failure == "malformed reply: its encoding is 'gzip'"


def test_a_body_is_given_up_at_a_few_megabytes():
    with Server([Answer("x" * (MAX_BODY + 1))]) as server:
        reply = ask(judge_of(server, retry={"attempts": 1}))
    assert reply.failure == "malformed reply: it has more than 8 MB"


# ------------------------------------------------------------------------------------------------------------ secrets

SECRETS = ("hunter2-password", "query-secret-123", "sk-key-abcdef", "header-secret-9")


def secretive(server, **endpoint):
    url = server.url.replace("http://", "http://someone:hunter2-password@") + "?api-key=query-secret-123"
    given = {"headers": {"X-Gateway": "header-secret-9"}, "api_key_env": "TEST_JUDGE_KEY", **endpoint}
    return judge_of(url, endpoint=given, retry={"attempts": 1})


@pytest.mark.parametrize("status", [200, 400, 500])
def test_secrets_are_sent_and_never_written(tmp_path, monkeypatch, caplog, status):
    from rubrank.judges.client.cache import ReplyCache

    monkeypatch.setenv("TEST_JUDGE_KEY", "sk-key-abcdef")
    said = Answer(status=status, body=json.dumps({"error": {"message": " ".join(SECRETS)}}))
    with Server([Answer("fine") if status == 200 else said]) as server:
        judge = secretive(server)
        with ReplyCache(tmp_path / "r.sqlite") as store:
            (reply,), client = run(ask_all(judge, [call_of()], cache=store))
            account = client.usage
        (asked,) = server.asked
    assert asked.path.endswith("/chat/completions?api-key=query-secret-123")
    assert asked.headers["authorization"] == "Bearer sk-key-abcdef"
    assert asked.headers["x-gateway"] == "header-secret-9"
    written = (tmp_path / "r.sqlite").read_bytes().decode("latin-1")
    shown = f"{reply} {account} {account.as_dict()} {caplog.text} {judge!r}"
    for secret in SECRETS:
        assert secret not in written
        assert secret not in shown


def test_secrets_are_in_no_error(monkeypatch):
    monkeypatch.setenv("TEST_JUDGE_KEY", "sk-key-abcdef")
    refused = Answer(status=401, body='{"error": {"message": "no such key sk-key-abcdef for hunter2-password"}}')
    with Server([refused]) as server, pytest.raises(InvalidInput) as raised:
        ask(secretive(server))
    assert not any(secret in str(raised.value) for secret in SECRETS)
    for url in ("someone:hunter2-password@host/v1", "ftp://someone:hunter2-password@host/v1?k=hunter2-password"):
        with pytest.raises(ValueError, match="base_url") as wrong:
            judge_of(url)
        assert "hunter2" not in str(wrong.value)
        with pytest.raises(InvalidInput, match="base_url") as wrong:
            load_judges({"endpoints": [{"base_url": url, "model": "m"}]})
        assert "hunter2" not in str(wrong.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:hunter2@proxy/https://api.example/v1", "https://proxy/https://api.example/v1"),
        ("https://me:hunter2@host:80/v1?key=hunter2", "https://host:80/v1"),
        ("http://[::1]:8000/v1?user=a@b", "http://[::1]:8000/v1"),
        ("http://[::1]/v1/@team", "http://[::1]/v1/@team"),
        ("http://localhost:8000/@team/v1", "http://localhost:8000/@team/v1"),
        ("https://host/v1?key=hunter2@host", "https://host/v1"),
    ],
)
def test_where_a_judge_is_has_no_secrets(url, shown):
    assert Endpoint(base_url=url, model="m").where == shown


@pytest.mark.parametrize("mark", ["/", "?", "#"])
def test_a_password_that_ends_the_address_is_refused(mark):
    with pytest.raises(InvalidInput, match="base_url") as wrong:
        load_judges({"endpoints": [{"base_url": f"https://me:hunt{mark}er2@host/v1", "model": "m"}]})
    assert "hunt" not in str(wrong.value)
    assert "er2" not in str(wrong.value)


@pytest.mark.parametrize("before", range(285, 300))
def test_a_message_cut_within_a_secret_shows_no_part_of_it(monkeypatch, before):
    monkeypatch.setenv("TEST_JUDGE_KEY", "sk-key-abcdef")
    message = "x" * before + " sk-key-abcdef and more"
    failed = Answer(status=400, body=json.dumps({"error": {"message": message}}))
    with Server([failed]) as server:
        (reply,), _ = run(ask_all(secretive(server), [call_of()]))
    assert "sk-key" not in str(reply)


def test_a_password_without_a_key_is_basic_authorization(monkeypatch):
    monkeypatch.delenv("TEST_JUDGE_KEY", raising=False)
    with Server() as server:
        ask(secretive(server))
        (asked,) = server.asked
    assert asked.headers["authorization"] == "Basic c29tZW9uZTpodW50ZXIyLXBhc3N3b3Jk"


# ----------------------------------------------------------------------------------------------------------- deadline


def test_a_store_that_is_locked_does_not_hold_up_a_step(tmp_path):
    """The deadline covers the cache: another process has it all to itself."""
    import sqlite3

    from rubrank.judges.client.cache import ReplyCache
    from rubrank.judges.client.client import Deadline

    with Server() as server, ReplyCache(tmp_path / "r.sqlite") as store:

        async def main():
            async with Client(judge_of(server), cache=store, deadline=Deadline(1.0)) as client:
                other = sqlite3.connect(tmp_path / "r.sqlite", isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                try:
                    return await asyncio.wait_for(client.ask(call_of()), 10.0)
                finally:
                    other.execute("ROLLBACK")
                    other.close()

        reply = run(main())
    assert reply.failure == "deadline of the step passed"
