"""Format that can be compare_count: BulletCount, HighlightCount, ParagraphCount, CaseFormat."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import word_set
from rubrank.texts.prose import has_fence, is_heading, is_item, is_rule, list_items, mark_titles, without_code
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
    items = [item for item in list_items(text.shown.raw) if kind in ("any", item.kind)]
    if not nested:
        top = min((item.indent for item in items), default=0)
        items = [item for item in items if item.indent <= top + 1]
    unit = {"bullet": "bullet", "numbered": "numbered item", "any": "list item"}[kind]
    return compare_range(len(items), unit, relation, count, low, high)


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
    lines = "\n".join(_without_bullet(line) for line in prose.splitlines())
    if kind != "any":
        highlights = len(_HIGHLIGHTS[kind].findall(lines))
        return compare_range(highlights, f"{kind} highlight", relation, count, low, high)
    # Each kind is removed once it is compare_count, so that no highlight counts twice.
    rest, stars = _STARS.subn(" ", lines)
    rest, underscores = _UNDERSCORED.subn(" ", rest)
    marked = len(_HIGHLIGHTS["marked"].findall(rest))
    return compare_range(stars + underscores + marked, "highlight", relation, count, low, high)


def _without_bullet(line: str) -> str:
    """Remove what has stars but is no highlight: the star of a bullet, a horizontal rule."""
    start = line.lstrip()
    if start[:2] in ("* ", "*\t"):
        return start[2:]
    return "" if is_rule(line) else line


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


_WORDY = re.compile(r"[^\W_]")


def _count_paragraphs(text: Text) -> int:
    text = Text(mark_titles(text.raw))
    if has_fence(text.raw):
        text = Text(_fill_blank_lines_in_code(text.raw))
    blocks = text.paragraphs
    if len(blocks) == 1:
        lines = blocks[0].splitlines()
        if all(_ends_like_sentence(line) and not is_item(line) for line in lines):
            blocks = tuple(lines)
    kinds = [kind for kind in map(_block_kind, blocks) if kind != "none"]
    # Several blocks of list items in a row are one list.
    continued_lists = sum(kind == next_kind == "list" for kind, next_kind in pairwise(kinds))
    return len(kinds) - continued_lists


def _block_kind(block: str) -> Literal["prose", "list", "none"]:
    lines = [line for line in block.splitlines() if not (is_rule(line) or is_heading(line))]
    is_title = len(lines) == 1 and _is_bold_title(lines[0])
    if is_title or not any(_WORDY.search(line) for line in lines):
        return "none"
    return "list" if is_item(lines[0]) else "prose"


def _fill_blank_lines_in_code(raw: str) -> str:
    """Put a full stop on blank lines inside code fences, so that a fence is one paragraph."""
    inside = False
    lines: list[str] = []
    for line in raw.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        if inside and not line.strip():
            line = "."
        lines.append(line)
    return "\n".join(lines)


def _ends_like_sentence(line: str) -> bool:
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
    prose = _select_scope(without_code(text.raw), scope)
    letters = [char for char in prose if char.isupper() or char.islower() or char.istitle()]
    if not letters:
        return False, "no letters that have case"
    if case in ("upper", "lower"):
        with_case = [char for char in letters if char.lower() != char.upper()]
        wrong = sum(char.islower() if case == "upper" else not char.islower() for char in with_case)
        return not wrong, f"{wrong} of {len(letters)} letters are not {case} case"
    bad = _find_uncapitalised(prose, case)
    if bad:
        return False, f"not capitalised: {', '.join(map(repr, bad[:5]))}"
    return True, f"all in {case} case"


def _select_scope(prose: str, scope: str) -> str:
    if scope == "text":
        return prose
    lines = [line for line in prose.splitlines() if line.strip()]
    if scope == "headings":
        return "\n".join(filter(is_heading, lines))
    return lines[0] if lines else ""


_MINOR = word_set("a an the and but or nor for so yet of in on at to by up as off per via with from into over is")
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:^|\n[ \t]*\n|(?<=[.!?])[ \t\n]+)[^\w\n]*([^\W\d_])")


def _find_uncapitalised(prose: str, case: str) -> list[str]:
    if case == "sentence":
        return [match[1] for match in _SENTENCE_START.finditer(prose) if match[1].islower()]
    bad: list[str] = []
    for line in prose.splitlines():
        for position, word in enumerate(_LATIN_WORD.findall(line)):
            may_be_small = position > 0 and word in _MINOR
            if word[0].islower() and not may_be_small:
                bad.append(word)
    return bad
