"""The progress bar of everything that takes a while, on standard error.

judging  ━━━━━━━━━━━━━╸━━━━━━━━━━  5,120/12,288  0:01:24  cost 0.8321, 3 failed

with Bar("judging") as bar:
    bar(5_120, 12_288)                  done, total
    bar.tell("cost 0.8321, 3 failed")

It appears only on a terminal, and only when the work has taken a while. Nothing stays behind when it ends.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

_PATIENCE = 0.7  # seconds before a bar is worth its place


class Bar(AbstractContextManager["Bar"]):
    """Called with what is done and what there is to do; `doing` changes what is said before the bar."""

    def __init__(self, doing: str, quiet: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._doing, self._wanted = doing, self._console.is_terminal and not quiet
        self._since, self._told = time.monotonic(), ""
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, done: float, total: float, doing: str | None = None) -> None:
        """So much of so much is done."""
        self._doing = doing or self._doing
        if not self._wanted or (self._bar is None and time.monotonic() - self._since < _PATIENCE):
            return
        if self._bar is None:
            self._start(isinstance(total, int))
        self._bar.update(self._task, description=self._doing, completed=done, total=total, told=self._told)

    def tell(self, what: str) -> None:
        """Said after the bar from now on, such as cost and failures so far."""
        self._told = what
        if self._bar is not None:
            self._bar.update(self._task, told=what)

    def _start(self, counted: bool) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        how_far = MofNCompleteColumn() if counted else TaskProgressColumn()
        told = TextColumn("{task.fields[told]}", markup=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), how_far, TimeRemainingColumn(), told)
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(self._doing, total=None, told="")
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
