"""Several endpoints over real HTTP: shares, failover, circuit breaker, concurrency and rates."""

import asyncio
import threading
import time
from collections import Counter

from calling import QUICK, ask, ask_all, call_of, judge_of, run
from server import MODEL, Answer, Server, refusal_of

from rubrank.judges.client.client import Client, Deadline
from rubrank.judges.judge import Endpoint, Judge, Retry

DOWN = Answer(status=500, body="{}")
DENIED = Answer(status=401, body="{}")


def calls(number):
    return [call_of(str(i)) for i in range(number)]


def weighted(*servers_and_weights, **judge):
    endpoints = tuple(
        Endpoint(base_url=server.url, model=MODEL, weight=weight) for server, weight in servers_and_weights
    )
    return Judge(endpoints=endpoints, **{"retry": Retry(**QUICK), **judge})


def test_shares_follow_weights():
    with Server() as one, Server() as two:
        run(ask_all(weighted((one, 3.0), (two, 1.0)), calls(40)))
        assert (len(one.completions), len(two.completions)) == (30, 10)


def test_another_endpoint_takes_over_at_once():
    with Server([DOWN]) as bad, Server([Answer("good")]) as good:
        judge = judge_of(bad, good, retry={"first_wait": 60.0, "longest_wait": 60.0})  # a pause would fail the test
        replies, _ = run(ask_all(judge, calls(6)), seconds=30.0)
    assert [reply.text for reply in replies] == ["good"] * 6
    assert {reply.endpoint for reply in replies} == {good.url}


def test_what_is_wrong_for_good_here_may_be_right_there():
    with Server([DENIED]) as bad, Server([Answer("good")]) as good:
        replies, _ = run(ask_all(judge_of(bad, good, retry={"attempts": 1}), calls(4)))
        assert len(bad.completions) >= 1
    assert [reply.text for reply in replies] == ["good"] * 4


def test_all_endpoints_are_asked_before_a_call_is_given_up():
    with Server([DENIED]) as one, Server([DENIED]) as two, Server([refusal_of("messages")]) as three:
        reply = ask(judge_of(one, two, three, retry={"attempts": 1}))
        assert [len(server.completions) for server in (one, two, three)] == [1, 1, 1]
    assert reply.failure.startswith("HTTP 4")


def test_a_dead_server_is_no_harm():
    with Server([Answer("good")]) as good:
        replies, _ = run(ask_all(judge_of("http://127.0.0.1:9/v1", good), calls(20)))
    assert [reply.text for reply in replies] == ["good"] * 20


# ------------------------------------------------------------------------------------------------------------ breaker


def test_an_endpoint_that_keeps_failing_is_left_alone():
    with Server([DOWN]) as bad, Server([Answer("good")]) as good:
        judge = judge_of(bad, good, retry={"breaker_failures": 3, "breaker_pause": 600.0})

        async def main():
            async with Client(judge) as client:
                return [await client.ask(call) for call in calls(30)]

        assert [reply.text for reply in run(main())] == ["good"] * 30
        assert len(bad.completions) == 3


def test_it_is_tried_again_with_one_call_and_closes():
    with Server([DOWN] * 3 + [Answer("back", delay=0.3)]) as server:
        judge = judge_of(server, retry={"attempts": 9, "breaker_failures": 3, "breaker_pause": 0.5})

        async def main():
            async with Client(judge) as client:
                first = await client.ask(call_of("first"))
                return first, await asyncio.gather(*(client.ask(call) for call in calls(10)))

        first, others = run(main())
        asked = server.completions
    assert (first.text, first.attempts) == ("back", 4)
    assert asked[3].at - asked[2].at > 0.4
    assert [reply.text for reply in others] == ["back"] * 10


def test_one_call_alone_finds_out():
    with Server([DOWN] * 2 + [Answer("back", delay=0.5)]) as server:
        judge = judge_of(server, retry={"attempts": 2, "breaker_failures": 2, "breaker_pause": 0.3})

        async def main():
            async with Client(judge) as client:
                first = await client.ask(call_of("first"))  # opens the breaker
                tasks = [asyncio.create_task(client.ask(call)) for call in calls(8)]
                while len(server.completions) < 3:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
                return first, len(server.completions) - 2, await asyncio.gather(*tasks)

        first, out, others = run(main())
    assert first.failure == "outage: HTTP 500"
    assert out == 1
    assert [reply.text for reply in others] == ["back"] * 8


