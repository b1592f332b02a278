"""Memory that a worker and its caller share: where the worker is, and the message that it works on.

    shared = Shared(shared_file())
    size = shared.put(pickle.dumps(message))       # the caller
    pickle.loads(shared.get(size))                 # the worker, which has the same file: nothing is copied on the way

Texts are much the largest part of a message. Through a pipe they would be copied four times, 64 kB at a time, each with
a change of the process that runs.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

_PAGE = mmap.ALLOCATIONGRANULARITY
_ROOM = 1 << 20  # bytes of a message that there is always room for
_LARGE = 64 << 20  # room beyond this is given back when it is not needed
BEGUN, BATCH, ROW, CHECK, CHECKING = range(5)
"""Cells: how many checks the worker has begun, the place of the last of them, and whether it is at it."""
MEASURING: Final = (1 << 64) - 1
"""As the number of a check: none, texts are measured."""


class Shared:
    """A page of numbers, and after it room for a message, which grows."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.cells = memoryview(mmap.mmap(file, _PAGE)).cast("Q")
        self._room: mmap.mmap | None = None

    @property
    def begun(self) -> int:
        """How many checks the worker has begun."""
        return self.cells[BEGUN]

    @property
    def is_checking(self) -> bool:
        """Is it at a check, and not at something of our own, such as loading compiled code?"""
        return bool(self.cells[CHECKING])

    @property
    def place(self) -> tuple[int, int, int]:
        """The last of them: number of the batch in its message, of the rollout in the batch, of the check."""
        return self.cells[BATCH], self.cells[ROW], self.cells[CHECK]

    def put(self, message: bytes) -> int:
        """Leave a message there; returns its size. The one before must have been read."""
        size = len(message)
        if self._room is None or len(self._room) < size or len(self._room) > max(_LARGE, size):
            self._close_room()
            room = max(_ROOM, -(-size // _PAGE) * _PAGE)
            os.ftruncate(self._file, _PAGE + room)
            self._room = mmap.mmap(self._file, room, offset=_PAGE)
        self._room[:size] = message
        return size

    def get(self, size: int) -> memoryview:
        """The message; to be released before the next is asked for."""
        if self._room is None or len(self._room) < size:
            self._close_room()
            self._room = mmap.mmap(self._file, os.fstat(self._file).st_size - _PAGE, offset=_PAGE)
        return memoryview(self._room)[:size]

    def close(self) -> None:
        """Give it back, once: by then another file may have its number. What was counted can still be asked for."""
        self._close_room()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _close_room(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None


def shared_file() -> int:
    """Memory as a file without a name."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("rubrank")
    else:  # macOS
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.ftruncate(file, _PAGE)
    return file
