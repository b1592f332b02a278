"""Runs inside the sandbox: compiles a program once, then runs it once for each input.

Reads {"compile", "run", "binary", "inputs", "seconds", "stop"} from standard input and writes one JSON line for the
compiler (if there is one) and one an input. Whether an output is right is decided outside.
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

from rubrank.verifiers.shared.sandboxes.children import kill_all, shut

_MOST = 1 << 20  # bytes kept of an output


def one(command: list[str], text: str, seconds: float) -> dict[str, Any]:
    """Run a command on an input; how it ended, and what it wrote."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
        given.write(text.encode("utf-8", "surrogatepass"))
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdin=given, stdout=out, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=shut
        )
        code: int | None = None
        said = b""
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = process.communicate(timeout=seconds)[1]
            code = process.returncode
        kill_all(process.pid)
        process.wait()
        out.seek(0)
        return {
            "code": code,
            "out": out.read(_MOST).decode("utf-8", "replace"),
            "err": (said if len(said) <= 2000 else said[:1000] + b" ... " + said[-1000:]).decode("utf-8", "replace"),
            "seconds": time.monotonic() - start,
        }


def main() -> None:
    """Compile, run, report."""
    request = json.loads(sys.stdin.buffer.read())
    channel = os.dup(1)
    if request["compile"]:
        line = one(request["compile"], "", request["compile_seconds"])
        os.write(channel, (json.dumps(line) + "\n").encode())
        if line["code"] != 0:
            return
        if request["binary"]:  # where modes of files cannot be changed, a copy made with the right one can be run
            with open(request["binary"], "rb") as made:
                content = made.read()
            os.unlink(request["binary"])
            place = os.open(request["binary"], os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o755)
            with open(place, "wb") as file:
                file.write(content)
    for text in request["inputs"]:
        os.write(channel, (json.dumps(one(request["run"], text, request["seconds"])) + "\n").encode())
