"""What the site changes in the pages: links out of docs/, and code blocks that name their file."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+(?!docs/)(?:README|CONTRIBUTING|CHANGELOG|examples|recipes|benchmarks|src)[^)]*\)"
)
_NAMED_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})(\w+)[ \t]+([\w./-]+)[ \t]*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[the recipe](../recipes/x/README.md)` reads "the recipe"; a block that begins with ```json a.jsonl is titled."""
    markdown = _OUTSIDE.sub(r"\1", markdown)
    # The tests write such a block to the file that it names; the site's parser knows a file name only as a title.
    return _NAMED_FENCE.sub(r'\1\2\3 title="\4"', markdown)
