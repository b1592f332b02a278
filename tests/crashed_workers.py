"""A run in which a worker of pytest-xdist died has failed, and ends within a minute.

pytest-xdist alone leaves two gaps, even with `--max-worker-restart 0`:

- A crash is a failure of the test that was running. A worker that dies while it collects, killed for want of memory for
  instance, was running none: the run ends with "no tests ran" and exit code 0.
- The other workers first finish all tests of their files, which takes minutes.
"""

from __future__ import annotations

import _thread
import threading
from typing import Any

import pytest

GRACE_SECONDS = 20.0
"""Time for the other workers to finish, or to report crashes of their own, before the run is interrupted."""
CRASHED_WORKERS = pytest.StashKey[list[str]]()
INTERRUPTION = pytest.StashKey[threading.Timer]()


@pytest.hookimpl(optionalhook=True)  # known only with pytest-xdist
def pytest_testnodedown(node: Any, error: object) -> None:
    if not error:
        return
    stash = node.config.stash
    stash.setdefault(CRASHED_WORKERS, []).append(node.gateway.id)
    if INTERRUPTION not in stash:
        # As Ctrl-C would: the failures so far are summed up, and the workers that still run are killed.
        stash[INTERRUPTION] = threading.Timer(GRACE_SECONDS, _thread.interrupt_main)
        stash[INTERRUPTION].daemon = True
        stash[INTERRUPTION].start()


@pytest.hookimpl(tryfirst=True)  # before the summary is written
def pytest_sessionfinish(session: pytest.Session) -> None:
    if INTERRUPTION in session.config.stash:
        session.config.stash[INTERRUPTION].cancel()
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for worker in config.stash.get(CRASHED_WORKERS, []):
        terminalreporter.write_line(f"worker {worker} crashed: this run has failed", red=True)
