"""FormatRequirement (the answer is JSON, a table, code …) and GeneralFormatCompliance (no structure is broken)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import yaml

from rubrank.texts.prose import fold_phrase, is_heading, list_items, mark_titles, split_code
from rubrank.texts.text import Text
from rubrank.verifiers.code.programs import find_syntax_error
from rubrank.verifiers.text.patterns import VOID, check_html
from rubrank.verifiers.verifier import NEEDS_JUDGE, Answer, missing, verifier

Format: TypeAlias = Literal[
    "json",
    "csv",
    "yaml",
    "xml",
    "html",
    "table",
    "code",
    "bullets",
    "numbered",
    "headings",
    "markdown",
    "plain",
    "latex",
]
# The second line of a Markdown table: "|---|:--:|".
_TABLE_DELIMITER = re.compile(r"[ \t]*+\|?(?:[ \t]*+:?-++:?[ \t]*+\|)+(?:[ \t]*+:?-++:?[ \t]*+)?$")
# "<a href=…>", "</a>", "<br/>": group 1 is the slash of a closing tag, 2 the name, 3 the slash of an empty element.
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,63})(?:\s[^<>]{0,5000})?(/?)>")
# No space may follow an opening dollar or precede a closing one, and no digit may follow a closing one, so that
# "$5 and $6" is text.
_LATEX = re.compile(
    r"""\$\$[^$]+\$\$
    | (?<![\\$\w])\$(?=[^\s$])[^$\n]{0,1000}?(?<=[^\s\\])\$(?![\d$])   # $x + 1$
    | \\\(.+?\\\)
    | \\\[.+?\\\]
    | \\begin\{""",
    re.DOTALL | re.VERBOSE,
)
# A sign of Markdown: a heading, bold, a bullet, a fence, the second line of a table.
_MARKDOWN = re.compile(
    r"(?m)^[ \t]{0,3}#{1,6}[ \t]|\*\*[^*\n]+\*\*|^[ \t]*[-*+][ \t]+\S|```|^[ \t]*\|[ \t]*:?--"
)
_ORDINAL = re.compile(r"(\d{1,4})[.)](?=[ \t]\S)")  # "12. Tea"


@verifier("FormatRequirement", family="format", version=4, how="both")
def format_requirement(
    text: Text,
    *,
    format: Format | None = None,
    keys: tuple[str, ...] = (),
    code_language: str | None = None,
    only: bool = True,
) -> Answer:
    """The answer is in the given format; with `only`, data formats have no text beside them (one fence is allowed).

    Passes: '{"a": 1}' as json, also in a fence; a Markdown table as table with its columns in `keys`; prose as plain.
    Fails: JSON that does not parse or lacks one of `keys`; "Here it is: {…}" if `only`; Markdown signs in plain; a code
        block in Python, JSON, YAML, TOML, XML or SQL that does not parse (`def f(:`).
    Missing: no `format` given — a judge must read the request.
    Not covered: JSON Schema, formats of other names.
    """
    if format is None:
        return missing(f"{NEEDS_JUDGE}: no format is given")
    if format == "code":
        return _check_code(text.raw, code_language)
    if format not in _NAME_READERS:
        return _check_markup(text.raw, format)
    source = text.raw
    if format != "table":
        # The data stand bare or in a fence, best in one with the format's name.
        outside, blocks, _ = split_code(text.raw)
        is_alone = not blocks or (len(blocks) == 1 and not "".join(outside).strip())
        if only and not is_alone:
            return False, f"there is text beside the {format}"
        if blocks:
            tagged = [code for tag, code in blocks if tag.lower().startswith(format[:3])]
            source = tagged[0] if tagged else blocks[0][1]
    fold, read_names = _NAME_READERS[format]
    try:
        names = read_names(source.strip())
    except (ValueError, RecursionError) as error:
        return False, f"not {format}: {error}"[:200]
    lacking = [key for key in keys if fold(key) not in names]
    if lacking:
        return False, f"the {format} lacks {lacking}"
    return True, f"valid {format}"


# Each reader returns the names that `keys` may ask for, and raises ValueError for what is not of its format.


def _read_json(source: str) -> set[str]:
    """Return the keys that every object of a list has, or those of the one object."""
    value: Any = json.loads(source)
    rows = value if isinstance(value, list) else [value]
    keys = [set(row) if isinstance(row, dict) else set() for row in rows]
    return set.intersection(*keys) if keys else set()


def _read_csv(source: str) -> set[str]:
    try:
        rows = [row for row in csv.reader(io.StringIO(source), strict=True) if row]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) != 1 or widths == {1}:
        raise ValueError(f"{len(rows)} rows of {sorted(widths)[:5]} fields")
    return set(map(fold_phrase, rows[0]))


def _read_yaml(source: str) -> set[str]:
    # Only the events are read: no object is built, so aliases cannot blow up.
    if len(source) > 100_000 or source.count("[") + source.count("{") > 500:
        raise ValueError("too large or too deep to be meant for reading")
    try:
        events = [type(event) for event in yaml.parse(source, Loader=yaml.SafeLoader)]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if yaml.MappingStartEvent not in events and yaml.SequenceStartEvent not in events:
        raise ValueError("plain text, no mapping or list")
    return {line.strip(" -").partition(":")[0] for line in source.splitlines() if ":" in line}


def _read_xml(source: str) -> set[str]:
    """Return the names of the tags, which must nest. No XML library parses the source, so no entity can expand."""
    open_tags: list[str] = []
    names: set[str] = set()
    for closing, name, empty in _TAG.findall(source):
        names.add(name)
        if closing:
            if not open_tags or open_tags.pop() != name:
                raise ValueError(f"</{name}> closes nothing")
        elif not empty and name.lower() not in VOID:
            open_tags.append(name)
    if open_tags or not names or not source.startswith("<"):
        raise ValueError("a tag never closes, or the first one is absent")
    return names


def _read_html(source: str) -> set[str]:
    problem, names = check_html(source)
    if problem or not names or not source.startswith("<"):
        raise ValueError(problem or "it does not start with a tag")
    return names


def _read_table(source: str) -> set[str]:
    tables = _find_tables(split_code(source)[0])
    if not tables:
        raise ValueError("there is none")
    return {fold_phrase(cell.strip("*_ ")) for table in tables for cell in table[0]}


# How a key is folded before it is looked up among the names.
_NAME_READERS: dict[str, tuple[Callable[[str], str], Callable[[str], set[str]]]] = {
    "json": (str, _read_json),
    "csv": (fold_phrase, _read_csv),
    "yaml": (str, _read_yaml),
    "xml": (str, _read_xml),
    "html": (str.lower, _read_html),
    "table": (fold_phrase, _read_table),
}


def _find_tables(lines: list[str]) -> list[list[list[str]]]:
    """Return Markdown tables as rows of cells: the header first, without the delimiter line."""
    tables: list[list[list[str]]] = []
    is_inside = False
    for i, line in enumerate(lines):
        is_inside = is_inside and "|" in line
        if is_inside:
            tables[-1].append(_split_cells(line))
        elif i and "|" in lines[i - 1] and _TABLE_DELIMITER.match(line):
            tables.append([_split_cells(lines[i - 1])])
            is_inside = True
    return tables


def _split_cells(row: str) -> list[str]:
    """Return the cells of a row without the bars; an escaped bar does not divide."""
    inside = row.strip().removeprefix("|").removesuffix("|").replace("\\|", " ")
    return [cell.strip() for cell in inside.split("|")]


def _check_code(raw: str, language: str | None) -> tuple[bool, str]:
    """Return whether there are code blocks of the language that parse, and the reason."""
    _, blocks, is_unclosed = split_code(raw)
    tags = [tag.lower() for tag, code in blocks if code.strip()]
    if is_unclosed:
        return False, "a code block never closes"
    if not tags:
        return False, "no code block"
    if language is not None and all(tag.split(" ")[0] != language.lower() for tag in tags):
        return False, f"code blocks tagged {tags[:5]}, {language!r} required"
    for tag, code in blocks:
        # A language without a parser here is not checked.
        with contextlib.suppress(LookupError):
            problem = find_syntax_error(tag.split(" ")[0] or language or "", code)
            if problem:
                return False, problem
    return True, f"code blocks tagged {tags[:5]}"


def _check_markup(raw: str, format: str) -> tuple[bool, str]:
    """Return whether lists, headings, LaTeX or Markdown are there (for "plain": no Markdown), and the reason."""
    if format in ("bullets", "numbered"):
        kind = "bullet" if format == "bullets" else "numbered"
        count = sum(item.kind == kind for item in list_items(raw))
        return count >= 2, f"{count} {kind} entries found, at least 2 make a list"
    if format == "headings":
        count = sum(map(is_heading, split_code(mark_titles(raw))[0]))
        return count > 0, f"{count} headings found"
    if format == "latex":
        if _LATEX.search(raw):
            return True, "LaTeX found"
        return False, "no LaTeX"
    if not raw.strip():
        return False, "the answer is empty"
    sign = _MARKDOWN.search(raw)
    reason = f"Markdown sign {sign[0].strip()!r} found" if sign else "no Markdown"
    return bool(sign) == (format == "markdown"), reason


@verifier("GeneralFormatCompliance", family="format", how="both")
def general_format_compliance(text: Text) -> Answer:
    """No part of the answer's structure is broken.

    Passes: prose; lists, tables, code and headings that are whole.
    Fails: a code fence or `$$` that never closes, a table whose rows have more cells than its header, a numbered list
        that jumps (1, 2, 5), a heading or bullet with nothing in it, JSON in a `json` fence that does not parse, an
        empty answer.
    Not covered: whether the structure suits the content (a judge's question).
    """
    if not text.raw.strip():
        return False, "the answer is empty"
    lines, blocks, is_unclosed = split_code(text.raw)
    defects: list[str] = []
    if is_unclosed:
        defects.append("a code fence never closes")
    for tag, code in blocks:
        # "..." and "//" mark JSON that is only sketched
        is_whole = code.strip()[:1] in ("{", "[") and "..." not in code and "//" not in code
        if tag.lower() == "json" and is_whole and find_syntax_error("json", code):
            defects.append("JSON in a fence does not parse")
    if any(len(row) > len(table[0]) for table in _find_tables(lines) for row in table):
        defects.append("a table row has more cells than its header")
    jump = _find_jump(lines)
    if jump:
        defects.append(f"a numbered list jumps from {jump[0]} to {jump[1]}")
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        bare = line.strip()
        if bare and len(bare) <= 6 and set(bare) == {"#"}:
            defects.append("a heading is empty")
            break
        if bare in ("*", "+", "•") and not next_line.startswith("  "):
            defects.append("a bullet is empty")
            break
    if sum(line.count("$$") for line in lines) % 2:
        defects.append("$$ never closes")
    return not defects, "; ".join(defects) or "structure is whole"


def _find_jump(lines: list[str]) -> tuple[int, int] | None:
    """Return two neighbouring numbers of a list at the margin if some are left out between them.

    "1. 1. 1." (Markdown counts for itself) and a new start are fine. A jump by ten or more is no list but years or the
    like.
    """
    last = 0
    for line in lines:
        if is_heading(line):
            last = 0
        match = _ORDINAL.match(line)
        if not match:
            continue
        number = int(match[1])
        if last > 0 and last + 1 < number < last + 10:
            return last, number
        last = number
    return None
