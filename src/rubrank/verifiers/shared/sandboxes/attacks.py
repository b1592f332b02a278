"""Runs inside the sandbox, as code from a response would: tries to reach what is outside, and says what held.

Nothing here is destructive where it succeeds: the witness's file gets its own content, signals are number 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any


def held(*attacks: Callable[[], Any]) -> bool:
    """Did every attack fail?"""
    for attack in attacks:
        with contextlib.suppress(OSError, ValueError):
            if attack() is not False:
                return False
    return True


def reach(family: int, address: Any) -> None:
    """Connect, or fail."""
    with socket.socket(family, socket.SOCK_STREAM) as here:
        here.settimeout(1)
        here.connect(address)


def read_any(paths: Iterable[str], secret: bytes) -> bool:
    """Is the secret in one of the files?"""
    found = False
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found |= secret in file.read(100_000)
    return found


def limits_of(pid: int) -> None:
    """Read the limits of another process: a process that may read them may change them."""
    space = ctypes.create_string_buffer(16)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prlimit(pid, 7, None, space) != 0:
        raise OSError(ctypes.get_errno(), "prlimit")


def main() -> None:
    """All attacks, on the witness that standard input describes."""
    asked = json.loads(sys.stdin.read())
    pid, file, secret = asked["pid"], asked["file"], asked["secret"].encode()
    others = [path for path in glob.glob("/proc/[0-9]*/environ") if path != f"/proc/{os.getpid()}/environ"]
    told = {
        "network": held(lambda: reach(socket.AF_INET, ("127.0.0.1", asked["port"]))),
        "signals": held(lambda: os.kill(pid, 0), lambda: limits_of(pid)),
        "memory": held(
            lambda: read_any([f"/proc/{pid}/environ", *others], secret),
            lambda: open(f"/proc/{pid}/mem", "rb").close(),
        ),
        "files": held(lambda: open(file, "r+b").close(), lambda: os.rename(file, file + "2")),
        "reading": held(lambda: read_any([file], secret)),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
