"""Compiles a program once and runs it once for each input, inside the sandbox.

Reads a JSON request from standard input: {"compile", "run", "binary", "inputs", "seconds", "compile_seconds"}. Writes
one JSON line for the compiler (if there is one), and one for each input. The expected outputs never come in here, so
that the program cannot read them; they are compared outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from rubrank.verifiers.shared.inside.children import (
    install_signal_filter,
    kill_group,
    protect_memory,
)

_MOST_OUTPUT = 1 << 20  # bytes kept of an output


def run_command(command: list[str], text: str, seconds: float) -> dict[str, Any]:
    """Run a command on an input. Returns its exit code (None if the time was up) and what it wrote."""
    # Files instead of pipes: a program that neither reads its input nor ends cannot block us, nor can processes that it
    # leaves behind with its outputs open.
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(text.encode("utf-8", "surrogatepass"))
        stdin.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=install_signal_filter,
        )
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=seconds)
        kill_group(process.pid)
        process.wait()
        stdout.seek(0)
        stderr.seek(0)
        errors = stderr.read()
        if len(errors) > 2000:
            errors = errors[:1000] + b" ... " + errors[-1000:]
        return {
            "code": code,
            "out": stdout.read(_MOST_OUTPUT).decode("utf-8", "replace"),
            "err": errors.decode("utf-8", "replace"),
            "seconds": time.monotonic() - start,
        }


def copy_as_executable(path: str) -> None:
    """Replace a file by a copy that can be executed.

    In some sandboxes a system call filter ignores changes of file modes, so the linker cannot make its output
    executable. A file that is created with the right mode can be executed.
    """
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o755)
    with open(descriptor, "wb") as file:
        file.write(content)


def main() -> None:
    """Compile the program, run it on every input, and report each step."""
    request = json.loads(sys.stdin.buffer.read())
    protect_memory()
    channel = os.dup(1)

    def report(line: dict[str, Any]) -> None:
        os.write(channel, (json.dumps(line) + "\n").encode())

    if request["compile"]:
        compilation = run_command(request["compile"], "", request["compile_seconds"])
        report(compilation)
        if compilation["code"] != 0:
            return
        if request["binary"]:
            copy_as_executable(request["binary"])
    for text in request["inputs"]:
        report(run_command(request["run"], text, request["seconds"]))
