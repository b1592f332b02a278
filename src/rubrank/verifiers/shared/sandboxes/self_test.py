"""What the sandbox holds on this machine, found by trying: code inside it attacks a witness outside.

    check().holds → {"files": True, "memory": True, "network": True, "reading": True, "signals": True}

The witness is a process of ours with a secret in its variables and a file that belongs to us.
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
from rubrank.verifiers.shared.inside import landlock

_ATTACKS = Path(__file__).with_name("attacks.py")
_SECRET = "rubrank-secret-of-the-witness"


@dataclass(frozen=True)
class Check:
    """Which walls held; why nothing was run, if it was refused."""

    holds: dict[str, bool]
    """By what was attacked; empty if code is refused on this machine."""
    walls: tuple[str, ...]
    refused: str
    machine: dict[str, str]

    @property
    def open(self) -> tuple[str, ...]:
        """Walls that did not hold. Reading what the user may read is shown, and is not a wall."""
        return tuple(name for name, held in self.holds.items() if not held and name in sandbox.WALLS)

    @property
    def safe(self) -> bool:
        """Code is run, and reached nothing."""
        return not self.refused and not self.open


def check() -> Check:
    """Attack a witness from inside the sandbox, with the walls that this machine has."""
    try:
        with _witness() as (pid, file, port):
            request = {"pid": pid, "file": str(file), "port": port, "secret": _SECRET}
            result = sandbox.run(
                ["python", "-I", "-S", "-c", _ATTACKS.read_text("utf-8")],
                stdin=json.dumps(request).encode(),
                limits=sandbox.Limits(seconds=10),
            )
            said = json.loads(result.stdout or b"{}")
            said["files"] = said.get("files", False) and file.read_text() == _SECRET
            said["signals"] = said.get("signals", False) and _alive(pid)
    except RubrankError as error:
        return Check({}, (), str(error), _machine())
    except ValueError:
        return Check({}, result.walls, f"the attacks did not report: {result.why}", _machine())
    return Check(dict(sorted(said.items())), result.walls, "", _machine())


@contextmanager
def _witness() -> Iterator[tuple[int, Path, int]]:
    """A process with a secret, a file of ours and a port that listens."""
    with tempfile.TemporaryDirectory(prefix="witness-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        file = Path(folder) / "file"
        file.write_text(_SECRET)
        command = [sys.executable, "-I", "-S", "-c", "import time; print(flush=True); time.sleep(60)"]
        witness = subprocess.Popen(command, env={"SECRET": _SECRET}, stdout=subprocess.PIPE)
        assert witness.stdout is not None
        try:
            witness.stdout.readline()  # it is there, under its own variables
            yield witness.pid, file, server.getsockname()[1]
        finally:
            witness.kill()
            witness.wait()
            witness.stdout.close()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("S", "R", "D")
    except OSError:
        return False


def _machine() -> dict[str, str]:
    version = landlock.version() if sys.platform == "linux" else 0
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "user": "root" if os.geteuid() == 0 else "not root",
        "landlock": f"version {version}" if version else "none",
        "bubblewrap": shutil.which("bwrap") or "none",
        "allowed to be open": ", ".join(sorted(sandbox.allowed())) or "nothing",
    }
