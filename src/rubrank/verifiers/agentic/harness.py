"""Runs inside the sandbox: the code as a program, one process an input, so that none can stop or slow down another.

Reads {"code", "jobs", "seconds"} from standard input and writes one JSON line a job, {"stdin": …}. Whether the output
is right is decided outside: what was expected never comes in here.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import select
import signal
import struct
import sys
import time
import types
from typing import Any

_MOST = 256 * 1024  # bytes kept of a test's output


def run_job(request: dict[str, Any]) -> None:
    """In the child: the code as a program; an exception if it fails."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(request["code"], "solution.py", "exec"), main.__dict__)
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # as the interpreter does at its end


def in_child(request: dict[str, Any], job: dict[str, Any], word: bytes, said: int, out: int) -> None:
    """Wire up the streams, run, speak the word."""
    os.dup2(out, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    given = os.memfd_create("stdin")
    os.write(given, job.get("stdin", "").encode("utf-8", "surrogatepass"))
    os.lseek(given, 0, os.SEEK_SET)
    os.dup2(given, 0)
    for descriptor in (given, out, request["channel"]):
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115
    shut()
    try:
        run_job(request)
    except SystemExit as error:
        if error.code not in (None, 0):
            os.write(said, f"exit({error.code!r})"[:300].encode("utf-8", "replace"))
            return
    except BaseException as error:
        os.write(said, f"{type(error).__name__}: {error}"[:300].encode("utf-8", "replace"))
        return
    finally:
        sys.stdout.flush()
    os.write(said, word)


def shut() -> None:
    """Install the filter that the sandbox asks for, where signals are not kept inside by other means."""
    code = bytes.fromhex(os.environ.pop("RUBRANK_SHUT", ""))
    if code:
        code = code.replace(struct.pack("=I", 0x7FABCDEF), struct.pack("=I", os.getpid()))
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
        if ctypes.CDLL(None).prctl(22, ctypes.c_ulong(2), program, 0, 0) != 0:
            os._exit(125)


def collect(pipes: dict[int, bytearray], end: float) -> bool:
    """Read until both pipes are closed; False if the time is up first. What is too much is dropped."""
    while pipes:
        ready = select.select(list(pipes), [], [], max(0.0, end - time.monotonic()))[0]
        if not ready:
            return False
        for descriptor in ready:
            block = os.read(descriptor, 65536)
            if not block:
                del pipes[descriptor]
            elif len(pipes[descriptor]) <= _MOST:
                pipes[descriptor] += block
    return True


def one(request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Fork, run, wait; what came of it."""
    word = os.urandom(16).hex().encode()
    (said_in, said_out), (out_in, out_out) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(said_in)
        os.close(out_in)
        try:
            in_child(request, job, word, said_out, out_out)
        finally:
            os._exit(0)
    os.close(said_out)
    os.close(out_out)
    said, out = bytearray(), bytearray()
    in_time = collect({said_in: said, out_in: out}, time.monotonic() + request["seconds"])
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(said_in)
    os.close(out_in)
    return answer(bytes(said), bytes(out), word, "" if in_time else f"out of time ({request['seconds']:g} s)", code)


def answer(said: bytes, out: bytes, word: bytes, late: str, code: int) -> dict[str, Any]:
    """The job's line of the report."""
    text = {"out": out.decode("utf-8", "replace"), "large": len(out) > _MOST}
    if said == word:
        return {"passed": True, "why": "", **text}
    why = late or said.decode("utf-8", "replace") or f"ended early (exit code {code})"
    return {"passed": False, "why": why, **text}


def main() -> None:
    """All jobs, one after the other; with `stop`, until one fails."""
    request = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, os.getcwd())
    ctypes.CDLL(None).prctl(4, ctypes.c_ulong(0), 0, 0, 0)  # not dumpable: tests cannot look in here
    channel = os.dup(1)
    sys.dont_write_bytecode = True
    for job in request["jobs"]:
        line = one({**request, "channel": channel}, job)
        os.write(channel, (json.dumps(line) + "\n").encode())
        if request["stop"] and not line["passed"]:
            break


if __name__ == "__main__":
    main()
