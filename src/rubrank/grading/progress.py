"""A progress bar on standard error, for commands that take a while.

    judging  ━━━━━━━━━━━━━╸━━━━━━━━━━  5,120/12,288  0:01:24  cost 0.8321, 3 failed

    with Bar("judging") as bar:
        bar(5_120, 12_288)                  done, total
        bar.tell("cost 0.8321, 3 failed")

It appears only on a terminal, and only when the work has taken a moment. Nothing stays on the screen when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, and how much there is in all."""

SECONDS_BEFORE_BAR = 0.7
"""Shorter work shows no bar."""


class Bar(AbstractContextManager["Bar"]):
    """A progress bar; call it with (done, total)."""

    def __init__(self, label: str, quiet: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._is_shown = self._console.is_terminal and not quiet
        self._label = label
        self._note = ""
        self._began = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __call__(self, done: float, total: float, label: str | None = None) -> None:
        """Show progress. label: what is shown before the bar from now on."""
        if label:
            self._label = label
        if not self._is_shown:
            return
        if self._progress is None:
            if time.monotonic() - self._began < SECONDS_BEFORE_BAR:
                return
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeRemainingColumn,
            )

            # "5,120/12,288" for counts; else the share in per cent
            counter = MofNCompleteColumn() if isinstance(total, int) else TaskProgressColumn()
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                counter,
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._console,
                transient=True,
            )
            self._task = self._progress.add_task(self._label, total=None, note="")
            self._progress.start()
        self._progress.update(
            self._task, description=self._label, completed=done, total=total, note=self._note
        )

    def tell(self, note: str) -> None:
        """Show this after the bar from now on, such as cost and failures so far."""
        self._note = note
        if self._progress is not None:
            self._progress.update(self._task, note=note)

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def open_progress(progress: Progress | bool, label: str) -> Iterator[Progress | None]:
    """Give the function to report progress to: a bar for True, None for False, else the caller's own function."""
    if progress is True:
        with Bar(label) as bar:
            yield bar
    else:
        yield progress or None
