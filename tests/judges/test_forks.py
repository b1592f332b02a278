"""Processes that are forked while files of replies are open: nothing is damaged, lost or paid twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from server import Answer, Server

from rubrank._files import connect

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
    db = connect(store)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM ledger").fetchone() == (len(asked),)
    db.close()


WRITING = """
    import os, sqlite3, sys, threading, time
    from rubrank import _files
    from rubrank._files import connect
    _files._REST = float(sys.argv[2])
    db = connect(sys.argv[1], "CREATE TABLE IF NOT EXISTS rows (who TEXT)")
    begun = threading.Event()

    def write():
        db.execute("BEGIN IMMEDIATE")
        begun.set()
        for _ in range(10):
            db.execute("INSERT INTO rows VALUES ('parent')")
            time.sleep(0.05)
        db.execute("COMMIT")

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    pid = os.fork()
    if not pid:
        try:
            own = connect(sys.argv[1])
            own.execute("INSERT INTO rows VALUES ('child')")
            own.close()
            os._exit(0)
        except sqlite3.OperationalError as error:
            os._exit(7 if "spawn" in str(error) else 8)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    thread.join()
    counts = dict(db.execute("SELECT who, count(*) FROM rows GROUP BY who"))
    db.close()
    print(code, counts.get("parent", 0), counts.get("child", 0))
"""


@pytest.mark.slow
def test_a_fork_waits_for_a_transaction_and_its_child_may_write(tmp_path):
    found = ran(WRITING, tmp_path / "rows.sqlite", 10.0)
    assert found.stdout.split() == ["0", "10", "1"], found.stderr


@pytest.mark.slow
def test_a_child_leaves_a_file_alone_whose_transaction_did_not_end_in_time(tmp_path):
    found = ran(WRITING, tmp_path / "rows.sqlite", 0.01)
    assert found.stdout.split() == ["7", "10", "0"], found.stderr
