"""A sign of life from every endpoint before a run, over real HTTP."""

import asyncio
import json

import pytest
from calling import call_of, judge_of, run
from server import Answer, Server

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client
from rubrank.judges.client.usage import Account


def check(*servers, **judge):
    async def main():
        async with Client(judge_of(*servers, **judge)) as client:
            await client.check()
            return client.usage

    return run(main())


def test_check_asks_for_the_models_and_pays_nothing():
    with Server() as one, Server() as two:
        assert check(one, two).calls == 0
        assert [asked.path for asked in one.asked + two.asked] == ["/v1/models"] * 2


@pytest.mark.parametrize("models", [None, ["another"]])
def test_check_falls_back_to_a_completion(models):
    with Server(models=models) as server:
        account = check(server)
        assert server.completions[0].body["max_tokens"] == 1
    assert (account.calls, account.input_tokens) == (1, 100)


def test_check_takes_a_model_that_thinks_first():
    with Server([Answer(None, finish_reason="length", message={"reasoning_content": "H"})], models=None) as server:
        assert check(server).calls == 1


def test_check_says_that_nobody_is_there():
    with pytest.raises(InvalidInput, match=r"base_url must be an endpoint that answers; got http://127.0.0.1:9/v1"):
        check("http://127.0.0.1:9/v1")


@pytest.mark.parametrize("status", [401, 403])
def test_check_says_that_the_key_is_refused(status):
    answer = Answer(status=status, body=json.dumps({"error": {"message": "Incorrect API key"}}))
    with Server([answer], models=None) as server, pytest.raises(InvalidInput, match="Set OPENAI_API_KEY"):
        check(server)


def test_check_says_that_the_model_is_unknown():
    answer = Answer(status=404, body=json.dumps({"error": {"message": "no such model"}}))
    with (
        Server([answer], models=["test-models"]) as server,
        pytest.raises(UnknownName, match="Did you mean 'test-models'"),
    ):
        check(server)
    with Server([answer], models=None) as server, pytest.raises(InvalidInput, match="no such model"):
        check(server)


def test_a_check_waits_for_a_place():
    async def main(server):
        async with Client(judge_of(server, endpoint={"concurrency": 1})) as client:
            await asyncio.gather(client.ask(call_of()), client.check())

    with Server([Answer(delay=0.2)]) as server:
        run(main(server))
        assert server.connections == 1


def test_what_a_check_cost_is_in_the_ledger(tmp_path):
    async def main(server, store):
        async with Client(judge_of(server), cache=store) as client:
            await client.check()

    with Server(models=None) as server, ReplyCache(tmp_path / "r.sqlite") as store:
        run(main(server, store))
        assert Account.read(store).purposes["check"].input_tokens == 100
