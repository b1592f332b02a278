"""What the site adds to the pages: links out of docs/, titles of code blocks, colours, a page for every criterion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mkdocs.structure.files import File

from rubrank.cli.catalogue import CriterionEntry, describe, find_criteria, write_yaml_line

_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+(?!docs/)(?:README|CONTRIBUTING|CHANGELOG|examples|recipes|benchmarks|src)[^)]*\)"
)
_PAGE_PATH = re.compile(r"\bdocs/(\w+)\.md")
_NAMED_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})(\w+)[ \t]+([\w./-]+)[ \t]*$", re.MULTILINE)


_DIFFERENCE = re.compile(r"<td>([+−-][\d.]+%? \[([+−-][\d.]+)%?, ([+−-][\d.]+)%?\])</td>")
"""A cell such as +0.028 [+0.018, +0.038]: a difference with its interval."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """`[the recipe](../recipes/x/README.md)` reads "the recipe"; a block that begins with ```json a.jsonl is titled.

    The page of the laboratory, which is long, begins with its contents.
    """
    markdown = _OUTSIDE.sub(r"\1", markdown)
    if page is not None and page.file.src_uri == "lab.md":
        markdown = markdown.replace("\n## ", "\n[TOC]\n\n## ", 1)
    # The tests write such a block to the file that it names; the site's parser knows a file name only as a title.
    return _NAMED_FENCE.sub(r'\1\2\3 title="\4"', markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Differences with intervals are coloured: blue if the interval is above 0, orange if it is below."""
    return _DIFFERENCE.sub(_colour_difference, html)


def _colour_difference(match: re.Match[str]) -> str:
    low, high = (float(match[group].replace("−", "-")) for group in (2, 3))
    if low > 0.0:
        return f'<td class="better">{match[1]}</td>'
    if high < 0.0:
        return f'<td class="worse">{match[1]}</td>'
    return match[0]


# ---- a page for every criterion ------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Add criteria/index.md and criteria/NAME.md."""
    entries = [describe(entry.name) for entry in find_criteria()]
    files.append(File.generated(config, "criteria/index.md", content=_criteria_index(entries)))
    for entry in entries:
        files.append(File.generated(config, f"criteria/{_page_name(entry)}.md", content=_criterion_page(entry)))
    return files


def _page_name(entry: CriterionEntry) -> str:
    return entry.name.replace(":", "-")


def _criteria_index(entries: list[CriterionEntry]) -> str:
    lines = [
        "# Criteria",
        "",
        f"The library has {len(entries)} criteria. `rubrank criteria --search WORDS` finds them, too.",
        "",
    ]
    family = ""
    for entry in entries:
        if entry.family != family:
            family = entry.family
            lines += ["", f"## {family}", "", "| criterion | decided by | checks |", "|---|---|---|"]
        lines.append(f"| [{entry.name}]({_page_name(entry)}.md) | {entry.how} | {_in_prose(entry.checks)} |")
    return "\n".join(lines) + "\n"


def _criterion_page(entry: CriterionEntry) -> str:
    lines = [f"# {entry.name}", "", _in_prose(entry.checks), ""]
    lines += [f"Family {entry.family}; decided by: {entry.how}; layer {entry.layer}; values: {entry.values}.", ""]
    lines += ["```yaml", write_yaml_line(entry).strip(), "```", ""]
    paragraphs = (entry.doc or "").split("\n\n")
    if " ".join(paragraphs[0].split()).rstrip(".") == entry.checks.rstrip("."):
        paragraphs = paragraphs[1:]  # it stands above
    for paragraph in paragraphs:
        is_example = any(line.startswith("    ") for line in paragraph.splitlines())
        lines += ["```text", paragraph, "```", ""] if is_example else [_in_prose(paragraph), ""]
    if entry.parameters:
        lines += ["## Parameters", "", "| name | type | default |", "|---|---|---|"]
        for parameter in entry.parameters:
            default = "required" if parameter.required else repr(parameter.default)
            lines.append(f"| `{parameter.name}` | {_in_cell(parameter.type)} | {_in_cell(default)} |")
        lines.append("")
    if entry.examples:
        lines += ["## Examples", "", "| response | parameters | value | note |", "|---|---|---|---|"]
        lines += [_example_row(case) for case in entry.examples[:12]]
    return "\n".join(lines) + "\n"


def _example_row(case: Mapping[str, Any]) -> str:
    text = case.get("text")
    shown = text if isinstance(text, str) else "a conversation"
    params = ", ".join(f"{name}={value!r}" for name, value in (case.get("params") or {}).items())
    note = str(case.get("note") or "")
    return f"| {_in_cell(shown[:160])} | {_in_cell(params[:160])} | {case.get('value')} | {_in_cell(note)} |"


def _in_prose(text: str) -> str:
    """The same for a docstring, whose names in backquotes are code."""
    parts = re.split(r"(`[^`|]+`)", text)
    return " ".join("".join(part if part.startswith("`") else _in_cell_part(part) for part in parts).split())


def _in_cell(text: str) -> str:
    """Text that Markdown shows as it is, inside a cell of a table."""
    return " ".join(_in_cell_part(text).split())


def _in_cell_part(text: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~^])", r"\\\1", text)
    return _PAGE_PATH.sub(r"[\1](../\1.md)", escaped)
