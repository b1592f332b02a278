"""Files that appear when they are complete, or stay as they were; locks; and what is said of a damaged file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import yaml

from rubrank import InvalidInput

try:
    import fcntl
except ImportError:  # no locks on Windows: one process at a time there
    fcntl = None  # type: ignore[assignment]

_BROKEN = (pl.exceptions.PolarsError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError)


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


@contextmanager
def reading(path: Path, allowed: str, remedy: str = "") -> Iterator[None]:
    """Whatever a damaged file does to those who read it is said in one line, which names the file."""
    try:
        yield
    except InvalidInput:
        raise
    except _BROKEN as error:
        lines = str(error).strip().splitlines() or ["nothing"]
        raise InvalidInput("lab", str(path), allowed, f"{type(error).__name__}: {lines[0]}", remedy) from None


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Have we got it? A lock ends with the process that holds it, however that ends; the file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
