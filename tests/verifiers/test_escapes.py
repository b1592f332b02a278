"""Attacks from inside the sandbox, with all walls and with the few that containers leave, as root and as nobody."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import is_thorough
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.sandbox_check import check

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("sandbox_escapes", ROOT / "benchmarks" / "sandbox_escapes.py")
attacks = importlib.util.module_from_spec(_SPEC)
sys.modules["sandbox_escapes"] = attacks
_SPEC.loader.exec_module(attacks)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox's walls are those of Linux")
_POOR = "namespaces,bubblewrap"


@pytest.mark.slow
@pytest.mark.parametrize(("without", "first"), [("", 0), (_POOR, 1), (f"{_POOR},scopes", 0)])
def test_nothing_gets_out(without, first, monkeypatch):
    """All attacks at night, otherwise every second one, beginning at `first`."""
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, without)
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation of that kind")
    names = list(attacks.ATTACKS) if is_thorough() else list(attacks.ATTACKS)[first::2]
    found = attacks.attack(names=names)
    assert list(found) == names
    assert [name for name, escaped in found.items() if escaped] == []


def test_the_attacks_work_where_nothing_stands_in_their_way(monkeypatch):
    """Without this, the test above could not fail."""
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, f"{_POOR},landlock,filter")
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, ",".join(sandbox.WALLS))
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    for name in ("signal 0", "file read", "file written", "TCP"):
        with attacks.witness() as there:
            assert attacks.escapes(name, there), name


_TRUNCATE_UNDER_THE_FILTER = """
import ctypes, os, sys
from rubrank.verifiers.shared.inside import filters, kernel
kernel.libc.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
if not filters.install(filters.build_own_user_filter(kernel.find_machine(), protect_content=True)):
    sys.exit("no filters")
for access in range(4):
    try:
        os.close(os.open(sys.argv[1], access | os.O_TRUNC))
        print("opened")
    except PermissionError:
        print("refused")
"""


def test_truncating_needs_the_right_to_write(tmp_path):
    """Old Landlock checks only reading and writing. Access mode 3, which is neither, truncated any file."""
    file = tmp_path / "file"
    file.write_text("content")
    command = [sys.executable, "-c", _TRUNCATE_UNDER_THE_FILTER, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "no filters" in done.stderr:
        pytest.skip("this kernel has no filters")
    read, write, read_and_write, neither = done.stdout.split()
    assert (read, neither) == ("refused", "refused")
    assert (write, read_and_write) == ("opened", "opened")  # Landlock decides about these


def test_check_finds_open_walls(monkeypatch):
    if sandbox.find_isolation():
        assert check().safe
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, f"{_POOR},landlock,filter")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    refused = check()
    assert not refused.safe
    assert "RUBRANK_SANDBOX_ALLOW=network,signals,memory,files" in refused.refused
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, ",".join(sandbox.WALLS))
    assert {"network", "signals", "files"} <= set(check().open)


def test_the_verb_says_what_holds(monkeypatch):
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation")
    said = CliRunner().invoke(app, ["sandbox", "check"])
    assert said.exit_code == 0, said.output
    assert said.output.count("held") >= 4
    said = CliRunner().invoke(app, ["sandbox", "check", "--json"])
    assert json.loads(said.output)["safe"] is True
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, f"{_POOR},landlock,filter")
    said = CliRunner().invoke(app, ["sandbox", "check"])
    assert said.exit_code == 1
    assert "refused" in said.output


@pytest.fixture(scope="module")
def nobody() -> tuple[list[str], dict[str, str]]:
    """A Python that an ordinary user can run (the system's, with what we have installed), and its variables."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to become nobody")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{packages}", "HOME": "/nonexistent"}
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]
    code = "import rubrank.cli.app, pydantic"
    if subprocess.run([*command, "-c", code], env=environment, capture_output=True, check=False).returncode != 0:
        pytest.skip("no Python here that an ordinary user can run")
    return command, environment


@pytest.mark.parametrize(
    ("without", "safe"),
    [
        ("", True),
        pytest.param("namespaces", True, marks=pytest.mark.slow),
        pytest.param(_POOR, True, marks=pytest.mark.slow),
        pytest.param(f"{_POOR},scopes", True, marks=pytest.mark.slow),
        (f"{_POOR},landlock", False),
    ],
)
def test_as_an_ordinary_user(nobody, without, safe):
    python, environment = nobody
    command = [*python, "-m", "rubrank", "sandbox", "check", "--json"]
    environment = {**environment, sandbox.WITHOUT_VARIABLE: without}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    said = json.loads(done.stdout)
    if safe and said["refused"]:
        pytest.skip(f"this kernel does not offer it: {said['machine']}")
    assert said["safe"] is safe, said


@pytest.mark.slow
def test_nothing_gets_out_of_an_ordinary_users_runs(nobody):
    python, environment = nobody
    ways = [] if is_thorough() else ["--sample"]
    command = [*python, str(ROOT / "benchmarks" / "sandbox_escapes.py"), *ways]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=900)
    lines = done.stdout.splitlines()
    assert len(lines) == len(attacks.MACHINES)
    assert [line for line in lines if not line.endswith("refused") and ": 0 of " not in line] == []
