"""Processes that are forked while files of replies are open: nothing is damaged, lost or paid twice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from server import Answer, Server

GOOD = json.dumps({"reasoning": "It is.", "verdict": 1})
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def ran(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


BUSY = """
    import os, sys, threading
    sys.path[:0] = [sys.argv[1]]
    from test_runtime import judged, judges
    ended = threading.Event()

    def parent():
        step = 0
        while not ended.is_set():
            judged(judges(sys.argv[2], cache=sys.argv[3]), 6, id=f"parent-{step}")
            step += 1

    judged(judges(sys.argv[2], cache=sys.argv[3]), 6, id="first")
    thread = threading.Thread(target=parent)
    thread.start()
    codes = []
    for child in range(4):
        pid = os.fork()
        if not pid:
            os._exit(judged(judges(sys.argv[2], cache=sys.argv[3]), 6, id=f"child-{child}").lost)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    ended.set()
    thread.join()
    print(codes)
"""


@pytest.mark.slow
def test_a_parent_that_goes_on_and_its_children_share_a_file(tmp_path):
    store = tmp_path / "replies.sqlite"
    with Server(lambda asked: Answer(GOOD, delay=0.02)) as server:
        found = ran(BUSY, Path(__file__).parent, server.url, store)
        assert found.stdout.strip() == "[0, 0, 0, 0]", found.stderr
        asked = [json.dumps(one.body["messages"]) for one in server.completions]
    assert len(set(asked)) == len(asked)
    assert "damaged" not in found.stderr
    db = sqlite3.connect(store)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM ledger").fetchone() == (len(asked),)
    db.close()
