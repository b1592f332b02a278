"""Test of the sandbox on this machine: code inside the sandbox attacks a target outside.

    check().holds → {"files": True, "memory": True, "network": True, "reading": True, "signals": True}

The target is a process with a secret in its environment, a file that only its user may write, and a listening port.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rubrank.errors import RubrankError
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.inside.kernel import read_landlock_version

_ATTACKS = Path(__file__).parent / "inside" / "attacks.py"
_SECRET = "rubrank-secret-of-the-target"


@dataclass(frozen=True)
class Check:
    """Which walls held, or why no code was run."""

    holds: dict[str, bool]
    """Whether the attack on each thing failed; empty if code is refused on this machine."""
    walls: tuple[str, ...]
    """The mechanisms that were used."""
    refused: str
    """Why no code was run; empty if it was."""
    machine: dict[str, str]

    @property
    def open(self) -> tuple[str, ...]:
        """Walls that did not hold. "reading" is not a wall: some mechanisms let code read what the user may read."""
        failed = [name for name, held in self.holds.items() if not held]
        return tuple(name for name in failed if name in sandbox.WALLS)

    @property
    def safe(self) -> bool:
        """Code is run on this machine, and it reached nothing outside."""
        return not self.refused and not self.open


def check() -> Check:
    """Attack a target from inside the sandbox, with the walls that this machine has."""
    holds: dict[str, bool] = {}
    walls: tuple[str, ...] = ()
    refused = ""
    try:
        with _start_target() as (pid, file, port):
            request = {"pid": pid, "file": str(file), "port": port, "secret": _SECRET}
            result = sandbox.run(
                ["python", "-I", "-S", "-c", _ATTACKS.read_text("utf-8")],
                stdin=json.dumps(request).encode(),
                limits=sandbox.Limits(seconds=10),
            )
            walls = result.walls
            refused = f"the attacks did not report: {result.why}"
            holds = dict(sorted(json.loads(result.stdout).items()))
            # The attacks report what they noticed. Whether the target is unharmed is seen from here.
            holds["files"] = holds["files"] and file.read_text() == _SECRET
            holds["signals"] = holds["signals"] and _is_alive(pid)
            refused = ""
    except RubrankError as error:
        refused = str(error)
    except ValueError:  # the attacks did not report
        holds = {}
    landlock = read_landlock_version() if sys.platform == "linux" else 0
    machine = {
        "kernel": f"{platform.system()} {platform.release()}",
        "user": "root" if os.geteuid() == 0 else "not root",
        "landlock": f"version {landlock}" if landlock else "none",
        "bubblewrap": shutil.which("bwrap") or "none",
        "allowed to be open": ", ".join(sorted(sandbox.read_allowed_walls())) or "nothing",
    }
    return Check(holds, walls, refused, machine)


@contextmanager
def _start_target() -> Iterator[tuple[int, Path, int]]:
    """Start a target, and yield its process id, its file and its port."""
    with (
        tempfile.TemporaryDirectory(prefix="target-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        file = Path(folder) / "file"
        file.write_text(_SECRET)
        sleep = "import time; print(flush=True); time.sleep(60)"
        command = [sys.executable, "-I", "-S", "-c", sleep]
        target = subprocess.Popen(command, env={"SECRET": _SECRET}, stdout=subprocess.PIPE)
        assert target.stdout is not None
        try:
            target.stdout.readline()  # wait until it runs with its own environment
            yield target.pid, file, server.getsockname()[1]
        finally:
            target.kill()
            target.wait()
            target.stdout.close()


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The state follows the name, which stands in brackets and may contain anything.
    state = status.rpartition(")")[2].split()[0]
    return state in ("S", "R", "D")
