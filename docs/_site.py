"""What the site adds to the pages: links out of docs/, titles of code blocks, colours, a page for every criterion."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mkdocs.structure.files import File

from rubrank.cli.catalogue import CriterionEntry, describe, find_criteria, write_yaml_line
from rubrank.judges.prompting.prompt_files import Prompt, list_prompt_names, load_prompt

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

_DECIDED_BY = {
    "rule": "a program",
    "judge": "a judge",
    "both": "a program, or a judge if the program is not sure",
}
_VALUES = {"binary": "0 or 1", "ternary": "0, 0.5 or 1"}
_LABEL = r"\b(?:Passes|Fails|Missing|Not\s+covered|[Uu]pstream)(?: \([^)]*\))?:"
"""What a sentence or line of a docstring begins with, such as "Passes:" or "Fails (0):"."""
_PROMPT_SECTIONS = {
    "counts": "What counts",
    "ignore": "What does not count",
    "edges": "Special cases",
}


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
            lines += [
                "",
                f"## {family}",
                "",
                "| criterion | decided by | checks |",
                "|---|---|---|",
            ]
        lines.append(
            f"| [{entry.name}]({_page_name(entry)}.md) | {_DECIDED_BY[entry.how]} | {_in_prose(entry.checks)} |"
        )
    return "\n".join(lines) + "\n"


def _criterion_page(entry: CriterionEntry) -> str:
    lines = [f"# {entry.name}", "", _as_sentence(entry.checks), ""]
    lines += [
        f"Family {_in_prose(entry.family)}; decided by {_DECIDED_BY[entry.how]}; "
        f"layer `{entry.layer}`; values: {_VALUES.get(entry.values, entry.values)}.",
        "",
    ]
    lines += ["```yaml", write_yaml_line(entry).strip(), "```", ""]
    paragraphs = (entry.doc or "").split("\n\n")
    if _as_sentence(paragraphs[0]) == _as_sentence(entry.checks):
        paragraphs = paragraphs[1:]  # the page begins with it
    for paragraph in paragraphs:
        lines += _docstring_paragraph(paragraph)
    if entry.name in list_prompt_names():
        lines += _judge_section(load_prompt(entry.name, "en"))
    if entry.parameters:
        lines += ["## Parameters", "", "| name | type | default |", "|---|---|---|"]
        for parameter in entry.parameters:
            default = "required" if parameter.required else repr(parameter.default)
            lines.append(f"| `{parameter.name}` | {_in_cell(parameter.type)} | {_in_cell(default)} |")
        lines.append("")
    if entry.examples:
        lines += ["## Examples", "", *_example_table(entry.examples[:12])]
    return "\n".join(lines) + "\n"


def _docstring_paragraph(paragraph: str) -> list[str]:
    """The paragraph, with its lists and its labels ("Passes:", "Fails:" …) as list items."""
    lines: list[str] = []
    for piece in re.split(rf"\n(?=- )|\s*(?={_LABEL})", paragraph):
        label = re.match(_LABEL, piece)
        if label:
            name = " ".join(label[0].split())
            lines.append(f"- **{name[0].upper()}{name[1:]}** {_in_prose(piece[label.end() :])}")
        elif piece.startswith("- "):
            lines.append(f"- {_in_prose(piece[2:])}")
        elif piece.strip():
            lines += ["", _in_prose(piece), ""]
    return [*lines, ""]


def _judge_section(prompt: Prompt) -> list[str]:
    """What the judge is told about the criterion."""
    lines = ["## What the judge is asked", "", _in_prose(prompt.get("question")), ""]
    for section, title in _PROMPT_SECTIONS.items():
        points = [line.removeprefix("- ") for line in prompt.get(section).splitlines() if line.strip()]
        if points:
            lines += [f"{title}:", "", *(f"- {_in_prose(point)}" for point in points), ""]
    if prompt.items is not None:
        words = "; ".join(f"{word} ({meaning})" if meaning else word for word, meaning in prompt.items.words.values())
        lines += [
            f"The judge lists {_in_prose(prompt.items.each)}, each with one of these words: {_in_prose(words)}.",
            "",
        ]
    elif prompt.anchors:
        lines += ["| value | meaning |", "|---|---|"]
        lines += [f"| {share:g} | {_in_prose(text)} |" for share, text in reversed(prompt.anchors.items())]
        lines.append("")
    return lines


def _example_table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of examples; a column that is empty in all of them is left out."""
    rows = []
    for case in cases:
        text = case.get("text")
        params = ", ".join(f"{name}={value!r}" for name, value in (case.get("params") or {}).items())
        shown = _shown_response(text[:160]) if isinstance(text, str) else "a conversation"
        rows.append(
            (
                shown,
                _in_cell(params[:160]),
                str(case.get("value")),
                _in_cell(str(case.get("note") or "")),
            )
        )
    titles = ("response", "parameters", "value", "note")
    columns = [column for column in range(len(titles)) if any(row[column] for row in rows)]
    table = [[titles[column] for column in columns], ["---"] * len(columns)]
    table += [[row[column] for column in columns] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in table]


def _shown_response(text: str) -> str:
    """A response in a cell: with its line breaks, and with invisible characters as escapes."""
    if not text.strip():
        return "*empty*" if not text else f"`{text!r}`"
    escaped = "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)
    return "<br>".join(map(_as_text, escaped.splitlines()))


def _as_sentence(text: str) -> str:
    """The text with a capital at its beginning and a full stop at its end."""
    sentence = _in_prose(text)
    if sentence[:1].isalpha():
        sentence = sentence[0].upper() + sentence[1:]
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _in_prose(text: str) -> str:
    """A docstring as Markdown: names in backquotes are code, and the rest is shown as it is."""
    parts = re.split(r"(`[^`|]+`)", text)
    return " ".join("".join(part if part.startswith("`") else _as_text(part) for part in parts).split())


def _in_cell(text: str) -> str:
    """Text that Markdown shows as it is, inside a cell of a table."""
    return " ".join(_as_text(text).split())


def _as_text(text: str) -> str:
    # Entities and not backslashes: Python-Markdown shows the backslash before some of these characters.
    escaped = re.sub(r"[&\\`*_{}\[\]<>#|~^]", lambda match: f"&#{ord(match[0])};", text)
    return _PAGE_PATH.sub(r"[\1](../\1.md)", escaped)
