"""Data and assets → one HTML file.

    <style> … </style>  skeleton  <script type="application/gzip"> data </script>  <script> page </script>  chunks

All data are gzip in base64, whose letters cannot end a script or begin a tag, whatever a response says. The page's
policy allows its own script and style by their hashes, and nothing else: no other script, no network.
"""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from typing import Any

from rubrank._files import atomic_write
from rubrank.records import pages
from rubrank.records.report.packing import Packed, pack

SCRIPTS = (
    "store.js",
    "search.js",
    "summary.js",
    "criteria.js",
    "sections.js",
    "evaluation.js",
    "browser.js",
    "main.js",
)
"""The report's own; those that it shares with the viewer come before."""


def asset(name: str) -> str:
    """The text of a file in assets/, the report's own or a shared one."""
    return pages.asset(name) if name in (*pages.SCRIPTS, *pages.STYLES) else pages.asset(name, "rubrank.records.report")


def script() -> str:
    """The page's JavaScript: all modules in one scope."""
    return '"use strict";\n(() => {\n' + pages.bundled(map(asset, (*pages.SCRIPTS, *SCRIPTS))) + "\n})();\n"


def write_page(output: Path, title: str, data: dict[str, Any], packed: Packed) -> int:
    """Write the file; returns its size in bytes."""
    style, code = "\n".join(map(asset, pages.STYLES)), script()
    before, after = asset("page.html").split("<!-- chunks -->")
    filled = _fill(
        before,
        title=html.escape(title),
        style=style,
        style_hash=_hash(style),
        script=code,
        script_hash=_hash(code),
        data=_base64(pack(data)),
        index=_base64(pack(packed.index)),
    )
    with atomic_write(output) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(filled)
        for number, chunk in enumerate(packed.chunks):
            file.write(f'<script type="application/gzip" id="chunk-{number}">{_base64(chunk)}</script>\n')
        file.write(after)
    return output.stat().st_size


def _fill(template: str, **values: str) -> str:
    """Put values where the template says {{name}}; each part is looked at once, so that no value is filled again."""
    first, *parts = template.split("{{")
    pieces = [first]
    for part in parts:
        name, _, rest = part.partition("}}")
        pieces += [values[name], rest]
    return "".join(pieces)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + _base64(hashlib.sha256(text.encode("utf-8")).digest())
