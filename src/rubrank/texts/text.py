"""A text and its units: words, sentences, paragraphs, lines. Each unit is computed on first use and cached.

    >>> text = Text("Hi there. All good?\\n\\n- one\\n- two")
    >>> text.sentences
    ('Hi there.', 'All good?', '- one', '- two')
    >>> len(text.paragraphs), len(text.words), text.syllables
    (2, 6, (1, 1, 1, 1, 1, 1))
    >>> [item.text for item in text.markdown.bullets]
    ['one', 'two']

Units are correct for English and Chinese, and mostly correct for Japanese, Korean, Spanish, French, German, Russian,
Arabic and Thai. In scripts without spaces a word is one character. `words.py`, `sentences.py` and `markdown.py` define
how texts are split. Every unit takes time proportional to the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property

from rubrank.texts.markdown import Structure, parse_markdown
from rubrank.texts.sentences import split_sentences
from rubrank.texts.visible import visible
from rubrank.texts.words import count_words, split_words

_BLANK_LINES = re.compile(r"\n\s*\n")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_INVISIBLE = re.compile(
    "[\\s"
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\xad\u180e\u200b-\u200d\u2060-\u2064\ufeff"  # soft hyphen, zero-width spaces and joiners, byte order mark
    "\u061c\u200e\u200f\u2028-\u202e\u2065-\u206f"  # marks of direction, separators of lines and paragraphs
    "\ufe00-\ufe0f"  # variation selectors, which choose the form of the character before
    "]+"
)


class Text:
    """One text with its units. `raw`, `str(text)`, `in` and `len` give the text itself."""

    def __init__(self, text: str) -> None:
        self.raw = text

    def __str__(self) -> str:
        return self.raw

    def __repr__(self) -> str:
        return f"Text({self.raw!r})"

    def __contains__(self, part: str) -> bool:
        return part in self.raw

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def shown(self) -> Text:
        """The part of the text that a reader sees (`visible.py`); this object itself if nothing is hidden."""
        visible_text = visible(self.raw)
        if visible_text == self.raw:
            return self
        return Text(visible_text)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines, including blank ones."""
        return tuple(self.raw.splitlines())

    @cached_property
    def paragraphs(self) -> tuple[str, ...]:
        """The parts of the text between blank lines, stripped."""
        body = "\n".join(self.lines).strip()
        if not body:
            return ()
        return tuple(paragraph.strip() for paragraph in _BLANK_LINES.split(body))

    @cached_property
    def word_count(self) -> int:
        """The number of `words`, counted without building them."""
        return count_words(self.raw)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words without the punctuation around them."""
        return tuple(split_words(self.raw))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Sentences, stripped; the end of a paragraph, heading or list item ends a sentence too."""
        return tuple(split_sentences(self.raw))

    @cached_property
    def letters(self) -> str:
        """The letters of all scripts, joined; a separate accent is first combined with its letter."""
        return _NOT_LETTERS.sub("", self.composed)

    @cached_property
    def characters(self) -> str:
        """Every visible character: no white space, control, zero-width or direction characters."""
        return _INVISIBLE.sub("", self.composed)

    @cached_property
    def syllables(self) -> tuple[int, ...]:
        """Syllables of each word by English spelling; 1 for a character that is a word, 0 for a number."""
        from rubrank.texts.lexicon import count_syllables  # reads its table of exceptions

        return tuple(count_syllables(word) for word in self.words)

    @cached_property
    def markdown(self) -> Structure:
        """Headings, bullets, numbered items, code blocks, tables, emphasis and links, with their texts."""
        return parse_markdown(self.raw)

    @cached_property
    def composed(self) -> str:
        """The text with every accent combined with its letter (Unicode NFC)."""
        if self.raw.isascii():
            return self.raw
        return unicodedata.normalize("NFC", self.raw)

    @cached_property
    def folded(self) -> str:
        """The text prepared for searching: see `fold`."""
        return fold(self.raw)


def fold(text: str) -> str:
    """Prepare a text for comparison: "Ｉt’s  ﬁne" → "it's fine".

    Compatible forms are made equal (Unicode NFKC: wide letters, ligatures), letters lower case, apostrophes straight,
    and white space single spaces.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().replace("’", "'").split())
