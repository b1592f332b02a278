"""Places and processor time of the judges' client, beside the official client and the ideal.

    python benchmarks/judging_scale.py            about two minutes
    python benchmarks/judging_scale.py --quick    a few calls, to see that it works

Every row asks a server of the tests, in a process of its own, through `Client`, replies kept in a file. The ideal is
calls × delay / places. Processor time is that of this process, writing the file included.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from judging import MODEL, Ask, ask_all, bare, serving
from openai import AsyncOpenAI

from rubrank.judges.client.client import Client
from rubrank.judges.client.replies import Replies
from rubrank.judges.judge import Endpoint, Judge, Sampling


@dataclass(frozen=True)
class Row:
    """One measurement."""

    what: str
    calls: int
    places: int
    delay: float
    seconds: float
    processor: float
    """Milliseconds of this process for each call."""

    def __str__(self) -> str:
        ideal = self.calls * self.delay / self.places
        beside = f"{self.seconds / ideal:.2f} × ideal" if ideal else "as fast as it goes"
        head = f"{self.what:<24} {self.calls:>5} calls, {self.places:>3} places, {self.delay:g} s"
        return f"{head}: {self.seconds:6.2f} s ({beside}), {self.processor:.2f} ms a call"


def judge_at(url: str, places: int) -> Judge:
    return Judge(
        endpoints=(Endpoint(base_url=url, model=MODEL, concurrency=places),), sampling=Sampling(max_tokens=256)
    )


async def _timed(what: str, ask: Ask, calls: int, places: int, delay: float, ahead: int) -> Row:
    start, spent = time.perf_counter(), time.process_time()
    await ask_all(ask, calls, ahead)
    seconds, processor = time.perf_counter() - start, time.process_time() - spent
    return Row(what, calls, places, delay, seconds, 1e3 * processor / calls)


async def ours(url: str, calls: int, places: int, delay: float, store: Replies) -> Row:
    async with Client(judge_at(url, places), store=store) as client:

        async def ask(call: object) -> None:
            reply = await client.ask(call)  # type: ignore[arg-type]
            if reply.failure is not None:
                raise RuntimeError(reply.failure)

        return await _timed("rubrank", ask, calls, places, delay, 2 * places)


async def theirs(url: str, calls: int, places: int, delay: float) -> Row:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        return await _timed("openai, as it comes", bare(client), calls, places, delay, places)


def main(argv: list[str] | None = None) -> None:
    """All rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few calls only")
    quick = parser.parse_args(argv).quick
    plan = [(16, 8, 0.05)] if quick else [(512, 64, 2.0), (1536, 256, 2.0), (768, 768, 2.0), (2000, 256, 0.0)]
    for calls, places, delay in plan:
        with serving(delay) as url, tempfile.TemporaryDirectory() as folder, Replies(Path(folder) / "r") as store:
            print(asyncio.run(ours(url, calls, places, delay, store)), flush=True)
            print(asyncio.run(theirs(url, calls, places, delay)), flush=True)


if __name__ == "__main__":
    main()
