"""Read the prose of a response: text without code, list items, headings, sentences, and phrases in it.

    >>> [item.text for item in list_items("一、苹果\\n二、香蕉")]
    ['苹果', '香蕉']

The criteria of `verifiers/paper` and the gates share these definitions. Everything here takes linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rubrank.texts.sentences import split_piece
from rubrank.texts.text import fold
from rubrank.texts.visible import FENCE, remove_invisible

COMMAS = ",，、،﹐︐"
HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = f"{HAN}\u3040-\u30ff\u0e00-\u0e7f"
"""Characters of scripts without spaces: a word beside them is a word of its own."""

_INLINE_CODE = re.compile(r"`[^`\n]{1,1000}`")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'）】]{1,2000}")
_NUMERAL = "一二三四五六七八九十百"
_DOTS = "•·●○◦▪■□◆▶►➢✓✔✅‣⁃・"  # bullets that need no space after them
_SPACED = "-*+–"  # bullets that need a space after them; but "-a" is a bullet, too, and "-5" is not
_BULLET_SIGN = rf"[ \t]*+(?:[{_SPACED}][ \t]++|-(?=[^\W\d_])|[{_DOTS}][ \t]*+)(?=\S)"
_NUMBER_SIGN = (
    r"[ \t]*+(?:\*\*|#{1,6}[ \t])?(?:"
    r"\d{1,4}[.)](?=[ \t]\S)|\d{1,4}[、．]"  # 1. or 1) or 1、
    rf"|[(（](?:\d{{1,3}}|[{_NUMERAL}]{{1,3}})[)）]|[①-⑳]|[{_NUMERAL}]{{1,3}}、"  # (1) or （一） or ① or 一、
    r"|[0-9]\ufe0f?\u20e3|\U0001f51f"  # number as an emoji
    r"|(?:[a-zA-Z]|[ivxIVX]{1,5})[.)](?=[ \t]\S)"  # a) or iv.
    r")[ \t]*+(?=\S)"
)
_RULE_LINE = (
    r"[ \t]{0,3}(?:(?:\*[ \t]*+){3,}+|(?:-[ \t]*+){3,}+|(?:_[ \t]*+){3,}+|={3,}+[ \t]*+)(?=\n|\Z)"
)
_HEADING_START = r"[ \t]{0,3}#{1,6}(?:[ \t]++(?=\S)|(?=\n|\Z))"
_BULLET = re.compile(rf"(?=([ \t]*)){_BULLET_SIGN}(.*)")
_NUMBERED = re.compile(rf"(?=([ \t]*)){_NUMBER_SIGN}(.*)")
_RULE = re.compile(_RULE_LINE)
_HEADING = re.compile(_HEADING_START)

# What divides pieces of prose: a blank line, a heading, a rule, the sign of a list item. Most lines begin with letters
# that begin none of these; excluding them first is several times as fast.
_PLAIN_START = r"[A-HJ-UWYZa-hj-uwyz][^.)]"
_BETWEEN_PIECES = re.compile(
    rf"\n(?!{_PLAIN_START})"
    rf"(?:[^\S\n]*+(?=\n|\Z)|{_HEADING_START}[^\n]*+|{_RULE_LINE}|{_BULLET_SIGN}|{_NUMBER_SIGN})"
)
_UNDERLINED_TITLE = re.compile(
    r"(?m)^[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,200})\n={2,}[ \t]*$"
    # Dashes make a title of a short line that is a block of its own; elsewhere they are a rule.
    r"|(?:\A|(?<=\n\n))[ ]{0,3}(?![-*+>#|=\d ])([^\n]{1,80}[^\n.!?。！？:：,，;；])\n-{2,}[ \t]*$"
)
_DECORATION = " \t\r\n*_#>`~\"'“”‘’「」『』"
_UNSPACED_CHAR = re.compile(f"[{UNSPACED}]")


# ---- code -----------------------------------------------------------------------------------------------------------


def has_fence(text: str) -> bool:
    """Tell whether the text may hold a code fence."""
    return "```" in text or "~~~" in text


def split_code(text: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Return the lines outside code fences, the (tag, code) of every fence, and whether the last fence stays open."""
    outside: list[str] = []
    blocks: list[tuple[str, str]] = []
    open_mark = ""
    tag = ""
    code: list[str] = []
    for line in text.splitlines():
        fence = FENCE.match(line) if "`" in line or "~" in line else None
        if open_mark and fence and fence[1].startswith(open_mark) and not fence[2].strip():
            blocks.append((tag, "\n".join(code)))
            open_mark = ""
            code = []
        elif open_mark:
            code.append(line)
        elif fence and fence[1][0] not in fence[2]:
            open_mark = fence[1]
            tag = fence[2].strip()
            outside.append("")
        else:
            outside.append(line)
    if open_mark:
        blocks.append((tag, "\n".join(code)))
    return outside, blocks, bool(open_mark)


def remove_code(text: str) -> str:
    """Return the text without code (fenced or in backticks) and web addresses."""
    if has_fence(text):
        text = "\n".join(split_code(text)[0])
    if "`" in text:
        text = _INLINE_CODE.sub(" ", text)
    if "://" in text or "www." in text:
        text = _ADDRESS.sub(" ", text)
    return text


# ---- lines ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list; `indent` is in columns."""

    kind: Literal["bullet", "numbered"]
    indent: int
    text: str


def list_items(text: str) -> list[Item]:
    """Return the entries of all lists outside code, including nested ones, in order."""
    items: list[Item] = []
    for line in split_code(text)[0]:
        if not line.strip() or _RULE.match(line):
            continue
        kind: Literal["bullet", "numbered"] = "bullet"
        entry = _BULLET.match(line)
        if not entry:
            kind = "numbered"
            entry = _NUMBERED.match(line)
        if entry:
            indent = len(entry[1].expandtabs(4))
            items.append(Item(kind, indent, entry[2].strip()))
    return items


def is_item(line: str) -> bool:
    """Tell whether a list entry begins on this line."""
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
    """Rewrite underlined titles ("Title\\n=====") as headings ("# Title"), in texts without code fences."""
    if has_fence(raw) or ("\n==" not in raw and "\n--" not in raw):
        return raw
    return _UNDERLINED_TITLE.sub(lambda match: f"# {match[1] or match[2]}\n", raw)


# ---- sentences ------------------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """Return the sentences of the prose: not code, headings and rules; each list entry starts a new sentence.

    Marks end a sentence as in `Text.sentences`, which differs in that it leaves nothing out.
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
    """Prepare a phrase of the rubric for searching in a folded text; cached, since phrases come again and again."""
    return fold_visible(phrase)


def count_phrase(text: str, phrase: str, *, whole: bool = True, enough: int | None = None) -> int:
    """Count the phrase in the text, both folded; as a whole word where words are separated by spaces.

    `enough`: stop counting at this number, which is faster if more does not matter.
    """
    if not phrase:
        return 0
    needs_start = whole and _is_word_character(phrase[0])
    needs_end = whole and _is_word_character(phrase[-1])
    count = 0
    at = text.find(phrase)
    while at >= 0 and count != enough:
        end = at + len(phrase)
        inside_word = (needs_start and at > 0 and _is_word_character(text[at - 1])) or (
            needs_end and _is_word_character(text[end : end + 1])
        )
        if inside_word:
            at = text.find(phrase, at + 1)
        else:
            count += 1
            at = text.find(phrase, end)
    return count


def _is_word_character(char: str) -> bool:
    """Tell whether the character would make another word of the letters beside it."""
    return char.isalnum() and not _UNSPACED_CHAR.match(char)
