"""How long do judged calls take beside the ideal, and what do they cost the processor? One run, one table in Markdown.

    python benchmarks/latency.py            about two minutes
    python benchmarks/latency.py --quick    a few calls, to see that it works
    python benchmarks/latency.py --json out.json

    places        64, 256 and 768 calls of 2 s at a time; beside it the official client as installed, and aiohttp
    batched       a step of 256 rollouts × 8 criteria, one call a rollout (kind: batched), graded by `rubrank.grade`
    two           two processes with half of the endpoint's 256 places each; the server counts how many it really sees
    slow          256 calls at 256 places, of which one in fifty takes ten times as long: half of all are back after …

The server is a process of its own. Replies of rubrank are kept in a file, as users have it; the others keep none. The
ideal is calls × delay / places. Processor time is that of the asking process, per call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import judging
from judging import MODEL, SCHEMA, SERVER, ask_all, bare
from openai import AsyncOpenAI

from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Sampling

Ask = Callable[[Call], Awaitable[object]]

SLOW = 10
"""Times the usual delay; one call in fifty."""
_BEFORE = {
    "768 at 768": "7.5 s, 1.3 ms",
    "batched": "4.5 s a step where 2.5 is ideal",
    "two processes": "768 seen at 64 allowed",
    "slow": "p50 23 s",
}
"""As it was with clients of every group, step and worker; measured on the same two cores."""


@dataclass(frozen=True)
class Row:
    """One measurement."""

    what: str
    who: str
    seconds: float
    ideal: float
    processor: float
    """Milliseconds a call."""
    note: str = ""

    def __str__(self) -> str:
        ratio = f" ({self.seconds / self.ideal:.2f} ×)" if self.ideal else ""
        return f"{self.seconds:.2f} s{ratio}, {self.processor:.2f} ms{', ' + self.note if self.note else ''}"


# ---------------------------------------------------------------------------------------------------------- the server


def serve(delay: float, slow: bool) -> None:
    """Until its input closes; says its address, and at the end how many calls there were and how many at once."""
    sys.path.append(str(SERVER.parent))
    from server import Answer, Asked, Server  # type: ignore[import-not-found]

    ends: list[float] = []
    peak = 0

    def answer(asked: Asked) -> Answer:
        nonlocal peak
        now = time.monotonic()
        while ends and ends[0] <= now:
            heappop(ends)
        after = delay * (SLOW if slow and asked.number % 50 == 7 else 1)
        heappush(ends, now + after)
        peak = max(peak, len(ends))
        return Answer(_reply(asked.body["response_format"]["json_schema"]["schema"]["properties"]), delay=after)

    server = Server(answer)
    loop = asyncio.new_event_loop()
    threading.Thread(target=lambda: loop.run_until_complete(server.serve()), daemon=True).start()
    while not server.url:
        time.sleep(0.01)
    print(server.url, flush=True)
    sys.stdin.read()
    print(json.dumps({"asked": len(server.completions), "peak": peak}), flush=True)
    os._exit(0)


def _reply(properties: dict[str, Any]) -> str:
    """What a judge says to a schema: one verdict, or one for each criterion."""
    entry = {"reasoning": "r", "finding": "holds", "verdict": 1}
    return json.dumps(entry if "verdict" in properties else dict.fromkeys(properties, entry))


@contextmanager
def serving(delay: float, slow: bool = False) -> Iterator[tuple[str, dict[str, int]]]:
    """The address of a server, and what it counted once it has ended."""
    command = [sys.executable, __file__, "--serve", json.dumps([delay, slow])]
    counted: dict[str, int] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip(), counted
        finally:
            counted |= json.loads(server.communicate()[0].splitlines()[-1])


# ----------------------------------------------------------------------------------------------------------- the askers


def judge_at(url: str, places: int, **more: Any) -> Judge:
    endpoint = Endpoint(base_url=url, model=MODEL, concurrency=places)
    return Judge(endpoints=(endpoint,), sampling=Sampling(max_tokens=256), **more)


class Stopwatch:
    """Seconds by the clock and of the processor."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._spent = time.process_time()

    def stop(self) -> Stopwatch:
        """Itself, and it shows this moment from now on."""
        self.seconds = time.perf_counter() - self._begun
        self.processor = time.process_time() - self._spent
        return self

    def row(self, what: str, who: str, calls: int, ideal: float) -> Row:
        """What it shows."""
        return Row(what, who, round(self.seconds, 2), round(ideal, 2), round(1e3 * self.processor / calls, 3))


