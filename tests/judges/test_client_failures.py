"""Everything a server can do wrong, over real HTTP: asked again where that helps, else missing with a reason."""

import json
import time
from email.utils import formatdate

import pytest
from calling import ask, ask_all, call_of, judge_of, key_for, run
from server import Answer, Server

from rubrank.errors import InvalidInput
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client, Deadline
from rubrank.judges.client.usage import Account
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
        reply = ask(judge_of(server, timeout=3.0))
        assert len(server.completions) == 2
    assert (reply.text, reply.failure, reply.attempts) == ("good", None, 2)


REASONS = {
    "HTTP 500": "HTTP 500: no",
    "HTTP 502, not JSON": "HTTP 502: <html>Bad Gateway</html>",
    "dropped before the reply": "connection failed: ",
    "dropped mid-body": "connection failed: ",
    "truncated JSON": "malformed reply: ",
    "no choices": "malformed reply: no message in it",
    "an error with status 200": "error beside the reply: upstream is down",
    "empty": "empty reply",
    "never answering": "timeout after 1 s",
    "byte by byte": "timeout after 1 s",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_does_not_pass_is_missing_with_a_reason(name):
    with Server([PASSING[name]]) as server:
        reply = ask(judge_of(server, timeout=1.0, retry={"attempts": 3}))
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


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_wrong_with_a_call_is_not_asked_again(status):
    with Server([error(status, "nonsense")]) as server:
        reply = ask(judge_of(server))
        assert len(server.completions) == 1
    assert (reply.text, reply.failure) == (None, f"HTTP {status}: nonsense")


FATAL = {401: "api_key_env", 403: "api_key_env", 404: "model", 302: "base_url", 307: "base_url", 308: "base_url"}


@pytest.mark.parametrize("status", FATAL)
def test_what_is_wrong_with_an_endpoint_ends_the_run(status):
    with Server() as trap:
        refused = Answer(status=status, body="{}", headers={"Location": f"{trap.url}/chat/completions"})
        with Server([refused]) as server, pytest.raises(InvalidInput, match=FATAL[status]):
            ask(judge_of(server))
        assert len(server.completions) == 1
        assert trap.asked == []


def test_a_call_that_is_forbidden_among_others_that_are_answered_is_missing():
    def script(asked):
        return error(403, "flagged") if "bad" in asked.prompt else Answer("good")

    with Server(script) as server:

        async def main():
            async with Client(judge_of(server)) as client:
                return [await client.ask(call_of(text)) for text in ("one", "bad", "two")]

        replies = run(main())
    assert [reply.failure for reply in replies] == [None, "HTTP 403: flagged", None]


def test_another_endpoint_takes_over_from_one_that_refuses_the_key():
    with Server([error(401, "no key")]) as bad, Server([Answer("good")]) as good:
        replies, _ = run(ask_all(judge_of(bad, good), [call_of(str(i)) for i in range(8)]))
    assert [reply.text for reply in replies] == ["good"] * 8


def test_too_much_at_once_is_a_quarter_of_a_try():
    with Server([error(429)]) as server:
        reply = ask(judge_of(server, retry={"attempts": 2}))
        assert len(server.completions) == 8
    assert reply.failure == "rate limited: no"


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
    with Server([Answer(status=503, body="{}", headers={"Retry-After": "1"}), Answer("good")]) as server:
        judge = judge_of(server, retry={"attempts": 1})

        async def main():
            async with Client(judge) as client:
                return [await client.ask(call_of(text)) for text in ("first", "second")]

        first, second = run(main())
        asked = server.completions
    assert first.failure.startswith("HTTP 503")
    assert second.text == "good"
    assert asked[1].at - asked[0].at > 0.9


def test_no_call_waits_for_an_hour(monkeypatch):
    monkeypatch.setattr("rubrank.judges.client.protocol.MAX_RETRY_AFTER", 0.3)
    late = Answer(status=429, body="{}", headers={"Retry-After": "3600"})
    with Server([late, Answer("good")]) as server:
        replies, _ = run(ask_all(judge_of(server), [call_of(str(i)) for i in range(5)]), seconds=20.0)
    assert [reply.text for reply in replies] == ["good"] * 5


def test_a_call_that_is_wrong_holds_up_no_other():
    def script(asked):
        late = Answer(status=400, body="{}", headers={"Retry-After": "300"})
        return late if "bad" in asked.prompt else Answer("good")

    with Server(script) as server:
        calls = [call_of(f"{'bad' if i == 3 else 'fine'} {i}") for i in range(40)]
        replies, _ = run(ask_all(judge_of(server), calls), seconds=20.0)
    assert [reply.failure for reply in replies if reply.text is None] == ["HTTP 400"]


# --------------------------------------------------------------------------------------------------------------- cost


def test_all_that_was_paid_adds_up(tmp_path):
    price = Price(input=1.0, output=1.0)
    answers = [
        Answer("", usage=(10, 1, 0)),
        error(500),
        Answer(" ", usage=(20, 2, 5)),
        Answer("good", usage=(30, 3, 0)),
    ]
    with Server(answers) as server, ReplyCache(tmp_path / "r.sqlite") as store:
        (reply,), client = run(ask_all(judge_of(server, endpoint={"price": price}), [call_of()], cache=store))
        on_disk = Account.read(store)
    assert reply.attempts == 4
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (60, 6, 5)
    assert reply.usage.cost == pytest.approx(66e-6)
    for account in (client.usage, on_disk):
        assert (account.calls, account.requests, account.input_tokens) == (1, 4, 60)
        assert account.cost == pytest.approx(66e-6)
        assert account.failures == {}


def test_a_paid_failure_is_counted_once(tmp_path):
    with Server([Answer("", usage=(10, 1, 0))]) as server, ReplyCache(tmp_path / "r.sqlite") as store:
        judge = judge_of(server, retry={"attempts": 3})
        (reply,), client = run(ask_all(judge, [call_of()], cache=store))
        on_disk = Account.read(store)
    assert reply.usage.input_tokens == 30
    for account in (client.usage, on_disk):
        assert (account.calls, account.requests, account.input_tokens) == (1, 3, 30)
        assert account.failures == {"empty reply": 1}


def test_a_reply_without_usage_costs_nothing_known():
    with Server([Answer(usage=None)]) as server:
        assert ask(judge_of(server, endpoint={"price": Price(input=1.0)})).usage == Usage()


def test_a_call_that_was_never_sent_holds_up_no_other_process(tmp_path):
    """While a circuit breaker is open calls fail without a request; what they had claimed must be free again."""
    judge = judge_of("http://127.0.0.1:9/v1", retry={"attempts": 1, "breaker_failures": 1, "breaker_pause": 1000.0})

    async def main():
        with ReplyCache(tmp_path / "r.sqlite") as cache, ReplyCache(tmp_path / "r.sqlite") as other:
            async with Client(judge, cache=cache, deadline=Deadline(60.0)) as client:
                assert (await client.ask(call_of("first"))).attempts == 1
                second = await client.ask(call_of("second"))
                cache.flush()
                return second, await other.claim(key_for(call_of("second"), judge))

    second, claimed = run(main())
    assert (second.attempts, second.text) == (0, None)
    assert "connection refused" in second.failure
    assert claimed
