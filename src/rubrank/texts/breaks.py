"""Where lines end.

>>> breaks_plainly("one\\ntwo"), breaks_plainly("one\\r\\ntwo")
(True, False)
"""

from __future__ import annotations

_ODD = "\x85\u2028\u2029"  # with those of ASCII: where else `str.splitlines` cuts


def breaks_plainly(text: str) -> bool:
    """Is every line break a line feed? Then patterns can find lines without cutting the text."""
    if "\r" in text or "\x0b" in text or "\x0c" in text or "\x1c" in text or "\x1d" in text or "\x1e" in text:
        return False
    return text.isascii() or not any(char in text for char in _ODD)
