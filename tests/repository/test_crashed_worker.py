"""A worker that crashes, or a test that never ends, fails the run soon and by name: `make test` never hangs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRASHING = """
import os, signal, time

def test_before():
    pass

def test_that_kills_its_worker():
    os.kill(os.getpid(), signal.SIGILL)

def test_after():
    time.sleep(0.1)
"""
# One worker dies: pytest-xdist itself would end with "no tests ran" and exit code 0.
CRASHING_AT_COLLECTION = """
import os, signal

if os.environ["PYTEST_XDIST_WORKER"] == "gw1":
    os.kill(os.getpid(), signal.SIGKILL)

def test_other():
    pass
"""
LONG = """
import time

import pytest

@pytest.mark.parametrize("number", range(100))
def test_of_a_long_file(number):
    time.sleep(2)
"""
DEAF = """
import signal, time

def test_that_ignores_its_time_limit():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(3600)
"""
OTHERS = "def test_other():\n    pass\n"
ENDLESS = "import time\n\ndef test_that_never_ends():\n    time.sleep(3600)\n"


def parallel_options() -> list[str]:
    """The options of pytest-xdist that `make test` uses, with two workers."""
    line = re.search(r"^PARALLEL := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    return line[1].replace("$(WORKERS)", "2").split()


def run_suite(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder as `make test` would; a run that hangs is an error."""
    plugins = ["-p", "no:cacheprovider", "-p", "xdist.plugin", "-p", "pytest_timeout"]
    command = [sys.executable, "-m", "pytest", *plugins, *parallel_options(), *options, "."]
    # The other plugins take longer to load than these suites to run.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False)


def write_suite(folder: Path, **files: str) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    shutil.copy(ROOT / "tests" / "crashed_workers.py", folder / "conftest.py")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)


@pytest.mark.slow
def test_a_crashed_worker_fails_the_run_and_the_test_is_named(tmp_path):
    write_suite(tmp_path, crashing=CRASHING, others=OTHERS, more=OTHERS, last=OTHERS)
    result = run_suite(tmp_path)
    assert result.returncode not in (0, 5)
    assert "test_that_kills_its_worker" in result.stdout


@pytest.mark.slow
def test_after_a_crash_the_other_workers_do_not_finish_their_files(tmp_path):
    write_suite(tmp_path, crashing=CRASHING, long=LONG)
    result = run_suite(tmp_path)  # the long file would take longer than this may
    assert result.returncode not in (0, 5)
    assert "FAILED test_crashing.py::test_that_kills_its_worker" in result.stdout


@pytest.mark.slow
def test_a_worker_that_crashes_while_collecting_fails_the_run(tmp_path):
    write_suite(tmp_path, crashing=CRASHING_AT_COLLECTION, others=OTHERS)
    result = run_suite(tmp_path)
    assert result.returncode == 1
    assert "worker gw1 crashed: this run has failed" in result.stdout


@pytest.mark.slow
def test_a_test_that_never_ends_fails_by_name_and_the_others_run(tmp_path):
    write_suite(tmp_path, endless=ENDLESS, others=OTHERS)
    result = run_suite(tmp_path, "--timeout", "2")
    assert result.returncode == 1
    assert "test_that_never_ends" in result.stdout
    assert "1 failed, 1 passed" in result.stdout


@pytest.mark.slow
def test_a_test_that_ignores_its_time_limit_ends_its_worker(tmp_path):
    write_suite(tmp_path, deaf=DEAF, others=OTHERS)
    limits = ("-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true")
    result = run_suite(tmp_path, "--timeout", "2", *limits)
    assert result.returncode == 1
    assert "test_that_ignores_its_time_limit" in result.stdout


def test_every_test_has_a_time_limit(request):
    assert float(request.config.getini("timeout")) > 0
    assert float(request.config.getini("faulthandler_timeout")) > float(request.config.getini("timeout"))
    assert request.config.getini("faulthandler_exit_on_timeout")


def test_the_gate_ends_long_before_its_time_is_up():
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    limit = re.search(r"^timeout .* (\d+) make test$", gate, re.MULTILINE)
    assert limit is not None
    assert int(limit[1]) <= 3600
