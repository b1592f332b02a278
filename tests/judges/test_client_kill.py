"""Kill −9 amid a step, again and again: what had been answered is not paid again, counted at the server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from calling import ask_all, call_of, judge_of, run
from server import Answer, Server

from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.usage import Account

HERE = Path(__file__).parent
CALLS = 300
STEP = """
import asyncio, sys
from calling import call_of, judge_of
from rubrank.judges.client.client import Client
from rubrank.judges.client.cache import ReplyCache

async def main(url, file, calls):
    with ReplyCache(file) as store:
        async with Client(judge_of(url, endpoint={"concurrency": 16}), cache=store) as client:
            async def ask(i):
                reply = await client.ask(call_of(str(i)))
                assert reply.failure is None, reply
                print(i, flush=True)  # from here on it must never be paid again
            await asyncio.gather(*map(ask, range(calls)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def start(url, file):
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", STEP, url, str(file), str(CALLS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})


def answered_before_the_kill(url, file, wanted):
    """Run until so many replies have come out, and kill."""
    process = start(url, file)
    said = [process.stdout.readline() for _ in range(wanted)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()  # what was in the pipe
    process.wait()
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    return {line.strip() for line in said if line.endswith("\n")}


@pytest.mark.slow
def test_what_was_answered_is_not_paid_again(tmp_path):
    file = tmp_path / "replies.sqlite"
    with Server(lambda asked: Answer(json.dumps({"echo": asked.prompt}), delay=0.02)) as server:
        answered: set[str] = set()
        for wanted in (1, 40, 60):
            before = len(server.completions)
            said = answered_before_the_kill(server.url, file, wanted)
            time.sleep(0.1)
            paid_again = answered & {asked.prompt for asked in server.completions[before:]}
            assert not paid_again
            answered |= said
        assert 60 <= len(answered) < CALLS  # it was amid the step
        before = len(server.completions)
        with ReplyCache(file) as store:
            replies, _ = run(ask_all(judge_of(server), [call_of(str(i)) for i in range(CALLS)], cache=store))
            account = Account.read(store)
        asked = Counter(asked.prompt for asked in server.completions[before:])
    assert [reply.text for reply in replies] == [json.dumps({"echo": str(i)}) for i in range(CALLS)]
    assert not answered & set(asked)
    assert account.calls == CALLS
    # When it was killed at most one was in flight for each place, and as many had come in that were not on disk yet.
    assert sum(1 for reply in replies if reply.cached) >= len(answered)
    assert len(server.completions) <= CALLS + 3 * 2 * 16
