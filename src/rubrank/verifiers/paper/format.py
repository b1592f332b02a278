"""Format that can be counted: BulletCount, HighlightCount, ParagraphCount, CaseFormat."""

from __future__ import annotations

import re
from itertools import chain, pairwise
from string import ascii_letters
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import word_set
from rubrank.texts.prose import (
    count_bullets,
    has_fence,
    is_heading,
    is_item,
    is_rule,
    list_items,
    with_marked_titles,
    without_code,
)
from rubrank.texts.text import Text
from rubrank.verifiers.shared.relation import Count, Relation, check_count_parameters, compare_range
from rubrank.verifiers.verifier import BINARY, Answer, verifier

Highlight: TypeAlias = Literal["any", "bold", "italic", "marked", "brackets"]

_STARS = re.compile(r"\*{1,3}(?=[^\s*])[^*\n]*(?<=[^\s*])\*{1,3}")
_HIGHLIGHTS: dict[str, re.Pattern[str]] = {
    "bold": re.compile(r"\*{2,3}(?=[^\s*])[^*\n]*(?<=[^\s*])\*{2,3}|(?<!\w)__(?=[^\s_])[^_\n]*(?<=[^\s_])__(?!\w)"),
    "italic": re.compile(
        r"(?<!\*)(?:\*{3}|\*)(?=[^\s*])[^*\n]*(?<=[^\s*])(?:\*{3}|\*)(?!\*)"
        r"|(?<![\w_])_(?=[^\s_])[^_\n]*(?<=[^\s_])_(?![\w_])"
    ),
    "marked": re.compile(r"==(?=[^\s=])[^=\n]*(?<=[^\s=])==|<(?:mark|b|strong|em|u)>[^<\n]+</"),
    "brackets": re.compile("【[^】\n]+】"),
}
_UNDERSCORED = re.compile(r"(?<![\w_])_{1,2}(?=[^\s_])[^_\n]*(?<=[^\s_])_{1,2}(?![\w_])")


@verifier("BulletCount", family="format", domain=BINARY, version=2, check=check_count_parameters)
def bullet_count(
    text: Text,
    *,
    relation: Relation = "exactly",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    kind: Literal["bullet", "numbered", "any"] = "bullet",
    nested: bool = True,
) -> Answer:
    """So many bullet points (`-`, `*`, `+`, `–`, `•`, `・` …), or numbered ones (`1.`, `1、`, `①`, `一、`, `1️⃣`).

    Passes: "- a\\n- b" for exactly 2; "-a\\n-b" too. Fails: any other number. Points under points count unless `nested`
    is off; so do entries of an HTML list. Rules (`***`), bold at the start of a line, negative numbers and code are no
    bullets. Not covered: em dashes (—), which open dialogue.
    """
    text = text.shown
    if kind == "bullet" and nested:
        return compare_range(count_bullets(text), "bullet", relation, count, low, high)
    items = [item for item in list_items(text.raw) if kind in ("any", item.kind)]
    top = min((item.indent for item in items), default=0)
    n = len(items) if nested else sum(item.indent <= top + 1 for item in items)
    unit = {"bullet": "bullet", "numbered": "numbered item", "any": "list item"}[kind]
    return compare_range(n, unit, relation, count, low, high)


@verifier("HighlightCount", family="format", domain=BINARY, version=1, check=check_count_parameters)
def highlight_count(
    text: Text,
    *,
    relation: Relation = "at least",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    kind: Highlight = "any",
) -> Answer:
    """So many highlighted passages: `*a*`, `**a**`, `***a***` (one), `_a_`, `==a==`, `<mark>a</mark>`; 【a】 if asked.

    Passes: "**a** and *b*" for at least 2. Fails: "2 * 3 * 4" (no highlight), `****` (nothing in it), bullets, code.
    "any" is all but brackets. Not covered: a highlight over several lines; one inside another counts once.
    """
    prose = without_code(text.raw)
    if kind == "any":
        lines = "\n".join(_unbulleted(line) for line in prose.splitlines())
        rest, n = _STARS.subn(" ", lines)
        rest, more = _UNDERSCORED.subn(" ", rest)
        return compare_range(
            n + more + len(_HIGHLIGHTS["marked"].findall(rest)), "highlight", relation, count, low, high
        )
    lines = "\n".join(_unbulleted(line) for line in prose.splitlines())
    return compare_range(len(_HIGHLIGHTS[kind].findall(lines)), f"{kind} highlight", relation, count, low, high)


def _unbulleted(line: str) -> str:
    start = line.lstrip()
    return start[2:] if start[:2] in ("* ", "*\t") else "" if is_rule(line) else line


@verifier("ParagraphCount", family="format", domain=BINARY, version=2, check=check_count_parameters)
def paragraph_count(
    text: Text,
    *,
    relation: Relation = "exactly",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    separator: Annotated[str, Field(min_length=1)] | None = None,
) -> Answer:
    """So many paragraphs: what blank lines divide; or a separator such as "***".

    Passes: "a\\n\\nb" for exactly 2. Fails: any other number. Headings, also underlined ones, titles in bold and rules
    are none; a list is one whole. Without any blank line, lines that all end as sentences do are the paragraphs (usual
    in Chinese). With a separator, what is empty between two of them is none. Not covered: stanzas of verse (each is a
    paragraph).
    """
    text = text.shown
    if separator:
        pieces = [p for p in text.raw.split(separator) if any(c.isalnum() for c in p)]
        return compare_range(len(pieces), "paragraph", relation, count, low, high)
    return compare_range(_count_paragraphs(text), "paragraph", relation, count, low, high)


