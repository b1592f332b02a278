"""The sentences of a text, in linear time, in a dozen languages, without a model.

    >>> split_sentences("Dr. Lee paid 3.50 for it. “Really?” he asked. 真的吗？是的。")
    ['Dr. Lee paid 3.50 for it.', '“Really?” he asked.', '真的吗？', '是的。']

A sentence ends at a full stop, question or exclamation mark with the quotes and brackets that close there; at a blank
line; and where a heading, a list item, a table row or a code fence begins or ends. A mark in Latin style needs a space
after it, one of Chinese or Japanese does not. No end: after an abbreviation or an initial (English, German, French,
Spanish, Italian, Russian), after the number of a list item, where a small letter follows a full stop or a closing quote
(“Really?” he asked), in decimals, addresses and names of files, after the Chinese ellipsis inside a sentence. Where all
letters are small, they may begin a sentence too.

Not covered: Thai marks no sentences, so its lines are taken; lines of verse without marks are one sentence; the code in
a fence is cut like prose. A piece without any letter or digit (`---`, “…”) is no sentence, and stays with its
neighbour.
"""

from __future__ import annotations

import re
from itertools import pairwise

from rubrank._plain import word_set

_STOPS = ".!?…‥。！？｡．؟۔।॥‼⁇⁈⁉։።"
_WIDE = frozenset("。！？｡؟۔।॥։።")  # these end a sentence without a space
_CLOSERS = "\"'”’»›)\\]）」』】〉》*_`~"
_END = re.compile(rf"[{_STOPS}][{_STOPS}{_CLOSERS}]*+")
_QUOTES = frozenset('"”’」』')
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
# “走吧！”他说。 — the sentence goes on with who said it.
_SAID = re.compile("[^\\s，。！？；：、“「『]{0,4}?(?:说|說|道|问|問|喊|答|叫|と)")
_OPENERS = "\"'“‘„«‹([（「『【¿¡*_`~#>-"
_SPACE = re.compile(rf"\s*+[{re.escape(_OPENERS)}]*+")
_LAST_WORD = re.compile(r"[^\s\"'“”‘’„«»()\[\]（）「」*_`~/]{1,20}\Z")
_THAI = re.compile("[\u0e01-\u0e2e]")
_WORDY = re.compile(r"[^\W_]")

# A line that begins a piece of its own: heading, list item, table row, quote, fence, rule.
_STARTS = re.compile(
    r"[ \t]*+(?:#{1,6}(?:[ \t]|$)|[-*+•·●○◦▪■‣⁃–—][ \t]+\S|[•●・]\S|-[^\W\d_]|[0-9]\ufe0f?\u20e3|"
    r"\d{1,4}(?:[.)][ \t]+\S|[、．])"
    r"|(?:[a-zA-Z][)]|[A-Z][.])[ \t]+\S|[一二三四五六七八九十]{1,3}、"
    r"|[（(](?:\d{1,3}|[一二三四五六七八九十]{1,3})[)）]|[①-⑳]|\||```|~~~|[-*_=]{3,}[ \t]*+$)"
)
_PROSE = re.compile("[A-Za-z][^.)]")  # most lines; none of the above
# A line that is a piece by itself: nothing that follows belongs to it.
_CLOSED = re.compile(r"[ \t]*+(?:#{1,6}[ \t]|\||```|~~~|[-*_=]{3,}[ \t]*+$)")
_MARKER = re.compile(r"[ \t]*+(?:[-*+•·●○◦▪■‣⁃–—][ \t]+|\d{1,4}[.)][ \t]+|[a-zA-Z][.)][ \t]+|[*_#>]+[ \t]*)*+")


