"""What the criteria of `paper_*` and `gates` share: prose without code, list items, sentences, phrases, ranges.

    >>> [item.text for item in list_items("一、苹果\\n二、香蕉")]
    ['苹果', '香蕉']

Everything here takes time proportional to the text, whatever the text is.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rubrank.texts.plain import is_glue
from rubrank.texts.sentences import count_cut, cut
from rubrank.texts.text import Text
from rubrank.texts.visible import without_unseen

COMMAS = ",，、،﹐︐"
HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = f"{HAN}\u3040-\u30ff\u0e00-\u0e7f"
_FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>] |\d{1,3}[.)] )?[ \t]*(`{3,}|~{3,})(.*)")
_INLINE = re.compile(r"`[^`\n]{1,1000}`")
_ADDRESS_END = r"[^\s<>\"'）】]{1,2000}"
# Each with a beginning of its own, which is found several times as fast as one of two.
_ADDRESS, _SHORT_ADDRESS = re.compile(rf"https?://{_ADDRESS_END}"), re.compile(rf"www\.{_ADDRESS_END}")
_NUMERAL = "一二三四五六七八九十百"
_DOTS = "•·●○◦▪■□◆▶►➢✓✔✅‣⁃・"  # bullets that need no space
_SPACED = "-*+–"  # bullets that need one; "-a" is a bullet too, "-5" is not
_BULLET_SIGN = rf"[ \t]*+(?:[{_SPACED}][ \t]++|-(?=[^\W\d_])|[{_DOTS}][ \t]*+)(?=\S)"
_NUMBER_SIGN = (
    rf"[ \t]*+(?:\*\*|#{{1,6}}[ \t])?(?:\d{{1,4}}[.)](?=[ \t]\S)|\d{{1,4}}[、．]"
    rf"|[(（](?:\d{{1,3}}|[{_NUMERAL}]{{1,3}})[)）]"
    rf"|[①-⑳]|[0-9]\ufe0f?\u20e3|\U0001f51f|[{_NUMERAL}]{{1,3}}、|(?:[a-zA-Z]"
    rf"|[ivxIVX]{{1,5}})[.)](?=[ \t]\S))[ \t]*+(?=\S)"
)
_RULE_LINE = r"[ \t]{0,3}(?:(?:\*[ \t]*+){3,}+|(?:-[ \t]*+){3,}+|(?:_[ \t]*+){3,}+|={3,}+[ \t]*+)(?=\n|\Z)"
_HEADING_START = r"[ \t]{0,3}#{1,6}(?:[ \t]++(?=\S)|(?=\n|\Z))"
_BULLET = re.compile(rf"(?=([ \t]*)){_BULLET_SIGN}(.*)")
_NUMBERED = re.compile(rf"(?=([ \t]*)){_NUMBER_SIGN}(.*)")
_RULE = re.compile(_RULE_LINE)
_HEADING = re.compile(_HEADING_START)

# The same in a whole text whose lines all end with a line feed: a pattern that begins with a character finds it fast.
_BULLET_LINE = re.compile(rf"\n(?=[ \t]*+[{_SPACED}{_DOTS}])(?!{_RULE_LINE}){_BULLET_SIGN}")
_NOT_SPECIAL = r"[A-HJ-UWYZa-hj-uwyz][^.)]"  # the beginning of most lines; nothing below begins so
_BETWEEN = re.compile(
    rf"\n(?!{_NOT_SPECIAL})"
    rf"(?:[^\S\n]*+(?=\n|\Z)|{_HEADING_START}[^\n]*+|{_RULE_LINE}|{_BULLET_SIGN}|{_NUMBER_SIGN})"
)
_DECORATION = " \t\r\n*_#>`~\"'“”‘’「」『』"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list."""

    kind: Literal["bullet", "numbered"]
    indent: int
    text: str