async def ours(url: str, calls: int, places: int, folder: str, processes: int = 1) -> Stopwatch:
    """rubrank's client; twice as many calls wait as there are places, as in a step."""
    with ReplyCache(Path(folder) / "replies.sqlite") as store:
        judge = judge_at(url, places)
        settings = Judges(judges=(judge,), on_outage="continue", processes=processes)
        async with Client(judge, settings, cache=store) as client:
            await client.ask(Call(({"role": "user", "content": f"warm {os.getpid()}"},), schema=SCHEMA))
            watch = Stopwatch()
            await ask_all(answered(client), calls, 2 * places)
            return watch.stop()


def answered(client: Client) -> Ask:
    async def ask(call: Call) -> None:
        reply = await client.ask(call)
        if reply.failure is not None:
            raise RuntimeError(reply.failure)

    return ask


async def official(url: str, calls: int, places: int) -> Stopwatch:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        watch = Stopwatch()
        await ask_all(bare(client), calls, places)
        return watch.stop()


async def by_aiohttp(url: str, calls: int, places: int) -> Stopwatch:
    """The least that a general client does: the same body, the text of the reply."""
    import aiohttp

    form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}}
    more = {"model": MODEL, "max_tokens": 256, "temperature": 0.0, "response_format": form}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(call: Call) -> None:
            body = json.dumps({"messages": list(call.messages), **more}).encode()
            async with session.post(f"{url}/chat/completions", data=body) as response:
                json.loads(await response.read())["choices"][0]["message"]["content"]

        watch = Stopwatch()
        await ask_all(ask, calls, places)
        return watch.stop()


def at_places(calls: int, places: int, delay: float) -> Iterator[Row]:
    """The three clients, one after another."""
    what = f"{calls:,} at {places}"
    ideal = calls * delay / places
    with serving(delay) as (url, _), tempfile.TemporaryDirectory() as folder:
        yield asyncio.run(ours(url, calls, places, folder)).row(what, "rubrank", calls, ideal)
        yield asyncio.run(official(url, calls, places)).row(what, "openai", calls, ideal)
        yield asyncio.run(by_aiohttp(url, calls, places)).row(what, "aiohttp", calls, ideal)