def test_a_cancelled_call_from_before_sends_no_second_one_to_find_out():
    """It went out while all was well; that it is given up says nothing about the call that finds out."""
    slow, trial = Answer("late", delay=5.0), Answer("back", delay=0.6)
    with Server([slow, DOWN, DOWN, trial]) as server:
        judge = judge_of(server, retry={"attempts": 2, "breaker_failures": 2, "breaker_pause": 0.2})

        async def reached(number):
            while len(server.completions) < number:
                await asyncio.sleep(0.01)

        async def main():
            async with Client(judge) as client:
                before = asyncio.create_task(client.ask(call_of("before")))
                await reached(1)
                await client.ask(call_of("first"))  # opens the breaker
                tasks = [asyncio.create_task(client.ask(call)) for call in calls(4)]
                await reached(4)
                before.cancel()
                await asyncio.sleep(0.3)
                return len(server.completions), await asyncio.gather(*tasks)

        out, others = run(main())
    assert out == 4
    assert [reply.text for reply in others] == ["back"] * 4


def test_waiting_for_a_dead_endpoint_ends():
    with Server([DOWN]) as server:
        judge = judge_of(server, retry={"attempts": 3, "breaker_failures": 2, "breaker_pause": 0.1})
        replies, client = run(ask_all(judge, calls(50)), seconds=30.0)
    assert all(reply.text is None and reply.failure for reply in replies)
    assert sum(client.usage.failures.values()) == 50
    assert len(server.completions) < 150


def test_who_was_never_sent_says_why():
    with Server([DOWN]) as server:
        judge = judge_of(server, retry={"attempts": 1, "breaker_failures": 1, "breaker_pause": 600.0})

        async def main():
            async with Client(judge) as client:
                first, second = calls(2)
                replies = [await client.ask(first)]
                client._endpoints[0].breaker.consecutive_openings = 3
                return [*replies, await client.ask(second)]

        first, second = run(main())
        assert len(server.completions) == 1
    assert (first.failure, first.attempts) == ("outage: HTTP 500", 1)
    assert (second.failure, second.attempts) == ("outage: HTTP 500", 0)


def test_the_deadline_ends_the_wait_for_a_breaker():
    with Server([DOWN]) as server:
        judge = judge_of(server, retry={"attempts": 9, "breaker_failures": 1, "breaker_pause": 600.0})
        replies, _ = run(ask_all(judge, calls(5), deadline=Deadline(20.0)), seconds=15.0)
    assert all(reply.text is None for reply in replies)


def test_a_call_that_nobody_likes_does_not_open_the_breaker():
    script = [Answer(status=400, body="{}")] * 5 + [Answer("good")]
    with Server(script) as server:
        judge = judge_of(server, retry={"breaker_failures": 2, "breaker_pause": 600.0})

        async def main():
            async with Client(judge) as client:
                return [await client.ask(call) for call in calls(6)]

        assert run(main())[-1].text == "good"


# ------------------------------------------------------------------------------------------------------------- limits


class Crowd:
    """How many requests are being answered at once; by the server's own clock."""

    def __init__(self, seconds):
        self.seconds, self.most, self.ends, self.lock = seconds, 0, [], threading.Lock()

    def __call__(self, asked):
        now = time.monotonic()
        with self.lock:
            self.ends = [end for end in self.ends if end > now] + [now + self.seconds]
            self.most = max(self.most, len(self.ends))
        return Answer(delay=self.seconds)


def test_no_more_at_once_than_allowed():
    crowd = Crowd(0.1)
    with Server(crowd) as server:
        replies, _ = run(ask_all(judge_of(server, endpoint={"concurrency": 5}), calls(40)))
        assert server.connections <= 5
    assert not any(reply.failure for reply in replies)
    assert crowd.most == 5


def test_connections_are_kept():
    with Server() as server:
        run(ask_all(judge_of(server, endpoint={"concurrency": 40}), calls(400)))
        assert server.connections <= 40


def test_requests_a_minute():
    with Server() as server:
        run(ask_all(judge_of(server, endpoint={"requests_per_minute": 600}), calls(20)))
        asked = server.completions
    assert asked[-1].at - asked[0].at > 0.8  # ten at once, the others a tenth of a second apart


def test_tokens_a_minute():
    with Server([Answer(usage=(900, 100, 0))]) as server:
        run(ask_all(judge_of(server, endpoint={"tokens_per_minute": 60_000, "concurrency": 2}), calls(7)))
        asked = server.completions
    assert asked[-1].at - asked[0].at > 1.0  # 7,000 tokens at 917 a second, of which 5,000 go out at once


def test_no_limits_no_waits():
    with Server() as server:
        replies, _ = run(ask_all(judge_of(server), calls(200)), seconds=30.0)
        prompts = Counter(asked.prompt for asked in server.completions)
    assert len(replies) == 200
    assert set(prompts.values()) == {1}
