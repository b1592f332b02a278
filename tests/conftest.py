"""What all tests share: signals as in a terminal, and one thread a library."""

from __future__ import annotations

import os
import signal

import pytest

# Before numpy or torch is imported: the tests run in one process a core, and threads below that only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """`nohup make test &` starts with SIGINT ignored, which every child would inherit; the tests interrupt some."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a file with slow ones stay in one process, which makes what they share once; and they come first."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        if item.path in slow:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
