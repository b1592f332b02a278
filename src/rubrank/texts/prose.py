"""Read the prose of a response: the text outside code, its list items, headings and sentences, and phrases in it.

    >>> [item.text for item in list_items("一、苹果\\n二、香蕉")]
    ['苹果', '香蕉']

The criteria of `verifiers/paper` and the gates share these definitions. Everything here takes linear time: patterns use
possessive quantifiers (`*+`, `++`), which never give back what they matched, or have an upper limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rubrank.texts.text import fold, split_piece
from rubrank.texts.visible import remove_invisible, split_fences

COMMAS = ",，、،﹐︐"
HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = f"{HAN}\u3040-\u30ff\u0e00-\u0e7f"
"""Ranges of characters of scripts without spaces (Han, kana, Thai): a word beside them is a separate word."""

# ---- patterns -------------------------------------------------------------------------------------------------------

_INLINE_CODE = re.compile(r"`[^`\n]{1,1000}`")
_WEB_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'）】]{1,2000}")

# The sign at the beginning of a list item: "- a", "* a", "-a" (but not "-5"), "•a", "  ✓ a".
_SPACED_BULLETS = "-*+–"  # need a space after them
_UNSPACED_BULLETS = "•·●○◦▪■□◆▶►➢✓✔✅‣⁃・"  # need none
_BULLET_SIGN = (
    r"[ \t]*+(?:"
    rf"[{_SPACED_BULLETS}][ \t]++"  # - a
    r"|-(?=[^\W\d_])"  # -a: a dash before a letter
    rf"|[{_UNSPACED_BULLETS}][ \t]*+"  # •a
    r")(?=\S)"
)
# The same for numbered items, which may be bold ("**1. a**") or headings ("## 1. a").
_HAN_NUMERALS = "一二三四五六七八九十百"
_NUMBER_SIGN = (
    r"[ \t]*+(?:\*\*|#{1,6}[ \t])?(?:"
    r"\d{1,4}[.)](?=[ \t]\S)"  # 1. or 1)
    r"|\d{1,4}[、．]"  # 1、
    rf"|[(（](?:\d{{1,3}}|[{_HAN_NUMERALS}]{{1,3}})[)）]"  # (1) or （一）
    r"|[①-⑳]"
    rf"|[{_HAN_NUMERALS}]{{1,3}}、"  # 一、
    r"|[0-9]\ufe0f?\u20e3|\U0001f51f"  # number as an emoji
    r"|(?:[a-zA-Z]|[ivxIVX]{1,5})[.)](?=[ \t]\S)"  # a) or iv.
    r")[ \t]*+(?=\S)"
)
# A line that is a horizontal rule: "---", "* * *", "___", "=====".
_RULE_LINE = (
    r"[ \t]{0,3}(?:"
    r"(?:\*[ \t]*+){3,}+|(?:-[ \t]*+){3,}+|(?:_[ \t]*+){3,}+|={3,}+[ \t]*+"
    r")(?=\n|\Z)"
)
# The beginning of a heading: "# a", "### a", or "##" alone on its line.
_HEADING_START = r"[ \t]{0,3}#{1,6}(?:[ \t]++(?=\S)|(?=\n|\Z))"

# Groups of a list item: 1 its indentation (looked up before the sign takes it), 2 its text.
_BULLET = re.compile(rf"(?=([ \t]*)){_BULLET_SIGN}(.*)")
_NUMBERED = re.compile(rf"(?=([ \t]*)){_NUMBER_SIGN}(.*)")
_RULE = re.compile(_RULE_LINE)
_HEADING = re.compile(_HEADING_START)

# What divides pieces of prose: a blank line, a heading, a rule, the sign of a list item. Most lines begin with letters
# that begin none of these; excluding them first is several times as fast. Not excluded: "a." and "b)", and i, v and x,
# of which Roman numerals such as "iv." consist.
_PLAIN_START = r"[A-HJ-UWYZa-hj-uwyz][^.)]"
_BETWEEN_PIECES = re.compile(
    rf"\n(?!{_PLAIN_START})"
    rf"(?:[^\S\n]*+(?=\n|\Z)|{_HEADING_START}[^\n]*+|{_RULE_LINE}|{_BULLET_SIGN}|{_NUMBER_SIGN})"
)
# A title with a line of "=" or "-" below it; group 1 or group 2 is the title.
_UNDERLINED_TITLE = re.compile(
    r"(?m)^[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,200})\n={2,}[ \t]*$"
    # Dashes make a title only of a short line after a blank one that does not end like a sentence; elsewhere they are
    # a rule.
    r"|(?:\A|(?<=\n\n))[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,80}[^\n.!?。！？:：,，;；])\n-{2,}[ \t]*$"
)
_DECORATION = " \t\r\n*_#>`~\"'“”‘’「」『』"
_UNSPACED_CHAR = re.compile(f"[{UNSPACED}]")


# ---- code -----------------------------------------------------------------------------------------------------------


def has_fence(text: str) -> bool:
    """Tell whether the text may hold a code fence: a quick test before a slow one."""
    return "```" in text or "~~~" in text


def split_code(text: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Split a text at its code fences.

    Returns the lines outside code, with an empty line in place of each block; the (tag, code) of every block, such as
    ("python", "print(1)"); and whether the last fence is never closed.
    """
    outside: list[str] = []
    blocks: list[tuple[str, str]] = []
    pieces = split_fences(text)
    is_open = pieces[-1][0] is not None
    for index, (tag, lines) in enumerate(pieces):
        if tag is None:
            outside += "".join(lines).splitlines()
            continue
        outside.append("")
        is_closed = index < len(pieces) - 1
        code = lines[1:-1] if is_closed else lines[1:]
        blocks.append((tag, "\n".join("".join(code).splitlines())))
    return outside, blocks, is_open


