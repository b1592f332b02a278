"""A run in which a worker of pytest-xdist died has failed, even if the worker was not running a test at the time.

pytest-xdist counts a crash as a failure of the test that was running. A worker that dies while it collects, killed for
want of memory for instance, is no failure to it: with `--max-worker-restart 0` such a run ends with "no tests ran" and
exit code 0.
"""

from __future__ import annotations

from typing import Any

import pytest

CRASHED_WORKERS = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)  # known only with pytest-xdist
def pytest_testnodedown(node: Any, error: object) -> None:
    if error:
        node.config.stash.setdefault(CRASHED_WORKERS, []).append(node.gateway.id)


@pytest.hookimpl(tryfirst=True)  # before the summary is written
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(CRASHED_WORKERS, []) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for worker in config.stash.get(CRASHED_WORKERS, []):
        terminalreporter.write_line(f"worker {worker} crashed: this run has failed", red=True)
