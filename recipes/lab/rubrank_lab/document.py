"""A page as data: headings, paragraphs, tables, pictures; as Markdown and as HTML.

page = Page("The laboratory", [Heading("Main table"), Paragraph("…"), Table(header, rows), Picture(name, svg)])
page.markdown("pictures"), page.html()
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:92rem;margin:2rem auto;padding:0 1rem;color:#1d2733}
p,figure{max-width:60rem}figure{margin:1rem 0}figcaption{font-size:14px;opacity:.8}
table{border-collapse:collapse;margin:1rem 0;font-size:13px;display:block;overflow-x:auto}
th,td{border-bottom:1px solid #d5dbe3;padding:.2rem .5rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{background:#eef2f6}svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#12171d;color:#dfe6ee}th{background:#1e2731}svg{background:#fff}
th,td{border-color:#334}}"""


@dataclass(frozen=True)
class Heading:
    """A section begins."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells are texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A drawing, and what it shows."""

    name: str
    about: str
    svg: str


_CODE, _BOLD, _LINK = re.compile(r"`([^`]+)`"), re.compile(r"\*\*([^*]+)\*\*"), re.compile(r"\[([^\]]+)\]\([^)]+\)")
Part: TypeAlias = Heading | Paragraph | Table | Picture


@dataclass(frozen=True)
class Page:
    """All of it."""

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)

    @property
    def pictures(self) -> list[Picture]:
        """In the order in which they stand."""
        return [part for part in self.parts if isinstance(part, Picture)]

    def markdown(self, folder: str) -> str:
        """With pictures as files in `folder`."""
        blocks = [f"# {self.title}", *(_markdown(part, folder) for part in self.parts)]
        return "\n\n".join(blocks) + "\n"

    def html(self) -> str:
        """One file, with the pictures in it."""
        body = "\n".join(_html(part) for part in self.parts)
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{self.title}</title>'
        top = f"<!doctype html><html lang=en><head>{head}<style>{_STYLE}</style></head>"
        return f"{top}<body><h1>{self.title}</h1>\n{body}</body></html>\n"


def _markdown(part: Part, folder: str) -> str:
    if isinstance(part, Heading):
        return f"## {part.text}"
    if isinstance(part, Paragraph):
        return part.text
    if isinstance(part, Picture):
        return f"![{part.about}]({folder}/{part.name}.svg)"
    lines = [part.header, ["---"] * len(part.header), *part.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _html(part: Part) -> str:
    if isinstance(part, Heading):
        return f"<h2>{escape(part.text)}</h2>"
    if isinstance(part, Paragraph):
        return f"<p>{_inline(part.text)}</p>"
    if isinstance(part, Picture):
        drawn = part.svg[part.svg.index("<svg") :]
        return f"<figure>{drawn}<figcaption>{escape(part.about)}</figcaption></figure>"
    head = "".join(f"<th>{escape(cell)}</th>" for cell in part.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in part.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _inline(text: str) -> str:
    """`code`, **bold** and [links](to); links lead out of docs/, where the Markdown stands, and are kept as texts."""
    found = _CODE.sub(r"<code>\1</code>", escape(text))
    return _LINK.sub(r"<em>\1</em>", _BOLD.sub(r"<strong>\1</strong>", found))
