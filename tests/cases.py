"""Many small cases in one test, without losing which of them failed.

    with Cases() as cases:
        for word in words:
            with cases(word):
                assert word.islower()

All of them run; at the end one AssertionError names each case that failed, and says why. `folded` is the same in the
form of `pytest.mark.parametrize`, for tests of plain functions with many values:

    @folded("word", words)
    def test_lower(word):
        assert word.islower()

`examples(400)` is how many hypothesis draws at night (`make test-newest`); `make test` takes a quarter of them, and
`make quick` ten. `spread(texts)` are all of them at night, every third otherwise; `thinned(values)` are parameters of
which `make quick` takes every fourth.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from hypothesis import settings

MOST_SHOWN = 20
QUICK, USUAL, FULL = 10, 20, 60  # examples of a property in `make quick`, in `make test`, and at night


def examples(most: int) -> settings:
    """Settings of a property that draws so many examples."""
    return settings(max_examples=drawn(most, settings.default.max_examples))


def drawn(most: int, profile: int) -> int:
    """How many of them are drawn where a plain property draws so many as the profile says."""
    return min(most, {QUICK: QUICK, USUAL: max(USUAL, most // 4)}.get(profile, most))


def is_thorough() -> bool:
    """Is this a run at night?"""
    return settings.default.max_examples == FULL


def nightly() -> pytest.MarkDecorator:
    """Of a test that makes the figures of a page again, which takes most of a minute."""
    return pytest.mark.skipif(not is_thorough(), reason="a nightly test: make test-newest")


def spread(values: Sequence[Any], every: int = 3) -> Sequence[Any]:
    """Of values that take minutes together: all of them at night, every third otherwise."""
    return values if is_thorough() else values[::every]


def thinned(values: Iterable[Any], every: int = 4) -> list[Any]:
    """Parameters that each take a while: all but every fourth are slow."""
    return [pytest.param(value, marks=pytest.mark.slow if i % every else ()) for i, value in enumerate(values)]


class Cases:
    """Collects the failures of the cases that run inside it."""

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[str] = []

    @contextmanager
    def __call__(self, *name: object) -> Iterator[None]:
        """Run one case; what it raises is kept."""
        self.count += 1
        try:
            yield
        except Exception as error:
            self.failures.append(f"{' '.join(map(str, name))}: {type(error).__name__}: {error}")

    def __enter__(self) -> Cases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            return
        assert self.count, "no case ran"
        if self.failures:
            more = len(self.failures) - MOST_SHOWN
            shown = self.failures[:MOST_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
            raise AssertionError(f"{len(self.failures)} of {self.count} cases failed:\n" + "\n".join(shown))


def folded(names: str | Iterable[str], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One test of all values; fixtures are shared by its cases. Several of them multiply, as parametrisations do."""
    keys = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    rows = [dict(zip(keys, value if len(keys) > 1 else (value,), strict=True)) for value in values]

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**others: Any) -> None:
            with Cases() as cases:
                for row in rows:
                    with cases(", ".join(f"{key}={value!r:.200}" for key, value in row.items())):
                        test(**others, **row)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return fold


def open_to_everybody(folder: Path) -> None:
    """Let another user read a folder of a test: also the folders above it, but none that pytest did not make."""
    for parent in (folder, *folder.parents):
        if not any(part.startswith("pytest-") for part in parent.parts):
            break
        parent.chmod(0o755)
