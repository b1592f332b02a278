"""One run seen from outside: feeds standard input, collects the outputs and the report, keeps a second clock."""

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
_GRACE = 5.0  # seconds beyond the limit after which a launcher that does not report is killed
_BLOCK = 65536


@dataclass(frozen=True, slots=True)
class TalkOutcome:
    """What the launcher reported, what the command wrote, and whether we had to end it."""

    stopped: Literal["timeout", "output"] | None
    report: dict[str, Any]
    stdout: bytes
    stderr: bytes
    seconds: float
    crashed: bool
    """The launcher itself failed: it ended without a report, and was not killed."""


class Talk:
    """One run seen from outside: feeds standard input, collects the two outputs and the report, keeps a second
    clock."""

    def __init__(self, prefix: list[str], header: dict[str, Any], stdin: bytes, most: int) -> None:
        self.seconds, self.most = header["seconds"], most
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
        text = json.dumps(header).encode()
        self.pending = memoryview(b"%d\n%b%b" % (len(text), text, stdin))
        self.report = open(reader, "rb", buffering=0)  # noqa: SIM115 - closed with the others

    def to_the_end(self) -> TalkOutcome:
        """Run to the end, whatever it is."""
        try:
            stopped = self._talk()
        finally:
            self._stop()
        report = json.loads(bytes(self.output["report"])) if self.output["report"] else {}
        out, err = (bytes(self.output[name][: self.most]) for name in ("stdout", "stderr"))
        crashed = not report and not stopped and (self.process.returncode or 0) > 0
        return TalkOutcome(stopped, report, out, err, time.monotonic() - self.start, crashed)

    def _talk(self) -> Literal["timeout", "output"] | None:
        """Move bytes until the report's end; the reason if it had to be stopped."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            deadline = self.start + self.seconds + _GRACE
            while "report" in {key.data for key in selector.get_map().values()}:
                left = deadline - time.monotonic()
                if left <= 0:
                    return "timeout"
                for key, _ in selector.select(left):
                    if not self._move(key, selector):
                        return "output"
            self._drain(selector)
        return None

    def _register(self, selector: selectors.BaseSelector) -> None:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for stream, event, name in (
            (process.stdin, selectors.EVENT_WRITE, "stdin"),
            (process.stdout, selectors.EVENT_READ, "stdout"),
            (process.stderr, selectors.EVENT_READ, "stderr"),
            (self.report, selectors.EVENT_READ, "report"),
        ):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event, name)

    def _move(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
        """Some bytes of one stream; False if that was too much."""
        if key.data == "stdin":
            try:
                self.pending = self.pending[os.write(key.fd, self.pending[:_BLOCK]) :]
            except BlockingIOError:
                return True
            except OSError:  # the command does not read its input
                self.pending = self.pending[:0]
            if not self.pending:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
            return True
        try:
            block = os.read(key.fd, _BLOCK)
        except BlockingIOError:
            return True
        if not block:
            selector.unregister(key.fileobj)
        self.output[key.data] += block
        return len(self.output[key.data]) <= self.most

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """What still lies in the pipes; a left-over process that keeps one open is not waited for."""
        while ready := [key for key, _ in selector.select(0) if key.data != "stdin"]:
            if not all(self._move(key, selector) for key in ready):
                return

    def _stop(self) -> None:
        """End the launcher, and with it all the rest, if it has not ended by itself."""
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
