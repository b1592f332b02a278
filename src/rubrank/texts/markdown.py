"""Parse the Markdown of a text: headings, list items, code, tables, emphasis and links, with the text in them.

    >>> parts = parse_markdown("# Plan\\n\\n- **fast**\\n- cheap\\n\\n```py\\nx = 1\\n```")
    >>> parts.headings, [item.text for item in parts.bullets], parts.bold, parts.code_blocks
    ((Heading(level=1, text='Plan'),), ['fast', 'cheap'], ('fast',), (Code(language='py', code='x = 1\\n'),))

CommonMark with tables, parsed by pyromark. (`fusion.control.markdown` uses the same parser to count markers; here
are the texts, without the markers.) The text of a list item does not include the lists inside it.

Not covered: raw HTML, footnotes, mathematics, task boxes; emphasis inside more than 20 emphases; lines of a block quote
deeper than 1,000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pyromark

from rubrank._plain import join_surrogates

PARSER = pyromark.Markdown(options=pyromark.Options.ENABLE_TABLES)

# The parser takes quadratic time if many lines continue thousands of containers opened on one line. `limit_depth`
# therefore drops markers beyond this depth; texts up to this length cannot be slow.
_DEEPEST_CONTAINER = 1000
_SAFE_LENGTH = 20_000
_CONTAINER = r"(?:[ \t]*+(?:>|(?:[-+*]|\d{1,9}[.)])[ \t]))"
_TOO_DEEP = re.compile(
    rf"((?:^|\r){_CONTAINER}{{{_DEEPEST_CONTAINER}}}){_CONTAINER}++", re.MULTILINE
)

_DEEPEST_EMPHASIS = 20


def limit_depth(text: str) -> str:
    """Return the Markdown without excessive nesting, so that it can be parsed in linear time."""
    if len(text) <= _SAFE_LENGTH:
        return text
    return _TOO_DEEP.sub(r"\1", text)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and its level, 1 to 6."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list; a top-level list has depth 1."""

    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A code block; the language is the first word after the fence, or ""."""

    language: str
    code: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its target and its text."""

    target: str
    text: str


Table = tuple[tuple[str, ...], ...]
"""Rows of cells; the first row is the header."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Everything found in a text, in reading order (by where each part ends)."""

    headings: tuple[Heading, ...] = ()
    bullets: tuple[ListItem, ...] = ()
    numbered: tuple[ListItem, ...] = ()
    code_blocks: tuple[Code, ...] = ()
    inline_code: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    bold: tuple[str, ...] = ()
    italic: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    quotes: tuple[str, ...] = ()
    rules: int = 0

    @property
    def emphasised(self) -> tuple[str, ...]:
        """Bold and italic spans."""
        return self.bold + self.italic


def parse_markdown(text: str) -> Structure:
    """Return the structure of the text."""
    # Most short answers contain none of these characters, and need no parser.
    may_hold_markdown = any(mark in text for mark in "#*_-+`>|~[=.)\t<") or "    " in text
    if not may_hold_markdown:
        return Structure()
    builder = _StructureBuilder()
    for event in PARSER.events(join_surrogates(limit_depth(text))):
        builder.read_event(event)
    return builder.build()


@dataclass(slots=True)
class _OpenElement:
    """An element whose end has not been read yet, with its text so far."""

    kind: str
    detail: Any = None
    pieces: list[str] = field(default_factory=list)
    list_depth: int = 0
    in_numbered_list: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()


_BLOCKS = frozenset(
    ("Heading", "Item", "CodeBlock", "TableCell", "BlockQuote", "Image", "HtmlBlock")
)
_SPANS = frozenset(("Strong", "Emphasis", "Link"))


class _StructureBuilder:
    """Reads parser events. Text is added to the innermost open block and to all open spans."""

    def __init__(self) -> None:
        self.blocks: list[_OpenElement] = []
        self.spans: list[_OpenElement] = []
        self.lists_numbered: list[bool] = []  # one entry per open list
        self.table: list[tuple[str, ...]] = []
        self.row: list[str] = []
        self.parts: dict[str, list[Any]] = {
            name: [] for name in Structure.__slots__ if name != "rules"
        }
        self.rules = 0

    def read_event(self, event: Any) -> None:
        if event == "Rule":
            self.rules += 1
            return
        if isinstance(event, str):  # SoftBreak, HardBreak
            self.add_text("\n")
            return
        ((event_type, value),) = event.items()
        if event_type == "Start":
            self.open_element(*_split_tag(value))
        elif event_type == "End":
            self.close_element(_split_tag(value)[0])
        elif event_type == "Text":
            self.add_text(value)
        elif event_type == "Code":
            self.add_text(value)
            self.parts["inline_code"].append(value)

    def add_text(self, text: str) -> None:
        if self.blocks:
            self.blocks[-1].pieces.append(text)
        for span in self.spans[:_DEEPEST_EMPHASIS]:
            span.pieces.append(text)

    def open_element(self, kind: str, detail: Any) -> None:
        if kind == "List":
            self.lists_numbered.append(detail is not None)
        elif kind in _SPANS:
            self.spans.append(_OpenElement(kind, detail))
        elif kind in _BLOCKS:
            block = _OpenElement(kind, detail, list_depth=len(self.lists_numbered))
            block.in_numbered_list = bool(self.lists_numbered) and self.lists_numbered[-1]
            self.blocks.append(block)
        elif kind == "Paragraph" and self.blocks and self.blocks[-1].pieces:
            self.blocks[-1].pieces.append("\n")

    def close_element(self, kind: str) -> None:
        if kind == "List":
            self.lists_numbered.pop()
        elif kind in _SPANS:
            self.close_span(self.spans.pop())
        elif kind in _BLOCKS:
            self.close_block(self.blocks.pop())
        elif kind in ("TableHead", "TableRow"):
            self.table.append(tuple(self.row))
            self.row = []
        elif kind == "Table":
            self.parts["tables"].append(tuple(self.table))
            self.table = []

    def close_span(self, span: _OpenElement) -> None:
        if span.kind == "Link":
            self.parts["links"].append(Link(span.detail["dest_url"], span.text))
        elif len(self.spans) < _DEEPEST_EMPHASIS:
            name = "bold" if span.kind == "Strong" else "italic"
            self.parts[name].append(span.text)

    def close_block(self, block: _OpenElement) -> None:
        if block.kind == "Heading":
            level = int(block.detail["level"][1])
            self.parts["headings"].append(Heading(level, block.text))
        elif block.kind == "Item":
            name = "numbered" if block.in_numbered_list else "bullets"
            self.parts[name].append(ListItem(block.list_depth, block.text))
        elif block.kind == "CodeBlock":
            info = block.detail["Fenced"].split() if isinstance(block.detail, dict) else []
            language = info[0] if info else ""
            self.parts["code_blocks"].append(Code(language, "".join(block.pieces)))
        elif block.kind == "TableCell":
            self.row.append(block.text)
        elif block.kind == "BlockQuote":
            self.parts["quotes"].append(block.text)

    def build(self) -> Structure:
        parts = {name: tuple(values) for name, values in self.parts.items()}
        return Structure(rules=self.rules, **parts)


def _split_tag(value: Any) -> tuple[str, Any]:
    """Return the name and the details of a tag: the parser gives a name, or a mapping from the name to its details."""
    if isinstance(value, str):
        return value, None
    return next(iter(value.items()))
