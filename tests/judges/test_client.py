"""The client over real HTTP: what is sent, what comes back, the cache, sharing, deadlines, cancellation."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from calling import SCHEMA, ask, ask_all, call_of, judge_of, run
from server import MODEL, Answer, Server

from rubrank.errors import InvalidInput
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client, Deadline
from rubrank.judges.client.endpoint import EndpointPool
from rubrank.judges.judge import Call, Endpoint, Judge, Price, Sampling, Usage


def test_a_reply_says_what_came_and_what_it_took():
    price = Price(input=2.0, output=10.0, cached_input=0.5)
    with Server([Answer("good", usage=(1000, 100, 400))]) as server:
        reply = ask(judge_of(server, endpoint={"price": price}))
    assert (reply.text, reply.failure, reply.finish_reason) == ("good", None, "stop")
    assert reply.usage.input_tokens == 1000
    assert reply.usage.output_tokens == 100
    assert reply.usage.cached_tokens == 400
    assert reply.usage.cost == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert (reply.model, reply.endpoint, reply.attempts, reply.cached) == (MODEL, server.url, 1, False)
    assert reply.latency > 0.0


def test_what_is_sent():
    endpoint = {"extra_body": {"top_k": 5}, "headers": {"X-Team": "judges"}}
    sampling = Sampling(temperature=0.7, top_p=0.9, max_tokens=77, seed=10)
    messages = ({"role": "system", "content": "Judge."}, {"role": "user", "content": "好 ?"})
    with Server() as server:
        ask(judge_of(server, endpoint=endpoint, sampling=sampling), Call(messages, schema=SCHEMA, sample=3))
        asked = server.completions[0]
    wrapped = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert asked.body == {
        "model": MODEL,
        "messages": [dict(m) for m in messages],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 77,
        "seed": 13,
        "top_k": 5,
        "response_format": {"type": "json_schema", "json_schema": wrapped},
    }
    assert asked.headers["x-team"] == "judges"
    assert asked.headers["content-type"] == "application/json"


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    with Server() as server:
        ask(judge_of(server, endpoint={"api_key_env": "JUDGE_KEY"}))
        monkeypatch.delenv("JUDGE_KEY")
        assert ask(judge_of(server, endpoint={"api_key_env": "JUDGE_KEY"})).failure is None
        keys = [asked.headers["authorization"] for asked in server.completions]
    assert keys[0] == "Bearer sesame"
    assert "sesame" not in keys[1]


def test_no_schema_no_response_format():
    with Server() as server:
        ask(judge_of(server))
        assert "response_format" not in server.completions[0].body


def test_log_probabilities():
    top = [{"token": "1", "logprob": -0.1, "bytes": [49]}, {"token": "0", "logprob": -2.3}]
    entry = {"token": "1", "logprob": -0.1, "bytes": [49], "top_logprobs": top}
    with Server([Answer("1", logprobs=[entry])]) as server:
        reply = ask(judge_of(server), call_of(logprobs=True))
        body = server.completions[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    assert reply.logprobs == ({"token": "1", "logprob": -0.1, "top": {"1": -0.1, "0": -2.3}},)


def test_thoughts_are_not_the_text():
    with Server([Answer("<think>hm</think> 1", message={"reasoning_content": "let me see"})]) as server:
        assert ask(judge_of(server)).text == "<think>hm</think> 1"


def test_broken_characters_are_sent_as_something():
    with Server() as server:
        assert ask(judge_of(server), call_of("a \ud800 b")).failure is None
        assert server.completions[0].prompt == "a ? b"


# -------------------------------------------------------------------------------------------------------------- cache


def test_what_was_answered_is_not_asked_again(tmp_path):
    with Server() as server, ReplyCache(tmp_path / "r.sqlite") as store:
        judge = judge_of(server)
        first = ask(judge, cache=store)
        (again,), client = run(ask_all(judge, [call_of()], cache=store))
        assert len(server.completions) == 1
    assert (again.text, again.cached, again.usage, again.latency) == (first.text, True, Usage(), 0.0)
    account = client.usage
    assert (account.calls, account.hits, account.cost) == (0, 1, 0.0)


def test_failures_are_asked_again(tmp_path):
    with Server([Answer(finish_reason="length"), Answer("fine")]) as server, ReplyCache(tmp_path / "r.sqlite") as store:
        assert ask(judge_of(server), cache=store).failure == "cut off at max_tokens"
        assert ask(judge_of(server), cache=store).text == "fine"


def test_cache_only_calls_nobody(tmp_path):
    with Server() as server, ReplyCache(tmp_path / "r.sqlite") as store:
        judge = judge_of(server)
        ask(judge, call_of("known"), cache=store)
        (known, unknown), client = run(
            ask_all(judge, [call_of("known"), call_of("unknown")], cache=store, cache_only=True)
        )
        assert len(server.completions) == 1
    assert known.cached
    assert (unknown.text, unknown.failure) == (None, "not in the cache")
    assert client.usage.failures == {"not in the cache": 1}
    assert client.usage.calls == 0


def test_nothing_is_paid_that_cannot_be_kept(tmp_path):
    with ReplyCache(tmp_path / "r.sqlite"):
        pass
    with ReplyCache(tmp_path / "r.sqlite", read_only=True) as store:
        with pytest.raises(InvalidInput, match="opened to read"):
            Client(judge_of("http://localhost:1/v1"), cache=store)
        assert ask(judge_of("http://localhost:1/v1"), cache=store, cache_only=True).failure == "not in the cache"


WITHOUT_PACKAGES = """
import sys
for name in ("openai", "httpx2", "aiolimiter"):
    sys.modules[name] = None