# Never the last word of a sentence: a name, a number or the thing meant follows.
_TITLES = word_set("""
    mr mrs ms messrs dr drs prof rev hon sen rep gov gen col lt capt cmdr maj sgt st vs e.g i.e cf viz approx
    fig figs eq vol ed eds pp op ca mt dept univ ph ave
    hr fr frl nr bzw z.b d.h u.a z.t s.o vgl ggf evtl inkl sog ca z d
    mme mlle mm mgr p.ex c.-à-d env ste
    sra srta dra ud uds vd vds p.ej ej núm pág avda
    sig dott ing art
    г ул им т.е т.к напр рис стр св проф акад гл ст
""")
# These may end a sentence too: they do before a word that often begins one.
_EITHER = word_set("""
    jr sr inc ltd co corp bros etc al a.m p.m u.s u.k u.n u.s.a e.u d.c ph.d m.d b.a m.a b.c a.d esq est usw
    jan feb mar apr jun jul aug sep sept oct nov dec т.д т.п др руб тыс млн
""")
_NUMBERED = word_set("no nos nr núm p vol fig art §")  # “no. 5”, but “He said no. Then …”
_SHORTENED = _TITLES | _EITHER | _NUMBERED
_STARTERS = word_set("""
    the this that these those there they he she it we you i a an in on at if as and but so for when while where what why
    how however although though because since some many most his her its their our my your one after before with
    then now also finally meanwhile
    der die das ein eine er sie es wir ich und aber in im wenn le la les il elle un une el los las ella он она они это
""")
_MONTHS = word_set("""
    januar februar märz april mai juni juli august september oktober november dezember jänner jahrhundert
""")


def split_sentences(text: str) -> list[str]:
    """The sentences in order, stripped."""
    return [sentence for piece in _pieces(text) for sentence in cut(piece)]


def _pieces(text: str) -> list[str]:
    """What stands between blank lines, headings, items and rows."""
    pieces: list[list[str]] = [[]]
    thai = _THAI.search(text) is not None
    for line in text.splitlines():
        if not line or line.isspace():
            pieces.append([])
            continue
        starts = not _PROSE.match(line) and _STARTS.match(line)
        if starts or (thai and _THAI.search(line)):
            pieces.append([])
        pieces[-1].append(line)
        if starts and _CLOSED.match(line):
            pieces.append([])
    return ["\n".join(piece).strip() for piece in pieces if piece]


def cut(piece: str) -> list[str]:
    """The sentences of a piece of text that nothing but its marks divides; stripped, each with a letter or digit."""
    marker = _MARKER.match(piece)
    small = piece.islower()
    ends = [m.end() for m in _END.finditer(piece, marker.end() if marker else 0) if _ends(piece, m, small)]
    spans: list[list[int]] = []
    start = since = 0  # where the sentence begins; up to where it is known to hold no word
    for end in (*ends, len(piece)):
        if _WORDY.search(piece, since, end):
            spans.append([start, end])
            start = end
        elif spans:  # “It works. 🎉”: what follows without words belongs to the sentence
            spans[-1][1] = start = end
        since = end
    return [piece[first:last].strip() for first, last in spans]


def count_cut(pieces: list[str]) -> int:
    """As many sentences as `cut` makes of all these pieces."""
    text = "".join(pieces)
    rare = [mark for mark in ("\0" if text.isascii() else _RARE) if mark in text]
    asks = "!" in text or "?" in text
    count = 0
    for piece in filter(None, pieces):
        if rare and any(mark in piece for mark in rare):
            count += len(cut(piece))
        elif piece.find(".", 0, -1) >= 0 or (asks and max(piece.find("!", 0, -1), piece.find("?", 0, -1)) >= 0):
            count += _count_usual(piece) or len(cut(piece))
        elif piece[0].isalnum() or _WORDY.search(piece):
            count += 1
    return count


_RARE = _STOPS.translate(dict.fromkeys(map(ord, ".!?"))) + "\0"  # `_count_usual` takes \0 for a mark of its own
_ODD_STOP = re.compile(r"\.(?![^\W_]| |\Z)")
# A letter or digit at the beginning, which is not that of a list.
_USUAL_START = re.compile(r"[*_\"“‘(\[]{0,3}+(?:[^\W\d_](?![.)])|\d++(?![.)]))")


