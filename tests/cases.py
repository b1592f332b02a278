"""Many small cases in one test, without losing which of them failed.

    with Cases() as cases:
        for word in words:
            with cases(word):
                assert word.islower()

All of them run; at the end one AssertionError names each case that failed, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

MOST_SHOWN = 20


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
