"""Make the page on which `rubrank view rubrics.jsonl` shows drafted rubrics beside their prompts.

    drafts = read_drafts("rubrics.jsonl")
    make_page(drafts, 0)                 HTML: the first prompt, its criteria, where they come from, what was measured
    make_offline_page(drafts, …)         HTML: all prompts in one page, for `rubrank report rubrics.jsonl`

Words that the page and the rows of the file use:

    item        a criterion of the draft with its origin, its figures, and the decision to keep or drop it
    evidence    the words of the prompt that state a criterion; they are marked in the prompt
    writer      a model that writes items (`writers.py`)
    breaker     a writer whose text fulfils the items without being a good answer; it shows whether a policy could get a
                high reward in the same way
    figures     what judges' grades of known responses say about an item (`keep.py`)

The page is plain HTML. In the offline page the style sheet shows the prompt that the address names (`#row-3`), or the
first; a few lines of script mark its link in the list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.tables.sources import read_rows

_LONGEST_LINE = 70  # characters of a prompt in the list
_MOST_LISTED = 500  # prompts that the list shows around the chosen one
# Gives the link of the shown prompt the attribute by which the style sheet makes it bold.
OFFLINE_SCRIPT = """
function markLink() {
  const shown = document.querySelector("main:target") || document.querySelector("main");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${shown.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
addEventListener("load", markLink);
addEventListener("hashchange", markLink);
"""
# Names of the figures in the file → how the page calls them.
_FIGURE_HEADINGS = {
    # share of the pairs of responses that have different scores
    "decided": "pairs decided",
    # agreement of a judge with itself
    "kappa": "κ when asked again",
    # Does a rewrite of the best response that violates the item get a lower score?
    "enforced": "violation caught",
    # rank correlation of the scores with how good, how long, and how much formatted the responses are
    "strength": "τ with strength",
    "length": "τ with length",
    "markdown": "τ with Markdown",
}
# Fields of an item that say where it comes from, and how they are shown.
_ORIGIN_TEXTS = {
    "evidence": "“{}”",
    "writer": "writer {}",
    "model": "model {}",
    "prompt_version": "prompt version {}",
    "began": "since training step {}",
    "retired": "retired at step {}",
}


def is_draft_file(path: Path) -> bool:
    """Does the file hold rows that `rubrank draft` or `rubrank evolve` wrote?"""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        first_line = file.readline()
    try:
        row = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(row, dict) and "draft" in row and "rubric" in row


def read_drafts(path: Path) -> list[Mapping[str, Any]]:
    """Read the rows of a drafted file. Raises InvalidInput for a row that has no draft."""
    drafts = []
    for number, row in enumerate(read_rows(str(path)), start=1):
        draft = row.get("draft")
        if not isinstance(draft, Mapping) or not isinstance(draft.get("items"), list):
            raise InvalidInput(
                f"{path}: row {number}",
                "draft",
                allowed="with the items of a draft",
                got="none",
                remedy="Only files that `rubrank draft` wrote can be shown as drafts.",
            )
        drafts.append(row)
    return drafts


def read_style() -> str:
    """Return the style sheet of the page."""
    return (files("rubrank") / "drafting" / "data" / "page.css").read_text(encoding="utf-8")


def make_page(drafts: Sequence[Mapping[str, Any]], number: int) -> str:
    """Return the page with one draft in full, and links to the others.

    number: index of the draft, from 0; the page and its links count from 1.
    """
    # The list is a window of at most _MOST_LISTED prompts around the chosen one, shifted at both ends of the file.
    first = max(0, min(number - _MOST_LISTED // 2, len(drafts) - _MOST_LISTED))
    listed = range(first, min(len(drafts), first + _MOST_LISTED))
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Drafted rubrics</title>"
        '<meta name=viewport content="width=device-width"><link rel=stylesheet href="/draft.css">',
        f"<nav aria-label=Prompts><h1>Drafted rubrics</h1>{_list_prompts(drafts, listed, number, '/?row=')}</nav>",
        f"<main>{_show_draft(drafts, number)}</main></html>",
    ]
    return "".join(parts)


def make_offline_page(drafts: Sequence[Mapping[str, Any]], title: str, policy: str) -> str:
    """Return the page with all drafts, which needs no server. policy: its content security policy."""
    links = _list_prompts(drafts, range(len(drafts)), 0, "#row-")
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f'<meta name=viewport content="width=device-width"><link rel=icon href="data:,"><style>{read_style()}</style>',
        f"<nav aria-label=Prompts><h1>{escape(title)}</h1>{links}</nav>",
    ]
    parts += [f"<main id=row-{n + 1}>{_show_draft(drafts, n)}</main>" for n in range(len(drafts))]
    parts.append(f"<script>{OFFLINE_SCRIPT}</script></html>")
    return "\n".join(parts)


def _show_draft(drafts: Sequence[Mapping[str, Any]], number: int) -> str:
    """Return the HTML of one prompt and its rubric. number: index of the draft, from 0."""
    row = drafts[number]
    draft = row["draft"]
    items = draft["items"]
    count = sum(bool(item.get("kept", True)) for item in items)
    facts = [f"task {draft.get('task', 'unknown')}", f"{count} of {len(items)} criteria kept"]
    if draft.get("breaker_wins") is not None:
        facts.append(f"the breaker's text beats {draft['breaker_wins']:.0%} of the responses")
    if draft.get("prompt_version"):
        facts.append(f"writers' prompts version {draft['prompt_version']}")
    parts = [
        f"<section class=prompt><h2>Prompt {number + 1} of {len(drafts)}</h2>",
        f"<div class=text>{_mark_evidence(str(row.get('prompt', '')), items)}</div></section>",
        f"<section class=rubric><h2>Rubric</h2><p class=facts>{escape('; '.join(facts))}</p>",
        _make_table(row, items),
    ]
    if draft.get("breaker"):
        text = escape(str(draft["breaker"]))
        parts.append(
            "<h3>The breaker's text</h3><p>A model wrote it to fulfil the items without a good answer.</p>"
            f"<div class=text>{text}</div>"
        )
    if draft.get("problems"):
        entries = "".join(f"<li>{escape(str(problem))}" for problem in draft["problems"])
        parts.append(f"<h3>What went wrong</h3><ul>{entries}</ul>")
    parts.append("</section>")
    return "".join(parts)


def _list_prompts(
    drafts: Sequence[Mapping[str, Any]], listed: range, chosen: int, link: str
) -> str:
    """Return a list of links to prompts, which shows their first lines.

    listed: indices of the prompts. chosen: index of the one that is shown.
    link: the address of a prompt without its number, such as "/?row=".
    """
    entries = []
    for number in listed:
        row = drafts[number]
        lines = str(row.get("prompt", "")).strip().splitlines() or [""]
        dropped = sum(not item.get("kept", True) for item in row["draft"]["items"])
        note = f" <small>{dropped} dropped</small>" if dropped else ""
        current = " aria-current=page" if number == chosen else ""
        line = lines[0]
        if len(line) > _LONGEST_LINE:
            line = line[:_LONGEST_LINE].rstrip() + "…"
        position = number + 1
        entries.append(
            f'<li value={position}><a href="{link}{position}"{current}>{escape(line)}</a>{note}'
        )
    return f"<ol>{''.join(entries)}</ol>"


def _mark_evidence(prompt: str, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the prompt as HTML, with the words that state criteria marked; overlapping marks are joined."""
    spans = []
    for item in items:
        evidence = str(item.get("evidence", "")).strip()
        start = prompt.find(evidence) if evidence else -1
        if start >= 0:
            spans.append((start, start + len(evidence)))
    pieces = []
    position = 0
    for start, end in sorted(spans):
        start = max(start, position)  # an earlier mark may cover the beginning
        if end > start:
            pieces.append(
                f"{escape(prompt[position:start])}<mark>{escape(prompt[start:end])}</mark>"
            )
            position = end
    pieces.append(escape(prompt[position:]))
    return "".join(pieces)


def _make_table(row: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
    """Return the table with a line for each item: its criterion, its origin, its figures, and the decision.

    `tables/html.py` makes tables of plain texts for notebooks; the cells of this one hold HTML.
    """
    rubric = row.get("rubric")
    criteria = rubric.get("criteria", []) if isinstance(rubric, Mapping) else []
    criterion_of_name = {
        criterion.get("name"): criterion for criterion in criteria if isinstance(criterion, Mapping)
    }
    lines = []
    for item in items:
        # A dropped item holds its criterion itself; that of a kept one is in the rubric.
        criterion = item.get("criterion") or criterion_of_name.get(item.get("name")) or {}
        is_kept = bool(item.get("kept", True))
        decision = "kept" if is_kept else f"dropped: {item.get('reason', '')}"
        figures = []
        for name, value in (item.get("figures") or {}).items():
            if isinstance(value, bool):
                value = "yes" if value else "no"
            elif isinstance(value, int | float):
                value = f"{value:g}"
            if value is not None:
                figures.append(f"{_FIGURE_HEADINGS.get(name, name)}: {value}")
        origin = [str(item.get("step", ""))]
        for key, text in _ORIGIN_TEXTS.items():
            if item.get(key) not in (None, ""):
                origin.append(text.format(str(item[key]).strip()))
        origin += [f"also asked as: {question}" for question in item.get("merged_with", [])]
        cells = [
            _describe_criterion(item, criterion),
            _join_lines(origin),
            _join_lines(figures),
            escape(decision),
        ]
        # HTML allows leaving out the end tags of cells and rows.
        lines.append(f"<tr class={'kept' if is_kept else 'dropped'}><td>{'<td>'.join(cells)}")
    header = (
        "<tr><th scope=col>criterion<th scope=col>where it comes from"
        "<th scope=col>figures<th scope=col>decision"
    )
    return f"<table><thead>{header}</thead><tbody>{''.join(lines)}</tbody></table>"


def _join_lines(lines: Sequence[str]) -> str:
    """Return the HTML of lines below each other; the lines are escaped here."""
    return "<br>".join(escape(line) for line in lines)


def _describe_criterion(item: Mapping[str, Any], criterion: Mapping[str, Any]) -> str:
    """Return the HTML of a criterion: its name, its question or verifier, and its points."""
    parts = [f"<b>{escape(str(item.get('name', '')))}</b>"]
    if criterion.get("question"):
        parts.append(escape(str(criterion["question"])))
    elif criterion.get("verifier") and criterion["verifier"] != "judge":
        params = json.dumps(criterion.get("params", {}), ensure_ascii=False)
        parts.append(f"<code>{escape(str(criterion['verifier']))} {escape(params)}</code>")
    details = []
    if criterion.get("points") is not None:
        details.append(f"{criterion['points']:+g} points")
    if criterion.get("category"):
        details.append(str(criterion["category"]))
    if criterion.get("depends"):
        names = [
            str(entry.get("on")) if isinstance(entry, Mapping) else str(entry)
            for entry in criterion["depends"]
        ]
        details.append(f"depends on {', '.join(names)}")
    if details:
        parts.append(f"<small>{escape('; '.join(details))}</small>")
    return "<br>".join(parts)
