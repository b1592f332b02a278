"""What does the service cost beside the engine in the same process, and what do many callers with slow judges get?

    python benchmarks/service.py                 some minutes on two cores
    python benchmarks/service.py --quick         a few groups, to see that it works
    python benchmarks/service.py --json out.json

    rules     2,000 groups of 8, ten criteria by rules, one group a request, 32 at a time: the service beside
              `RewardEngine.score` on the same groups, made ready before
    judges    256 callers at the same time with a judge that takes 2 s, 8 calls of each: seconds beside the ideal
    memory    resident bytes of the service after each quarter of the groups
    kill      kill −9 amid the judged groups, and a restart: calls that were paid twice

Callers are a process of their own, and so is the judge. The share of the engine's speed is given twice: by the clock,
which on a busy machine says more about the others, and by processor seconds of the service's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from rubrank import Group, RewardEngine
from rubrank.training.rollouts import rollout_of

HERE = Path(__file__).resolve().parent
JUDGE = HERE.parent / "tests" / "judges" / "server.py"
WORDS = (
    "the moon pulls water so tides rise and fall twice a day because the earth turns under it while the sun adds some"
)
RUBRIC: list[Any] = [
    "EmptyAnswer",
    "ThinkLeak",
    {"name": "WordCount", "params": {"low": 50, "high": 120}},
    {"name": "SentenceCount", "params": {"relation": "at least", "count": 5}},
    {"name": "ParagraphCount", "params": {"relation": "at least", "count": 1}},
    {"name": "BulletCount", "params": {"relation": "at most", "count": 3}},
    {"name": "Keyword", "params": {"keywords": ["because", "moon"]}},
    {"name": "ForbiddenContent", "params": {"words": ["obviously", "some"]}},
    {"name": "LetterFrequency", "params": {"letter": "q", "relation": "less than", "count": 20}},
    "punctuation:no_comma",
]
JUDGED: list[Any] = ["EmptyAnswer", {"name": "CoreIntentMatch"}, {"name": "WordCount", "params": {"low": 5}}]


def texts(groups: int, size: int) -> list[list[str]]:
    rng = random.Random(0)
    words = WORDS.split()

    def text() -> str:
        chosen_words = [rng.choice(words) + ("." if rng.random() < 0.1 else "") for _ in range(rng.randint(30, 160))]
        return " ".join(chosen_words).capitalize() + "."

    return [[text() for _ in range(size)] for _ in range(groups)]


class Service:
    """`rubrank serve` as a process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        path = folder / "service.yaml"
        path.write_text(yaml.safe_dump({"port": 0, **options}))
        command = [sys.executable, "-m", "rubrank", "serve", str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.url = next(line for line in self.process.stderr if "serving on" in line).split()[-1]

    async def ready(self, session: aiohttp.ClientSession) -> None:
        """Wait until it takes requests."""
        while True:
            async with session.get(f"{self.url}/readyz") as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.1)

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        """Bytes of memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self, how: int = signal.SIGTERM) -> None:
        """And wait for it."""
        self.process.send_signal(how)
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


async def post_all(url: str, bodies: list[Any], places: int, done: list[int] | None = None) -> list[Any]:
    """All bodies, so many at a time; exceptions stand for what failed. done: grows with every answer."""
    limit = asyncio.Semaphore(places)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=3600)) as session:

        async def post(body: Any) -> Any:
            async with limit:
                try:
                    async with session.post(f"{url}/v1/groups", data=body) as response:
                        response.raise_for_status()
                        answer = await response.read()
                        if done is not None:
                            done.append(1)
                        return answer
                except aiohttp.ClientError as error:
                    return error

        return await asyncio.gather(*map(post, bodies))


def body_of(n: int, said: list[str], **more: Any) -> bytes:
    group = {"id": f"0/{n}", "prompt": f"Explain tides {n}.", "responses": said}
    return json.dumps({"groups": [group], "reasons": False, **more}).encode()


async def rules(groups: int, size: int, places: int) -> dict[str, Any]:
    """The service beside the engine."""
    responses = texts(groups, size)
    engine = RewardEngine(RUBRIC)
    graded_groups = [
        Group(id=f"0/{n}", rollouts=tuple(rollout_of(f"Explain tides {n}.", text) for text in some))
        for n, some in enumerate(responses)
    ]
    engine.score(graded_groups[: groups // 4], 0)
    begun = time.perf_counter()
    spent = time.process_time()
    rewards = engine.score(graded_groups, 0).rewards
    alone = time.perf_counter() - begun
    processor = time.process_time() - spent
    bodies = [body_of(n, some) for n, some in enumerate(responses)]
    memory = []
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), rubric=RUBRIC)
        async with aiohttp.ClientSession() as session:
            await service.ready(session)
        await post_all(service.url, bodies[: groups // 4], places)
        before = service.processor()
        start = time.perf_counter()
        answers = []
        for quarter in range(4):
            answers += await post_all(service.url, bodies[quarter * groups // 4 : (quarter + 1) * groups // 4], places)
            memory.append(round(service.resident() / 2**20))
        seconds = time.perf_counter() - start
        used = service.processor() - before
        service.end()
    same = [json.loads(answer)["groups"][0]["rewards"] for answer in answers] == [list(some) for some in rewards]
    return {
        "groups": groups,
        "engine": {"seconds": round(alone, 2), "processor": round(processor, 2)},
        "service": {"seconds": round(seconds, 2), "processor": round(used, 2)},
        "share by the clock": round(alone / seconds, 3),
        "share by processor seconds": round(processor / used, 3),
        "same bits": same,
        "resident MB": memory,
    }


def judge(delay: float) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, str(JUDGE), "--delay", str(delay)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def stop_judge(process: subprocess.Popen[str]) -> int:
    """End the judge; how often it was asked."""
    out, _ = process.communicate()
    return int(json.loads(out.splitlines()[-1])["asked"])


def make_settings(url: str, places: int) -> dict[str, Any]:
    endpoint = {"base_url": url, "model": "test-model", "concurrency": places}
    return {
        "rubric": JUDGED,
        "judges": {"judges": [{"kind": "absolute", "endpoints": [endpoint]}], "most_missing": 1.0},
    }


async def judges(callers: int, rounds: int, delay: float) -> dict[str, Any]:
    """Many callers, each with one rollout after another, and a slow judge."""
    process, url = judge(delay)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), **make_settings(url, callers))
        async with aiohttp.ClientSession() as session:
            await service.ready(session)
        bodies = [body_of(n, [f"A text of a few words {n}."]) for n in range(callers * rounds)]
        before = service.processor()
        start = time.perf_counter()
        own_seconds = time.process_time()
        answers = await post_all(service.url, bodies, callers)
        seconds = time.perf_counter() - start
        used = service.processor() - before
        own_seconds = time.process_time() - own_seconds
        failed = sum(isinstance(answer, Exception) for answer in answers)
        service.end()
    stop_judge(process)
    ideal = rounds * delay
    return {
        "callers": callers,
        "requests": len(bodies),
        "failed": failed,
        "seconds": round(seconds, 2),
        "ideal": ideal,
        "share of the ideal": round(ideal / seconds, 3),
        "processor ms a request": round(1000 * used / len(bodies), 2),
        "processor ms of its caller": round(1000 * own_seconds / len(bodies), 2),
    }


async def kill(groups: int, delay: float) -> dict[str, Any]:
    """kill −9 when a third is done, then all again: what the judge was asked twice."""
    process, url = judge(delay)
    places = 16
    with tempfile.TemporaryDirectory() as folder:
        bodies = [body_of(n, [f"A text of a few words {n} {i}." for i in range(4)]) for n in range(groups)]
        service = Service(Path(folder), **make_settings(url, places))
        async with aiohttp.ClientSession() as session:
            await service.ready(session)
        done: list[int] = []
        running = asyncio.create_task(post_all(service.url, bodies, places, done=done))
        while len(done) < groups // 3:
            await asyncio.sleep(0.02)
        service.end(signal.SIGKILL)
        first = await running
        service = Service(Path(folder), **make_settings(url, places))
        async with aiohttp.ClientSession() as session:
            await service.ready(session)
        second = await post_all(service.url, bodies, places)
        service.end()
    calls = stop_judge(process)
    answered = [n for n, answer in enumerate(first) if not isinstance(answer, Exception)]
    again = sum(json.loads(second[n])["cost"]["calls"] for n in answered)
    return {
        "groups": groups,
        "answered before the kill": len(answered),
        "of these paid again": again,
        "calls": calls,
        "needed": groups * 4,
        "under way at the kill, at most": 2 * places,  # in flight, and come in but not on disk yet
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    few = options.quick
    figures = {
        "load": os.getloadavg()[0],
        "rules": asyncio.run(rules(40 if few else 2000, 8, 32)),
        "judges": asyncio.run(judges(8 if few else 256, 2 if few else 8, 0.2 if few else 2.0)),
        "kill": asyncio.run(kill(12 if few else 100, 0.05 if few else 0.2)),
    }
    print(json.dumps(figures, indent=2))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
