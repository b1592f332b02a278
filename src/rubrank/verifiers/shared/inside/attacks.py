"""Attacks of the self-test. They run inside the sandbox, as code from a response would, and report which walls held.

An attack that succeeds does no harm: the target's file keeps its content, and the signal is number 0.
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


def do_all_fail(*attacks: Callable[[], Any]) -> bool:
    """Does every attack fail? It fails if it raises an error or returns False."""
    for attack in attacks:
        with contextlib.suppress(OSError, ValueError):
            if attack() is not False:
                return False
    return True


def connect_to(port: int) -> None:
    """Connect to a port of this machine, or fail."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(("127.0.0.1", port))


def find_secret(paths: Iterable[str], secret: bytes) -> bool:
    """Can one of the files be read, and does it contain the secret?"""
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if secret in file.read(100_000):
                return True
    return False


def read_limits(pid: int) -> None:
    """Read the limits of another process: who may read them may also change them."""
    space = ctypes.create_string_buffer(16)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prlimit(pid, 7, None, space) != 0:
        raise OSError(ctypes.get_errno(), "prlimit")


def main() -> None:
    """Run all attacks on the target that standard input describes, and print which walls held."""
    target = json.loads(sys.stdin.read())
    pid = target["pid"]
    file = target["file"]
    secret = target["secret"].encode()
    environments = set(glob.glob("/proc/[0-9]*/environ")) - {f"/proc/{os.getpid()}/environ"}
    environments.add(f"/proc/{pid}/environ")
    holds: dict[str, bool] = {}
    holds["network"] = do_all_fail(lambda: connect_to(target["port"]))
    holds["signals"] = do_all_fail(lambda: os.kill(pid, 0), lambda: read_limits(pid))
    holds["memory"] = do_all_fail(
        lambda: find_secret(environments, secret),
        lambda: open(f"/proc/{pid}/mem", "rb").close(),
    )
    holds["files"] = do_all_fail(
        lambda: open(file, "r+b").close(),
        lambda: os.rename(file, file + "2"),
    )
    holds["reading"] = do_all_fail(lambda: find_secret([file], secret))
    print(json.dumps(holds))


if __name__ == "__main__":
    main()
