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
from typing import Annotated, Literal, TypeAlias

import sentencex
from pydantic import Field

from rubrank.text import Text
from rubrank.verification import Verdict, missing
from rubrank.verifiers.relation import Relation, holds

Count: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = f"{HAN}\u3040-\u30ff\u0e00-\u0e7f"
_UNSPACED = re.compile(f"[{UNSPACED}]")
_HAN = re.compile(f"[{HAN}]")
_FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>] |\d{1,3}[.)] )?[ \t]*(`{3,}|~{3,})(.*)")
_INLINE = re.compile(r"`[^`\n]{1,1000}`")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'）】]{1,2000}")
_NUMERAL = "一二三四五六七八九十百"
_BULLET = re.compile(r"([ \t]*)([-*+•·●○◦▪■□◆▶►➢✓✔✅‣⁃])(?:[ \t]+(?=\S)|(?<=[•·●○◦▪■□◆▶►➢✓✔✅‣⁃])(?=\S))(.*)")
_NUMBERED = re.compile(
    rf"([ \t]*)(?:\*\*|#{{1,6}}[ \t])?(\d{{1,4}}[.)](?=[ \t]\S)|\d{{1,4}}[、．]"
    rf"|[(（](?:\d{{1,3}}|[{_NUMERAL}]{{1,3}})[)）]"
    rf"|[①-⑳]|[{_NUMERAL}]{{1,3}}、|(?:[a-zA-Z]|[ivxIVX]{{1,5}})[.)](?=[ \t]\S))[ \t]*(?=\S)(.*)"
)
_RULE = re.compile(r"[ \t]{0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|={3,}[ \t]*)$")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]+\S|$)")
_HAN_END = re.compile("[。！？!?…]+[”’」』）)\"']*|(?<![0-9A-Za-z])\\.(?=\\s|$)")
_CHUNK = 20_000  # no paragraph is longer; the library's time grows with the square of the quotation marks
_MARKS = re.compile("[\"'“”‘’„«»()\\[\\]]")
_DECORATION = " \t\r\n*_#>`~\"'“”‘’「」『』"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list."""

    kind: Literal["bullet", "numbered"]
    indent: int
    text: str


def clean(text: str) -> str:
    """The text without lone surrogates, which no parser in another language takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def split_code(text: str) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Lines outside code fences, the (tag, code) of every fence, and whether the last fence never closes."""
    outside: list[str] = []
    blocks: list[tuple[str, str]] = []
    mark, tag, inside = "", "", list[str]()
    for line in text.splitlines():
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
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
    prose = "\n".join(split_code(text)[0]) if "```" in text or "~~~" in text else text
    prose = _INLINE.sub(" ", prose) if "`" in prose else prose
    return _ADDRESS.sub(" ", prose) if "://" in prose or "www." in prose else prose


def list_items(text: str) -> list[Item]:
    """The entries of all lists outside code, nested ones too, in order."""
    found = []
    for line in split_code(text)[0]:
        if not line.strip() or _RULE.match(line):
            continue
        if bullet := _BULLET.match(line):
            found.append(Item("bullet", _indent(bullet[1]), bullet[3].strip()))
        elif number := _NUMBERED.match(line):
            found.append(Item("numbered", _indent(number[1]), number[3].strip()))
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
    """Sentences of prose: code, headings and rules are none; a list entry starts a new one."""
    pieces: list[list[str]] = [[]]
    for line in split_code(text)[0]:
        if not line.strip() or is_heading(line) or is_rule(line):
            pieces.append([])
        elif is_item(line):
            entry = _BULLET.match(line) or _NUMBERED.match(line)
            pieces.append([entry[3] if entry else line])
        else:
            pieces[-1].append(line)
    found = (s for piece in pieces if piece for s in _cut("\n".join(piece)))
    return [s for s in map(str.strip, found) if any(c.isalnum() for c in s)]


def _cut(piece: str) -> list[str]:
    # The library that cuts other languages takes quadratic time for Chinese; there the marks are plain anyway.
    if not _HAN.search(piece) and not _UNSPACED.search(piece):
        size = _CHUNK if len(_MARKS.findall(piece)) < _CHUNK // 40 else _CHUNK // 20
        chunks = (piece[i : i + size] for i in range(0, len(piece), size))
        return [s for chunk in chunks for s in sentencex.segment("en", clean(chunk))]
    ends = [match.end() for match in _HAN_END.finditer(piece)]
    starts = [0, *ends]
    return [piece[a:b] for a, b in zip(starts, [*ends, len(piece)], strict=True)]


@lru_cache(maxsize=4096)
def folded(phrase: str) -> str:
    """For comparing: compatible width, no case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", phrase).casefold().replace("’", "'").split())


def count_phrase(text: str, phrase: str, *, whole: bool = True) -> int:
    """How often the phrase stands in the text (both folded alike), as a whole word where words have spaces."""
    if not phrase:
        return 0
    return len(_as_word(phrase).findall(text)) if whole and phrase in text else text.count(phrase)


@lru_cache(maxsize=4096)
def _as_word(phrase: str) -> re.Pattern[str]:
    """The phrase with no letter glued to it; a literal, so its time is linear."""
    first, last = (edge.isalnum() and not _UNSPACED.match(edge) for edge in (phrase[0], phrase[-1]))
    before, after = f"(?<![^\\W_{UNSPACED}])" if first else "", f"(?![^\\W_{UNSPACED}])" if last else ""
    return re.compile(before + re.escape(phrase) + after)


def search_form(text: Text) -> str:
    """The text folded like a phrase; kept with the text."""
    kept: str | None = text.__dict__.get("_search_form")
    if kept is None:
        kept = " ".join(unicodedata.normalize("NFKC", text.raw).casefold().replace("’", "'").split())
        text.__dict__["_search_form"] = kept
    return kept


def in_range(
    n: int, unit: str, relation: Relation, count: int | None, low: int | None, high: int | None
) -> Verdict | tuple[bool, str]:
    """The verdict on a count: against `relation count`, or between `low` and `high` (either may be open)."""
    plural = unit if n == 1 else f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    if count is not None:
        return holds(n, relation, count), f"{n} {plural} found, {relation} {count} asked"
    if low is None and high is None:
        return missing("no number is asked for: give `count`, or `low` and `high`")
    asked = f"at most {high}" if low is None else f"at least {low}" if high is None else f"{low} to {high}"
    return (low or 0) <= n and (high is None or n <= high), f"{n} {plural} found, {asked} asked"