def remove_code(text: str) -> str:
    """Return the text without code (fenced or in backticks) and web addresses."""
    if has_fence(text):
        text = "\n".join(split_code(text)[0])
    if "`" in text:
        text = _INLINE_CODE.sub(" ", text)
    if "://" in text or "www." in text:
        text = _WEB_ADDRESS.sub(" ", text)
    return text


# ---- lines ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One list item, without its sign; `indent` counts columns, four for a tab."""

    kind: Literal["bullet", "numbered"]
    indent: int
    text: str


def list_items(text: str) -> list[Item]:
    """Return the items of all lists outside code, including nested ones, in order."""
    items: list[Item] = []
    for line in split_code(text)[0]:
        if not line.strip() or _RULE.match(line):
            continue
        kind: Literal["bullet", "numbered"] = "bullet"
        match = _BULLET.match(line)
        if not match:
            kind = "numbered"
            match = _NUMBERED.match(line)
        if match:
            indent = len(match[1].expandtabs(4))
            items.append(Item(kind, indent, match[2].strip()))
    return items


def is_item(line: str) -> bool:
    """Tell whether a list item begins on this line."""
    if _RULE.match(line):
        return False
    return bool(_BULLET.match(line) or _NUMBERED.match(line))


def is_rule(line: str) -> bool:
    """Tell whether the line is a horizontal rule of dashes, stars or the like."""
    return _RULE.match(line) is not None


def is_heading(line: str) -> bool:
    """Tell whether the line is a Markdown heading."""
    return _HEADING.match(line) is not None


def strip_decoration(line: str) -> str:
    """Return the line without the Markdown signs and quotation marks around it."""
    return line.strip(_DECORATION)


def mark_titles(raw: str) -> str:
    """Rewrite underlined titles ("Title\\n=====") as headings ("# Title").

    Texts with code fences are returned unchanged: the pattern would also match inside code.
    """
    if has_fence(raw) or ("\n==" not in raw and "\n--" not in raw):
        return raw
    return _UNDERLINED_TITLE.sub(lambda match: f"# {match[1] or match[2]}\n", raw)


# ---- sentences ------------------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """Return the sentences of the prose, without code, headings and rules; each list item starts a new sentence.

    `Text.sentences` ends sentences at the same marks, but leaves nothing out.
    """
    prose = "\n".join(split_code(mark_titles(text))[0])
    pieces = _BETWEEN_PIECES.split("\n" + prose)
    return [sentence for piece in pieces for sentence in split_piece(piece.strip())]


# ---- phrases --------------------------------------------------------------------------------------------------------


def fold_visible(text: str) -> str:
    """Fold a text (see `texts.text.fold`) after removing its invisible characters."""
    return fold(remove_invisible(text))


@lru_cache(maxsize=4096)
def fold_phrase(phrase: str) -> str:
    """Fold a phrase of the rubric like the text in which it is searched; cached, since every response repeats it."""
    return fold_visible(phrase)


def count_phrase(text: str, phrase: str, *, whole: bool = True, enough: int | None = None) -> int:
    """Count how often the phrase occurs in the text without overlaps. Both must be folded.

    whole: "art" does not count in "start"; in scripts without spaces it counts anywhere.
    enough: stop counting at this number, which is faster if more does not matter.
    """
    if not phrase:
        return 0
    needs_start = whole and _is_word_character(phrase[0])
    needs_end = whole and _is_word_character(phrase[-1])
    count = 0
    start = text.find(phrase)
    while start >= 0 and count != enough:
        end = start + len(phrase)
        continues_word = needs_start and start > 0 and _is_word_character(text[start - 1])
        is_continued = needs_end and end < len(text) and _is_word_character(text[end])
        if continues_word or is_continued:
            start = text.find(phrase, start + 1)
        else:
            count += 1
            start = text.find(phrase, end)
    return count


def _is_word_character(char: str) -> bool:
    """Tell whether the character and a letter beside it belong to one word."""
    return char.isalnum() and not _UNSPACED_CHAR.match(char)
