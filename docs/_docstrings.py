"""What the reference adds to docstrings: a list of the parameters, and links to pages."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*|\*\*\w+): (?=\S)")
"""The line with which a parameter begins; its further lines are indented."""
_PAGE = re.compile(r"(?<![\w/\[])(?<!\]\()docs/(\w+)\.md")


class PlainDocstrings(griffe.Extension):
    """Docstrings of this project name parameters as `name: text`, which Markdown would join into one paragraph."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    """The docstring with its parameters as a list, and links to the pages that it names."""
    lines: list[str] = []
    is_in_list = False
    for line in docstring.splitlines():
        match = _PARAMETER.match(line)
        if match and (is_in_list or not lines or not lines[-1].strip()):
            names = ", ".join(f"`{name}`" for name in match[1].split(", "))
            line = f"- {names}: {line[match.end() :]}"
            is_in_list = True
        elif not line.startswith(" "):
            is_in_list = False
        lines.append(line)
    return _PAGE.sub(r"[\1](../\1.md)", "\n".join(lines))
