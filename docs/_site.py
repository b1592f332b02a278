"""What the site does with links out of docs/: files of the repository are named, not linked."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+(?!docs/)(?:README|CONTRIBUTING|CHANGELOG|examples|recipes|benchmarks|src)[^)]*\)"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[the recipe](../recipes/x/README.md)` reads "the recipe" on the site."""
    return _OUTSIDE.sub(r"\1", markdown)
