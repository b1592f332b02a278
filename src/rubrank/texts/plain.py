"""A text in which letters and words of plain ASCII can be found fast, whatever else it holds.

    >>> plain("“Café”, he’s SURE")
    " café , he's sure"

Of ASCII only capitals change. Any other letter becomes one and the same letter, any other character a space, so that
the length stays.
A word of ASCII letters, digits and apostrophes occurs here where it occurs in the text folded by Unicode's rules
(compatible forms, no case), with letters at its sides where it has letters there. Where a character would fold to such
letters (ﬁ, Ｋ, é written as e and an accent) there is no such form: None.
"""

from __future__ import annotations

import re
import unicodedata

from rubrank.texts.classes import ClassTable

_LETTER, _SPACE, _HARMFUL = 0xE9, 0x20, 0x01
_ACCENTS = re.compile("[\u0300-\u036f]")  # only these join a letter of ASCII
_ASCII_WORDY = re.compile("[a-z0-9']")
# Characters of scripts without spaces: a word beside them is a word of its own.
UNSPACED = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f\u3040-\u30ff\u0e00-\u0e7f]")


def plain(text: str) -> str | None:
    """The form described above."""
    if text.isascii():
        return text.lower()
    return plain_of(FORMS.classes(text))


def plain_of(form: bytes) -> str | None:
    """The same from the classes that `FORMS` gives the characters."""
    return None if _HARMFUL in form else form.decode("latin-1")


def is_glue(char: str) -> bool:
    """Would it make another word of what stands beside it?"""
    return char.isalnum() and (char.isascii() or not UNSPACED.match(char))


def _form(char: str) -> int:
    if char.isascii():
        return ord(char.lower()) if char >= " " else _SPACE
    if char == "’":
        return ord("'")
    folded = unicodedata.normalize("NFKC", char).casefold()
    begins = unicodedata.normalize("NFKD", char)[:1]
    if not folded or _ASCII_WORDY.search(folded) or _ACCENTS.match(begins):
        return _HARMFUL
    sides = {is_glue(folded[0]), is_glue(folded[-1])}
    return _HARMFUL if len(sides) > 1 else _LETTER if sides.pop() else _SPACE


FORMS = ClassTable(_form)
