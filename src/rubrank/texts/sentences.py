"""Split a text into sentences, in linear time, in a dozen languages, without a model.

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

from rubrank.texts.lexicon import read_word_lists

_STOPS = ".!?…‥。！？｡．؟۔।॥‼⁇⁈⁉։።"
_WIDE_STOPS = frozenset("。！？｡؟۔।॥։።")  # these end a sentence without a space
_CLOSERS = "\"'”’»›)\\]）」』】〉》*_`~"
_END = re.compile(rf"[{_STOPS}][{_STOPS}{_CLOSERS}]*+")
_CLOSING_QUOTES = frozenset('"”’」』')
_UNSPACED_CHAR = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
# “走吧！”他说。 — the sentence continues with who said it.
_SPEAKER_FOLLOWS = re.compile("[^\\s，。！？；：、“「『]{0,4}?(?:说|說|道|问|問|喊|答|叫|と)")
_OPENERS = "\"'“‘„«‹([（「『【¿¡*_`~#>-"
_SPACE_AND_OPENERS = re.compile(rf"\s*+[{re.escape(_OPENERS)}]*+")
_LAST_WORD = re.compile(r"[^\s\"'“”‘’„«»()\[\]（）「」*_`~/]{1,20}\Z")
_THAI = re.compile("[\u0e01-\u0e2e]")
_WORDY = re.compile(r"[^\W_]")

# A line that begins a piece of its own
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
_LIST_MARKER = re.compile(
    r"[ \t]*+(?:[-*+•·●○◦▪■‣⁃–—][ \t]+|\d{1,4}[.)][ \t]+|[a-zA-Z][.)][ \t]+|[*_#>]+[ \t]*)*+"
)

_LISTS = read_word_lists("abbreviations.tsv")
_TITLES = _LISTS["title"]
_MAY_END = _LISTS["may_end"]
_BEFORE_NUMBER = _LISTS["before_number"]
_STARTERS = _LISTS["starter"]
_MONTHS = _LISTS["month"]
_ABBREVIATIONS = _TITLES | _MAY_END | _BEFORE_NUMBER


def split_sentences(text: str) -> list[str]:
    """Return the sentences in order, stripped."""
    sentences: list[str] = []
    for piece in _split_pieces(text):
        sentences += split_piece(piece)
    return sentences


def _split_pieces(text: str) -> list[str]:
    """Split the text at blank lines, headings, list items and table rows."""
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
    return ["\n".join(piece).strip() for piece in pieces if piece]


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
        if _WORDY.search(piece, searched_to, end):
            spans.append([start, end])
            start = end
        elif spans:
            # “It works. 🎉”: text without words belongs to the sentence before it.
            spans[-1][1] = end
            start = end
        searched_to = end
    return [piece[first:last].strip() for first, last in spans]


def _ends_sentence(piece: str, mark: re.Match[str], is_lower: bool) -> bool:
    """Tell whether the mark ends a sentence. `is_lower`: the piece has no capitals, so lower case begins sentences."""
    marks = mark[0]
    end = mark.end()
    if end == len(piece):
        return True
    if not piece[end].isspace():
        return _ends_without_space(piece, marks, end)
    space = _SPACE_AND_OPENERS.match(piece, end)
    next_start = space.end() if space else end
    if next_start == len(piece):
        return True
    if piece[next_start].islower() and not (is_lower and marks == "."):
        return marks[0] in "!?" and marks[-1] in "!?"
    return marks[0] != "." or _is_full_stop(piece, mark.start(), next_start)


def _ends_without_space(piece: str, marks: str, end: int) -> bool:
    """Tell whether a mark without a space after it ends a sentence.

    Chinese and Japanese marks do; of the others only ! and ? do, before a letter of a script without spaces.
    """
    following = piece[end]
    if not _WIDE_STOPS.isdisjoint(marks):
        if marks[-1] in _CLOSING_QUOTES and _SPEAKER_FOLLOWS.match(piece, end):
            return False
        return following not in "，、,；;)）"
    return marks[0] in "!?" and _UNSPACED_CHAR.match(following) is not None


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
        return not _is_initial(before[-1:], _find_next_word(piece, next_start))
    if word.isdigit():
        return len(word) > 2 or _find_next_word(piece, next_start) not in _MONTHS
    if word not in _ABBREVIATIONS:
        return True
    if word in _TITLES:
        return False
    next_word = _find_next_word(piece, next_start)
    if word in _BEFORE_NUMBER and next_word[:1].isdigit():
        return False
    return word not in _MAY_END or next_word in _STARTERS


def _is_initial(letter: str, next_word: str) -> bool:
    """Tell whether a single letter before a full stop is an initial.

    “J. Smith” and “z. B.” are initials; “than I. She …” and “plan B. The …” end a sentence.
    """
    if letter.isupper():
        return letter != "I" and next_word not in _STARTERS
    return letter in _TITLES or len(next_word) == 1


def _find_next_word(piece: str, start: int) -> str:
    """Return the word that begins at `start`, in lower case and without punctuation; "" at the end."""
    words = piece[start : start + 24].split(None, 1)
    if not words:
        return ""
    return words[0].strip(",.;:!?\"'”’)").lower()
