"""Runs the code of a response as a program, inside the sandbox: one process per input, so that no run harms another.

Reads {"code", "jobs", "seconds", "stop"} from standard input; a job is {"stdin": …}. Writes one JSON line per job,
{"passed", "why", "out"}. Here, "passed" only means that the program ended well. Whether its output is right is decided
outside: what was expected never comes in here.

Each run happens in a forked child, which writes a random word to a pipe after the program has ended (`run_in_fork`).
A program that is killed, or leaves the process early with `os._exit`, does not get there.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import types
from typing import Any

from rubrank.verifiers.shared.inside.children import (
    install_signal_filter,
    run_in_fork,
    run_jobs,
    write_failure,
)


def run_program(code: str) -> None:
    """Run the code as `__main__`. Raises an exception if it fails."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(code, "solution.py", "exec"), main.__dict__)
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # wait for threads, as the interpreter does at its end


def run_in_child(
    request: dict[str, Any], job: dict[str, Any], word: bytes, status: int, output: int
) -> None:
    """Set up the streams, run the program, and write `word` to `status` if it ends well. Called in the child.

    `status` and `output` are pipes: for the word or the reason of a failure, and for what the program writes.
    """
    os.dup2(output, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with tempfile.TemporaryFile() as stdin:
        stdin.write(job["stdin"].encode("utf-8", "surrogatepass"))
        stdin.seek(0)
        os.dup2(stdin.fileno(), 0)
    # The channel, which `run_jobs` has opened, is for our reports: the program must not write there.
    for descriptor in (output, request["channel"]):
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115
    install_signal_filter()
    try:
        run_program(request["code"])
    except SystemExit as error:
        if error.code not in (None, 0):
            write_failure(status, f"exit({error.code!r})")
            return
    except BaseException as error:
        write_failure(status, f"{type(error).__name__}: {error}")
        return
    finally:
        sys.stdout.flush()
    os.write(status, word)


def run_job(request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Run the program on one input, and return its report."""
    failure, output = run_in_fork(
        lambda word, status, output: run_in_child(request, job, word, status, output),
        request["seconds"],
    )
    return {"passed": not failure, "why": failure, "out": output.decode("utf-8", "replace")}


def main() -> None:
    """Run all jobs, one after the other."""
    run_jobs(run_job)
