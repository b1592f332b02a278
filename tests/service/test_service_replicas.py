"""Two replicas on Ray Serve, one of which is killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections import Counter

import aiohttp
import pytest
from judges.server import MODEL, Answer, Server
from service.serving import RUBRIC, process

from rubrank import InvalidInput, Rollout
from rubrank.service.config import parse_service

pytest.importorskip("ray", reason="ray[serve] is not installed")

SAID = ["The moon pulls the water.", "It is the moon.", "Gravity of the moon does it.", "No idea at all."]
JUDGED = ["EmptyAnswer", {"name": "CoreIntentMatch"}, {"name": "WordCount", "params": {"low": 4}}]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def replicas(session, url):
    found = set()
    for _ in range(200):
        async with session.get(f"{url}/healthz", headers={"Connection": "close"}) as response:
            found.add((await response.json())["process"])
        if len(found) == 2:
            return found
    raise AssertionError(f"only {len(found)} replicas answer")


async def sample(session, url, body):
    """As slime does: again after every error."""
    for attempt in range(40):
        try:
            async with session.post(f"{url}/slime?form=object", json=body) as response:
                response.raise_for_status()
                return await response.json()
        except aiohttp.ClientError:
            await asyncio.sleep(0.25 * min(attempt + 1, 8))
    raise AssertionError("no answer")


def verdict(asked):
    return Answer(json.dumps({"verdict": int("No idea" not in asked.prompt)}), delay=1.0)


@pytest.mark.slow
def test_two_replicas_share_groups_and_limits_and_one_may_die(tmp_path):
    groups, places = 8, 6
    with Server(verdict) as server:
        endpoint = {"base_url": server.url, "model": MODEL, "concurrency": places}
        options = {
            "rubric": JUDGED,
            "judges": {"judges": [{"kind": "absolute", "endpoints": [endpoint]}]},
            "port": free_port(),
            "deadline": 120.0,
        }
        env = {"RAY_memory_monitor_refresh_ms": "0", "RAY_DEDUP_LOGS": "0"}
        with process(tmp_path, "--ray", "--replicas", "2", env=env, **options) as served:

            async def main():
                async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
                    pids = await replicas(session, served.url)
                    bodies = [
                        {"prompt": f"p{g}", "response": f"{text} {g}", "label": "", "group_id": f"g{g}", "sample_id": i}
                        for g in range(groups)
                        for i, text in enumerate(SAID)
                    ]
                    calls = [asyncio.create_task(sample(session, served.url, body)) for body in bodies]
                    while len(server.completions) < 10:
                        await asyncio.sleep(0.05)
                    os.kill(sorted(pids)[0], signal.SIGKILL)
                    found = await asyncio.gather(*calls)
                    again = await asyncio.gather(*(sample(session, served.url, body) for body in bodies))
                    return found, again

            found, again = asyncio.run(main())
            assert served.end(timeout=120) == 0
    assert [one["reward"] for one in again] == [one["reward"] for one in found]
    assert all(one["complete"] for one in found)
    for g in range(groups):
        assert len({round(one["reward"], 9) for one in found[4 * g : 4 * g + 4]}) > 1
    # Places: at no time more calls than the endpoint has for all replicas together, but for those of the dead one.
    times = sorted((asked.at, asked.at + 1.0) for asked in server.completions)
    assert max(sum(begun <= at < end for begun, end in times) for at, _ in times) <= 2 * places
    # Paid twice: only what the replica that died was asking, or had asked for groups that were not scored yet.
    asked = Counter(json.dumps(one.body["messages"]) for one in server.completions)
    assert set(asked.values()) <= {1, 2}


def test_what_replicas_cannot_do_is_refused(tmp_path):
    from rubrank.service.replicas import check_replicas

    with pytest.raises(InvalidInput, match="remembers"):
        check_replicas(parse_service({"rubric": RUBRIC, "rule": "amrp"}), tmp_path)
    (tmp_path / "c").write_text("")
    with pytest.raises(InvalidInput, match="certificate"):
        check_replicas(parse_service({"rubric": RUBRIC, "certificate": "c", "private_key": "c"}), tmp_path)
    check_replicas(parse_service({"rubric": RUBRIC}), tmp_path)


def test_the_actor_gives_errors_as_they_are(tmp_path):
    """Without Ray: what the actor answers, and that a dead replica's work goes to another."""
    from rubrank.service.cohorts import Cohorts, GroupWork, ServiceSample
    from rubrank.service.replicas import CohortsActor

    def one(i, size=2):
        rollout = Rollout(prompt="p", response=f"text {i}")
        return ServiceSample(b"key", bytes([i]), True, rollout, size, "0/g")

    async def main():
        actor = CohortsActor(str(tmp_path), 60.0, 60.0)
        first = (await actor.call("a", Cohorts.add_sample, one(0), "a")).value
        assert isinstance((await actor.call("b", Cohorts.add_sample, one(1, size=3), "b")).error, InvalidInput)
        second = (await actor.call("b", Cohorts.add_sample, one(1), "b")).value
        waiting = asyncio.create_task(actor.call("a", Cohorts.wait_for_siblings, first, None))
        other = asyncio.create_task(actor.call("b", Cohorts.wait_for_siblings, second, None))
        await asyncio.sleep(0.1)
        assert waiting.done() != other.done()
        leader, rest = ("a", other) if waiting.done() else ("b", waiting)
        actor.get_cohorts().remove_replica(leader)
        work = (await asyncio.wait_for(rest, 5)).value
        assert isinstance(work, GroupWork)
        assert len(work.group.rollouts) == 2
        actor.close()

    asyncio.run(main())
