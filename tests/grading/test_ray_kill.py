"""kill −9 of a run on Ray in the middle of judging, and again: no answered call is paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from judges.server import MODEL, Answer, Server

from rubrank.judges.client.cache import ReplyCache

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.slow]

GROUPS, SIZE, PLACES = 60, 4, 6
CALLS = GROUPS * SIZE


def slow(asked):
    return Answer(json.dumps({"reasoning": "so", "verdict": 1}), delay=0.05)


def asked(server):
    """How often each rollout was asked about; health checks are about none."""
    prompts = [one.prompt for one in list(server.completions)]
    return Counter(prompt for prompt in prompts if "Name lake" in prompt)


def command(tmp_path, url):
    rows = [
        {"prompt": f"Name lake {g}.", "group": f"q{g}", "response": f"Lake {g}-{i}."}
        for g in range(GROUPS)
        for i in range(SIZE)
    ]
    endpoint = {"base_url": url, "model": MODEL, "concurrency": PLACES}
    judges = {"judges": [{"kind": "absolute", "endpoints": [endpoint]}], "cache": str(tmp_path / "replies.sqlite")}
    for name, text in (
        ("rollouts.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        ("rubric.json", json.dumps({"criteria": ["EmptyAnswer", "CoreIntentMatch"]})),
        ("judges.json", json.dumps(judges)),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / name) for name in ("rollouts.jsonl", "rubric.json", "judges.json", "scores.jsonl")]
    verb = [
        "grade",
        files[0],
        "-r",
        files[1],
        "--judges",
        files[2],
        "-o",
        files[3],
        "--engine",
        "ray",
        "--workers",
        "2",
    ]
    return [sys.executable, "-W", "ignore", "-m", "rubrank", *verb, "--cache", str(tmp_path / "verdicts.sqlite")]


def quiet(server, seconds=3.0):
    """Wait until nobody asks any more: Ray ends its actors a little after the process that started them."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        now = len(server.completions)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.05)


def test_a_run_that_was_killed_goes_on_from_its_store(tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    with Server(slow) as server:
        run = command(tmp_path, server.url)
        with subprocess.Popen(run, stderr=subprocess.DEVNULL, start_new_session=True) as first:
            while len(asked(server)) < CALLS // 3:
                assert first.poll() is None, "it ended before it was killed"
                time.sleep(0.01)
            os.kill(first.pid, signal.SIGKILL)
        quiet(server)
        before = asked(server)
        with ReplyCache(tmp_path / "replies.sqlite") as store:
            kept = len(store)
        done = subprocess.run(run, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        after = asked(server)
    assert len(after) == CALLS
    again = after.total() - before.total()
    print(f"{CALLS} calls; {before.total()} made and {kept} kept when it was killed; {again} made by the second run")
    assert again <= CALLS - kept + 1  # the health check is kept too
    assert after.total() <= CALLS + PLACES  # at most what was under way is asked again
