"""The bundled rollouts of the demo. The file has one line per query, with its own rubric and eight responses.

    >>> groups = load_demo_groups()
    >>> groups[0].id, len(groups[0].rollouts), groups[0].rollouts[0].metadata["kind"]
    ('product-email', 8, 'excellent, a little too long')

The queries are in English and Chinese: letters, summaries, verse, mathematics, tables, tool calls, conversations. Each
response was written to show one strength or fault, which `metadata["kind"]` names; `metadata["language"]` and
`metadata["task"]` describe the query. In most groups no response is best on every criterion.
"""

from __future__ import annotations

import json
from importlib.resources import files

from rubrank.errors import only_our_errors
from rubrank.rollouts.groups import group_rows
from rubrank.rollouts.rollout import Group

_NAME = "demo_groups.jsonl"


@only_our_errors
def load_demo_groups() -> list[Group]:
    """Return all groups, in the order of the file. `parse_rubric` reads `group.rubric`."""
    text = (files("rubrank") / "cli" / "demo" / _NAME).read_text(encoding="utf-8")
    # Not splitlines(): texts may contain other line separators, such as U+2028.
    lines = text.split("\n")[:-1]
    return group_rows(map(json.loads, lines), _NAME)
