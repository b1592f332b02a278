"""Runs inside the sandbox: what our programs there share. One process per job, forked, heard out, and killed.

    why, out = attempt(body, seconds)         "" if body(word, said, out) wrote the word to `said` at its end

Standard library alone: `bundle.py` sends it along with the programs that import it.
"""

from __future__ import annotations

import contextlib
import ctypes  # here, before a folder of the solution's is looked in for modules
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

MOST = 256 * 1024
"""Bytes kept of a job's output."""
_DUMPABLE, _SECCOMP = 4, 22  # of prctl


def answer_jobs(one: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> None:
    """One JSON line for each of the jobs that standard input asks for; with `stop`, until one fails."""
    request = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, os.getcwd())
    ctypes.CDLL(None).prctl(_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)  # other processes cannot look in here
    sys.dont_write_bytecode = True
    request["channel"] = channel = os.dup(1)
    for job in request["jobs"]:
        line = one(request, job)
        os.write(channel, (json.dumps(line) + "\n").encode())
        if request["stop"] and not line["passed"]:
            break


def attempt(body: Callable[[bytes, int, int], None], seconds: float) -> tuple[str, bytes]:
    """Fork, run `body(word, said, out)` there, wait: why it failed, "" if it did not, and what came through `out`."""
    word = os.urandom(16).hex().encode()
    (said_in, said_out), (out_in, out_out) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(said_in)
        os.close(out_in)
        try:
            body(word, said_out, out_out)
        finally:
            os._exit(0)
    os.close(said_out)
    os.close(out_out)
    said, out = bytearray(), bytearray()
    in_time = _collect({said_in: said, out_in: out}, time.monotonic() + seconds)
    kill_all(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(said_in)
    os.close(out_in)
    if said == word:
        return "", bytes(out)
    late = "" if in_time else f"out of time ({seconds:g} s)"
    return late or said.decode("utf-8", "replace") or f"ended early (exit code {code})", bytes(out)


def say(said: int, why: str) -> None:
    """Why a job failed."""
    os.write(said, why[:300].encode("utf-8", "replace"))


def _collect(pipes: dict[int, bytearray], end: float) -> bool:
    """Read until both pipes are closed; False if the time is up first. What is too much is dropped."""
    while pipes:
        ready = select.select(list(pipes), [], [], max(0.0, end - time.monotonic()))[0]
        if not ready:
            return False
        for descriptor in ready:
            block = os.read(descriptor, 65536)
            if not block:
                del pipes[descriptor]
            elif len(pipes[descriptor]) <= MOST:
                pipes[descriptor] += block
    return True


def kill_all(pid: int) -> None:
    """A process, and what it started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def shut() -> None:
    """Install the filter that the sandbox asks for, where signals are not kept inside by other means."""
    code = bytes.fromhex(os.environ.pop("RUBRANK_SHUT", ""))
    if code:
        code = code.replace(struct.pack("=I", 0x7FABCDEF), struct.pack("=I", os.getpid()))
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
        if ctypes.CDLL(None).prctl(_SECCOMP, ctypes.c_ulong(2), program, 0, 0) != 0:
            os._exit(125)
