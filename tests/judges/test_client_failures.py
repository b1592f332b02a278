"""Everything a server can do wrong, over real HTTP: asked again where that helps, else missing with a reason."""

import json
import time
from email.utils import formatdate

import pytest
from calling import ask, ask_all, call_of, judge_of, run
from server import Answer, Server

from rubrank.judges.client.accounting import Account
from rubrank.judges.client.client import Client
from rubrank.judges.client.replies import Replies
from rubrank.judges.judge import Price, Usage


def error(status, message="no", **more):
    return Answer(status=status, body=json.dumps({"error": {"message": message, **more}}))


PASSING = {
    "HTTP 500": error(500),
    "HTTP 502, not JSON": Answer(status=502, body="<html>Bad Gateway</html>"),
    "HTTP 503": error(503),
    "HTTP 408": error(408),
    "HTTP 429": error(429),
    "dropped before the reply": Answer(drop="before"),
    "dropped mid-body": Answer(drop="mid-body"),
    "truncated JSON": Answer(body='{"choices": [{"message": {"content": "go'),
    "not an object": Answer(body="[1, 2]"),
    "no choices": Answer(body='{"choices": []}'),
    "null message": Answer(body='{"choices": [{"message": null}]}'),
    "an error with status 200": Answer(body='{"error": {"message": "upstream is down"}}'),
    "empty": Answer(""),
    "blank": Answer(" \n"),
    "null": Answer(None),
    "never answering": Answer(drop="never"),
    "byte by byte": Answer(dribble=0.05),
}


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING.keys())
def test_what_passes_is_asked_again(answer):
    with Server([answer, Answer("good")]) as server:
        reply = ask(judge_of(server, timeout=0.5))
        assert len(server.completions) == 2
    assert (reply.text, reply.failure, reply.attempts) == ("good", None, 2)