def _count_paragraphs(text: Text) -> int:
    text = with_marked_titles(text)
    kinds = [kind for kind in map(_block_kind, _blocks(text)) if kind != "none"]
    return len(kinds) - sum(one == next_ == "list" for one, next_ in pairwise(kinds))


def _blocks(text: Text) -> tuple[str, ...]:
    blocks = (Text("\n".join(_fences_as_one(text.raw))) if has_fence(text.raw) else text).paragraphs
    lines = blocks[0].splitlines() if len(blocks) == 1 else ()
    return tuple(lines) if lines and all(_ends(line) and not is_item(line) for line in lines) else blocks


_WORDY = re.compile(r"[^\W_]")
_Kind: TypeAlias = Literal["prose", "list", "none"]

# How most blocks begin. Prose: a word, also in quotes, that is no numeral of a list; or a word in bold with more behind
# it. A list: a bullet or number and a word. None: a heading alone, a title in bold, signs alone.
_WORD = r"(?![A-Za-z][ivxIVX]{0,4}[.)]|[一二三四五六七八九十百①-⑳])[^\W\d_]"
_BEGINS = re.compile(
    rf"""(["“‘'\[<«]{{0,3}}{_WORD}|\*\*{_WORD}[^*\n]*+\*\*[ \t]*+[^\s*])"""
    r"|((?:[-+*]|\d{1,4}[.)])[ \t][A-Za-z0-9])"
    rf"|(#{{1,6}}[ \t]++\S[^\n]*+\Z|\*\*{_WORD}[^*\n]*+\*\*\Z|[\W_]++\Z)"
)


# Two letters, or a letter and what may follow a word of one: nothing else begins so, and no pattern is as fast.
_PROSE_STARTS = frozenset(a + b for a in ascii_letters for b in {*ascii_letters, *" ,'"} - {*"ivxIVX"})


def _block_kind(block: str) -> _Kind:
    if block[:2] in _PROSE_STARTS:
        return "prose"
    begins = _BEGINS.match(block)
    if begins:
        return ("prose", "list", "none")[begins.lastindex - 1]  # type: ignore[operator]
    lines = (line for line in block.splitlines() if not (is_rule(line) or is_heading(line)))
    first = next(lines, "")
    second = next(lines, None) if _is_bold_title(first) else ""
    if second is None or not any(map(_WORDY.search, chain((first, second), lines))):
        return "none"
    return "list" if is_item(first) else "prose"


def _fences_as_one(raw: str) -> list[str]:
    """The lines, with every code fence as one paragraph that has no blank lines."""
    if "```" not in raw and "~~~" not in raw:
        return raw.splitlines()
    inside, lines = False, []
    for line in raw.splitlines():
        inside ^= line.lstrip().startswith(("```", "~~~"))
        lines.append("." if inside and not line.strip() else line)
    return lines


def _ends(line: str) -> bool:
    return line.rstrip(" \t*_”’」』）)\"'").endswith((".", "!", "?", "。", "！", "？", "…", "；", "："))


def _is_bold_title(line: str) -> bool:
    line = line.strip()
    return line.startswith("**") and line.endswith("**") and line.count("**") == 2


@verifier("CaseFormat", family="format", domain=BINARY, version=1)
def case_format(
    text: Text,
    *,
    case: Literal["upper", "lower", "title", "sentence"],
    scope: Literal["text", "headings", "first line"] = "text",
) -> Answer:
    """Everything in capitals, in small letters, Each Word Capitalised, or with a capital at the start of each sentence.

    Passes: "HELLO, 世界" as upper. Fails: one letter of the wrong case; a text without letters that have case (such as
    pure Chinese) — it shows nothing. Code and addresses are exempt; in title case so are words like "of". Not covered:
    names inside sentence case.
    """
    prose = _scope(without_code(text.raw), scope)
    letters = [c for c in prose if c.isupper() or c.islower() or c.istitle()]
    if not letters:
        return False, "no letters that have case"
    if case in ("upper", "lower"):
        wrong = sum(c.islower() if case == "upper" else not c.islower() for c in letters if c.lower() != c.upper())
        return not wrong, f"{wrong} of {len(letters)} letters are not {case} case"
    bad = _uncapitalised(prose, case)
    return not bad, f"not capitalised: {', '.join(map(repr, bad[:5]))}" if bad else f"all in {case} case"


def _scope(prose: str, scope: str) -> str:
    lines = [line for line in prose.splitlines() if line.strip()]
    if scope == "headings":
        return "\n".join(filter(is_heading, lines))
    return lines[0] if scope == "first line" and lines else prose if scope == "text" else ""


_MINOR = word_set("a an the and but or nor for so yet of in on at to by up as off per via with from into over is")
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_AFTER_END = re.compile(r"(?:^|\n[ \t]*\n|(?<=[.!?])[ \t\n]+)[^\w\n]*([^\W\d_])")


def _uncapitalised(prose: str, case: str) -> list[str]:
    if case == "sentence":
        return [m[1] for m in _AFTER_END.finditer(prose) if m[1].islower()]
    bad = []
    for line in prose.splitlines():
        words = _LATIN_WORD.findall(line)
        bad += [w for i, w in enumerate(words) if w[0].islower() and (w not in _MINOR or i == 0)]
    return bad
