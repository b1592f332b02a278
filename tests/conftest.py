"""What all tests share: signals as in a terminal, and one thread a library."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Before numpy or torch is imported: the tests run in one process a core, and threads below that only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")


settings.register_profile("quick", max_examples=20)
SLOW_FILE = re.compile(r"^pytestmark\b.*\bslow\b", re.MULTILINE)


def is_quick(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "not slow")


def pytest_configure(config: pytest.Config) -> None:
    """`nohup make test &` starts with SIGINT ignored, which every child would inherit; the tests interrupt some."""
    if is_quick(config):
        settings.load_profile("quick")
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a file with slow ones stay in one process, which makes what they share once; and they come first."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        if item.path in slow:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of slow tests only are not even imported for `make quick`: most of them load torch."""
    if is_quick(config) and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return bool(SLOW_FILE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None
