"""A text and its units: words, sentences, paragraphs, lines. Each unit is computed on first use and cached.

    >>> text = Text("Hi there. All good?\\n\\n- one\\n- two")
    >>> text.sentences
    ('Hi there.', 'All good?', '- one', '- two')
    >>> len(text.paragraphs), len(text.words), text.syllables
    (2, 6, (1, 1, 1, 1, 1, 1))
    >>> [item.text for item in text.markdown.bullets]
    ['one', 'two']

Units are correct for English and Chinese, and mostly correct for Japanese, Korean, Spanish, French, German, Russian,
Arabic and Thai. In scripts without spaces a word is one character. `words.py` and `markdown.py` define words and
Markdown. Every unit takes time proportional to the length of the text.

Sentences are split without a model:

    >>> split_sentences("Dr. Lee paid 3.50 for it. “Really?” he asked. 真的吗？是的。")
    ['Dr. Lee paid 3.50 for it.', '“Really?” he asked.', '真的吗？', '是的。']

A sentence ends
- at a full stop, question mark or exclamation mark, including the quotes and brackets that close there. Latin marks
  need a space after them; Chinese and Japanese marks do not;
- at a blank line, and where a heading, list item, table row or code fence begins or ends.

A mark does not end a sentence
- after an abbreviation or an initial (English, German, French, Spanish, Italian, Russian);
- after the number of a list item, in decimals, addresses and file names;
- before a lower-case letter that follows a full stop or a closing quote (“Really?” he asked), unless the whole piece is
  in lower case;
- after the Chinese ellipsis inside a sentence.

Text without a letter or digit is no sentence: beside one (“It works. 🎉”) it stays with it; a rule (`---`) or a
paragraph without words is dropped. Not covered: Thai has no sentence marks, so each line is a sentence; verse without
marks is one sentence; code in a fence is cut like prose.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property

from rubrank.texts.markdown import Structure, parse_markdown
from rubrank.texts.visible import visible
from rubrank.texts.words import count_syllables, count_words, read_word_lists, split_words

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


# ---- sentences -------------------------------------------------------------------------------------------------------

_STOPS = ".!?…‥。！？｡．؟۔।॥‼⁇⁈⁉։።"
_WIDE_STOPS = frozenset("。！？｡؟۔।॥։።")  # these end a sentence without a space
_CLOSERS = "\"'”’»›)]）」』】〉》*_`~"
_END = re.compile(rf"[{_STOPS}][{_STOPS}{re.escape(_CLOSERS)}]*+")
_CLOSING_QUOTES = frozenset('"”’」』')
_UNSPACED_CHAR = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
# “走吧！”他说。 — the sentence continues with who said it.
_SPEAKER_FOLLOWS = re.compile("[^\\s，。！？；：、“「『]{0,4}?(?:说|說|道|问|問|喊|答|叫|と)")
_OPENERS = "\"'“‘„«‹([（「『【¿¡*_`~#>-"
_SPACE_AND_OPENERS = re.compile(rf"\s*+[{re.escape(_OPENERS)}]*+")
_LAST_WORD = re.compile(r"[^\s\"'“”‘’„«»()\[\]（）「」*_`~/]{1,20}\Z")
_THAI = re.compile("[\u0e01-\u0e2e]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")

# A line that begins a new piece
_STARTS_PIECE = re.compile(
    r"[ \t]*+(?:"
    r"#{1,6}(?:[ \t]|$)"  # heading
    r"|[-*+•·●○◦▪■‣⁃–—][ \t]+\S|[•●・]\S|-[^\W\d_]"  # bullet
    r"|[0-9]\ufe0f?\u20e3"  # number as an emoji
    r"|\d{1,4}(?:[.)][ \t]+\S|[、．])|(?:[a-zA-Z][)]|[A-Z][.])[ \t]+\S"  # 1. or 1、 or a) or A.
    r"|[一二三四五六七八九十]{1,3}、|[（(](?:\d{1,3}|[一二三四五六七八九十]{1,3})[)）]|[①-⑳]"
    r"|\||```|~~~|[-*_=]{3,}[ \t]*+$)"  # table row, fence, rule
)
_PLAIN_LINE = re.compile("[A-Za-z][^.)]")  # how most lines begin; never the start of a piece
# A line that is a piece by itself: nothing that follows belongs to it.
_SINGLE_LINE_PIECE = re.compile(r"[ \t]*+(?:#{1,6}[ \t]|\||```|~~~|[-*_=]{3,}[ \t]*+$)")
# "- ", "2. ", "a) ", "> ", "**", also several in a row: the sentence begins after them.
_LIST_MARKER = re.compile(
    r"[ \t]*+(?:[-*+•·●○◦▪■‣⁃–—][ \t]+|\d{1,4}[.)][ \t]+|[a-zA-Z][.)][ \t]+|[*_#>]+[ \t]*)*+"
)

_LISTS = read_word_lists("abbreviations.tsv")
_TITLES = _LISTS["title"]  # "dr", "prof": never the end of a sentence
_MAY_END = _LISTS["may_end"]  # "etc", "inc": the end if a word of `_STARTERS` follows
_BEFORE_NUMBER = _LISTS["before_number"]  # "no", "art": not the end if a number follows, “no. 5”
_STARTERS = _LISTS["starter"]  # "the", "he": words that often begin a sentence
_MONTHS = _LISTS["month"]  # in German, where dates are written “3. März”
_ABBREVIATIONS = _TITLES | _MAY_END | _BEFORE_NUMBER


def split_sentences(text: str) -> list[str]:
    """Return the sentences in order, stripped."""
    # Headings, list items and table rows are separate pieces, and so are paragraphs.
    pieces: list[list[str]] = [[]]
    has_thai = _THAI.search(text) is not None
    for line in text.splitlines():
        if not line or line.isspace():
            pieces.append([])
            continue
        starts_piece = not _PLAIN_LINE.match(line) and _STARTS_PIECE.match(line)
        if starts_piece or (has_thai and _THAI.search(line)):
            pieces.append([])
        pieces[-1].append(line)
        if starts_piece and _SINGLE_LINE_PIECE.match(line):
            pieces.append([])
    sentences: list[str] = []
    for piece in filter(None, pieces):
        sentences += split_piece("\n".join(piece).strip())
    return sentences


def split_piece(piece: str) -> list[str]:
    """Return the sentences of a piece of text that only its marks divide; stripped, each with a letter or digit."""
    marker = _LIST_MARKER.match(piece)
    body_start = marker.end() if marker else 0
    is_lower = piece.islower()
    ends = [
        match.end()
        for match in _END.finditer(piece, body_start)
        if _ends_sentence(piece, match, is_lower)
    ]
    spans: list[list[int]] = []
    start = 0
    searched_to = 0  # the text from `start` to here holds no word
    for end in (*ends, len(piece)):
        if _LETTER_OR_DIGIT.search(piece, searched_to, end):
            spans.append([start, end])
            start = end
        elif spans:
            # “It works. 🎉”: text without words belongs to the sentence before it.
            spans[-1][1] = end
            start = end
        searched_to = end
    return [piece[first:last].strip() for first, last in spans]


def _ends_sentence(piece: str, match: re.Match[str], is_lower: bool) -> bool:
    """Tell whether the signs of the match, a stop and what closes after it ("?!”"), end a sentence.

    `is_lower`: the piece has no capitals, so lower case begins sentences.
    """
    signs = match[0]
    end = match.end()
    if end == len(piece):
        return True
    next_char = piece[end]
    if not next_char.isspace():
        # Chinese and Japanese marks need no space: “真的吗？是的。” Of the others, ! and ? need none before a letter of
        # a script without spaces: “OK!好的”.
        if _WIDE_STOPS.isdisjoint(signs):
            return signs[0] in "!?" and _UNSPACED_CHAR.match(next_char) is not None
        if signs[-1] in _CLOSING_QUOTES and _SPEAKER_FOLLOWS.match(piece, end):
            return False
        return next_char not in "，,、；;)）"
    space = _SPACE_AND_OPENERS.match(piece, end)
    next_start = space.end() if space else end
    if next_start == len(piece):
        return True
    if piece[next_start].islower() and not (is_lower and signs == "."):
        # “That's it! and more” ends; “Really?” he asked, “Wait … what” and “approx. five” go on.
        return signs[0] in "!?" and signs[-1] in "!?"
    if signs[0] != ".":
        return True  # “Really? He asked.”
    # “It rains. He left.”, or “it rains. he left.” in lower case; not “Dr. Lee left.”
    return _is_full_stop(piece, match.start(), next_start)


def _is_full_stop(piece: str, at: int, next_start: int) -> bool:
    """Tell whether the full stop at `at`, before the word at `next_start`, is more than the end of an abbreviation."""
    before = piece[max(0, at - 7) : at]
    if len(before) == 7 and before.isalpha():
        return True  # no abbreviation is that long
    if piece.startswith("..", at):
        return True
    last = _LAST_WORD.search(piece, max(0, at - 20), at)
    word = last[0].lower().lstrip("-–—([¿¡") if last else ""
    if len(word) == 1 and word.isalpha():
        # “J. Smith” and “z. B.” are initials; “than I. She …” and “plan B. The …” end a sentence.
        next_word = _find_next_word(piece, next_start)
        letter = before[-1:]
        if letter.isupper():
            return letter == "I" or next_word in _STARTERS
        # Single letters among the titles are those of “d. h.”, “z. B.” and “г. Москва”.
        return letter not in _TITLES and len(next_word) != 1
    if word.isdigit():
        # “am 3. März” is a date; “in 1995. März …” ends with a year.
        return len(word) > 2 or _find_next_word(piece, next_start) not in _MONTHS
    if word not in _ABBREVIATIONS:
        return True
    if word in _TITLES:
        return False
    next_word = _find_next_word(piece, next_start)
    if word in _BEFORE_NUMBER and next_word[:1].isdigit():
        return False
    return word not in _MAY_END or next_word in _STARTERS


def _find_next_word(piece: str, start: int) -> str:
    """Return the word that begins at `start`, in lower case and without punctuation; "" at the end."""
    words = piece[start : start + 24].split(None, 1)
    if not words:
        return ""
    return words[0].strip(",.;:!?\"'”’)").lower()
