"""The service with judges: paid calls are never lost, and never paid twice."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
from judges.server import MODEL, Answer, Server
from service.service_calls import slime
from service.serving import process, serving

from rubrank import Group, RewardEngine, Rollout

SAID = ["The moon pulls the water.", "It is the moon.", "Gravity of the moon does it.", "No idea at all."]
RUBRIC = ["EmptyAnswer", {"name": "CoreIntentMatch"}, {"name": "WordCount", "params": {"low": 4}}]


def judges(server, **more):
    endpoint = {"base_url": server.url, "model": MODEL, "price": {"input": 1000.0, "output": 1000.0}}
    return {"judges": [{"kind": "absolute", "endpoints": [endpoint], "retry": {"attempts": 1}}], **more}


def verdict(asked):
    return Answer(json.dumps({"verdict": int("No idea" not in asked.prompt)}), delay=0.05)


def group(n=0):
    return {"id": f"0/{n}", "prompt": f"Explain tides {n}.", "responses": [f"{text} {n}" for text in SAID]}


def prompts(server):
    return Counter(json.dumps(asked.body["messages"], sort_keys=True) for asked in server.completions)


def test_rewards_with_judges_are_those_of_the_engine(tmp_path):
    with Server(verdict) as server:
        engine = RewardEngine(RUBRIC, judges=judges(server))
        rollouts = tuple(Rollout(prompt=group()["prompt"], response=text) for text in group()["responses"])
        want = engine.score([Group(id="0/0", rollouts=rollouts)], 0).rewards[0]
        with serving(tmp_path, rubric=RUBRIC, judges=judges(server)) as served:
            answer = served.call("/v1/groups", {"groups": [group()]})[1]
            again = served.call("/v1/groups", {"groups": [group()]})[1]
    assert answer["groups"][0]["rewards"] == list(want)
    assert (answer["cost"]["calls"], answer["cost"]["hits"]) == (4, 0)
    assert answer["cost"]["cost"] > 0
    assert (again["cost"]["calls"], again["cost"]["hits"], again["cost"]["cost"]) == (0, 4, 0)


def test_samples_are_judged_before_their_siblings_come(tmp_path):
    with Server(verdict) as server, serving(tmp_path, rubric=RUBRIC, judges=judges(server)) as served:

        async def main():
            async with aiohttp.ClientSession() as session:
                bodies = [{"prompt": "p", "response": text, "label": ""} for text in SAID]
                first = asyncio.create_task(slime(session, served.url, bodies[0]))
                await asyncio.sleep(0.6)
                begun = len(server.completions)
                rest = await asyncio.gather(*(slime(session, served.url, body) for body in bodies[1:]))
                return begun, [await first, *rest]

        begun, rewards = asyncio.run(main())
        assert begun == 1
        assert len(server.completions) == 4
        rollouts = tuple(Rollout(prompt="p", response=text) for text in SAID)
        engine = RewardEngine(RUBRIC, judges=judges(server))
        want = engine.score([Group(id="g", rollouts=rollouts)], 0).rewards[0]
    assert rewards == pytest.approx(list(want), abs=1e-12)


def test_judges_that_compare_see_the_whole_group(tmp_path):
    def ranked(asked):
        return Answer('{"verdict": [1, 2, 3, 4]}')

    compared = [{"name": "r", "kind": "listwise", "endpoints": [{"base_url": "", "model": MODEL}]}]
    with Server(ranked) as server:
        compared[0]["endpoints"][0]["base_url"] = server.url
        options = {"rubric": ["EmptyAnswer", "GeneralQuality"], "judges": {"judges": compared, "most_missing": 1.0}}
        with serving(tmp_path, **options) as served:

            async def main():
                async with aiohttp.ClientSession() as session:
                    bodies = [{"prompt": "p", "response": text, "label": ""} for text in SAID]
                    return await asyncio.gather(*(slime(session, served.url, body) for body in bodies))

            found = asyncio.run(main())
        assert len(found) == 4
        assert len(server.completions) == 1


def test_a_late_sample_adds_only_its_own_calls_to_the_metrics(tmp_path):
    with Server(verdict) as server:
        options = {"rubric": RUBRIC, "judges": judges(server), "deadline": 0.5}
        with serving(tmp_path, **options) as served:

            async def main():
                async with aiohttp.ClientSession() as session:
                    bodies = [{"prompt": "p", "response": text, "label": ""} for text in SAID]
                    await asyncio.gather(*(slime(session, served.url, body) for body in bodies[:3]))
                    await slime(session, served.url, bodies[3])

            asyncio.run(main())
            metrics = served.call("/metrics")[1]
        assert len(server.completions) == 4
    assert "rubrank_judge_calls_total 4.0" in metrics


@pytest.mark.slow
def test_pairs_are_judged_before_all_siblings_come_and_none_twice(tmp_path):
    def better(asked):
        text = asked.prompt
        at = sorted((text.rindex(said), rank) for rank, said in enumerate(SAID) if said in text)
        best = "AB"[at[0][1] > at[1][1]]
        return Answer(json.dumps({"reasoning": "so", "finding": f"{best} is better", "verdict": best}))

    with Server(better) as server:
        endpoint = {"base_url": server.url, "model": MODEL}
        compared = {"judges": [{"kind": "pairwise", "pairs": 5, "endpoints": [endpoint]}]}
        options = {"rubric": ["EmptyAnswer", "GeneralQuality"], "judges": compared, "group_size": 4}
        with serving(tmp_path, **options) as served:

            async def main():
                async with aiohttp.ClientSession() as session:
                    bodies = [{"prompt": "p", "response": text, "label": ""} for text in SAID]
                    first = []
                    for body in bodies[:3]:
                        first.append(asyncio.create_task(slime(session, served.url, body)))
                        await asyncio.sleep(0.1)
                    while len(server.completions) < 4:
                        await asyncio.sleep(0.01)
                    return [await slime(session, served.url, bodies[3]), *[await one for one in first]]

            last, *others = asyncio.run(asyncio.wait_for(main(), 20))
        assert others == sorted(others, reverse=True)
        assert last == min([last, *others])
        assert sum(prompts(server).values()) == len(prompts(server)) == 10


def test_failing_judges_are_a_503_and_the_next_try_goes_on(tmp_path):
    broken = threading.Event()
    broken.set()

    def script(asked):
        return Answer(status=400, body='{"error": {"message": "no"}}') if broken.is_set() else verdict(asked)

    with Server(script) as server, serving(tmp_path, rubric=RUBRIC, judges=judges(server)) as served:
        status, answer, headers = served.call("/v1/groups", {"groups": [group()]})
        assert status == 503
        assert "missing" in answer["error"]["message"]
        assert server.url not in answer["error"]["message"]  # where judges are is nothing for callers
        assert headers["retry-after"]

        async def main():
            async with aiohttp.ClientSession() as session:
                bodies = [{"prompt": "p", "response": text, "label": ""} for text in SAID]
                calls = [asyncio.create_task(slime(session, served.url, body)) for body in bodies]
                await asyncio.sleep(0.5)
                broken.clear()
                return await asyncio.gather(*calls)

        assert len(asyncio.run(main())) == 4


def test_a_key_that_a_judge_refuses_is_no_mistake_of_the_caller(tmp_path):
    refuses = Answer(status=401, body='{"error": {"message": "wrong key"}}')
    with Server(lambda asked: refuses) as server, serving(tmp_path, rubric=RUBRIC, judges=judges(server)) as served:
        status, answer, _ = served.call("/v1/groups", {"groups": [group()]})
    assert status == 503
    assert "refuses" in answer["error"]["got"]


def test_a_caller_that_goes_away_loses_no_paid_call(tmp_path):
    with Server(lambda asked: Answer('{"verdict": 1}', delay=0.6)) as server:
        with serving(tmp_path, rubric=RUBRIC, judges=judges(server), group_size=1) as served:
            body = {"prompt": "p", "response": SAID[0], "label": ""}
            with pytest.raises(TimeoutError):
                served.call("/slime", body, timeout=0.2)
            time.sleep(0.8)
            assert served.call("/slime", body)[0] == 200
        assert len(server.completions) == 1


@pytest.mark.slow
def test_kill_and_restart_amid_a_run_pays_nothing_twice(tmp_path):
    """Groups and single samples; whatever had been answered by a judge is not asked again."""
    with Server(verdict) as server:
        options = {"rubric": RUBRIC, "judges": judges(server), "deadline": 30.0}
        with process(tmp_path, **options) as served, ThreadPoolExecutor(12) as pool:
            calls = [pool.submit(served.call, "/v1/groups", {"groups": [group(n)]}) for n in range(60)]
            samples = [
                pool.submit(served.call, "/slime", {"prompt": "s", "response": text, "label": ""}) for text in SAID[:2]
            ]
            while len(server.completions) < 60:
                time.sleep(0.01)
            served.end(signal.SIGKILL)
            done = [call for call in calls if call.exception() is None]
            assert samples
        assert len(done) < 60
        paid = prompts(server)
        time.sleep(0.3)
        with process(tmp_path, **options) as served:
            with ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(lambda n: served.call("/v1/groups", {"groups": [group(n)]}), range(60)))
                rest = list(
                    pool.map(lambda t: served.call("/slime", {"prompt": "s", "response": t, "label": ""}), SAID)
                )
            assert served.end() == 0
        assert all(status == 200 for status, _, _ in answers + rest)
        again = prompts(server)
    # Only what was under way at the kill (at most one call for each of the 12 callers' 4 rollouts) may be asked twice.
    twice = sum(number - 1 for number in again.values())
    assert twice <= 12 * 4
    answered = {n for n, call in enumerate(calls) if call.exception() is None}
    for n in answered:
        assert answers[n][1]["groups"] == calls[n].result()[1]["groups"]
        assert answers[n][1]["cost"]["calls"] == 0
    assert sum(paid.values()) >= 60


@pytest.mark.slow
def test_an_orderly_end_waits_for_paid_calls_and_keeps_samples(tmp_path):
    with Server(lambda asked: Answer('{"verdict": 1}', delay=1.0)) as server:
        options = {"rubric": RUBRIC, "judges": judges(server), "deadline": 60.0}
        with process(tmp_path, **options) as served, ThreadPoolExecutor(4) as pool:
            whole = pool.submit(served.call, "/v1/groups", {"groups": [group()]})
            waits = [
                pool.submit(served.call, "/slime", {"prompt": "s", "response": text, "label": ""}) for text in SAID[:2]
            ]
            while len(server.completions) < 6:
                time.sleep(0.01)
            time.sleep(0.2)
            assert served.end() == 0
            assert whole.result()[0] == 200
            assert [call.result()[0] for call in waits] == [503, 503]
        asked = len(server.completions)
        with process(tmp_path, **options) as served:
            # The samples are in their group again, though only one of their callers comes back.
            with ThreadPoolExecutor(4) as pool:
                bodies = [{"prompt": "s", "response": SAID[i], "label": ""} for i in (0, 2, 3)]
                found = list(pool.map(lambda body: served.call("/slime", body), bodies))
            assert [status for status, _, _ in found] == [200, 200, 200]
            assert found[0][2]["x-rubrank-group"] == "complete 4/4"
        assert len(server.completions) == asked + 2