def split_code(text: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Lines outside code fences, the (tag, code) of every fence, and whether the last fence never closes."""
    outside: list[str] = []
    blocks: list[tuple[str, str]] = []
    mark, tag, inside = "", "", list[str]()
    for line in text.splitlines():
        fence = _FENCE.match(line) if "`" in line or "~" in line else None
        if mark and fence and fence[1].startswith(mark) and not fence[2].strip():
            blocks.append((tag, "\n".join(inside)))
            mark, inside = "", []
        elif mark:
            inside.append(line)
        elif fence and fence[1][0] not in fence[2]:
            mark, tag = fence[1], fence[2].strip()
            outside.append("")
        else:
            outside.append(line)
    if mark:
        blocks.append((tag, "\n".join(inside)))
    return outside, blocks, bool(mark)


def without_code(text: str) -> str:
    """The text without code (fenced or in backticks) and addresses."""
    prose = "\n".join(split_code(text)[0]) if has_fence(text) else text
    prose = _INLINE.sub(" ", prose) if "`" in prose else prose
    prose = _ADDRESS.sub(" ", prose) if "/" in prose and "://" in prose else prose
    return _SHORT_ADDRESS.sub(" ", prose) if "www." in prose else prose


def has_fence(text: str) -> bool:
    """May there be a code fence? A single character is sought ten times as fast as three."""
    return ("`" in text and "```" in text) or ("~" in text and "~~~" in text)


def count_bullets(text: Text) -> int:
    """As many as `list_items` gives bullets."""
    if text.breaks_plainly and not has_fence(text.raw):
        return len(_BULLET_LINE.findall("\n" + text.raw))
    return sum(item.kind == "bullet" for item in list_items(text.raw))


def list_items(text: str) -> list[Item]:
    """The entries of all lists outside code, nested ones too, in order."""
    found = []
    for line in split_code(text)[0]:
        if not line.strip() or _RULE.match(line):
            continue
        if bullet := _BULLET.match(line):
            found.append(Item("bullet", _indent(bullet[1]), bullet[2].strip()))
        elif number := _NUMBERED.match(line):
            found.append(Item("numbered", _indent(number[1]), number[2].strip()))
    return found


def _indent(space: str) -> int:
    return len(space.expandtabs(4))


def is_item(line: str) -> bool:
    """Does a list entry begin on this line?"""
    return bool((_BULLET.match(line) or _NUMBERED.match(line)) and not _RULE.match(line))


def is_rule(line: str) -> bool:
    """A line of dashes, stars or the like."""
    return bool(_RULE.match(line))


def is_heading(line: str) -> bool:
    """A Markdown heading."""
    return bool(_HEADING.match(line))


def bare(line: str) -> str:
    """The line without Markdown signs and quotation marks around it."""
    return line.strip(_DECORATION)


def sentences(text: str) -> list[str]:
    """Sentences of prose: code, headings and rules are none; a list entry starts a new one, without its sign.

    A mark ends a sentence where it does in `Text.sentences`, which leaves nothing out.
    """
    return [sentence for piece in _pieces(Text(mark_titles(text))) for sentence in cut(piece)]


def count_sentences(text: Text) -> int:
    """As many as there are `sentences`, without making them."""
    text = with_marked_titles(text)
    return count_cut(_pieces(text))


_UNDERLINED = re.compile(
    r"(?m)^[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,200})\n={2,}[ \t]*$"
    # Dashes under a short line that is a block of its own; elsewhere they are a rule.
    r"|(?:\A|(?<=\n\n))[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,80}[^\n.!?。！？:：,，;；])\n-{2,}[ \t]*$"
)


def with_marked_titles(text: Text) -> Text:
    """The text with titles that are underlined ("Title\\n=====") marked as headings; itself if there are none."""
    kept: Text | None = text.__dict__.get("_with_marked_titles")
    if kept is None:
        kept = text
        if "\n==" in text.raw or "\n--" in text.raw:
            marked = mark_titles(text.raw)
            kept = text if marked == text.raw else Text(marked)
        text.__dict__["_with_marked_titles"] = kept
    return kept


def mark_titles(raw: str) -> str:
    """ "Title\\n=====" as "# Title", outside code."""
    return raw if has_fence(raw) else _UNDERLINED.sub(lambda m: f"# {m[1] or m[2]}\n", raw)


def _pieces(text: Text) -> list[str]:
    """What stands between blank lines, headings and rules; and the text of each list entry, with the lines after it."""
    plain = text.breaks_plainly and not has_fence(text.raw)
    prose = text.raw if plain else "\n".join(split_code(text.raw)[0])
    return [piece.strip() for piece in _BETWEEN.split("\n" + prose)]


@lru_cache(maxsize=4096)
def folded(phrase: str) -> str:
    """For comparing: compatible width, no case, single spaces."""
    seen = without_unseen(phrase)
    return " ".join(unicodedata.normalize("NFKC", seen).casefold().replace("’", "'").split())


def count_phrase(text: str, phrase: str, *, whole: bool = True, enough: int | None = None) -> int:
    """How often the phrase stands in the text (both folded alike), as a whole word where words have spaces.

    `enough`: stop after so many, which is faster where only that is asked.
    """
    at = text.find(phrase) if phrase else -1
    if at < 0:
        return 0
    first, last = whole and is_glue(phrase[0]), whole and is_glue(phrase[-1])
    if not (first or last):
        return text.count(phrase) if enough is None else min(text.count(phrase), enough)
    count = 0
    while at >= 0 and count != enough:
        end = at + len(phrase)
        alone = not (first and at and is_glue(text[at - 1])) and not (last and is_glue(text[end : end + 1]))
        count += alone
        at = text.find(phrase, end if alone else at + 1)
    return count


_PLAIN_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*+")


def count_in(text: Text, phrase: str, *, whole: bool = True, enough: int | None = None) -> int:
    """How often the folded phrase stands in the text, which is folded alike; see `count_phrase`."""
    place = text.plain if _PLAIN_WORD.fullmatch(phrase) else None
    return count_phrase(search_form(text) if place is None else place, phrase, whole=whole, enough=enough)


def search_form(text: Text) -> str:
    """The text folded like a phrase; kept with the text."""
    kept: str | None = text.__dict__.get("_search_form")
    if kept is None:
        kept = " ".join(unicodedata.normalize("NFKC", text.raw).casefold().replace("’", "'").split())
        text.__dict__["_search_form"] = kept
    return kept