def _count_usual(piece: str) -> int:
    """The sentences of a piece whose marks stand between a word and a space; 0 where they need a closer look."""
    text = piece.replace("\n", " ") if "\n" in piece else piece
    for mark in "!?":
        if mark in text:
            text = text.replace(f"{mark} ", "\0. ")
            if text.find(mark, 0, -1) >= 0:
                return 0
    if not _USUAL_START.match(text):
        return 0
    parts = text.split(". ")
    if text.count(".") != len(parts) - (text[-1] != ".") and _ODD_STOP.search(text):
        return 0
    count, small = 1, piece.islower()
    for before, after in pairwise(parts):
        following = after[:1]
        if not following.isupper():
            following = after.lstrip().lstrip(_OPENERS)[:1]
            if before[-1:] != "\0" and following.islower() and not small:
                continue
            if not following.isalnum():
                return 0
        if not (before[-7:].isalpha() and len(before) > 6) and not _is_usual_end(before):
            return 0
        count += 1
    return count


def _is_usual_end(before: str) -> bool:
    """Does this end with a word that is no abbreviation, number or initial; or with a word and ! or ?"""
    if before[-1:] == "\0":
        return before[-2:-1].isalnum()
    word = before.rpartition(" ")[2].lower()
    plain = word.replace("-", "")
    return 1 < len(word) < 20 and plain.isalnum() and not plain.isdigit() and word[0] != "-" and word not in _SHORTENED


def _ends(piece: str, end: re.Match[str], small: bool) -> bool:
    """Does the sentence end with this mark? `small`: the piece has no capitals, so small letters begin sentences."""
    at = end.end()
    if at == len(piece):
        return True
    marks, follows = end[0], piece[at]
    if not follows.isspace():
        return _ends_unspaced(piece, marks, at)
    after = _SPACE.match(piece, at)
    begins = after.end() if after else at
    if begins == len(piece):
        return True
    if piece[begins].islower() and not (small and marks == "."):
        return marks[0] in "!?" and marks[-1] in "!?"
    return marks[0] != "." or _is_full_stop(piece, end.start(), begins)


def _ends_unspaced(piece: str, marks: str, at: int) -> bool:
    """Before a character that is no space: only wide marks, or Latin ones between characters of such a script."""
    follows = piece[at]
    if not _WIDE.isdisjoint(marks):
        return not (marks[-1] in _QUOTES and _SAID.match(piece, at)) and follows not in "，、,；;)）"
    return marks[0] in "!?" and bool(_UNSPACED_CHAR.match(follows))


def _is_full_stop(piece: str, at: int, begins: int) -> bool:
    """Is the full stop at `at`, before the word that begins at `begins`, more than the end of an abbreviation?"""
    before = piece[max(0, at - 7) : at]
    if (len(before) == 7 and before.isalpha()) or piece.startswith("..", at):
        return True  # no abbreviation is so long
    last = _LAST_WORD.search(piece, max(0, at - 20), at)
    word = last[0].lower().lstrip("-–—([¿¡") if last else ""
    if len(word) == 1 and word.isalpha():
        return not _is_initial(before[-1:], _next_word(piece, begins))
    if word.isdigit():
        return len(word) > 2 or _next_word(piece, begins) not in _MONTHS
    if word not in _SHORTENED:
        return True
    return word not in _TITLES and _after_short(word, _next_word(piece, begins))


def _after_short(word: str, following: str) -> bool:
    """Does the sentence end with a shortened word that may end one?"""
    if word in _NUMBERED and following[:1].isdigit():
        return False
    return word not in _EITHER or following in _STARTERS


def _is_initial(letter: str, following: str) -> bool:
    """“J. Smith”, “z. B.”; but “than I. She …” and “plan B. The …” end."""
    if letter.isupper():
        return letter != "I" and following not in _STARTERS
    return letter in _TITLES or len(following) == 1


def _next_word(piece: str, begins: int) -> str:
    window = piece[begins : begins + 24]
    return window.split(None, 1)[0].strip(",.;:!?\"'”’)").lower() if window.split() else ""
