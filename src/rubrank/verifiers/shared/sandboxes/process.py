"""The launcher's process, seen from outside the sandbox.

    caller ── standard input: length, JSON header, the command's input ──> launcher ──> command
           <── standard output, standard error, the launcher's report ──

The launcher enforces the time limit itself. The caller enforces it once more, a little later, in case the launcher
hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_START = Path(__file__).parents[1] / "inside" / "start.py"
_GRACE = 5.0  # seconds that the launcher gets beyond the time limit to report; then it is killed
_BLOCK = 65536  # bytes moved at once


@dataclass(frozen=True, slots=True)
class LauncherOutcome:
    """What the launcher reported, what the command wrote, and why we stopped it, if we did."""

    stopped: Literal["timeout", "output"] | None
    report: dict[str, Any]
    stdout: bytes
    stderr: bytes
    seconds: float
    crashed: bool
    """The launcher itself failed: it ended by itself, with an error code and without a report."""


class LauncherProcess:
    """One run: starts the launcher, feeds its standard input, and collects its outputs and its report.

    `prefix` is the command line of a tool that starts the launcher (bubblewrap), or empty. `most` is the number of
    bytes that standard output and standard error may each have.
    """

    def __init__(self, prefix: list[str], header: dict[str, Any], stdin: bytes, most: int) -> None:
        self.seconds = header["seconds"]
        self.most = most
        self.output = {"stdout": bytearray(), "stderr": bytearray(), "report": bytearray()}
        reader, writer = os.pipe()
        header["report"] = writer
        self.start = time.monotonic()
        try:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-I", "-S", str(_START)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writer, *header["channel"]),
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        header_text = json.dumps(header).encode()
        self.pending_input = memoryview(b"%d\n%b%b" % (len(header_text), header_text, stdin))
        self.report = open(reader, "rb", buffering=0)  # noqa: SIM115 - closed in _stop

    def communicate(self) -> LauncherOutcome:
        """Wait until the run has ended or has to be stopped. Afterwards no process of the run is left."""
        try:
            stopped = self._move_until_reported()
        finally:
            self._stop()
        report = json.loads(bytes(self.output["report"])) if self.output["report"] else {}
        return LauncherOutcome(
            stopped=stopped,
            report=report,
            stdout=bytes(self.output["stdout"][: self.most]),
            stderr=bytes(self.output["stderr"][: self.most]),
            seconds=time.monotonic() - self.start,
            crashed=not report and not stopped and (self.process.returncode or 0) > 0,
        )

    def _move_until_reported(self) -> Literal["timeout", "output"] | None:
        """Move bytes until the launcher closes its report. Returns the reason if the run has to be stopped before."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as selector:
            for stream, event, name in (
                (process.stdin, selectors.EVENT_WRITE, "stdin"),
                (process.stdout, selectors.EVENT_READ, "stdout"),
                (process.stderr, selectors.EVENT_READ, "stderr"),
                (self.report, selectors.EVENT_READ, "report"),
            ):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, event, name)
            deadline = self.start + self.seconds + _GRACE
            while "report" in {key.data for key in selector.get_map().values()}:
                time_left = deadline - time.monotonic()
                if time_left <= 0:
                    return "timeout"
                for key, _ in selector.select(time_left):
                    if key.data == "stdin":
                        self._write_some(key, selector)
                    elif not self._read_some(key, selector):
                        return "output"
            # Read what is still in the pipes, without waiting: a left-over process may hold a pipe open forever.
            while ready := [key for key, _ in selector.select(0) if key.data != "stdin"]:
                if not all(self._read_some(key, selector) for key in ready):
                    break
        return None

    def _write_some(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        """Write a block to standard input, and close it after the last one."""
        try:
            written = os.write(key.fd, self.pending_input[:_BLOCK])
            self.pending_input = self.pending_input[written:]
        except BlockingIOError:
            return
        except OSError:  # the command has closed its input: the rest is not wanted
            self.pending_input = self.pending_input[:0]
        if not self.pending_input:
            selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]

    def _read_some(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
        """Read a block of one output. Returns False if the output has become too long."""
        try:
            block = os.read(key.fd, _BLOCK)
        except BlockingIOError:
            return True
        if not block:
            selector.unregister(key.fileobj)
        self.output[key.data] += block
        return len(self.output[key.data]) <= self.most

    def _stop(self) -> None:
        """End the launcher if it is still there, and with it every process of the run; close all pipes."""
        # After its report the launcher ends at once. Otherwise it gets SIGTERM, on which it kills the command.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self.process.wait(0.05 if self.output["report"] else 0)
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr, self.report):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
