"""Questions about single characters, answered by tables of bytes, in a tenth of a pattern's time.

    >>> beyond_ascii("naïve café, 中文")
    'ï é 中文'
    >>> count_signs("a + b = c!")
    3

They tell fast that a text holds nothing of a kind; a pattern then looks closely at the few texts that may.
"""

from __future__ import annotations

_ASCII = bytes(range(128))
_BLANKED = b" " * 128 + bytes(range(128, 256))
_SPACES = bytes(code for code in _ASCII if chr(code).isspace())
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\f\r\x1b")
_NOT_SIGNS = _SPACES + bytes(code for code in _ASCII if chr(code).isalnum())
_NOT_CONTROLS = bytes(code for code in _ASCII if code not in _CONTROLS)


def beyond_ascii(text: str) -> str:
    """The characters that are not ASCII; those that stand together do so here, and others have a space between them.

    A pattern of such characters alone finds here what it finds in the text.
    """
    if text.isascii():
        return ""
    pieces = text.encode("utf-8", "surrogatepass").translate(_BLANKED).split()
    return b" ".join(pieces).decode("utf-8", "surrogatepass")


def has_controls(text: str) -> bool:
    """Control characters of ASCII, other than tabs, breaks of lines and pages, and escape."""
    return bool(_as_ascii(text).translate(None, _NOT_CONTROLS))


def count_signs(text: str) -> int:
    """Characters of ASCII that are neither letters nor digits nor white space."""
    return len(_as_ascii(text).translate(None, _NOT_SIGNS))


def _as_ascii(text: str) -> bytes:
    return text.encode() if text.isascii() else text.encode("ascii", "ignore")
