"""The Markdown structure of a text: headings, list items, code, tables, emphasis, links, with what is written in them.

    >>> parts = parse("# Plan\\n\\n- **fast**\\n- cheap\\n\\n```py\\nx = 1\\n```")
    >>> parts.headings, [item.text for item in parts.bullets], parts.bold, parts.code_blocks
    ((Heading(level=1, text='Plan'),), ['fast', 'cheap'], ('fast',), (Code(language='py', code='x = 1\\n'),))

CommonMark with tables, as in `fusion.attributes.markdown`, which counts; here are the texts, without the markers. The
text of an item is its own: not that of lists inside it. Not covered: raw HTML, footnotes, mathematics, task boxes;
emphasis inside more than 20 emphases; lines of a block quote deeper than 1,000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rubrank._plain import encodable
from rubrank.texts.commonmark import PARSER, bounded

_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and its level, 1 to 6."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list; depth 1 is a list that stands in no other."""

    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A code block; the language is the first word after the fence, "" if there is none."""

    language: str
    code: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link: where it leads and what it says."""

    target: str
    text: str


Table = tuple[tuple[str, ...], ...]
"""Rows of cells; the first is the header."""


@dataclass(frozen=True, slots=True)
class Structure:
    """What a text holds, each in the order of reading (by where it ends)."""

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


def parse(text: str) -> Structure:
    """The structure of the text."""
    if not _may_hold_markdown(text):
        return Structure()
    reader = _Reader()
    for event in PARSER.events(encodable(bounded(text))):
        reader.read(event)
    return reader.structure()


def _may_hold_markdown(text: str) -> bool:
    """Most short answers hold none of these characters; then no parser is needed."""
    return any(mark in text for mark in "#*_-+`>|~[=.)\t<") or "    " in text


@dataclass(slots=True)
class _Frame:
    """Something open: its kind, what it needs when it closes, and the text in it so far."""

    kind: str
    detail: Any = None
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()


_BLOCKS = frozenset(("Heading", "Item", "CodeBlock", "TableCell", "BlockQuote", "Image", "HtmlBlock"))
_SPANS = frozenset(("Strong", "Emphasis", "Link"))


class _Reader:
    """Reads the parser's events; a text belongs to the innermost block and to the spans that are open."""

    def __init__(self) -> None:
        self.blocks: list[_Frame] = []
        self.spans: list[_Frame] = []
        self.lists: list[bool] = []  # numbered?
        self.table: list[tuple[str, ...]] = []
        self.row: list[str] = []
        self.found: dict[str, list[Any]] = {name: [] for name in Structure.__slots__ if name != "rules"}
        self.rules = 0

    def read(self, event: Any) -> None:
        if event == "Rule":
            self.rules += 1
        elif isinstance(event, str):  # SoftBreak, HardBreak
            self.write("\n")
        else:
            ((what, value),) = event.items()
            if what == "Start":
                self.open(*_named(value))
            elif what == "End":
                self.close(_named(value)[0])
            elif what in ("Text", "Code"):
                self.write(value)
                if what == "Code":
                    self.found["inline_code"].append(value)

    def write(self, text: str) -> None:
        if self.blocks:
            self.blocks[-1].pieces.append(text)
        for span in self.spans[:_DEEPEST]:
            span.pieces.append(text)

    def open(self, kind: str, detail: Any) -> None:
        if kind == "List":
            self.lists.append(detail is not None)
        elif kind in _SPANS:
            self.spans.append(_Frame(kind, detail))
        elif kind in _BLOCKS:
            self.blocks.append(_Frame(kind, (detail, len(self.lists), self.lists[-1] if self.lists else False)))
        elif kind == "Paragraph" and self.blocks and self.blocks[-1].pieces:
            self.blocks[-1].pieces.append("\n")

    def close(self, kind: str) -> None:
        if kind == "List":
            self.lists.pop()
        elif kind in _SPANS:
            self.close_span(self.spans.pop())
        elif kind in _BLOCKS:
            self.close_block(self.blocks.pop())
        elif kind in ("TableHead", "TableRow"):
            self.table.append(tuple(self.row))
            self.row = []
        elif kind == "Table":
            self.found["tables"].append(tuple(self.table))
            self.table = []

    def close_span(self, span: _Frame) -> None:
        if span.kind == "Link":
            self.found["links"].append(Link(span.detail["dest_url"], span.text))
        elif len(self.spans) < _DEEPEST:
            self.found["bold" if span.kind == "Strong" else "italic"].append(span.text)

    def close_block(self, block: _Frame) -> None:
        detail, depth, numbered = block.detail
        if block.kind == "Heading":
            self.found["headings"].append(Heading(int(detail["level"][1]), block.text))
        elif block.kind == "Item":
            self.found["numbered" if numbered else "bullets"].append(ListItem(depth, block.text))
        elif block.kind == "CodeBlock":
            language = detail["Fenced"] if isinstance(detail, dict) else ""
            self.found["code_blocks"].append(Code((language.split() or [""])[0], "".join(block.pieces)))
        elif block.kind == "TableCell":
            self.row.append(block.text)
        elif block.kind == "BlockQuote":
            self.found["quotes"].append(block.text)

    def structure(self) -> Structure:
        return Structure(rules=self.rules, **{name: tuple(values) for name, values in self.found.items()})


def _named(value: Any) -> tuple[str, Any]:
    """A tag is its name, or a mapping of its name to details."""
    return (value, None) if isinstance(value, str) else next(iter(value.items()))