def batched(rollouts: int, delay: float) -> Iterator[Row]:
    """A step as trainers grade it."""
    from rubrank import Group, grade
    from rubrank.training.rollouts import rollout_of

    size = 8
    K = 8
    groups = [
        Group(
            id=f"{n}",
            rollouts=tuple(rollout_of(f"Explain tides {n}.", f"The moon {n} pulls {i} times.") for i in range(size)),
        )
        for n in range(rollouts // size)
    ]
    rubric = [{"name": f"C{k}", "question": f"Does it name reason {k}?", "domain": "binary"} for k in range(K)]
    what = f"batched: a step of {rollouts} rollouts × {K} criteria at {rollouts}"
    with serving(delay) as (url, _), tempfile.TemporaryDirectory() as folder:
        judges = {"judges": [judge_at(url, rollouts, kind="batched").model_dump()], "cache": f"{folder}/replies.sqlite"}
        grade(groups[:1], rubric, judges=judges, workers=0)
        watch = Stopwatch()
        table = grade(groups[1:], rubric, judges=judges, workers=0)
        watch.stop()
        calls = rollouts - size
        assert all((group.scores == 1).all() for group in table.groups)
        yield watch.row(what, "rubrank", calls, delay)


def two(calls: int, places: int, delay: float) -> Iterator[Row]:
    """Two processes that share one endpoint's limit."""
    what = f"two processes: {calls:,} at {places} in all"
    ideal = calls * delay / places
    with tempfile.TemporaryDirectory() as folder:
        with serving(delay) as (url, counted):
            specs = [json.dumps([url, calls // 2, places, folder, first]) for first in (0, calls)]
            command = [sys.executable, __file__, "--child"]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            children = [subprocess.Popen([*command, spec], **pipes) for spec in specs]
            for child in children:
                assert child.stdout is not None
                child.stdout.readline()  # it is ready
            replies = [json.loads(out) for out in _read_outputs(children)]
        seconds = max(reply["seconds"] for reply in replies)
        processor = statistics.fmean(reply["processor"] for reply in replies)
        yield Row(what, "rubrank", seconds, round(ideal, 2), round(processor, 3), f"{counted['peak']} seen at once")


def _read_outputs(children: list[subprocess.Popen[str]]) -> list[str]:
    """Begin all, then read what each has to say."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return [child.communicate()[0].splitlines()[-1] for child in children]


def child(spec: str) -> None:
    """One of two processes."""
    url, calls, places, folder, first = json.loads(spec)
    judging._numbers = count(first)  # not what the other asks: it would wait for that, and be given the reply
    print("ready", flush=True)
    sys.stdin.readline()
    row = asyncio.run(ours(url, calls, places, folder, processes=2)).row("", "", calls, 0.0)
    print(json.dumps(asdict(row)), flush=True)


def slow(calls: int, delay: float) -> Iterator[Row]:
    """One call in fifty takes ten times as long; the others do not wait for it."""
    what = f"2% slow: {calls} at {calls}, one in 50 takes {SLOW * delay:g} s"

    async def run(url: str, folder: str) -> tuple[list[float], Stopwatch]:
        took: list[float] = []
        with ReplyCache(Path(folder) / "replies.sqlite") as store:
            async with Client(judge_at(url, calls), cache=store) as client:
                ask = answered(client)
                watch = Stopwatch()

                async def timed(call: Call) -> None:
                    await ask(call)
                    took.append(time.perf_counter() - begun)

                begun = time.perf_counter()
                await ask_all(timed, calls, calls)
                return took, watch.stop()

    with serving(delay, slow=True) as (url, _), tempfile.TemporaryDirectory() as folder:
        took, watch = asyncio.run(run(url, folder))
        all_of_it = watch.row(what, "rubrank", calls, SLOW * delay)
    p50 = statistics.median(took)
    p90 = statistics.quantiles(took, n=10)[-1]
    note = f"p90 {p90:.2f} s, the last after {all_of_it.seconds:.2f} s"
    yield Row(what, "rubrank", round(p50, 2), delay, all_of_it.processor, note)


# ---------------------------------------------------------------------------------------------------------------- table


def table(rows: list[Row]) -> str:
    """In Markdown: a line for each measurement, who was measured in columns."""
    who = ("rubrank", "openai", "aiohttp")
    heads = ("calls", "before", "ideal", "rubrank", "the openai client as installed", "aiohttp by itself")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for what in dict.fromkeys(row.what for row in rows):
        row_by_name = {row.who: row for row in rows if row.what == what}
        before = next((was for name, was in _BEFORE.items() if name in what), "–")
        ideal = f"{row_by_name['rubrank'].ideal:g} s"
        lines.append(
            f"| {what} | {before} | {ideal} | " + " | ".join(str(row_by_name.get(client, "–")) for client in who) + " |"
        )
    return "\n".join(lines)


def measured(quick: bool) -> Iterator[Row]:
    """All rows."""
    delay = 0.1 if quick else 2.0
    plan = [(16, 8)] if quick else [(256, 64), (1024, 256), (768, 768)]
    for calls, places in plan:
        yield from at_places(calls, places, delay)
    yield from batched(16 if quick else 264, delay)
    yield from two(32 if quick else 1024, 8 if quick else 256, delay)
    yield from slow(100 if quick else 256, delay)


def main(argv: list[str] | None = None) -> None:
    """The table, or one of the processes that it takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few calls only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve(*json.loads(options.serve))
    elif options.child:
        child(options.child)
    else:
        load = os.getloadavg()[0]
        rows = list(measured(options.quick))
        print(table(rows))
        print(f"\nSeconds (× ideal), milliseconds of processor a call. Load {load:.1f} to {os.getloadavg()[0]:.1f}.")
        if options.json:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
