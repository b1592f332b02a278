"""One class for every character of a text, at the speed of a table.

    >>> table = ClassTable(lambda char: 2 if char.isalnum() else 1)
    >>> table.classes("a 中!")
    b'\\x02\\x01\\x02\\x01'

What is then counted in the classes costs little: transitions, neighbours, sums. A class is decided once for every
character that is ever met; texts of plain ASCII need one `bytes.translate`, others one look-up for each character.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CODES = 0x110000


class ClassTable:
    """Classes 1 to 255, as `class_of` tells them for single characters; those `without` are left out of the result."""

    def __init__(self, class_of: Callable[[str], int], without: bytes = b"") -> None:
        self._class_of, self._without = class_of, without

    def classes(self, text: str) -> bytes:
        """The class of every character, a byte each."""
        if text.isascii():
            return text.encode().translate(self._ascii, self._ascii_without)
        found = self.look_up(code_points(text))
        return found.translate(None, self._without) if self._without else found

    def look_up(self, codes: NDArray[np.intp]) -> bytes:
        """The class of every character by its number; none is left out."""
        found = self.known.take(codes).tobytes()
        if b"\0" in found:  # characters that were not met before
            for code in np.unique(codes).tolist():
                self.known[code] = self._class_of(chr(code))
            found = self.known.take(codes).tobytes()
        return found

    @cached_property
    def _ascii(self) -> bytes:
        return bytes(self._class_of(chr(code)) for code in range(128)) + bytes(128)

    @cached_property
    def _ascii_without(self) -> bytes:
        return bytes(code for code in range(128) if self._ascii[code] in self._without)

    @cached_property
    def known(self) -> NDArray[Any]:
        """The classes by number; 0 where a character was not met yet."""
        return np.zeros(_CODES, dtype=np.uint8)  # the system hands out only the pages that are touched


def code_points(text: str) -> NDArray[np.intp]:
    """The number of every character."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.intp)
