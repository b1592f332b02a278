"""A text and its units: words, sentences, paragraphs, lines … Each is found when first asked for, and kept.

    >>> text = Text("Hi there. All good?\\n\\n- one\\n- two")
    >>> text.sentences
    ('Hi there.', 'All good?', '- one', '- two')
    >>> len(text.paragraphs), len(text.words), text.syllables
    (2, 6, (1, 1, 1, 1, 1, 1))
    >>> [item.text for item in text.markdown.bullets]
    ['one', 'two']

Right for English and Chinese, decent for Japanese, Korean, Spanish, French, German, Russian, Arabic and Thai. A word of
a script without spaces is one character. How words, sentences and Markdown are cut: `texts/`. Every unit takes time in
proportion to the text, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property

from rubrank.texts.breaks import breaks_plainly
from rubrank.texts.plain import plain
from rubrank.texts.sentences import split_sentences
from rubrank.texts.structure import Structure, parse
from rubrank.texts.visible import visible
from rubrank.texts.words import count_words, split_words

_BLANK_LINES = re.compile(r"\n\s*\n")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_INVISIBLE = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
)


class Text:
    """One text; `str(text)` is it."""

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
        """What a reader sees of it (`texts/visible.py`); the text itself where nothing is hidden."""
        seen = visible(self.raw)
        return self if seen is self.raw or seen == self.raw else Text(seen)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines, blank ones too."""
        return tuple(self.raw.splitlines())

    @cached_property
    def paragraphs(self) -> tuple[str, ...]:
        """What stands between blank lines, stripped."""
        if self.breaks_plainly:
            body = self.raw.strip()
            return tuple(map(str.strip, _BLANK_LINES.split(body))) if body else ()
        blocks: list[list[str]] = [[]]
        for line in self.lines:
            if line.strip():
                blocks[-1].append(line)
            elif blocks[-1]:
                blocks.append([])
        return tuple("\n".join(block).strip() for block in blocks if block)

    @cached_property
    def breaks_plainly(self) -> bool:
        """Is every line break a line feed? Then patterns can find lines without cutting the text."""
        return breaks_plainly(self.raw)

    @cached_property
    def word_count(self) -> int:
        """As many as there are `words`, without making them."""
        return count_words(self.raw)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words without the punctuation around them, as many as `count_words` counts."""
        return tuple(split_words(self.raw))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Sentences, stripped; a paragraph, a heading and a list item end one too."""
        return tuple(split_sentences(self.raw))

    @cached_property
    def letters(self) -> str:
        """The letters of all scripts, one after another; an accent written apart is joined to its letter first."""
        return _NOT_LETTERS.sub("", self.composed)

    @cached_property
    def plain(self) -> str | None:
        """Where letters and words of plain ASCII are found fast; None if they cannot (see `texts/plain.py`)."""
        return plain(self.raw)

    @cached_property
    def characters(self) -> str:
        """Everything that is seen: no white space, no control, zero-width or direction characters."""
        return _INVISIBLE.sub("", self.composed)

    @cached_property
    def syllables(self) -> tuple[int, ...]:
        """The syllables of each word, by English spelling; 1 for a character that is a word, 0 for a number."""
        from rubrank.texts.lexicon import syllables  # the table is only needed here

        return tuple(map(syllables, self.words))

    @cached_property
    def markdown(self) -> Structure:
        """Headings, bullets, numbered items, code blocks, tables, emphasis … with their texts."""
        return parse(self.raw)

    @cached_property
    def composed(self) -> str:
        """The text with every accent joined to its letter (NFC)."""
        return self.raw if self.raw.isascii() else unicodedata.normalize("NFC", self.raw)
