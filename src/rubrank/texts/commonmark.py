"""The parser of Markdown that everything here uses, and what keeps it quick.

>>> PARSER.html(bounded("# Title"))
'<h1>Title</h1>\\n'
"""

from __future__ import annotations

import re

import pyromark

PARSER = pyromark.Markdown(options=pyromark.Options.ENABLE_TABLES)

# Lines that continue thousands of containers opened on one line take the parser quadratic time. Beyond this depth the
# markers of the line are dropped; below this length no text can be slow.
_DEEPEST, _SAFE_LENGTH = 1000, 20_000
_CONTAINER = r"(?:[ \t]*+(?:>|(?:[-+*]|\d{1,9}[.)])[ \t]))"
_TOO_DEEP = re.compile(rf"((?:^|\r){_CONTAINER}{{{_DEEPEST}}}){_CONTAINER}++", re.MULTILINE)


def bounded(text: str) -> str:
    """The same Markdown without excessive depth."""
    return _TOO_DEEP.sub(r"\1", text) if len(text) > _SAFE_LENGTH else text