import rubrank.judges.client.client as client
client.find_spec = lambda name: None
from calling import ask, judge_of
from rubrank.errors import InvalidInput
from rubrank.judges.client.cache import ReplyCache
judge = judge_of("http://localhost:1/v1")
with ReplyCache(sys.argv[1]) as store:
    assert ask(judge, cache=store, cache_only=True).failure == "not in the cache"
try:
    client.Client(judge)
except InvalidInput as error:
    print(error)
"""


def test_only_calling_takes_packages(tmp_path):
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", WITHOUT_PACKAGES, str(tmp_path / "r.sqlite")]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert "rubrank[judge]" in done.stdout, done.stderr


# ------------------------------------------------------------------------------------------------------------ sharing


def test_the_same_call_at_once_is_paid_once():
    with Server([Answer(delay=0.2)]) as server:
        replies, client = run(ask_all(judge_of(server), [call_of()] * 10 + [call_of("another")]))
        assert len(server.completions) == 2
    assert {reply.text for reply in replies} == {'{"verdict": 1}'}
    assert sum(reply.usage.input_tokens for reply in replies) == 200
    account = client.usage
    assert (account.calls, account.hits) == (2, 9)


def test_another_sample_is_another_call():
    with Server() as server:
        run(ask_all(judge_of(server), [call_of(sample=0), call_of(sample=1)]))
        assert len(server.completions) == 2


def test_who_shares_a_call_survives_the_one_who_asked():
    async def main(server):
        async with Client(judge_of(server)) as client:
            first = asyncio.create_task(client.ask(call_of()))
            second = asyncio.create_task(client.ask(call_of()))
            while not server.completions:
                await asyncio.sleep(0.01)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            return await second

    with Server([Answer(drop="never"), Answer("yes")]) as server:
        assert run(main(server)).text == "yes"


def test_who_gives_up_sharing_does_not_disturb_the_one_who_asked():
    async def main(server):
        async with Client(judge_of(server)) as client:
            first = asyncio.create_task(client.ask(call_of()))
            second = asyncio.create_task(client.ask(call_of()))
            while not server.completions:
                await asyncio.sleep(0.01)
            second.cancel()
            return await first

    with Server([Answer("yes", delay=0.2)]) as server:
        assert run(main(server)).text == "yes"


# ----------------------------------------------------------------------------------------------------------- deadline


def test_after_the_deadline_nobody_is_called():
    with Server() as server:
        reply = ask(judge_of(server), deadline=Deadline(0.0))
        assert not server.asked
    assert (reply.text, reply.failure, reply.attempts) == (None, "deadline of the step passed", 0)


def test_the_deadline_ends_a_call_under_way():
    with Server([Answer(drop="never")]) as server:
        reply = ask(judge_of(server), deadline=Deadline(0.3))
    assert reply.failure == "deadline of the step passed"
    assert (reply.attempts, reply.endpoint) == (1, server.url)


def test_what_is_known_is_answered_after_the_deadline(tmp_path):
    with Server() as server, ReplyCache(tmp_path / "r.sqlite") as store:
        ask(judge_of(server), cache=store)
        assert ask(judge_of(server), cache=store, deadline=Deadline(0.0)).cached


def test_no_wait_that_cannot_end_in_time():
    with Server([Answer(status=429, headers={"Retry-After": "50"})]) as server:
        reply = ask(judge_of(server), deadline=Deadline(40.0))
    assert reply.failure.startswith("rate limited")


def test_a_deadline_counts_down():
    deadline = Deadline(100.0)
    assert 99.0 < deadline.remaining() <= 100.0
    assert Deadline().remaining() is None
    assert Deadline(0.0).remaining() == 0.0


def test_places_are_given_back_after_a_cancellation():
    async def main(server):
        async with Client(judge_of(server, endpoint={"concurrency": 2})) as client:
            tasks = [asyncio.create_task(client.ask(call_of(str(i)))) for i in range(6)]
            while len(server.completions) < 2:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            server.script = [Answer("back")]
            return await asyncio.gather(*(client.ask(call_of(f"later {i}")) for i in range(4)))

    with Server([Answer(drop="never")]) as server:
        assert [reply.text for reply in run(main(server))] == ["back"] * 4


def test_a_closed_client_says_so():
    async def main():
        await Client(judge_of("http://localhost:1/v1")).ask(call_of())

    with pytest.raises(RuntimeError, match="async with"):
        run(main())


def test_a_url_may_end_in_a_slash():
    with Server() as server:
        judge = Judge(endpoints=(Endpoint(base_url=server.url + "/", model=MODEL),))
        assert ask(judge).failure is None
        assert server.completions[0].path == "/v1/chat/completions"


def test_servers_with_the_same_model_name_do_not_answer_for_each_other(tmp_path):
    """At the same time, one after the other, and offline."""
    with Server([Answer("A")]) as one, Server([Answer("B")]) as two, ReplyCache(tmp_path / "c.sqlite") as cache:
        judges = [judge_of(one), judge_of(two)]

        async def ask_both() -> list[str | None]:
            pool = EndpointPool()
            clients = [ask_all(judge, [call_of()] * 3, cache=cache, endpoints=pool) for judge in judges]
            texts = [reply.text for replies, _ in await asyncio.gather(*clients) for reply in replies]
            await pool.close()
            return texts

        assert run(ask_both()) == ["A", "A", "A", "B", "B", "B"]
        assert run(ask_both()) == ["A", "A", "A", "B", "B", "B"]
        assert (len(one.completions), len(two.completions)) == (1, 1)
        assert ask(judge_of(two), cache=cache, cache_only=True).text == "B"
        assert ask(judge_of("http://127.0.0.1:9/v1"), cache=cache, cache_only=True).text is None
        assert ask(judge_of("http://127.0.0.1:9/v1", one), cache=cache, cache_only=True).text == "A"