REASONS = {
    "HTTP 500": "HTTP 500: no",
    "HTTP 502, not JSON": "HTTP 502: <html>Bad Gateway</html>",
    "HTTP 429": "rate limited: no",
    "dropped before the reply": "connection failed: ",
    "dropped mid-body": "connection failed: ",
    "truncated JSON": "malformed reply: not JSON",
    "no choices": "malformed reply: no message in it",
    "an error with status 200": "malformed reply: an error ({'message': 'upstream is down'})",
    "empty": "empty reply",
    "never answering": "timeout after 0.3 s",
    "byte by byte": "timeout after 0.3 s",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_does_not_pass_is_missing_with_a_reason(name):
    with Server([PASSING[name]]) as server:
        reply = ask(judge_of(server, timeout=0.3, retry={"attempts": 3}))
        assert len(server.completions) == 3
    assert reply.failure.startswith(REASONS[name])
    assert reply.attempts == 3


FINAL = {
    "refusal": (Answer(None, message={"refusal": "I cannot\n help"}), "refused: I cannot help", "I cannot\n help"),
    "content filter": (Answer("half", finish_reason="content_filter"), "refused: content filter", "half"),
    "length": (Answer("It is", finish_reason="length"), "cut off at max_tokens", "It is"),
}


@pytest.mark.parametrize(("answer", "failure", "text"), FINAL.values(), ids=FINAL.keys())
def test_answers_of_no_use_keep_text_and_cost(answer, failure, text):
    with Server([answer]) as server:
        reply = ask(judge_of(server, endpoint={"price": Price(input=1.0)}))
        assert len(server.completions) == 1
    assert (reply.failure, reply.text) == (failure, text)
    assert reply.usage == Usage(100, 20, 0, 1e-4)


def test_only_thoughts_are_an_empty_reply():
    with Server([Answer("", message={"reasoning_content": "hm"})]) as server:
        assert ask(judge_of(server, retry={"attempts": 1})).failure == "empty reply: thoughts only"


def test_a_malformed_body_is_kept():
    with Server([Answer(body='{"choi')]) as server:
        assert ask(judge_of(server, retry={"attempts": 1})).text == '{"choi'


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_is_wrong_for_good_is_not_asked_again(status):
    with Server([error(status, "nonsense")]) as server:
        reply = ask(judge_of(server))
        assert len(server.completions) == 1
    assert (reply.text, reply.failure) == (None, f"HTTP {status}: nonsense")


def test_a_used_up_quota_is_for_good():
    with Server([error(429, "pay first", code="insufficient_quota")]) as server:
        assert ask(judge_of(server)).failure == "rate limited: pay first"
        assert len(server.completions) == 1


def test_nobody_there():
    reply = ask(judge_of("http://127.0.0.1:9/v1", retry={"attempts": 2}))
    assert reply.failure.startswith("connection failed: ")
    assert reply.attempts == 2


# -------------------------------------------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize("form", ["seconds", "milliseconds", "date"])
@pytest.mark.parametrize("status", [429, 503])
def test_the_server_says_how_long_to_wait(form, status):
    def script(asked):
        if asked.number:
            return Answer("good")
        headers = {
            "seconds": {"Retry-After": "1"},
            "milliseconds": {"Retry-After-Ms": "1000"},
            "date": {"Retry-After": formatdate(time.time() + 2.0, usegmt=True)},  # whole seconds: 1 to 2 from now
        }[form]
        return Answer(status=status, body="{}", headers=headers)

    with Server(script) as server:
        assert ask(judge_of(server)).text == "good"
        first, second = server.completions
    assert second.at - first.at > 0.9


def test_others_wait_with_the_one_that_was_told_to():
    with Server([Answer(status=429, body="{}", headers={"Retry-After": "1"}), Answer("good")]) as server:
        judge = judge_of(server, retry={"attempts": 1})

        async def main():
            async with Client(judge) as client:
                return [await client.ask(call_of(text)) for text in ("first", "second")]

        first, second = run(main())
        asked = server.completions
    assert first.failure.startswith("rate limited")
    assert second.text == "good"
    assert asked[1].at - asked[0].at > 0.9


def test_no_call_waits_for_an_hour():
    with Server([Answer(status=429, body="{}", headers={"Retry-After": "3600"})]) as server:

        async def main():
            async with Client(judge_of(server)) as client:
                return [await client.ask(call_of(text)) for text in ("first", "second")]

        first, second = run(main())
        assert len(server.completions) == 1
    assert first.failure.startswith("rate limited")
    assert second.failure.startswith("rate limited: the server asks for 3")


# --------------------------------------------------------------------------------------------------------------- cost


def test_all_that_was_paid_adds_up(tmp_path):
    price = Price(input=1.0, output=1.0)
    answers = [
        Answer("", usage=(10, 1, 0)),
        error(500),
        Answer(" ", usage=(20, 2, 5)),
        Answer("good", usage=(30, 3, 0)),
    ]
    with Server(answers) as server, Replies(tmp_path / "r.sqlite") as store:
        (reply,), client = run(ask_all(judge_of(server, endpoint={"price": price}), [call_of()], store=store))
        on_disk = Account.of(store)
    assert reply.attempts == 4
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (60, 6, 5)
    assert reply.usage.cost == pytest.approx(66e-6)
    for account in (client.tally.account(), on_disk):
        assert (account.calls, account.requests, account.input_tokens) == (1, 4, 60)
        assert account.cost == pytest.approx(66e-6)
        assert account.failures == {}


def test_a_paid_failure_is_counted_once(tmp_path):
    with Server([Answer("", usage=(10, 1, 0))]) as server, Replies(tmp_path / "r.sqlite") as store:
        judge = judge_of(server, retry={"attempts": 3})
        (reply,), client = run(ask_all(judge, [call_of()], store=store))
        on_disk = Account.of(store)
    assert reply.usage.input_tokens == 30
    for account in (client.tally.account(), on_disk):
        assert (account.calls, account.requests, account.input_tokens) == (1, 3, 30)
        assert account.failures == {"empty reply": 1}


def test_a_reply_without_usage_costs_nothing_known():
    with Server([Answer(usage=None)]) as server:
        assert ask(judge_of(server, endpoint={"price": Price(input=1.0)})).usage == Usage()
