"""Runs inside the sandbox, shared by our programs there: what has to be done about processes with untrusted code.

Uses the standard library only: `sandbox.make_command` sends this file along with the programs that import it.
"""

from __future__ import annotations

import contextlib
import ctypes  # imported early: our programs put the solution's folder first on sys.path
import os
import signal
import struct

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22


def protect_memory() -> None:
    """Keep other processes from reading the memory of this one."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)


def kill_group(pid: int) -> None:
    """Kill a process and its process group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def install_signal_filter() -> None:
    """Install the system call filter that the launcher left in our environment. To be called in untrusted children.

    The launcher does so on machines where only this filter confines signals (see `launcher.SIGNAL_FILTER`). Our own
    program cannot have it, because it has to kill its children.
    """
    code = bytes.fromhex(os.environ.pop("RUBRANK_SIGNAL_FILTER", ""))
    if code:
        # The same as `install` in filters.py, which cannot be imported here.
        code = code.replace(struct.pack("=I", 0x7FABCDEF), struct.pack("=I", os.getpid()))
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
        if ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), program, 0, 0) != 0:
            os._exit(125)
