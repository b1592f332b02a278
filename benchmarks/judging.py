"""How much of a server's speed does the judges' client pass on? Everything in one run.

    python benchmarks/judging.py                     the full run, a few minutes
    python benchmarks/judging.py --quick             a few calls, to see that it works
    python benchmarks/judging.py --json result.json  the same figures for machines

A server that answers after two seconds shows whether all places are kept filled: 256 at once make 128 calls a second at
best. The endpoint's concurrency is 256; twice as many calls are under way, as in a step of training, so that one waits
for every place. A server that answers at once shows what the layer itself takes: the rival is the official client as it
comes, with the same calls and as many at once. Both run against the server of the tests, in a process of its own.
Seconds are those of a clock on the wall, since the cache is written by another thread; contenders take turns.

Replies are kept in a file unless a row says otherwise, as users have it. Memory is read from /proc, so that row needs
Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from rich.console import Console
from side_by_side import Contender, Row, as_json, at_most, busy, faster, load, machine, show, side_by_side

from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import Client
from rubrank.judges.judge import Call, Endpoint, Judge, Sampling

Ask = Callable[[Call], Awaitable[object]]

PACKAGES = ("openai", "httpx2", "aiolimiter")
SERVER = Path(__file__).parents[1] / "tests" / "judges" / "server.py"
MODEL = "test-model"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "number"}}, "required": ["verdict"]}
RUBRIC = "You judge responses by one criterion, reason first, and then give a verdict of 0, 0.5 or 1. " * 10
RESPONSE = "The response goes on for a while about this and that, and makes its point in the end. " * 35


@dataclass(frozen=True)
class Plan:
    """How much to run."""

    calls: int = 4000
    early: int = 1000
    at_once: int = 256
    delay: float = 2.0
    instant_calls: int = 1000
    rounds: int = 7

    @property
    def ideal(self) -> float:
        """Seconds, if all places were filled all the time."""
        return self.calls * self.delay / self.at_once


QUICK = Plan(calls=64, early=16, at_once=16, delay=0.05, instant_calls=48, rounds=1)

_numbers = count()


def new_call() -> Call:
    """Four kilobytes that were not asked before."""
    messages = (
        {"role": "system", "content": RUBRIC},
        {"role": "user", "content": f"Response {next(_numbers)}: {RESPONSE}"},
    )
    return Call(messages, schema=SCHEMA, purpose="benchmark")


@contextmanager
def serving(delay: float) -> Iterator[str]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, str(SERVER), "--delay", str(delay)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.communicate()  # closes its input, upon which it ends


def judge_at(url: str, plan: Plan) -> Judge:
    endpoint = Endpoint(base_url=url, model=MODEL, concurrency=plan.at_once)
    return Judge(endpoints=(endpoint,), sampling=Sampling(max_tokens=256))


async def ask_all(ask: Ask, calls: int, at_once: int, passed: Callable[[int], None] = lambda done: None) -> None:
    """So many calls, so many at once; `passed` is told how many are done."""
    left = iter(range(calls))
    done = count(1)

    async def work() -> None:
        for _ in left:
            await ask(new_call())
            passed(next(done))

    await asyncio.gather(*(work() for _ in range(at_once)))


async def timed(job: Awaitable[None]) -> float:
    start = time.perf_counter()
    await job
    return time.perf_counter() - start


def answered(client: Client) -> Ask:
    """Only replies count."""

    async def ask(call: Call) -> None:
        reply = await client.ask(call)
        if reply.failure is not None:
            raise RuntimeError(f"a call failed: {reply.failure}")

    return ask


# ------------------------------------------------------------------------------------------------ a server that thinks


def filled(plan: Plan) -> Iterator[Row]:
    """Are all places kept filled, and does memory stay flat meanwhile?"""
    megabytes: dict[int, float] = {}

    def passed(done: int) -> None:
        if done in (plan.early, plan.calls):
            megabytes[done] = resident()

    with serving(plan.delay) as url, tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "r") as store:

        async def ours() -> float:
            async with Client(judge_at(url, plan), cache=store) as client:
                return await timed(ask_all(answered(client), plan.calls, 2 * plan.at_once, passed))

        async def theirs() -> float:
            async with AsyncOpenAI(base_url=url, api_key="none") as client:
                return await timed(ask_all(bare(client), plan.calls, plan.at_once))

        seconds = asyncio.run(ours())
        rivals = asyncio.run(theirs())
    section = f"{plan.calls:,} calls, {plan.at_once} at once, replies after {plan.delay:g} s"
    yield faster(section, "all calls", seconds, "all places filled", plan.ideal, 0.9)
    yield faster(section, "the same", seconds, "openai, as it comes", rivals)
    if megabytes[plan.early]:
        case = f"memory after {plan.calls:,} calls"
        early = f"after {plan.early:,} calls"
        yield at_most(section, case, megabytes[plan.calls], early, megabytes[plan.early], 1.1, unit="MB")


def resident() -> float:
    """Megabytes of this process; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if status.exists() else 0.0


# ---------------------------------------------------------------------------------------- a server that answers at once


def bare(client: AsyncOpenAI) -> Ask:
    """The official client, asked for the same."""
    form: Any = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}}

    async def ask(call: Call) -> None:
        messages: Any = list(call.messages)
        reply = await client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=256, temperature=0.0, response_format=form
        )
        if not reply.choices[0].message.content:
            raise RuntimeError("an empty reply")

    return ask


def instant(plan: Plan) -> Iterator[Row]:
    """What does the layer itself take?"""
    with (
        serving(0.0) as url,
        tempfile.TemporaryDirectory() as folder,
        ReplyCache(Path(folder) / "r") as store,
        asyncio.Runner() as runner,
    ):
        stack = AsyncExitStack()
        judge = judge_at(url, plan)
        rival = AsyncOpenAI(base_url=url, api_key="none")
        clients = {"no cache": Client(judge), "replies kept in a file": Client(judge, cache=store)}
        for client in clients.values():
            runner.run(stack.enter_async_context(client))

        def contender(ask: Ask) -> Contender:
            job = lambda _: runner.run(ask_all(ask, plan.instant_calls, plan.at_once))  # noqa: E731
            return Contender(job, clock=time.perf_counter)

        contenders = {"rival": contender(bare(rival))}
        contenders |= {case: contender(answered(client)) for case, client in clients.items()}
        seconds = side_by_side(contenders, plan.rounds)
        runner.run(stack.aclose())
        runner.run(rival.close())
    section = f"{plan.instant_calls:,} calls, {plan.at_once} at once, replies at once"
    for case in clients:
        yield faster(section, case, seconds[case], "openai, as it comes", seconds["rival"], 0.8)


# --------------------------------------------------------------------------------------------------------------- main


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few calls only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args(argv)
    plan = QUICK if arguments.quick else Plan()
    console = Console()
    loads = [load()]
    results = [*filled(plan), *instant(plan)]
    loads.append(load())
    show("judging", results, console)
    rates = {row.case: round(calls_of(row, plan) / row.ours, 1) for row in results if row.bar and row.unit == "s"}
    console.print("calls a second: " + ", ".join(f"{case} {rate:g}" for case, rate in rates.items()))
    if busy(loads):
        console.print(f"The machine was busy (load {loads[0]} and {loads[1]}): both sides come out slower.")
    if arguments.json:
        figures = {"machine": machine(PACKAGES), "load": loads, "calls_per_second": rates, "rows": as_json(results)}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def calls_of(row: Row, plan: Plan) -> int:
    return plan.calls if row.case == "all calls" else plan.instant_calls


if __name__ == "__main__":
    main()
