"""What the report and the viewer show groups with, written once: ES modules and style sheets in assets/.

    asset("words.js")                        the text of a file
    bundled(["numbers.js", "words.js"])      both as one script, for a page that is a single file

The viewer serves the modules as they are. The report inlines them: `import` lines go, `export` goes, and all share one
scope; so a module comes after those it imports, and no two have a top-level name in common (a test holds both).

    numbers.js  dom.js  texts.js  words.js       numbers, elements, texts, one rollout's reward in words
    exporting.js  charts.js  heat.js  matrix.js   what can be saved; plots; tables
    diff.js  rollout.js  group.js  list.js        two texts; one rollout; one group; a list of groups
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

SCRIPTS = (
    "numbers.js",
    "dom.js",
    "texts.js",
    "words.js",
    "exporting.js",
    "charts.js",
    "heat.js",
    "matrix.js",
    "diff.js",
    "rollout.js",
    "group.js",
    "list.js",
)
STYLES = ("base.css", "parts.css", "groups.css")
_IMPORT = re.compile(r"^import \{[^}]*\} from \"\./[\w.]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


@cache
def asset(name: str, package: str = "rubrank.records.pages") -> str:
    """The text of a file in a package's assets/."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def bundled(modules: Iterable[str]) -> str:
    """The texts of modules as one script."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in modules)
