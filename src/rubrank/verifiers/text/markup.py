"""Is what the answer wrote valid: HTML, LaTeX, Mermaid, a cron expression?

Checks of form, not of effect: nothing is run and nothing is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Literal

from rubrank._plain import word_set
from rubrank.texts.prose import split_code
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

Kind = Literal["html", "latex", "mermaid", "cron"]
_NAMES = {
    "html": ("html", "xml", "svg"),
    "latex": ("latex", "tex", "math"),
    "mermaid": ("mermaid",),
    "cron": ("cron", "crontab"),
}
# HTML5 lets these end without a tag of their own.
_OPTIONAL = word_set("li dt dd p option tr td th thead tbody tfoot colgroup rt rp optgroup html head body")
_VOID = word_set("area base br col embed hr img input link meta source track wbr")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")
_DIAGRAM = re.compile(
    r"(?:graph|flowchart)\s+(?:TB|TD|BT|RL|LR)\b|sequenceDiagram\b|classDiagram\b|stateDiagram(?:-v2)?\b|erDiagram\b"
    r"|gantt\b|pie\b|journey\b|gitGraph\b|mindmap\b|timeline\b|quadrantChart\b|requirementDiagram\b|C4\w+\b"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAYS))
_SHORTCUTS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@reboot")


@verifier("ValidMarkup", family="format", domain=BINARY, version=1)
def valid_markup(text: Text, *, kind: Kind) -> Answer:
    """The HTML, LaTeX, Mermaid or cron expression of the answer is well-formed.

    Looked at: the last code fence of that kind, else the whole answer. Passes: <p>a<br><li>b (HTML5 closes it);
    \\begin{a}…\\end{a} with balanced braces; "graph TD" and lines with balanced brackets; "*/5 9-17 * * mon-fri".
    Fails: </b> that nothing opened, <b> that nothing closes; braces or environments that cross; a diagram of no known
    kind; a field out of range. Missing: nothing of that kind in the answer. Not covered: unknown commands and tags.
    """
    found = _found(text.raw, kind)
    if not found.strip():
        return missing("the answer is empty") if not text.raw.strip() else (False, f"no {kind} in the answer")
    wrong = {"html": _html, "latex": _latex, "mermaid": _mermaid, "cron": _cron}[kind](found)
    return wrong is None, wrong or f"well-formed {kind}"


def _found(raw: str, kind: Kind) -> str:
    fences = [(tag.lower(), code) for tag, code in split_code(raw)[1]]
    named = [code for name, code in fences if name in _NAMES[kind]]
    if named:
        return named[-1]
    plain = [code for name, code in fences if not name]
    if plain:
        return plain[-1]
    return raw.strip().strip("`") if kind == "cron" else raw


class _Tags(HTMLParser):
    """Tags that are open, and the first one that does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: str | None = None
        self.seen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen += 1
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen += 1

    def handle_endtag(self, tag: str) -> None:
        self.seen += 1
        if self.wrong or tag in _VOID:
            return
        while self.open and self.open[-1] != tag and self.open[-1] in _OPTIONAL:
            self.open.pop()
        if not self.open or self.open[-1] != tag:
            self.wrong = f"</{tag}> closes nothing" if tag not in self.open else f"</{tag}> crosses <{self.open[-1]}>"
            return
        self.open.pop()


def _html(text: str) -> str | None:
    parser = _Tags()
    parser.feed(text)
    parser.close()
    if parser.wrong:
        return parser.wrong
    left = [tag for tag in parser.open if tag not in _OPTIONAL]
    if left:
        return f"<{left[-1]}> is never closed"
    return None if parser.seen else "there is no tag"


def _latex(text: str) -> str | None:
    body = re.sub(r"(?<!\\)%[^\n]*", "", text)
    body = re.sub(r"\\\\", " ", body)
    depth = 0
    for sign in re.findall(r"(?<!\\)[{}]", body):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return "a } that nothing opens"
    if depth:
        return "a { that nothing closes"
    stack: list[str] = []
    for what, name in _ENVIRONMENT.findall(body):
        if what == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return f"\\end{{{name}}} does not close what is open"
    if stack:
        return f"\\begin{{{stack[-1]}}} is never ended"
    if len(re.findall(r"(?<!\\)\$", body)) % 2:
        return "a $ without its partner"
    lefts, rights = len(re.findall(r"\\left\b", body)), len(re.findall(r"\\right\b", body))
    if lefts != rights:
        return "\\left without \\right"
    return None if re.search(r"\\[A-Za-z]+|\$|[{}^_]", body) else "there is no LaTeX"


def _mermaid(text: str) -> str | None:
    lines = [line for line in text.strip().split("\n") if line.strip() and not line.strip().startswith("%%")]
    if lines and lines[0].strip() == "---":
        ends = [i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"]
        lines = lines[ends[0] + 1 :] if ends else lines
    if not lines or not _DIAGRAM.match(lines[0].strip()):
        return "the first line names no kind of diagram"
    if len(lines) < 2 and not lines[0].strip().startswith("pie"):
        return "there is nothing in the diagram"
    quoted = re.sub(r"\"[^\"\n]*\"", "", "\n".join(lines[1:]))
    if lines[0].strip().split()[0] in ("graph", "flowchart"):
        return _brackets(quoted)
    return None


def _brackets(text: str) -> str | None:
    pairs, stack = {")": "(", "]": "[", "}": "{"}, []
    for sign in re.sub(r">(?=[^\]\n]*\])|<?[-=.]+[>xo]?", "", text):
        if sign in "([{":
            stack.append(sign)
        elif sign in pairs and (not stack or stack.pop() != pairs[sign]):
            return f"a {sign} that nothing opens"
    return f"a {stack[-1]} that nothing closes" if stack else None


def _cron(text: str) -> str | None:
    lines = [line.strip() for line in text.strip().split("\n") if line.strip() and not line.strip().startswith("#")]
    if len(lines) != 1:
        return "not one expression"
    if lines[0].lower() in _SHORTCUTS:
        return None
    fields = lines[0].split()
    if len(fields) != len(_FIELDS):
        return f"{len(fields)} fields instead of 5"
    for number, (value, (low, high, names)) in enumerate(zip(fields, _FIELDS, strict=True), 1):
        if not all(_cron_part(part, low, high, names) for part in value.lower().split(",")):
            return f"field {number} is {value[:30]!r}"
    return None


def _cron_part(part: str, low: int, high: int, names: Sequence[str]) -> bool:
    span, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 0 < int(step[:9]) <= high):
        return False
    if span in ("*", "?"):
        return span == "*" or not slash
    ends = span.split("-")
    values = [_cron_value(end, low, names) for end in ends]
    if len(ends) > 2 or None in values or (slash and len(ends) == 1 and step == ""):
        return False
    numbers = [value for value in values if value is not None]
    return all(low <= n <= high for n in numbers) and numbers == sorted(numbers)


def _cron_value(text: str, low: int, names: Sequence[str]) -> int | None:
    if text in names:
        return list(names).index(text) + (1 if low == 1 else 0)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None
