"""Is an answer in the format that was asked for, and is its structure whole? Nothing is run or rendered.

FormatRequirement(format="json")     the answer is JSON, a table, code, a list, plain prose …
GeneralFormatCompliance()            no fence, table, list or heading is broken
ValidMarkup(kind="mermaid")          its HTML, LaTeX, Mermaid or cron expression is well-formed
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import yaml

from rubrank._plain import word_set
from rubrank.texts.prose import fold_phrase, is_heading, list_items, mark_titles, split_code
from rubrank.texts.text import Text
from rubrank.verifiers.code.programs import find_syntax_error
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
_XML_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,63})(?:\s[^<>]{0,5000})?(/?)>")
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
_FORMATS_WITH_NAMES = ("json", "csv", "yaml", "xml", "html", "table")  # of keys, columns or tags


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
    if format not in _FORMATS_WITH_NAMES:
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
    try:
        names = _read_names(format, source.strip())
    except (ValueError, csv.Error, yaml.YAMLError, RecursionError) as error:
        return False, f"not {format}: {error}"[:200]
    # Columns are compared without case and markup, HTML tags without case; keys of JSON and YAML as they are.
    fold: Callable[[str], str] = str
    if format in ("csv", "table"):
        fold = fold_phrase
    elif format == "html":
        fold = str.lower
    lacking = [key for key in keys if fold(key) not in names]
    if lacking:
        return False, f"the {format} lacks {lacking}"
    return True, f"valid {format}"


def _read_names(format: str, source: str) -> set[str]:
    """Return the names that `keys` may ask for: keys, columns or tags. Raises if the source is not of the format."""
    if format == "json":
        value: Any = json.loads(source)
        rows = value if isinstance(value, list) else [value]
        key_sets = [set(row) if isinstance(row, dict) else set() for row in rows]
        return set.intersection(*key_sets) if key_sets else set()  # the keys that every row has
    if format == "csv":
        records = [record for record in csv.reader(io.StringIO(source), strict=True) if record]
        widths = {len(record) for record in records}
        if len(records) < 2 or len(widths) != 1 or widths == {1}:
            raise ValueError(f"{len(records)} rows of {sorted(widths)[:5]} fields")
        return set(map(fold_phrase, records[0]))
    if format == "yaml":
        # Only the events are read: no object is built, so aliases cannot blow up.
        if len(source) > 100_000 or source.count("[") + source.count("{") > 500:
            raise ValueError("too large or too deep to be meant for reading")
        events = [type(event) for event in yaml.parse(source, Loader=yaml.SafeLoader)]
        if yaml.MappingStartEvent not in events and yaml.SequenceStartEvent not in events:
            raise ValueError("plain text, no mapping or list")
        return {line.strip(" -").partition(":")[0] for line in source.splitlines() if ":" in line}
    if format == "table":
        tables = _find_tables(split_code(source)[0])
        if not tables:
            raise ValueError("there is none")
        return {fold_phrase(cell.strip("*_ ")) for table in tables for cell in table[0]}
    if format == "html":
        problem, tags = check_html(source)
        if problem or not tags or not source.startswith("<"):
            raise ValueError(problem or "it does not start with a tag")
        return tags
    # The tags of XML must nest. No XML library parses the source, so no entity can expand.
    open_tags: list[str] = []
    names: set[str] = set()
    for closing, name, empty in _XML_TAG.findall(source):
        names.add(name)
        if closing:
            if not open_tags or open_tags.pop() != name:
                raise ValueError(f"</{name}> closes nothing")
        elif not empty and name.lower() not in _VOID:
            open_tags.append(name)
    if open_tags or not names or not source.startswith("<"):
        raise ValueError("a tag never closes, or the first one is absent")
    return names


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


# ---- markup ----------------------------------------------------------------------------------------------------------

Markup: TypeAlias = Literal["html", "latex", "mermaid", "cron"]
TagKind: TypeAlias = Literal["start", "end", "empty", "unclosed section"]
# The names after the opening fence of a code block that holds each kind.
_FENCES = {
    "html": ("html", "xml", "svg"),
    "latex": ("latex", "tex", "math"),
    "mermaid": ("mermaid",),
    "cron": ("cron", "crontab"),
}
# HTML5 lets these elements end without an end tag.
_OPTIONAL_END_TAG = word_set(
    "html head body p li dt dd tr td th thead tbody tfoot colgroup caption option optgroup rb rt rtc rp"
)
# Elements that have no content and no end tag.
_VOID = word_set("area base br col embed hr img input link meta source track wbr")
# Where comments, CDATA, declarations and instructions begin and end; tags inside them do not count.
_SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">"))
_TAG_NAME = re.compile(r"</?[A-Za-z]")
# <a href="x > y">: a > within the quotes of an attribute does not end the tag. The possessive *+ keeps it linear.
_TAG = re.compile(
    r"""<(?P<slash>/?) (?P<name>[A-Za-z][^\s/>]*+)
    (?: =\s*+"[^"]*+" | =\s*+'[^']*+' | [^>] )*+ >""",
    re.VERBOSE,
)
# Elements whose content is text: tags in it do not count. The pattern finds their end tag.
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title")
}
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")
# The first line of a Mermaid diagram: "graph TD", "sequenceDiagram".
_DIAGRAM = re.compile(
    r"(?:graph|flowchart)\s+(?:TB|TD|BT|RL|LR)\b|sequenceDiagram\b|classDiagram\b|stateDiagram(?:-v2)?\b|erDiagram\b"
    r"|gantt\b|pie\b|journey\b|gitGraph\b|mindmap\b|timeline\b|quadrantChart\b|requirementDiagram\b|C4\w+\b"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# The fields of a cron expression: the smallest and the largest number, and the names that may stand for numbers.
_CRON_FIELDS: tuple[tuple[int, int, Sequence[str]], ...] = (
    (0, 59, ()),  # minute
    (0, 23, ()),  # hour
    (1, 31, ()),  # day of the month
    (1, 12, _MONTHS),
    (0, 7, _DAYS),  # 0 and 7 are Sunday
)
# "*", "5", "mon-fri", "*/5", "1-10/2"
_CRON_PART = re.compile(
    r"(?P<span>[*?]|(?P<first>[a-z]{3}|[0-9]{1,4})(?:-(?P<last>[a-z]{3}|[0-9]{1,4}))?)(?:/(?P<step>[0-9]{1,9}))?"
)
_CRON_SHORTCUTS = word_set("@yearly @annually @monthly @weekly @daily @midnight @hourly @reboot")


@verifier("ValidMarkup", family="format", version=2)
def valid_markup(text: Text, *, kind: Markup) -> Answer:
    """The HTML, LaTeX, Mermaid or cron expression of the answer is well-formed.

    Looked at: the last code fence of that kind, else the last one without a name, else the whole answer.
    Passes: <p>a<br><li>b (HTML5 closes it); \\begin{a}…\\end{a} with balanced braces; "graph TD" and lines with
        balanced brackets; "*/5 9-17 * * mon-fri".
    Fails: </b> that nothing opened, <b> that nothing closes; braces or environments that cross; a diagram of no known
        kind; a field out of range; nothing of that kind in the answer.
    Missing: an empty answer.
    Not covered: unknown commands and tags.
    """
    if not text.raw.strip():
        return missing("the answer is empty")
    markup = text.raw.strip().strip("`") if kind == "cron" else text.raw
    fences = [(tag.lower(), code) for tag, code in split_code(text.raw)[1]]
    for names in (_FENCES[kind], ("",)):
        blocks = [code for name, code in fences if name in names]
        if blocks:
            markup = blocks[-1]
            break
    if not markup.strip():
        return False, f"no {kind} in the answer"
    if kind == "html":
        problem, tags = check_html(markup)
        if problem is None and not tags:
            problem = "there is no tag"
    else:
        check = {"latex": _check_latex, "mermaid": _check_mermaid, "cron": _check_cron}[kind]
        problem = check(markup)
    return problem is None, problem or f"well-formed {kind}"


def check_html(text: str) -> tuple[str | None, set[str]]:
    """Return what is wrong with the nesting of tags (None if nothing), and the names of all tags in lower case.

    Tags are read as browsers read them: `<li>a<li>b`, `<br>`, `<P>` and a `</p>` that nothing opened are fine.
    """
    open_tags: list[str] = []
    names: set[str] = set()
    for name, kind in _find_tags(text):
        if kind == "unclosed section":
            return f"{name} is never closed", names
        names.add(name)
        if kind == "empty" or name in _VOID:
            continue
        if kind == "start":
            open_tags.append(name)
            continue
        # An end tag.
        if name not in open_tags:
            if name == "p":  # browsers insert the start tag
                continue
            return f"</{name}> closes nothing", names
        while open_tags[-1] != name and open_tags[-1] in _OPTIONAL_END_TAG:
            open_tags.pop()
        if open_tags[-1] != name:
            return f"</{name}> crosses <{open_tags[-1]}>", names
        open_tags.pop()
    unclosed = [tag for tag in open_tags if tag not in _OPTIONAL_END_TAG]
    if unclosed:
        return f"<{unclosed[-1]}> is never closed", names
    return None, names


def _find_tags(text: str) -> Iterator[tuple[str, TagKind]]:
    """Yield names and kinds of the tags of a text; at last ("<!--", "unclosed section") if a comment never ends.

    Python's own parser starts again at every "<" of a tag or comment that does not end, which takes minutes for long
    texts. Here everything is read once: what never ends is the rest of the text.
    """
    position = 0
    while (start := text.find("<", position)) >= 0:
        section = next((marks for marks in _SECTIONS if text.startswith(marks[0], start)), None)
        if section:
            opening, closing = section
            end = text.find(closing, start + len(opening))
            if end < 0:
                if opening in ("<!--", "<![CDATA["):
                    yield opening, "unclosed section"
                return
            position = end + len(closing)
            continue
        if not _TAG_NAME.match(text, start):  # a "<" in the text: "a < b"
            position = start + 1
            continue
        tag = _TAG.match(text, start)
        if tag is None:  # there is no ">" behind it, so no later tag ends either
            return
        position = tag.end()
        name = tag["name"].lower()
        if tag["slash"]:
            yield name, "end"
        elif tag[0].endswith("/>"):
            yield name, "empty"
        else:
            yield name, "start"
            if name in _RAW_TEXT:
                end_tag = _RAW_TEXT[name].search(text, position)
                if end_tag is None:
                    return
                position = end_tag.start()


def _check_latex(text: str) -> str | None:
    """Return what is wrong with braces, environments and dollars; None if nothing is."""
    text = re.sub(r"(?<!\\)%[^\n]*", "", text)  # comments
    text = re.sub(r"\\\\", " ", text)  # line breaks
    unbalanced = _find_unbalanced(re.sub(r"\\[{}]", "", text), "{}")
    if unbalanced:
        return unbalanced
    environments: list[str] = []
    for command, name in _ENVIRONMENT.findall(text):
        if command == "begin":
            environments.append(name)
        elif not environments or environments.pop() != name:
            return f"\\end{{{name}}} does not close what is open"
    if environments:
        return f"\\begin{{{environments[-1]}}} is never ended"
    if len(re.findall(r"(?<!\\)\$", text)) % 2:
        return "a $ without its partner"
    if len(re.findall(r"\\left\b", text)) != len(re.findall(r"\\right\b", text)):
        return "\\left without \\right"
    return None if re.search(r"\\[A-Za-z]+|\$|[{}^_]", text) else "there is no LaTeX"


def _check_mermaid(text: str) -> str | None:
    """Return what is wrong with the first line or, in a flowchart, with the brackets; None if nothing is."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("%%")]
    if lines and lines[0] == "---" and "---" in lines[1:]:  # front matter
        lines = lines[lines.index("---", 1) + 1 :]
    if not lines or not _DIAGRAM.match(lines[0]):
        return "the first line names no kind of diagram"
    if len(lines) < 2 and not lines[0].startswith("pie"):
        return "there is nothing in the diagram"
    if lines[0].split()[0] in ("graph", "flowchart"):
        without_texts = re.sub(r"\"[^\"\n]*\"", "", "\n".join(lines[1:]))
        # The > of the shape "id>text]" and arrows such as "-->", "-.->", "<==>", "--x".
        without_arrows = re.sub(r">(?=[^\]\n]{0,200}\])|<?[-=.]+[>xo]?", "", without_texts)
        return _find_unbalanced(without_arrows, "()[]{}")
    return None


def _find_unbalanced(text: str, brackets: str) -> str | None:
    """Return the first bracket that nothing opens or the last that nothing closes; None if there is none."""
    openings = dict(zip(brackets[1::2], brackets[::2], strict=True))
    stack: list[str] = []
    for sign in text:
        if sign in brackets[::2]:
            stack.append(sign)
        elif sign in openings and (not stack or stack.pop() != openings[sign]):
            return f"a {sign} that nothing opens"
    return f"a {stack[-1]} that nothing closes" if stack else None


def _check_cron(text: str) -> str | None:
    """Return what is wrong with the expression; None if nothing is."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1:
        return "not one expression"
    if lines[0].lower() in _CRON_SHORTCUTS:
        return None
    fields = lines[0].split()
    if len(fields) != len(_CRON_FIELDS):
        return f"{len(fields)} fields instead of 5"
    for number, (field, (low, high, names)) in enumerate(zip(fields, _CRON_FIELDS, strict=True), 1):
        if not all(_is_cron_part(part, low, high, names) for part in field.lower().split(",")):
            return f"field {number} is {field[:30]!r}"
    return None


def _is_cron_part(part: str, low: int, high: int, names: Sequence[str]) -> bool:
    """Is this "*", "5", "mon-fri", "*/5" or "1-10/2", within the range?"""
    match = _CRON_PART.fullmatch(part)
    if match is None:
        return False
    if match["step"] and not 0 < int(match["step"]) <= high:
        return False
    if match["first"] is None:  # "*", or "?": "no value", which some schedulers allow for days
        return match["span"] == "*" or not match["step"]
    numbers = []
    for end in filter(None, (match["first"], match["last"])):
        if end in names:
            numbers.append(names.index(end) + low)  # months count from 1, days of the week from 0
        elif end.isdigit():
            numbers.append(int(end))
        else:
            return False
    return numbers == sorted(numbers) and low <= numbers[0] and numbers[-1] <= high
