"""Runs inside the sandbox: the code as a program, one process per input, so that none can stop or slow down another.

Reads {"code", "jobs", "seconds"} from standard input and writes one JSON line a job, {"stdin": …}. Whether the output
is right is decided outside: what was expected never comes in here.
"""

from __future__ import annotations

import io
import os
import sys
import types
from typing import Any

from rubrank.verifiers.shared.sandboxes.children import MOST, answer_jobs, attempt, say, shut


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
            say(said, f"exit({error.code!r})")
            return
    except BaseException as error:
        say(said, f"{type(error).__name__}: {error}")
        return
    finally:
        sys.stdout.flush()
    os.write(said, word)


def one(request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """The job's line of the report."""
    why, out = attempt(lambda *pipes: in_child(request, job, *pipes), request["seconds"])
    return {"passed": not why, "why": why, "out": out.decode("utf-8", "replace"), "large": len(out) > MOST}


def main() -> None:
    """All jobs, one after the other."""
    answer_jobs(one)
