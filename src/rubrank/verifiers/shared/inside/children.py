"""Runs inside the sandbox: child processes for untrusted code, shared by our programs there.

    failure, output = run_in_fork(body, seconds)

A child proves that it reached its end by writing a secret word that its parent gave it. An exit code would prove
nothing: untrusted code can call `os._exit(0)` at any time.

Uses the standard library only: `sandbox.make_command` sends this file along with the programs that import it.
"""

from __future__ import annotations

import contextlib
import ctypes  # imported early: run_jobs puts the solution's folder first on sys.path
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

_MOST_OUTPUT = 256 * 1024  # bytes kept of a child's output
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22


def run_jobs(run_job: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> None:
    """Run the jobs of the request on standard input, and write one JSON line for each; with `stop`, until one fails."""
    request = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, os.getcwd())
    # No other process can read our memory.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
    sys.dont_write_bytecode = True
    channel = os.dup(1)
    request["channel"] = channel
    for job in request["jobs"]:
        line = run_job(request, job)
        os.write(channel, (json.dumps(line) + "\n").encode())
        if request["stop"] and not line["passed"]:
            break


def run_in_fork(body: Callable[[bytes, int, int], None], seconds: float) -> tuple[str, bytes]:
    """Fork, run `body(word, status, output)` in the child, and wait for it.

    `status` and `output` are pipes. The body writes the word to `status` if it succeeds, and otherwise why it failed.
    Returns why it failed ("" if it did not), and what it wrote to `output`.
    """
    word = os.urandom(16).hex().encode()
    status_reader, status_writer = os.pipe()
    output_reader, output_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(status_reader)
        os.close(output_reader)
        try:
            body(word, status_writer, output_writer)
        finally:
            os._exit(0)
    os.close(status_writer)
    os.close(output_writer)
    status = bytearray()
    output = bytearray()
    in_time = _read_pipes(
        {status_reader: status, output_reader: output}, time.monotonic() + seconds
    )
    kill_group(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(status_reader)
    os.close(output_reader)
    if status == word:
        failure = ""
    elif not in_time:
        failure = f"out of time ({seconds:g} s)"
    else:
        failure = status.decode("utf-8", "replace") or f"ended early (exit code {code})"
    return failure, bytes(output)


def write_failure(status: int, why: str) -> None:
    """Tell the parent why the job failed."""
    os.write(status, why[:300].encode("utf-8", "replace"))


def _read_pipes(pipes: dict[int, bytearray], deadline: float) -> bool:
    """Read until all pipes are closed. Returns False if the time is up first. Bytes beyond the limit are dropped."""
    while pipes:
        ready = select.select(list(pipes), [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            return False
        for descriptor in ready:
            block = os.read(descriptor, 65536)
            if not block:
                del pipes[descriptor]
            elif len(pipes[descriptor]) <= _MOST_OUTPUT:
                pipes[descriptor] += block
    return True


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
