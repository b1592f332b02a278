"""Files that appear when they are complete, or stay as they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file beside the target, which takes its place at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
