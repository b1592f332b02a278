"""Accounts: sums, kinds of failures, percentiles, parts, merging, and the file that says the same as the account."""

import json

import numpy as np
import pytest
from calling import ask_all, call_of, judge_of, run
from server import Answer, Server

from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Call, Price, Reply, Usage


def call(purpose="Quality"):
    return Call((), purpose=purpose)


def reply(latency=1.0, failure=None, model="m", endpoint="http://a", attempts=1):
    return Reply("x", failure, Usage(10, 2, 1, 0.25), latency, attempts, model, endpoint)


def test_sums():
    account = Account()
    account.add(call(), reply(), requests=1)
    account.add(call(), reply(), requests=2, final=False)
    account.add(call(), reply(failure="refused: I cannot"), requests=1)
    account.add(call(), reply(failure="refused: no"), requests=1)
    account.add_hit(call(), reply())
    assert (account.calls, account.requests, account.hits) == (3, 5, 1)
    assert (account.input_tokens, account.output_tokens, account.cached_tokens, account.cost) == (40, 8, 4, 1.0)
    assert account.failures == {"refused": 2}
    assert len(account.latencies) == 3


def test_percentiles_are_those_of_the_calls():
    account = Account()
    for latency in np.random.default_rng(0).permutation(np.arange(1, 101)):
        account.add(call(), reply(float(latency)), requests=1)
    assert [account.latency(share) for share in (0.0, 0.5, 0.9, 0.99, 1.0)] == [1.0, 50.0, 90.0, 99.0, 100.0]


def test_nothing():
    account = Account()
    assert (account.calls, account.cost, account.latency(0.5), account.failures) == (0, 0.0, None, {})


def test_parts_and_merging():
    one, two = Account(), Account()
    one.add(call("A"), reply(1.0), requests=1)
    one.add(call("B"), reply(2.0, model="n"), requests=1)
    two.add(call("A"), reply(3.0, endpoint="http://b", failure="timeout after 3 s"), requests=4)
    two.add(call("A"), Reply(None, "deadline of the step passed", attempts=0), requests=0)
    both = Account.merge([one, two])
    assert (both.calls, both.requests, both.latency(1.0)) == (3, 6, 3.0)
    assert {name: line.calls for name, line in both.purposes.items()} == {"A": 2, "B": 1}
    assert {name: line.calls for name, line in both.models.items()} == {"m": 2, "n": 1}
    assert {name: line.requests for name, line in both.endpoints.items()} == {"http://a": 2, "http://b": 4}
    assert both.failures == {"timeout after 3 s": 1, "deadline of the step passed": 1}
    assert both.purposes["A"].failures == both.failures
    assert Account.merge([]).calls == 0


def test_for_machines():
    account = Account()
    account.add(call("A"), reply(2.0), requests=1)
    read = json.loads(json.dumps(account.as_dict()))
    assert (read["calls"], read["latency_p90"], read["purposes"]["A"]["cost"]) == (1, 2.0, 0.25)
    assert json.loads(json.dumps(Account().as_dict()))["latency_p50"] is None


@pytest.mark.slow
def test_the_file_says_what_the_tally_says(tmp_path):
    def script(asked):
        return Answer(finish_reason="length" if asked.number % 5 == 0 else "stop", usage=(asked.number, 3, 0))

    calls = [call_of(str(i), purpose=f"purpose {i % 3}") for i in range(30)]
    with Server(script) as server, ReplyCache(tmp_path / "r.sqlite") as store:
        judge = judge_of(server, endpoint={"price": Price(input=3.0, output=7.0)})
        _, first = run(ask_all(judge, calls, cache=store))
        _, second = run(ask_all(judge, calls, cache=store))
        asked = len(server.completions)
        live, on_disk = Account.merge([first.usage, second.usage]), Account.read(store)
    assert (live.calls, live.hits) == (asked, 60 - asked)
    assert live.input_tokens == sum(range(asked))
    assert live.cost == pytest.approx((3.0 * sum(range(asked)) + 7.0 * 3 * asked) / 1e6)
    one, other = live.as_dict(), on_disk.as_dict()
    assert one.pop("cost") == pytest.approx(other.pop("cost"))
    assert [*one["purposes"]] == [*other["purposes"]] == ["purpose 0", "purpose 1", "purpose 2"]
    for name in ("calls", "requests", "hits", "failures", "input_tokens", "output_tokens"):
        assert one[name] == other[name]
        assert [line[name] for line in one["purposes"].values()] == [line[name] for line in other["purposes"].values()]
    assert sorted(live.latencies) == sorted(on_disk.latencies)
