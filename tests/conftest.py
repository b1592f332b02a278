"""What all tests share: signals as in a terminal, and one thread a library."""

from __future__ import annotations

import os
import signal

# Before numpy or torch is imported: the tests run in one process a core, and threads below that only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """`nohup make test &` starts with SIGINT ignored, which every child would inherit; the tests interrupt some."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
