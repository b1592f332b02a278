"""Format as structure: FormatRequirement, GeneralFormatCompliance."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any, Literal, TypeAlias

import yaml

from rubrank.texts.prose import fold_phrase, is_heading, list_items, mark_titles, split_code
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

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
_DELIMITER = re.compile(r"[ \t]*+\|?(?:[ \t]*+:?-++:?[ \t]*+\|)+(?:[ \t]*+:?-++:?[ \t]*+)?$")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,63})(?:\s[^<>]{0,5000})?(/?)>")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
# A dollar opens before what is no space, and closes after what is none and before no digit: not in "$5 and $6".
_LATEX = re.compile(
    r"\$\$[^$]+\$\$|(?<![\\$\w])\$(?=[^\s$])[^$\n]{0,1000}?(?<=[^\s\\])\$(?![\d$])|\\\(.+?\\\)|\\\[.+?\\\]|\\begin\{",
    re.DOTALL,
)
_MARKUP = re.compile(r"(?m)^[ \t]{0,3}#{1,6}[ \t]|\*\*[^*\n]+\*\*|^[ \t]*[-*+][ \t]+\S|```|^[ \t]*\|[ \t]*:?--")


@verifier("FormatRequirement", family="format", domain=BINARY, version=2, how="both")
def format_requirement(
    text: Text,
    *,
    format: Format | None = None,
    keys: tuple[str, ...] = (),
    code_language: str | None = None,
    only: bool = True,
) -> Answer:
    """The answer is in the format asked for, and, if `only`, for data formats is nothing else (one fence is allowed).

    Passes: '{"a": 1}' as json, also in a fence; a Markdown table as table with its columns in `keys`; prose as plain.
    Fails: JSON that does not parse or lacks one of `keys`; "Here it is: {…}" if `only`; Markdown signs in plain.
    Missing: no `format` given — a judge must read the request. Not covered: JSON Schema, formats of other names.
    """
    if format is None:
        return missing("needs a judge: no format is given")
    data = {"json": _is_json, "csv": _is_csv, "yaml": _is_yaml, "xml": _is_xml, "html": _is_html}
    if format in data:
        source, alone = _payload(text.raw, format)
        if only and not alone:
            return False, f"there is text beside the {format}"
        return data[format](source, keys)
    if format == "table":
        return _is_table(text.raw, keys)
    if format == "code":
        return _is_code(text.raw, code_language)
    return _is_markup(text.raw, format)


def _payload(raw: str, format: str) -> tuple[str, bool]:
    """The data itself, and whether it stands alone: bare or in one fence."""
    outside, blocks, _ = split_code(raw)
    if not blocks:
        return raw.strip(), True
    tagged = [code for tag, code in blocks if tag.lower().startswith(format[:3])] or [blocks[0][1]]
    return tagged[0].strip(), len(blocks) == 1 and not "".join(outside).strip()


def _is_json(source: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    try:
        value: Any = json.loads(source)
    except (ValueError, RecursionError) as error:
        return False, f"not JSON: {error}"[:200]
    rows = value if isinstance(value, list) else [value]
    lacking = [key for key in keys if not all(isinstance(row, dict) and key in row for row in rows)]
    return not lacking, f"JSON lacks the keys {lacking}" if lacking else "valid JSON"


def _is_csv(source: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    try:
        rows = [row for row in csv.reader(io.StringIO(source), strict=True) if row]
    except csv.Error as error:
        return False, f"not CSV: {error}"
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) != 1 or widths == {1}:
        return False, f"not CSV: {len(rows)} rows of {sorted(widths)[:5]} fields"
    lacking = [key for key in keys if fold_phrase(key) not in map(fold_phrase, rows[0])]
    return not lacking, f"CSV lacks the columns {lacking}" if lacking else f"CSV of {len(rows)} rows"


def _is_yaml(source: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    # Only the events are looked at: no object is built, so aliases cannot blow up.
    if len(source) > 100_000 or source.count("[") + source.count("{") > 500:
        return False, "too large or too deep to be YAML meant for reading"
    try:
        kinds = [type(event).__name__ for event in yaml.parse(source, Loader=yaml.SafeLoader)]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return False, f"not YAML: {str(error)[:120]}"
    if "MappingStartEvent" not in kinds and "SequenceStartEvent" not in kinds:
        return False, "plain text, no YAML mapping or list"
    lacking = [key for key in keys if not any(line.strip(" -").startswith(f"{key}:") for line in source.splitlines())]
    return not lacking, f"YAML lacks the keys {lacking}" if lacking else "valid YAML"


def _is_xml(source: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    """Tags that nest properly; nothing is parsed by an XML library, so no entity can expand."""
    open_tags: list[str] = []
    names = set()
    for closing, name, empty in _TAG.findall(source):
        names.add(name)
        if closing and (not open_tags or open_tags.pop() != name):
            return False, f"</{name}> closes nothing"
        if not closing and not empty and name.lower() not in _VOID:
            open_tags.append(name)
    if open_tags or not names:
        return False, f"<{open_tags[-1]}> never closes" if open_tags else "no tags"
    if not source.startswith("<"):
        return False, "does not start with a tag"
    lacking = [key for key in keys if key not in names]
    return not lacking, f"lacks the elements {lacking}" if lacking else "well-formed markup"


_MAY_STAY_OPEN = "html head body p li dt dd tr td th thead tbody tfoot colgroup caption option optgroup rb rt rtc rp"
_SILENT_END = frozenset(_MAY_STAY_OPEN.split())
_RAW = re.compile(
    r"<!--.*?(?:-->|\Z)|(<(script|style|textarea|title)\b[^<>]{0,2000}>)(.*?)(</\2\s*>)", re.DOTALL | re.IGNORECASE
)


def _is_html(source: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    """Tags that nest as browsers read them: `<li>a<li>b`, `<br>`, `<P>` and `</p>` are fine."""
    open_tags: list[str] = []
    names = set[str]()
    for closing, tag, empty in _TAG.findall(_RAW.sub(r"\1\4", source)):
        name = tag.lower()
        names.add(name)
        if closing and name in open_tags:
            while (last := open_tags.pop()) != name:
                if last not in _SILENT_END:
                    return False, f"<{last}> never closes"
        elif closing and name not in ("p", "br"):
            return False, f"</{name}> closes nothing"
        elif not closing and not empty and name not in _VOID:
            open_tags.append(name)
    unclosed = [name for name in open_tags if name not in _SILENT_END]
    if unclosed or not names:
        return False, f"<{unclosed[-1]}> never closes" if unclosed else "no tags"
    if not source.startswith("<"):
        return False, "does not start with a tag"
    lacking = [key for key in keys if key.lower() not in names]
    return not lacking, f"lacks the elements {lacking}" if lacking else "well-formed HTML"


def _tables(lines: list[str]) -> list[list[list[str]]]:
    """Tables as rows of cells, header first, the delimiter line left out."""
    found: list[list[list[str]]] = []
    inside = False
    for i, line in enumerate(lines):
        inside = inside and "|" in line
        if inside:
            found[-1].append(_cells(line))
        elif i and "|" in lines[i - 1] and _DELIMITER.match(line):
            found.append([_cells(lines[i - 1])])
            inside = True
    return found


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").replace("\\|", " ").split("|")]


def _is_table(raw: str, keys: tuple[str, ...]) -> tuple[bool, str]:
    tables = _tables(split_code(raw)[0])
    if not tables:
        return False, "no table"
    columns = {fold_phrase(cell.strip("*_ ")) for table in tables for cell in table[0]}
    lacking = [key for key in keys if fold_phrase(key) not in columns]
    return not lacking, f"the table lacks the columns {lacking}" if lacking else f"{len(tables)} table(s) found"


def _is_code(raw: str, language: str | None) -> tuple[bool, str]:
    _, blocks, unclosed = split_code(raw)
    tags = [tag.lower() for tag, code in blocks if code.strip()]
    if not tags or unclosed:
        return False, "a code block never closes" if unclosed else "no code block"
    fits = language is None or any(tag.split(" ")[0] == language.lower() for tag in tags)
    return fits, f"code blocks tagged {tags[:5]}" + ("" if fits else f", {language!r} asked")


def _is_markup(raw: str, format: str) -> tuple[bool, str]:
    if format in ("bullets", "numbered"):
        kind = "bullet" if format == "bullets" else "numbered"
        n = sum(item.kind == kind for item in list_items(raw))
        return n >= 2, f"{n} {kind} entries found, at least 2 make a list"
    if format == "headings":
        n = sum(map(is_heading, split_code(mark_titles(raw))[0]))
        return n > 0, f"{n} headings found"
    if format == "latex":
        found = bool(_LATEX.search(raw))
        return found, "LaTeX found" if found else "no LaTeX"
    sign = _MARKUP.search(raw)
    wanted = format == "markdown"
    return bool(sign) == wanted and bool(
        raw.strip()
    ), f"Markdown sign {sign[0].strip()!r} found" if sign else "no Markdown"


@verifier("GeneralFormatCompliance", family="format", domain=BINARY, version=1, how="both")
def general_format_compliance(text: Text) -> Answer:
    """Nothing in the structure is broken.

    Passes: prose; lists, tables, code and headings that are whole. Fails: a code fence or `$$` that never closes, a
    table whose rows have more cells than its header, a numbered list that jumps (1, 2, 5), a heading or bullet with
    nothing in it, JSON in a `json` fence that does not parse, an empty answer. Not covered: whether the structure suits
    the content (a judge's question).
    """
    if not text.raw.strip():
        return False, "the answer is empty"
    lines, blocks, unclosed = split_code(text.raw)
    defects = ["a code fence never closes"] if unclosed else []
    defects += [what for tag, code in blocks if tag.lower() == "json" and (what := _json_defect(code))]
    defects += [
        what for check in (_table_defect, _number_defect, _empty_defect, _math_defect) if (what := check(lines))
    ]
    return not defects, "; ".join(defects) or "structure is whole"


def _json_defect(code: str) -> str | None:
    whole = code.strip()[:1] in ("{", "[") and "..." not in code and "//" not in code
    return "JSON in a fence does not parse" if whole and not _is_json(code, ())[0] else None


def _table_defect(lines: list[str]) -> str | None:
    wide = any(len(row) > len(table[0]) for table in _tables(lines) for row in table)
    return "a table row has more cells than its header" if wide else None


_ORDINAL = re.compile(r"(\d{1,4})[.)](?=[ \t]\S)")


def _number_defect(lines: list[str]) -> str | None:
    """Numbers at the margin that skip ahead; "1. 1. 1." (Markdown counts itself) and a new start are fine."""
    last = None
    for line in lines:
        if is_heading(line):
            last = None
        if match := _ORDINAL.match(line):
            number = int(match[1])
            if last is not None and last > 0 and last + 1 < number < last + 10:
                return f"a numbered list jumps from {last} to {number}"
            last = number
    return None


def _empty_defect(lines: list[str]) -> str | None:
    for i, line in enumerate(lines):
        bare = line.strip()
        if bare and len(bare) <= 6 and set(bare) == {"#"}:
            return "a heading is empty"
        if bare in ("*", "+", "•") and not (i + 1 < len(lines) and lines[i + 1].startswith("  ")):
            return "a bullet is empty"
    return None


def _math_defect(lines: list[str]) -> str | None:
    return "$$ never closes" if sum(line.count("$$") for line in lines) % 2 else None
